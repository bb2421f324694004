"""Where the XMP packet of a photo is, and the photo with another packet there.

Each format has a module with a `FORMAT`. Only the packet's own bytes, and lengths and flags that
must count it, are written. Every other byte is copied, including what follows the end of the image.
A file whose structure is not fully understood is refused (`EmbedError`): its photo then stays as it
is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice

from sightwords.batch.xmp.packet import EmbedError

SIGNED = "it is signed (C2PA), and any change would break its signature"
MAX_PARTS = 200_000


@dataclass(frozen=True, slots=True)
class XmpFormat:
    """How one file format holds XMP."""

    packet_of: Callable[[bytes], bytes | None]
    """The packet of a file; None if it has none."""
    with_packet: Callable[[bytes, bytes], bytes]
    """The file with this packet instead."""
    same_otherwise: Callable[[bytes, bytes], bool]
    """Whether two files differ in nothing but the packet."""


@dataclass(frozen=True, slots=True)
class Part:
    """A segment, chunk or box; `body` is where its header ends."""

    kind: bytes
    start: int
    body: int
    end: int


@dataclass(frozen=True, slots=True)
class Slot:
    """The bytes from `start` to `end` that hold the packet; none yet where both are equal."""

    start: int
    end: int
    packet: bytes | None = None
    fixed: bool = False
    """Whether other parts of the file point past it, so that its length must stay."""

    def filled(self, data: bytes, new: bytes) -> bytes:
        """The file with these bytes in the slot."""
        if self.fixed and len(new) != self.end - self.start:
            raise EmbedError(
                "other parts of the file point past its XMP, whose length would change"
            )
        view = memoryview(data)
        return b"".join((view[: self.start], new, view[self.end :]))

    def sum_around(self, data: bytes) -> bytes:
        """A checksum of all bytes but those in the slot."""
        view = memoryview(data)
        return sum_of(view[: self.start], view[self.end :])


def in_slot(slot: Callable[[bytes], Slot], wrapped: Callable[[bytes], bytes]) -> XmpFormat:
    """A format with one slot for the packet; `wrapped` gives the packet its header."""
    return XmpFormat(
        packet_of=lambda data: slot(data).packet,
        with_packet=lambda data, packet: slot(data).filled(data, wrapped(packet)),
        same_otherwise=lambda old, new: slot(old).sum_around(old) == slot(new).sum_around(new),
    )


def sum_of(*pieces: memoryview) -> bytes:
    """A checksum of bytes in several pieces, which are not copied."""
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.digest()


def listed(parts: Iterable[Part]) -> list[Part]:
    """All parts of a file, if they are not too many."""
    found = list(islice(parts, MAX_PARTS + 1))
    if len(found) > MAX_PARTS:
        raise EmbedError(f"it consists of more than {MAX_PARTS} parts")
    return found


def only(parts: list[Part]) -> Part | None:
    """The part with the packet, if there is one."""
    if len(parts) > 1:
        raise EmbedError("it has several XMP packets")
    return parts[0] if parts else None


def refuse_stray_xmp(body: bytes) -> None:
    """Refuse XMP where it does not belong: some readers would mix it with the packet."""
    if any(mark in body for mark in (b"<x:xmpmeta", b"<?xpacket", b"<rdf:RDF")):
        raise EmbedError("it has XMP at an unusual place")


def damaged(what: str, at: int) -> EmbedError:
    """What is wrong with a file's structure."""
    return EmbedError(f"its structure is damaged ({what} at byte {at})")
