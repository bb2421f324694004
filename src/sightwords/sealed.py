"""Files of a bundle, read whole and only as they were sealed.

    read_bytes(path, limit=...)     a regular file of at most so many bytes; all else is an OSError
    Sealed                          a folder whose files are compared with their sums when read

Loaders take a directory or a `Sealed` one: `folder_of` gives what both have in common, `/`,
`is_file`, `is_dir` and `read_bytes`. A sealed folder shows the files its bundle lists and no
others, and gives the very bytes that were summed: nothing can change a file between check and use.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from sightwords.errors import BundleError

LARGEST_BYTES = 1 << 30
"""Of any file of a bundle: VGG-16 in single precision takes 0.55 GB."""


@dataclass(frozen=True, slots=True)
class File:
    """One file of a bundle."""

    sha256: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Sealed:
    """A folder or a file of a bundle, by the bundle's directory and the path inside."""

    directory: Path
    files: Mapping[str, File]
    """Of the whole bundle: path inside it, with slashes -> sum and size."""
    inside: str = ""

    def __truediv__(self, name: str) -> Sealed:
        inside = f"{self.inside}/{name}" if self.inside else name
        return Sealed(self.directory, self.files, inside)

    def __str__(self) -> str:
        return str(self.directory / self.inside)

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.inside.rpartition("/")[2]

    def is_file(self) -> bool:
        """Whether the bundle lists this file."""
        return self.inside in self.files

    def is_dir(self) -> bool:
        """Whether the bundle lists files below this folder."""
        prefix = f"{self.inside}/" if self.inside else ""
        return any(path.startswith(prefix) for path in self.files)

    def exists(self) -> bool:
        """Whether it is either."""
        return self.is_file() or self.is_dir()

    @property
    def sha256(self) -> str:
        """The sum that every read compares with."""
        return self._listed().sha256

    def read_bytes(self) -> bytes:
        """The file's bytes, which have the sum that the bundle lists."""
        expected = self._listed()
        data = read_bytes(self.directory / self.inside, limit=expected.size_bytes)
        if hashlib.sha256(data).hexdigest() != expected.sha256:
            raise BundleError(f"{self}: was changed while the bundle was loaded; load it again")
        return data

    def _listed(self) -> File:
        if self.inside not in self.files:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self))
        return self.files[self.inside]


def folder_of(place: str | os.PathLike[str] | Sealed) -> Path | Sealed:
    """What loaders read from."""
    return place if isinstance(place, Sealed) else Path(place)


def read_bytes(path: str | os.PathLike[str] | Sealed, *, limit: int = LARGEST_BYTES) -> bytes:
    """A regular file of at most `limit` bytes.

    All else is an OSError that says what is wrong: no such file, a folder, a pipe (which would wait
    for ever), a device, a larger file, a path with a null character.
    """
    if isinstance(path, Sealed):
        if path.is_file() and path.files[path.inside].size_bytes > limit:
            raise _too_large(str(path), limit)
        return path.read_bytes()
    with open_regular(path, limit=limit) as stream:
        data = stream.read(limit + 1)
    if len(data) > limit:  # it grew
        raise _too_large(os.fspath(path), limit)
    return data


def open_regular(path: str | os.PathLike[str], *, limit: int = LARGEST_BYTES) -> IO[bytes]:
    """Open a file as `read_bytes` does."""
    name = os.fspath(path)
    if "\0" in name:
        raise OSError(errno.EINVAL, "the path holds a null character", name)
    # Without O_NONBLOCK the opening of a pipe would wait for a writer.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    stream = os.fdopen(os.open(name, flags), "rb")
    try:
        found = os.fstat(stream.fileno())
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", name)
        if found.st_size > limit:
            raise _too_large(name, limit)
    except OSError:
        stream.close()
        raise
    return stream


def _too_large(name: str, limit: int) -> OSError:
    return OSError(errno.EFBIG, f"larger than the {limit:,} bytes it may have", name)


def sum_of(path: str | os.PathLike[str], *, limit: int = LARGEST_BYTES) -> File:
    """SHA-256 sum and size of a file, read piece by piece."""
    digest, size = hashlib.sha256(), 0
    with open_regular(path, limit=limit) as stream:
        while piece := stream.read(1 << 20):
            digest.update(piece)
            size += len(piece)
    return File(digest.hexdigest(), size)
