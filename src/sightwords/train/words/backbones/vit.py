"""A vision transformer under DINOv2's names, through transformers.

Deviation: the paper has AlexNet and VGG. Region features are means over windows of patches, so
that the map keeps the paper's 12 x 12 grid: 5 x 5 of 16 x 16 patches at 224 px.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from sightwords.errors import ConfigError, require
from sightwords.images import TORCHVISION
from sightwords.train.words.backbones.base import Backbone, tiles
from sightwords.words.artefact import GridSpec, InputSpec

SMALL = {"hidden_size": 384, "num_hidden_layers": 12, "num_attention_heads": 6, "patch_size": 14}

ALIASES = (
    (".attention.attention.query.", ".attention.q_proj."),
    (".attention.attention.key.", ".attention.k_proj."),
    (".attention.attention.value.", ".attention.v_proj."),
    (".attention.output.dense.", ".attention.o_proj."),
)
"""Names of the same parameters in older and in newer releases of transformers."""


class DinoV2(Backbone):
    """DINOv2 ViT: any size that transformers can load, at any input size in whole patches."""

    whole_token = 1  # behind the class token

    def __init__(
        self, *, weights: str | None, size_px: int = 224, drop_path: float = 0.0, grid: int = 12
    ) -> None:
        super().__init__()
        transformers = require("transformers", extra="train", purpose="the ViT backbone")
        if weights is None:
            config = transformers.Dinov2Config(**SMALL, image_size=518, drop_path_rate=drop_path)
            self.vit = transformers.Dinov2Model(config)
        else:
            transformers.utils.logging.disable_progress_bar()  # the library never prints
            self.vit = transformers.Dinov2Model.from_pretrained(
                weights, drop_path_rate=drop_path, dtype=torch.float32
            )
        config = self.vit.config
        self.patches = size_px // config.patch_size
        window = self.patches - grid + 1
        if size_px % config.patch_size or window < 1:
            raise ConfigError(
                f"size_px is {size_px}; expected a multiple of the patch of {config.patch_size} px "
                f"with at least {grid} patches a side"
            )
        self.input = InputSpec(
            resize="square", size_px=size_px, resample="bicubic", normalization=TORCHVISION
        )
        self.grid = GridSpec(rows=grid, columns=grid, window=window, stride=1, canvas=self.patches)
        self.region_dim = config.hidden_size
        self.whole_dim = 2 * config.hidden_size
        self._fix_positions()
        self.vit.register_load_state_dict_pre_hook(_rename)

    def _fix_positions(self) -> None:
        """Resample the position embeddings once, so that no step and no export does it again."""
        embeddings = self.vit.embeddings
        with torch.no_grad():
            size = self.input.size_px
            blank = torch.zeros(1, self.patches**2 + 1, self.region_dim)
            resampled = embeddings.interpolate_pos_encoding(blank, size, size)
        embeddings.position_embeddings = nn.Parameter(resampled.contiguous())
        embeddings.interpolate_pos_encoding = lambda *_: embeddings.position_embeddings
        # Unused by a detector, and DDP waits for the gradient of every parameter.
        embeddings.mask_token.requires_grad_(False)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Regions: means over windows of patches; features: class token, mean, 4 x 4 means."""
        _, regions, features = self._tokens(images)
        return regions, features

    def whole(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The class token beside the mean of all patches, or beside that of each region."""
        token, regions, features = self._tokens(images)
        beside = token[:, None, None].expand(-1, regions.shape[1], regions.shape[2], -1)
        return torch.cat([beside, regions], dim=3), features[:, :2].flatten(1), features

    def _tokens(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Class token (B, C), regions (B, rows, columns, C), features (B, T, C)."""
        tokens = self.vit(pixel_values=images).last_hidden_state  # (B, 1 + patches^2, C)
        patches = tokens[:, 1:].transpose(1, 2).unflatten(2, (self.patches, self.patches))
        regions = functional.avg_pool2d(patches, self.grid.window, 1).permute(0, 2, 3, 1)
        mean = patches.mean(dim=(2, 3))
        features = torch.cat([torch.stack([tokens[:, 0], mean], dim=1), tiles(patches)], dim=1)
        return tokens[:, 0], regions, features

    def feature_map(self, images: Tensor) -> Tensor:
        """The patches as a square."""
        tokens = self.vit(pixel_values=images).last_hidden_state[:, 1:]
        found: Tensor = tokens.transpose(1, 2).unflatten(2, (self.patches, self.patches))
        return found

    def layers(self) -> list[list[nn.Parameter]]:
        """Embeddings, then each block, then the last norm."""
        vit = self.vit
        blocks = [list(block.parameters()) for block in vit.encoder.layer]
        embeddings = [p for p in vit.embeddings.parameters() if p.requires_grad]
        return [embeddings, *blocks, list(vit.layernorm.parameters())]


def _rename(module: nn.Module, state: dict[str, Tensor], prefix: str, *_: object) -> None:
    """Let weights load that were saved under another release of transformers."""
    known = module.state_dict(prefix=prefix)
    for name in [n for n in state if n.startswith(prefix) and n not in known]:
        for pair in ALIASES:
            for found, wanted in (pair, pair[::-1]):
                if name.replace(found, wanted) in known:
                    state[name.replace(found, wanted)] = state.pop(name)
                    break
