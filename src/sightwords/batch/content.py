"""Whether a photo is still the one that was captioned: the sum of its bytes tells.

A name is not enough. Between two runs a photo may have been replaced, or the same names may stand
for the photos of another source.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from sightwords.corpus.sources import is_url
from sightwords.images.source import open_source
from sightwords.types import ImageRef

MAX_HELD_BYTES = 128 << 20
"""Files up to this size are read once, so that the sum and the caption are of the same bytes.
Larger ones are no photos: of these the size, the time and the first part stand for the rest."""
_PIECE = 1 << 20


def read_once(image: ImageRef) -> tuple[ImageRef, str | None]:
    """The image with its bytes in memory, and their sum; raises `ImageError` as decoding would.

    What is not a file of a sensible size comes back as it is: decoding it says what is wrong.
    """
    if image.data is None and not _is_small(image):
        return image, content_sum(image)
    with open_source(image) as stream:
        data = stream.read()
    return replace(image, data=data), hashlib.sha256(data).hexdigest()


def content_sum(image: ImageRef) -> str | None:
    """SHA-256 of an image's bytes; None where they cannot be read."""
    total = hashlib.sha256()
    with suppress(Exception):  # whatever is wrong with it is said when it is captioned
        if not _is_small(image) and image.data is None:
            return _large_sum(image.location)
        with open_source(image) as stream:
            for piece in _pieces(stream):
                total.update(piece)
        return total.hexdigest()
    return None


def _is_small(image: ImageRef) -> bool:
    """Whether it can be held in memory: neither a pipe, nor a device, nor a huge file."""
    if image.data is not None or image.member is not None or is_url(image.location):
        return True
    try:
        found = os.stat(image.location)  # noqa: PTH116 - a name may hold any character
    except (OSError, ValueError):
        return True  # opening it says why
    return stat.S_ISREG(found.st_mode) and found.st_size <= MAX_HELD_BYTES


def _large_sum(location: str) -> str | None:
    if not Path(location).is_file():  # opening a pipe would wait for its writer
        return None
    with Path(location).open("rb") as stream:
        found = os.fstat(stream.fileno())
        about = f"{found.st_size} {found.st_mtime_ns} ".encode()
        return hashlib.sha256(about + stream.read(_PIECE)).hexdigest()


def _pieces(stream: BinaryIO) -> Iterator[bytes]:
    return iter(lambda: stream.read(_PIECE), b"")
