"""Section 3.2: probabilities -> precisions -> the detected words.

    WordScores (V,) --Calibration--> precision of each word --choose_words--> their places

Word detectors are trained independently, so .6 of one word is not .6 of another. A `Calibration`
maps each word's image-level probability to a precision: of held-out images scored this high *or
higher*, the share that have the word. Words at or above a global threshold tau are detected, and
top-ranked ones below it until three are content words. `calibration_fit` makes a `Calibration`.

Deviation: a word must also have a probability of at least a fifth of tau in this very image. Where
a detector recognises its word well, most images scored .01 or higher have the word, so that even
.01 has a high precision: it holds for all of them together, not for a doubtful one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sightwords.errors import BundleError, InputError
from sightwords.files import write_text
from sightwords.json_reader import Reader
from sightwords.sealed import Sealed, folder_of, renew_sum
from sightwords.text.vocabulary import CLOSED_CLASS
from sightwords.types import FloatArray
from sightwords.words.artefact import CALIBRATION_NAME, MOST_WORDS

FORMAT = 1
MOST_KNOTS = 20_000_000
"""Knots of all curves together, with the repeats that make them equally long."""
MOST_IMAGES = 1_000_000_000
LEAST_SHARE = 0.2
"""Share of the threshold tau: the lowest probability of a detected word."""


@dataclass(frozen=True, slots=True, eq=False)
class Calibration:
    """One rising, piecewise linear curve per word: score -> precision, flat beyond both ends."""

    scores: FloatArray
    """(V, K) knots, not falling along K; short curves repeat their last knot."""
    precisions: FloatArray
    """(V, K) not falling along K."""
    base_rates: FloatArray
    """(V,) share of the held-out images that have the word."""
    method: str
    images: int
    """Number of held-out images."""

    def __len__(self) -> int:
        return len(self.scores)

    def precision(self, image_probs: npt.ArrayLike) -> FloatArray:
        """(V,) or (N, V) scores -> precisions of the same shape.

        >>> curve = Calibration(*_doctest_curve())  # one word: .1 -> .2, .5 -> .6, .9 -> 1
        >>> curve.precision([[0.0], [0.3], [0.95]]).ravel().round(3).tolist()
        [0.20000000298023224, 0.4000000059604645, 1.0]
        """
        given = np.asarray(image_probs, dtype=np.float32)
        if given.shape[-1:] != self.scores.shape[:1]:
            raise InputError(
                f"word scores of shape {given.shape}; the calibration is of {len(self)} words"
            )
        rows = [self._row(row) for row in given.reshape(-1, len(self))]
        return np.stack(rows).reshape(given.shape) if rows else given

    def thresholds(self, precision: float) -> FloatArray:
        """(V,) lowest score of each word that has this precision; infinity where none has.

        >>> Calibration(*_doctest_curve()).thresholds(0.8).round(3).tolist()
        [0.699999988079071]
        """
        above = self.precisions >= precision  # (V, K)
        upper = above.argmax(axis=1)
        lower = np.maximum(upper - 1, 0)
        words = np.arange(len(self))
        low, high = self.precisions[words, lower], self.precisions[words, upper]
        share = np.divide(precision - low, high - low, out=np.zeros_like(low), where=high > low)
        start = self.scores[words, lower]
        scores = start + np.clip(share, 0, 1) * (self.scores[words, upper] - start)
        # Below the first knot the curve is flat: every score has its precision.
        scores = np.where(above[:, 0], -np.inf, scores)
        return np.where(above.any(axis=1), scores, np.inf).astype(np.float32)

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write `calibration.json` beside the network and the vocabulary that it belongs to."""
        folder = Path(directory)
        document = {
            "format": FORMAT,
            "method": self.method,
            "images": self.images,
            "words": len(self),
            "base_rates": _listed(self.base_rates),
        }
        curves = ",\n".join(
            f"  {json.dumps([_listed(s[:end], 6), _listed(p[:end])], separators=(',', ':'))}"
            for s, p, end in zip(self.scores, self.precisions, _lengths(self), strict=True)
        )
        head = json.dumps(document, indent=1).removesuffix("\n}")
        write_text(folder / CALIBRATION_NAME, f'{head},\n "curves": [\n{curves}\n ]\n}}\n')
        renew_sum(folder, CALIBRATION_NAME)

    @classmethod
    def load(cls, directory: str | os.PathLike[str] | Sealed) -> Calibration:
        """Read `calibration.json`."""
        folder = folder_of(directory)
        if folder.is_dir() and not (folder / CALIBRATION_NAME).exists():
            raise BundleError(
                f"{folder / CALIBRATION_NAME}: no such file, or of another network, so the "
                "detector's precisions are unknown; fit them with: sightwords train calibration "
                f"{folder} SOURCE"
            )
        reader = Reader.open(folder / CALIBRATION_NAME, newest=FORMAT)
        words = reader.count("words", MOST_WORDS)
        curves = reader.take("curves", list)
        rates = reader.take("base_rates", list)
        if not len(curves) == len(rates) == words:
            raise BundleError(
                f"{reader.where}: has {words} words, {len(curves)} curves and "
                f"{len(rates)} base rates; expected as many: fit the calibration again"
            )
        scores, precisions = _padded(curves, reader.where)
        base = _shares(rates, f"{reader.where}: base_rates")
        images = reader.count("images", MOST_IMAGES)
        return cls(scores, precisions, base, reader.take("method", str), images)

    def _row(self, row: FloatArray) -> FloatArray:
        """One image: find each word's pair of knots and go between them."""
        count = self.scores.shape[1]
        upper = (self.scores <= row[:, None]).sum(axis=1)  # knots at or below the score
        words = np.arange(len(row))
        lower, upper = np.maximum(upper - 1, 0), np.minimum(upper, count - 1)
        start, width = self.scores[words, lower], self.scores[words, upper]
        width = width - start
        share = np.divide(row - start, width, out=np.zeros_like(row), where=width > 0)
        low = self.precisions[words, lower]
        value: FloatArray = low + np.clip(share, 0, 1) * (self.precisions[words, upper] - low)
        return value


def choose_words(
    precisions: FloatArray,
    image_probs: FloatArray,
    words: Sequence[str],
    *,
    threshold: float = 0.5,
    minimum_content_words: int = 3,
    least_share: float = LEAST_SHARE,
    closed_class: Collection[str] = CLOSED_CLASS,
) -> list[int]:
    """Places of the words of section 3.2, ranked by precision (ties: by probability, then word).

    The shortest head of the ranking that has every word of at least `threshold` and at least
    `minimum_content_words` words outside `closed_class` (all words, if there are fewer).
    Words less probable than `least_share * threshold` come at the end of the ranking.

    >>> precisions = np.array([0.9, 0.4, 0.1, 0.3], dtype=np.float32)
    >>> choose_words(precisions, precisions, ["a", "dog", "cat", "of"], minimum_content_words=2)
    [0, 1, 3, 2]
    """
    likely = image_probs >= least_share * threshold
    order = _ranking(precisions, image_probs, words)
    order = order[np.argsort(~likely[order], kind="stable")]
    certain = int((likely & (precisions >= threshold)).sum())
    content = np.cumsum([words[i] not in closed_class for i in order])
    enough = int(np.searchsorted(content, minimum_content_words)) + 1
    count = max(certain, enough if minimum_content_words else 0)
    return [int(place) for place in order[:count]]


def _ranking(
    precisions: FloatArray, image_probs: FloatArray, words: Sequence[str]
) -> npt.NDArray[np.intp]:
    by_word = np.argsort(np.asarray(words))
    return by_word[np.lexsort((-image_probs[by_word], -precisions[by_word]))]


def _lengths(calibration: Calibration) -> list[int]:
    """Of each curve, without the repeats of its last knot."""
    scores, precisions = calibration.scores, calibration.precisions
    moves = (np.diff(scores, axis=1) > 0) | (np.diff(precisions, axis=1) > 0)
    return [int(np.max(np.flatnonzero(row), initial=-1)) + 2 for row in moves]


def _listed(values: FloatArray, digits: int = 4) -> list[float]:
    """Numbers for JSON, short."""
    return [float(f"{value:.{digits}g}") for value in values.tolist()]


def _padded(curves: list[object], where: str) -> tuple[FloatArray, FloatArray]:
    pairs = [_curve(curve, f"{where}: curve {i}") for i, curve in enumerate(curves)]
    longest = max(len(s) for s, _ in pairs)
    if longest * len(pairs) > MOST_KNOTS:  # one long curve makes all as long
        raise BundleError(
            f"{where}: {len(pairs)} curves of up to {longest} knots; expected at most "
            f"{MOST_KNOTS} knots in all"
        )
    scores, precisions = np.empty((2, len(pairs), longest), dtype=np.float32)
    for word, pair in enumerate(pairs):
        for padded, knots in zip((scores, precisions), pair, strict=True):
            padded[word, : len(knots)], padded[word, len(knots) :] = knots, knots[-1]
    return scores, precisions


def _curve(curve: object, where: str) -> tuple[FloatArray, FloatArray]:
    if not (isinstance(curve, list) and len(curve) == 2):
        raise BundleError(f"{where}: expected a pair of lists, scores and precisions")
    scores, precisions = (_shares(part, where) for part in curve)
    if len(scores) != len(precisions) or not len(scores):
        raise BundleError(
            f"{where}: {len(scores)} scores and {len(precisions)} precisions; expected as many"
        )
    if (np.diff(scores) < 0).any() or (np.diff(precisions) < 0).any():
        raise BundleError(f"{where}: has falling values; expected rising scores and precisions")
    return scores, precisions


def _shares(values: object, where: str) -> FloatArray:
    """Probabilities, precisions and rates are all from 0 to 1; a NaN is not."""
    if not (isinstance(values, list) and set(map(type, values)) <= {int, float}):
        raise BundleError(f"{where}: expected a list of numbers; fit the calibration again")
    if values and not (min(values) >= 0 and max(values) <= 1):
        wrong = next(value for value in values if not 0 <= value <= 1)
        raise BundleError(
            f"{where}: holds {'a number' if abs(wrong) > 1e9 else wrong}, which is not from 0 to "
            "1; fit the calibration again"
        )
    return np.array(values, dtype=np.float32)


def _doctest_curve() -> tuple[FloatArray, FloatArray, FloatArray, str, int]:
    scores = np.array([[0.1, 0.5, 0.9]], dtype=np.float32)
    return scores, scores + np.float32(0.1), np.array([0.2], dtype=np.float32), "paper", 10
