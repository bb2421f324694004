"""The state of the grounded model's training, one step of it, and checkpoints.

Every step draws what it needs from (seed, phase, step), so that a run that was killed goes on from
its checkpoint as if nothing had happened.
"""

from __future__ import annotations

import copy
import hashlib
import logging
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Literal

import torch
from torch import Tensor, nn

from sightwords.config import GroundedConfig
from sightwords.settings import to_toml
from sightwords.train.checkpoint import load_checkpoint, save_checkpoint
from sightwords.train.grounded.data import Images, Sentences
from sightwords.train.grounded.network import GroundedNetwork
from sightwords.train.integrity import is_whole
from sightwords.train.words.loop import precision

log = logging.getLogger(__name__)

Phase = Literal["captions", "lists"]


@dataclass(frozen=True)
class EpochReport:
    """One pass over the captions or lists."""

    phase: Phase
    epoch: int
    step: int
    loss: float
    """Mean over the epoch's steps."""
    seconds: float
    """Since the phase began."""


OnEpoch = Callable[[EpochReport, GroundedNetwork], None]
"""Called with the averaged network, in evaluation mode."""


class Order:
    """Which rows each step sees: all of some, a share of others, a fresh order each epoch."""

    def __init__(self, always: Tensor, sometimes: Tensor, share: float, batch: int, seed: int):
        self.always, self.sometimes = always, sometimes
        self.some = int(share * len(sometimes)) if len(always) else len(sometimes)
        count = len(always) + self.some
        self.batch, self.seed = min(batch, count), seed
        self.steps = count // self.batch
        self._epoch, self._order = -1, always

    @classmethod
    def of_captions(
        cls, captions: Sentences, images: Images, config: GroundedConfig, batch: int
    ) -> Order:
        """Captions of images, and a share of the text without any."""
        text = captions.images == images.no_image
        about, loose = (~text).nonzero()[:, 0], text.nonzero()[:, 0]
        return cls(about, loose, config.text_share, batch, config.seed)

    def rows(self, step: int) -> Tensor:
        """The rows of one step."""
        epoch, place = divmod(step, self.steps)
        if epoch != self._epoch:
            # Drawn on the CPU, so that the order does not depend on the machine.
            generator = torch.Generator().manual_seed(self.seed * 1_000_003 + epoch)
            drawn = torch.randperm(len(self.sometimes), generator=generator)[: self.some]
            both = torch.cat([self.always, self.sometimes[drawn.to(self.sometimes.device)]])
            self._order = both[torch.randperm(len(both), generator=generator).to(both.device)]
            self._epoch = epoch
        return self._order[place * self.batch : (place + 1) * self.batch]


class Run:
    """Network, average, optimiser and step of one phase."""

    def __init__(
        self,
        network: GroundedNetwork,
        phase: Phase,
        steps_an_epoch: int,
        budget_seconds: float,
        data: Tensor,
    ) -> None:
        config = network.config
        self.network, self.config, self.phase = network, config, phase
        first = phase == "captions"
        self.rate = config.learning_rate if first else config.risk_rate
        self.epochs = config.epochs if first else config.risk_epochs
        self.steps_an_epoch, self.steps = steps_an_epoch, steps_an_epoch * self.epochs
        self.budget_seconds, self.step, self.start = budget_seconds, 0, perf_counter()
        self.device = network.bias.device
        self.optimizer = _optimizer(network, self.rate)
        self.averaged = copy.deepcopy(network).eval()
        self.identity = _identity(config, phase, data)

    def to_the_end(
        self,
        loss_of: Callable[[int], Tensor],
        on_epoch: OnEpoch | None,
        checkpoint: str | os.PathLike[str] | None,
    ) -> GroundedNetwork:
        """Step until the epochs or the seconds are over; the averaged network."""
        losses: list[Tensor] = []
        ended = self.progress >= 1
        while not ended:
            losses.append(self._advance(loss_of))
            ended = self.progress >= 1  # asked once: the last steps are told and kept, too
            if ended or self.step % self.steps_an_epoch == 0:
                epoch = -(-self.step // self.steps_an_epoch)
                loss = float(torch.stack(losses).mean())
                report = EpochReport(self.phase, epoch, self.step, loss, self.seconds)
                log.info("%s", report)
                if on_epoch:
                    paused = perf_counter()
                    on_epoch(report, self.averaged)
                    self.start += perf_counter() - paused  # looking on costs no budget
                self._save(checkpoint)
                losses.clear()
        return self.averaged

    @property
    def seconds(self) -> float:
        """Since the phase began, less what `on_epoch` took."""
        return perf_counter() - self.start

    @property
    def progress(self) -> float:
        """0 to 1, by steps or by the clock, whichever is further."""
        if not self.steps:
            return 1.0
        return max(self.step / self.steps, self.seconds / self.budget_seconds)

    def _advance(self, loss_of: Callable[[int], Tensor]) -> Tensor:
        offset = 0 if self.phase == "captions" else 7_919
        torch.manual_seed(self.config.seed * 1_000_003 + 2 * self.step + offset)
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate * rate_factor(self.progress, self.config.warmup)
        self.network.train()
        with precision(self.device):
            loss = loss_of(self.step)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimizer.step()
        self.step += 1
        # Early on the average forgets faster, so that it does not remember the start.
        decay = min(self.config.weight_average, (1 + self.step) / (10 + self.step))
        with torch.no_grad():
            mean: list[Tensor] = list(self.averaged.parameters())
            torch._foreach_lerp_(mean, list[Tensor](self.network.parameters()), 1 - decay)
        return loss.detach()

    def _save(self, path: str | os.PathLike[str] | None) -> None:
        if path is None:
            return
        state = {
            "step": self.step,
            "seconds": self.seconds,
            "network": self.network.state_dict(),
            "averaged": self.averaged.state_dict(),
            "optimizer": self.optimizer.state_dict(),
        }
        save_checkpoint(path, state, identity=self.identity)

    def restore(self, path: str | os.PathLike[str] | None) -> None:
        """Go on from a checkpoint of the same run, if there is one."""
        if path is None or not is_whole(path):
            return
        state = load_checkpoint(
            path, identity=self.identity, device=self.device, differs="settings or sentences"
        )
        self.network.load_state_dict(state["network"])
        self.averaged.load_state_dict(state["averaged"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step = state["step"]
        self.start = perf_counter() - state["seconds"]  # the budget is of the whole run
        log.info("resumed %s at step %d of %d", path, self.step, self.steps)


def rate_factor(progress: float, warmup: float) -> float:
    """Share of the full learning rate: a rise, then a half cosine to zero.

    >>> [round(rate_factor(p, 0.5), 2) for p in (0.0, 0.25, 0.5, 0.75, 1.0)]
    [0.02, 0.5, 1.0, 0.5, 0.0]
    """
    if progress < warmup:
        return max(0.02, progress / warmup)
    return 0.5 * (1 + math.cos(math.pi * (progress - warmup) / (1 - warmup)))


def _optimizer(network: GroundedNetwork, rate: float) -> torch.optim.Optimizer:
    matrices = [p for p in network.parameters() if p.ndim >= 2]
    vectors = [p for p in network.parameters() if p.ndim < 2]
    groups = [
        {"params": matrices, "weight_decay": network.config.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.98), fused=vectors[0].is_cuda)


def _identity(config: GroundedConfig, phase: Phase, data: Tensor) -> str:
    """Equal for runs that a checkpoint may carry over."""
    digest = hashlib.sha256(f"{phase}\n{to_toml(config)}".encode())
    digest.update(data.cpu().numpy().tobytes())
    return digest.hexdigest()
