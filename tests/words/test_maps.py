"""WordMaps: maps of patches worked out by hand; what they may and may not change."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightwords.errors import InputError
from sightwords.images import region_boxes
from sightwords.types import FloatArray, Patches, RegionScores
from sightwords.words.heatmap import best_region
from sightwords.words.maps import patch_maps, word_maps
from sightwords.words.noisy_or import pool

SIDE = 16
CORNERS = region_boxes(SIDE, SIDE, window=1, stride=1, canvas=SIDE).corners.astype(np.float32)
REGIONS = region_boxes(window=5, stride=1, canvas=16).corners.astype(np.float32)


def _patches(logits: FloatArray, attention: FloatArray | None = None) -> Patches:
    even = np.full((SIDE, SIDE), 1 / SIDE**2, dtype=np.float32)
    return Patches(logits, even if attention is None else attention, CORNERS)


def _blobs(*spots: tuple[int, int, float]) -> FloatArray:
    """Logits of one word: -6, but for 3 x 3 patches around each row and column."""
    logits = np.full((SIDE, SIDE, 1), -6, dtype=np.float32)
    for row, column, value in spots:
        logits[row - 1 : row + 2, column - 1 : column + 2] = value
    return logits


def _seen(logits: FloatArray, attention: FloatArray | None = None) -> RegionScores:
    windows = np.lib.stride_tricks.sliding_window_view(logits, (5, 5), axis=(0, 1))
    probs = (1 / (1 + np.exp(-windows.mean(axis=(-2, -1))))).astype(np.float32)
    return RegionScores(probs, REGIONS, patches=_patches(logits, attention))


def test_one_patch_is_no_place() -> None:
    logits = _blobs((4, 4, 1.0))
    logits[12, 12] = 3  # alone: .95 x 36 / 256 of itself, against .73 of nearly all of a blob
    x, y = word_maps(_seen(logits), [0]).points()[0]
    assert (x, y) == pytest.approx((4.5 / 16, 4.5 / 16))


def test_a_thing_is_where_it_is_looked_at() -> None:
    logits = _blobs((4, 4, 2.0), (11, 11, 1.5))
    attention = np.full((SIDE, SIDE), 0.001, dtype=np.float32)
    attention[10:13, 10:13] = 0.05
    assert tuple(word_maps(_seen(logits), [0]).points()[0]) == pytest.approx((4.5 / 16, 4.5 / 16))
    looked = word_maps(_seen(logits, attention), [0]).points()[0]
    assert tuple(looked) == pytest.approx((11.5 / 16, 11.5 / 16))


def test_what_lies_around_is_not_drawn_to_the_thing() -> None:
    # a field around a dog: the field's map has less than its share of what is looked at
    logits = np.full((SIDE, SIDE, 1), 2, dtype=np.float32)
    logits[6:10, 6:10] = -2
    attention = np.full((SIDE, SIDE), 0.001, dtype=np.float32)
    attention[5:11, 5:11] = 0.025
    even = patch_maps(_patches(logits), [0])
    np.testing.assert_array_equal(patch_maps(_patches(logits, attention), [0]), even)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), scale=st.sampled_from([1e-6, 0.1, 1.0, 1e3]))
def test_units_of_attention_are_of_no_matter(seed: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    logits = rng.normal(-3, 2, (SIDE, SIDE, 3)).astype(np.float32)
    attention = rng.random((SIDE, SIDE)).astype(np.float32)
    one = patch_maps(_patches(logits, attention), [0, 1, 2])
    other = patch_maps(_patches(logits, attention * np.float32(scale)), [0, 1, 2])
    np.testing.assert_allclose(one, other, rtol=1e-4)
    assert (one > 0).all()
    alone = patch_maps(_patches(logits, attention), [2])  # a word's map is its own
    np.testing.assert_allclose(one[..., 2:], alone, rtol=1e-5)


def test_probabilities_are_those_of_the_regions() -> None:
    seen = _seen(_blobs((4, 4, 2.0)))
    without = replace(seen, patches=None)
    assert (pool(seen).image_probs == pool(without).image_probs).all()
    assert best_region(seen, 0) == best_region(without, 0) == seen.region_probs.max()


def test_without_patches_the_regions_tell() -> None:
    seen = replace(_seen(_blobs((11, 3, 2.0))), patches=None)
    found = word_maps(seen, [0])
    assert found.maps.shape == (12, 12, 1)
    # nine windows of 5 x 5 patches hold all of it: the first, rows 8 to 12 and columns 0 to 4
    assert tuple(found.points()[0]) == pytest.approx((2.5 / 16, 10.5 / 16))
    with pytest.raises(InputError, match="corners"):
        word_maps(RegionScores(seen.region_probs), [0])


def test_a_box_holds_the_thing_and_at_most_a_patch_more() -> None:
    box = word_maps(_seen(_blobs((4, 9, 2.0))), [0]).boxes()[0]
    assert 2 / 16 <= box.y0 <= 3 / 16 < 6 / 16 <= box.y1 <= 7 / 16
    assert 7 / 16 <= box.x0 <= 8 / 16 < 11 / 16 <= box.x1 <= 12 / 16


def test_padding_is_no_place() -> None:
    # the lower half of the canvas is padding: whatever the network says there is not in the image
    cells = region_boxes(SIDE, SIDE, window=1, stride=1, canvas=SIDE, content=(SIDE, SIDE // 2))
    attention = np.full((SIDE, SIDE), 0.001, dtype=np.float32)
    attention[12:] = 0.5
    logits = _blobs((4, 4, 1.0), (13, 13, 9.0))
    patches = Patches(logits, attention, cells.corners.astype(np.float32))
    seen = RegionScores(np.zeros((12, 12, 1), np.float32), REGIONS, patches=patches)
    assert tuple(word_maps(seen, [0]).points()[0]) == pytest.approx((4.5 / 16, 4.5 / 8))
    # nor is what the network looks at there of any weight for the rest
    attention[2:7, 2:7] = 0.01
    looked = patch_maps(patches, [0])
    attention[12:] = 0.0
    np.testing.assert_array_equal(patch_maps(patches, [0]), looked)
