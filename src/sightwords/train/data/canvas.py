"""An image of a corpus, decoded and resized onto a square canvas, as training needs it."""

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
"""(side, side, 3) RGB, and the width and height of the image on it."""

MAY_BE_TURNED = (b"Exif\0\0", b"tiff:Orientation")
"""A JPEG with these bytes may be rotated; Pillow decodes it."""
FOR_PRINT = ("CMYK", "YCCK")
"""Pillow decodes these colour spaces too, because libjpeg-turbo converts them differently."""


def canvas(example: Example, *, side_px: int, mode: Resize) -> Canvas | str:
    """The image on its square canvas and its size there; or the error as text."""
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
    """A JPEG's pixels, equal to Pillow's but faster; None if Pillow must decode the file."""
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
    except ValueError:  # Pillow may still read it, or reports the error
        return None
    return pixels


@cache
def _turbo() -> Any:
    """Simplejpeg (libjpeg-turbo without Pillow's header parsing and copies), if it is installed."""
    try:
        return require("simplejpeg", extra="train", purpose="decoding JPEG faster")
    except (MissingExtraError, ImportError):
        return None


@contextmanager
def one_thread_a_decoder() -> Iterator[None]:
    """Let each decoder use one thread, because there is one process per core (AVIF uses more)."""
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
