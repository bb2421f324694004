"""The envelopes of `mert_line`, compiled by numba (extra `fast`).

Walking beats sorting here: an envelope has some five to ten corners, and finding the next of them
is one pass over the image's lines.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sightwords.language.kernels import jit


def _walk_one(a: Any, b: Any, bounds: Any, corners: Any, at: int) -> Any:
    """Append one image's corners from place `at` on; its first choice, and the next place."""
    low, high = bounds
    gammas, before, after = corners
    current = low
    for h in range(low + 1, high):
        if b[h] < b[current] or (b[h] == b[current] and a[h] > a[current]):
            current = h
    first = current
    while at < len(gammas):
        nearest = np.inf
        chosen = current
        own_a, own_b = a[current], b[current]
        for h in range(low, high):
            rise = b[h] - own_b
            if rise > 0:
                gamma = (own_a - a[h]) / rise
                if gamma < nearest or (gamma == nearest and b[h] > b[chosen]):
                    nearest = gamma
                    chosen = h
        if chosen == current:
            return first, at, True
        gammas[at] = nearest
        before[at] = current
        after[at] = chosen
        at += 1
        current = chosen
    return first, at, False


walk_one = jit(_walk_one, beside=(__file__,), reorder=False)


def _walk(a: Any, b: Any, offsets: Any) -> Any:
    """All images: corners and first choices; the arrays grow where they are too short."""
    count = len(offsets) - 1
    first = np.empty(count, dtype=np.int64)
    gammas = np.empty(16 * count + 64)
    before = np.empty(len(gammas), dtype=np.int64)
    after = np.empty(len(gammas), dtype=np.int64)
    at = 0
    for i in range(count):
        while True:
            bounds = (offsets[i], offsets[i + 1])
            first[i], end, done = walk_one(a, b, bounds, (gammas, before, after), at)
            if done:
                at = end
                break
            gammas = np.concatenate((gammas, np.empty_like(gammas)))
            before = np.concatenate((before, np.empty_like(before)))
            after = np.concatenate((after, np.empty_like(after)))
    return gammas[:at], before[:at], after[:at], first


walk = jit(_walk, beside=(__file__,), reorder=False)
