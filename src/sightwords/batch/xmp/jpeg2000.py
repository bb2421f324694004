"""XMP in a JP2 file: one `uuid` box."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from sightwords.batch.xmp.packet import EmbedError
from sightwords.batch.xmp.slot import Part, Slot, damaged, in_slot, listed, only, refuse_stray_xmp

_UUID = bytes.fromhex("be7acfcb97a942e89c71999491e3afac")
_BOXES = frozenset(
    (b"jP  ", b"ftyp", b"jp2h", b"jp2c", b"uuid", b"xml ", b"jp2i", b"uinf", b"res ")
)


def _slot(data: bytes) -> Slot:
    """One `uuid` box; a new one goes behind all others."""
    parts = listed(_boxes(data))
    found = only([p for p in parts if p.kind == b"uuid" and data.startswith(_UUID, p.body)])
    for part in parts:
        if part != found and part.kind in (b"uuid", b"xml "):
            refuse_stray_xmp(data[part.body : part.end])
    if found is None:
        return Slot(len(data), len(data))
    return Slot(found.start, found.end, data[found.body + 16 : found.end])


def _box(packet: bytes) -> bytes:
    """The packet in its box."""
    return struct.pack(">I", 24 + len(packet)) + b"uuid" + _UUID + packet


def _boxes(data: bytes) -> Iterator[Part]:
    at = 0
    while at < len(data):
        length, kind = int.from_bytes(data[at : at + 4], "big"), data[at + 4 : at + 8]
        if length == 0:
            raise EmbedError("its last box has no length, so nothing can follow it")
        if kind not in _BOXES:  # it might point to others by their place
            raise EmbedError(f"it has a box of unknown kind at byte {at}")
        if length < 8 or at + length > len(data):
            raise damaged("a box with a wrong length", at)
        yield Part(kind, at, at + 8, at + length)
        at += length


FORMAT = in_slot(_slot, _box)
