"""XMP in a TIFF: tag 700 of the first directory.

Nothing that is in the file moves: the packet, and a copy of the first directory with one more
entry, go behind the end, and the header points to that copy. So every place that other tags give,
those of maker notes and private tags too, stays true.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from sightwords.batch.xmp.packet import EmbedError
from sightwords.batch.xmp.slot import SIGNED, XmpFormat, damaged, sum_of

XMP_TAG = 700
_C2PA_TAG, _DNG_TAG, _PHOTOMETRIC = 52545, 50706, 262
_SUB_DIRECTORIES = frozenset((330, 34665, 34853, 40965))
_DATA = ((273, 279), (324, 325))
"""Tags of the places and lengths of strips, and of tiles."""
_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4}
_MAX_DIRECTORIES = 1000


@dataclass(frozen=True, slots=True)
class _Entry:
    tag: int
    kind: int
    count: int
    at: int
    """Of the entry's own 12 bytes."""
    place: int
    """Of its value."""


@dataclass(frozen=True, slots=True)
class _Directory:
    at: int
    entries: list[_Entry]
    following: int
    """Where the next directory is; 0: there is none."""


def _packet_of(data: bytes) -> bytes | None:
    """The XMP packet."""
    entry = _xmp_entry(_first(data))
    return None if entry is None else data[entry.place : entry.place + entry.count]


def _with_packet(data: bytes, packet: bytes) -> bytes:
    """The packet behind the end; the header, or the entry that is there, points to it."""
    order, first = _order(data), _first(data)
    place = len(data) + len(data) % 2
    directory = place + len(packet) + len(packet) % 2
    if directory + 12 * len(first.entries) + 64 > 0xFFFFFFFF:
        raise EmbedError("it would be larger than a TIFF can be")
    behind = b"\0" * (len(data) % 2) + packet + b"\0" * (len(packet) % 2)
    entry, view = _xmp_entry(first), memoryview(data)
    if entry is not None:
        patch = struct.pack(order + "II", len(packet), place)
        return b"".join((view[: entry.at + 4], patch, view[entry.at + 12 :], behind))
    added = struct.pack(order + "HHII", XMP_TAG, 1, len(packet), place)
    raw = [data[e.at : e.at + 12] for e in first.entries]
    before = sum(e.tag < XMP_TAG for e in first.entries)
    entries = b"".join([*raw[:before], added, *raw[before:]])
    head = struct.pack(order + "H", len(raw) + 1)
    copy = head + entries + struct.pack(order + "I", first.following)
    return b"".join((view[:4], struct.pack(order + "I", directory), view[8:], behind, copy))


def _same_otherwise(old: bytes, new: bytes) -> bool:
    """Whether the old bytes are all there but for one pointer, and the directories are equal."""
    entry = _xmp_entry(_first(old))
    start, end = (4, 8) if entry is None else (entry.at + 4, entry.at + 12)
    first, second = memoryview(old), memoryview(new)[: len(old)]
    kept = sum_of(first[:start], first[end:]) == sum_of(second[:start], second[end:])
    return kept and _essence(old) == _essence(new)


def _essence(data: bytes) -> tuple[list[bytes], int]:
    first = _first(data)
    entries = [data[e.at : e.at + 12] for e in first.entries if e.tag != XMP_TAG]
    return entries, first.following


def _first(data: bytes) -> _Directory:
    """The first directory of a file of which every directory is sound."""
    directories = list(_directories(data))
    tags = {entry.tag for directory in directories for entry in directory.entries}
    if _C2PA_TAG in tags:
        raise EmbedError(SIGNED)
    raw = any(_is_raw(data, directory) for directory in directories)
    if raw or _DNG_TAG in tags or data[8:10] == b"CR":
        raise EmbedError("it is a camera's raw file")
    return directories[0]


def _is_raw(data: bytes, directory: _Directory) -> bool:
    """Whether it holds what a sensor saw, as in NEF, ARW or PEF files."""
    found = [e for e in directory.entries if e.tag == _PHOTOMETRIC and e.kind in (3, 4)]
    return any(_values(data, _order(data), entry)[:1] in ((32803,), (34892,)) for entry in found)


def _xmp_entry(directory: _Directory) -> _Entry | None:
    found = [entry for entry in directory.entries if entry.tag == XMP_TAG]
    if len(found) > 1 or (found and (found[0].kind not in (1, 7) or found[0].count <= 4)):
        raise EmbedError("its XMP tag is of an unknown form")
    return found[0] if found else None


def _order(data: bytes) -> str:
    order = "<" if data[:2] == b"II" else ">"
    if struct.unpack(order + "H", data[2:4])[0] != 42:
        raise EmbedError("it is a BigTIFF or another relative of TIFF")
    return order


def _directories(data: bytes) -> Iterator[_Directory]:
    """Every directory that can be reached; one that points out of the file is damage.

    What lies behind the end now would be read there once something is appended.
    """
    order = _order(data)
    seen: set[int] = set()
    waiting = [_number(data, order, 4)]
    while waiting:
        at = waiting.pop()
        if at in seen:
            continue
        seen.add(at)
        if len(seen) > _MAX_DIRECTORIES:
            raise EmbedError(f"it has more than {_MAX_DIRECTORIES} directories")
        directory = _directory(data, order, at)
        for entry in directory.entries:
            if entry.tag in _SUB_DIRECTORIES and entry.kind in (4, 13):
                waiting.extend(_values(data, order, entry))
        _check_pixels(data, order, directory)
        if directory.following:
            waiting.append(directory.following)
        yield directory


def _directory(data: bytes, order: str, at: int) -> _Directory:
    if at < 8 or at + 2 > len(data):
        raise damaged("a directory outside the file", at)
    (count,) = struct.unpack_from(order + "H", data, at)
    end = at + 2 + 12 * count
    if not count or end + 4 > len(data):
        raise damaged("a directory outside the file", at)
    entries = [_entry(data, order, at + 2 + 12 * index) for index in range(count)]
    return _Directory(at, entries, _number(data, order, end))


def _entry(data: bytes, order: str, at: int) -> _Entry:
    tag, kind, count = struct.unpack_from(order + "HHI", data, at)
    length = _SIZES.get(kind, 0) * count
    place = at + 8 if length <= 4 else _number(data, order, at + 8)
    if place + length > len(data) or kind not in _SIZES:
        raise damaged(f"tag {tag} of an unknown type or outside the file", at)
    return _Entry(tag, kind, count, at, place)


def _check_pixels(data: bytes, order: str, directory: _Directory) -> None:
    """Strips and tiles lie in the file: readers guess where lengths are missing or wrong."""
    tags = {entry.tag: entry for entry in directory.entries}
    for places, lengths in _DATA:
        if places not in tags:
            continue
        starts = _values(data, order, tags[places])
        counts = _values(data, order, tags[lengths]) if lengths in tags else []
        pairs = zip(starts, counts, strict=False)
        if len(starts) != len(counts) or any(not n or s + n > len(data) for s, n in pairs):
            raise damaged("strips or tiles with missing or wrong lengths in a directory",
                          directory.at)  # fmt: skip


def _values(data: bytes, order: str, entry: _Entry) -> tuple[int, ...]:
    letter = {1: "B", 3: "H", 4: "I", 13: "I"}.get(entry.kind)
    if letter is None:
        raise damaged(f"tag {entry.tag} of a wrong type", entry.at)
    return struct.unpack_from(f"{order}{entry.count}{letter}", data, entry.place)


def _number(data: bytes, order: str, at: int) -> int:
    if at + 4 > len(data):
        raise damaged("a place outside the file", at)
    (number,) = struct.unpack_from(order + "I", data, at)
    return int(number)


FORMAT = XmpFormat(_packet_of, _with_packet, _same_otherwise)
