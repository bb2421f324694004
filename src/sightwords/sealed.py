"""Files of a model, read whole, and compared with their SHA-256 sums when they are read.

    read_bytes(path, limit=...)     a regular file of at most so many bytes; all else is an OSError
    Sealed                          a folder whose files must have the sums that a manifest lists
    folder_of(directory)            what a stage is loaded from: a `Sealed` folder or a plain one

There is one seal for each model. A bundle, and the directory of a stage in it, is sealed by the
`bundle.json`. The directory of a stage that is not part of a bundle is sealed by `sums.json`, which
training writes (`write_sums`) and which `bundle seal` replaces. A sealed folder shows the files
that are listed and no others, and gives the very bytes that were summed: nothing can change a file
between check and use.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import stat
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from sightwords.errors import BundleError
from sightwords.files import write_text
from sightwords.strict_json import loads

LARGEST_BYTES = 1 << 30
"""Of any file of a bundle: VGG-16 in single precision takes 0.55 GB."""
SUMS_NAME = "sums.json"
FORMAT = 1
LARGEST_SUMS_BYTES = 1 << 20
BUNDLE_NAME = "bundle.json"
BUNDLE_FORMAT = "sightwords-bundle"
LARGEST_MANIFEST_BYTES = 4 << 20

_SHA256 = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class File:
    """The sum and the size of one file."""

    sha256: str
    size_bytes: int

    @classmethod
    def of(cls, data: bytes) -> File:
        """Of the whole content."""
        return cls(hashlib.sha256(data).hexdigest(), len(data))

    @classmethod
    def parse(cls, entry: Any) -> File | None:
        """An entry of `bundle.json` or `sums.json`; None where it makes no sense."""
        if isinstance(entry, dict) and set(entry) == {"sha256", "size_bytes"}:
            sha256, size = entry["sha256"], entry["size_bytes"]
            good = isinstance(sha256, str) and _SHA256.fullmatch(sha256)
            if good and type(size) is int and 0 <= size <= 1 << 62:
                return cls(sha256, size)
        return None

    def difference(self, expected: File) -> str:
        """How this file differs from the expected one, for a message."""
        if self.size_bytes != expected.size_bytes:
            return f"is {self.size_bytes} bytes long; expected {expected.size_bytes}"
        return f"has the SHA-256 sum {self.sha256[:12]}...; expected {expected.sha256[:12]}..."


@dataclass(frozen=True, slots=True)
class Sealed:
    """A folder or a file of a model, by the model's directory and the path inside."""

    directory: Path
    files: Mapping[str, File]
    """Of the whole model: path inside it, with slashes -> sum and size."""
    where: str
    """What errors call the model: the directory, zip or address that was asked for."""
    advice: str
    """What errors tell the user to do about a damaged file."""
    inside: str = ""
    summed: set[str] = field(default_factory=set, compare=False, repr=False)
    """The files that were read so far, and had the right sums."""

    @classmethod
    def of_bundle(cls, directory: Path, files: Mapping[str, File], where: str) -> Sealed:
        """The whole directory of a bundle."""
        command = f"sightwords bundle seal {where}"
        advice = f"fetch the bundle again, or, if the change is yours, run: {command}"
        return cls(directory, files, where, advice)

    def __truediv__(self, name: str) -> Sealed:
        inside = f"{self.inside}/{name}" if self.inside else name
        return Sealed(self.directory, self.files, self.where, self.advice, inside, self.summed)

    def __str__(self) -> str:
        return f"{self.where}/{self.inside}" if self.inside else self.where

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.inside.rpartition("/")[2]

    def is_file(self) -> bool:
        """Whether the manifest lists this file."""
        return self.inside in self.files

    def is_dir(self) -> bool:
        """Whether the manifest lists files below this folder."""
        prefix = f"{self.inside}/" if self.inside else ""
        return any(path.startswith(prefix) for path in self.files)

    def exists(self) -> bool:
        """Whether it is either."""
        return self.is_file() or self.is_dir()

    def read_bytes(self) -> bytes:
        """The file's bytes, which have the sum that the manifest lists."""
        expected = self._listed()
        try:
            data = read_bytes(self.directory / self.inside, limit=expected.size_bytes)
        except OSError as error:
            if error.errno != errno.EFBIG:
                raise
            raise self.changed(f"is larger than {expected.size_bytes} bytes") from error
        if (found := File.of(data)) != expected:
            raise self.changed(found.difference(expected))
        self.summed.add(self.inside)
        return data

    def _listed(self) -> File:
        if self.inside not in self.files:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self))
        return self.files[self.inside]

    def changed(self, what: str) -> BundleError:
        """The error that says how this file differs from the listed one."""
        return BundleError(
            f"{self.where}: is damaged or was changed: {self.inside} {what}; {self.advice}"
        )


def folder_of(place: str | os.PathLike[str] | Sealed) -> Path | Sealed:
    """What a stage is loaded from: through its `sums.json`, or the `bundle.json` it belongs to."""
    if isinstance(place, Sealed):
        return place
    folder = Path(place)
    if (folder / SUMS_NAME).is_file():
        return _sealed_by_sums(folder)
    return _part_of_bundle(folder) or folder


def write_sums(directory: str | os.PathLike[str], names: Iterable[str]) -> None:
    """Write `sums.json` over these files of a directory; other files are not part of the stage."""
    folder = Path(directory)
    _save_sums(folder, {name: sum_of(folder / name) for name in names})


def renew_sum(directory: str | os.PathLike[str], name: str) -> None:
    """List a file that was written after the others; nothing to do without a `sums.json`."""
    folder = Path(directory)
    if (folder / SUMS_NAME).is_file():
        _save_sums(folder, {**_sealed_by_sums(folder).files, name: sum_of(folder / name)})


def _save_sums(folder: Path, files: Mapping[str, File]) -> None:
    document = {"format": FORMAT, "files": {name: asdict(files[name]) for name in sorted(files)}}
    write_text(folder / SUMS_NAME, json.dumps(document, indent=1) + "\n")


def _sealed_by_sums(folder: Path) -> Sealed:
    path = folder / SUMS_NAME
    document = _document(path, limit=LARGEST_SUMS_BYTES)
    if document.get("format") != FORMAT:
        document = {}
    files = _files(document, path)
    return Sealed(folder, files, str(folder), "copy the directory again, or train that stage again")


def _part_of_bundle(folder: Path) -> Sealed | None:
    """A folder of which the `bundle.json` beside it lists files; None if there is none."""
    bundle = folder.parent
    path = bundle / BUNDLE_NAME
    if not path.is_file():
        return None
    document = _document(path, limit=LARGEST_MANIFEST_BYTES)
    if document.get("format") != BUNDLE_FORMAT:  # another program's
        return None
    part = Sealed.of_bundle(bundle, _files(document, path), str(bundle)) / folder.name
    return part if part.is_dir() else None


def _document(path: Path, *, limit: int) -> dict[str, Any]:
    """A JSON object; empty if it is another value."""
    try:
        document = loads(read_bytes(path, limit=limit))
    except OSError as error:
        raise unreadable(path, error) from error
    except ValueError as error:
        raise BundleError(f"{path}: is not JSON ({error}); copy the directory again") from error
    return document if isinstance(document, dict) else {}


def _files(document: Mapping[str, Any], path: Path) -> dict[str, File]:
    listed = document.get("files")
    entries = listed.items() if isinstance(listed, dict) else ()
    files = {name: file for name, entry in entries if (file := File.parse(entry)) is not None}
    if not files or len(files) != len(entries):
        raise BundleError(
            f"{path}: is not a list of sums in format {FORMAT}; copy the directory again, or "
            "upgrade with: pip install --upgrade sightwords"
        )
    return files


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


def sha256_of(path: str | os.PathLike[str]) -> str:
    """The SHA-256 sum of a file; a `BundleError` where it cannot be read."""
    try:
        return sum_of(path).sha256
    except OSError as error:
        raise unreadable(Path(path), error) from error


def unreadable(path: Path | Sealed, error: OSError) -> BundleError:
    """What to say about a file of a model that cannot be opened."""
    if isinstance(error, FileNotFoundError):
        return BundleError(f"{path}: no such file; copy the whole directory again")
    return BundleError(f"{path}: cannot be read ({error.strerror}); check the file")
