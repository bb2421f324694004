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
from functools import cached_property, partial
from itertools import chain, count, islice, repeat
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sightwords.config import WordsConfig
from sightwords.errors import ConfigError, CorpusError, require
from sightwords.runtime import available_cores
from sightwords.settings import to_toml
from sightwords.text.vocabulary import Vocabulary
from sightwords.train.data.batch_workers import Alone, Layout, Parts, Ring
from sightwords.train.data.batches import index_on
from sightwords.train.data.canvas import Canvas, canvas, one_thread_a_decoder
from sightwords.train.data.decoded_cache import Kept
from sightwords.train.data.prefetch import Ahead, buffer
from sightwords.train.data.shard_index import ShardIndex, examples_of
from sightwords.train.processes import rank_and_world
from sightwords.train.words.labels import CAPTIONS, caption_targets
from sightwords.types import Example, FloatArray
from sightwords.words.artefact import Resize

log = logging.getLogger(__name__)

BUFFER = 500
"""Encoded images of a lane that are shuffled among each other."""
SPARE = 16
"""A bad image is replaced by the next good one of its lane; so many in a row are an error."""
Batch = tuple[Tensor, Tensor, Tensor]
"""Pixels (B, side, side, 3), content (B, 2), targets (B, V)."""
Numbered = tuple[int | None, Example]
"""An image and its number among those of all shards, if it was counted."""


@dataclass(frozen=True)
class Lanes:
    """The images of shards in a number of endless lanes; holds settings alone, no images."""

    index: ShardIndex
    vocabulary: Vocabulary
    config: WordsConfig
    side_px: int
    resize: Resize
    captions_per_image: int = CAPTIONS
    kept: Kept | None = None
    """Where decoded images are kept, if they are."""

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
        return (example for _, example in self._numbered(lane, start))

    def _numbered(self, lane: int, start: int) -> Iterator[Numbered]:
        for epoch in count():
            images = sum(self.index.images[shard] for shard in self.shards(lane, epoch))
            if start < images:
                yield from islice(self._round(lane, epoch), start, None)
            start = max(0, start - images)

    def _round(self, lane: int, epoch: int) -> Iterable[Numbered]:
        wds = require("webdataset", extra="train", purpose="training straight from shards")
        dice = Random(f"{self.config.seed}/{lane}/{epoch}")
        pipeline: Iterable[Numbered] = wds.DataPipeline(
            wds.SimpleShardList(self.shards(lane, epoch)),
            partial(_read, held_out=frozenset(self.index.held_out), numbers=self._numbers),
            wds.shuffle(BUFFER, initial=BUFFER, rng=dice),
        )
        return pipeline

    @cached_property
    def _numbers(self) -> dict[str, range]:
        """Shard -> the numbers of its images among all."""
        found, first = {}, 0
        for shard in sorted(self.index.images):
            found[shard] = range(first, first + self.index.images[shard])
            first = found[shard].stop
        return found

    def decoded(self, lane: int, *, start: int) -> Iterator[tuple[Example, Canvas]]:
        """A lane's images as training takes them; a bad one is named, and the next good one taken.

        That one has its own turn as well: the place of an image does not depend on others. Pixels
        last until the next image of any lane.
        """
        run = self._numbered(lane, start)
        ahead = deque(islice(run, SPARE - 1))
        for one in run:
            ahead.append(one)
            yield self._first_good(ahead)
            ahead.popleft()

    def _first_good(self, ahead: Iterable[Numbered]) -> tuple[Example, Canvas]:
        problem = ""
        for number, example in ahead:
            found = self._canvas(number, example)
            if not isinstance(found, str):
                return example, found
            problem = found
            log.warning("replaced %s by the next image: %s", example.id, problem)
        raise CorpusError(f"{SPARE} images in a row cannot be read, the last one: {problem}")

    def _canvas(self, number: int | None, example: Example) -> Canvas | str:
        """Kept earlier, or decoded now and kept; or what is wrong."""
        kept = self.kept.get(number, example) if self.kept and number is not None else None
        if kept is not None:
            return kept
        found = canvas(example, side_px=self.side_px, mode=self.resize)
        if self.kept and number is not None and not isinstance(found, str):
            self.kept.put(number, example, found)
        return found

    def targets(self, captions: list[tuple[str, ...]]) -> FloatArray:
        """What the captions of some images teach."""
        return caption_targets(
            captions,
            self.vocabulary,
            labels=self.config.labels,
            captions_per_image=self.captions_per_image,
        )


class ShardStream:
    """What `WordsFit` takes in place of a table: the batches of `Lanes`, on the device."""

    def __init__(self, lanes: Lanes, *, device: str = "cpu", workers: int | None = None) -> None:
        """`workers` are processes that decode; 0: this one does, and nothing is made ahead."""
        rank, world = rank_and_world()
        number = lanes.config.lanes
        if number % world:
            raise ConfigError(
                f"lanes is {number} in {world} processes; expected a multiple: set lanes under "
                "[words]"
            )
        self.lanes, self.device = lanes, torch.device(device)
        self.mine = list(range(rank, number, world))
        self.workers = (
            workers_for(len(self.mine)) if workers is None else min(workers, len(self.mine))
        )
        self.identity = _identity(lanes)
        self._step, self._batch = -1, list[Tensor]()
        self._ahead: Ahead[int] | None = None

    def __len__(self) -> int:
        return len(self.lanes.index)

    def take(self, rows: npt.NDArray[np.int64]) -> Batch:
        """The images at these places of the stream: a share of one step's batch."""
        batch_size = self.lanes.config.batch_size
        step = int(rows[0]) // batch_size
        if step != self._step:
            self._advance(step)
        pixels, content, targets = self._batch
        if len(rows) < len(pixels):  # else all of them, in order: `rows` are every n-th place
            mine = index_on(self.device, rows % batch_size // rank_and_world()[1])
            return pixels[mine], content[mine], targets[mine]
        return pixels, content, targets

    def _advance(self, step: int) -> None:
        """Take the next batch, or begin anew where another step is wanted."""
        ahead = self._ahead if step == self._step + 1 else None
        self._ahead, self._step = None, -1  # after an error everything begins anew
        ahead = ahead or self._opened(step)
        self._batch = ahead.take(step)
        self._ahead, self._step = ahead, step
        if self.workers:
            ahead.expect(step + 1, step + 2)

    def _opened(self, step: int) -> Ahead[int]:
        share, side = self.lanes.images_a_step * len(self.mine), self.lanes.side_px
        layout = (
            ((share, side, side, 3), "uint8"),
            ((share, 2), "int32"),
            ((share, len(self.lanes.vocabulary)), "float32"),
        )
        work = _Work(self.lanes, self.mine, step, self.workers)
        source = Ring(work, layout, workers=self.workers) if self.workers else Alone(work)
        return Ahead(
            partial(_batch, source, layout, pinned=self.device.type == "cuda"), self.device
        )


def _batch(source: Ring | Alone, layout: Layout, step: int, *, pinned: bool) -> list[Tensor]:
    """The next batch; `step` is counted by the source as well."""
    del step
    parts = [buffer(shape, getattr(torch, kind), pinned=pinned) for shape, kind in layout]
    source.take(tuple(part.numpy() for part in parts))
    return parts


@dataclass(frozen=True)
class _Work:
    """Run in a worker: its lanes' images of each step, into their places of the batch."""

    lanes: Lanes
    mine: list[int]
    start: int
    workers: int

    def __call__(self, worker: int, batches: Iterator[Parts]) -> Iterator[Parts]:
        each, number = self.lanes.images_a_step, len(self.mine)
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


def _read(
    shards: Iterable[Mapping[str, str]], *, held_out: frozenset[str], numbers: Mapping[str, range]
) -> Iterator[Numbered]:
    for shard in shards:
        examples = (e for e in examples_of(shard["url"]) if e.id not in held_out)
        # More than were counted have no number: the shard has changed since.
        yield from zip(chain(numbers[shard["url"]], repeat(None)), examples, strict=False)


def workers_for(lanes: int) -> int:
    """One for each core that this process has, and all with as many lanes as the busiest.

    A batch is there when the busiest worker is done: of 16 lanes on 12 cores some worker has two,
    and 8 workers with two each are as fast as 12. No core is kept for the step itself: workers
    that are ahead of it sleep, and where they are not, the step waits for them anyway.
    """
    cores = max(1, available_cores() // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))
    busiest = -(-lanes // cores)
    return -(-lanes // busiest)


def _identity(lanes: Lanes) -> str:
    """Equal for runs that a checkpoint may carry over."""
    said: Mapping[str, Any] = {
        "settings": to_toml(replace(lanes.config, accumulate=1)),
        "shards": lanes.index.key,
        "words": lanes.vocabulary.words,
        "images": (lanes.side_px, lanes.resize, lanes.captions_per_image),
    }
    return hashlib.sha256(repr(said).encode()).hexdigest()
