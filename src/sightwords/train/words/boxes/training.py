"""Training and scoring over object proposals (section 6.3), for `run.proposals` of `train words`.

    table of images + proposal file -> boxes (N, R, 4) -> trained `BoxNetwork` -> scores

Boxes are in fractions of the image; the network sees them on its canvas, which an image may fill in
part.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from sightwords.config import WordsConfig
from sightwords.errors import ConfigError, InputError
from sightwords.text.vocabulary import Vocabulary
from sightwords.train.data.augment import is_random, network_input
from sightwords.train.data.image_table import ImageTable
from sightwords.train.fit import Progress, identity, precision
from sightwords.train.weights import weights_sum
from sightwords.train.words.backbones import build_backbone
from sightwords.train.words.boxes.network import BoxNetwork
from sightwords.train.words.noisy_or import image_prob, noisy_or_loss
from sightwords.train.words.training import WordsFit
from sightwords.train.words.validation import judge
from sightwords.types import Box, FloatArray
from sightwords.words.proposals import with_whole_image

Proposals = Mapping[str, Sequence[Box]]
"""Boxes by image id, best first."""


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


def boxes_of(proposals: Proposals, ids: Sequence[str], *, limit: int) -> FloatArray:
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
    fit = BoxesFit(network, table, boxes, targets, config, device=device)
    fit.run(folder, progress=progress, report_every=report_every)
    return network


class BoxesFit(WordsFit):
    """`WordsFit` for images that come with boxes."""

    identity_of_what = "settings, words, images, boxes or pretrained weights"

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
            raise InputError(
                f"boxes of {len(boxes)} images for {len(table)} images; give one row each"
            )
        self.boxes, self.side_px = torch.from_numpy(boxes).to(self.device), table.side_px
        self.identity = identity(self.identity, boxes)

    def loss(self, step: int, part: slice) -> Tensor:
        """Eq. 1 over the boxes of each image."""
        pixels, content, targets = self.take(step, part)
        images = network_input(pixels, content, self.network.backbone.input)
        rows = torch.from_numpy(self.order.rows(step)[part]).to(self.device)
        with self.autocast():
            output = self.forward(images, on_canvas(self.boxes[rows], content, self.side_px))
        return noisy_or_loss(output.bag_logits, targets)


def on_canvas(boxes: Tensor, content: Tensor, side_px: int) -> Tensor:
    """Fractions of each image -> fractions of the canvas, where it is at the top left."""
    shares = content.float() / side_px  # (B, 2) width, height
    return boxes * torch.cat([shares, shares], dim=1)[:, None]


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


def validate_boxes(
    network: BoxNetwork,
    table: ImageTable,
    proposals: Proposals,
    vocabulary: Vocabulary,
    *,
    limit: int,
    device: str = "cpu",
) -> tuple[float, float]:
    """AP and PHR of all words; images with a single caption are left out."""
    table = table.select([row for row, said in enumerate(table.captions) if len(said) > 1])
    boxes = boxes_of(proposals, table.ids, limit=limit)
    means = judge(score_boxes(network, table, boxes, device=device), table, vocabulary)[-1]
    return means.ap, means.phr
