"""Where in the photo a word is: one map per word, finer than its regions (Figure 2).

RegionScores -> maps (rows, columns, n) of n words, and the cells' corners

Deviation: the paper draws the probabilities of its regions, overlapping windows of a third of the
image. A network that also returns `Patches` gives finer maps, in four steps that need no boxes:

1. the word's probability in each patch (fc8 is linear, a region the mean of its patches);
2. a word whose map has more than its share of the last layer's attention names an object: the map
   is multiplied by the square root of that attention, which follows outlines. Words for the
   background (`sky`, `grass`, `street`) have less than their share and are left unchanged;
3. the binomial 1 4 6 4 1 along rows and columns smooths away single patches;
4. cells beyond the image's edge count as zero.

Probabilities do not change: they stay those of Eq. 1 and Eq. 2. Without patches, the map is that of
the regions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sightwords.errors import InputError
from sightwords.types import Box, FloatArray, Patches, RegionScores
from sightwords.words.boxes import HALF, BoolArray, peak_points, region_is_inside, word_boxes
from sightwords.words.noisy_or import sigmoid

BINOMIAL = (1 / 16, 4 / 16, 6 / 16, 4 / 16, 1 / 16)

PATCH_FRACTION = 0.2
"""A box contains what reaches this share of the peak; `docs/words.md` shows how it was chosen."""


@dataclass(frozen=True, slots=True)
class WordMaps:
    """Maps of some words, with their peaks and boxes."""

    maps: FloatArray
    """(rows, columns, n): the evidence for each word there; comparable within one map only."""
    corners: FloatArray
    """(rows, columns, 4): x0, y0, x1, y1 of each cell in fractions of the upright image."""
    fraction: float = HALF
    """Share of the peak that belongs to the word's box."""

    def points(self) -> FloatArray:
        """(n, 2): x and y of each map's peak."""
        return peak_points(self.maps, self.corners)

    def boxes(self) -> list[Box]:
        """One box per word, around its peak."""
        return word_boxes(self.maps, self.corners, fraction=self.fraction)


def word_maps(regions: RegionScores, chosen: Sequence[int]) -> WordMaps:
    """Maps of the words with these indices in the vocabulary, in that order."""
    if regions.corners is None:
        raise InputError("these region scores have no corners; take them from a Detector")
    if regions.patches is None:
        return WordMaps(regions.region_probs[..., list(chosen)], regions.corners)
    maps = patch_maps(regions.patches, chosen)
    return WordMaps(maps, regions.patches.corners, PATCH_FRACTION)


def patch_maps(patches: Patches, chosen: Sequence[int]) -> FloatArray:
    """(rows, columns, n): steps 1 to 4 of the module's docstring.

    >>> logits, attention = np.full((5, 5, 1), -50.0), np.full((5, 5), 0.04)
    >>> logits[2, 2] = 50  # one sure patch: the binomial's weights, in 256ths
    >>> corners = np.broadcast_to(np.float32([0, 0, 1, 1]), (5, 5, 4))
    >>> (256 * patch_maps(Patches(logits, attention, corners), [0])[2, :, 0]).round().tolist()
    [6.0, 24.0, 36.0, 24.0, 6.0]
    """
    inside = region_is_inside(patches.corners)[..., None]
    probs = np.where(inside, sigmoid(patches.logits[..., list(chosen)]), np.float32(0))
    attention = np.where(inside, patches.attention[..., None], np.float32(0))
    masked = probs * np.sqrt(attention / attention.max())
    maps = np.where(_has_its_share(probs, attention), masked, probs)
    return smoothed(maps)


def smoothed(maps: FloatArray) -> FloatArray:
    """(rows, columns, n) by the binomial along rows and columns; zeros beyond the edges."""
    down, across = (_smoothing(count) for count in maps.shape[:2])
    smooth: FloatArray = np.einsum("ab,bcn,cd->adn", down, maps, across, optimize=True)
    return smooth


def _has_its_share(probs: FloatArray, attention: FloatArray) -> BoolArray:
    """(n,): whether attention is higher where the word is than in the mean of the image."""
    everywhere = attention.sum() / max(1, np.count_nonzero(attention))
    weights = np.maximum(probs.sum(axis=(0, 1)), np.finfo(np.float32).tiny)
    has: BoolArray = (probs * attention).sum(axis=(0, 1)) / weights > everywhere
    return has


def _smoothing(count: int) -> FloatArray:
    """(count, count): one row per cell, with the weights of its neighbours."""
    reach = len(BINOMIAL) // 2
    matrix = sum(w * np.eye(count, k=k - reach) for k, w in enumerate(BINOMIAL))
    return np.asarray(matrix, dtype=np.float32)
