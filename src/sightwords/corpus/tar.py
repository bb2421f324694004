"""Reads a tar as a stream, and continues where the standard library stops.

`tarfile` ends silently at a damaged header or at a cut between members, which would lose records
without a word. This reader takes its header parser (`TarInfo.frombuf`) and does the walking
itself: a cut is reported with its place, and behind damage it looks for the next sound header.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass

from sightwords.corpus.problems import Kind, Problems
from sightwords.corpus.sources import READ_ERRORS, report_read_error

BLOCK = 512
MAX_MEMBER_BYTES = 256 * 2**20
"""A photo is far smaller; a larger member is damaged or a mistake."""

_ABOUT_THE_NEXT = (b"x", b"X", b"g", b"L", b"K")  # pax and GNU headers


@dataclass(frozen=True, slots=True)
class Member:
    """One regular file of a tar."""

    name: str
    data: bytes


def members(stream: io.BufferedReader, location: str, problems: Problems) -> Iterator[Member]:
    """Each regular file that is whole, in order; cuts and damage are reported."""
    source = _Stream(stream)
    long_name: str | None = None
    while (header := _next_header(source, location, problems)) is not None:
        name, long_name = long_name or header.name, None
        if header.size > MAX_MEMBER_BYTES:
            found = f"{name!a} claims {header.size} bytes; the limit is {MAX_MEMBER_BYTES}"
            problems.add(Kind.DAMAGED_FILE, location, found)
            source.read(_padded(header.size), keep=False)
            continue
        data = source.read(header.size)
        if len(data) < header.size:
            _report_cut(source, location, problems, f"in {name!a}")
            return
        source.read(_padded(header.size) - header.size)
        if header.type in _ABOUT_THE_NEXT:
            long_name = _long_name(header.type, data)
        elif header.isreg():
            yield Member(name, data)


class _Stream:
    """Counts what is read, in pieces: a size that lies must not ask for all memory at once."""

    def __init__(self, raw: io.BufferedReader) -> None:
        self.raw = raw
        self.offset = 0
        self.error: BaseException | None = None

    def read(self, size: int, *, keep: bool = True) -> bytes:
        """Up to `size` bytes, fewer at the end or at an error, which is kept for the report."""
        pieces = []
        try:
            while size > 0 and (piece := self.raw.read(min(size, 1 << 20))):
                size -= len(piece)
                self.offset += len(piece)
                if keep:
                    pieces.append(piece)
        except READ_ERRORS as error:
            self.error = error
        return b"".join(pieces)


def _next_header(source: _Stream, location: str, problems: Problems) -> tarfile.TarInfo | None:
    """The next sound header; None at the end. Tars that were concatenated are read on."""
    damaged_at: int | None = None
    in_end_mark = False
    while True:
        start = source.offset
        block = source.read(BLOCK)
        header = None
        if len(block) == BLOCK:
            if not any(block):  # zeros: the end mark, or its padding
                in_end_mark = True
                continue
            try:
                header = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
            except tarfile.HeaderError:
                in_end_mark = False
                damaged_at = start if damaged_at is None else damaged_at
                continue
        if damaged_at is not None:
            found = f"bytes {damaged_at} to {start} are no tar"
            problems.add(Kind.DAMAGED_FILE, location, found)
        elif header is None and not (in_end_mark and source.error is None):
            _report_cut(source, location, problems, "before the end mark")
        return header


def _report_cut(source: _Stream, location: str, problems: Problems, place: str) -> None:
    after = f"at byte {source.offset} of the tar, {place}"
    if source.error is not None:
        report_read_error(location, source.error, problems, after=after)
    else:
        problems.add(Kind.TRUNCATED_FILE, location, f"the file ends {after}")


def _padded(size: int) -> int:
    return -(-size // BLOCK) * BLOCK


def _long_name(kind: bytes, data: bytes) -> str | None:
    """The next member's name out of a GNU long-name or a pax header."""
    if kind == b"L":
        return data.rstrip(b"\0").decode("utf-8", "surrogateescape")
    while kind != b"g" and data:  # records of the form `LENGTH KEY=VALUE\n`
        length = data.partition(b" ")[0]
        if not length.isdigit() or int(length) <= len(length):
            break
        record, data = data[len(length) + 1 : int(length) - 1], data[int(length) :]
        key, _, value = record.partition(b"=")
        if key == b"path":
            return value.decode("utf-8", "surrogateescape")
    return None
