"""The word detector as a torch module: backbone, fc8, pooling (section 3.1, Eq. 1 and 2)."""

from __future__ import annotations

from typing import Literal, NamedTuple

from torch import Tensor, nn

from sightwords.errors import ConfigError
from sightwords.train.data.sampler import RowDropout
from sightwords.train.words.backbones.base import Backbone


class WordOutput(NamedTuple):
    """What the network computes for a batch."""

    region_logits: Tensor
    """(B, rows, columns, V) before the sigmoid of Eq. 2; the baseline's class activation map."""
    bag_logits: Tensor
    """(B, m, n, V): what the noisy-OR pools; the regions, or the whole image as one region."""
    features: Tensor
    """(B, T, D) tokens that describe the image, for section 5."""


class WordNetwork(nn.Module):
    """Images -> word scores, by noisy-OR over regions or from the whole image."""

    start: str = ""
    """Sum of the pretrained weights that it started from (`train.weights.weights_sum`)."""

    def __init__(
        self,
        backbone: Backbone,
        words: int,
        *,
        pooling: Literal["noisy_or", "whole_image"] = "noisy_or",
        dropout: float = 0.5,
        initial_bias: float = -6.58,
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.pooling = pooling
        self.dropout = RowDropout(dropout)
        backbone.set_dropout(dropout)
        width = backbone.region_dim if pooling == "noisy_or" else backbone.whole_dim
        self.head = nn.Linear(width, words)  # fc8; Linear so that it is a 1 x 1 convolution
        nn.init.normal_(self.head.weight, 0.0, 0.001)
        nn.init.constant_(self.head.bias, initial_bias)

    def forward(self, images: Tensor) -> WordOutput:
        """(B, 3, S, S) normalised -> logits in float32 whatever the precision."""
        if self.pooling == "noisy_or":
            regions, features = self.backbone(images)
            self._check_grid(regions)
            logits = self.head(self.dropout(regions)).float()
            return WordOutput(logits, logits, features.float())
        regions, image, features = self.backbone.whole(images)
        image_logits = self.head(self.dropout(image)).float()[:, None, None]
        return WordOutput(self.head(regions).float(), image_logits, features.float())

    def _check_grid(self, regions: Tensor) -> None:
        grid = self.backbone.grid
        if regions.shape[1:] != (grid.rows, grid.columns, self.backbone.region_dim):
            raise ConfigError(
                f"{type(self.backbone).__name__} gives regions of shape {tuple(regions.shape[1:])} "
                f"at {self.backbone.input.size_px} px; expected {grid.rows} x {grid.columns} x "
                f"{self.backbone.region_dim}: change size_px or the backbone's grid"
            )

    def groups(self) -> list[list[nn.Parameter]]:
        """Parameters from the input upwards; the last group starts from random numbers."""
        new = [*self.backbone.new_parameters(), *self.head.parameters()]
        return [*self.backbone.layers(), new]
