"""Word scores of many images and a language model -> their M-best lists, in several processes.

Needs neither torch nor numba: numpy alone finds the lists of some 30 images a second and core.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sightwords.config import GenerationConfig
from sightwords.errors import InputError
from sightwords.language.generate import Backend, Generator
from sightwords.language.maxent import MaxEnt
from sightwords.text.vocabulary import Vocabulary
from sightwords.text.vocabulary_file import load_vocabulary
from sightwords.train.language.data import Detections
from sightwords.train.rerank.lists import Lists, in_chunks, offered_words, starts_of
from sightwords.words.artefact import VOCABULARY_NAME
from sightwords.words.calibration import Calibration

CHUNK = 32
"""Images handed to a process at a time."""

LIKELIEST = 20
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Offered:
    """Detected words of one image: content words that the language model knows."""

    ids: npt.NDArray[np.int64]
    """(D,) ascending."""
    probs: npt.NDArray[np.float32]
    """(D,)"""
    precisions: npt.NDArray[np.float32]
    """(D,)"""
    offered: npt.NDArray[np.bool_]
    """(D,) which of them the language model is offered; the others serve re-ranking alone."""


@dataclass(frozen=True)
class _Found:
    """The lists of a chunk of images."""

    counts: list[int]
    lengths: npt.NDArray[np.uint8]
    tokens: npt.NDArray[np.uint16]
    log_probs: npt.NDArray[np.float32]
    coverage: list[int]


def detected_words(
    detections: Detections,
    vocabulary: Vocabulary,
    *,
    minimum_prob: float,
    precisions: npt.NDArray[np.float32] | None = None,
) -> list[Offered]:
    """The words of each image, as the pipeline offers them.

    `detections` may hold words below `minimum_prob`: they are kept, but not offered, unless the
    image has fewer than three others. `precisions` (D,) belong to the detections.
    """
    closed = vocabulary.closed_class
    usable = np.array([vocabulary.ids.get(w, -1) if w not in closed else -1
                       for w in detections.words], dtype=np.int64)  # fmt: skip
    ids = usable[detections.columns]
    kept = np.flatnonzero(ids >= 0)
    kept = kept[np.lexsort((ids[kept], detections.rows[kept]))]
    rows, ids = detections.rows[kept], ids[kept]
    probs = np.clip(detections.probs[kept].astype(np.float32), 0, 1)
    worth = probs if precisions is None else precisions[kept].astype(np.float32)
    ends = np.searchsorted(rows, np.arange(len(detections.names) + 1))
    return [
        Offered(ids[a:b], probs[a:b], worth[a:b], offered_words(probs[a:b], minimum_prob))
        for a, b in pairwise(ends.tolist())
    ]


def worth_keeping(image_probs: npt.NDArray[np.float32], least: float) -> npt.NDArray[np.bool_]:
    """(N, V) words of at least this probability, and in any case the likeliest 20 of each image.

    So few may be likely, or closed-class, that the three to be offered are among the improbable.

    >>> worth_keeping(np.array([[0.5, 0.1, 0.0]], dtype=np.float32), 0.2).tolist()
    [[True, True, True]]
    """
    kept = image_probs >= least
    top = np.argsort(-image_probs, axis=1, kind="stable")[:, :LIKELIEST]
    np.put_along_axis(kept, top, True, axis=1)
    return kept


def with_precisions(lists: Lists, detector: str | os.PathLike[str]) -> Lists:
    """The same lists, their words with the precisions of a detector's calibration."""
    calibration = Calibration.load(detector)
    place = load_vocabulary(Path(detector) / VOCABULARY_NAME).ids
    precisions = np.empty(len(lists.word_ids), dtype=np.float32)
    for number in np.unique(lists.word_ids).tolist():
        word = lists.words[number]
        if word not in place:
            raise InputError(
                f"{detector}: does not know {word!r}, which the lists have as a detected word; "
                "give the detector that they were made with"
            )
        row, mine = place[word], lists.word_ids == number
        precisions[mine] = np.interp(
            lists.word_probs[mine], calibration.scores[row], calibration.precisions[row]
        )
    return replace(lists, word_precisions=precisions)


def make_lists(
    names: Sequence[str],
    words: Sequence[Offered],
    language: str | os.PathLike[str],
    config: GenerationConfig,
    *,
    splits: Sequence[str] | str = "",
    minimum_prob: float = 0.15,
    processes: int = 1,
    backend: Backend = "auto",
    progress: Progress | None = None,
) -> Lists:
    """Search for the M-best sentences of every image."""
    for name, image in zip(names, words, strict=True):
        if not image.offered.any():
            raise InputError(
                f"image {name!r} has no detected word that the language model knows; leave it out, "
                "or give word scores with lower probabilities"
            )
    jobs = [
        [
            (image.ids[image.offered], image.probs[image.offered])
            for image in words[r.start : r.stop]
        ]
        for r in in_chunks(len(words), CHUNK)
    ]
    parts: list[_Found] = []
    for part in _run(jobs, language, config, backend, processes):
        parts.append(part)
        if progress:
            progress(sum(len(p.counts) for p in parts), len(words))
    vocabulary = MaxEnt.load(language).vocabulary
    return Lists(
        ids=np.array(list(names)),
        splits=np.array([splits] * len(names) if isinstance(splits, str) else list(splits)),
        words=vocabulary.words,
        word_offsets=starts_of(np.array([len(image.ids) for image in words])),
        word_ids=np.concatenate([image.ids for image in words]).astype(np.uint16),
        word_probs=np.concatenate([image.probs for image in words]),
        word_precisions=np.concatenate([image.precisions for image in words]),
        offsets=starts_of(np.array([n for part in parts for n in part.counts])),
        token_offsets=starts_of(np.concatenate([part.lengths for part in parts])),
        tokens=np.concatenate([part.tokens for part in parts]),
        log_probs=np.concatenate([part.log_probs for part in parts]),
        coverage=np.array([t for part in parts for t in part.coverage], dtype=np.uint8),
        minimum_prob=minimum_prob,
        closed_class=vocabulary.closed_class,
    )


def without_words(names: Sequence[str], words: Sequence[Offered]) -> list[str]:
    """The images in which nothing was detected."""
    return [name for name, image in zip(names, words, strict=True) if not image.offered.any()]


Job = Sequence[tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]]
_generator: Generator | None = None  # of this process


def _run(
    jobs: Iterable[Job],
    language: str | os.PathLike[str],
    config: GenerationConfig,
    backend: Backend,
    processes: int,
) -> Iterator[_Found]:
    if processes <= 1:
        _load(language, config, backend)
        yield from map(_search, jobs)
        return
    # Spawned, not forked: a fork would copy locks that other threads hold.
    with ProcessPoolExecutor(
        processes, get_context("spawn"), _load, (language, config, backend)
    ) as pool:
        yield from pool.map(_search, jobs)


def _load(language: str | os.PathLike[str], config: GenerationConfig, backend: Backend) -> None:
    global _generator  # noqa: PLW0603  # one model a process, loaded once
    _generator = Generator.load(language, config, backend=backend)


def _search(job: Job) -> _Found:
    assert _generator is not None
    vocabulary = _generator.model.vocabulary
    counts, coverage = [], []
    sentences: list[list[int]] = []
    log_probs: list[float] = []
    for ids, probs in job:
        named: Mapping[str, float] = {
            vocabulary.words[i]: float(p) for i, p in zip(ids.tolist(), probs, strict=True)
        }
        found = _generator.sentences(named).m_best
        counts.append(len(found.hypotheses))
        coverage.append(found.coverage)
        sentences += [vocabulary.encode(h.tokens) for h in found.hypotheses]
        log_probs += [h.log_prob for h in found.hypotheses]
    return _Found(
        counts,
        np.array([len(s) for s in sentences], dtype=np.uint8),
        np.array([t for s in sentences for t in s], dtype=np.uint16),
        np.array(log_probs, dtype=np.float32),
        coverage,
    )
