"""Webdataset shards: tars in which files with the same key stand side by side.

    000000000632.avif  000000000632.json  000000000785.avif  000000000785.json  ...

The key is the name up to the first dot behind the last slash. `KEY.json` holds `captions` (or
`caption`) and may hold `id`, `key`, `dataset`, `split`; `KEY.txt` holds one caption per line.
Shards are streamed from first to last byte, local or remote, gzipped or not, never unpacked; the
image's bytes travel in `ImageRef.data`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from sightwords.corpus.folder import EXTENSIONS, stem
from sightwords.corpus.problems import Kind, Problems
from sightwords.corpus.records import Located, captions_of, text_of
from sightwords.corpus.sources import READ_ERRORS, open_binary, report_read_error
from sightwords.corpus.tar import Member, members
from sightwords.strict_json import loads
from sightwords.types import Example, ImageRef

SHARD_NAME = re.compile(r"\.(tar|tar\.gz|tgz)$", re.IGNORECASE)


def read_shards(
    locations: Iterable[str], problems: Problems, *, need_captions: bool = True
) -> Iterator[Located]:
    """Examples of some shards, in order; a shard that cannot be read does not stop the others."""
    for location in locations:
        try:
            with open_binary(location) as stream:
                for key, parts in grouped(members(stream, location, problems)):
                    yield from _example(location, key, parts, problems, need_captions)
        except READ_ERRORS as error:
            report_read_error(location, error, problems, after="at its start")


def grouped(read: Iterable[Member]) -> Iterator[tuple[str, dict[str, Member]]]:
    """Neighbours with one key, as endings in lower case -> member."""
    key, parts = "", dict[str, Member]()
    for member in read:
        its_key, ending = split_name(member.name)
        if not ending:
            continue
        if its_key != key or ending in parts:
            if parts:
                yield key, parts
            key, parts = its_key, {}
        parts[ending] = member
    if parts:
        yield key, parts


def split_name(name: str) -> tuple[str, str]:
    """Key and ending of a member; hidden files have no ending and are no part of a record.

    >>> split_name("train/a1.seg.PNG"), split_name("./.DS_Store")
    (('train/a1', 'seg.png'), ('', ''))
    """
    name = name.removeprefix("./")
    folder, slash, base = name.rpartition("/")
    first, dot, ending = base.partition(".")
    return (folder + slash + first, ending.lower()) if first and dot else ("", "")


def _example(
    location: str, key: str, parts: dict[str, Member], problems: Problems, need_captions: bool
) -> Iterator[Located]:
    where = f"{location}::{key}"
    picture = next((part for ending, part in parts.items() if ending in EXTENSIONS), None)
    meta = _json(f"{where}.json", parts["json"].data, problems) if "json" in parts else {}
    if meta is None:
        return
    captions = _captions(f"{where}.json", meta, parts, problems)
    if picture is None:
        if captions or need_captions:
            endings = ", ".join(f".{ending}" for ending in parts)
            problems.add(Kind.MISSING_IMAGE, where, f"only {endings} here")
        return
    image = ImageRef(location, picture.name, picture.data)
    image_id = text_of(meta.get("id")) or text_of(meta.get("key")) or key
    dataset = text_of(meta.get("dataset")) or shard_dataset(location)
    yield where, Example(image_id, image, captions, text_of(meta.get("split")), dataset)


def shard_dataset(location: str) -> str:
    """The name of a shard without its number.

    >>> shard_dataset("s3://b/flickr8k-train-00001.tar.gz")
    'flickr8k-train'
    """
    name = stem(location)
    return re.sub(r"[-_.]?\d+$", "", name) or name


def _json(where: str, data: bytes, problems: Problems) -> dict[str, Any] | None:
    try:
        meta = loads(data.decode("utf-8-sig", "surrogateescape"), finite=False)
    except ValueError as error:
        problems.add(Kind.MALFORMED_RECORD, where, f"not JSON: {error}")
        return None
    if not isinstance(meta, dict):
        problems.add(Kind.MALFORMED_RECORD, where, f"expected an object, got {type(meta).__name__}")
        return None
    return meta


def _captions(
    where: str, meta: dict[str, Any], parts: dict[str, Member], problems: Problems
) -> tuple[str, ...]:
    for name in ("captions", "caption"):
        if meta.get(name) is None:
            continue
        captions = captions_of(meta[name])
        if captions is not None:
            return captions
        problems.add(Kind.MALFORMED_RECORD, where, f"{name!r} is not text or a list of text")
    if "txt" not in parts:
        return ()
    lines = parts["txt"].data.decode("utf-8-sig", "surrogateescape").splitlines()
    return tuple(line for line in lines if line.strip())
