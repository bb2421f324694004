"""Section 3.2: scores and labels of held-out images -> a `Calibration`.

Two methods:

- `paper` is the authors': each word's precision among the held-out images at or above each score,
  made rising by a running maximum, duplicates removed, linear in between. With 4,000 images a rare
  word has ten positives, and the maximum of so rough a curve promises too much.
- `shrunk` (the default) holds on new images. Deviation: each word's probability of
  being right at a score is a logistic curve, sigmoid(a + b logit(score)), whose a and b are shrunk
  towards those of all words, more strongly where a word has few data (a hierarchical logistic
  regression by empirical Bayes). The precision at a score is the mean of that curve, mixed with
  what was counted, over the held-out images at or above it. Finally, four such fits
  are tested on the quarter of the images that each has not seen, and the excess is subtracted.

Both give cumulative precisions, so that all pairs above the thresholds for p are right p of the
time. `docs/words.md` has them side by side.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from sightwords.errors import InputError
from sightwords.types import FloatArray
from sightwords.words.calibration import Calibration
from sightwords.words.noisy_or import sigmoid

Method = Literal["shrunk", "paper"]
Doubles = npt.NDArray[np.float64]

KNOTS = {"shrunk": 32, "paper": 256}
"""Most knots kept of a curve, evenly spaced in precision."""
PSEUDO_IMAGES = 100.0
"""How many images the logistic curve counts for when it is mixed with counted precision."""
LOGIT_LIMIT = 12.0
"""Scores beyond odds of e^12 are taken as that: float32 probabilities end there."""
ROUNDS = 12
FOLDS = 4
"""Fits without a part of the images, to learn by how much a fit is too optimistic."""
PROMISES = np.array([0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95])
COMMON = 0.3
"""Words in more images than this are left out of that."""
PSEUDO_PAIRS = 300.0
"""How many pairs the promise itself counts for when it is compared with the measured share."""
SMALLEST_SLOPE = 0.05
"""Of a logistic curve; a higher score never means a lower precision."""


def fit_calibration(
    image_probs: npt.ArrayLike, labels: npt.ArrayLike, *, method: Method = "shrunk"
) -> Calibration:
    """Fit on held-out images: scores (N, V) in [0, 1] and labels (N, V), 1 where a caption has it.

    Give images with equally many captions each (five): a missing caption looks like a wrong word.

    >>> curve = fit_calibration([[0.9], [0.6], [0.3], [0.1]], [[1], [1], [0], [1]], method="paper")
    >>> curve.thresholds(1.0).tolist(), curve.base_rates.tolist()
    ([0.6000000238418579], [0.75])
    """
    scores, truth = _checked(image_probs, labels)
    if method not in ("shrunk", "paper"):
        raise InputError(f"calibration method {method!r}; expected shrunk or paper")
    fitted = _fit(scores, truth, method)
    return fitted if method == "paper" else _corrected(fitted, scores, truth)


def _fit(scores: FloatArray, truth: npt.NDArray[np.bool_], method: Method) -> Calibration:
    order = np.argsort(scores, axis=0, kind="stable")
    ranked = np.take_along_axis(scores, order, axis=0)
    counted = np.take_along_axis(truth, order, axis=0).astype(np.float64)
    prior = _cumulative_mean(_shrunk_probs(ranked, counted)) if method == "shrunk" else None
    precisions = _precision(counted, prior=prior)
    curves = [_thinned(s, p, KNOTS[method]) for s, p in zip(ranked.T, precisions.T, strict=True)]
    return _calibration(curves, truth.mean(axis=0), method, len(scores))


def _checked(
    image_probs: npt.ArrayLike, labels: npt.ArrayLike
) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
    scores = np.asarray(image_probs, dtype=np.float32)
    truth = np.asarray(labels)
    if scores.shape != truth.shape or scores.ndim != 2 or 0 in scores.shape:
        raise InputError(
            f"word scores of shape {scores.shape} and labels of shape {truth.shape}; "
            "expected both (images, words), with at least one of each"
        )
    if not ((scores >= 0) & (scores <= 1)).all():
        raise InputError("word scores outside 0 to 1 or NaN; calibration takes probabilities")
    return scores, truth.astype(np.bool_)


def _cumulative_mean(ascending: Doubles) -> Doubles:
    """(N, V), lowest score first -> mean over this and all higher ranks."""
    sums = np.cumsum(ascending[::-1], axis=0)[::-1]
    means: Doubles = sums / np.arange(len(ascending), 0, -1)[:, None]
    return means


def _precision(counted: Doubles, prior: Doubles | None = None) -> Doubles:
    """(N, V) rising precision of everything at or above each rank, mixed with a prior's."""
    precision = _cumulative_mean(counted)
    if prior is not None:
        images = np.arange(len(counted), 0, -1)[:, None]
        precision = (images * precision + PSEUDO_IMAGES * prior) / (images + PSEUDO_IMAGES)
    rising: Doubles = np.maximum.accumulate(precision, axis=0)
    return rising


def _thinned(scores: FloatArray, precisions: Doubles, knots: int) -> tuple[Doubles, Doubles]:
    """The first score of each precision; of those, at most `knots` evenly spaced in precision.

    Images of one score pass together: the precision of the lowest-ranked of them is theirs.
    """
    distinct = np.flatnonzero(np.diff(scores, prepend=-1.0) > 0)
    scores, precisions = scores[distinct], precisions[distinct]
    rises = np.flatnonzero(np.diff(precisions, prepend=-1.0) > 0)
    scores, precisions = scores[rises], precisions[rises]
    if len(scores) > knots:
        levels = np.linspace(precisions[0], precisions[-1], knots)
        kept = np.unique(np.searchsorted(precisions, levels - 1e-12))
        scores, precisions = scores[kept], precisions[kept]
    return scores.astype(np.float64), precisions


def _calibration(
    curves: list[tuple[Doubles, Doubles]], base_rates: Doubles, method: str, images: int
) -> Calibration:
    longest = max(len(scores) for scores, _ in curves)
    scores, precisions = (
        np.stack([np.pad(c[k], (0, longest - len(c[k])), mode="edge") for c in curves])
        for k in (0, 1)
    )
    return Calibration(
        scores.astype(np.float32),
        precisions.astype(np.float32),
        base_rates.astype(np.float32),
        method,
        images,
    )


def _corrected(
    fitted: Calibration, scores: FloatArray, truth: npt.NDArray[np.bool_]
) -> Calibration:
    """Correct what the method promises too much on images it has not seen.

    Fits without a fold are measured on that fold, over all words together; every curve is then
    moved by the difference, linearly in log odds between the promises of `PROMISES`.
    """
    if len(scores) < 10 * FOLDS:
        return fitted
    asked, true = _log_odds(PROMISES), _log_odds(_came_true(scores, truth))
    odds = _log_odds(np.clip(fitted.precisions.astype(np.float64), 1e-6, 1 - 1e-6))
    # Beyond the outermost promises the shift stays what it is there.
    moved = odds + np.interp(odds, asked, true - asked)
    return replace(fitted, precisions=sigmoid(moved))


def _came_true(scores: FloatArray, truth: npt.NDArray[np.bool_]) -> Doubles:
    """The measured precision of each of `PROMISES` by cross-validation, rising.

    Common words are left out, if there are others: their many pairs, all well known, would hide
    what happens to the rest.
    """
    fold = np.arange(len(scores)) % FOLDS
    rare = truth.mean(axis=0) < COMMON
    counted = rare if rare.any() else np.ones_like(rare)
    pairs, hits = np.zeros(len(PROMISES)), np.zeros(len(PROMISES))
    for left_out in range(FOLDS):
        mine = fold == left_out
        rest = _fit(scores[~mine], truth[~mine], "shrunk")
        for i, promise in enumerate(PROMISES):
            above = scores[mine] >= rest.thresholds(promise)
            above &= counted & (rest.base_rates < promise)
            pairs[i] += above.sum()
            hits[i] += (above & truth[mine]).sum()
    true: Doubles = (hits + PSEUDO_PAIRS * PROMISES) / (pairs + PSEUDO_PAIRS)
    return np.maximum.accumulate(true)


@dataclass(slots=True)
class _Prior:
    """The prior of one word's (a, b), from all words: a normal distribution."""

    mean: Doubles  # (2,)
    covariance: Doubles  # (2, 2)


def _shrunk_probs(scores: FloatArray, counted: Doubles) -> Doubles:
    """(N, V) probability of being right at each score, from the hierarchical regression.

    Rounds of empirical Bayes: each word's (a, b) by Newton's method given the prior, then the
    prior from all words. The probability is averaged over what is left uncertain about (a, b),
    by the usual approximation sigmoid(m / sqrt(1 + pi v / 8)) (MacKay 1992).
    """
    odds = _limited_logit(scores)
    prior = _Prior(np.array([0.0, 1.0]), np.diag([1.0, 0.25]))
    weights = np.tile(prior.mean, (odds.shape[1], 1))
    covariance = np.tile(prior.covariance, (odds.shape[1], 1, 1))
    for _ in range(ROUNDS):
        for _ in range(2):
            weights, covariance = _newton(weights, prior, odds, counted)
        away = weights - weights.mean(axis=0)
        spread = (away[:, :, None] * away[:, None, :] + covariance).mean(axis=0)
        prior = _Prior(weights.mean(axis=0), spread)
    weights[:, 1] = np.maximum(weights[:, 1], SMALLEST_SLOPE)
    middle = weights[:, 0] + weights[:, 1] * odds
    variance = (
        covariance[:, 0, 0] + 2 * covariance[:, 0, 1] * odds + covariance[:, 1, 1] * odds * odds
    )
    return sigmoid(middle / np.sqrt(1 + np.pi * variance / 8)).astype(np.float64)


def _newton(
    weights: Doubles, prior: _Prior, odds: FloatArray, counted: Doubles
) -> tuple[Doubles, Doubles]:
    """One guarded step for all words at once; also the covariance it leaves, (V, 2, 2)."""
    precision = np.linalg.inv(prior.covariance)
    probs = sigmoid(weights[:, 0] + weights[:, 1] * odds)
    error = counted - probs
    curvature = probs * (1 - probs)
    gradient = np.stack([error.sum(axis=0), (error * odds).sum(axis=0)], axis=1)
    gradient -= (weights - prior.mean) @ precision
    weighted = curvature * odds
    hessian = np.empty((len(weights), 2, 2))
    hessian[:, 0, 0] = curvature.sum(axis=0)
    hessian[:, 0, 1] = hessian[:, 1, 0] = weighted.sum(axis=0)
    hessian[:, 1, 1] = (weighted * odds).sum(axis=0)
    covariance = np.linalg.inv(hessian + precision)
    step = np.einsum("vij,vj->vi", covariance, gradient)
    length = np.abs(step).max(axis=1, keepdims=True)
    step /= np.maximum(length, 1.0)  # far from the optimum a full step can overshoot
    return weights + step, covariance


def _limited_logit(scores: FloatArray) -> FloatArray:
    edge = float(sigmoid(-LOGIT_LIMIT))
    return _log_odds(np.clip(scores.astype(np.float64), edge, 1 - edge)).astype(np.float32)


def _log_odds(probs: Doubles) -> Doubles:
    with np.errstate(divide="ignore"):
        odds: Doubles = np.log(probs) - np.log1p(-probs)
    return odds
