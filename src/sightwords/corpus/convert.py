"""Any corpus -> webdataset shards: `sightwords data convert`.

    NAME-00000.tar, NAME-00001.tar, ...   KEY.avif beside KEY.json
    NAME-index.json                       settings, and at the end the shards with their SHA-256

A shard gets its name only when it is whole and on disk, and the index says `complete` only when
all are there. The same input gives the same bytes, so a run that was stopped is simply started
again: whole shards are kept, the rest is written as it would have been.

Written with the standard library's tarfile: webdataset's own writer stamps the current time and
the user's name into every member, writes under the final name, and is one more dependency.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sightwords.corpus.open import Corpus
from sightwords.corpus.problems import Kind, Problems
from sightwords.corpus.shards import read_shards
from sightwords.corpus.tar import BLOCK
from sightwords.errors import CorpusError, ImageError
from sightwords.files import atomic_path, write_text
from sightwords.parallel import available_cores, ordered_map
from sightwords.strict_json import loads
from sightwords.types import Example, ImageRef

_TAR_TAIL = tarfile.RECORDSIZE  # end mark and padding, at most
_MAX_KEY = 80  # a tar's plain header has room for names of 100 bytes


@dataclass(frozen=True, slots=True)
class EncodedImage:
    """An image as it goes into a shard."""

    ending: str
    """`avif`, `jpg`, ..."""
    data: bytes
    original_size: tuple[int, int]
    """Width and height of the upright original."""


Encoder = Callable[[ImageRef], EncodedImage]
"""Raises ImageError or OSError for an image that cannot be read."""


@dataclass(frozen=True, slots=True)
class Shard:
    """A whole shard on disk."""

    path: Path
    examples: int
    resumed: bool
    """Whether it was there already."""


def convert(
    corpus: Corpus,
    out: Path,
    *,
    name: str,
    encode: Encoder,
    shard_bytes: int,
    settings: dict[str, Any],
    workers: int | None = None,
) -> Iterator[Shard]:
    """Write shards of at most `shard_bytes` (a larger record gets one of its own); yield each.

    `settings` is all that decides the bytes besides the corpus; a folder whose index holds other
    settings is refused. Bad records go to `corpus.problems`.
    """
    index = out / f"{name}-index.json"
    whole = list(_whole_shards(out, name))
    complete = _check_index(index, settings, [path.name for path in whole])
    done: set[str] = set()
    for path in whole:
        ids = _ids(path)
        done.update(ids)
        yield Shard(path, len(ids), resumed=True)
    if complete:
        return
    write_text(index, _index_text(settings, None))
    records = _records(corpus, encode, done, workers or available_cores())
    shards = list(whole)
    record = next(records, None)
    while record is not None:
        path = out / f"{name}-{len(shards):05d}.tar"
        with atomic_path(path) as temporary:
            count, record = _fill(temporary, record, records, shard_bytes)
        shards.append(path)
        yield Shard(path, count, resumed=False)
    write_text(index, _index_text(settings, shards))


def _whole_shards(out: Path, name: str) -> Iterator[Path]:
    for number in range(10**9):
        path = out / f"{name}-{number:05d}.tar"
        if not path.exists():
            return
        yield path


def _check_index(index: Path, settings: dict[str, Any], shards: list[str]) -> bool:
    """Whether the work is done; shards of other settings, or of unknown ones, are refused."""
    if not index.exists():
        if shards:
            raise CorpusError(
                f"{index.parent}: holds shards of that name but no {index.name}; "
                "choose another --out or --set name=NAME"
            )
        return False
    try:
        found = loads(index.read_bytes())
        same = found["settings"] == loads(json.dumps(settings))
        complete = found["complete"] and [s["name"] for s in found["shards"]] == shards
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CorpusError(f"{index}: is not an index of shards; remove it") from error
    if not same:
        raise CorpusError(
            f"{index}: the shards there were made with other settings "
            f"({json.dumps(found['settings'])}); choose another --out or --set name=NAME, or "
            "remove them"
        )
    return bool(complete)


def _index_text(settings: dict[str, Any], shards: list[Path] | None) -> str:
    listed = [
        {"name": path.name, "bytes": path.stat().st_size, "sha256": _sha256(path)}
        for path in shards or ()
    ]
    index = {"settings": settings, "complete": shards is not None, "shards": listed}
    return json.dumps(index, indent=1, ensure_ascii=False) + "\n"


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def _ids(path: Path) -> list[str]:
    """Ids in a shard of ours; anything wrong with it is fatal, since it should be whole."""
    return [example.id for _, example in read_shards([str(path)], Problems(strict=True))]


Files = tuple[tuple[str, bytes], tuple[str, bytes]]


def _records(corpus: Corpus, encode: Encoder, done: set[str], workers: int) -> Iterator[Files]:
    """Name and bytes of the image and of the JSON of each good example not yet written."""
    fresh = (example for example in corpus if example.id not in done)
    for example, image in ordered_map(_guarded(encode), fresh, workers=workers):
        if isinstance(image, EncodedImage):
            yield _files(example, image)
        elif example.image is None:
            corpus.problems.add(Kind.MISSING_IMAGE, f"id {example.id!r}", image)
        else:
            corpus.problems.add(Kind.UNREADABLE_IMAGE, str(example.image), image)


def _guarded(encode: Encoder) -> Callable[[Example], EncodedImage | str]:
    def safe(example: Example) -> EncodedImage | str:
        if example.image is None:
            return "text without an image cannot go into a shard"
        try:
            return encode(example.image)
        except (ImageError, OSError) as error:
            return str(error).removeprefix(f"{example.image}: ")

    return safe


def _files(example: Example, image: EncodedImage) -> Files:
    key = safe_key(example.id)
    meta = {
        "key": key,
        "id": example.id,
        "captions": example.captions,
        "dataset": example.dataset,
        "split": example.split,
        "original_size": image.original_size,
    }
    text = json.dumps(meta, ensure_ascii=False).encode("utf-8")
    return (f"{key}.{image.ending}", image.data), (f"{key}.json", text)


def _fill(
    temporary: Path, first: Files, records: Iterator[Files], limit: int
) -> tuple[int, Files | None]:
    """Write records while they fit; how many, and the first that did not."""
    count, size = 0, _TAR_TAIL
    record: Files | None = first
    with tarfile.open(temporary, "w", format=tarfile.USTAR_FORMAT) as tar:
        while record is not None:
            size += sum(BLOCK + -(-len(data) // BLOCK) * BLOCK for _, data in record)
            if count and size > limit:
                break
            for name, data in record:
                info = tarfile.TarInfo(name)  # mtime 0, owner 0, mode 644: the same bytes each time
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
            count += 1
            record = next(records, None)
    return count, record


def safe_key(image_id: str) -> str:
    """A key without dots and slashes, one to one: other bytes than letters, digits, - and _ as =XX.

    Ids longer than 80 are cut and end in `==` and a hash. The id itself is kept in the JSON.

    >>> safe_key("000000000009"), safe_key("holiday/IMG.1")
    ('000000000009', 'holiday=2FIMG=2E1')
    """
    key = re.sub(
        rb"[^A-Za-z0-9_-]", lambda found: b"=%02X" % found[0][0], image_id.encode("utf-8")
    ).decode("ascii")
    if len(key) <= _MAX_KEY:
        return key
    digest = hashlib.sha256(image_id.encode("utf-8")).hexdigest()[:24]
    return f"{key[: _MAX_KEY - 26]}=={digest}"
