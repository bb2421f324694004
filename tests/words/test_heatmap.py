"""Pictures: colours in even steps, values where their regions are."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from sightwords.errors import InputError
from sightwords.images import fit_size, region_boxes
from sightwords.types import Box, DetectedWord, RegionScores
from sightwords.words.heatmap import (
    colour_scale,
    detected_heatmap,
    draw_heatmap,
    spread,
    word_heatmap,
)

PATCHES = region_boxes(window=5, stride=1, canvas=16).corners.astype(np.float32)


def _luminance(rgb: np.ndarray) -> np.ndarray:
    share = rgb / 255
    linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    result: np.ndarray = linear @ np.array([0.2126, 0.7152, 0.0722])
    return result


def test_lightness_alone_tells_the_values_apart() -> None:
    lightness = np.cbrt(_luminance(colour_scale(64).astype(np.float64)))  # as CIE L*
    steps = np.diff(lightness)
    assert (steps > 0).all()
    assert steps.max() < 2.5 * steps.min()  # even


def test_red_green_blindness_keeps_the_scale() -> None:
    # the scale runs from blue to yellow: red and green rise together
    scale = colour_scale(64).astype(int)
    assert (np.diff(scale[:, 0]) >= 0).all()
    assert (np.diff(scale[:, 1]) >= 0).all()
    assert np.abs(scale[:, 0] - scale[:, 1]).max() < 40


def test_spreading_keeps_a_constant_and_a_mean() -> None:
    flat = spread(np.full((12, 12), 0.3, dtype=np.float32), PATCHES, (80, 40))
    assert flat.shape == (40, 80)
    np.testing.assert_allclose(flat, 0.3, rtol=1e-5)


def test_a_hot_region_is_hot_where_it_lies() -> None:
    values = np.zeros((12, 12), dtype=np.float32)
    values[2, 9] = 1  # columns 9 to 13, rows 2 to 6 of 16 patches
    drawn = spread(values, PATCHES, (160, 160))
    y, x = np.unravel_index(drawn.argmax(), drawn.shape)
    assert x == pytest.approx(115, abs=5)
    assert y == pytest.approx(45, abs=5)
    assert drawn[:, :85].max() < 1e-6
    assert drawn[75:].max() < 1e-6


def test_padding_is_not_drawn() -> None:
    corners = region_boxes(content=fit_size(640, 320, 565)).corners.astype(np.float32)
    values = np.zeros((12, 12), dtype=np.float32)
    values[9:] = 1  # all of it under the photograph
    assert spread(values, corners, (64, 32)).max() < 1e-6


def test_gaps_belong_to_the_nearest_region() -> None:
    apart = np.array([[[0, 0, 0.1, 1], [0.9, 0, 1, 1]]], dtype=np.float32)
    drawn = spread(np.array([[0.0, 1.0]], dtype=np.float32), apart, (100, 1))[0]
    assert np.isfinite(drawn).all()
    assert drawn[0] < 0.01
    assert drawn[-1] > 0.99


def test_a_picture() -> None:
    image = Image.new("RGB", (300, 200), (120, 120, 120))
    values = np.zeros((12, 12), dtype=np.float32)
    values[2, 9] = 0.7
    detected = DetectedWord("dog", 0.9, 0.8, 0.7, Box(0.5, 0.1, 0.9, 0.5))
    regions = RegionScores(values[..., None], PATCHES)
    picture = detected_heatmap(image, regions, 0, detected)
    assert picture.size == (640, 427 + 62)
    hot, cold = picture.getpixel((460, 120)), picture.getpixel((100, 400))
    assert isinstance(hot, tuple)
    assert isinstance(cold, tuple)
    assert hot[0] > hot[2] + 40  # yellow
    assert cold[2] > cold[0] + 20  # blue
    assert np.asarray(picture)[430:].min() < 50  # something is written below
    assert word_heatmap(image, regions, 0, "dog").size == picture.size


@pytest.mark.parametrize("box", [None, Box(0, 0, 1, 1), Box(0.4, 0.4, 0.5, 0.5)])
@pytest.mark.parametrize("size", [(1, 1), (3000, 2), (3000, 10), (2, 3000), (10, 3000)])
def test_odd_photographs(size: tuple[int, int], box: Box | None) -> None:
    nothing = np.zeros((12, 12), dtype=np.float32)
    picture = draw_heatmap(Image.new("RGB", size), nothing, PATCHES, label="naïve", box=box)
    assert picture.width >= 240


def test_what_is_written_below_a_narrow_photograph_is_not_cut() -> None:
    values = np.full((12, 12), 0.00631, dtype=np.float32)
    label = "skateboarding: 0.20, precision 0.48"
    picture = draw_heatmap(Image.new("RGB", (90, 640)), values, PATCHES, label=label)
    written = np.asarray(picture.convert("L"))[640:]
    assert written[:, -6:].min() == 255  # white to the right of every line
    assert picture.width < 400


def test_a_map_of_another_grid_is_refused() -> None:
    with pytest.raises(InputError, match=r"\(4, 4\)"):
        draw_heatmap(Image.new("RGB", (9, 9)), np.zeros((4, 4), np.float32), PATCHES, label="dog")
    with pytest.raises(InputError, match="corners"):
        word_heatmap(
            Image.new("RGB", (9, 9)), RegionScores(np.zeros((4, 4, 1), np.float32)), 0, "dog"
        )
