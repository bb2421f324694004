"""AlexNet and VGG16 as the paper uses them: fully convolutional, 565 px -> 12 x 12 (section 3.1).

torchvision's state dict names, so that ImageNet weights load as they are: `features.*` into the
convolutions, `classifier.*` (fully connected) into the same numbers seen as convolutions. A file
without `classifier.*` leaves fc6 and fc7 new; they then learn at the head's rate.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from sightwords.errors import ConfigError, require
from sightwords.images import PAPER_SIDE_PX, TORCHVISION, Normalization
from sightwords.train.data.sampler import RowDropout
from sightwords.train.words.backbones.base import Backbone
from sightwords.words.artefact import GridSpec, InputSpec

WHOLE_PX = 224
"""Side of the square that the Classification baseline squashes the whole image to."""


class ConvNet(Backbone):
    """Convolutions, then fc6 and fc7 as convolutions, scanned over the image."""

    fc6_side: int
    channels: int
    frozen: int
    """The authors keep the first two blocks: this many modules of `features`."""

    def __init__(
        self,
        *,
        weights: str | None,
        size_px: int = PAPER_SIDE_PX,
        drop_path: float = 0.0,
        grid: int = 12,
        normalization: Normalization = TORCHVISION,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        if drop_path:
            raise ConfigError(f"drop_path is {drop_path}; {name} supports only 0")
        if grid != 12 or size_px not in (PAPER_SIDE_PX, WHOLE_PX):
            raise ConfigError(
                f"grid is {grid}, size_px is {size_px}; {name} gives 12 regions a side at "
                f"{PAPER_SIDE_PX} px, and sees the whole image at {WHOLE_PX} px"
            )
        self.features = self._convolutions()
        self.fc6 = nn.Conv2d(self.channels, 4096, self.fc6_side)
        self.fc7 = nn.Conv2d(4096, 4096, 1)
        self.drop6 = RowDropout(0.5)
        whole = size_px == WHOLE_PX
        self.input = InputSpec(
            resize="square" if whole else "paper",
            size_px=size_px,
            resample="bilinear",
            normalization=normalization,
        )
        self.grid = GridSpec(rows=grid, columns=grid, window=224, stride=32, canvas=PAPER_SIDE_PX)
        self.region_dim = self.whole_dim = 4096
        self.new_layers = self._load(weights)
        self.kept = self.frozen if weights is not None else 0
        for parameter in self.features[: self.kept].parameters():
            parameter.requires_grad_(False)

    def _convolutions(self) -> nn.Sequential:
        raise NotImplementedError

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Regions: fc7 in each of the 12 x 12 windows; features: their mean."""
        regions = self._fc7(images).permute(0, 2, 3, 1)
        return regions, regions.mean(dim=(1, 2))[:, None]

    def whole(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """fc7 of the image as one 224 px window; the map scans it again at 565 px."""
        image = self._fc7(images).mean(dim=(2, 3))
        if self.training:  # the map is only for display
            return image[:, None, None], image, image[:, None]
        larger = functional.interpolate(
            images, size=(PAPER_SIDE_PX, PAPER_SIDE_PX), mode="bilinear"
        )
        return self._fc7(larger).permute(0, 2, 3, 1), image, image[:, None]

    def feature_map(self, images: Tensor) -> Tensor:
        """The last convolution before its pooling; boxes are pooled instead."""
        found: Tensor = self.features[:-1](images)
        return found

    def keep_map_alone(self) -> None:
        """Without fc6 and fc7, which are most of the weights."""
        self.fc6 = self.fc7 = nn.Identity()  # type: ignore[assignment]

    def _fc7(self, images: Tensor) -> Tensor:
        hidden = torch.relu(self.fc6(self.features(images)))
        return torch.relu(self.fc7(self.drop6(hidden)))  # the head drops out of fc7

    def set_dropout(self, share: float) -> None:
        """After fc6; the head has its own after fc7."""
        self.drop6.p = share

    def layers(self) -> list[list[nn.Parameter]]:
        """The convolutions that learn, then fc6 and fc7 where they were loaded."""
        loaded = [] if self.new_layers else [[*self.fc6.parameters(), *self.fc7.parameters()]]
        return [list(self.features[self.kept :].parameters()), *loaded]

    def new_parameters(self) -> list[nn.Parameter]:
        """fc6 and fc7 where no weights were found for them."""
        return [*self.fc6.parameters(), *self.fc7.parameters()] if self.new_layers else []

    def _load(self, weights: str | None) -> bool:
        """Load torchvision's weights; returns whether fc6 and fc7 stay new."""
        for layer in (self.fc6, self.fc7):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            nn.init.constant_(layer.get_parameter("bias"), 0.0)
        if weights is None:
            return True
        state = read_state(weights)
        convolutions = {k: v for k, v in state.items() if k.startswith("features.")}
        self.load_state_dict(convolutions, strict=False)
        missing = set(self.features.state_dict(prefix="features.")) - set(convolutions)
        if missing:
            raise ConfigError(
                f"{weights}: has no {min(missing)!r}; expected torchvision's names for "
                f"{type(self).__name__}"
            )
        if f"classifier.{self.linear6}.weight" not in state:
            return True
        for layer, number in ((self.fc6, self.linear6), (self.fc7, self.linear7)):
            weight = state[f"classifier.{number}.weight"].reshape(layer.weight.shape)
            layer.load_state_dict({"weight": weight, "bias": state[f"classifier.{number}.bias"]})
        return False

    linear6: int
    linear7: int


class AlexNet(ConvNet):
    """Krizhevsky et al. 2012, torchvision's 64-filter form."""

    fc6_side, channels, frozen = 6, 256, 6
    linear6, linear7 = 1, 4

    def _convolutions(self) -> nn.Sequential:
        pool = nn.MaxPool2d(3, 2, ceil_mode=True)  # floor would give 11 x 11
        return nn.Sequential(
            nn.Conv2d(3, 64, 11, 4, 2), nn.ReLU(), pool,
            nn.Conv2d(64, 192, 5, padding=2), nn.ReLU(), pool,
            nn.Conv2d(192, 384, 3, padding=1), nn.ReLU(),
            nn.Conv2d(384, 256, 3, padding=1), nn.ReLU(),
            nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(), pool,
        )  # fmt: skip


class Vgg16(ConvNet):
    """Simonyan and Zisserman 2014, configuration D."""

    fc6_side, channels, frozen = 7, 512, 10
    linear6, linear7 = 0, 3

    def _convolutions(self) -> nn.Sequential:
        modules: list[nn.Module] = []
        previous = 3
        for filters, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
            for _ in range(count):
                modules += [nn.Conv2d(previous, filters, 3, padding=1), nn.ReLU()]
                previous = filters
            modules.append(nn.MaxPool2d(2, 2, ceil_mode=True))
        return nn.Sequential(*modules)


def read_state(path: str) -> Mapping[str, Tensor]:
    """A state dict from `.safetensors`, or from torch's own format without running its code."""
    if Path(path).suffix == ".safetensors":
        torch_files = require("safetensors.torch", extra="train", purpose="reading weights")
        state: Mapping[str, Tensor] = torch_files.load_file(path)
        return {name: value.float() for name, value in state.items()}
    loaded: Mapping[str, Tensor] = torch.load(path, map_location="cpu", weights_only=True)
    return loaded
