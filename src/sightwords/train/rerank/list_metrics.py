"""What each sentence of M-best lists is worth: CIDEr-D, METEOR and BLEU's statistics.

    Lists + the images' captions -> ListMetrics, one row a hypothesis

The metrics are those of `sightwords.metrics`, computed in blocks of images, in several processes
where asked: 2.5 million sentences take minutes. Candidates are tokens already; captions go through
the COCO tokeniser. CIDEr's document frequencies are those of the captions given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

import numpy as np
import numpy.typing as npt

from sightwords.corpus.ids import canonical_id
from sightwords.errors import InputError
from sightwords.metrics.bleu import statistics_of
from sightwords.metrics.cider import CiderIdf, scores_of
from sightwords.metrics.meteor import meteor
from sightwords.metrics.ngrams import Tokens
from sightwords.metrics.score import Comparison
from sightwords.text.ptb import tokenize_file
from sightwords.train.rerank.lists import Lists, in_chunks

CHUNK = 512
"""Images handed to a process at a time."""
Float32 = npt.NDArray[np.float32]
References = Sequence[Sequence[Tokens]]


@dataclass(frozen=True, eq=False)
class ListMetrics:
    """One row for each of the H hypotheses of some lists, in their order."""

    cider: Float32
    """(H,) CIDEr-D."""
    bleu: npt.NDArray[np.int16]
    """(H, 10) statistics that add up to corpus BLEU (`BleuStatistics.as_columns`)."""
    meteor: Float32 | None = None
    """(H,) METEOR of the sentence; None where it was not asked for."""


def references_of(lists: Lists, captions: Mapping[str, Sequence[str]]) -> list[list[Tokens]]:
    """Tokenised captions of each image of the lists, from captions by image id."""
    known = {canonical_id(name): texts for name, texts in captions.items()}
    missing = [name for name in lists.ids.tolist() if not known.get(name)]
    if missing:
        raise InputError(
            f"{len(missing)} of {len(lists)} images have no captions, the first {missing[0]!r}; "
            "give captions of every image, or lists of fewer"
        )
    groups = [known[name] for name in lists.ids.tolist()]
    # All captions as one file, as the COCO tools write it: see `tokenize_file`.
    tokens = iter(tokenize_file([caption for group in groups for caption in group]))
    return [[tuple(next(tokens)) for _ in group] for group in groups]


def measure(
    lists: Lists,
    references: References,
    *,
    idf: CiderIdf | None = None,
    with_meteor: bool = False,
    processes: int = 1,
) -> ListMetrics:
    """Every hypothesis against its image's references."""
    idf = idf or CiderIdf.of(references)
    chunks = list(in_chunks(len(lists), CHUNK))
    parts = [lists.select(np.arange(r.start, r.stop)) for r in chunks]
    groups = [references[r.start : r.stop] for r in chunks]
    if processes <= 1:
        _take(idf, with_meteor)
        rows = list(map(_measure, parts, groups))
    else:
        with ProcessPoolExecutor(
            processes, get_context("spawn"), _take, (idf, with_meteor)
        ) as pool:
            rows = list(pool.map(_measure, parts, groups))
    return ListMetrics(
        np.concatenate([row.cider for row in rows]),
        np.concatenate([row.bleu for row in rows]),
        np.concatenate([m for row in rows if (m := row.meteor) is not None])
        if with_meteor
        else None,
    )


_settings: tuple[CiderIdf, bool] | None = None  # of this process


def _take(idf: CiderIdf, with_meteor: bool) -> None:
    global _settings  # noqa: PLW0603  # sent once a process, not once a chunk
    _settings = (idf, with_meteor)


def _measure(lists: Lists, references: References) -> ListMetrics:
    assert _settings is not None
    idf, with_meteor = _settings
    candidates = [lists.sentences(image) for image in range(len(lists))]
    return ListMetrics(
        scores_of(candidates, references, idf=idf).astype(np.float32),
        statistics_of(candidates, references).as_columns().astype(np.int16),
        _meteor(candidates, references) if with_meteor else None,
    )


def _meteor(candidates: Sequence[Sequence[Tokens]], references: References) -> Float32:
    found: list[Float32] = []
    for mine, theirs in zip(candidates, references, strict=True):
        pairs = Comparison(
            tuple(str(i) for i in range(len(mine))), tuple(mine), (tuple(theirs),) * len(mine)
        )
        found.append(meteor(pairs).per_image.astype(np.float32))
    return np.concatenate(found)
