"""Training the DMSM (section 5.1): image features and captions -> two networks.

All data lies on the device; an epoch over 230,000 captions takes about a second on a large GPU.
Every step draws its order, negatives and dropout from (seed, step) alone, so that a run killed and
resumed ends with the weights of an unbroken one.
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
from sightwords.train.dmsm_data import DmsmData
from sightwords.train.dmsm_loss import dmsm_loss, list_loss
from sightwords.train.dmsm_network import DmsmNetwork
from sightwords.train.loop import Order, precision
from sightwords.train.schedule import warm_cosine

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
    if checkpoint is not None and checkpoint.exists():
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
        self.batch_size = min(config.batch_size, len(data))
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
        """One step; returns its loss."""
        torch.manual_seed(self.config.seed * 1_000_003 + self.step)
        rate = self.config.learning_rate * warm_cosine(self.step, self.steps, self.config.warmup)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.network.train()
        loss = self._loss(self.order.rows(self.step))
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.step += 1
        self._update_average()
        return loss.detach()

    def _loss(self, captions: npt.NDArray[np.int64]) -> Tensor:
        owners, features, sentences = self.rows.take(captions)
        listed, worth = self.rows.from_lists(owners, self.config.list_sentences)
        with precision(self.device):
            images = self.network.image(features)
            texts = self.rows.encode(self.network, [sentences, *listed])
        cosines = images @ texts[: len(owners)].T
        if worth is None:
            return self._caption_loss(cosines, owners)
        candidates = texts[len(owners) :].view(*worth.shape, -1)
        beside = torch.einsum("bs,bks->bk", images, candidates)
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
        """Write a checkpoint, whole or not at all."""
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

    def take(self, captions: npt.NDArray[np.int64]) -> tuple[Tensor, Tensor, Tensor]:
        """Image rows (B,), features (B, T, D) and words (B, L) of some captions."""
        index = torch.from_numpy(captions).to(self.device)
        owners = self.images[index]
        features = self.features[owners]
        if self.mirrored is not None:
            turned = torch.rand(len(owners), device=self.device) < 0.5
            features = torch.where(turned[:, None, None], self.mirrored[owners], features)
        return owners, features, self.tokens[index, : int(self.lengths[captions].max())]

    def from_lists(self, owners: Tensor, count: int) -> tuple[list[Tensor], Tensor | None]:
        """Sentences (B * count, L) of the images' own lists, drawn anew, and their worth."""
        if self.listed is None or self.worth is None or not count:
            return [], None
        slots = torch.randint(self.listed.shape[1], (len(owners), count), device=self.device)
        rows = owners[:, None], slots
        return [self.listed[rows].flatten(0, 1)], self.worth[rows]

    def encode(self, network: DmsmNetwork, parts: list[Tensor]) -> Tensor:
        """Text vectors of (B, L) word rows, one after another; each word is computed once."""
        width = max(part.shape[1] for part in parts)
        rows = torch.cat(
            [torch.nn.functional.pad(part, (0, width - part.shape[1])) for part in parts]
        )
        boundary = rows.new_zeros(1, width)  # so that row 0 is the boundary in every batch
        words, places = torch.unique(torch.cat([boundary, rows]), return_inverse=True)
        vectors: Tensor = network.text(self.own[words], self.trigrams[words], places[1:])
        return vectors


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
