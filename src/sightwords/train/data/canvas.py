"""An image of a corpus as training takes it: decoded, resized, on a square of one size."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, features

from sightwords.errors import ImageError, MissingExtraError, require
from sightwords.images import REDUCED_ABOVE, decode, fit_size, resize
from sightwords.types import Example, ImageRef
from sightwords.words.artefact import Resize

Pixels = npt.NDArray[np.uint8]
Canvas = tuple[Pixels, tuple[int, int]]
"""(side, side, 3) RGB, and the width and height of the photograph on them."""

MAY_BE_TURNED = (b"Exif\0\0", b"tiff:Orientation")
"""A JPEG with these is left to Pillow, which looks what they say."""
FOR_PRINT = ("CMYK", "YCCK")
"""And one of these colours, which libjpeg-turbo turns into others than Pillow does."""


def canvas(example: Example, *, side_px: int, mode: Resize) -> Canvas | str:
    """The image on its square canvas, with its size there; or the error as text."""
    assert example.image is not None
    pixels = _jpeg(example.image)
    square = (side_px, side_px)
    if mode == "square" and pixels is not None and pixels.shape[:2] == square:
        return pixels, square
    try:
        image = decode(example.image) if pixels is None else Image.fromarray(pixels)
    except ImageError as error:
        return str(error)
    if mode == "square":
        return np.asarray(resize(image, square, resample="bicubic")), square
    size = fit_size(*image.size, side_px)
    drawn = Image.new("RGB", square)
    drawn.paste(resize(image, size, resample="bilinear"), (0, 0))
    return np.asarray(drawn), size


def _jpeg(image: ImageRef) -> Pixels | None:
    """A JPEG's pixels as Pillow would give them, sooner; None for all that is not that simple."""
    data, turbo = image.data, _turbo()
    if data is None or turbo is None or not data.startswith(b"\xff\xd8"):
        return None
    if any(mark in data for mark in MAY_BE_TURNED):
        return None
    try:
        height, width, colours, _ = turbo.decode_jpeg_header(data)
        if colours in FOR_PRINT or height * width > REDUCED_ABOVE:
            return None
        pixels: Pixels = turbo.decode_jpeg(data)
    except ValueError:  # Pillow reads it all the same, or says what is wrong
        return None
    return pixels


@cache
def _turbo() -> Any:
    """libjpeg-turbo without Pillow's header parsing and copies, where it is installed."""
    try:
        return require("simplejpeg", extra="train", purpose="decoding JPEG sooner")
    except (MissingExtraError, ImportError):
        return None


@contextmanager
def one_thread_a_decoder() -> Iterator[None]:
    """There is a decoder for every core: threads of each (AVIF) would be in each other's way."""
    if not features.check("avif"):
        yield
        return
    from PIL import AvifImagePlugin

    before = AvifImagePlugin.DEFAULT_MAX_THREADS
    AvifImagePlugin.DEFAULT_MAX_THREADS = 1
    try:
        yield
    finally:
        AvifImagePlugin.DEFAULT_MAX_THREADS = before
