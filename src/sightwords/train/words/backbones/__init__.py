"""Networks under the word detector, behind one small interface (section 3.1).

A backbone turns images into one feature vector per region of a 12 x 12 grid, phi(b_ij) of Eq. 2,
and one per image for the DMSM (section 5.1). It also defines how an image becomes its input.
To add one, write a subclass of `Backbone` and a line in `BACKBONES`; see `docs/training.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from sightwords.errors import ConfigError
from sightwords.images import CAFFE
from sightwords.train.words.backbones.base import Backbone
from sightwords.train.words.backbones.convnets import AlexNet, Vgg16
from sightwords.train.words.backbones.efficientnet import EfficientNetLite2
from sightwords.train.words.backbones.vit import DinoV2

BACKBONES: dict[str, Callable[..., Backbone]] = {
    "alexnet": AlexNet,
    "vgg16": Vgg16,
    "vgg16-caffe": partial(Vgg16, normalization=CAFFE),
    "dinov2-vits14": DinoV2,
    "efficientnet-lite2": EfficientNetLite2,
}
"""Name -> what builds it; `vgg16-caffe` is for weights from Caffe, such as the authors'."""

RANDOM_WITHOUT_WEIGHTS = ("alexnet", "vgg16", "vgg16-caffe", "dinov2-vits14")


def build_backbone(
    name: str, *, weights: str | None, size_px: int, drop_path: float = 0.0, grid: int = 12
) -> Backbone:
    """Build a named backbone; `weights` is a file, a folder or a hub id.

    Without weights AlexNet, VGG16 and the ViT are random; EfficientNet-Lite2 has those of its
    package.
    """
    if name not in BACKBONES:
        raise ConfigError(f"backbone is {name!r}; expected one of {', '.join(sorted(BACKBONES))}")
    backbone = BACKBONES[name](weights=weights, size_px=size_px, drop_path=drop_path, grid=grid)
    if backbone.grid.rows != grid:
        raise ConfigError(f"grid is {grid}; {name} has {backbone.grid.rows} rows and columns")
    return backbone
