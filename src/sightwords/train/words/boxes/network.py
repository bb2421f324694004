"""The early system's network (section 6.3): words in boxes instead of a grid, in torch.

Images and boxes -> the backbone's feature map -> features pooled in each box -> fc8 -> the same
noisy-OR, over the boxes. The whole image is always the first box.

Deviation: the early system ran AlexNet up to fc7 on each box, without fine-tuning. fc6 and fc7 of
ImageNet are not available here, so a box is described by the last convolution, pooled in 3 x 3
cells.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from sightwords.errors import ConfigError
from sightwords.train.words.backbones.base import Backbone, tiles
from sightwords.train.words.network import WordNetwork, WordOutput

SAMPLES = 2
"""Points per cell in each direction, of which the largest value is taken."""
NO_BOX = -30.0
"""Logit of a missing box: probability 1e-13, and no gradient."""


def pool_boxes(maps: Tensor, boxes: Tensor, *, cells: int, samples: int = SAMPLES) -> Tensor:
    """Max-pool a map (B, C, h, w) in boxes (B, R, 4): (B, R, C * cells * cells).

    Corners x0, y0, x1, y1 are in fractions of the map. Values between its points are bilinear, so
    that a box smaller than a cell of the map has features too; there is no rounding of corners.

    >>> maps = torch.arange(4.0).view(1, 1, 1, 4)
    >>> pool_boxes(maps, torch.tensor([[[0.5, 0.0, 1.0, 1.0]]]), cells=2).tolist()
    [[[2.25, 3.0, 2.25, 3.0]]]
    """
    count, points = boxes.shape[1], cells * samples
    places = (torch.arange(points, device=boxes.device, dtype=boxes.dtype) + 0.5) / points
    x = boxes[..., 0:1] + (boxes[..., 2:3] - boxes[..., 0:1]) * places  # (B, R, P)
    y = boxes[..., 1:2] + (boxes[..., 3:4] - boxes[..., 1:2]) * places
    across = x[:, :, None, :].expand(-1, -1, points, -1)  # (B, R, P, P)
    down = y[:, :, :, None].expand(-1, -1, -1, points)
    # grid_sample counts from -1 to 1, corner to corner.
    grid = (2 * torch.stack([across, down], dim=-1) - 1).flatten(1, 2)  # (B, R P, P, 2)
    sampled = functional.grid_sample(
        maps.to(grid.dtype), grid, mode="bilinear", padding_mode="border", align_corners=False
    )
    shape = (maps.shape[0], maps.shape[1], count, cells, samples, cells, samples)
    pooled = sampled.reshape(shape).amax(dim=(4, 6))  # (B, C, R, cells, cells)
    return pooled.permute(0, 2, 1, 3, 4).flatten(2)


class BoxNetwork(WordNetwork):
    """Images and boxes -> a logit for each word in each box."""

    def __init__(
        self,
        backbone: Backbone,
        words: int,
        *,
        cells: int = 3,
        frozen: bool = False,
        dropout: float = 0.5,
        initial_bias: float = -6.58,
    ) -> None:
        super().__init__(backbone, words, dropout=dropout, initial_bias=initial_bias)
        self.cells, self.frozen = cells, frozen
        backbone.keep_map_alone()
        channels = _channels(backbone)
        self.head = nn.Linear(channels * cells * cells, words)
        nn.init.normal_(self.head.weight, 0.0, 0.001)
        nn.init.constant_(self.head.bias, initial_bias)
        if frozen:
            for parameter in backbone.parameters():
                parameter.requires_grad_(False)

    def forward(self, images: Tensor, boxes: Tensor | None = None) -> WordOutput:
        """(B, 3, S, S) normalised, (B, R, 4) fractions of the canvas -> logits (B, R, 1, V).

        A box without width is missing; without boxes the whole canvas is one.
        """
        if boxes is None:
            boxes = images.new_tensor([0.0, 0.0, 1.0, 1.0]).expand(len(images), 1, 4)
        maps = self.backbone.feature_map(images).float()
        features = pool_boxes(maps, boxes, cells=self.cells)
        logits = self.head(self.dropout(features)).float()
        there = boxes[..., 2:3] > boxes[..., 0:1]
        logits = torch.where(there, logits, NO_BOX)[:, :, None]
        described = torch.cat([maps.mean(dim=(2, 3))[:, None], tiles(maps)], dim=1)
        return WordOutput(logits, logits, described)

    def train(self, mode: bool = True) -> BoxNetwork:
        """A frozen backbone stays in evaluation mode: no dropout, no new statistics."""
        super().train(mode)
        if self.frozen:
            self.backbone.eval()
        return self

    def groups(self) -> list[list[nn.Parameter]]:
        """The backbone's layers unless frozen, then fc8."""
        return [*([] if self.frozen else self.backbone.layers()), list(self.head.parameters())]


@torch.no_grad()
def _channels(backbone: Backbone) -> int:
    """C of the feature map, from a blank image."""
    side = backbone.input.size_px
    training = backbone.training
    try:
        maps = backbone.eval().feature_map(torch.zeros(1, 3, side, side))
    except NotImplementedError as error:
        raise ConfigError(
            f"{type(backbone).__name__} has no feature_map; regions = 'proposals' needs one"
        ) from error
    backbone.train(training)
    return int(maps.shape[1])
