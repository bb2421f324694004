"""Whether a photo is still the one that was captioned: the SHA-256 of its bytes tells.

A name is not enough. Between two runs a photo may have been replaced, or the same names may stand
for the photos of another source. A finished batch keeps the sums in a small hidden file beside its
output, because most formats have no room for them. A later run with `--overwrite missing` or
`--resume` compares: a photo that was replaced since is captioned again.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from sightwords.batch.journal import line_of, record_of
from sightwords.corpus.sources import is_url
from sightwords.errors import InputError
from sightwords.files import atomic_path
from sightwords.images import DEFAULT_LIMITS, ImageLimits
from sightwords.images.source import open_source
from sightwords.types import ImageRef

HELD_BYTES = 16 << 20
"""Files up to this size are read once, so that the sum and the caption are of the same bytes."""
_PIECE = 1 << 20
_HEADER = {"sightwords_sums": 1}

Sums = dict[str, str | None]
"""By id: the sum of the photo's bytes; None where it could not be read."""


def read_once(image: ImageRef, limits: ImageLimits = DEFAULT_LIMITS) -> tuple[ImageRef, str | None]:
    """The image with its bytes in memory, and their sum; raises `ImageError` as decoding would.

    A large file, a pipe or a device is returned as it is: decoding limits what it may cost.
    """
    if not _is_small(image):
        return image, content_sum(image)
    with open_source(image, limits) as stream:
        data = stream.read()
    return replace(image, data=data), hashlib.sha256(data).hexdigest()


def content_sum(image: ImageRef) -> str | None:
    """SHA-256 of an image's bytes; None where they cannot be read or are too many for a photo."""
    total = hashlib.sha256()
    with suppress(Exception):  # captioning the photo says what is wrong with it
        if not _is_small(image) and not Path(image.location).is_file():
            return None  # a pipe or a device can be read only once
        with open_source(image) as stream:
            while piece := stream.read(_PIECE):
                total.update(piece)
        return total.hexdigest()
    return None


def file_stamp(image: ImageRef) -> tuple[int, ...]:
    """What changes when a file is written or replaced; empty where there is no such file."""
    found = None if image.data is not None else _stat(image.location)
    if found is None:
        return ()
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _is_small(image: ImageRef) -> bool:
    """Whether it can be held in memory: neither a pipe, nor a device, nor a huge file."""
    if image.data is not None or image.member is not None or is_url(image.location):
        return True
    found = _stat(image.location)  # None: opening it says why
    return found is None or (stat.S_ISREG(found.st_mode) and found.st_size <= HELD_BYTES)


def _stat(location: str) -> os.stat_result | None:
    try:
        return os.stat(location)  # noqa: PTH116 - a name may hold any character
    except (OSError, ValueError):
        return None


def write_sums(path: Path, sums: Iterable[tuple[str, str | None]]) -> None:
    """Write the file of sums, whole or not at all."""
    with atomic_path(path) as temporary, temporary.open("wb") as stream:
        stream.write(line_of(_HEADER))
        stream.writelines(line_of({"id": name, "sha256": found}) for name, found in sums)


def read_sums(path: Path) -> Sums | None:
    """What `write_sums` has written; None where there is no such file."""
    try:
        with path.open("rb") as lines:
            return dict(_entries(lines, path))
    except FileNotFoundError:
        return None


def _entries(lines: Iterable[bytes], path: Path) -> Iterator[tuple[str, str | None]]:
    for number, line in enumerate(lines):
        entry = record_of(line)
        if number == 0 and entry == _HEADER:
            continue
        if number == 0 or entry is None or not isinstance(entry.get("id"), str):
            raise InputError(
                f"{path}:{number + 1}: this line is damaged, so it is not known which photos the "
                "captions describe; caption them again with --overwrite always"
            )
        yield entry["id"], entry.get("sha256")
