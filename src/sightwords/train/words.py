"""Training the word detector (section 3.1): the paper's recipe and a modern one in one loop.

Input: an image table and targets (N, V). Output: a trained `WordNetwork`.

Every step draws its order, crops and dropout from (seed, step) alone, so that a run killed at any
moment and resumed from its last checkpoint ends with the weights of an unbroken one. Under
torchrun each process takes its share of every batch and gradients are averaged.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from sightwords.config import WordsConfig
from sightwords.errors import InputError
from sightwords.files import atomic_path
from sightwords.train.augment import augmented, blank_padding, to_input
from sightwords.train.network import WordNetwork
from sightwords.train.noisy_or import image_prob, noisy_or_loss
from sightwords.train.table import ImageTable
from sightwords.types import FloatArray

log = logging.getLogger(__name__)

CHECKPOINT_NAME = "checkpoint.pt"


@dataclass(frozen=True, slots=True)
class StepReport:
    """What the progress callback gets."""

    step: int
    steps: int
    loss: float
    images_per_second: float
    seconds_left: float


Progress = Callable[[StepReport], None]


def train_words(
    network: WordNetwork,
    table: ImageTable,
    targets: npt.NDArray[np.float32],
    config: WordsConfig,
    *,
    device: str = "cpu",
    folder: str | os.PathLike[str] | None = None,
    checkpoint_seconds: float = 60.0,
    compile_network: bool = False,
    progress: Progress | None = None,
) -> WordNetwork:
    """Train in place and return the network with the weights to keep.

    `targets` is (N, V): 1 where any caption has the word, or the share of captions that do.
    With `folder`, checkpoints are written there and a run found there is resumed.
    """
    if len(targets) != len(table):
        raise InputError(f"{len(targets)} rows of targets for {len(table)} images; give one each")
    network.to(device)
    loop = _Loop(network, table, targets, config, device=device, compile_network=compile_network)
    checkpoint = Path(folder) / CHECKPOINT_NAME if folder is not None else None
    if checkpoint is not None and checkpoint.exists():
        loop.restore(checkpoint)
    _run(loop, checkpoint, checkpoint_seconds, progress)
    return loop.finished()


def _run(
    loop: _Loop, checkpoint: Path | None, checkpoint_seconds: float, progress: Progress | None
) -> None:
    started = saved = perf_counter()
    first = loop.step
    while loop.step < loop.steps:
        loss = loop.advance()
        now = perf_counter()
        if progress and (loop.step % 20 == 0 or loop.step == loop.steps):
            done = loop.step - first
            speed = done * loop.config.batch_size / (now - started)
            left = (loop.steps - loop.step) * (now - started) / done
            progress(StepReport(loop.step, loop.steps, float(loss), speed, left))
        if checkpoint is not None and now - saved > checkpoint_seconds:
            loop.save(checkpoint)
            saved = perf_counter()
    if checkpoint is not None:
        loop.save(checkpoint)


class _Loop:
    """The state of a run: network, average, optimiser, step."""

    def __init__(
        self,
        network: WordNetwork,
        table: ImageTable,
        targets: npt.NDArray[np.float32],
        config: WordsConfig,
        *,
        device: str,
        compile_network: bool,
    ) -> None:
        self.network, self.config, self.device = network, config, torch.device(device)
        self.steps = config.epochs * max(1, len(table) // config.batch_size)
        self.step = 0
        self.optimizer = _optimizer(network, config)
        self.rates = [group["lr"] for group in self.optimizer.param_groups]
        self.average = (
            [p.detach().clone() for p in network.parameters()] if config.weight_average else []
        )
        self.rows = _Rows(table, targets, self.device)
        self.forward = _wrapped(network, compile_network, self.device)

    def advance(self) -> Tensor:
        """One step; returns its loss."""
        config = self.config
        rank, world = _rank_and_world()
        # A fresh stream for each step: nothing to save, nothing to lose.
        torch.manual_seed(config.seed * 1_000_003 + self.step * world + rank)
        factor = rate_factor(self.step, self.steps, config)
        for group, rate in zip(self.optimizer.param_groups, self.rates, strict=True):
            group["lr"] = rate * factor
        rows = self._batch()[rank::world]
        pixels, content, targets = self.rows.take(rows)
        spec = self.network.backbone.input
        images = augmented(pixels, spec.size_px, spec.normalization, config)
        if spec.resize == "paper":
            images = blank_padding(images, content, pixels.shape[1])
        self.network.train()
        with _precision(self.device):
            output = self.forward(images)
        loss = noisy_or_loss(output.bag_logits, targets)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        if config.gradient_clip:
            nn.utils.clip_grad_norm_(self.network.parameters(), config.gradient_clip)
        self.optimizer.step()
        self.step += 1
        self._update_average()
        return loss.detach()

    def _batch(self) -> npt.NDArray[np.int64]:
        """Rows of this step: a fresh order each epoch, the last incomplete batch left out."""
        count, size = len(self.rows), self.config.batch_size
        per_epoch = max(1, count // size)
        epoch, place = divmod(self.step, per_epoch)
        order = np.random.default_rng((self.config.seed, epoch)).permutation(count)
        return order[place * size : (place + 1) * size]

    @torch.no_grad()
    def _update_average(self) -> None:
        if not self.average:
            return
        # Early on the average forgets faster, so that it does not remember the start.
        decay = min(self.config.weight_average, (1 + self.step) / (10 + self.step))
        current = [p.detach() for p in self.network.parameters()]
        torch._foreach_lerp_(self.average, current, 1 - decay)

    @torch.no_grad()
    def finished(self) -> WordNetwork:
        """The network, holding the averaged weights if there are any."""
        if self.average:
            for parameter, mean in zip(self.network.parameters(), self.average, strict=True):
                parameter.copy_(mean)
        return self.network.eval()

    def save(self, path: Path) -> None:
        """Write a checkpoint, whole or not at all; the first process alone."""
        if _rank_and_world()[0] != 0:
            return
        state = {
            "step": self.step,
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "average": self.average,
        }
        with atomic_path(path) as temporary:
            torch.save(state, temporary)

    def restore(self, path: Path) -> None:
        """Go on from a checkpoint."""
        state = torch.load(path, map_location=self.device, weights_only=True)
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.average, self.step = state["average"], state["step"]
        log.info("resumed %s at step %d of %d", path, self.step, self.steps)


class _Rows:
    """Rows of a table on the device: all of them if they fit, else copied as they are asked for."""

    def __init__(
        self, table: ImageTable, targets: npt.NDArray[np.float32], device: torch.device
    ) -> None:
        self.table, self.device = table, device
        self.targets = torch.from_numpy(targets).to(device)
        self.content = torch.from_numpy(table.content).to(device)
        self.pixels: Tensor | None = None
        if device.type == "cuda":
            free, _ = torch.cuda.mem_get_info(device)
            if table.pixels.nbytes < 0.5 * free:
                self.pixels = torch.from_numpy(np.array(table.pixels)).to(device)

    def __len__(self) -> int:
        return len(self.table)

    def take(self, rows: npt.NDArray[np.int64]) -> tuple[Tensor, Tensor, Tensor]:
        """Pixels, content sizes and targets of these rows."""
        index = torch.from_numpy(rows).to(self.device)
        if self.pixels is not None:
            pixels = self.pixels[index]
        else:
            pixels = torch.from_numpy(self.table.pixels[np.sort(rows)]).to(self.device)
            pixels = pixels[torch.from_numpy(np.argsort(np.argsort(rows))).to(self.device)]
        return pixels, self.content[index], self.targets[index]


def rate_factor(step: int, steps: int, config: WordsConfig) -> float:
    """Share of the full learning rate at a step.

    >>> paper = WordsConfig()
    >>> [rate_factor(s, 240, paper) for s in (0, 79, 80, 160)]
    [1.0, 1.0, 0.1, 0.01]
    """
    warm = config.warmup * steps
    if step < warm:
        return (step + 1) / warm
    if config.schedule == "step":
        return float(10.0 ** -(3 * step // steps))
    return 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1.0, steps - warm)))


@torch.no_grad()
def score_images(
    network: WordNetwork, table: ImageTable, *, device: str = "cpu", batch_size: int = 128
) -> FloatArray:
    """(N, V) probability of each word in each image of a table."""
    network.eval().to(device)
    spec = network.backbone.input
    scores = []
    for start in range(0, len(table), batch_size):
        rows = slice(start, start + batch_size)
        pixels = torch.from_numpy(np.array(table.pixels[rows])).to(device)
        images = to_input(pixels, spec.size_px, spec.normalization)
        if spec.resize == "paper":
            content = torch.from_numpy(table.content[rows]).to(device)
            images = blank_padding(images, content, table.side_px)
        with _precision(torch.device(device)):
            output = network(images)
        scores.append(image_prob(output.bag_logits).cpu().numpy())
    return np.concatenate(scores)


def _optimizer(network: WordNetwork, config: WordsConfig) -> torch.optim.Optimizer:
    groups = list(_parameter_groups(network, config))
    if config.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=config.learning_rate, momentum=config.momentum)
    return torch.optim.AdamW(groups, lr=config.learning_rate)


def _parameter_groups(network: WordNetwork, config: WordsConfig) -> Iterator[dict[str, Any]]:
    """One group a layer and kind; Caffe's doubled rate for biases under SGD."""
    layers = network.groups()
    for depth, parameters in enumerate(layers):
        is_head = depth == len(layers) - 1
        decay = config.layer_decay ** (len(layers) - 2 - depth)
        rate = config.learning_rate * (config.head_rate if is_head else decay)
        for vectors in (False, True):
            chosen = [p for p in parameters if p.requires_grad and (p.ndim < 2) == vectors]
            doubled = 2.0 if vectors and config.optimizer == "sgd" else 1.0
            yield {
                "params": chosen,
                "lr": rate * doubled,
                "weight_decay": 0.0 if vectors else config.weight_decay,
            }


def _precision(device: torch.device) -> AbstractContextManager[Any]:
    """bfloat16 on a GPU, float32 elsewhere."""
    if device.type == "cuda":
        return torch.autocast("cuda", torch.bfloat16)
    return nullcontext()


def _rank_and_world() -> tuple[int, int]:
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return 0, 1


def _wrapped(
    network: WordNetwork, compile_network: bool, device: torch.device
) -> Callable[[Tensor], Any]:
    module: nn.Module = network
    if _rank_and_world()[1] > 1:
        module = nn.parallel.DistributedDataParallel(
            network, device_ids=[device] if device.type == "cuda" else None
        )
    if compile_network:
        module = torch.compile(module, dynamic=False)  # type: ignore[assignment]
    return module
