"""What captions are judged by: human captions by image, from any corpus, and objects by image."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from sightwords.corpus import open_corpus
from sightwords.corpus.ids import canonical_id, canonical_ids
from sightwords.errors import ScoreError
from sightwords.evaluate.results import read_text
from sightwords.strict_json import loads, reason_of
from sightwords.types import ImageRef

log = logging.getLogger(__name__)


References = str | Path | Mapping[str, Sequence[str]]
"""A file of any corpus, or captions by image id."""

BOX_FORMS = 'COCO\'s instances JSON, or {"image id": ["dog", "car"]}, or lists of {"label": "dog"}'


def load_references(references: References) -> dict[str, tuple[str, ...]]:
    """References by canonical image id, from a file or a mapping."""
    if isinstance(references, (str, Path)):
        return read_references(references)
    ids = canonical_ids(references, where="references")
    return {ids[str(key)]: tuple(captions) for key, captions in references.items()}


def read_references(source: str | Path) -> dict[str, tuple[str, ...]]:
    """Captions by canonical image id, in the order of the corpus.

    What the corpus reader could not use is counted and logged, with the first of it by name.
    """
    corpus = open_corpus(str(source))
    by_id = {example.id: example.captions for example in corpus}
    problems = corpus.problems
    if len(problems):
        log.warning(
            "%s: %d problems in the references (first: %s)",
            source,
            len(problems),
            next(iter(problems)),
        )
    if not by_id:
        raise ScoreError(f"{source}: no captioned image in it; expected references")
    ids = canonical_ids(by_id, where=str(source))
    return {ids[key]: captions for key, captions in by_id.items()}


def find_images(source: str | Path, ids: Collection[str]) -> dict[str, ImageRef]:
    """The images of some ids, in a second pass, so that a whole corpus is never held in memory."""
    wanted = set(ids)
    found: dict[str, ImageRef] = {}
    for example in open_corpus(str(source)):
        key = canonical_id(example.id)
        if key in wanted and example.image is not None:
            found[key] = example.image
            if len(found) == len(wanted):
                break
    return found


def read_boxes(path: str | Path) -> dict[str, tuple[str, ...]]:
    """Read the classes of the objects in each image, by image id; `.gz` is unpacked.

    COCO's instances file lists images, annotations and categories; images without annotations have
    no objects.
    """
    where, text = str(path), read_text(path)
    try:
        content = loads(text)
    except ValueError as error:
        raise ScoreError(f"{where}: is not JSON: {reason_of(error)}") from error
    if not isinstance(content, Mapping):
        raise ScoreError(f"{where}: is a {type(content).__name__}; expected {BOX_FORMS}")
    found = (
        _of_instances(content, where) if "annotations" in content else _of_mapping(content, where)
    )
    ids = canonical_ids(found, where=where)
    return {ids[key]: labels for key, labels in found.items()}


def _of_mapping(content: Mapping[str, Any], where: str) -> dict[str, tuple[str, ...]]:
    found = {}
    for image, objects in content.items():
        if not isinstance(objects, Sequence) or isinstance(objects, str):
            raise ScoreError(f"{where}: image {image!r} has {objects!r:.60}; expected {BOX_FORMS}")
        labels = [o.get("label") if isinstance(o, Mapping) else o for o in objects]
        if not all(isinstance(label, str) for label in labels):
            raise ScoreError(f"{where}: image {image!r} has {objects!r:.60}; expected {BOX_FORMS}")
        found[image] = tuple(map(str, labels))
    return found


def _of_instances(content: Mapping[str, Any], where: str) -> dict[str, tuple[str, ...]]:
    try:
        names = {row["id"]: str(row["name"]) for row in content["categories"]}
        found: dict[str, list[str]] = {str(row["id"]): [] for row in content["images"]}
        for row in content["annotations"]:
            found[str(row["image_id"])].append(names[row["category_id"]])
    except (KeyError, TypeError) as error:
        raise ScoreError(f"{where}: {error!r} is missing; expected {BOX_FORMS}") from error
    return {image: tuple(labels) for image, labels in found.items()}
