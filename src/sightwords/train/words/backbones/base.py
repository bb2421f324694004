"""What every backbone provides."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.nn import functional

from sightwords.words.artefact import GridSpec, InputSpec

TILES = 4
"""The image's features have a token for each of TILES x TILES parts."""


def tiles(cells: Tensor) -> Tensor:
    """(B, C, S, S) -> (B, TILES^2, C): means of equal parts in row order; S >= TILES.

    >>> import torch
    >>> tiles(torch.arange(16.0).reshape(1, 1, 4, 4)).flatten().tolist()[:5]
    [0.0, 1.0, 2.0, 3.0, 4.0]
    """
    side = cells.shape[-1]
    stride = side // TILES
    window = side - (TILES - 1) * stride
    return functional.avg_pool2d(cells, window, stride).flatten(2).transpose(1, 2)


class Backbone(nn.Module):
    """Images -> features of regions and of the whole image."""

    input: InputSpec
    """How an image becomes the network's input."""
    grid: GridSpec
    """Where the regions lie on that input."""
    region_dim: int
    """C, the length of a region's features."""
    whole_dim: int
    """Length of the image features of the whole-image baseline."""
    whole_token: int = 0
    """Which token of `features` is the mean over the image."""

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """(B, 3, S, S) normalised -> regions (B, rows, columns, C), features (B, T, D)."""
        raise NotImplementedError

    def whole(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """For the Classification baseline (section 6.2): regions, image, features.

        A head trained on `image` (B, whole_dim) gives a class activation map on `regions`
        (B, rows, columns, whole_dim).
        """
        raise NotImplementedError

    def feature_map(self, images: Tensor) -> Tensor:
        """For regions that are boxes (section 6.3): (B, 3, S, S) -> the map (B, C, h, w)."""
        raise NotImplementedError

    def keep_map_alone(self) -> None:
        """Remove layers that `feature_map` does not need."""

    def layers(self) -> list[list[nn.Parameter]]:
        """Parameters from the input upwards, for rates that fall by layer."""
        return [list(self.parameters())]

    def new_parameters(self) -> list[nn.Parameter]:
        """Parameters that start from random numbers and learn at the head's rate."""
        return []

    def set_dropout(self, share: float) -> None:
        """Set the rate of the backbone's own dropout layers, if it has any."""

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """As `forward`; here for its type."""
        result: tuple[Tensor, Tensor] = super().__call__(*args, **kwargs)
        return result
