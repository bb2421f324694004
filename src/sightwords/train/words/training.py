"""Training the word detector (section 3.1): the paper's recipe and a modern one in one loop.

Input: an image table and targets (N, V). Output: a trained `WordNetwork`. Under torchrun each
process takes its share of every batch.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import numpy as np
import torch

from sightwords.config import WordsConfig
from sightwords.train.data.augment import network_input
from sightwords.train.data.batches import Stream
from sightwords.train.data.image_table import ImageTable
from sightwords.train.integrity import is_whole
from sightwords.train.processes import mean_over_processes
from sightwords.train.words.loop import TrainingLoop, precision
from sightwords.train.words.network import WordNetwork
from sightwords.train.words.noisy_or import image_prob
from sightwords.train.words.teacher import Teachers
from sightwords.types import FloatArray

CHECKPOINT_NAME = "checkpoint.pt"


@dataclass(frozen=True, slots=True)
class StepReport:
    """What the progress callback gets."""

    step: int
    steps: int
    loss: float
    learning_rate: float
    images_per_second: float
    seconds_left: float


Progress = Callable[[StepReport], None]


def train_words(
    network: WordNetwork,
    table: ImageTable | Stream,
    targets: FloatArray | None,
    config: WordsConfig,
    *,
    device: str = "cpu",
    folder: str | os.PathLike[str] | None = None,
    checkpoint_seconds: float = 60.0,
    compile_network: bool = False,
    teachers: Teachers | None = None,
    progress: Progress | None = None,
    report_every: int = 20,
) -> WordNetwork:
    """Train in place and return the network with the weights to keep.

    `targets` is (N, V): 1 where any caption has the word, or the share of captions that do; None
    where a stream brings them along.
    `teachers` have their say in them by `config.teacher_weight`. With `folder`, checkpoints are
    written there and a run found there is resumed.
    """
    loop = TrainingLoop(
        network,
        table,
        targets,
        config,
        device=device,
        compile_network=compile_network,
        teachers=teachers,
    )
    return run_loop(
        loop,
        folder=folder,
        checkpoint_seconds=checkpoint_seconds,
        progress=progress,
        report_every=report_every,
    )


def run_loop(
    loop: TrainingLoop,
    *,
    folder: str | os.PathLike[str] | None = None,
    checkpoint_seconds: float = 60.0,
    progress: Progress | None = None,
    report_every: int = 20,
) -> WordNetwork:
    """Take every step of a loop that is left, with checkpoints and progress."""
    checkpoint = Path(folder) / CHECKPOINT_NAME if folder is not None else None
    if checkpoint is not None and is_whole(checkpoint):
        loop.restore(checkpoint)
    reporter = _Reporter(loop, progress, report_every)
    saved, saved_step = perf_counter(), loop.step
    while loop.step < loop.steps:
        reporter(loop.advance())
        if checkpoint is not None and perf_counter() - saved > checkpoint_seconds:
            loop.save(checkpoint)
            saved, saved_step = perf_counter(), loop.step
    if checkpoint is not None and saved_step < loop.step:
        loop.save(checkpoint)
    return loop.finished()


class _Reporter:
    """Calls `progress` now and then: reading the loss makes a GPU wait."""

    def __init__(self, loop: TrainingLoop, progress: Progress | None, every: int) -> None:
        self.loop, self.progress, self.every = loop, progress, every
        self.started, self.first = perf_counter(), loop.step

    def __call__(self, loss: torch.Tensor) -> None:
        loop = self.loop
        if loop.step % self.every and loop.step < loop.steps:
            return
        loss = mean_over_processes(loss)  # all processes take part, whoever listens
        if self.progress is None:
            return
        seconds = max(perf_counter() - self.started, 1e-9)
        done = loop.step - self.first
        self.progress(
            StepReport(
                step=loop.step,
                steps=loop.steps,
                loss=float(loss),
                learning_rate=loop.learning_rate,
                images_per_second=done * loop.batch_size / seconds,
                seconds_left=(loop.steps - loop.step) * seconds / done,
            )
        )


@torch.no_grad()
def score_images(
    network: WordNetwork, table: ImageTable, *, device: str = "cpu", batch_size: int = 128
) -> FloatArray:
    """(N, V) probability of each word in each image of a table."""
    network.eval().to(device)
    scores = []
    for start in range(0, len(table), batch_size):
        rows = slice(start, start + batch_size)
        pixels = torch.from_numpy(np.array(table.pixels[rows])).to(device)
        content = torch.from_numpy(table.content[rows]).to(device)
        images = network_input(pixels, content, network.backbone.input)
        with precision(torch.device(device)):
            output = network(images)
        scores.append(image_prob(output.bag_logits).cpu().numpy())
    return np.concatenate(scores)
