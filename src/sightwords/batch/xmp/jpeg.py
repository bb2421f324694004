"""XMP in a JPEG: one APP1 segment."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import islice

from sightwords.batch.xmp.packet import EmbedError
from sightwords.batch.xmp.slot import (
    SIGNED,
    Part,
    Slot,
    damaged,
    in_slot,
    listed,
    only,
    refuse_stray_xmp,
)

_XMP_HEAD = b"http://ns.adobe.com/xap/1.0/\0"
_EXTENDED_HEAD = b"http://ns.adobe.com/xmp/extension/\0"
_EXIF_HEAD = b"Exif\0\0"
_MPF_HEAD = b"MPF\0"
MAX_HEADS = 50
_OURS = (b"dc:description", b"dc:subject", b"AltTextAccessibility")


def _slot(data: bytes) -> Slot:
    """One APP1 segment; a new one goes behind JFIF and EXIF, where readers look for it."""
    parts = listed(_segments(data))
    bodies = [data[part.body : part.end] for part in parts]
    pairs = list(zip(parts, bodies, strict=True))
    if any(body.startswith(_EXTENDED_HEAD) and _mentions(body) for body in bodies):
        raise EmbedError("its XMP continues in segments that hold a description or keywords")
    if any(part.kind == b"\xeb" and b"c2pa" in body for part, body in pairs):
        raise EmbedError(SIGNED)
    found = only([p for p, b in pairs if p.kind == b"\xe1" and b.startswith(_XMP_HEAD)])
    for part, body in pairs:
        if part != found and not body.startswith(_EXTENDED_HEAD):
            refuse_stray_xmp(body)
            if part.kind == b"\xe1" and body.startswith(b"http"):
                raise EmbedError("it has XMP of an unknown form")
    behind = _points_behind(data, pairs)
    if found is not None:
        # Places in MPF, the list of further images, count from MPF itself.
        mpf = any(b.startswith(_MPF_HEAD) and p.start < found.start for p, b in pairs)
        packet = data[found.body + len(_XMP_HEAD) : found.end]
        return Slot(found.start, found.end, packet, fixed=mpf or behind)
    if behind:
        raise EmbedError("its camera's notes point to a preview behind the image")
    at = 2
    for part, body in pairs:
        if part.kind != b"\xe0" and not (part.kind == b"\xe1" and body.startswith(_EXIF_HEAD)):
            break
        at = part.end
    return Slot(at, at)


def _segment(packet: bytes) -> bytes:
    """The packet in its one segment, which holds 65,502 bytes."""
    body = _XMP_HEAD + packet
    if len(body) + 2 > 0xFFFF:
        raise EmbedError("its XMP is too long for a JPEG segment")
    return b"\xff\xe1" + struct.pack(">H", len(body) + 2) + body


def _segments(data: bytes) -> Iterator[Part]:
    """The segments before the first scan; all of them must follow each other without a gap."""
    at = 2
    while True:
        start = at
        if data[at : at + 1] != b"\xff":
            raise damaged("no marker", at)
        while data[at : at + 1] == b"\xff":
            at += 1
        kind = data[at : at + 1]
        if kind == b"\xda":
            return
        if not b"\xc0" <= kind <= b"\xfe" or b"\xd0" <= kind <= b"\xd9":
            raise damaged("an unexpected marker", at)
        length = int.from_bytes(data[at + 1 : at + 3], "big")
        end = at + 1 + length
        if length < 2 or end > len(data):
            raise damaged("a segment with a wrong length", at)
        yield Part(kind, start, at + 3, end)
        at = end


def _points_behind(data: bytes, pairs: list[tuple[Part, bytes]]) -> bool:
    """Whether EXIF has the place of a second JPEG behind the first, counted from EXIF itself."""
    heads = list(islice(_heads(data, pairs[-1][0].end if pairs else 2), MAX_HEADS))
    if len(heads) == MAX_HEADS:
        raise EmbedError(f"it holds {MAX_HEADS} or more JPEGs")
    for part, body in pairs:
        if part.kind == b"\xe1" and body.startswith(_EXIF_HEAD):
            places = [head - part.body - len(_EXIF_HEAD) for head in heads]
            if any(struct.pack(order, place) in body for place in places for order in ("<I", ">I")):
                return True
    return False


def _heads(data: bytes, at: int) -> Iterator[int]:
    while (at := data.find(b"\xff\xd8\xff", at + 1)) >= 0:
        yield at


def _mentions(body: bytes) -> bool:
    return any(name in body for name in _OURS)


FORMAT = in_slot(_slot, _segment)
