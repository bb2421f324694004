"""Captions as metadata: XMP sidecars, and XMP embedded in photos (extra `xmp`).

    dc:description                      the caption
    dc:subject                          the detected words that it uses, added to those there
    Iptc4xmpCore:AltTextAccessibility   the caption as a sentence, for screen readers

The photo's own file is never written to. A copy with the caption is written beside it, with all
other bytes the same, and read back. Only if its pixels and all other metadata are equal does the
copy take the photo's place. Otherwise the photo stays as it is, and `EmbedError` gives the reason.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sightwords.batch.xmp import jpeg, jpeg2000, png, tiff, webp
from sightwords.batch.xmp.packet import EMPTY, MAX_PACKET_BYTES, EmbedError, with_caption
from sightwords.batch.xmp.readback import contents_of, descriptions_of, require_exiv2
from sightwords.batch.xmp.replace import (
    ChangedError,
    check_replaceable,
    check_unchanged,
    keep_attributes,
)
from sightwords.batch.xmp.slot import XmpFormat
from sightwords.files import FULL, atomic_path
from sightwords.text.written import as_sentence

__all__ = [
    "ChangedError", "EmbedError", "can_hold", "description_of", "embed", "require_exiv2",
    "write_xmp",
]  # fmt: skip

MAX_FILE_BYTES = 100 << 20
"""Largest photo that gets a caption inside: both versions are held in memory."""
MAX_GROWTH_BYTES = 4096
"""Beyond the packet itself."""

_FORMATS: tuple[tuple[tuple[bytes, ...], XmpFormat, tuple[str, ...]], ...] = (
    ((b"\xff\xd8\xff",), jpeg.FORMAT, ("JPEG", "MPO")),
    ((b"\x89PNG\r\n\x1a\n",), png.FORMAT, ("PNG",)),
    ((b"II*\0", b"MM\0*"), tiff.FORMAT, ("TIFF",)),
    ((b"\0\0\0\x0cjP  \r\n\x87\n",), jpeg2000.FORMAT, ("JPEG2000",)),
)
"""How a file begins, how it holds XMP, and what Pillow calls it."""


def write_xmp(target: Path, caption: str, words: Sequence[str], *, keep: bool) -> str | None:
    """Write a sidecar, or change the one that is there; what is wrong, if anything is.

    With `keep`, a description that says something else is not replaced.
    """
    packet = EMPTY
    try:
        if target.exists():
            if keep and (wrong := _described(target, caption)):
                return wrong
            packet = _read(target, MAX_PACKET_BYTES)
        with atomic_path(target) as temporary:
            temporary.write_bytes(with_caption(packet, caption, words))
            if caption not in descriptions_of(temporary):
                raise EmbedError("its XMP is not understood")
    except EmbedError as error:
        return f"{target}: was not changed: {error}; remove it, or give another --out"
    return None


def embed(
    photo: Path,
    target: Path,
    caption: str,
    words: Sequence[str],
    *,
    keep: bool,
    new_copy: bool = False,
    sha256: str | None = None,
) -> str | None:
    """Write `target` as the photo with its caption inside; both may be one file.

    A copy that is there already is changed itself, unless `new_copy`. Returns what is wrong
    where `keep` protects a description. Raises `EmbedError` where the caption
    cannot go inside without a risk to the rest; nothing is changed then. `sha256` is the sum of the
    bytes that were captioned: a photo whose bytes have changed is left alone (`ChangedError`).
    """
    given = target if target.exists() and not new_copy else photo
    try:
        expected = sha256 if given.samefile(photo) else None
        pair = given.resolve(), target.resolve()
        return _embed(*pair, caption, words, keep=keep, expected=expected)
    except EmbedError as error:
        raise type(error)(f"{given}: was not changed: {error}") from error
    except OSError as error:
        if error.errno in FULL:
            raise
        raise EmbedError(f"{given}: was not changed: {error.strerror or error}") from error


def can_hold(path: Path) -> bool:
    """Whether captions are embedded in photos of this format."""
    try:
        with path.open("rb") as file:
            _format(file.read(32))
    except (OSError, EmbedError):
        return False
    return True


def description_of(path: Path) -> str | None:
    """The description that a photo or sidecar has already; None where it has none.

    An alt text counts as one, and so does an IPTC caption, which readers show only where XMP has
    none. EXIF's ImageDescription does not: cameras fill it in.
    """
    try:
        _check_size(path, MAX_FILE_BYTES)
        return next(iter(descriptions_of(path)), None)
    except (EmbedError, OSError):  # unknown, and nothing will be written into it either
        return None


def _described(path: Path, caption: str) -> str | None:
    _check_size(path, MAX_FILE_BYTES)
    same = (caption, as_sentence(caption))
    if all(description in same for description in descriptions_of(path)):
        return None
    return (
        f"{path}: already has a description and was not changed; replace it with --overwrite always"
    )


@dataclass(frozen=True, slots=True)
class _Photo:
    """What a photo is now, and the packet that it is to have."""

    data: bytes
    format: XmpFormat
    names: tuple[str, ...]
    """What Pillow calls its format."""
    old_packet: bytes
    packet: bytes

    @classmethod
    def read(cls, path: Path, caption: str, words: Sequence[str]) -> _Photo:
        data = _read(path, MAX_FILE_BYTES)
        form, names = _format(data)
        packet = form.packet_of(data) or b""
        return cls(data, form, names, packet, with_caption(packet or EMPTY, caption, words))


def _embed(
    given: Path,
    target: Path,
    caption: str,
    words: Sequence[str],
    *,
    keep: bool,
    expected: str | None,
) -> str | None:
    """Write the copy, read it back, and only then put it in the target's place."""
    source = given.stat()  # before anything is read, which would change the time of access
    seen = target.stat() if target.exists() else None
    if keep and (wrong := _described(given, caption)):
        return wrong
    if seen is not None:
        check_replaceable(target, seen)
    photo = _Photo.read(given, caption, words)
    if expected is not None and hashlib.sha256(photo.data).hexdigest() != expected:
        raise ChangedError("it changed after it was captioned; run the command again")
    if given == target and photo.packet == photo.old_packet:
        return None
    before = contents_of(given, photo.names)
    with atomic_path(target) as temporary:
        _write(temporary, photo.format.with_packet(photo.data, photo.packet))
        _check(temporary, photo, before)
        if caption not in descriptions_of(temporary):
            raise EmbedError("the caption cannot be read back from a copy")
        if seen is not None:
            keep_attributes(target, seen, temporary)
            check_unchanged(target, seen)
        check_unchanged(given, source)
    return None


def _check(copy: Path, photo: _Photo, before: dict[str, str]) -> None:
    """Read a copy back; every difference from the photo but the caption is raised."""
    new = copy.read_bytes()
    growth = len(new) - len(photo.data)
    if not -len(photo.old_packet) <= growth <= len(photo.packet) + MAX_GROWTH_BYTES:
        raise EmbedError(f"a copy with the caption has an implausible size ({len(new)} bytes)")
    if photo.format.packet_of(new) != photo.packet:
        raise EmbedError("the caption cannot be read back from a copy")
    if not photo.format.same_otherwise(photo.data, new):
        raise EmbedError("other parts of a copy with the caption are not the same")
    after = contents_of(copy, photo.names)
    differing = [name for name in before if before[name] != after.get(name)]
    if differing:
        raise EmbedError(f"a copy with the caption differs in its {' and '.join(differing)}")


def _format(data: bytes) -> tuple[XmpFormat, tuple[str, ...]]:
    for magics, form, names in _FORMATS:
        if data.startswith(magics):
            return form, names
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return webp.FORMAT, ("WEBP",)
    raise EmbedError("captions can be embedded only in JPEG, PNG, WebP, TIFF and JP2")


def _read(path: Path, limit: int) -> bytes:
    _check_size(path, limit)
    data = path.read_bytes()
    if len(data) > limit:
        raise EmbedError(f"it is larger than {limit >> 20} MB")
    return data


def _check_size(path: Path, limit: int) -> None:
    if not path.is_file():
        raise EmbedError("it is not a regular file")
    if path.stat().st_size > limit:
        raise EmbedError(f"it is larger than {limit >> 20} MB")


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
