"""Does a calibration hold? Scores and labels of new images -> measured precision.

For a precision p, all pairs of image and word at or above the word's threshold for p are pooled,
and the share of them that is right is compared with p. Left out: closed-class words, which nearly
every image has, and words more common than p, which any score would satisfy. A word that never
reaches p has no pairs.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sightwords.errors import InputError
from sightwords.text.vocabulary import CLOSED_CLASS
from sightwords.words.calibration import Calibration

PROMISES = (0.5, 0.6, 0.7, 0.8, 0.9)


@dataclass(frozen=True, slots=True)
class Reliability:
    """A promised precision, and what was measured."""

    promised: float
    measured: float
    """Share of the pairs that are right; NaN where there are none."""
    pairs: int
    words: int
    """Words with at least one pair."""


def reliability(
    calibration: Calibration,
    image_probs: npt.ArrayLike,
    labels: npt.ArrayLike,
    words: Sequence[str],
    *,
    promises: Sequence[float] = PROMISES,
    closed_class: Collection[str] = CLOSED_CLASS,
) -> list[Reliability]:
    """Measure on images (N, V) that the calibration has not seen.

    >>> scores, labels = [[0.9], [0.6], [0.3], [0.1]], [[1], [1], [0], [0]]
    >>> from sightwords.words.calibration_fit import fit_calibration
    >>> curve = fit_calibration(scores, labels, method="paper")
    >>> reliability(curve, [[0.95], [0.7], [0.2]], [[1], [0], [0]], ["dog"], promises=[1.0])
    [Reliability(promised=1.0, measured=0.5, pairs=2, words=1)]
    """
    scores, truth = np.asarray(image_probs, dtype=np.float32), np.asarray(labels) > 0
    if not scores.shape == truth.shape == (len(scores), len(words)) or len(words) != len(
        calibration
    ):
        raise InputError(
            f"scores of shape {scores.shape}, labels of shape {truth.shape}, {len(words)} words, "
            f"a calibration of {len(calibration)}; expected (images, words) and as many words"
        )
    open_class = np.array([word not in closed_class for word in words])
    return [_measure(calibration, scores, truth, open_class, promise) for promise in promises]


def _measure(
    calibration: Calibration,
    scores: npt.NDArray[np.float32],
    truth: npt.NDArray[np.bool_],
    open_class: npt.NDArray[np.bool_],
    promise: float,
) -> Reliability:
    counted = open_class & (calibration.base_rates <= promise)
    above = (scores >= calibration.thresholds(promise)) & counted
    pairs = int(above.sum())
    measured = float(truth[above].mean()) if pairs else float("nan")
    return Reliability(promise, measured, pairs, int(np.count_nonzero(above.sum(axis=0))))
