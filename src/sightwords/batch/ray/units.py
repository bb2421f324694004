"""What the machines of a cluster share: shards, or stretches of a list, cut into slices.

    unit     one shard, or some thousands of a list's photos: read by one task
    slice    up to 256 photos of a unit: captioned by one actor, kept in one file

A unit is cut in the same way whenever it is read, so a slice's number tells which photos it holds,
and a slice that was captioned stays captioned.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from sightwords.batch.sources import Item, Source, open_source
from sightwords.batch.sums import file_stamp
from sightwords.corpus.problems import Problems
from sightwords.corpus.records import checked
from sightwords.corpus.shards import SHARD_NAME, read_shards
from sightwords.corpus.sources import expand, is_url
from sightwords.errors import CorpusError, InputError, require
from sightwords.parallel import ordered_map
from sightwords.types import ImageRef

SLICE_BYTES = 32 << 20
"""A slice of large photos ends before it has 256 of them: it is sent as one."""
UNIT_SLICES = 16
"""Slices per stretch of a list."""


@dataclass(frozen=True, slots=True)
class Unit:
    """One shard, or a stretch of a list."""

    number: int
    shard: str | None = None
    seen: bool = False
    """Whether the machine that started the batch has this shard on its disk."""
    items: tuple[Item, ...] = ()
    stamp: str = ""
    """Sizes and times of the files. A unit captioned under another stamp is captioned again."""

    def __str__(self) -> str:
        return self.shard or f"{self.items[0].id} to {self.items[-1].id}"


def units_of(
    source: str,
    *,
    images: str | None,
    slice_images: int,
    allow_urls: bool = False,
    on_problem: Callable[[object], None] | None = None,
) -> list[Unit]:
    """Cut a source into units, in its order; shards are not opened here."""
    shards = _shards(source)
    if shards is not None:
        if not any(is_url(name) or Path(name).is_file() for name in shards):
            raise CorpusError(f"{shards[0]}: no such file; check the path")
        return [Unit(n, shard=s, seen=Path(s).is_file()) for n, s in enumerate(shards)]
    listed = open_source(source, images=images, allow_urls=allow_urls, on_problem=on_problem)
    items = list(_plain(listed, source))
    length = slice_images * UNIT_SLICES
    starts = range(0, len(items), length)
    return [Unit(n, items=tuple(items[at : at + length])) for n, at in enumerate(starts)]


def source_print(units: list[Unit]) -> str:
    """A checksum of the names of all photos: another source has another one."""
    total = hashlib.sha256()
    for unit in units:
        names = [unit.shard] if unit.shard else [str(item.image) for item in unit.items]
        for name in names:
            total.update(name.encode("utf-8", "surrogateescape") + b"\n")
    return total.hexdigest()


def stamped(units: list[Unit]) -> list[Unit]:
    """The units with the stamps that their files have now."""
    return [replace(unit, stamp=found) for unit, found in ordered_map(_stamp, units, workers=8)]


def _stamp(unit: Unit) -> str:
    places = [unit.shard] if unit.shard else [item.image.location for item in unit.items]
    total = hashlib.sha256()
    for place in places:
        found = _remote(place) if is_url(place) else file_stamp(ImageRef(place))
        total.update(repr(found).encode())
    return total.hexdigest()[:12]


def _remote(url: str) -> list[str] | None:
    """The same of a store: those of its details that tell. Photos of a list are not looked up."""
    if not SHARD_NAME.search(url):
        return None
    fsspec = require("fsspec", extra="remote", purpose=f"reading {url}")
    try:
        files, path = fsspec.core.url_to_fs(url)
        found = files.info(path)
    except Exception:  # reading it reports what is wrong
        return None
    return [f"{name}={found[name]}" for name in _DETAILS if name in found]


_DETAILS = ("size", "mtime", "ino", "LastModified", "last_modified", "updated", "ETag", "etag")


def slices(unit: Unit, problems: Problems, *, images: int) -> Iterator[list[Item]]:
    """The photos of a unit, some at a time; those of a shard with their bytes."""
    held: list[Item] = []
    weight = 0
    for item in _items(unit, problems):
        held.append(item)
        weight += len(item.image.data or b"")
        if len(held) == images or weight >= SLICE_BYTES:
            yield held
            held, weight = [], 0
    if held:
        yield held


def _shards(source: str) -> list[str] | None:
    """The shards that a source names; None where it is something else."""
    path = Path(source)
    if source == "-" or path.is_file():
        return [source] if SHARD_NAME.search(source) else None
    if not is_url(source) and path.is_dir():
        files = [p for p in path.iterdir() if p.is_file() and not p.name.startswith(".")]
        return sorted(str(file) for file in files if SHARD_NAME.search(file.name)) or None
    names = expand(source)
    return names if all(SHARD_NAME.search(name) for name in names) else None


def _plain(source: Source, name: str) -> Iterator[Item]:
    """Items that are only names: a file with images inside is read by one process."""
    for item in source.read():
        if item.image.data is not None:
            raise InputError(
                f"{name}: holds its images inside, and only one process can read it; write shards "
                "from it (sightwords data convert), or use --engine local"
            )
        yield item


def _items(unit: Unit, problems: Problems) -> Iterator[Item]:
    if unit.shard is None:
        yield from unit.items
        return
    examples = read_shards([unit.shard], problems, need_captions=False)
    for example in checked(examples, problems, need_captions=False):
        assert example.image is not None
        yield Item(example.id, example.image)
