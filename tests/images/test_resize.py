"""The two ways to a network's input."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image

from sightwords.errors import InputError
from sightwords.images import (
    CAFFE,
    TORCHVISION,
    fit_size,
    paper_input,
    resize,
    square_input,
    to_array,
)
from sightwords.images.resize import Filter

sizes = st.tuples(st.integers(1, 20000), st.integers(1, 20000))


@given(sizes, st.integers(1, 2000))
@example((20000, 3), 565)
@example((3, 20000), 565)
@example((1, 1), 565)
def test_fit_size_keeps_the_longer_side_and_the_shape(size: tuple[int, int], side: int) -> None:
    width, height = fit_size(*size, side)
    assert max(width, height) == side
    assert min(width, height) >= 1
    exact = min(size) * side / max(size)
    assert abs(min(width, height) - exact) <= 0.5 or (min(width, height) == 1 and exact < 1)
    assert fit_size(size[1], size[0], side) == (height, width)


@pytest.mark.parametrize("size", [(0, 5), (5, 0), (-1, 5)])
def test_fit_size_refuses_what_has_no_pixels(size: tuple[int, int]) -> None:
    with pytest.raises(InputError, match="counted from 1 px"):
        fit_size(*size, 565)


def test_the_papers_input_by_hand() -> None:
    """White 2 x 1 on a canvas of 4: two rows of image, two of zeros; BGR minus Caffe's means."""
    planes = paper_input(Image.new("RGB", (2, 1), (255, 0, 10)), longer_side_px=4)
    assert planes.shape == (3, 4, 4)
    assert planes.dtype == np.float32
    for channel, value in enumerate((10 - 103.939, 0 - 116.779, 255 - 123.68)):
        np.testing.assert_allclose(planes[channel, :2], value, rtol=1e-6)
    assert not planes[:, 2:].any()


def test_torchvision_normalization_by_hand() -> None:
    planes = square_input(Image.new("RGB", (5, 9), (255, 0, 128)), side_px=2)
    expected = [(1 - 0.485) / 0.229, (0 - 0.456) / 0.224, (128 / 255 - 0.406) / 0.225]
    np.testing.assert_allclose(planes[:, 1, 1], expected, rtol=1e-5)
    assert planes.flags.c_contiguous


small_or_thin = st.one_of(
    st.tuples(st.integers(1, 300), st.integers(1, 300)),
    st.tuples(st.integers(1, 20000), st.integers(1, 3)),
    st.tuples(st.integers(1, 3), st.integers(1, 20000)),
)


@settings(max_examples=25, deadline=None)
@given(small_or_thin, st.sampled_from(["bilinear", "bicubic"]))
@example((20000, 3), "bilinear")
@example((3, 20000), "bicubic")
@example((1, 1), "bicubic")
def test_any_size_becomes_an_input(size: tuple[int, int], resample: Filter) -> None:
    rng = np.random.default_rng(0)
    image = Image.fromarray(rng.integers(0, 256, (size[1], size[0], 3), dtype=np.uint8))
    paper = paper_input(image, resample=resample)
    assert paper.shape == (3, 565, 565)
    assert paper.min() >= -123.681
    assert paper.max() <= 255 - 103.938
    width, height = fit_size(*size, 565)
    assert not paper[:, height:].any()
    assert not paper[:, :, width:].any()
    square = square_input(image, side_px=32, resample=resample)
    assert square.shape == (3, 32, 32)
    assert np.abs(square).max() < 2.65


def test_the_resizer_antialiases() -> None:
    """One-pixel stripes shrink to their mean; a resizer that samples points gives moire."""
    stripes = np.zeros((96, 96, 3), dtype=np.uint8)
    stripes[:, ::2] = 255
    filters: tuple[Filter, ...] = ("bilinear", "bicubic")
    for resample in filters:
        small = to_array(resize(Image.fromarray(stripes), (12, 12), resample=resample))
        assert np.abs(small[:, 1:-1].astype(int) - 127).max() <= 2


def test_upsampling_interpolates() -> None:
    pair = Image.fromarray(np.array([[0, 200]], dtype=np.uint8)).convert("RGB")
    row = to_array(resize(pair, (4, 1), resample="bilinear"))[0, :, 0]
    assert row.tolist() == [0, 50, 150, 200]


def test_a_unit_colour_stays_itself_at_every_size() -> None:
    image = Image.new("RGB", (37, 11), (12, 34, 56))
    for size in ((1, 1), (5, 400), (565, 168)):
        assert (to_array(resize(image, size, resample="bicubic")) == (12, 34, 56)).all()


def test_unknown_settings_are_refused_by_name() -> None:
    image = Image.new("RGB", (2, 2))
    with pytest.raises(InputError, match=r"'nearest'.* bilinear, bicubic"):
        resize(image, (1, 1), resample="nearest")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="side_px is 0"):
        square_input(image, side_px=0)


def test_the_constants_are_those_of_the_weights() -> None:
    assert (CAFFE.channels, CAFFE.mean, CAFFE.scale) == ("BGR", (103.939, 116.779, 123.68), 1.0)
    assert (TORCHVISION.channels, TORCHVISION.mean) == ("RGB", (0.485, 0.456, 0.406))
    assert TORCHVISION.std == (0.229, 0.224, 0.225)
