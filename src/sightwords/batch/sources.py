"""Which photos a batch has: a folder, a list, shards, a COCO file -> a stream of items.

    a folder              every image below it, by name; the id is the path below the folder
    a folder of shards    NAME-{00..12}.tar, one shard or a pattern: every image in them
    list.txt, or -        one path per line
    a COCO or Karpathy file, a manifest (.jsonl, .csv), ...: every image that it names

Each image comes once, in a fixed order. Nothing is decoded here.
"""

from __future__ import annotations

import io
import os
import sys
import tarfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from sightwords.corpus.folder import is_image_name
from sightwords.corpus.open import open_corpus
from sightwords.corpus.shards import SHARD_NAME
from sightwords.corpus.shards import split_name as split_member
from sightwords.corpus.sources import expand, is_url, listed_image
from sightwords.errors import CorpusError
from sightwords.types import ImageRef


@dataclass(frozen=True, slots=True)
class Item:
    """One photo to caption."""

    id: str
    image: ImageRef


@dataclass(frozen=True, slots=True)
class Source:
    """A stream of items that can be read again, and how many there are."""

    read: Callable[[], Iterator[Item]]
    count: int | None = None
    """None if only reading to the end would tell."""


def open_source(
    source: str,
    *,
    images: str | None = None,
    allow_urls: bool = False,
    on_problem: Callable[[object], None] | None = None,
) -> Source:
    """Recognise a source; `images` is the folder of the images that a COCO file or list names.

    With `allow_urls`, http and https URLs in a list are fetched; otherwise each is an error.
    `on_problem` is called with each record that names no readable image.
    """
    path = Path(source)
    if source == "-":
        return _listed(standard_input().split("\n"), images or ".", allow_urls)
    if path.is_dir() and not any(SHARD_NAME.search(inside.name) for inside in path.iterdir()):
        return _folder(path, on_problem)
    if path.is_file() and is_image_name(source):
        return _listed([path.name], str(path.parent), allow_urls)
    if path.is_file() and path.suffix.lower() in (".txt", ".lst"):
        lines = path.read_text(encoding="utf-8-sig", errors="surrogateescape").split("\n")
        if any(is_image_name(line.strip()) for line in lines[:20]):
            return _listed(lines, images or str(path.parent), allow_urls)
    matched = [] if is_url(source) else expand(source)
    if matched != [source] and any(map(is_image_name, matched[:1])):
        raise CorpusError(
            f"{source}: matches single photos; give their folder, or a list of them on "
            f"stdin: ls {source} | sightwords batch - ..."
        )
    return _corpus(source, images, allow_urls, on_problem)


def standard_input() -> str:
    """A list of names, which may hold any bytes; most locales would refuse some."""
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="surrogateescape")
    names = sys.stdin.read()
    if "\0" in names:  # which no name has
        raise CorpusError(
            "stdin: expected a list of photos, one path per line (no -print0 of find); to caption "
            "one photo from stdin: sightwords caption /dev/stdin"
        )
    return names.removeprefix("\ufeff")  # Windows begins some texts with it


def _folder(folder: Path, on_problem: Callable[[object], None] | None) -> Source:
    """Every image below a folder but hidden ones; a folder that cannot be opened is a problem."""

    def shut(error: OSError) -> None:
        if on_problem is not None:
            on_problem(
                f"{error.filename}: cannot be opened ({error.strerror}), so its photos are "
                "missing; make it readable, or move it out of the source"
            )

    names = []
    for place, below, files in os.walk(folder, onerror=shut):
        below[:] = [name for name in below if not name.startswith(".")]
        paths = (Path(place, name) for name in files if not name.startswith("."))
        names += [
            path.relative_to(folder).as_posix()
            for path in paths
            if is_image_name(path.name) and _is_photo(path)
        ]
    names.sort()
    if not names:
        raise CorpusError(f"{folder}: holds no images; give a folder of photos or shards")
    items = [Item(name, ImageRef(str(folder / name))) for name in names]
    return Source(lambda: iter(items), len(items))


def _is_photo(path: Path) -> bool:
    """Whether it is a file, or a broken link, which is then listed as an error.

    `Path.is_file` would raise for a link to a name that is too long, or in a folder that cannot be
    opened.
    """
    broken = path.is_symlink() and not os.path.exists(path)  # noqa: PTH110
    return broken or os.path.isfile(path)  # noqa: PTH113


def _listed(lines: Iterable[str], base: str, allow_urls: bool) -> Source:
    """Paths, relative to `base` or to where the command runs; blank lines and repeats dropped."""
    names = list(dict.fromkeys(line.strip() for line in lines if line.strip()))
    if not names:
        raise CorpusError("the list names no photos; give one path per line")
    items = [Item(n, listed_image(_located(n, base), allow_urls=allow_urls)) for n in names]
    return Source(lambda: iter(items), len(items))


def _located(name: str, base: str) -> str:
    beside = str(Path(base) / name)
    # os.path, because Path.exists raises where a folder on the way cannot be opened
    return name if is_url(name) or not os.path.exists(beside) else beside  # noqa: PTH110


def _corpus(
    source: str,
    images: str | None,
    allow_urls: bool,
    on_problem: Callable[[object], None] | None,
) -> Source:
    corpus = open_corpus(
        source, images=images, need_captions=False, allow_urls=allow_urls, on_problem=on_problem
    )

    def read() -> Iterator[Item]:
        seen: set[str] = set()
        for example in corpus:
            if example.image is None:
                raise CorpusError(
                    f"{source}: names images but no folder holds them; give it with --images"
                )
            if example.id not in seen:
                seen.add(example.id)
                yield Item(example.id, example.image)

    return Source(read, _count_members(source))


def _count_members(source: str) -> int | None:
    """How many images some local shards hold, read off their headers; None where unknown."""
    path = Path(source)
    shards = (
        sorted(str(p) for p in path.iterdir() if SHARD_NAME.search(p.name))
        if path.is_dir()
        else expand(source)
    )
    if not all(name.endswith(".tar") and Path(name).is_file() for name in shards):
        return None
    keys = set()
    try:
        for shard in shards:
            with tarfile.open(shard, "r:") as opened:
                keys |= {split_member(m.name)[0] for m in opened if is_image_name(m.name)}
    except (tarfile.TarError, OSError):
        return None
    return len(keys)
