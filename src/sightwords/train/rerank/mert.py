"""Section 5: minimum error rate training of the re-ranking weights (Och, ACL 2003).

    features (H, F) of M-best lists, statistics of each sentence -> weights (F,)

From several starting points, sweeps of exact line searches along every coordinate and along random
directions, until none gains; one pass over the lists, since the beam does not depend on these
weights. Features are scaled to unit deviation within images first, and scaled back at the end.

Bootstrap guard: with `bags`, the weights are the mean of those tuned on that many bootstrap samples
of the images, each from the best point; what only some images ask for averages out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sightwords.errors import InputError
from sightwords.train.rerank.mert_line import line_search
from sightwords.train.rerank.mert_objective import Objective, Statistics
from sightwords.types import FloatArray

log = logging.getLogger(__name__)
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
GAIN = 1e-5
"""A sweep that gains less is the last."""
SWEEPS = 20
SCOUTED = 500
"""About this many images decide which starting points are tried on all images."""
KEPT = 2
"""Starts that are."""


@dataclass(frozen=True, eq=False)
class Problem:
    """Lists to tune on: H hypotheses of N images, F features, C statistics."""

    features: FloatArray
    """(F, H): a feature's values stand together."""
    offsets: Ints
    """(N + 1,)"""
    statistics: Statistics
    """(H, C), see `Objective.statistics`."""
    objective: Objective

    @property
    def images(self) -> int:
        """N."""
        return len(self.offsets) - 1

    def thinned(self, step: int) -> Problem:
        """Every `step`-th image."""
        kept = np.zeros(self.images, dtype=np.bool_)
        kept[::step] = True
        counts = np.diff(self.offsets)
        rows = np.repeat(kept, counts)
        return Problem(
            np.ascontiguousarray(self.features[:, rows]),
            np.concatenate([[0], np.cumsum(counts[kept])]),
            self.statistics[rows],
            self.objective,
        )

    def scores(self, weights: Floats) -> Floats:
        """(H,) of every hypothesis."""
        total = np.zeros(self.features.shape[1])
        for row, weight in zip(self.features, weights.tolist(), strict=True):
            if weight:
                total += weight * row
        return total

    def value(self, weights: Floats, image_weights: Floats | None = None) -> float:
        """The objective of the best-scored hypotheses; in a tie the first, the most probable."""
        rows = self.statistics[chosen(self.scores(weights), self.offsets)].astype(np.float64)
        sums = rows.sum(axis=0) if image_weights is None else image_weights @ rows
        return float(self.objective.value(sums))


@dataclass(frozen=True)
class Tuned:
    """What MERT found."""

    weights: Floats
    """(F,) for the features as they came."""
    value: float
    """The objective on the tuning lists."""
    starts: tuple[float, ...]
    """The objective that each starting point led to; of many, the two best."""


def chosen(scores: npt.NDArray[np.floating], offsets: Ints) -> Ints:
    """(N,) the hypothesis with the largest score of each image; of equal ones the first.

    >>> chosen(np.array([1.0, 2.0, 2.0, 0.0]), np.array([0, 3, 4])).tolist()
    [1, 3]
    """
    largest = np.maximum.reduceat(scores, offsets[:-1])
    is_largest = scores == np.repeat(largest, np.diff(offsets))
    places = np.where(is_largest, np.arange(len(scores)), len(scores))
    return np.minimum.reduceat(places, offsets[:-1]).astype(np.int64)


def mert(
    features: FloatArray,
    offsets: Ints,
    statistics: Statistics,
    objective: Objective,
    *,
    rng: np.random.Generator,
    restarts: int = 20,
    random_directions: int = 8,
    bags: int = 0,
    starts: Sequence[npt.ArrayLike] = (),
    progress: Callable[[int, float], None] | None = None,
) -> Tuned:
    """Tune weights of features (H, F); `starts` are weights (F,) to begin from, besides random."""
    scale = _within_scale(features, offsets)
    usable = scale > 0
    if not usable.any():
        raise InputError("every feature is constant within every list; nothing can be re-ranked")
    problem = Problem(
        np.ascontiguousarray((features[:, usable] / scale[usable]).T.astype(np.float32)),
        offsets,
        statistics,
        objective,
    )
    given = [np.asarray(s, dtype=np.float64)[usable] * scale[usable] for s in starts]
    random = [rng.normal(size=int(usable.sum())) for _ in range(restarts)]
    results: list[tuple[float, Floats]] = []
    for number, start in enumerate(_promising(problem, [*given, *random], rng, random_directions)):
        results.append(climb(problem, start, rng=rng, random_directions=random_directions))
        log.info("MERT start %d: %s %.5f", number, objective, results[-1][0])
        if progress:
            progress(number, results[-1][0])
    value, weights = max(results, key=lambda found: found[0])
    if bags:
        weights = _bagged(problem, weights, bags, rng=rng, random_directions=random_directions)
        value = problem.value(weights)
    unscaled = np.zeros(len(usable))
    unscaled[usable] = weights / scale[usable]
    return Tuned(unscaled, value, tuple(found for found, _ in results))


def climb(
    problem: Problem,
    start: Floats,
    *,
    rng: np.random.Generator,
    random_directions: int,
    image_weights: Floats | None = None,
) -> tuple[float, Floats]:
    """Line searches from one starting point until a sweep gains nothing: value and weights."""
    weights = start / max(float(np.linalg.norm(start)), 1e-12)
    value = problem.value(weights, image_weights)
    scores = problem.scores(weights)
    for _ in range(SWEEPS):
        before = value
        for direction in _directions(len(weights), random_directions, rng):
            slopes = problem.scores(direction)
            best = line_search(
                scores,
                slopes,
                problem.offsets,
                problem.statistics,
                problem.objective,
                image_weights=image_weights,
            )
            if best.value > value + GAIN / 100:
                weights = weights + best.gamma * direction
                scores += best.gamma * slopes
                value = best.value
        norm = float(np.linalg.norm(weights))  # the choice does not depend on it
        weights, scores = weights / norm, scores / norm
        if value - before < GAIN:
            break
    return problem.value(weights, image_weights), weights


def _promising(
    problem: Problem, starts: list[Floats], rng: np.random.Generator, random_directions: int
) -> list[Floats]:
    """The starts that are worth all images: where there are many of both, scouts look first.

    Each start climbs on every so-manieth image; the ends that are best on all images go on.
    """
    if problem.images < 2 * SCOUTED or len(starts) <= KEPT:
        return starts
    few = problem.thinned(problem.images // SCOUTED)
    ends = [climb(few, s, rng=rng, random_directions=random_directions)[1] for s in starts]
    return sorted(ends, key=problem.value, reverse=True)[:KEPT]


def _bagged(
    problem: Problem, start: Floats, bags: int, *, rng: np.random.Generator, random_directions: int
) -> Floats:
    """The mean of the weights of bootstrap samples."""
    total = np.zeros_like(start)
    for _ in range(bags):
        drawn = rng.integers(problem.images, size=problem.images)
        times = np.bincount(drawn, minlength=problem.images).astype(np.float64)
        _, weights = climb(
            problem, start, rng=rng, random_directions=random_directions, image_weights=times
        )
        total += weights
    return total / bags


def _directions(count: int, random: int, rng: np.random.Generator) -> Floats:
    """Every coordinate in random order, then random directions."""
    return np.vstack([np.eye(count)[rng.permutation(count)], rng.normal(size=(random, count))])


def _within_scale(features: FloatArray, offsets: Ints) -> Floats:
    """(F,) deviation within images, pooled; 0 where a feature never differs within a list."""
    scale = np.empty(features.shape[1])
    for place in range(features.shape[1]):
        column = features[:, place].astype(np.float64)
        if not np.isfinite(column).all():
            raise InputError(
                f"feature number {place + 1} has values that are not finite; leave it out, or fix "
                "what computes it"
            )
        scale[place] = within_deviation(column, offsets)
    return np.where(scale > 1e-9, scale, 0.0)


def within_deviation(values: Floats, offsets: Ints) -> float:
    """The deviation of (H,) values from their image's mean.

    >>> within_deviation(np.array([1.0, 3.0, 10.0]), np.array([0, 2, 3])) ** 2
    0.6666666666666666
    """
    counts = np.diff(offsets)
    means = np.add.reduceat(values, offsets[:-1]) / counts
    return float(np.sqrt(np.mean((values - np.repeat(means, counts)) ** 2)))
