"""Training of the grounded language model: captions first, then M-best lists (section 5).

    Images + Sentences   --train_captions-->  cross entropy, as any captioner
    Images + ScoredLists --train_lists----->  expected CIDEr, or its ranking, of whole lists

With `budget_seconds` the learning rate falls with the clock where that is ahead of the steps, and
the run ends in time. `grounded_run` holds the state, `grounded_risk` the losses.
"""

from __future__ import annotations

import math
import os

import torch
from torch import Tensor

from sightwords.train.grounded.data import Images, Sentences
from sightwords.train.grounded.lists import ScoredLists
from sightwords.train.grounded.loop import EpochReport, OnEpoch, Order, Run
from sightwords.train.grounded.network import GroundedNetwork
from sightwords.train.grounded.risk import (
    caption_loss,
    list_loss,
    look,
    sample_hypotheses,
    sentence_scores,
)

__all__ = ["EpochReport", "OnEpoch", "train_captions", "train_lists"]


def train_captions(
    network: GroundedNetwork,
    images: Images,
    captions: Sentences,
    *,
    budget_seconds: float = math.inf,
    checkpoint: str | os.PathLike[str] | None = None,
    on_epoch: OnEpoch | None = None,
) -> GroundedNetwork:
    """Cross entropy on captions; returns the network of averaged weights."""
    config = network.config
    order = Order.of_captions(captions, images, config, config.batch_size)
    run = Run(network, "captions", order.steps, budget_seconds, captions.targets)
    run.restore(checkpoint)

    def loss_of(step: int) -> Tensor:
        chosen = order.rows(step)
        looked = look(network, images, captions.images[chosen])
        return caption_loss(network, looked, captions.targets[chosen])

    return run.to_the_end(loss_of, on_epoch, checkpoint)


def train_lists(
    network: GroundedNetwork,
    images: Images,
    lists: ScoredLists,
    captions: Sentences,
    *,
    budget_seconds: float = math.inf,
    checkpoint: str | os.PathLike[str] | None = None,
    on_epoch: OnEpoch | None = None,
) -> GroundedNetwork:
    """Minimum risk, or listwise, on M-best lists, with a share of the loss above."""
    config = network.config
    every = torch.arange(len(lists), device=lists.valid.device)
    order = Order(every, every[:0], 0.0, config.risk_batch_size, config.seed)
    beside = Order.of_captions(captions, images, config, config.risk_batch_size)
    run = Run(network, "lists", order.steps, budget_seconds, lists.rewards)
    run.restore(checkpoint)

    def loss_of(step: int) -> Tensor:
        chosen = order.rows(step)
        looked = look(network, images, lists.sentences.images[chosen])
        rewards, valid = lists.rewards[chosen], lists.valid[chosen]
        places = sample_hypotheses(rewards, valid, config.hypotheses)
        wide = places[..., None].expand(-1, -1, lists.sentences.targets.shape[-1])
        targets = lists.sentences.targets[chosen].gather(1, wide)
        scored = sentence_scores(network, looked, targets)
        loss = list_loss(scored, rewards.gather(1, places), valid.gather(1, places), config)
        if config.caption_share:
            others = beside.rows(step)
            looked = look(network, images, captions.images[others])
            loss = loss + config.caption_share * caption_loss(
                network, looked, captions.targets[others]
            )
        return loss

    return run.to_the_end(loss_of, on_epoch, checkpoint)
