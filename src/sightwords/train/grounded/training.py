"""Training of the grounded language model: captions first, then M-best lists (section 5).

    Images + Sentences   --train_captions-->  cross entropy, as any captioner
    Images + ScoredLists --train_lists----->  expected CIDEr, or its ranking, of whole lists

With `budget_seconds` the learning rate falls with the clock where that is ahead of the steps, and
the run ends in time. `train.grounded.loss` has the losses.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from sightwords.config import GroundedConfig
from sightwords.settings import to_toml
from sightwords.train.fit import (
    Fit,
    Plan,
    StepReport,
    adamw,
    identity,
    parameter_groups,
    warm_cosine,
)
from sightwords.train.grounded.data import Images, Sentences
from sightwords.train.grounded.lists import ScoredLists
from sightwords.train.grounded.loss import (
    caption_loss,
    list_loss,
    look,
    sample_hypotheses,
    sentence_scores,
)
from sightwords.train.grounded.network import GroundedNetwork

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


def train_captions(
    network: GroundedNetwork,
    images: Images,
    captions: Sentences,
    *,
    budget_seconds: float = math.inf,
    folder: str | os.PathLike[str] | None = None,
    checkpoint_seconds: float = 60.0,
    on_epoch: OnEpoch | None = None,
) -> GroundedNetwork:
    """Train in place by cross entropy on captions; the network gets its averaged weights."""
    order = Order.of_captions(captions, images, network.config, network.config.batch_size)

    def loss(step: int, part: slice) -> Tensor:
        return _loss_of_captions(network, images, captions, order.rows(step)[part])

    fit = GroundedFit(network, "captions", order, loss, captions.targets, budget_seconds)
    return fit.run_epochs(folder, checkpoint_seconds, on_epoch)


def train_lists(
    network: GroundedNetwork,
    images: Images,
    lists: ScoredLists,
    captions: Sentences,
    *,
    budget_seconds: float = math.inf,
    folder: str | os.PathLike[str] | None = None,
    checkpoint_seconds: float = 60.0,
    on_epoch: OnEpoch | None = None,
) -> GroundedNetwork:
    """Minimum risk, or listwise, on M-best lists, with a share of the loss of captions."""
    config = network.config
    every = torch.arange(len(lists), device=lists.valid.device)
    order = Order(every, every[:0], 0.0, config.risk_batch_size, config.seed)
    caption_order = Order.of_captions(captions, images, config, config.risk_batch_size)

    def loss(step: int, part: slice) -> Tensor:
        chosen = order.rows(step)[part]
        looked = look(network, images, lists.sentences.images[chosen])
        rewards, valid = lists.rewards[chosen], lists.valid[chosen]
        places = sample_hypotheses(rewards, valid, config.hypotheses)
        wide = places[..., None].expand(-1, -1, lists.sentences.targets.shape[-1])
        targets = lists.sentences.targets[chosen].gather(1, wide)
        scored = sentence_scores(network, looked, targets)
        found = list_loss(scored, rewards.gather(1, places), valid.gather(1, places), config)
        if config.caption_share:
            rows = caption_order.rows(step)[part]
            found = found + config.caption_share * _loss_of_captions(
                network, images, captions, rows
            )
        return found

    fit = GroundedFit(network, "lists", order, loss, lists.rewards, budget_seconds)
    return fit.run_epochs(folder, checkpoint_seconds, on_epoch)


def _loss_of_captions(
    network: GroundedNetwork, images: Images, captions: Sentences, rows: Tensor
) -> Tensor:
    looked = look(network, images, captions.images[rows])
    return caption_loss(network, looked, captions.targets[rows])


class Order:
    """Which rows each step sees: `always`, and a share of `sometimes`, shuffled each epoch."""

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


class GroundedFit(Fit[GroundedNetwork]):
    """One phase: the loss of its batches, and a report per epoch."""

    identity_of_what = "settings or sentences"

    def __init__(  # noqa: PLR0917
        self,
        network: GroundedNetwork,
        phase: Phase,
        order: Order,
        loss: Callable[[int, slice], Tensor],
        data: Tensor,
        budget_seconds: float,
    ) -> None:
        config, self.phase, self._loss = network.config, phase, loss
        self.checkpoint_name = f"{phase}.checkpoint"
        first = phase == "captions"
        rate = config.learning_rate if first else config.risk_rate
        groups = parameter_groups(
            network.parameters(), learning_rate=rate, weight_decay=config.weight_decay
        )
        plan = Plan(
            epochs=config.epochs if first else config.risk_epochs,
            steps_per_epoch=order.steps,
            batch_size=order.batch,
            seed=config.seed,
            learning_rate=rate,
            schedule=lambda step, steps: warm_cosine(step / steps, 1.0, config.warmup, lowest=0.02),
            gradient_clip=1.0,
            weight_average=config.weight_average,
            budget_seconds=budget_seconds,
        )
        super().__init__(
            network,
            adamw(groups, betas=(0.9, 0.98)),
            plan,
            device=network.bias.device,
            identity=identity(phase, to_toml(config), data.cpu().numpy()),
        )

    def loss(self, step: int, part: slice) -> Tensor:
        """That of the phase."""
        with self.autocast():
            return self._loss(step, part)

    def draws_seed(self, step: int) -> int:
        """The phases draw different numbers."""
        offset = 0 if self.phase == "captions" else 7_919
        return self.plan.seed * 1_000_003 + 2 * step + offset

    def run_epochs(
        self,
        folder: str | os.PathLike[str] | None,
        checkpoint_seconds: float,
        on_epoch: OnEpoch | None,
    ) -> GroundedNetwork:
        """`run`, with a report at the end of each epoch."""

        def report(found: StepReport) -> None:
            assert on_epoch is not None
            about = EpochReport(self.phase, found.epoch, found.step, found.loss, found.seconds)
            on_epoch(about, self.averaged_network())

        return self.run(
            folder,
            checkpoint_seconds=checkpoint_seconds,
            progress=None if on_epoch is None else report,
            report_every=self.plan.steps_per_epoch,
        )
