"""Batches of a stream of shards, on the device that trains.

lanes (lanes.py) -> worker processes decode (workers.py) -> prefetched to the device (prefetch.py)

Process r of n reads lanes r, r + n, ... in worker processes of its own.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sightwords.errors import ConfigError
from sightwords.parallel import available_cores
from sightwords.settings import to_toml
from sightwords.train.data.batches import index_on
from sightwords.train.data.canvas import one_thread_a_decoder
from sightwords.train.data.prefetch import Prefetcher, buffer
from sightwords.train.data.shard_loader.lanes import Lanes
from sightwords.train.data.shard_loader.workers import BatchWorkers, InProcess, Layout, Parts
from sightwords.train.processes import rank_and_world

Batch = tuple[Tensor, Tensor, Tensor]
"""Pixels (B, side, side, 3), content (B, 2), targets (B, V)."""


class ShardLoader:
    """The batches of `Lanes`, on the device; detector training takes it instead of a table."""

    def __init__(self, lanes: Lanes, *, device: str = "cpu", workers: int | None = None) -> None:
        """workers: processes that decode; with 0, this process decodes without prefetching."""
        rank, world = rank_and_world()
        number = lanes.config.lanes
        if number % world:
            raise ConfigError(
                f"words.lanes is {number}, but there are {world} processes; it must be a multiple "
                "of them"
            )
        self.lanes, self.device = lanes, torch.device(device)
        self.mine = list(range(rank, number, world))
        self.workers = (
            workers_for(len(self.mine)) if workers is None else min(workers, len(self.mine))
        )
        self.identity = _identity(lanes)
        self._step, self._batch = -1, list[Tensor]()
        self._ahead: Prefetcher[int] | None = None

    def __len__(self) -> int:
        return len(self.lanes.index)

    def take(self, rows: npt.NDArray[np.int64]) -> Batch:
        """The images at these places of the stream: this process' share of one batch."""
        batch_size = self.lanes.config.batch_size
        step = int(rows[0]) // batch_size
        if step != self._step:
            self._advance(step)
        pixels, content, targets = self._batch
        if len(rows) < len(pixels):  # otherwise all of them are wanted, in order
            mine = index_on(self.device, rows % batch_size // rank_and_world()[1])
            return pixels[mine], content[mine], targets[mine]
        return pixels, content, targets

    def _advance(self, step: int) -> None:
        """Take the next batch; start again if it is not that of the next step."""
        ahead = self._ahead if step == self._step + 1 else None
        self._ahead, self._step = None, -1  # after an error, start again
        ahead = ahead or self._opened(step)
        self._batch = ahead.take(step)
        self._ahead, self._step = ahead, step
        if self.workers:
            ahead.expect(step + 1, step + 2)

    def _opened(self, step: int) -> Prefetcher[int]:
        share, side = self.lanes.images_per_step * len(self.mine), self.lanes.side_px
        layout = (
            ((share, side, side, 3), "uint8"),
            ((share, 2), "int32"),
            ((share, len(self.lanes.vocabulary)), "float32"),
        )
        work = _Work(self.lanes, self.mine, step, self.workers)
        source = (
            BatchWorkers(work, layout, workers=self.workers) if self.workers else InProcess(work)
        )
        return Prefetcher(
            partial(_batch, source, layout, pinned=self.device.type == "cuda"), self.device
        )


def _batch(
    source: BatchWorkers | InProcess, layout: Layout, step: int, *, pinned: bool
) -> list[Tensor]:
    """The next batch; the source counts the steps itself."""
    del step
    parts = [buffer(shape, getattr(torch, kind), pinned=pinned) for shape, kind in layout]
    source.take(tuple(part.numpy() for part in parts))
    return parts


@dataclass(frozen=True)
class _Work:
    """Work of one worker: it decodes its lanes' images into their rows of each batch."""

    lanes: Lanes
    mine: list[int]
    start: int
    workers: int

    def __call__(self, worker: int, batches: Iterator[Parts]) -> Iterator[Parts]:
        each, number = self.lanes.images_per_step, len(self.mine)
        here = range(worker, number, max(1, self.workers))
        runs = {n: self.lanes.decoded(self.mine[n], start=self.start * each) for n in here}
        places = [image * number + n for image in range(each) for n in here]
        with one_thread_a_decoder():
            for pixels, content, targets in batches:
                captions = []
                for place in places:
                    example, (image, size) = next(runs[place % number])
                    pixels[place], content[place] = image, size
                    captions.append(example.captions)
                targets[places] = self.lanes.targets(captions)
                yield pixels, content, targets


def workers_for(lanes: int) -> int:
    """At most one per core of this process, with the lanes spread evenly.

    A batch is ready when the busiest worker is done: with 16 lanes on 12 cores some worker has
    two lanes, and 8 workers with two each are as fast as 12. No core is left free for the step
    itself: workers that are ahead of it sleep, and otherwise the step waits for them anyway.
    """
    cores = max(1, available_cores() // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))
    busiest = -(-lanes // cores)
    return -(-lanes // busiest)


def _identity(lanes: Lanes) -> str:
    """Equal for runs that may resume from each other's checkpoints."""
    parts: Mapping[str, Any] = {
        "settings": to_toml(replace(lanes.config, accumulate=1)),
        "shards": lanes.index.key,
        "words": lanes.vocabulary.words,
        "images": (lanes.side_px, lanes.resize, lanes.captions_per_image),
    }
    return hashlib.sha256(repr(parts).encode()).hexdigest()
