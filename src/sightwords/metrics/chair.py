"""CHAIR: how often captions name objects that are not in the image (Rohrbach et al., EMNLP 2018).

`Comparison` + objects of each image -> two `Score`s, both better when lower:

    chair_s = captions that name an object which is not there / captions
    chair_i = mentions of objects which are not there / mentions of objects

An object is there if it has a box or if one of the references names it. Every mention counts, as
in the authors' code. Deviation: the words of each class are a table of our own (`metrics.objects`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from sightwords.errors import ScoreError
from sightwords.metrics.objects import Objects, coco_objects
from sightwords.metrics.score import Comparison, Score, Sums, signature


def chair(
    pairs: Comparison, boxes: Mapping[str, Sequence[str]], objects: Objects | None = None
) -> tuple[Score, Score]:
    """Share of captions, and of object mentions, that name what is not there.

    `boxes`: the classes of the objects in each image, by image id. An image without objects has an
    empty list; one that has no entry does not count.

    >>> pairs = Comparison.of({"1": "a dog and a cat"}, {"1": ["two dogs in a car"]})
    >>> [(score.metric, score.value) for score in chair(pairs, {"1": ["dog"]})]
    [('chair_s', 1.0), ('chair_i', 0.5)]
    """
    table = objects or coco_objects()
    _check(pairs, boxes, table)
    counted = np.array([image in boxes for image in pairs.ids], dtype=np.float64)
    invented, named = _counts(pairs, boxes, table)
    wrong = (invented > 0).astype(np.float64)
    sums = {"chair_s": np.stack([wrong, counted], 1), "chair_i": np.stack([invented, named], 1)}
    told = {"objects": len(table.classes), "truth": "boxes+references", "with-boxes": _n(counted)}
    first, second = (
        Score(
            metric,
            float(share(rows.sum(axis=0))),
            share(rows),
            signature(metric, pairs, **told),
            Sums(rows, share),
        )
        for metric, rows in sums.items()
    )
    return first, second


def invented_objects(
    caption: Sequence[str],
    references: Sequence[Sequence[str]],
    boxes: Sequence[str],
    objects: Objects | None = None,
) -> list[str]:
    """The objects of one caption that are not in its image, one entry per mention.

    >>> invented_objects("a dog and a cat".split(), ["two dogs in a car".split()], ["dog"])
    ['cat']
    """
    table = objects or coco_objects()
    there = set(boxes).union(*(table.named(reference) for reference in references))
    return [name for name in table.named(caption) if name not in there]


def share(sums: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """(..., 2) what is wrong and what is counted -> (...) their ratio; 0 where nothing counts."""
    wrong, counted = sums[..., 0], sums[..., 1]
    found: npt.NDArray[np.float64] = np.divide(
        wrong, counted, out=np.zeros_like(wrong), where=counted > 0
    )
    return found


def _counts(
    pairs: Comparison, boxes: Mapping[str, Sequence[str]], table: Objects
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """(N,) mentions of objects that are not there, and of all objects."""
    found = np.zeros((len(pairs.ids), 2))
    rows = zip(pairs.ids, pairs.candidates, pairs.references, strict=True)
    for row, (image, said, references) in zip(found, rows, strict=True):
        if image in boxes:
            row[0] = len(invented_objects(said, references, boxes[image], table))
            row[1] = len(table.named(said))
    return found[:, 0], found[:, 1]


def _n(counted: npt.NDArray[np.float64]) -> int:
    return int(counted.sum())


def _check(pairs: Comparison, boxes: Mapping[str, Sequence[str]], table: Objects) -> None:
    shared = [image for image in pairs.ids if image in boxes]
    if not shared:
        raise ScoreError(
            f"none of {len(pairs.ids)} images (first: {pairs.ids[0]!r}) is among the images with "
            f"boxes (first: {next(iter(boxes), None)!r}); check that both use the same image ids"
        )
    for image in shared:
        for name in boxes[image]:
            if name not in table.classes:
                raise ScoreError(
                    f"the boxes of image {image!r} name {name!r}, which the table of objects does "
                    "not have; give a table of these classes (--set objects=FILE)"
                )
