"""Rows of an image table -> network inputs, on the device that trains (section 3.1).

Captioning resizes with `images.resize`; training cuts random crops out of stored pixels on the
device that trains, which is a hundred times faster.
"""

from __future__ import annotations

import math
from functools import cache

import torch
from torch import Tensor
from torch.nn import functional

from sightwords.config import WordsConfig
from sightwords.images import Normalization
from sightwords.train.data.sampler import rand_rows
from sightwords.words.artefact import InputSpec


def network_input(
    pixels: Tensor, content: Tensor, spec: InputSpec, config: WordsConfig | None = None
) -> Tensor:
    """(B, side, side, 3) uint8 -> (B, 3, size_px, size_px) normalised.

    `content` (B, 2) is the width and height of each image on its canvas. With `config`, crop,
    mirror and light are drawn for each image (`train.data.sampler`).
    """
    images = pixels.permute(0, 3, 1, 2).float()
    if config is not None and is_random(config):
        shares = content.float() / pixels.shape[1]
        images = _light(_cropped(images, shares, spec.size_px, config), config.jitter)
    elif images.shape[-1] != spec.size_px:
        size = (spec.size_px, spec.size_px)
        smaller = images.shape[-1] > spec.size_px
        images = functional.interpolate(images, size=size, mode="bilinear", antialias=smaller)
    images = normalize(images, spec.normalization)
    return blank_padding(images, content, pixels.shape[1]) if spec.resize == "paper" else images


def is_random(config: WordsConfig) -> bool:
    """Whether training images are changed at random."""
    return config.smallest_crop < 1 or config.flip or config.jitter > 0


def normalize(images: Tensor, normalization: Normalization) -> Tensor:
    """(B, 3, H, W) RGB in 0..255 -> the numbers the network was trained on."""
    if normalization.channels == "BGR":
        images = images.flip(1)
    mean, std = _constants(normalization, images.device)
    return (images * normalization.scale - mean) / std


@cache
def _constants(normalization: Normalization, device: torch.device) -> tuple[Tensor, Tensor]:
    """Mean and deviation, copied to the device once, because a copy makes a GPU wait."""
    mean, std = (torch.tensor(v, device=device) for v in (normalization.mean, normalization.std))
    return mean.view(1, 3, 1, 1), std.view(1, 3, 1, 1)


def blank_padding(images: Tensor, content: Tensor, side_px: int) -> Tensor:
    """Set everything beyond each image's `content` (B, 2) width and height to zero (the paper)."""
    size = images.shape[-1]
    limits = torch.ceil(content.float() * size / side_px)
    ruler = torch.arange(size, device=images.device)
    inside_x = (ruler < limits[:, :1])[:, None, None, :]
    inside_y = (ruler < limits[:, 1:])[:, None, :, None]
    return images * (inside_x & inside_y)


def _cropped(images: Tensor, shares: Tensor, size_px: int, config: WordsConfig) -> Tensor:
    grid = functional.affine_grid(
        random_crops(shares, config), [len(images), 3, size_px, size_px], align_corners=False
    )
    return functional.grid_sample(
        images, grid, mode="bilinear", padding_mode="reflection", align_corners=False
    )


def random_crops(shares: Tensor, config: WordsConfig) -> Tensor:
    """(B, 2, 3) affine maps of crops: random area, shape from 3:4 to 4:3, place and mirror.

    `shares` (B, 2) is how much of the canvas each image takes up; a crop stays inside it, and
    fills it again.
    """
    drawn = rand_rows(len(shares), 5, device=shares.device)
    area = config.smallest_crop + drawn[:, 0] * (1 - config.smallest_crop)
    span = math.log(4 / 3) if config.smallest_crop < 1 else 0.0
    shape = (span * (2 * drawn[:, 1] - 1)).exp()
    size = torch.stack([area * shape, area / shape], dim=1).sqrt().clamp(max=1)  # width, height
    place = (drawn[:, 2:4] * 2 - 1) * (1 - size)
    scale = size.clone()
    if config.flip:
        scale[:, 0] *= 1 - 2 * (drawn[:, 4] < 0.5).float()
    # Relative to the centre of the canvas; the image is in its upper left corner.
    offset = scale * (1 - shares) + (place + 1) * shares - 1
    maps = torch.zeros(len(shares), 2, 3, device=shares.device)
    maps[:, 0, 0], maps[:, 1, 1], maps[:, :, 2] = scale[:, 0], scale[:, 1], offset
    return maps


def _light(images: Tensor, jitter: float) -> Tensor:
    """Change brightness and contrast of each image by factors between 1 - jitter and 1 + jitter."""
    if jitter == 0:
        return images
    drawn = rand_rows(len(images), 2, 1, 1, 1, device=images.device)
    brightness, contrast = (1 + jitter * (2 * drawn - 1)).unbind(dim=1)
    mean = images.mean(dim=(1, 2, 3), keepdim=True)
    return ((images - mean) * contrast + mean * brightness).clamp(0, 255)
