"""XMP in a PNG: one iTXt chunk."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

from sightwords.batch.xmp.packet import MAX_PACKET_BYTES, EmbedError
from sightwords.batch.xmp.slot import SIGNED, Part, Slot, damaged, in_slot, listed, only

_PNG = b"\x89PNG\r\n\x1a\n"
_KEYWORD = b"XML:com.adobe.xmp"


def _slot(data: bytes) -> Slot:
    """One iTXt chunk; a new one goes behind the header."""
    parts = listed(_chunks(data))
    if any(part.kind == b"caBX" for part in parts):
        raise EmbedError(SIGNED)
    for part in parts:
        keyword = data[part.body : part.body + 80].split(b"\0", 1)[0]
        if part.kind in (b"tEXt", b"zTXt") and keyword in (_KEYWORD, b"Raw profile type xmp"):
            raise EmbedError(f"its XMP is in a {part.kind.decode()} chunk")
    texts = [part for part in parts if part.kind == b"iTXt"]
    found = only([p for p in texts if data.startswith(_KEYWORD + b"\0", p.body)])
    if found is None:
        return Slot(parts[0].end, parts[0].end)
    apple = next((part for part in parts if part.kind == b"iDOT"), None)
    fixed = apple is not None and apple.start < found.start
    return Slot(found.start, found.end, _png_packet(data, found), fixed)


def _chunk(packet: bytes) -> bytes:
    """The packet in its chunk, not compressed, so that every reader finds it."""
    body = b"iTXt" + _KEYWORD + b"\0\0\0\0\0" + packet
    return struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))


def _chunks(data: bytes) -> Iterator[Part]:
    at = len(_PNG)
    while True:
        length = int.from_bytes(data[at : at + 4], "big")
        kind, end = data[at + 4 : at + 8], at + 12 + length
        if end > len(data) or (at == len(_PNG)) != (kind == b"IHDR"):
            raise damaged("a chunk with a wrong length or place", at)
        yield Part(kind, at, at + 8, end)
        at = end
        if kind == b"IEND":
            return


def _png_packet(data: bytes, part: Part) -> bytes:
    body = data[part.body : part.end - 4]
    if zlib.crc32(b"iTXt" + body) != int.from_bytes(data[part.end - 4 : part.end], "big"):
        raise damaged("an XMP chunk with a wrong checksum", part.start)
    flags, rest = body[len(_KEYWORD) + 1 : len(_KEYWORD) + 3], body[len(_KEYWORD) + 3 :]
    fields = rest.split(b"\0", 2)
    if len(fields) != 3 or flags not in (b"\0\0", b"\1\0"):
        raise damaged("an XMP chunk of unknown form", part.start)
    if flags == b"\0\0":
        return fields[2]
    unpacker = zlib.decompressobj()
    try:
        packet = unpacker.decompress(fields[2], MAX_PACKET_BYTES)
    except zlib.error as error:
        raise damaged("XMP that cannot be unpacked", part.start) from error
    if not unpacker.eof:
        raise EmbedError("its XMP is cut off or too large")
    return packet


FORMAT = in_slot(_slot, _chunk)
