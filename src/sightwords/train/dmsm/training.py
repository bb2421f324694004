"""Training the DMSM (section 5.1): image features and captions -> two networks.

All data lies on the device; an epoch over 230,000 captions takes about a second on a large GPU.
Every step draws its order, negatives and dropout from (seed, step) alone, so that a run killed and
resumed ends with the weights of an unbroken one. Under torchrun each process encodes its share of
every batch; the vectors of all meet in a loss that each of them computes whole.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sightwords.config import DmsmConfig
from sightwords.errors import InputError
from sightwords.settings import to_toml
from sightwords.train.checkpoint import load_checkpoint, save_checkpoint
from sightwords.train.data.batches import Order
from sightwords.train.data.sampler import draws_for, rand_rows
from sightwords.train.dmsm.data import DmsmData
from sightwords.train.dmsm.loss import dmsm_loss, list_loss
from sightwords.train.dmsm.network import DmsmNetwork
from sightwords.train.integrity import is_whole
from sightwords.train.processes import (
    check_same_step,
    gathered,
    is_first,
    rank_and_world,
    share_of_batch,
    wrapped,
)
from sightwords.train.words.loop import precision
from sightwords.train.words.schedule import warm_cosine

log = logging.getLogger(__name__)

CHECKPOINT_NAME = "dmsm-checkpoint.pt"


@dataclass(frozen=True, slots=True)
class DmsmReport:
    """What the progress callback gets."""

    step: int
    steps: int
    epoch: int
    loss: float
    captions_per_second: float


Progress = Callable[[DmsmReport], None]


def train_dmsm(
    data: DmsmData,
    config: DmsmConfig,
    *,
    device: str = "cpu",
    folder: str | os.PathLike[str] | None = None,
    checkpoint_seconds: float = 60.0,
    progress: Progress | None = None,
    report_every: int = 50,
) -> DmsmNetwork:
    """Train from nothing, or from the checkpoint in `folder`; returns the weights to keep."""
    loop = DmsmLoop(data, config, device=device)
    checkpoint = Path(folder) / CHECKPOINT_NAME if folder is not None else None
    if checkpoint is not None and is_whole(checkpoint):
        loop.restore(checkpoint)
    started, first = perf_counter(), loop.step
    saved = started
    while loop.step < loop.steps:
        loss = loop.advance()
        if progress and (loop.step % report_every == 0 or loop.step == loop.steps):
            seconds = max(perf_counter() - started, 1e-9)
            speed = (loop.step - first) * loop.batch_size / seconds
            epoch = (loop.step - 1) // loop.steps_an_epoch
            progress(DmsmReport(loop.step, loop.steps, epoch, float(loss), speed))
        if checkpoint is not None and perf_counter() - saved > checkpoint_seconds:
            loop.save(checkpoint)
            saved = perf_counter()
    if checkpoint is not None and loop.step > first:
        loop.save(checkpoint)
    return loop.finished()


class DmsmLoop:
    """Network, average, optimiser, step."""

    def __init__(self, data: DmsmData, config: DmsmConfig, *, device: str) -> None:
        self.config, self.device = config, torch.device(device)
        self.batch_size = share_of_batch(config.batch_size, len(data))
        if len(set(data.images.tolist())) < 2:
            raise InputError(
                "captions of one image only; training needs captions of others to tell them from"
            )
        if config.list_sentences and data.listed is None:
            raise InputError(
                f"list_sentences is {config.list_sentences}, but no M-best lists were given"
            )
        torch.manual_seed(config.seed)
        self.rows = _Rows(data, self.device)
        self.network = DmsmNetwork(data.features.shape, data.index, config).to(self.device)
        self.network.image.standardise(self.rows.features)
        self.forward = wrapped(self.network)
        self.order = Order(len(data), self.batch_size, config.seed)
        self.steps_an_epoch = self.order.steps
        self.step, self.steps = 0, config.epochs * self.order.steps
        self.optimizer = _optimizer(self.network, config)
        self.average = (
            [value.detach().clone() for value in self.network.parameters()]
            if config.weight_average
            else []
        )
        self.identity = _identity(config, data)

    def advance(self) -> Tensor:
        """One step; returns its loss, which is that of the whole batch in every process."""
        rate = self.config.learning_rate * warm_cosine(self.step, self.steps, self.config.warmup)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.network.train()
        seed = self.config.seed * 1_000_003 + self.step
        with draws_for(*rank_and_world(), seed=seed, device=self.device):
            loss = self._loss(self.order.rows(self.step))
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.step += 1
        self._update_average()
        return loss.detach()

    def _loss(self, captions: npt.NDArray[np.int64]) -> Tensor:
        rank, world = rank_and_world()
        owners, features, sentences, worth = self.rows.take(
            captions, slice(rank, None, world), listed=self.config.list_sentences
        )
        with precision(self.device):
            images, texts = self.forward(features, *self.rows.words(sentences))
        images, texts = gathered(images), gathered(texts)
        cosines = images @ texts[:, 0].T
        if worth is None:
            return self._caption_loss(cosines, owners)
        beside = torch.einsum("bs,bks->bk", images, texts[:, 1:])
        if self.config.list_objective == "poor":
            # The others are good, or none at all (NaN): they do not stand against the image.
            return self._caption_loss(cosines, owners, beside.masked_fill(~(worth < 0), torch.nan))
        temperature, gamma = self.config.list_temperature, self.network.gamma
        ranking = list_loss(beside, worth, gamma=gamma, temperature=temperature)
        return self._caption_loss(cosines, owners) + ranking

    def _caption_loss(self, cosines: Tensor, owners: Tensor, extra: Tensor | None = None) -> Tensor:
        return dmsm_loss(
            cosines,
            owners,
            config=self.config,
            gamma=self.network.gamma,
            log_norm=self.network.log_norm,
            extra=extra,
        )

    @torch.no_grad()
    def _update_average(self) -> None:
        if not self.average:
            return
        decay = min(self.config.weight_average, (1 + self.step) / (10 + self.step))
        current = [value.detach() for value in self.network.parameters()]
        torch._foreach_lerp_(self.average, current, 1 - decay)

    @torch.no_grad()
    def finished(self) -> DmsmNetwork:
        """The network, holding the averaged weights if there are any."""
        for value, mean in zip(self.network.parameters(), self.average, strict=False):
            value.copy_(mean)
        return self.network.eval()

    def save(self, path: Path) -> None:
        """Write a checkpoint, whole or not at all; the first process alone."""
        if not is_first():
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
            path, identity=self.identity, device=self.device, differs="settings, images or captions"
        )
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.average, self.step = state["average"], state["step"]
        check_same_step(self.step, device=self.device)
        log.info("resumed %s at step %d of %d", path, self.step, self.steps)


class _Rows:
    """The data on the device."""

    def __init__(self, data: DmsmData, device: torch.device) -> None:
        self.device = device
        self.features = torch.from_numpy(data.features.features).to(device)
        mirrored = data.features.mirrored
        self.mirrored = None if mirrored is None else torch.from_numpy(mirrored).to(device)
        self.tokens = torch.from_numpy(data.tokens).to(device)
        self.images = torch.from_numpy(data.images).to(device)
        self.lengths = (data.tokens != 0).sum(1)
        own, trigrams = data.index.rows(data.words)
        self.own = torch.from_numpy(own).to(device)
        self.trigrams = torch.from_numpy(trigrams).to(device)
        self.listed = None if data.listed is None else torch.from_numpy(data.listed).to(device)
        self.worth = None if data.worth is None else torch.from_numpy(data.worth).to(device)

    def take(
        self, captions: npt.NDArray[np.int64], share: slice = slice(None), *, listed: int = 0
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """Image rows (B,) of a batch of captions, and of a share of it what the network takes.

        That is features (b, T, D) and sentences (b, 1 + listed, L): the caption, then some of the
        image's own list, drawn anew. Last, what those are worth, (B, listed), of the whole batch.
        """
        index = torch.from_numpy(captions).to(self.device)
        owners = self.images[index]
        mine = owners[share]
        features = self.features[mine]
        if self.mirrored is not None:
            turned = rand_rows(len(mine), device=self.device) < 0.5
            features = torch.where(turned[:, None, None], self.mirrored[mine], features)
        sentences = self.tokens[index[share], None, : int(self.lengths[captions].max())]
        if self.listed is None or self.worth is None or not listed:
            return owners, features, sentences, None
        # The same numbers in every process: what the whole batch is worth is needed by all.
        slots = torch.randint(self.listed.shape[1], (len(owners), listed), device=self.device)
        beside = self.listed[mine[:, None], slots[share]]
        room = beside.shape[-1] - sentences.shape[-1]
        sentences = torch.cat([torch.nn.functional.pad(sentences, (0, room)), beside], dim=1)
        return owners, features, sentences, self.worth[owners[:, None], slots]

    def words(self, sentences: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The network's text input for (B, K, L) word rows; each word is computed once."""
        boundary = sentences.new_zeros(1)  # so that row 0 is the boundary in every batch
        rows = torch.cat([boundary, sentences.flatten()])
        words, places = torch.unique(rows, return_inverse=True)
        return self.own[words], self.trigrams[words], places[1:].view(sentences.shape)


def _optimizer(network: DmsmNetwork, config: DmsmConfig) -> torch.optim.Optimizer:
    trained = [p for p in network.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in trained if p.ndim > 1], "weight_decay": config.weight_decay},
        {"params": [p for p in trained if p.ndim < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=config.learning_rate, betas=(0.9, 0.98))


def _identity(config: DmsmConfig, data: DmsmData) -> str:
    """Equal for runs that a checkpoint may carry over: settings, images and captions."""
    digest = hashlib.sha256(to_toml(config).encode())
    digest.update("\n".join(data.features.ids).encode())
    digest.update(data.features.features[:: max(1, len(data.features) // 100)].tobytes())
    for part in (data.tokens, data.images, data.listed, data.worth):
        digest.update(b"" if part is None else part.tobytes())
    return digest.hexdigest()
