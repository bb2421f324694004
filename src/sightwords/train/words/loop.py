"""The state of a detector's training and one step of it (section 3.1).

Every step draws its order, crops and dropout from (seed, step) alone, so that a run killed at any
moment and resumed from its last checkpoint ends with the weights of an unbroken one; and for the
whole batch, so that the number of processes changes nothing but the order of sums.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from sightwords.config import WordsConfig
from sightwords.errors import ConfigError, InputError
from sightwords.settings import to_toml
from sightwords.train.checkpoint import load_checkpoint, save_checkpoint
from sightwords.train.data.augment import network_input
from sightwords.train.data.batches import Onwards, Order, Rows, Stream
from sightwords.train.data.image_table import ImageTable
from sightwords.train.data.sampler import draws_for
from sightwords.train.processes import (
    check_same_step,
    is_first,
    rank_and_world,
    share_of_batch,
    without_sync,
    wrapped,
)
from sightwords.train.words.network import WordNetwork
from sightwords.train.words.noisy_or import noisy_or_loss
from sightwords.train.words.schedule import build_optimizer, rate_factor
from sightwords.train.words.teacher import Teachers, mixed
from sightwords.types import FloatArray

log = logging.getLogger(__name__)


class TrainingLoop:
    """Network, average, optimiser, step."""

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
        self.config, self.device = config, torch.device(device)
        self.network = network.to(self.device)
        self.network.train()  # `BoxNetwork` keeps its frozen backbone out of it when it is told
        self.teachers = teachers.to(self.device) if teachers is not None else None
        self.batch_size = share_of_batch(
            config.batch_size, len(table), accumulate=config.accumulate
        )
        self.order: Order | Onwards
        self.rows: Rows | Stream
        if isinstance(table, ImageTable):
            self.order = Order(len(table), self.batch_size, config.seed)
            self.rows = Rows(table, targets, self.device)
            if teachers is None and self.rows.targets.isnan().any():
                raise InputError(
                    "some targets are unknown (NaN) and nobody fills them in; give teachers, or "
                    "images with captions"
                )
            self.identity = _identity(config, table, self.rows.of_images)
        else:
            self.order, self.rows = Onwards(len(table), self.batch_size), table
            self.identity = table.identity
        self.step, self.steps = 0, config.epochs * self.order.steps
        self.optimizer = build_optimizer(network, config)
        self.rates = [group["lr"] for group in self.optimizer.param_groups]
        # Not tried beside teachers, nor with statistics that a step changes (EfficientNet's).
        is_plain = teachers is None and not any(b.is_floating_point() for b in network.buffers())
        self.forward = wrapped(
            network,
            compile_network=compile_network,
            graphs=self.device.type == "cuda" and config.accumulate == 1 and is_plain,
        )
        # Looked up once: going through all modules takes as long as telling the GPU a layer.
        self.parameters = list(network.parameters())
        self.averaged = list(_averaged(network))
        self.average = [v.detach().clone() for v in self.averaged] if config.weight_average else []
        if self.teachers is not None and compile_network:
            self.teachers.compile_networks()

    def advance(self) -> Tensor:
        """One step; returns the loss of this process' share of the batch."""
        rank, world = rank_and_world()
        parts = world * self.config.accumulate
        # A fresh stream for each step: nothing to save, nothing to lose.
        seed = self.config.seed * 1_000_003 + self.step
        self._set_rates()
        if not self.network.training:
            self.network.train()
        self.optimizer.zero_grad(set_to_none=True)
        loss = torch.zeros((), device=self.device)
        batch = self.order.rows(self.step)
        for index in range(rank, parts, world):
            last = index + world >= parts
            then = self.order.rows(self.step + 1)[rank:] if last else batch[index + world :]
            if isinstance(self.rows, Rows):  # a stream knows by itself what comes next
                self.rows.expect(batch[index::parts], then[::parts])
            waits = without_sync(self.forward, when=not last)
            with waits, draws_for(index, parts, seed=seed, device=self.device):
                part = self._loss(batch[index::parts]) / self.config.accumulate
                part.backward()  # type: ignore[no-untyped-call]
            loss += part.detach()
        if self.config.gradient_clip:
            nn.utils.clip_grad_norm_(self.parameters, self.config.gradient_clip)
        self.optimizer.step()
        self.step += 1
        self._update_average()
        return loss

    def _loss(self, rows: npt.NDArray[np.int64]) -> Tensor:
        pixels, content, targets = self.rows.take(rows)
        images = network_input(pixels, content, self.network.backbone.input, self.config)
        with precision(self.device, self.config.precision):
            output = self.forward(images)
            if self.teachers is not None:
                targets = mixed(targets, self.teachers(images), self.config.teacher_weight)
        return noisy_or_loss(output.bag_logits, targets)

    @property
    def learning_rate(self) -> float:
        """Of the layer below the head, at the next step."""
        return self.config.learning_rate * rate_factor(self.step, self.steps, self.config)

    def _set_rates(self) -> None:
        factor = rate_factor(self.step, self.steps, self.config)
        for group, rate in zip(self.optimizer.param_groups, self.rates, strict=True):
            group["lr"] = rate * factor

    @torch.no_grad()
    def _update_average(self) -> None:
        if not self.average:
            return
        # Early on the average forgets faster, so that it does not remember the start.
        decay = min(self.config.weight_average, (1 + self.step) / (10 + self.step))
        current = [value.detach() for value in self.averaged]
        torch._foreach_lerp_(self.average, current, 1 - decay)

    @torch.no_grad()
    def finished(self) -> WordNetwork:
        """The network, holding the averaged weights if there are any."""
        if self.average:
            for value, mean in zip(self.averaged, self.average, strict=True):
                value.copy_(mean)
        return self.network.eval()

    def save(self, path: Path) -> None:
        """Write a checkpoint, whole or not at all; the first process alone."""
        if not is_first():
            return
        state = {
            "step": self.step,
            "start": self.network.start,
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "average": self.average,
        }
        save_checkpoint(path, state, identity=self.identity)

    def restore(self, path: Path) -> None:
        """Go on from a checkpoint of the same run."""
        state = load_checkpoint(
            path, identity=self.identity, device=self.device, differs="settings, words or images"
        )
        if state["start"] != self.network.start:
            raise ConfigError(
                f"{path}: is of a run that began from other pretrained weights; go on with those, "
                "choose another folder, or delete the file to start over"
            )
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.average, self.step = state["average"], state["step"]
        check_same_step(self.step, device=self.device)
        log.info("resumed %s at step %d of %d", path, self.step, self.steps)


def precision(
    device: torch.device, wanted: Literal["auto", "bfloat16", "float32"] = "auto"
) -> AbstractContextManager[Any]:
    """bfloat16 on a GPU, float32 elsewhere, unless told otherwise."""
    if wanted == "bfloat16" or (wanted == "auto" and device.type == "cuda"):
        return torch.autocast(device.type, torch.bfloat16)
    return nullcontext()


def _averaged(network: nn.Module) -> Iterator[Tensor]:
    """What the running average holds: parameters, and the statistics of normalisation layers."""
    yield from network.parameters()
    yield from (buffer for buffer in network.buffers() if buffer.is_floating_point())


def _identity(config: WordsConfig, table: ImageTable, targets: FloatArray) -> str:
    """Equal for runs that a checkpoint may carry over: settings, images and what they teach."""
    digest = hashlib.sha256(to_toml(replace(config, accumulate=1)).encode())
    digest.update("\n".join(table.ids).encode())
    digest.update(targets.tobytes())
    return digest.hexdigest()
