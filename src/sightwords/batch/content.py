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
from sightwords.images import DEFAULT_LIMITS, ImageLimits
from sightwords.images.source import open_source
from sightwords.types import ImageRef

HELD_BYTES = 16 << 20
"""Files up to this size are read once, so that the sum and the caption are of the same bytes."""
_PIECE = 1 << 20


def read_once(image: ImageRef, limits: ImageLimits = DEFAULT_LIMITS) -> tuple[ImageRef, str | None]:
    """The image with its bytes in memory, and their sum; raises `ImageError` as decoding would.

    A large file, a pipe or a device comes back as it is: decoding bounds what it may cost.
    """
    if not _is_small(image):
        return image, content_sum(image)
    with open_source(image, limits) as stream:
        data = stream.read()
    return replace(image, data=data), hashlib.sha256(data).hexdigest()


def stamp(image: ImageRef) -> tuple[int, ...]:
    """What changes when a file is written: to be compared before and after a large one is read."""
    if image.data is not None:
        return ()
    try:
        found = os.stat(image.location)  # noqa: PTH116 - a name may hold any character
    except (OSError, ValueError):
        return ()
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def content_sum(image: ImageRef) -> str | None:
    """SHA-256 of an image's bytes; None where they cannot be read or are too many for a photo."""
    total = hashlib.sha256()
    with suppress(Exception):  # whatever is wrong with it is said when it is captioned
        if not _is_small(image) and not Path(image.location).is_file():
            return None  # a pipe or a device can be read only once
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
    return stat.S_ISREG(found.st_mode) and found.st_size <= HELD_BYTES


def _pieces(stream: BinaryIO) -> Iterator[bytes]:
    return iter(lambda: stream.read(_PIECE), b"")
