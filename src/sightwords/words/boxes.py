"""Where in the photo a word is: its response map -> one box (section 3.1, Figure 2).

Input: maps `(rows, columns, n)` of n words and the regions' corners. Output: one box per word.

Around the region of the highest probability, take the connected regions (sides touching) that
reach half of it. A window fires when it covers enough of the object, about when its middle enters
it, so the box runs over the middles of those windows and half a stride beyond, which is where the
map falls to half its height; it is never narrower than half a window. At the image's edge no
further window could have fired, so the box goes to the edge.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sightwords.types import Box, FloatArray

HALF = 0.5

BoolArray = npt.NDArray[np.bool_]


def region_is_inside(corners: FloatArray) -> BoolArray:
    """(rows, columns): whether the region covers any of the photo."""
    inside: BoolArray = corners[..., 2] > corners[..., 0]
    return inside


def peak_regions(maps: FloatArray, corners: FloatArray) -> npt.NDArray[np.intp]:
    """(n, 2) row and column of each map's largest value inside the photo; ties: the first.

    >>> corners = np.array([[[0, 0, 0.5, 1], [0.5, 0, 1, 1]]], dtype=np.float32)
    >>> peak_regions(np.array([[[0.1], [0.7]]], dtype=np.float32), corners).tolist()
    [[0, 1]]
    """
    rows, columns, count = maps.shape
    seen = np.where(region_is_inside(corners)[..., None], maps, -np.inf)
    flat = seen.reshape(rows * columns, count).argmax(axis=0)
    return np.stack(np.unravel_index(flat, (rows, columns)), axis=1)


def peak_points(maps: FloatArray, corners: FloatArray) -> FloatArray:
    """(n, 2) x and y of the centre of each map's peak region, in fractions of the photo."""
    peaks = corners[tuple(peak_regions(maps, corners).T)]  # (n, 4)
    return np.stack([peaks[:, [0, 2]].mean(axis=1), peaks[:, [1, 3]].mean(axis=1)], axis=1)


def word_boxes(maps: FloatArray, corners: FloatArray, *, fraction: float = HALF) -> list[Box]:
    """One box per word; `fraction` of the peak instead of half.

    >>> corners = np.array([[[i / 4, 0, i / 4 + 0.25, 1] for i in range(4)]], dtype=np.float32)
    >>> word_boxes(np.array([[[0.0], [0.9], [0.6], [0.1]]], dtype=np.float32), corners)
    [Box(x0=0.25, y0=0.0, x1=0.75, y1=1.0)]
    """
    peaks = peak_regions(maps, corners)
    words = np.arange(len(peaks))
    stacked = np.where(region_is_inside(corners), maps.transpose(2, 0, 1), -np.inf)
    heights = stacked[words, peaks[:, 0], peaks[:, 1]]
    area = np.zeros(stacked.shape, dtype=np.bool_)
    area[words, peaks[:, 0], peaks[:, 1]] = True
    area = _grow(area, stacked >= fraction * heights[:, None, None])
    x = [_extent(used.any(axis=0), corners[0, :, 0], corners[0, :, 2]) for used in area]
    y = [_extent(used.any(axis=1), corners[:, 0, 1], corners[:, 0, 3]) for used in area]
    return [Box(x0, y0, x1, y1) for (x0, x1), (y0, y1) in zip(x, y, strict=True)]


def _grow(seed: BoolArray, allowed: BoolArray) -> BoolArray:
    """(n, rows, columns): the allowed regions that touch the seed, side by side, step by step."""
    while True:
        grown = seed.copy()
        grown[:, 1:] |= seed[:, :-1]
        grown[:, :-1] |= seed[:, 1:]
        grown[:, :, 1:] |= seed[:, :, :-1]
        grown[:, :, :-1] |= seed[:, :, 1:]
        grown &= allowed
        if (grown == seed).all():
            return seed
        seed = grown


def _extent(used: npt.ArrayLike, starts: FloatArray, ends: FloatArray) -> tuple[float, float]:
    """From the middle of the first used window to that of the last; see the module's docstring."""
    places = np.flatnonzero(used)
    first, last = int(places[0]), int(places[-1])
    window = float(ends[0] - starts[0])  # the first is never cut off
    margin = float(starts[1] - starts[0]) / 2 if len(starts) > 1 else window / 2
    start = float(starts[first] + ends[first]) / 2 - margin
    end = float(starts[last] + ends[last]) / 2 + margin
    missing = max(0.0, window / 2 - (end - start))
    is_last = last == int(np.flatnonzero(ends > starts)[-1])  # those beyond see padding only
    return (
        0.0 if first == 0 else max(0.0, start - missing / 2),
        1.0 if is_last else min(1.0, end + missing / 2),
    )
