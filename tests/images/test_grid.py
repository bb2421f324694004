"""Where the regions lie in the photograph."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightwords.errors import InputError
from sightwords.images import RegionBoxes, fit_size, region_boxes
from sightwords.types import Box


def paper_regions(width: int, height: int) -> RegionBoxes:
    return region_boxes(content=fit_size(width, height, 565))


def test_the_papers_windows_on_a_square_image() -> None:
    grid = paper_regions(100, 100)
    assert grid.corners.shape == (12, 12, 4)
    assert grid.inside.all()
    assert grid.box(0, 0) == Box(0.0, 0.0, 224 / 565, 224 / 565)
    assert grid.box(3, 1) == Box(32 / 565, 96 / 565, 256 / 565, 320 / 565)
    # 11 * 32 + 224 = 576 > 565: ceil-mode pooling lets the last window hang over.
    assert grid.box(11, 11) == Box(352 / 565, 352 / 565, 1.0, 1.0)


def test_windows_over_padding_have_no_box() -> None:
    grid = paper_regions(640, 320)  # 565 x 283 (282.5 rounds up) on the canvas
    assert grid.inside.all(axis=1).tolist() == [True] * 9 + [False] * 3  # 8 * 32 = 256 < 283
    assert grid.box(8, 0) == Box(0.0, 256 / 283, 224 / 565, 1.0)
    assert grid.box(9, 0) is None


@given(st.integers(1, 20000), st.integers(1, 20000))
def test_boxes_are_boxes_and_cover_the_image(width: int, height: int) -> None:
    grid = paper_regions(width, height)
    assert grid.inside[0, 0]
    shown = grid.corners[grid.inside]
    assert (shown >= 0).all()
    assert (shown <= 1).all()
    assert (shown[:, 0] < shown[:, 2]).all()
    assert (shown[:, 1] < shown[:, 3]).all()
    assert shown[:, 2].max() == 1
    assert shown[:, 3].max() == 1
    assert not grid.corners[~grid.inside].any()
    # transposing the image transposes the grid
    turned = paper_regions(height, width)
    np.testing.assert_array_equal(grid.inside, turned.inside.T)
    np.testing.assert_array_equal(
        grid.corners, turned.corners.transpose(1, 0, 2)[:, :, [1, 0, 3, 2]]
    )


def test_a_vits_windows() -> None:
    grid = region_boxes(window=5, stride=1, canvas=16)
    assert grid.inside.shape == (12, 12)
    assert grid.inside.all()
    assert grid.box(0, 0) == Box(0.0, 0.0, 5 / 16, 5 / 16)
    assert grid.box(11, 11) == Box(11 / 16, 11 / 16, 1.0, 1.0)


@pytest.mark.parametrize("content", [(566, 1), (0, 5)])
def test_impossible_geometry_is_refused(content: tuple[int, int]) -> None:
    with pytest.raises(InputError, match="canvas of 565"):
        region_boxes(content=content)
