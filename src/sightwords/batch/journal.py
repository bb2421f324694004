"""What a batch has done so far, so that it can be killed at any moment and resumed.

One line of JSON per photo, appended when it is done, in the order of the source. Each line ends
with a tab and its own checksum:

    {"sightwords_batch": 2, "settings": {...}}          the first line: the options of this run
    {"id": "a.jpg", "sha256": "...", "caption": ...}    a caption, and which bytes it describes
    {"id": "b.jpg", "sha256": "...", "error": "..."}    a photo that could not be captioned
    {"target": "c.txt", "caption": "a dog"}             this file is about to be written

A line that a kill cut short, or that was damaged since, does not count: its photo is captioned
again. So is a photo whose bytes have changed. The output is written from the journal, whole or not
at all, when the last photo is done.
"""

from __future__ import annotations

import json
import os
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from sightwords.batch.records import Record, is_record
from sightwords.errors import InputError
from sightwords.files import atomic_path, claim, named_when_full

VERSION = 2
_HEADER = "sightwords_batch"
SYNC_SECONDS = 5.0
"""A kill loses nothing that was written; a power cut at most this much."""


class Journal:
    """Records by id, on disk; memory holds only the place of each."""

    def __init__(self, path: Path, stream: BinaryIO) -> None:
        self.path = path
        self.claims: dict[str, set[str]] = {}
        """Files that earlier parts of this run wrote or began to write -> with which captions."""
        self.kept: set[str] = set()
        """Ids of records that were in the results before this run began."""
        self._stream = stream
        self._places: dict[str, int] = {}
        self._synced = time.monotonic()

    @classmethod
    def start(
        cls, path: Path, settings: Mapping[str, Any], records: Iterable[Record] = ()
    ) -> Journal:
        """Start a journal, with records that are known already."""
        if path.exists():
            with path.open("r+b") as stream:
                _claim(stream, path)
        with atomic_path(path) as temporary, temporary.open("wb") as stream:
            stream.write(header_line(settings))
            stream.writelines(line_of({**record, "kept": True}) for record in records)
        return cls.resume(path, settings)

    @classmethod
    def resume(cls, path: Path, settings: Mapping[str, Any]) -> Journal:
        """Continue a journal; refused if it was begun with other settings, or is in use."""
        stream = path.open("r+b")
        try:
            _claim(stream, path)
            journal = cls(path, stream)
            end = journal._scan(settings)
            stream.truncate(end)
            stream.seek(end)
        except BaseException:
            stream.close()
            raise
        return journal

    def __contains__(self, image_id: str) -> bool:
        return image_id in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def add(self, record: Record) -> None:
        """Append one record and hand it to the operating system."""
        self._places[record["id"]] = self._stream.tell()
        self.kept.discard(record["id"])
        self._append(record)
        if time.monotonic() - self._synced > SYNC_SECONDS:
            os.fsync(self._stream.fileno())
            self._synced = time.monotonic()

    def claim(self, target: str, caption: str) -> None:
        """Note that a file is about to be written, so that a later run knows that it is ours."""
        self._append({"target": target, "caption": caption})

    def sum_of(self, image_id: str) -> str | None:
        """The sum of the bytes that a record describes; None where it is not known."""
        [record] = self.records([image_id])
        found = record.get("sha256")
        return found if isinstance(found, str) else None

    def records(self, ids: Iterable[str]) -> Iterator[Record]:
        """The records of these images, in this order."""
        self._stream.flush()
        with self.path.open("rb") as stream:
            for image_id in ids:
                stream.seek(self._places[image_id])
                record = record_of(stream.readline())
                if record is None or record.get("id") != image_id:
                    raise InputError(
                        f"{self.path}: was changed while this batch used it; run the batch again "
                        "with --resume"
                    )
                record.pop("kept", None)
                yield record

    def close(self) -> None:
        """Close the file."""
        with named_when_full(self.path):  # what could not be written is tried once more
            self._stream.close()

    def leave(self) -> None:
        """Close the file for a later run; remove it if nothing is in it."""
        if self._places or self.claims:
            self.close()
        else:
            self.remove()

    def remove(self) -> None:
        """Remove the journal."""
        self.close()
        self.path.unlink(missing_ok=True)

    def _append(self, line: Mapping[str, Any]) -> None:
        with named_when_full(self.path):
            self._stream.write(line_of(line))
            self._stream.flush()

    def _scan(self, settings: Mapping[str, Any]) -> int:
        """Note where each id's record starts; where the last whole line ends."""
        check_header(self._stream.readline(), self.path, settings)
        end = self._stream.tell()
        for line in iter(self._stream.readline, b""):
            if not line.endswith(b"\n"):
                break
            self._note(record_of(line), end)
            end = self._stream.tell()
        return end

    def _note(self, record: Record | None, place: int) -> None:
        if record is None:
            return  # damaged: its photo is captioned again
        if is_record(record):
            self._places[record["id"]] = place
            (self.kept.add if record.get("kept") else self.kept.discard)(record["id"])
        elif isinstance(record.get("target"), str) and isinstance(record.get("caption"), str):
            self.claims.setdefault(record["target"], set()).add(record["caption"])


def header_line(settings: Mapping[str, Any]) -> bytes:
    """The first line: the settings of this run."""
    return line_of({_HEADER: VERSION, "settings": settings})


def line_of(record: Mapping[str, Any]) -> bytes:
    r"""A record as a line of the journal, with its checksum.

    >>> line_of({"id": "a"})
    b'{"id": "a"}\taf678071\n'
    """
    # Names that are not Unicode (Linux allows any bytes) survive as escapes of lone surrogates.
    text = json.dumps(record, ensure_ascii=True).encode("ascii")
    return text + b"\t%08x\n" % zlib.crc32(text)


def record_of(line: bytes) -> Record | None:
    """What `line_of` has written; None where the line is damaged."""
    text, _, found = line.rstrip(b"\n").rpartition(b"\t")
    if found != b"%08x" % zlib.crc32(text):
        return None
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _claim(stream: BinaryIO, path: Path) -> None:
    """Lock a journal: two processes that append would write over each other's lines."""
    if not claim(stream):
        raise InputError(
            f"{path}: is in use by another batch; wait until it ends, or give another --out"
        )


def check_header(line: bytes, path: Path | str, settings: Mapping[str, Any]) -> None:
    """Refuse to continue what was begun with other settings; `path` names it in errors."""
    header = record_of(line)
    if header is None or header.get(_HEADER) != VERSION:
        raise InputError(f"{path}: {_wrong_header(line)}")
    found, wanted = header.get("settings"), json.loads(json.dumps(settings))
    if not isinstance(found, dict):
        raise InputError(f"{path}: {_wrong_header(line)}")
    for key in sorted({*found, *wanted}):
        if found.get(key) != wanted.get(key):
            raise InputError(
                f"{path}: was begun with {key} = {found.get(key)!r}, but this run has "
                f"{wanted.get(key)!r}; resume with the same settings, or start again with "
                "--overwrite always"
            )


def _wrong_header(line: bytes) -> str:
    if line.startswith(b'{"%s":' % _HEADER.encode()):
        return (
            "its first line is damaged, or was written by another version of sightwords; start "
            "again with --overwrite always"
        )
    return "is not the journal of a batch; move it, or give another --out"
