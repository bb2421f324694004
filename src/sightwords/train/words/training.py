"""Training the word detector (section 3.1): the paper's recipe and a modern one.

Input: an image table with targets (N, V), or a stream of both. Output: a trained `WordNetwork`.
Under torchrun each process takes its share of every batch.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sightwords.config import WordsConfig
from sightwords.errors import InputError
from sightwords.settings import to_toml
from sightwords.train.data.augment import network_input
from sightwords.train.data.batches import Onwards, Order, Rows, Stream
from sightwords.train.data.image_table import ImageTable
from sightwords.train.fit import (
    Fit,
    Plan,
    Progress,
    adamw,
    identity,
    parameter_groups,
    warm_cosine,
)
from sightwords.train.processes import rank_and_world, share_of_batch
from sightwords.train.words.network import WordNetwork
from sightwords.train.words.noisy_or import noisy_or_loss
from sightwords.train.words.teacher import Teachers, mixed
from sightwords.types import FloatArray

CHECKPOINT_NAME = "checkpoint.pt"


def train_words(
    network: WordNetwork,
    table: ImageTable | Stream,
    targets: FloatArray | None,
    config: WordsConfig,
    *,
    device: str = "cpu",
    folder: str | os.PathLike[str] | None = None,
    checkpoint_seconds: float = 60.0,
    compile_network: bool = False,
    teachers: Teachers | None = None,
    progress: Progress | None = None,
    report_every: int = 20,
) -> WordNetwork:
    """Train in place and return the network with the weights to keep.

    `targets` is (N, V): 1 where any caption has the word, or the share of captions that do; None
    where a stream brings them along. The opinion of `teachers` is mixed into them by
    `config.teacher_weight`. With `folder`, checkpoints are written there and a run found there is
    resumed.
    """
    fit = WordsFit(
        network,
        table,
        targets,
        config,
        device=device,
        compile_network=compile_network,
        teachers=teachers,
    )
    return fit.run(
        folder,
        checkpoint_seconds=checkpoint_seconds,
        progress=progress,
        report_every=report_every,
    )


class WordsFit(Fit[WordNetwork]):
    """Batches of images and the noisy-OR loss of their words."""

    checkpoint_name = CHECKPOINT_NAME
    identity_of_what = "settings, words, images or pretrained weights"

    def __init__(
        self,
        network: WordNetwork,
        table: ImageTable | Stream,
        targets: FloatArray | None,
        config: WordsConfig,
        *,
        device: str,
        compile_network: bool = False,
        teachers: Teachers | None = None,
    ) -> None:
        self.config, where = config, torch.device(device)
        network.to(where)  # before the images, which fill what is left of the GPU's memory
        self.teachers = teachers.to(where) if teachers is not None else None
        size = share_of_batch(config.batch_size, len(table), accumulate=config.accumulate)
        self.order: Order | Onwards
        self.rows: Rows | Stream
        if isinstance(table, ImageTable):
            self.order, self.rows = (
                Order(len(table), size, config.seed),
                Rows(table, targets, where),
            )
            if teachers is None and self.rows.targets.isnan().any():
                raise InputError(
                    "some targets are unknown (NaN) and no teacher fills them in; give teachers, "
                    "or images with captions"
                )
            data = identity("\n".join(table.ids), self.rows.of_images)
        else:
            self.order, self.rows, data = Onwards(len(table), size), table, table.identity
        # CUDA graphs are not tested with teachers, nor with statistics that a step changes
        # (EfficientNet's).
        is_plain = teachers is None and not any(b.is_floating_point() for b in network.buffers())
        super().__init__(
            network,
            build_optimizer(network, config),
            Plan(
                epochs=config.epochs,
                steps_per_epoch=self.order.steps,
                batch_size=size,
                seed=config.seed,
                learning_rate=config.learning_rate,
                schedule=lambda step, steps: rate_factor(step, steps, config),
                accumulate=config.accumulate,
                gradient_clip=config.gradient_clip,
                weight_average=config.weight_average,
                precision=config.precision,
            ),
            device=where,
            identity=identity(to_toml(replace(config, accumulate=1)), data, network.start),
            compile_network=compile_network,
            graphs=where.type == "cuda" and config.accumulate == 1 and is_plain,
        )
        if self.teachers is not None and compile_network:
            self.teachers.compile_networks()

    def loss(self, step: int, part: slice) -> Tensor:
        """Eq. 1 over the regions of each image, against the words of its captions."""
        pixels, content, targets = self.take(step, part)
        images = network_input(pixels, content, self.network.backbone.input, self.config)
        with self.autocast():
            output = self.forward(images)
            if self.teachers is not None:
                targets = mixed(targets, self.teachers(images), self.config.teacher_weight)
        return noisy_or_loss(output.bag_logits, targets)

    def take(self, step: int, part: slice) -> tuple[Tensor, Tensor, Tensor]:
        """Pixels, content sizes and targets of a part; the next part is fetched meanwhile."""
        rows = self.order.rows(step)[part]
        if isinstance(self.rows, Rows):  # a stream knows what comes next
            self.rows.expect(rows, self._rows_after(step, part))
        return self.rows.take(rows)

    def _rows_after(self, step: int, part: slice) -> npt.NDArray[np.int64]:
        rank, world = rank_and_world()
        following = part.start + world
        if following < part.step:
            return self.order.rows(step)[following :: part.step]
        return self.order.rows(step + 1)[rank :: part.step]


def rate_factor(step: float, steps: int, config: WordsConfig) -> float:
    """Share of the full learning rate at a step.

    >>> paper = WordsConfig()
    >>> [rate_factor(s, 240, paper) for s in (0, 79, 80, 160)]
    [1.0, 1.0, 0.1, 0.01]
    """
    if config.schedule == "step" and step >= config.warmup * steps:
        return float(10.0 ** -(3 * step // steps))
    return warm_cosine(step, steps, config.warmup)


def build_optimizer(network: WordNetwork, config: WordsConfig) -> torch.optim.Optimizer:
    """SGD with momentum (the paper) or AdamW, with a rate for each group of parameters."""
    groups = list(layer_groups(network, config))
    if config.optimizer == "sgd":
        return torch.optim.SGD(groups, momentum=config.momentum)
    return adamw(groups)


def layer_groups(network: WordNetwork, config: WordsConfig) -> Iterator[dict[str, Any]]:
    """One group per layer and kind, from the input upwards.

    The last layer starts from random numbers: it learns `head_rate` times faster. Under SGD biases
    learn twice as fast and do not decay, as in the authors' solver.
    """
    layers = network.groups()
    for depth, parameters in enumerate(layers):
        is_new = depth == len(layers) - 1
        decay = config.layer_decay ** (len(layers) - 2 - depth)
        yield from parameter_groups(
            parameters,
            learning_rate=config.learning_rate * (config.head_rate if is_new else decay),
            weight_decay=config.weight_decay,
            vectors_factor=2.0 if config.optimizer == "sgd" else 1.0,
        )
