"""A detector of new words on an exported network that stays as it is: minutes on a CPU.

corpus + trained detector -> features of every image's regions, once -> a new last layer

The last layer is fc8 of the paper, trained by the same noisy-OR loss. A known word starts
from the weights it had, a new one from random numbers. The loop is its own, not `train.fit`: known
words learn more slowly, and minutes need no checkpoints.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from time import perf_counter

import numpy as np
import torch
from torch import Tensor, nn

from sightwords.config import Config, WordsConfig
from sightwords.files import write_bytes
from sightwords.settings import save_resolved
from sightwords.text.vocabulary import Vocabulary
from sightwords.text.vocabulary_file import load_vocabulary, save_vocabulary
from sightwords.train.fit import Progress, StepReport
from sightwords.train.words.frozen.features import RegionTable
from sightwords.train.words.frozen.graft import open_model, with_head
from sightwords.train.words.labels import caption_targets
from sightwords.train.words.noisy_or import noisy_or_loss
from sightwords.train.words.training import rate_factor
from sightwords.types import FloatArray
from sightwords.words.artefact import NETWORK_NAME, VOCABULARY_NAME, DetectorSpec

REPORT_EVERY = 10
KNOWN_PACE = 0.1
"""Known words learn so much more slowly: a few photos must not overwrite what many taught."""


def train_head(
    table: RegionTable,
    vocabulary: Vocabulary,
    old: Vocabulary | None,
    config: WordsConfig,
    *,
    captions_per_image: int = 5,
    progress: Progress | None = None,
) -> tuple[FloatArray, FloatArray]:
    """The new last layer: weight (C, V), bias (V,). Reproducible: order and dropout by seed.

    `old` are the words of the old layer; None if none of them means the same here.
    """
    targets = torch.from_numpy(
        caption_targets(
            table.captions, vocabulary,
            labels=config.labels, captions_per_image=captions_per_image,
        )
    )  # fmt: skip
    torch.manual_seed(config.seed)
    head = first_head(table, vocabulary, old, config)
    dropout = nn.Dropout(config.dropout)
    known = torch.tensor([old is not None and word in old for word in vocabulary.words])
    pace = torch.where(known, KNOWN_PACE, 1.0)
    rate = config.learning_rate * config.head_rate
    optimizer = torch.optim.AdamW(head.parameters(), lr=rate, weight_decay=config.weight_decay)
    size = min(config.batch_size, len(table))
    steps, step, started = config.epochs * (len(table) // size), 0, perf_counter()
    for epoch in range(config.epochs):
        order = np.random.default_rng((config.seed, epoch)).permutation(len(table))
        for place in range(0, len(table) - size + 1, size):
            rows = order[place : place + size]
            optimizer.param_groups[0]["lr"] = rate * rate_factor(step, steps, config)
            regions = torch.from_numpy(table.regions[rows].astype(np.float32))
            loss = noisy_or_loss(head(dropout(regions)), targets[rows], dim=1)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            _paced(optimizer, head, pace)
            step += 1
            if progress and (step % REPORT_EVERY == 0 or step == steps):
                seconds = perf_counter() - started
                progress(
                    StepReport(
                        step=step,
                        steps=steps,
                        epoch=epoch + 1,
                        loss=loss.item(),
                        learning_rate=optimizer.param_groups[0]["lr"],
                        examples_per_second=step * size / seconds,
                        seconds=seconds,
                        seconds_left=(steps - step) * seconds / step,
                    )
                )
    weight, bias = head.weight.detach().numpy().T, head.bias.detach().numpy()
    return np.ascontiguousarray(weight), bias.copy()


def _paced(optimizer: torch.optim.Optimizer, head: nn.Linear, pace: Tensor) -> None:
    """An optimiser step of which each word takes a share (V,)."""
    before = [value.detach().clone() for value in (head.weight, head.bias)]
    optimizer.step()
    with torch.no_grad():
        head.weight.copy_(torch.lerp(before[0], head.weight, pace[:, None]))
        head.bias.copy_(torch.lerp(before[1], head.bias, pace))


def first_head(
    table: RegionTable, vocabulary: Vocabulary, old: Vocabulary | None, config: WordsConfig
) -> nn.Linear:
    """Known words as they were; new ones with small weights and a low prior, as in the paper."""
    head = nn.Linear(table.old_weight.shape[0], len(vocabulary))
    nn.init.normal_(head.weight, 0.0, 0.001)
    nn.init.constant_(head.bias, config.initial_bias)
    with torch.no_grad():
        for place, word in enumerate(vocabulary.words):
            if old is not None and word in old:
                column = old.ids[word]
                head.weight[place] = torch.from_numpy(table.old_weight[:, column].copy())
                head.bias[place] = float(table.old_bias[column])
    return head


def write_frozen(
    base: str | os.PathLike[str],
    out: str | os.PathLike[str],
    vocabulary: Vocabulary,
    config: Config,
    *,
    head: tuple[FloatArray, FloatArray],
) -> Path:
    """A detector directory: the network of `base` with the new last layer, not calibrated yet."""
    folder, spec = Path(out), DetectorSpec.load(base)
    network = with_head(open_model(Path(base) / NETWORK_NAME), *head)
    write_bytes(folder / NETWORK_NAME, network)
    save_vocabulary(vocabulary, folder / VOCABULARY_NAME)
    images = replace(config.images, size_px=spec.input.size_px)
    save_resolved(replace(config, images=images), folder)
    replace(spec, words=len(vocabulary)).save(folder)
    return folder


def known_words(base: str | os.PathLike[str]) -> Vocabulary:
    """The words that the base detector knows."""
    return load_vocabulary(Path(base) / VOCABULARY_NAME)
