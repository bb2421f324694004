"""Which image comes when: the images of shards in endless lanes, decoded.

    shards, shuffled -> lane 0: every 8th shard -> shuffle buffer -> decode -> 16 images per step
                        lane 1: the next ones   -> ...                      -> 16 images per step

A batch takes the same number of images from every lane. The number of lanes does not depend on the
number of processes, so a step's images are the same on any number of them. Images that were used
before a checkpoint are read again, without decoding, to find the place to resume. A lane repeats
its shards without end; if shards differ in size, images of smaller ones are seen a little more
often, and each epoch other ones.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, count, islice, repeat
from random import Random

from sightwords.config import WordsConfig
from sightwords.errors import ConfigError, CorpusError, require
from sightwords.text.vocabulary import Vocabulary
from sightwords.train.data.canvas import Canvas, canvas
from sightwords.train.data.shard_loader.decoded_cache import DecodedCache
from sightwords.train.data.shard_loader.index import ShardIndex, examples_of
from sightwords.train.words.labels import CAPTIONS, caption_targets
from sightwords.types import Example, FloatArray
from sightwords.words.artefact import Resize

log = logging.getLogger(__name__)

BUFFER = 500
"""Encoded images of a lane that are shuffled with each other."""
SPARE = 16
"""A bad image is replaced by the next good one of its lane; this many in a row are an error."""
_PURPOSE = "training straight from shards"
Numbered = tuple[int | None, Example]
"""An image and its number among those of all shards, if the index counted it."""


@dataclass(frozen=True)
class Lanes:
    """The images of shards in a number of endless lanes; it holds settings, no images."""

    index: ShardIndex
    vocabulary: Vocabulary
    config: WordsConfig
    side_px: int
    resize: Resize
    captions_per_image: int = CAPTIONS
    cache: DecodedCache | None = None
    """Where decoded images are kept, if at all."""

    def __post_init__(self) -> None:
        lanes, shards, batch = self.config.lanes, len(self.index.images), self.config.batch_size
        if lanes > shards or batch % lanes or batch > len(self.index):
            raise ConfigError(
                f"[words] has lanes = {lanes} and batch_size = {batch}, but there are "
                f"{len(self.index)} images in {shards} shards; lanes must be at most the number of "
                "shards and divide batch_size, and batch_size at most the number of images: change "
                "them, or write more shards (sightwords data convert)"
            )

    @property
    def images_per_step(self) -> int:
        """Images that each lane gives to a batch."""
        return self.config.batch_size // self.config.lanes

    def shards(self, lane: int, epoch: int) -> list[str]:
        """The shards of a lane in one epoch: every `lanes`-th of all, shuffled for that epoch."""
        wds = require("webdataset", extra="train", purpose=_PURPOSE)
        every = wds.SimpleShardList(sorted(self.index.images), seed=f"{self.config.seed}/{epoch}")
        return [shard["url"] for shard in islice(every, lane, None, self.config.lanes)]

    def examples(self, lane: int, *, start: int = 0) -> Iterator[Example]:
        """A lane's images without end, from its `start`-th on, not decoded."""
        return (example for _, example in self._numbered(lane, start))

    def _numbered(self, lane: int, start: int) -> Iterator[Numbered]:
        for epoch in count():
            images = sum(self.index.images[shard] for shard in self.shards(lane, epoch))
            if start < images:
                yield from islice(self._round(lane, epoch), start, None)
            start = max(0, start - images)

    def _round(self, lane: int, epoch: int) -> Iterable[Numbered]:
        wds = require("webdataset", extra="train", purpose=_PURPOSE)
        dice = Random(f"{self.config.seed}/{lane}/{epoch}")
        pipeline: Iterable[Numbered] = wds.DataPipeline(
            wds.SimpleShardList(self.shards(lane, epoch)),
            partial(_read, held_out=frozenset(self.index.held_out), numbers=self._numbers),
            wds.shuffle(BUFFER, initial=BUFFER, rng=dice),
        )
        return pipeline

    @cached_property
    def _numbers(self) -> dict[str, range]:
        """Shard -> the numbers of its images among those of all shards."""
        found, first = {}, 0
        for shard in sorted(self.index.images):
            found[shard] = range(first, first + self.index.images[shard])
            first = found[shard].stop
        return found

    def decoded(self, lane: int, *, start: int) -> Iterator[tuple[Example, Canvas]]:
        """A lane's images, decoded; a bad one is logged and replaced by the next good one.

        The next one still comes at its own place, so that no bad image moves others. Pixels are
        valid until the next image of any lane.
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
        """From the cache, or decoded now and put there; or what is wrong with it."""
        cached = self.cache.get(number, example) if self.cache and number is not None else None
        if cached is not None:
            return cached
        found = canvas(example, side_px=self.side_px, mode=self.resize)
        if self.cache and number is not None and not isinstance(found, str):
            self.cache.put(number, example, found)
        return found

    def targets(self, captions: list[tuple[str, ...]]) -> FloatArray:
        """Training targets (B, V) from the captions of some images."""
        return caption_targets(
            captions,
            self.vocabulary,
            labels=self.config.labels,
            captions_per_image=self.captions_per_image,
        )


def _read(
    shards: Iterable[Mapping[str, str]], *, held_out: frozenset[str], numbers: Mapping[str, range]
) -> Iterator[Numbered]:
    for shard in shards:
        examples = (e for e in examples_of(shard["url"]) if e.id not in held_out)
        # The shard has grown since it was indexed: further images have no number.
        yield from zip(chain(numbers[shard["url"]], repeat(None)), examples, strict=False)
