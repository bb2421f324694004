"""Training and scoring over object proposals (section 6.3): the steps of `train words --proposals`.

    table of images + proposal file -> boxes (N, R, 4) -> trained `BoxNetwork` -> scores, detector

Boxes come in fractions of the photograph; networks see them on their canvas, which a photograph
may fill in part.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from sightwords.config import Config, WordsConfig
from sightwords.errors import BundleError, ConfigError, InputError
from sightwords.files import atomic_path
from sightwords.runtime import Network
from sightwords.settings import save_resolved
from sightwords.text.vocabulary import Vocabulary
from sightwords.text.vocabulary_file import save_vocabulary
from sightwords.train.checkpoint import weights_sum
from sightwords.train.data.augment import is_random, network_input
from sightwords.train.data.image_table import ImageTable
from sightwords.train.words.backbones import build_backbone
from sightwords.train.words.boxes.network import BoxNetwork
from sightwords.train.words.export import TOLERANCE, Export, write_program
from sightwords.train.words.loop import TrainingLoop, precision
from sightwords.train.words.noisy_or import image_prob, noisy_or_loss
from sightwords.train.words.training import Progress, run_loop
from sightwords.types import Box, FloatArray
from sightwords.words.artefact import NETWORK_NAME, VOCABULARY_NAME, DetectorSpec, GridSpec
from sightwords.words.proposals import with_whole_image


def new_box_network(
    config: WordsConfig, words: int, *, weights: str | None, size_px: int
) -> BoxNetwork:
    """An untrained network over boxes on a pretrained backbone."""
    if config.pooling != "noisy_or":
        raise ConfigError(f"pooling is {config.pooling!r}; boxes are pooled by 'noisy_or'")
    if is_random(config):
        raise ConfigError(
            "smallest_crop, flip and jitter move images under their boxes; with regions = "
            "'proposals' leave them at 1.0, false and 0.0"
        )
    torch.manual_seed(config.seed)
    backbone = build_backbone(
        config.backbone,
        weights=weights,
        size_px=size_px,
        drop_path=config.drop_path,
        grid=config.grid,
    )
    network = BoxNetwork(
        backbone,
        words,
        cells=config.proposal_cells,
        frozen=config.frozen,
        dropout=config.dropout,
        initial_bias=config.initial_bias,
    )
    network.start = weights_sum(weights)
    return network


def boxes_of(
    proposals: Mapping[str, Sequence[Box]], ids: Sequence[str], *, limit: int
) -> FloatArray:
    """(N, 1 + limit, 4): the whole image, then the best boxes; zeros where there are fewer.

    >>> boxes_of({"9": [Box(0, 0, 0.5, 1)]}, ["9"], limit=2)[0].tolist()
    [[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 0.5, 1.0], [0.0, 0.0, 0.0, 0.0]]
    """
    absent = [key for key in ids if key not in proposals]
    if absent:
        raise InputError(
            f"no proposals for {len(absent)} of {len(ids)} images, {absent[0]!r} among them; "
            "search them too (an empty list is allowed), or leave the images out"
        )
    found = np.zeros((len(ids), 1 + limit, 4), dtype=np.float32)
    for row, key in enumerate(ids):
        boxes = with_whole_image(proposals[key], limit=limit)
        found[row, : len(boxes)] = boxes
    return found


class BoxLoop(TrainingLoop):
    """`TrainingLoop` for images that come with boxes."""

    def __init__(
        self,
        network: BoxNetwork,
        table: ImageTable,
        boxes: FloatArray,
        targets: FloatArray,
        config: WordsConfig,
        *,
        device: str,
    ) -> None:
        super().__init__(network, table, targets, config, device=device)
        if len(boxes) != len(table):
            raise InputError(f"boxes of {len(boxes)} images for {len(table)} images")
        self.boxes = torch.from_numpy(boxes).to(self.device)
        # Other boxes are another run: what one of them learned is no checkpoint for the other.
        digest = hashlib.sha256(self.identity.encode() + np.ascontiguousarray(boxes).tobytes())
        self.identity = digest.hexdigest()
        self.side_px = table.side_px

    def _loss(self, rows: npt.NDArray[np.int64]) -> Tensor:
        pixels, content, targets = self.rows.take(rows)
        images = network_input(pixels, content, self.network.backbone.input)
        chosen = self.boxes[torch.from_numpy(rows).to(self.device)]
        forward: Any = self.forward  # takes what the network takes
        with precision(self.device):
            output = forward(images, on_canvas(chosen, content, self.side_px))
        return noisy_or_loss(output.bag_logits, targets)


def on_canvas(boxes: Tensor, content: Tensor, side_px: int) -> Tensor:
    """Fractions of each photograph -> fractions of the canvas it lies on, at the top left."""
    shares = content.float() / side_px  # (B, 2) width, height
    return boxes * torch.cat([shares, shares], dim=1)[:, None]


def train_boxes(
    network: BoxNetwork,
    table: ImageTable,
    boxes: FloatArray,
    targets: FloatArray,
    config: WordsConfig,
    *,
    device: str = "cpu",
    folder: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    report_every: int = 20,
) -> BoxNetwork:
    """Train in place; `boxes` (N, R, 4) as `boxes_of` makes them, `targets` (N, V)."""
    loop = BoxLoop(network, table, boxes, targets, config, device=device)
    run_loop(loop, folder=folder, progress=progress, report_every=report_every)
    return network


@torch.no_grad()
def score_boxes(
    network: BoxNetwork,
    table: ImageTable,
    boxes: FloatArray,
    *,
    device: str = "cpu",
    batch_size: int = 32,
) -> FloatArray:
    """(N, V) probability of each word in each image."""
    network.eval().to(device)
    scores = []
    for start in range(0, len(table), batch_size):
        rows = slice(start, start + batch_size)
        pixels = torch.from_numpy(np.array(table.pixels[rows])).to(device)
        content = torch.from_numpy(table.content[rows]).to(device)
        images = network_input(pixels, content, network.backbone.input)
        chosen = on_canvas(torch.from_numpy(boxes[rows]).to(device), content, table.side_px)
        with precision(torch.device(device)):
            output = network(images, chosen)
        scores.append(image_prob(output.bag_logits).cpu().numpy())
    return np.concatenate(scores)


def export_boxes(
    network: BoxNetwork,
    vocabulary: Vocabulary,
    config: Config,
    directory: str | os.PathLike[str],
    *,
    tolerance: float = TOLERANCE,
) -> Export:
    """Write a detector directory for `words.proposal_detector`, compared with torch."""
    folder, network = Path(directory), network.cpu().eval()
    side = network.backbone.input.size_px
    generator = torch.Generator().manual_seed(0)
    corners = torch.rand(2, 5, 2, 2, generator=generator).sort(dim=2).values
    inputs = {
        "image": torch.randn(2, 3, side, side, generator=generator),
        "boxes": corners.flatten(2),
    }
    batch = torch.export.Dim("batch")
    with atomic_path(folder / NETWORK_NAME) as temporary:
        write_program(
            _Served(network),
            inputs,
            ("region_logits", "features"),
            temporary,
            shapes=({0: batch}, {0: batch, 1: torch.export.Dim("boxes")}),
        )
        difference = _difference(network, Network(temporary), inputs)
        if not difference <= tolerance:
            raise BundleError(
                f"{folder / NETWORK_NAME}: probabilities differ from torch's by {difference:.2g}, "
                f"more than {tolerance:.2g}; the export is not written"
            )
    save_vocabulary(vocabulary, folder / VOCABULARY_NAME)
    save_resolved(config, folder)
    count = 1 + config.words.proposals
    DetectorSpec(
        backbone=config.words.backbone,
        pooling="noisy_or",
        input=network.backbone.input,
        # Boxes are a column of regions; where they lie, the proposals say.
        grid=GridSpec(rows=count, columns=1, window=1, stride=1, canvas=count),
        words=len(vocabulary),
        whole_token=0,  # of any backbone: `BoxNetwork` begins with the mean of its map
    ).save(folder)
    return Export(folder, (folder / NETWORK_NAME).stat().st_size, difference)


@torch.no_grad()
def _difference(network: BoxNetwork, exported: Network, inputs: Mapping[str, Tensor]) -> float:
    expected = network(inputs["image"], inputs["boxes"]).region_logits.sigmoid()
    found = exported.run({name: value.numpy() for name, value in inputs.items()})
    return float((expected - torch.from_numpy(found["region_logits"]).sigmoid()).abs().max())


class _Served(nn.Module):
    """The network with the outputs of a detector."""

    def __init__(self, network: BoxNetwork) -> None:
        super().__init__()
        self.network = network

    def forward(self, image: Tensor, boxes: Tensor) -> tuple[Tensor, Tensor]:
        output = self.network(image, boxes)
        return output.region_logits, output.features
