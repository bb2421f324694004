"""Upright RGB -> what a network takes: (3, height, width) float32 (section 3.1).

Two ways, one resizer:

- `paper_input`: the longer side becomes 565 px, the image lies at the top left of a square
  canvas, and the rest of the canvas is zero after the mean is subtracted.
- `square_input`: the image is squashed to N x N.

The resizer is Pillow's separable convolution, whose filter widens with the reduction, so that
fine texture is averaged and not aliased. Training and serving both call it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from PIL import Image

from sightwords.errors import InputError
from sightwords.images.decode import to_array
from sightwords.types import FloatArray

Filter = Literal["bilinear", "bicubic"]

PAPER_SIDE_PX = 565
"""Longer side of the up-sampled image (section 3.1)."""

_FILTERS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}


@dataclass(frozen=True, slots=True)
class Normalization:
    """How 8-bit RGB becomes the numbers a network was trained on.

    output = (pixel * scale - mean) / std, by channel, in the network's channel order.
    """

    channels: Literal["RGB", "BGR"]
    scale: float
    """1 keeps 0..255, 1/255 makes 0..1."""
    mean: tuple[float, float, float]
    """In the order of `channels`, after `scale`."""
    std: tuple[float, float, float]

    def apply(self, image: Image.Image) -> FloatArray:
        """RGB image -> (3, height, width) float32, contiguous.

        >>> CAFFE.apply(Image.new("RGB", (1, 1), (124, 117, 104)))[:, 0, 0].round(3)
        array([0.061, 0.221, 0.32 ], dtype=float32)
        """
        pixels = to_array(image)
        if self.channels == "BGR":
            pixels = pixels[:, :, ::-1]
        std = np.asarray(self.std, dtype=np.float64)
        gain = (self.scale / std).astype(np.float32)[:, None, None]
        shift = (np.asarray(self.mean) / std).astype(np.float32)[:, None, None]
        planes = np.ascontiguousarray(pixels.transpose(2, 0, 1)).astype(np.float32)
        planes *= gain
        planes -= shift
        return planes


CAFFE = Normalization("BGR", 1.0, (103.939, 116.779, 123.68), (1.0, 1.0, 1.0))
"""The authors' weights: Caffe's BGR and ImageNet's means."""

TORCHVISION = Normalization("RGB", 1 / 255, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
"""Weights trained in torchvision's manner, DINOv2's among them."""


def fit_size(width: int, height: int, longer_side_px: int) -> tuple[int, int]:
    """Size with the longer side at `longer_side_px` and the shape kept; no side below 1.

    Halves round up.

    >>> fit_size(640, 480, 565), fit_size(20000, 3, 565), fit_size(1, 1, 565)
    ((565, 424), (565, 1), (565, 565))
    """
    if min(width, height, longer_side_px) < 1:
        raise InputError(
            f"sides are counted from 1 px; got {width} x {height} to fit {longer_side_px}"
        )
    longer = max(width, height)

    def scaled(side: int) -> int:
        return max(1, (2 * side * longer_side_px + longer) // (2 * longer))

    return scaled(width), scaled(height)


def resize(image: Image.Image, size: tuple[int, int], *, resample: Filter) -> Image.Image:
    """Resize to exactly (width, height), antialiased; smaller or larger."""
    if resample not in _FILTERS:
        raise InputError(f"resample is {resample!r}; expected one of {', '.join(_FILTERS)}")
    return image if image.size == size else image.resize(size, _FILTERS[resample])


def paper_input(
    image: Image.Image,
    *,
    longer_side_px: int = PAPER_SIDE_PX,
    normalization: Normalization = CAFFE,
    resample: Filter = "bilinear",
) -> FloatArray:
    """The paper's input: (3, 565, 565) float32, the image at the top left, zeros elsewhere.

    The zeros are put in after normalising, so padding looks like the mean colour.

    >>> paper_input(Image.new("RGB", (640, 480))).shape
    (3, 565, 565)
    """
    size = fit_size(*image.size, longer_side_px)
    planes = normalization.apply(resize(image, size, resample=resample))
    canvas = np.zeros((3, longer_side_px, longer_side_px), dtype=np.float32)
    canvas[:, : planes.shape[1], : planes.shape[2]] = planes
    return canvas


def square_input(
    image: Image.Image,
    *,
    side_px: int = 224,
    normalization: Normalization = TORCHVISION,
    resample: Filter = "bicubic",
) -> FloatArray:
    """The whole image squashed to a square: (3, side_px, side_px) float32.

    >>> square_input(Image.new("RGB", (640, 480)), side_px=32).shape
    (3, 32, 32)
    """
    if side_px < 1:
        raise InputError(f"side_px is {side_px}; expected at least 1")
    return normalization.apply(resize(image, (side_px, side_px), resample=resample))
