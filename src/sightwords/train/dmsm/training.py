"""Training the DMSM (section 5.1): image features and captions -> two networks.

All data is on the device; an epoch over 230,000 captions takes about a second on a large GPU.
Under torchrun each process encodes its share of every batch; the vectors of all processes meet in a
loss that each of them computes whole.
"""

from __future__ import annotations

import os

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sightwords.config import DmsmConfig
from sightwords.errors import InputError
from sightwords.settings import to_toml
from sightwords.train.data.batches import Order
from sightwords.train.data.sampler import rand_rows
from sightwords.train.dmsm.data import DmsmData
from sightwords.train.dmsm.loss import dmsm_loss, list_loss
from sightwords.train.dmsm.network import DmsmNetwork
from sightwords.train.fit import (
    Fit,
    Plan,
    Progress,
    adamw,
    identity,
    parameter_groups,
    warm_cosine,
)
from sightwords.train.processes import gathered, share_of_batch

CHECKPOINT_NAME = "dmsm-checkpoint.pt"


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
    """Train from random weights, or from the checkpoint in `folder`."""
    return DmsmFit(data, config, device=device).run(
        folder,
        checkpoint_seconds=checkpoint_seconds,
        progress=progress,
        report_every=report_every,
    )


class DmsmFit(Fit[DmsmNetwork]):
    """Batches of images and captions, and the loss of their cosines."""

    checkpoint_name = CHECKPOINT_NAME
    identity_of_what = "settings, images or captions"

    def __init__(self, data: DmsmData, config: DmsmConfig, *, device: str) -> None:
        self.config, where = config, torch.device(device)
        size = share_of_batch(config.batch_size, len(data))
        if len(set(data.images.tolist())) < 2:
            raise InputError(
                "all captions are of one image; training needs captions of others to tell them from"
            )
        if config.list_sentences and data.listed is None:
            raise InputError(
                f"list_sentences is {config.list_sentences}, but no M-best lists were given"
            )
        torch.manual_seed(config.seed)
        self.rows = _Rows(data, where)
        network = DmsmNetwork(data.features.shape, data.index, config).to(where)
        network.image.standardise(self.rows.features)
        self.order = Order(len(data), size, config.seed)
        groups = parameter_groups(
            network.parameters(),
            learning_rate=config.learning_rate,
            weight_decay=config.weight_decay,
        )
        super().__init__(
            network,
            adamw(groups, betas=(0.9, 0.98)),
            Plan(
                epochs=config.epochs,
                steps_per_epoch=self.order.steps,
                batch_size=size,
                seed=config.seed,
                learning_rate=config.learning_rate,
                schedule=lambda step, steps: warm_cosine(step, steps, config.warmup),
                weight_average=config.weight_average,
            ),
            device=where,
            identity=_identity(config, data),
        )

    def loss(self, step: int, part: slice) -> Tensor:
        """Loss of the whole batch, of which this process encodes one part."""
        owners, features, sentences, worth = self.rows.take(
            self.order.rows(step), part, listed=self.config.list_sentences
        )
        with self.autocast():
            images, texts = self.forward(features, *self.rows.words(sentences))
        images, texts = gathered(images), gathered(texts)
        cosines = images @ texts[:, 0].T
        if worth is None:
            return self._caption_loss(cosines, owners)
        beside = torch.einsum("bs,bks->bk", images, texts[:, 1:])
        if self.config.list_objective == "poor":
            # The others are good, or missing (NaN): they are no negatives.
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
        """Image rows (B,) of a batch of captions, and the network's input for a share of it.

        The input is features (b, T, D) and sentences (b, 1 + listed, L): the caption, then random
        ones of the image's own list. Last, the values (B, listed) of these for the whole batch.
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
        # The same numbers in every process: all need the values of the whole batch.
        slots = torch.randint(self.listed.shape[1], (len(owners), listed), device=self.device)
        beside = self.listed[mine[:, None], slots[share]]
        room = beside.shape[-1] - sentences.shape[-1]
        sentences = torch.cat([torch.nn.functional.pad(sentences, (0, room)), beside], dim=1)
        return owners, features, sentences, self.worth[owners[:, None], slots]

    def words(self, sentences: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The network's text input for (B, K, L) word rows; each word is computed once."""
        boundary = sentences.new_zeros(1)  # so that row 0 is the sentence boundary
        rows = torch.cat([boundary, sentences.flatten()])
        words, places = torch.unique(rows, return_inverse=True)
        return self.own[words], self.trigrams[words], places[1:].view(sentences.shape)


def _identity(config: DmsmConfig, data: DmsmData) -> str:
    """Equal for runs that may share a checkpoint: settings, images and captions."""
    some = data.features.features[:: max(1, len(data.features) // 100)]
    arrays = (some, data.tokens, data.images, data.listed, data.worth)
    return identity(to_toml(config), "\n".join(data.features.ids), *arrays)
