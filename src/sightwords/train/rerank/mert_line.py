"""Och's exact line search (ACL 2003): the best point on a line through weight space.

Along w + gamma d the score of a hypothesis is a straight line, a + gamma b; the hypothesis that an
image chooses is the topmost line, so that the choice changes only at the corners of the upper
envelope. The statistics of the chosen sentences are therefore constant between corners, and
sweeping over the sorted corners of all images tries every value that the objective has on the line.

H hypotheses of N images; an image's are `offsets[i]:offsets[i + 1]`.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
import numpy.typing as npt

from sightwords.train.rerank.mert_objective import Objective, Statistics

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
REACH = 1.0
"""How far beyond the last corner to go where the best interval has no end."""


@dataclass(frozen=True)
class Corners:
    """Where choices change: the envelopes of all images, one after another."""

    gammas: Floats
    """(K,)"""
    before: Ints
    """(K,) the hypothesis chosen below gamma."""
    after: Ints
    """(K,) and above it."""
    first: Ints
    """(N,) the choice of each image at gamma = -infinity."""


@dataclass(frozen=True)
class Best:
    """The best point found on a line."""

    gamma: float
    value: float


def envelopes(a: Floats, b: Floats, offsets: Ints, *, compiled: bool | None = None) -> Corners:
    """The upper envelope of each image's lines a + gamma b, walked from left to right.

    Compiled by numba where it is installed; of equal lines the first counts.

    >>> corners = envelopes(np.array([0.0, 1, 0]), np.array([-1.0, 0, 1]), np.array([0, 3]))
    >>> corners.gammas.tolist(), corners.first.tolist(), corners.after.tolist()
    ([-1.0, 1.0], [0], [1, 2])
    """
    if compiled is None:
        compiled = find_spec("numba") is not None
    if compiled:
        from sightwords.train.rerank.mert_numba import walk

        return Corners(*walk(a, b, offsets))
    return _walk_together(a, b, offsets)


def line_search(
    a: Floats,
    b: Floats,
    offsets: Ints,
    statistics: Statistics,
    objective: Objective,
    *,
    image_weights: Floats | None = None,
    compiled: bool | None = None,
) -> Best:
    """The best gamma, exactly: no other point of the line has a higher value.

    Of equally good intervals the widest is taken, and its middle; `image_weights` (N,) say how
    often an image counts, for bootstrap samples.
    """
    corners = envelopes(a, b, offsets, compiled=compiled)
    weights = np.ones(len(corners.first)) if image_weights is None else image_weights
    start = weights @ statistics[corners.first].astype(np.float64)
    order = np.argsort(corners.gammas, kind="stable")
    before, after = corners.before[order], corners.after[order]
    image = np.searchsorted(offsets, before, side="right") - 1
    change = (statistics[after].astype(np.float64) - statistics[before]) * weights[image][:, None]
    sums = np.vstack([start, start + np.cumsum(change, axis=0)])  # (K + 1, C)
    return _best_interval(corners.gammas[order], objective.value(sums))


def _best_interval(gammas: Floats, values: Floats) -> Best:
    """The middle of the widest of the best intervals; `values[k]` holds below `gammas[k]`."""
    if not len(gammas):
        return Best(0.0, float(values[0]))
    edges = np.concatenate([[gammas[0] - 2 * REACH], gammas, [gammas[-1] + 2 * REACH]])
    width = np.diff(edges)
    # Corners that coincide leave no room between them, nor does rounding: not a point to choose.
    room = width > 1e-9 * np.maximum(1.0, np.abs(edges[:-1]))
    best = values[room].max()
    # Sums that differ in their last bits by the order of adding are equal.
    good = np.flatnonzero(room & (values >= best - 1e-12 * max(1.0, abs(best))))
    k = int(good[np.argmax(width[good])])
    return Best(float((edges[k] + edges[k + 1]) / 2), float(values[k]))


def _walk_together(a: Floats, b: Floats, offsets: Ints) -> Corners:
    """The envelopes of all images at once in numpy: one step of every image per pass."""
    count = len(offsets) - 1
    image = np.repeat(np.arange(count), np.diff(offsets))
    lowest = np.minimum.reduceat(b, offsets[:-1])
    current = _first_largest(np.where(b == lowest[image], a, -np.inf), offsets)
    first = current.copy()
    found: list[tuple[Floats, Ints, Ints]] = []
    active = np.arange(count)  # images whose envelope may go on
    rows, bounds = np.arange(len(a)), offsets
    while len(active):
        own = np.repeat(current[active], np.diff(bounds))
        rise = b[rows] - b[own]
        gammas = np.full(len(rows), np.inf)
        np.divide(a[own] - a[rows], rise, out=gammas, where=rise > 0)
        nearest = np.minimum.reduceat(gammas, bounds[:-1])
        goes_on = np.isfinite(nearest)
        meets = gammas == np.repeat(nearest, np.diff(bounds))
        steepest = _first_largest(np.where(meets, b[rows], -np.inf), bounds)
        chosen = active[goes_on]
        after = rows[steepest[goes_on]]
        found.append((nearest[goes_on], current[chosen], after))
        current[chosen] = after
        keep = np.repeat(goes_on, np.diff(bounds))
        bounds = np.concatenate([[0], np.cumsum(np.diff(bounds)[goes_on])])
        rows, active = rows[keep], chosen
    parts = [np.concatenate(column) for column in zip(*found, strict=True)]
    return Corners(parts[0], parts[1], parts[2], first)


def _first_largest(values: Floats, offsets: Ints) -> Ints:
    """(N,) the place of the first largest value of each segment."""
    largest = np.maximum.reduceat(values, offsets[:-1])
    is_largest = values == np.repeat(largest, np.diff(offsets))
    places = np.where(is_largest, np.arange(len(values)), len(values))
    return np.minimum.reduceat(places, offsets[:-1]).astype(np.int64)
