"""An image of a corpus as training takes it: decoded, resized, on a square of one size."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from PIL import Image, features

from sightwords.errors import ImageError
from sightwords.images import decode, fit_size, resize
from sightwords.types import Example
from sightwords.words.artefact import Resize

Canvas = tuple[Image.Image, tuple[int, int]]
"""A square RGB image, and the width and height of the photograph on it."""


def canvas(example: Example, *, side_px: int, mode: Resize) -> Canvas | str:
    """The image on its square canvas, with its size there; or the error as text."""
    assert example.image is not None
    try:
        image = decode(example.image)
    except ImageError as error:
        return str(error)
    if mode == "square":
        size = (side_px, side_px)
        return resize(image, size, resample="bicubic"), size
    size = fit_size(*image.size, side_px)
    square = Image.new("RGB", (side_px, side_px))
    square.paste(resize(image, size, resample="bilinear"), (0, 0))
    return square, size


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
