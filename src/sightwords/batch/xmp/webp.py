"""XMP in a WebP: one `XMP ` chunk, announced by a flag in the VP8X chunk."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from sightwords.batch.xmp.packet import EmbedError
from sightwords.batch.xmp.slot import SIGNED, Part, Slot, XmpFormat, damaged, listed, only, sum_of

_HAS_XMP, _HAS_ALPHA = 0x04, 0x10


def _slot(data: bytes) -> Slot:
    """One `XMP ` chunk; a new one goes behind all others."""
    parts = _riff(data)
    if any(part.kind == b"C2PA" for part in parts):
        raise EmbedError(SIGNED)
    found = only([part for part in parts if part.kind == b"XMP "])
    if found is None:
        return Slot(parts[-1].end, parts[-1].end)
    length = int.from_bytes(data[found.start + 4 : found.body], "little")
    return Slot(found.start, found.end, data[found.body : found.body + length])


def _with_packet(data: bytes, packet: bytes) -> bytes:
    """The packet in its chunk, the flag that announces it, and the length of the whole."""
    slot = _slot(data)
    chunk = b"XMP " + struct.pack("<I", len(packet)) + packet + b"\0" * (len(packet) % 2)
    end = 8 + int.from_bytes(data[4:8], "little")
    first = _riff(data)[0]
    if first.kind == b"VP8X":
        header = data[12:20] + bytes([data[20] | _HAS_XMP]) + data[21:30]
        inside = header + data[30 : slot.start] + chunk + data[slot.end : end]
    else:
        header = b"VP8X" + struct.pack("<I", 10) + _canvas(data[first.body : first.end], first.kind)
        inside = header + data[12 : slot.start] + chunk + data[slot.end : end]
    if 4 + len(inside) > 0xFFFFFFFE:
        raise EmbedError("it would be larger than a WebP file can be")
    return b"RIFF" + struct.pack("<I", 4 + len(inside)) + b"WEBP" + inside + data[end:]


def _riff(data: bytes) -> list[Part]:
    """All chunks; what follows the length that the header gives is not one of them."""
    parts = listed(_chunks(data))
    kinds = [part.kind for part in parts]
    if not kinds or kinds[0] not in (b"VP8X", b"VP8 ", b"VP8L") or kinds.count(b"VP8X") > 1:
        raise damaged("no image chunk", 12)
    if kinds[0] == b"VP8X" and parts[0].end - parts[0].body != 10:
        raise damaged("a VP8X chunk with a wrong length", 12)
    return parts


def _chunks(data: bytes) -> Iterator[Part]:
    end = 8 + int.from_bytes(data[4:8], "little")
    if end > len(data) or end % 2:
        raise damaged("a wrong length", 4)
    at = 12
    while at < end:
        length = int.from_bytes(data[at + 4 : at + 8], "little")
        stop = at + 8 + length + length % 2
        if stop > end:
            raise damaged("a chunk with a wrong length", at)
        yield Part(data[at : at + 4], at, at + 8, stop)
        at = stop


def _canvas(body: bytes, kind: bytes) -> bytes:
    """The content of a VP8X chunk for a simple file: flags, and both sides less one."""
    if kind == b"VP8L" and body[:1] == b"\x2f" and len(body) >= 5:
        bits = int.from_bytes(body[1:5], "little")
        flags = _HAS_ALPHA if bits >> 28 & 1 else 0
        width, height = bits & 0x3FFF, bits >> 14 & 0x3FFF
    elif kind == b"VP8 " and body[3:6] == b"\x9d\x01\x2a" and len(body) >= 10:
        flags = 0
        width, height = (int.from_bytes(body[at : at + 2], "little") & 0x3FFF for at in (6, 8))
        width, height = width - 1, height - 1
    else:
        raise damaged("an image chunk of unknown form", 12)
    sides = width.to_bytes(3, "little") + height.to_bytes(3, "little")
    return bytes([flags | _HAS_XMP, 0, 0, 0]) + sides


def _packet_of(data: bytes) -> bytes | None:
    """The XMP packet."""
    return _slot(data).packet


def _same_otherwise(old: bytes, new: bytes) -> bool:
    """Whether all chunks but XMP, the trailer and all of VP8X but the flag are equal."""
    (plain, header), (new_plain, new_header) = _essence(old), _essence(new)
    return plain == new_plain and header in (b"", new_header)


def _essence(data: bytes) -> tuple[bytes, bytes]:
    parts, view = _riff(data), memoryview(data)
    plain = [view[p.start : p.end] for p in parts if p.kind not in (b"VP8X", b"XMP ")]
    extended = parts[0].kind == b"VP8X"
    header = bytes([data[20] | _HAS_XMP]) + data[21:30] if extended else b""
    return sum_of(*plain, view[parts[-1].end :]), header


FORMAT = XmpFormat(_packet_of, _with_packet, _same_otherwise)
