"""Pixels of any mode or type -> 8-bit RGB.

Deep images (16-bit, 32-bit, float) are scaled by the range they use, where Pillow's own
conversion would clip them to white. Transparency is laid on white.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from sightwords.errors import ImageError

_DEEP_MODES = ("I", "F", "I;16", "I;16L", "I;16B", "I;16N")
_ALPHA_MODES = ("RGBA", "LA", "PA", "La", "RGBa")
_PREMULTIPLIED = {"La": "LA", "RGBa": "RGBA"}


BAND_PIXELS = 1_000_000
"""Rows are converted some at a time: what a conversion needs besides its result stays small."""


def image_to_rgb(image: Image.Image, *, factor: int = 1) -> Image.Image:
    """A loaded Pillow image of any mode as a new 8-bit RGB one, without its metadata.

    `factor` makes it smaller by a whole factor: each pixel is the mean of factor x factor.

    >>> image_to_rgb(Image.new("RGBA", (1, 1), (255, 0, 0, 0))).getpixel((0, 0))
    (255, 255, 255)
    >>> image_to_rgb(Image.new("L", (9, 4)), factor=2).size
    (5, 2)
    """
    width = image.width
    rows = lambda top, bottom: image.crop((0, top, width, bottom))  # noqa: E731
    return rows_to_rgb(image.size, _converter(image), rows, factor=factor)


def buffer_to_rgb(
    data: memoryview, mode: str, size: tuple[int, int], stride: int, *, factor: int = 1
) -> Image.Image:
    """Rows of decoded pixels as RGB, without an image of the whole in between.

    >>> buffer_to_rgb(memoryview(bytes([255, 0, 0, 9] * 2)), "RGB", (1, 2), 4).getpixel((0, 1))
    (255, 0, 0)
    """

    def rows(top: int, bottom: int) -> Image.Image:
        part = data[top * stride : bottom * stride]
        return Image.frombytes(mode, (size[0], bottom - top), part, "raw", mode, stride)

    return rows_to_rgb(size, _converter(Image.new(mode, (1, 1))), rows, factor=factor)


def rows_to_rgb(
    size: tuple[int, int],
    convert: Callable[[Image.Image], Image.Image],
    rows: Callable[[int, int], Image.Image],
    *,
    factor: int,
) -> Image.Image:
    """Put an image together from bands; `rows(top, bottom)` gives those of the source."""
    width, height = size
    rgb = Image.new("RGB", (-(-width // factor), -(-height // factor)))
    step = max(1, BAND_PIXELS // (width * factor)) * factor
    for top in range(0, height, step):
        band = convert(rows(top, min(height, top + step)))
        rgb.paste(band if factor == 1 else band.reduce(factor), (0, top // factor))
    return rgb


def _converter(image: Image.Image) -> Callable[[Image.Image], Image.Image]:
    """What turns a few rows of this image into RGB."""
    if image.mode in _DEEP_MODES:
        ceiling = _ceiling(image)
        return lambda band: _grey(
            _scale(np.nan_to_num(np.asarray(band), posinf=0, neginf=0), ceiling)
        )
    if image.mode in _ALPHA_MODES or "transparency" in image.info:
        mode = _PREMULTIPLIED.get(image.mode, image.mode)
        return lambda band: _on_white(band.convert(mode))
    return lambda band: band.convert("RGB")


def array_to_rgb(array: npt.NDArray[Any], name: str) -> Image.Image:
    """An array of pixels as an 8-bit RGB image; see `decode` for what is taken.

    >>> array_to_rgb(np.full((1, 1), 0.5), "x").getpixel((0, 0))
    (128, 128, 128)
    """
    channels = array.shape[2] if array.ndim == 3 else 1
    if array.ndim not in (2, 3) or channels not in (1, 3, 4):
        raise ImageError(
            f"{name}: an array of shape {array.shape}; expected (H, W), (H, W, 1), (H, W, 3) RGB "
            "or (H, W, 4) RGBA, one image at a time"
        )
    pixels = _array_to_8_bit(array, name).reshape(*array.shape[:2], channels)
    if channels == 1:
        return _grey(pixels[:, :, 0])
    image = Image.fromarray(np.ascontiguousarray(pixels))
    return _on_white(image) if channels == 4 else image


def _array_to_8_bit(array: npt.NDArray[Any], name: str) -> npt.NDArray[np.uint8]:
    if array.dtype == np.uint8:
        return np.asarray(array, dtype=np.uint8)
    if array.dtype == np.bool_:
        return _scale(array, 1)
    if array.dtype == np.uint16:
        return _scale(array, 65535)
    if np.issubdtype(array.dtype, np.floating):
        low, high = float(np.min(array)), float(np.max(array))
        if low >= 0 and high <= 1:  # false for NaN, too
            return _scale(array, 1)
        raise ImageError(
            f"{name}: float pixels from {low:g} to {high:g}; expected 0 to 1 "
            "(divide by 255, or pass uint8)"
        )
    raise ImageError(f"{name}: pixels of type {array.dtype}; expected uint8, uint16, bool or float")


def _ceiling(image: Image.Image) -> float:
    """The value that becomes white: the range of the type, or else the range in use.

    Modes I and F hold anything from 8-bit values to physical units. The ceiling is the smallest
    of 1 (F only), 255, 65535 and the largest value that no pixel exceeds.
    """
    if image.mode.startswith("I;16") or (image.format == "PPM" and image.mode == "I"):
        return 65535.0  # Pillow scales a deep PPM to 16 bits
    ceilings = (1.0, 255.0, 65535.0) if image.mode == "F" else (255.0, 65535.0)
    high = _highest(image)
    return next((c for c in ceilings if high <= c), high)


def _highest(image: Image.Image) -> float:
    """The largest finite value of an image of one channel."""
    width, height = image.size
    rows = max(1, BAND_PIXELS // width)
    bands = (image.crop((0, y, width, min(height, y + rows))) for y in range(0, height, rows))
    values = (np.asarray(band) for band in bands)
    return max(float(np.where(np.isfinite(band), band, 0).max()) for band in values)


def _scale(values: npt.NDArray[Any], ceiling: float) -> npt.NDArray[np.uint8]:
    """0..ceiling -> 0..255, rounded; 16 bits are divided by 257, so that white stays white."""
    scaled = values.astype(np.float32) * np.float32(255 / ceiling)
    rounded: npt.NDArray[np.uint8] = np.clip(np.floor(scaled + 0.5), 0, 255).astype(np.uint8)
    return rounded


def _grey(pixels: npt.NDArray[np.uint8]) -> Image.Image:
    return Image.fromarray(np.ascontiguousarray(pixels)).convert("RGB")


def _on_white(image: Image.Image) -> Image.Image:
    rgba = image.convert("RGBA")
    white = Image.new("RGBA", rgba.size, "white")
    return Image.alpha_composite(white, rgba).convert("RGB")
