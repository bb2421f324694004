"""The state of a detector's training and one step of it (section 3.1).

Every step draws its order, crops and dropout from (seed, step) alone, so that a run killed at any
moment and resumed from its last checkpoint ends with the weights of an unbroken one.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from sightwords.config import WordsConfig
from sightwords.errors import InputError
from sightwords.settings import to_toml
from sightwords.train.augment import network_input
from sightwords.train.checkpoint import load_checkpoint, save_checkpoint
from sightwords.train.network import WordNetwork
from sightwords.train.noisy_or import noisy_or_loss
from sightwords.train.processes import rank_and_world, share_of_batch, wrapped
from sightwords.train.schedule import build_optimizer, rate_factor
from sightwords.train.table import ImageTable
from sightwords.train.teacher import Teachers, mixed
from sightwords.types import FloatArray

log = logging.getLogger(__name__)


class TrainingLoop:
    """Network, average, optimiser, step."""

    def __init__(
        self,
        network: WordNetwork,
        table: ImageTable,
        targets: FloatArray,
        config: WordsConfig,
        *,
        device: str,
        compile_network: bool = False,
        teachers: Teachers | None = None,
    ) -> None:
        if len(targets) != len(table):
            raise InputError(
                f"{len(targets)} rows of targets for {len(table)} images; give one each"
            )
        self.config, self.device = config, torch.device(device)
        self.network = network.to(self.device)
        self.teachers = teachers.to(self.device) if teachers is not None else None
        self.batch_size = share_of_batch(config.batch_size, len(table))
        self.order = Order(len(table), self.batch_size, config.seed)
        self.step, self.steps = 0, config.epochs * self.order.steps
        self.optimizer = build_optimizer(network, config)
        self.rates = [group["lr"] for group in self.optimizer.param_groups]
        self.average = (
            [value.detach().clone() for value in _averaged(network)]
            if config.weight_average
            else []
        )
        self.rows = _Rows(table, targets, self.device)
        self.forward = wrapped(network, compile_network=compile_network, device=self.device)
        self.identity = _identity(config, table, targets)

    def advance(self) -> Tensor:
        """One step; returns the loss of this process' share of the batch."""
        rank, world = rank_and_world()
        # A fresh stream for each step: nothing to save, nothing to lose.
        torch.manual_seed(self.config.seed * 1_000_003 + self.step * world + rank)
        self._set_rates()
        self.network.train()
        loss = self._loss(self.order.rows(self.step)[rank::world])
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        if self.config.gradient_clip:
            nn.utils.clip_grad_norm_(self.network.parameters(), self.config.gradient_clip)
        self.optimizer.step()
        self.step += 1
        self._update_average()
        return loss.detach()

    def _loss(self, rows: npt.NDArray[np.int64]) -> Tensor:
        pixels, content, targets = self.rows.take(rows)
        images = network_input(pixels, content, self.network.backbone.input, self.config)
        with precision(self.device):
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
        current = [value.detach() for value in _averaged(self.network)]
        torch._foreach_lerp_(self.average, current, 1 - decay)

    @torch.no_grad()
    def finished(self) -> WordNetwork:
        """The network, holding the averaged weights if there are any."""
        if self.average:
            for value, mean in zip(_averaged(self.network), self.average, strict=True):
                value.copy_(mean)
        return self.network.eval()

    def save(self, path: Path) -> None:
        """Write a checkpoint, whole or not at all; the first process alone."""
        if rank_and_world()[0] != 0:
            return
        state = {
            "step": self.step,
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
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.average, self.step = state["average"], state["step"]
        log.info("resumed %s at step %d of %d", path, self.step, self.steps)


class Order:
    """Which rows each step sees: a fresh order each epoch, the last incomplete batch left out."""

    def __init__(self, count: int, batch_size: int, seed: int) -> None:
        self.count, self.batch_size, self.seed = count, batch_size, seed
        self.steps = count // batch_size
        self._epoch, self._order = -1, np.empty(0, dtype=np.int64)

    def rows(self, step: int) -> npt.NDArray[np.int64]:
        """Rows of one batch."""
        epoch, place = divmod(step, self.steps)
        if epoch != self._epoch:  # shuffling 50,000 numbers takes longer than a small step
            self._epoch = epoch
            self._order = np.random.default_rng((self.seed, epoch)).permutation(self.count)
        return self._order[place * self.batch_size : (place + 1) * self.batch_size]


class _Rows:
    """Rows of a table on the device: all of them if they fit, else copied as they are asked for."""

    def __init__(self, table: ImageTable, targets: FloatArray, device: torch.device) -> None:
        self.table, self.device = table, device
        self.targets = torch.from_numpy(targets).to(device)
        self.content = torch.from_numpy(table.content).to(device)
        self.pixels: Tensor | None = None
        if device.type == "cuda":
            free, _ = torch.cuda.mem_get_info(device)
            if table.pixels.nbytes < 0.5 * free:
                self.pixels = torch.from_numpy(np.array(table.pixels)).to(device)

    def take(self, rows: npt.NDArray[np.int64]) -> tuple[Tensor, Tensor, Tensor]:
        """Pixels, content sizes and targets of these rows."""
        index = torch.from_numpy(rows)
        if self.device.type == "cuda":  # a plain copy would wait for the step before to end
            index = index.pin_memory()
        index = index.to(self.device, non_blocking=True)
        if self.pixels is not None:
            pixels = self.pixels[index]
        else:
            pixels = torch.from_numpy(self.table.pixels[rows]).to(self.device)
        return pixels, self.content[index], self.targets[index]


def precision(device: torch.device) -> AbstractContextManager[Any]:
    """bfloat16 on a GPU, float32 elsewhere."""
    if device.type == "cuda":
        return torch.autocast("cuda", torch.bfloat16)
    return nullcontext()


def _averaged(network: nn.Module) -> Iterator[Tensor]:
    """What the running average holds: parameters, and the statistics of normalisation layers."""
    yield from network.parameters()
    yield from (buffer for buffer in network.buffers() if buffer.is_floating_point())


def _identity(config: WordsConfig, table: ImageTable, targets: FloatArray) -> str:
    """Equal for runs that a checkpoint may carry over: settings, images and what they teach."""
    digest = hashlib.sha256(to_toml(config).encode())
    digest.update("\n".join(table.ids).encode())
    digest.update(targets.tobytes())
    return digest.hexdigest()
