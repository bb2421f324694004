"""Detected words for language training: images -> the likeliest words of each, in one small file.

Stage: input of section 4.1. Forty words an image hold every word above the attribute threshold
in practice (19 on average), at a fiftieth of the size of all scores.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sightwords.corpus.ids import canonical_id
from sightwords.errors import CorpusError
from sightwords.files import atomic_path
from sightwords.train.words.calibration import scored_images
from sightwords.types import Example, FloatArray
from sightwords.words.detector import Detector

TOP = 40
Places = npt.NDArray[np.uint16]
Halves = npt.NDArray[np.float16]


@dataclass(frozen=True)
class TopWords:
    """The likeliest words of some images; `language.data.read_detections` reads the file."""

    ids: tuple[str, ...]
    """Canonical."""
    words: tuple[str, ...]
    """Of the detector."""
    indices: Places
    """(N, T) places in `words`, the likeliest first."""
    probs: Halves
    """(N, T)"""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write `.npz`, whole or not at all."""
        with atomic_path(path) as temporary, temporary.open("wb") as stream:
            np.savez_compressed(
                stream,
                ids=np.array(self.ids, dtype=np.str_),
                words=np.array(self.words, dtype=np.str_),
                indices=self.indices,
                probs=self.probs,
            )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> TopWords:
        """Read what `save` wrote."""
        with np.load(Path(path), allow_pickle=False) as file:
            ids, words = (tuple(map(str, file[name])) for name in ("ids", "words"))
            return cls(ids, words, file["indices"], file["probs"])

    @classmethod
    def joined(cls, parts: Sequence[TopWords]) -> TopWords:
        """Those of one detector's words, one part after another."""
        return cls(
            tuple(name for part in parts for name in part.ids),
            parts[0].words,
            np.concatenate([part.indices for part in parts]),
            np.concatenate([part.probs for part in parts]),
        )


def top_words_of(
    ids: Iterable[str], scores: FloatArray, words: Sequence[str], *, top: int = TOP
) -> TopWords:
    """The likeliest words by the scores (N, V) of all."""
    found = [top_words(row, min(top, len(words))) for row in scores]
    return TopWords(
        tuple(canonical_id(name) for name in ids),
        tuple(words),
        np.stack([places for places, _ in found]),
        np.stack([probs for _, probs in found]),
    )


def write_top_words(
    path: str | os.PathLike[str],
    detector: Detector,
    examples: Iterable[Example],
    *,
    top: int = TOP,
    progress: Callable[[int], None] | None = None,
) -> int:
    """Score images and write `ids`, `words`, `indices` and `probs`, as `read_detections` reads.

    For language training the detector must not have been trained on these images. Returns how
    many were scored; images that cannot be read are logged and left out.
    """
    ids: list[str] = []
    indices: list[Places] = []
    probs: list[Halves] = []
    for example, image_probs in scored_images(detector, examples):
        places, values = top_words(image_probs, top)
        ids.append(example.id)
        indices.append(places)
        probs.append(values)
        if progress:
            progress(len(ids))
    if not ids:
        raise CorpusError("no image could be read to find words in; see the warnings")
    words = detector.vocabulary.words
    TopWords(tuple(ids), words, np.stack(indices), np.stack(probs)).save(path)
    return len(ids)


def top_words(image_probs: FloatArray, top: int = TOP) -> tuple[Places, Halves]:
    """Places and probabilities of the likeliest words, descending; ties by place.

    >>> places, probs = top_words(np.array([0.25, 0.5, 0.0, 0.5], dtype=np.float32), 3)
    >>> places.tolist(), probs.tolist()
    ([1, 3, 0], [0.5, 0.5, 0.25])
    """
    chosen = np.argsort(-image_probs, kind="stable")[:top]
    return chosen.astype(np.uint16), image_probs[chosen].astype(np.float16)
