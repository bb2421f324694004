"""Rows of an image table -> network inputs, on the device that trains (section 3.1).

Serving resizes with `images.resize`; training cuts random crops out of stored pixels, which the
processor next to the network does a hundred times faster.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from sightwords.config import WordsConfig
from sightwords.images import Normalization


def to_input(pixels: Tensor, size_px: int, normalization: Normalization) -> Tensor:
    """(B, side, side, 3) uint8 -> (B, 3, size_px, size_px) normalised, nothing random."""
    images = pixels.permute(0, 3, 1, 2).float()
    if images.shape[-1] != size_px:
        smaller = images.shape[-1] > size_px
        images = functional.interpolate(
            images, size=(size_px, size_px), mode="bilinear", antialias=smaller
        )
    return normalize(images, normalization)


def augmented(
    pixels: Tensor, size_px: int, normalization: Normalization, config: WordsConfig
) -> Tensor:
    """As `to_input`, with the random crop, mirror and light of each image drawn anew."""
    if config.smallest_crop == 1 and not config.flip and config.jitter == 0:
        return to_input(pixels, size_px, normalization)
    images = pixels.permute(0, 3, 1, 2).float()
    grid = functional.affine_grid(
        _crops(len(pixels), config, images.device),
        [len(pixels), 3, size_px, size_px],
        align_corners=False,
    )
    images = functional.grid_sample(
        images, grid, mode="bilinear", padding_mode="reflection", align_corners=False
    )
    return normalize(_light(images, config.jitter), normalization)


def normalize(images: Tensor, normalization: Normalization) -> Tensor:
    """(B, 3, H, W) RGB in 0..255 -> the numbers the network was trained on."""
    if normalization.channels == "BGR":
        images = images.flip(1)
    mean = torch.tensor(normalization.mean, device=images.device).view(1, 3, 1, 1)
    std = torch.tensor(normalization.std, device=images.device).view(1, 3, 1, 1)
    return (images * normalization.scale - mean) / std


def blank_padding(images: Tensor, content: Tensor, side_px: int) -> Tensor:
    """Set what lies beyond each image's `content` (B, 2) width and height to zero (the paper)."""
    size = images.shape[-1]
    limits = torch.ceil(content.float() * size / side_px)
    ruler = torch.arange(size, device=images.device)
    inside_x = (ruler < limits[:, :1])[:, None, None, :]
    inside_y = (ruler < limits[:, 1:])[:, None, :, None]
    return images * (inside_x & inside_y)


def _crops(count: int, config: WordsConfig, device: torch.device) -> Tensor:
    """(B, 2, 3) affine maps: a share of the area, a shape from 3:4 to 4:3, a place, a mirror."""
    area = torch.empty(count, device=device).uniform_(config.smallest_crop, 1)
    shape = torch.empty(count, device=device)
    span = math.log(4 / 3) if config.smallest_crop < 1 else 0.0
    shape = shape.uniform_(-span, span).exp()
    width = (area * shape).sqrt().clamp(max=1)
    height = (area / shape).sqrt().clamp(max=1)
    x = (torch.rand(count, device=device) * 2 - 1) * (1 - width)
    y = (torch.rand(count, device=device) * 2 - 1) * (1 - height)
    mirror = torch.ones(count, device=device)
    if config.flip:
        mirror -= 2 * (torch.rand(count, device=device) < 0.5).float()
    zero = torch.zeros(count, device=device)
    rows = [width * mirror, zero, x, zero, height, y]
    return torch.stack(rows, dim=1).view(count, 2, 3)


def _light(images: Tensor, jitter: float) -> Tensor:
    """Brightness and contrast, each by a factor of up to 1 +- jitter, an image at a time."""
    if jitter == 0:
        return images
    shape = (len(images), 1, 1, 1)
    brightness = torch.empty(shape, device=images.device).uniform_(1 - jitter, 1 + jitter)
    contrast = torch.empty(shape, device=images.device).uniform_(1 - jitter, 1 + jitter)
    mean = images.mean(dim=(1, 2, 3), keepdim=True)
    return ((images - mean) * contrast + mean * brightness).clamp(0, 255)
