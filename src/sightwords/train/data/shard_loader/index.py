"""One pass over shards before they are streamed, without decoding an image.

Input: shards. Output: a `ShardIndex`: how many images each shard has, which images are held out for
calibration, and how often each word occurs. It is written to disk for resumed runs and for the
other processes.
"""

from __future__ import annotations

import hashlib
import heapq
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from sightwords.corpus import open_corpus
from sightwords.corpus.shards import SHARD_NAME
from sightwords.corpus.sources import expand
from sightwords.corpus.splits import id_hash
from sightwords.errors import CorpusError
from sightwords.text.vocabulary import WordCounts
from sightwords.train.data.sources import source_key
from sightwords.train.integrity import read_sealed, write_sealed
from sightwords.types import Example

log = logging.getLogger(__name__)

Progress = Callable[[int], None]
Held = tuple[int, str, str, tuple[str, ...]]
"""Hash of the id, id, shard, captions."""

SAMPLE = 25_000
"""Captions that are kept, to find the words' parts of speech."""


@dataclass(frozen=True)
class ShardIndex:
    """The images of some shards, without those held out."""

    images: dict[str, int]
    """Shard -> number of its training images."""
    held_out: tuple[str, ...]
    """Ids of the images left for calibration, sorted."""
    counts: dict[str, int]
    """Word -> how often it occurs in captions of training images."""
    captions: int
    """Number of captions of training images."""
    sample: tuple[str, ...]
    """Some of these captions."""
    key: str
    """State of the files (`train.data.sources.source_key`)."""

    def __len__(self) -> int:
        return sum(self.images.values())

    @property
    def words(self) -> WordCounts:
        """The counts, for `Vocabulary.of_counts`."""
        return WordCounts(self.counts, self.captions)


def shard_index(
    sources: Sequence[str],
    cache: str | os.PathLike[str],
    *,
    hold_out: int = 0,
    workers: int = 1,
    progress: Progress | None = None,
) -> ShardIndex:
    """The index of these shards; made once, and again only if the files change."""
    key = f"{source_key(sources)}|{hold_out}"
    path = Path(cache) / f"shards-{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"
    stored = read_sealed(path) if path.exists() else None
    if stored is None:
        index = _read(shards_of(sources), key, hold_out, workers, progress)
        write_sealed(path, asdict(index))
        return index
    for name in ("held_out", "sample"):
        stored[name] = tuple(stored[name])
    return ShardIndex(**stored)


def shards_of(sources: Sequence[str]) -> list[str]:
    """Every shard that the sources name; other kinds of corpora cannot be streamed.

    >>> shards_of(["photos-{00..01}.tar"])
    ['photos-00.tar', 'photos-01.tar']
    """
    found = [shard for source in sources for shard in expand(source)]
    other = next((name for name in found if not SHARD_NAME.search(name)), None)
    if other is not None:
        raise CorpusError(
            f"{other}: is not a shard (.tar, .tar.gz), and only shards can be streamed: write some "
            "with sightwords data convert, or train without run.stream"
        )
    return list(dict.fromkeys(found))


def examples_of(shard: str) -> Iterator[Example]:
    """Captioned images of one shard, in its order; problems are logged."""
    corpus = open_corpus([shard], on_problem=lambda problem: log.warning("%s", problem))
    return (example for example in corpus if example.image is not None)


@dataclass(frozen=True)
class _Summary:
    """What the index needs from one shard."""

    images: int
    words: WordCounts
    sample: list[str]
    held: list[Held]
    """Its candidates for being held out: the smallest hashes of ids."""


def _summary(shard: str, *, hold_out: int, sample: int) -> _Summary:
    examples = [(e.id, e.captions) for e in examples_of(shard)]  # without the image's bytes
    captions = [caption for _, group in examples for caption in group]
    hashed = ((id_hash(name), name, shard, group) for name, group in examples)
    return _Summary(
        images=len(examples),
        words=WordCounts.of_captions(captions),
        sample=captions[:sample],
        held=heapq.nsmallest(hold_out, hashed),
    )


def _summaries(shards: Sequence[str], hold_out: int, workers: int) -> Iterator[_Summary]:
    """One per shard, in order, by processes: parsing tars and captions holds Python's lock."""
    look = partial(_summary, hold_out=hold_out, sample=SAMPLE // len(shards) + 1)
    if min(workers, len(shards)) < 2:
        yield from map(look, shards)
        return
    with ProcessPoolExecutor(min(workers, len(shards))) as pool:
        yield from pool.map(look, shards)


def _read(
    shards: Sequence[str], key: str, hold_out: int, workers: int, progress: Progress | None
) -> ShardIndex:
    images: dict[str, int] = {}
    counts: Counter[str] = Counter()
    captions = 0
    sample: list[str] = []
    held: list[Held] = []
    for shard, found in zip(shards, _summaries(shards, hold_out, workers), strict=True):
        images[shard] = found.images
        counts.update(found.words.counts)
        captions += found.words.captions
        sample += found.sample
        held = heapq.nsmallest(hold_out, held + found.held)
        if progress:
            progress(sum(images.values()))
    if hold_out and hold_out >= sum(images.values()):
        raise CorpusError(
            f"cannot hold out {hold_out} of {sum(images.values())} images; ask for fewer"
        )
    for _, _, shard, _ in held:
        images[shard] -= 1
    left_out = WordCounts.of_captions([caption for *_, group in held for caption in group])
    return ShardIndex(
        images=images,
        held_out=tuple(sorted(name for _, name, _, _ in held)),
        counts=dict(counts - Counter(left_out.counts)),
        captions=captions - left_out.captions,
        sample=tuple(sample[:SAMPLE]),
        key=key,
    )
