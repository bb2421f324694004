"""Fit the probability that a chosen caption is good, and measure how reliable it is.

    choices of the re-ranker with their CIDEr-D (+ images known to be bad) -> Confidence

"Good" is a CIDEr-D of at least a threshold; unless given, the one that 62 % of the captions reach.
A logistic regression tells good from bad, with images that show nothing (blank, noise) as further
examples of bad; Platt's scaling then fits the log-odds of images that the regression did not see to
their outcomes, so that the probabilities hold for photos. Reliability is cross-validated.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from sightwords.errors import InputError
from sightwords.rerank.confidence import (
    STRANGENESS,
    Confidence,
    Familiar,
    confidence_features,
    standardised,
)
from sightwords.rerank.linear import Given, Ints, Ranker
from sightwords.train.rerank.lists import Lists
from sightwords.train.rerank.mert_data import image_candidates

log = logging.getLogger(__name__)

GOOD_SHARE = 0.62
"""Of the captions that are good, where no threshold is given."""
BAD_WEIGHT = 0.3
"""The weight of all images known to be bad together, as a share of the photos'."""
FOLDS = 5
RIDGE = 1.0
FREE = 0.01
"""The ridge of strangeness, a feature that hardly any photo has, so its weight may be large."""
PHOTOS_PER_UNIT = 2
"""Strangeness needs this many photos for each of the D numbers that describe one: a direction
found with fewer fits only these photos, and most new photos are far along it."""
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Choices:
    """What the re-ranker chose for N images."""

    names: tuple[str, ...]
    rows: Floats
    """(N, F) features of `rerank.confidence`."""
    hypotheses: npt.NDArray[np.int64]
    """(N,) the chosen sentence of each image, among all of the lists."""
    tokens: npt.NDArray[np.float32] | None = None
    """(N, D) what describes each image as a whole (`ImageFeatures.whole`)."""

    def beside(self, familiar: Familiar) -> Choices:
        """With a column for the strangeness of each image."""
        assert self.tokens is not None
        column = familiar.strangeness(self.tokens)[:, None]
        rows = np.hstack([self.rows, column])
        return Choices((*self.names, STRANGENESS), rows, self.hypotheses, self.tokens)


@dataclass(frozen=True)
class Bin:
    """Captions of similar confidence, and how many of them were good."""

    low: float
    high: float
    captions: int
    confidence: float
    good: float


def choose_all(
    lists: Lists, ranker: Ranker, given: Mapping[str, npt.NDArray[np.float32]] | None = None
) -> Choices:
    """Re-rank every list as the pipeline does; `given` holds values (H,) of networks, by name."""
    found: list[dict[str, float]] = []
    chosen: list[int] = []
    for image, candidates in enumerate(image_candidates(lists)):
        first = int(lists.offsets[image])
        ranking = ranker.rank(candidates, _asked(given or {}, first))
        found.append(confidence_features(candidates, ranking))
        chosen.append(first + int(ranking.order[0]))
    names = tuple(found[0])
    rows = np.array([[one[name] for name in names] for one in found])
    return Choices(names, rows, np.array(chosen, dtype=np.int64))


def fit_confidence(
    choices: Choices,
    cider: npt.ArrayLike,
    *,
    threshold: float | None = None,
    bad: Choices | None = None,
    seed: int = 0,
) -> Confidence:
    """Fit on choices and the CIDEr-D (N,) of each chosen caption; see `fit_and_judge`."""
    return fit_and_judge(choices, cider, threshold=threshold, bad=bad, seed=seed)[0]


def fit_and_judge(
    choices: Choices,
    cider: npt.ArrayLike,
    *,
    threshold: float | None = None,
    bad: Choices | None = None,
    seed: int = 0,
) -> tuple[Confidence, tuple[Bin, ...]]:
    """Fit on all images; reliability by cross-validation, each fifth judged by the other four."""
    values = np.asarray(cider, dtype=np.float64)
    _check(choices, values, bad)
    familiar = _familiar(choices, bad)
    if familiar is not None and bad is not None:
        choices, bad = choices.beside(familiar), bad.beside(familiar)
    quantile = float(np.quantile(values, 1 - GOOD_SHARE)) if threshold is None else threshold
    at = round(quantile, 2)
    good = values >= at
    if good.all() or not good.any():
        raise InputError(
            f"all or none of {len(good)} captions reach a CIDEr-D of {at:g}; choose another "
            "threshold, or give more images"
        )
    known_bad = bad.rows if bad is not None else np.empty((0, len(choices.names)))
    means, scales = _moments(choices.rows)
    if familiar is not None:  # 0 for most, so that their own deviation would be no measure
        means[-1], scales[-1] = 0.0, 1.0
    x, nothing = (standardised(r, means, scales) for r in (choices.rows, known_bad))
    folds = np.random.default_rng(seed).permutation(len(x)) % FOLDS
    ridge = np.array([FREE if name == STRANGENESS else RIDGE for name in choices.names])
    fit = partial(_regression, bad=nothing, ridge=ridge)
    logits = _held_out_logits(x, good, fit, folds)
    slope, shift = _platt(logits, good)
    weights, bias = fit(x, good)
    table, figures = _judged(_cross_scaled(logits, good, folds), good)
    fitted = Confidence(
        choices.names,
        tuple(means.tolist()),
        tuple(scales.tolist()),
        tuple(weights.tolist()),
        bias,
        slope,
        shift,
        at,
        float(good.mean()),
        figures,
        familiar,
    )
    return fitted, table


def _familiar(choices: Choices, bad: Choices | None) -> Familiar | None:
    """What separates photos from blank and noise images, if enough of both are known."""
    if bad is None or choices.tokens is None or bad.tokens is None:
        return None
    count, units = choices.tokens.shape
    if count < PHOTOS_PER_UNIT * units:
        log.info("%d photos are too few to recognise blank images by %d numbers", count, units)
        return None
    return Familiar.of(choices.tokens, bad.tokens)


def _check(choices: Choices, values: Floats, bad: Choices | None) -> None:
    if len(values) != len(choices.rows):
        raise InputError(f"{len(choices.rows)} choices and CIDEr-D of {len(values)}; give one each")
    if bad is not None and bad.names != choices.names:
        raise InputError("the images known to be bad were re-ranked by other weights; use the same")


def _held_out_logits(
    x: Floats,
    good: npt.NDArray[np.bool_],
    fit: Callable[[Floats, npt.NDArray[np.bool_]], tuple[Floats, float]],
    folds: Ints,
) -> Floats:
    """(N,) log-odds of each image by a regression on the other folds."""
    logits = np.empty(len(x))
    for fold in range(FOLDS):
        held = folds == fold
        weights, bias = fit(x[~held], good[~held])
        logits[held] = x[held] @ weights + bias
    return logits


def _cross_scaled(logits: Floats, good: npt.NDArray[np.bool_], folds: Ints) -> Floats:
    """(N,) probabilities, each fold scaled as the others ask for."""
    probs = np.empty(len(logits))
    for fold in range(FOLDS):
        held = folds == fold
        slope, shift = _platt(logits[~held], good[~held])
        probs[held] = 1 / (1 + np.exp(-np.clip(slope * logits[held] + shift, -30, 30)))
    return probs


def _judged(probs: Floats, good: npt.NDArray[np.bool_]) -> tuple[tuple[Bin, ...], dict[str, float]]:
    table, error = reliability(probs, good)
    figures = {
        "images": len(good),
        "good": float(good.mean()),
        "ece": error,
        "auc": auc(probs, good),
    }
    return table, figures


def reliability(
    confidence: npt.ArrayLike, good: npt.ArrayLike, *, bins: int = 10
) -> tuple[tuple[Bin, ...], float]:
    """Captions in equally wide bins of confidence, and the expected calibration error.

    >>> table, error = reliability([0.9, 0.9, 0.1, 0.1], [1, 0, 0, 0], bins=2)
    >>> [(b.captions, b.confidence, b.good) for b in table], round(error, 3)
    ([(2, 0.1, 0.0), (2, 0.9, 0.5)], 0.25)
    """
    probs, outcome = (np.asarray(v, dtype=np.float64) for v in (confidence, good))
    place = np.minimum((probs * bins).astype(np.int64), bins - 1)
    table = []
    for number in range(bins):
        mine = place == number
        if mine.any():
            means = float(probs[mine].mean()), float(outcome[mine].mean())
            table.append(Bin(number / bins, (number + 1) / bins, int(mine.sum()), *means))
    error = sum(b.captions * abs(b.confidence - b.good) for b in table) / len(probs)
    return tuple(table), float(error)


def auc(scores: npt.ArrayLike, good: npt.ArrayLike) -> float:
    """The probability that a good caption has a higher score than a bad one.

    >>> auc([0.9, 0.4, 0.6, 0.1], [1, 1, 0, 0])
    0.75
    """
    given, outcome = np.asarray(scores, dtype=np.float64), np.asarray(good, dtype=np.bool_)
    above, below = given[outcome], np.sort(given[~outcome])
    lower = np.searchsorted(below, above, side="left")
    not_higher = np.searchsorted(below, above, side="right")
    return float((lower + not_higher).sum() / 2 / max(len(above) * len(below), 1))


def _asked(given: Mapping[str, npt.NDArray[np.float32]], first: int) -> Given:
    """Values of all hypotheses, as those of the image whose hypotheses start at `first`."""

    def values_of(name: str) -> Callable[[Ints], npt.ArrayLike]:
        return lambda places: given[name][first + places]

    return {name: values_of(name) for name in given}


def _moments(rows: Floats) -> tuple[Floats, Floats]:
    if not np.isfinite(rows).all():
        raise InputError("a feature of confidence is not finite; check the lists and their scores")
    deviation = rows.std(axis=0)
    return rows.mean(axis=0), np.where(deviation > 1e-9, deviation, 1.0)


def _regression(
    x: Floats, good: npt.NDArray[np.bool_], *, bad: Floats, ridge: Floats
) -> tuple[Floats, float]:
    """Weights and bias of a logistic regression with a ridge; `bad` are rows known to be bad."""
    share = np.full(len(bad), BAD_WEIGHT * len(x) / max(len(bad), 1))
    rows = np.vstack([x, bad])
    found = _newton(
        np.hstack([rows, np.ones((len(rows), 1))]),
        np.concatenate([good, np.zeros(len(bad))]),
        np.concatenate([np.ones(len(x)), share]),
        np.append(ridge, 0.0),
    )
    return found[:-1], float(found[-1])


def _platt(logits: Floats, good: npt.NDArray[np.bool_]) -> tuple[float, float]:
    """Slope and shift of the log-odds, by Platt's targets: few images allow no certainty."""
    rows = np.stack([logits, np.ones_like(logits)], axis=1)
    sound = float(good.sum())
    yes, no = (sound + 1) / (sound + 2), 1 / (len(good) - sound + 2)
    target = np.where(good, yes, no)
    slope, shift = _newton(rows, target, np.ones(len(rows)), np.array([1.0, 0]))
    return float(max(slope, 0.0)), float(shift)


def _newton(rows: Floats, target: Floats, weight: Floats, ridge: Floats) -> Floats:
    """Maximise the weighted, penalised log-likelihood of a logistic model."""
    found = np.zeros(rows.shape[1])
    for _ in range(50):
        probs = 1 / (1 + np.exp(-np.clip(rows @ found, -30, 30)))
        gradient = rows.T @ (weight * (target - probs)) - ridge * found
        curvature = (rows * (weight * probs * (1 - probs))[:, None]).T @ rows
        step = np.linalg.solve(curvature + np.diag(ridge + 1e-9), gradient)
        found += step
        if np.abs(step).max() < 1e-8:
            break
    return found


def probabilities(fitted: Confidence, choices: Choices) -> Floats:
    """(N,) confidence in each choice."""
    if fitted.familiar is not None:
        choices = choices.beside(fitted.familiar)
    return fitted.probabilities(choices.rows)


def with_reliability(
    fitted: Confidence, choices: Choices, cider: npt.ArrayLike
) -> tuple[Confidence, Sequence[Bin]]:
    """The same, with what it is worth on these images instead."""
    good = np.asarray(cider) >= fitted.threshold
    table, figures = _judged(probabilities(fitted, choices), good)
    return replace(fitted, reliability=figures), table
