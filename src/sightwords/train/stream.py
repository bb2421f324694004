"""Training straight from shards, for more images than fit on a disk (section 3.1).

Shards are read side by side in `lanes`, whose number does not depend on the processes:

    shards, shuffled -> lane 0: every 8th shard -> shuffle buffer -> decode -> 16 images a step
                        lane 1: the ones behind -> ...                      -> 16 images a step

A batch takes as many images of every lane; process r of n reads lanes r, r + n, ... in worker
processes of its own. So a step's images are the same on any number of processes, and nothing is
stored. What was read before a checkpoint is read again, without decoding, to find the place.
A lane goes round and round its shards: where shards differ in size, images of the smaller ones
are seen more often than others, by chance and not always the same ones.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import count, islice
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from PIL import features
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from sightwords.config import WordsConfig
from sightwords.corpus.parallel import default_workers
from sightwords.errors import ConfigError, CorpusError, require
from sightwords.settings import to_toml
from sightwords.text.vocabulary import Vocabulary
from sightwords.train.labels import CAPTIONS, caption_targets
from sightwords.train.processes import rank_and_world
from sightwords.train.stream_index import ShardIndex, examples_of
from sightwords.train.table import Canvas, canvas
from sightwords.types import Example
from sightwords.words.artefact import Resize

log = logging.getLogger(__name__)

BUFFER = 500
"""Encoded images of a lane that are shuffled among each other."""
SPARE = 16
"""A bad image is replaced by the next good one of its lane; so many in a row are an error."""
Chunk = tuple[Tensor, Tensor, Tensor]
"""Pixels (B, side, side, 3), content (B, 2), targets (B, V)."""


@dataclass(frozen=True)
class Lanes:
    """The images of shards in a number of endless lanes; holds settings alone, no images."""

    index: ShardIndex
    vocabulary: Vocabulary
    config: WordsConfig
    side_px: int
    resize: Resize
    captions_per_image: int = CAPTIONS

    def __post_init__(self) -> None:
        lanes, shards, batch = self.config.lanes, len(self.index.images), self.config.batch_size
        if lanes > shards or batch % lanes or batch > len(self.index):
            raise ConfigError(
                f"lanes is {lanes} and batch_size {batch} for {len(self.index)} images in {shards} "
                "shards; expected at most a lane for each shard, a batch_size that lanes divide, "
                "and images for a batch: set them under [words], or write more shards (sightwords "
                "data convert)"
            )

    @property
    def images_a_step(self) -> int:
        """Of each lane."""
        return self.config.batch_size // self.config.lanes

    def shards(self, lane: int, epoch: int) -> list[str]:
        """Those of a lane's round: every `lanes`-th of all, which each epoch shuffles anew."""
        wds = require("webdataset", extra="train", purpose="training straight from shards")
        every = wds.SimpleShardList(sorted(self.index.images), seed=f"{self.config.seed}/{epoch}")
        return [shard["url"] for shard in islice(every, lane, None, self.config.lanes)]

    def examples(self, lane: int, *, start: int = 0) -> Iterator[Example]:
        """A lane's images without end, from its `start`-th; none is decoded."""
        for epoch in count():
            images = sum(self.index.images[shard] for shard in self.shards(lane, epoch))
            if start < images:
                yield from islice(self._round(lane, epoch), start, None)
            start = max(0, start - images)

    def _round(self, lane: int, epoch: int) -> Iterable[Example]:
        wds = require("webdataset", extra="train", purpose="training straight from shards")
        dice = Random(f"{self.config.seed}/{lane}/{epoch}")
        pipeline: Iterable[Example] = wds.DataPipeline(
            wds.SimpleShardList(self.shards(lane, epoch)),
            partial(_read, held_out=frozenset(self.index.held_out)),
            wds.shuffle(BUFFER, initial=BUFFER, rng=dice),
        )
        return pipeline

    def decoded(self, lane: int, *, start: int) -> Iterator[tuple[Example, Canvas]]:
        """A lane's images as training takes them; a bad one is named, and the next good one taken.

        That one has its own turn as well: the place of an image does not depend on others.
        """
        run = self.examples(lane, start=start)
        ahead = deque(islice(run, SPARE - 1))
        for example in run:
            ahead.append(example)
            yield self._first_good(ahead)
            ahead.popleft()

    def _first_good(self, ahead: Iterable[Example]) -> tuple[Example, Canvas]:
        problem = ""
        for example in ahead:
            found = canvas(example, side_px=self.side_px, mode=self.resize)
            if not isinstance(found, str):
                return example, found
            problem = found
            log.warning("replaced %s by the next image: %s", example.id, problem)
        raise CorpusError(f"{SPARE} images in a row cannot be read, the last one: {problem}")

    def chunk(self, images: list[tuple[Example, Canvas]]) -> Chunk:
        """Images as tensors, with what their captions teach."""
        pixels = np.empty((len(images), self.side_px, self.side_px, 3), dtype=np.uint8)
        for row, (_, (data, _)) in zip(pixels, images, strict=True):
            row.reshape(-1)[:] = np.frombuffer(data, dtype=np.uint8)
        content = np.array([size for _, (_, size) in images], dtype=np.int32)
        targets = caption_targets(
            [example.captions for example, _ in images],
            self.vocabulary,
            labels=self.config.labels,
            captions_per_image=self.captions_per_image,
        )
        return torch.from_numpy(pixels), torch.from_numpy(content), torch.from_numpy(targets)


class ShardStream:
    """What `TrainingLoop` takes in place of a table: the batches of `Lanes`, on the device."""

    def __init__(self, lanes: Lanes, *, device: str = "cpu", workers: int | None = None) -> None:
        rank, world = rank_and_world()
        number = lanes.config.lanes
        if number % world:
            raise ConfigError(
                f"lanes is {number} in {world} processes; expected a multiple: set lanes under "
                "[words]"
            )
        self.lanes, self.device = lanes, torch.device(device)
        self.mine = list(range(rank, number, world))
        self.workers = min(_share_of_cores() if workers is None else workers, len(self.mine))
        self.identity = _identity(lanes)
        self._step = -1
        self._chunks: Iterator[Chunk] = iter(())
        self._batch: Chunk | None = None

    def __len__(self) -> int:
        return len(self.lanes.index)

    def take(self, rows: npt.NDArray[np.int64]) -> Chunk:
        """The images at these places of the stream: a share of one step's batch."""
        batch_size = self.lanes.config.batch_size
        step = int(rows[0]) // batch_size
        if step != self._step or self._batch is None:
            if step != self._step + 1 or self._step < 0:
                self._chunks = self._open(step)
            self._step, self._batch = step, self._next()
        mine = torch.from_numpy(rows % batch_size // rank_and_world()[1])
        if len(mine) == len(self._batch[0]):  # in order: `rows` are every n-th place
            return self._batch
        pixels, content, targets = (part[mine.to(self.device)] for part in self._batch)
        return pixels, content, targets

    def _open(self, step: int) -> Iterator[Chunk]:
        loader = DataLoader(
            _Chunks(self.lanes, self.mine, step),
            batch_size=None,
            num_workers=self.workers,
            pin_memory=self.device.type == "cuda",
            prefetch_factor=2 if self.workers else None,
            generator=torch.Generator(),  # else it would take a number from that of the step
        )
        return iter(loader)

    def _next(self) -> Chunk:
        """One chunk of every worker, brought into the order of the batch on the device."""
        workers, shape = max(1, self.workers), (self.lanes.images_a_step, len(self.mine))
        chunks = [
            [part.to(self.device, non_blocking=True) for part in next(self._chunks)]
            for _ in range(workers)
        ]
        if workers == 1:
            pixels, content, targets = chunks[0]
            return pixels, content, targets
        batch = []
        for parts in zip(*chunks, strict=True):
            whole = parts[0].new_empty(*shape, *parts[0].shape[1:])
            for worker, part in enumerate(parts):
                whole[:, worker::workers] = part.view(shape[0], -1, *part.shape[1:])
            batch.append(whole.flatten(0, 1))
        pixels, content, targets = batch
        return pixels, content, targets


class _Chunks(IterableDataset[Chunk]):
    """Run in a worker: its lanes' images of each step, lane after lane for each place."""

    def __init__(self, lanes: Lanes, mine: list[int], start: int) -> None:
        self.lanes, self.mine, self.start = lanes, mine, start

    def __iter__(self) -> Iterator[Chunk]:
        worker = get_worker_info()
        mine = self.mine
        if worker is not None:
            mine = mine[worker.id :: worker.num_workers]
            decode_on_one_thread()
        each = self.lanes.images_a_step
        runs = [self.lanes.decoded(lane, start=self.start * each) for lane in mine]
        while True:
            yield self.lanes.chunk([next(run) for _ in range(each) for run in runs])


def _read(shards: Iterable[Mapping[str, str]], *, held_out: frozenset[str]) -> Iterator[Example]:
    for shard in shards:
        yield from (e for e in examples_of(shard["url"]) if e.id not in held_out)


def decode_on_one_thread() -> None:
    """There is a worker for every core: threads of each would be in each other's way."""
    if features.check("avif"):
        from PIL import AvifImagePlugin

        AvifImagePlugin.DEFAULT_MAX_THREADS = 1


def _share_of_cores() -> int:
    """Each process of a machine has its part of the cores."""
    return max(1, default_workers() // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))


def _identity(lanes: Lanes) -> str:
    """Equal for runs that a checkpoint may carry over."""
    said: Mapping[str, Any] = {
        "settings": to_toml(replace(lanes.config, accumulate=1)),
        "shards": lanes.index.key,
        "words": lanes.vocabulary.words,
        "images": (lanes.side_px, lanes.resize, lanes.captions_per_image),
    }
    return hashlib.sha256(repr(said).encode()).hexdigest()
