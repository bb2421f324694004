"""What a batch has done so far, so that it can be killed at any moment and run again.

One line of JSON a photograph, appended when it is done, in the order of the source:

    {"sightwords_batch": 1, "settings": {...}}         the first line: what this run was asked for
    {"id": "a.jpg", "caption": "a dog", ...}           a caption
    {"id": "b.jpg", "error": "b.jpg: damaged ..."}     a photograph that could not be read

A line that a kill cut short has no line end and is taken off; its photograph is done again. The
output is written from the journal, whole or not at all, when the last photograph is done.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from sightwords.batch.records import Record
from sightwords.errors import InputError
from sightwords.files import atomic_path, claim, named_when_full

VERSION = 1
_HEADER = "sightwords_batch"
SYNC_SECONDS = 5.0
"""A kill loses nothing that was written; a power cut at most this much."""


class Journal:
    """Records by id, on disk; in memory only where each of them stands."""

    def __init__(self, path: Path, stream: BinaryIO, places: dict[str, int]) -> None:
        self.path = path
        self._stream = stream
        self._places = places
        self._synced = time.monotonic()

    @classmethod
    def start(
        cls, path: Path, settings: Mapping[str, Any], records: Iterable[Record] = ()
    ) -> Journal:
        """A new journal, which may begin with records that are known already."""
        if path.exists():
            with path.open("r+b") as stream:
                _claim(stream, path)
        with atomic_path(path) as temporary, temporary.open("wb") as stream:
            stream.write(header_line(settings))
            stream.writelines(line_of(record) for record in records)
        return cls.resume(path, settings)

    @classmethod
    def resume(cls, path: Path, settings: Mapping[str, Any]) -> Journal:
        """Go on with a journal; refused where it was begun with other settings, or is in use."""
        stream = path.open("r+b")
        try:
            _claim(stream, path)
            places, end = _scan(stream, path, settings)
            stream.truncate(end)
            stream.seek(end)
        except BaseException:
            stream.close()
            raise
        return cls(path, stream, places)

    def __contains__(self, image_id: str) -> bool:
        return image_id in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def add(self, record: Record) -> None:
        """Append one record and hand it to the operating system."""
        self._places[record["id"]] = self._stream.tell()
        with named_when_full(self.path):
            self._stream.write(line_of(record))
            self._stream.flush()
        if time.monotonic() - self._synced > SYNC_SECONDS:
            os.fsync(self._stream.fileno())
            self._synced = time.monotonic()

    def records(self, ids: Iterable[str]) -> Iterator[Record]:
        """The records of these images, in this order."""
        self._stream.flush()
        with self.path.open("rb") as stream:
            for image_id in ids:
                stream.seek(self._places[image_id])
                yield json.loads(stream.readline())

    def close(self) -> None:
        """Let go of the file."""
        with named_when_full(self.path):  # what could not be written is tried once more
            self._stream.close()

    def leave(self) -> None:
        """Leave the file for a later run; one that has nothing in it is of no use to any."""
        if self._places:
            self.close()
        else:
            self.remove()

    def remove(self) -> None:
        """The journal is not needed any more."""
        self.close()
        self.path.unlink(missing_ok=True)


def header_line(settings: Mapping[str, Any]) -> bytes:
    """The first line: what this run was asked for."""
    return line_of({_HEADER: VERSION, "settings": settings})


def line_of(record: Mapping[str, Any]) -> bytes:
    """A record as it stands in the journal."""
    # Names that are not Unicode (Linux allows any bytes) survive as escapes of lone surrogates.
    return json.dumps(record, ensure_ascii=True).encode("ascii") + b"\n"


def _claim(stream: BinaryIO, path: Path) -> None:
    """Keep other processes from a journal: two that append would write over each other's lines."""
    if not claim(stream):
        raise InputError(
            f"{path}: another batch is at work on it; wait for its end, or give another --out"
        )


def _scan(stream: BinaryIO, path: Path, settings: Mapping[str, Any]) -> tuple[dict[str, int], int]:
    """Where each id's record starts, and where the last whole line ends."""
    check_header(stream.readline(), path, settings)
    places: dict[str, int] = {}
    end = stream.tell()
    for line in iter(stream.readline, b""):
        if not line.endswith(b"\n"):
            break
        try:
            places[json.loads(line)["id"]] = end
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"{path}: byte {end}: not a record of a batch ({error}); it was changed by "
                "something else: start anew with --overwrite always"
            ) from error
        end = stream.tell()
    return places, end


def check_header(line: bytes, path: Path | str, settings: Mapping[str, Any]) -> None:
    """Refuse to go on with what was begun with other settings; `path` names it in errors."""
    try:
        header = json.loads(line)
        version, found = header[_HEADER], header["settings"]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{path}: is not the journal of a batch; move it away, or give another --out"
        ) from error
    if version != VERSION:
        raise InputError(f"{path}: was written by another version of sightwords; start anew with "
                         "--overwrite always")  # fmt: skip
    wanted = json.loads(json.dumps(settings))
    for key in sorted({*found, *wanted}):
        if found.get(key) != wanted.get(key):
            raise InputError(
                f"{path}: that batch was begun with {key} = {found.get(key)!r}, this one has "
                f"{wanted.get(key)!r}; resume with the same settings, or start anew with "
                "--overwrite always"
            )
