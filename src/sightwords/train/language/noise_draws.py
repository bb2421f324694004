"""The noise of section 4.1: rows of words drawn by their frequency.

Each of a row's k words follows the noise distribution q, which is all that NCE needs. The words of
a row are not independent, for two reasons. Draws are spread evenly (stratified), so that no row has
too many frequent words. And they come in threes from the same eight neighbours in the vocabulary,
whose weights after any context share a cache line or two. This takes a third off the memory
traffic without a loss of quality.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sightwords.config import LanguageConfig
from sightwords.train.language.state import Noise

ROW_BITS = 16
TOGETHER = 3
"""Draws from the same neighbourhood."""
NEIGHBOURS = 8
"""Words in a neighbourhood: cells of 8 bytes in a cache line of 64."""

Shares = npt.NDArray[np.float64]


def smoothed(counts: npt.NDArray[np.int64], *, power: float = 1.0) -> Shares:
    """The noise distribution: (count + 1) to a power, normalised.

    >>> smoothed(np.array([8, 0])).tolist(), smoothed(np.array([8, 0]), power=0.5).tolist()
    ([0.9, 0.1], [0.75, 0.25])
    """
    weights = (counts + 1.0) ** power
    shares: Shares = weights / weights.sum()
    return shares


def noise_rows(shares: Shares, config: LanguageConfig) -> Noise:
    """Rows of `noise_samples` draws; those that the attribute set may replace come separately."""
    rng = np.random.default_rng((config.seed, 1))
    common = config.noise_samples - config.attribute_samples
    words, times, drawn = merged(draws(shares, common, rng))
    spare = draws(shares, config.attribute_samples, rng)
    return Noise(words.astype(np.uint32), times, drawn, spare.astype(np.uint32))


def draws(
    shares: Shares, count: int, rng: np.random.Generator, *, bits: int = ROW_BITS
) -> npt.NDArray[np.int64]:
    """(2^bits, count) words, ascending in each row; each word has its share within a few draws."""
    rows = 1 << bits
    sizes = [TOGETHER] * (count // TOGETHER) + [1] * (count % TOGETHER)
    ends = np.cumsum(sizes) / max(1, count)
    every = [np.empty((rows, 0), dtype=np.int64)]
    for size, end in zip(sizes, ends, strict=True):
        places = end - size / count * (np.arange(rows) + 0.5)[::-1] / rows
        every.append(rng.permutation(_neighbours(shares, places, size)))
    return np.sort(np.concatenate(every, axis=1), axis=1)


def _neighbours(shares: Shares, places: Shares, size: int) -> npt.NDArray[np.int64]:
    """(rows, size) words: a neighbourhood for each of the ascending places in [0, 1), then words
    of it by their shares, evenly spread over each row and over the rows of a neighbourhood.
    """
    padded = np.zeros(-(-len(shares) // NEIGHBOURS) * NEIGHBOURS)
    padded[: len(shares)] = shares
    near = padded.reshape(-1, NEIGHBOURS)
    which = np.searchsorted(np.cumsum(near.sum(axis=1)), places).clip(max=len(near) - 1)
    first, stop = np.searchsorted(which, which), np.searchsorted(which, which, side="right")
    phase = (np.arange(len(places)) - first + 0.5) / (stop - first)
    inside = np.cumsum(near / near.sum(axis=1, keepdims=True), axis=1)[which]
    spread = (phase[:, None] + np.arange(size)) / size
    within = (inside[:, None, :] < spread[:, :, None]).sum(axis=2)
    found: npt.NDArray[np.int64] = which[:, None] * NEIGHBOURS + within
    return found.clip(max=len(shares) - 1)


def merged(
    rows: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Ascending rows -> the different words of each, how often each occurs, and how many there are.

    >>> words, times, drawn = merged(np.array([[2, 2, 5], [1, 3, 3]]))
    >>> words.tolist(), times.tolist(), drawn.tolist()
    ([[2, 5, 0], [1, 3, 0]], [[2.0, 1.0, 0.0], [1.0, 2.0, 0.0]], [2, 2])
    """
    new = np.ones(rows.shape, dtype=np.bool_)
    new[:, 1:] = rows[:, 1:] != rows[:, :-1]
    column = np.cumsum(new, axis=1) - 1
    row = np.broadcast_to(np.arange(len(rows))[:, None], rows.shape)
    words, times = np.zeros_like(rows), np.zeros(rows.shape, dtype=np.float32)
    words[row, column] = rows
    np.add.at(times, (row, column), np.float32(1))
    return words, times, new.sum(axis=1)
