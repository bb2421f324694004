"""From a response map to one box: by hand on both grids, and as properties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sightwords.images import fit_size, region_boxes
from sightwords.types import Box
from sightwords.words.boxes import peak_points, peak_regions, word_boxes

PATCHES = region_boxes(window=5, stride=1, canvas=16).corners.astype(np.float32)
WIDE = region_boxes(content=fit_size(640, 320, 565)).corners.astype(np.float32)
"""Rows 9 to 11 see padding only."""


def _map(hot: dict[tuple[int, int], float]) -> np.ndarray:
    values = np.zeros((12, 12, 1), dtype=np.float32)
    for place, value in hot.items():
        values[place[0], place[1], 0] = value
    return values


def test_one_hot_region_gives_half_its_window() -> None:
    # columns 5 to 9 of 16 patches: middle 7.5, half of a window of 5 patches
    box = word_boxes(_map({(3, 5): 0.9}), PATCHES)[0]
    np.testing.assert_allclose(
        [box.x0, box.x1, box.y0, box.y1], np.array([6.25, 8.75, 4.25, 6.75]) / 16, atol=1e-6
    )


def test_a_block_runs_from_middle_to_middle() -> None:
    hot = {(r, c): 0.8 for r in (3, 4) for c in (2, 3, 4, 5)}
    box = word_boxes(_map(hot), PATCHES)[0]
    # middles 4.5 to 7.5 patches, half a patch beyond
    assert (box.x0 * 16, box.x1 * 16) == pytest.approx((4, 8), abs=1e-5)


def test_only_what_touches_the_peak_and_reaches_half_of_it() -> None:
    near = {(3, 5): 0.9, (3, 6): 0.44, (3, 8): 0.9, (4, 6): 0.9}  # diagonal and apart: not joined
    assert word_boxes(_map(near), PATCHES) == word_boxes(_map({(3, 5): 0.9}), PATCHES)
    joined = word_boxes(_map({**near, (3, 6): 0.46}), PATCHES)
    assert joined != word_boxes(_map({(3, 5): 0.9}), PATCHES)


def test_the_edge_of_the_image_is_the_edge_of_the_box() -> None:
    box = word_boxes(_map({(0, 11): 0.5}), PATCHES)[0]
    assert (box.y0, box.x1) == (0.0, 1.0)
    everywhere = word_boxes(np.ones((12, 12, 1), dtype=np.float32), PATCHES)[0]
    assert everywhere == Box(0.0, 0.0, 1.0, 1.0)


def test_padding_never_counts() -> None:
    maps = _map({(11, 0): 1.0, (2, 2): 0.1})
    assert peak_regions(maps, WIDE).tolist() == [[2, 2]]
    assert word_boxes(maps, WIDE)[0].y1 < 1


def test_points_are_the_middle_of_the_peak() -> None:
    both = np.concatenate([_map({(0, 0): 0.5}), _map({(11, 5): 0.5})], axis=2)
    np.testing.assert_allclose(
        peak_points(both, PATCHES), np.array([[2.5, 2.5], [7.5, 13.5]]) / 16, atol=1e-6
    )


def test_ties_go_to_the_first() -> None:
    assert peak_regions(np.zeros((12, 12, 1), dtype=np.float32), PATCHES).tolist() == [[0, 0]]


@given(arrays(np.float32, (12, 12, 2), elements=st.floats(0, 1, width=32)), st.floats(0.05, 1))
def test_a_box_is_a_box_and_holds_its_peak(maps: np.ndarray, fraction: float) -> None:
    for corners in (PATCHES, WIDE):
        boxes = word_boxes(maps, corners, fraction=fraction)
        for box, (x, y) in zip(boxes, peak_points(maps, corners), strict=True):
            assert 0 <= box.x0 < box.x1 <= 1
            assert 0 <= box.y0 < box.y1 <= 1
            assert box.x0 - 1e-6 <= x <= box.x1 + 1e-6
            assert box.y0 - 1e-6 <= y <= box.y1 + 1e-6
