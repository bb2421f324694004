"""What a photo holds besides its caption, as one checksum for each kind of thing.

Pillow and Exiv2 read the file in a helper process with limits, since both have crashed and hung on
strangers' files. Exiv2 only reads here: it has ruined photos when it wrote.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from PIL import Image

from sightwords import sandbox
from sightwords.batch.xmp.packet import EmbedError
from sightwords.errors import SandboxError, require

SECONDS = 10.0
MEMORY_BYTES = 500 << 20
MAX_PIXELS = 400_000_000
"""Of all frames together."""
BAND_PX = 1 << 20
"""Pixels that are copied at a time to be summed."""

_DEFAULT_LANGUAGE = 'lang="x-default"'
_DESCRIPTIONS = ("Xmp.dc.description", "Xmp.iptc.AltTextAccessibility")
_OURS = (*_DESCRIPTIONS, "Xmp.dc.subject")
_IPTC_CAPTION = "Iptc.Application2.Caption"
_XMP_INFO = frozenset(("xmp", "XML:com.adobe.xmp", "mpoffset"))
"""What Pillow notes of a file that changes with XMP: `mpoffset` is a place in it."""
_XMP_TAG = 700


def require_exiv2() -> Any:
    """Pyexiv2, or the command that installs it."""
    return require("pyexiv2", extra="xmp", purpose="writing XMP")


def descriptions_of(path: Path) -> list[str]:
    """The XMP description, the alt text and the IPTC caption, those of them that there are."""
    require_exiv2()
    found = _apart("read_descriptions", path)["descriptions"]
    return [str(text) for text in found]


def contents_of(path: Path, formats: tuple[str, ...]) -> dict[str, str]:
    """A checksum each of pixels, EXIF and so on: all that must stay."""
    return {str(k): str(v) for k, v in _apart("read_contents", path, formats=formats).items()}


def _apart(function: str, path: Path, **more: object) -> dict[str, Any]:
    try:
        answer, _ = sandbox.run_apart(
            f"{__name__}:{function}",
            {"path": os.fspath(path), **more},
            seconds=SECONDS,
            memory_bytes=MEMORY_BYTES,
        )
    except SandboxError as error:
        raise EmbedError(f"it cannot be checked ({error})") from error
    if "wrong" in answer:
        raise EmbedError(answer["wrong"])
    return answer


def read_descriptions(arguments: sandbox.Arguments, payload: bytes) -> sandbox.Answer:
    """In the helper process: the descriptions that a photo or sidecar has."""
    try:
        with _opened(Path(arguments["path"]).read_bytes()) as file:
            xmp, iptc = file.read_xmp(), file.read_iptc("latin-1")  # any bytes, UTF-8 or not
    except (RuntimeError, ValueError):  # Exiv2 does not know the format, or it is damaged
        return {"descriptions": []}, b""
    found = [*map(xmp.get, _DESCRIPTIONS), iptc.get(_IPTC_CAPTION)]
    return {"descriptions": [text for text in map(_text, found) if text is not None]}, b""


def _text(value: object) -> str | None:
    if isinstance(value, dict):
        value = value.get(_DEFAULT_LANGUAGE) or next(iter(value.values()), None)
    return value if isinstance(value, str) and value.strip() else None


def read_contents(arguments: sandbox.Arguments, payload: bytes) -> sandbox.Answer:
    """In the helper process: checksums of a photo's pixels and metadata."""
    data = Path(arguments["path"]).read_bytes()
    try:
        metadata = _metadata(data)
    except (RuntimeError, ValueError) as error:
        return {"wrong": f"its metadata cannot be read ({_one_line(error)})"}, b""
    try:
        pixels = _pixels(data, arguments["formats"])
    except MemoryError:
        raise
    except Exception as error:  # decoders fail in every way on bytes that are not an image
        return {"wrong": f"it is damaged ({_one_line(error)})"}, b""
    return {**metadata, **pixels}, b""


def _metadata(data: bytes) -> dict[str, str]:
    with _opened(data) as file:
        exif, xmp = file.read_exif("latin-1"), file.read_xmp("latin-1")
        return {
            "EXIF": _sum({k: v for k, v in exif.items() if k != "Exif.Image.XMLPacket"}),
            "other XMP": _sum({k: v for k, v in xmp.items() if k not in _OURS}),
            "IPTC": _sum(file.read_iptc("latin-1")),
            "comment": _sum(file.read_comment("latin-1")),
            "colour profile": _sum(file.read_icc()),
            "thumbnail": _sum(file.read_thumbnail()),
        }


def _pixels(data: bytes, formats: list[str]) -> dict[str, str]:
    pixels, info = hashlib.sha256(), []
    with Image.open(io.BytesIO(data), formats=formats) as image:
        frames = getattr(image, "n_frames", 1)
        total = 0
        for frame in range(frames):
            image.seek(frame)
            total += image.width * image.height
            if total > MAX_PIXELS:
                raise ValueError(f"it has more than {MAX_PIXELS / 1e6:.0f} megapixels")
            image.load()
            info.append(_notes(image))
            _add_pixels(pixels, image)
        shape = (image.format, frames, getattr(image, "is_animated", False))
    return {"pixels": pixels.hexdigest(), "frames": _sum((shape, info))}


def _add_pixels(digest: Any, image: Image.Image) -> None:
    rows = max(1, BAND_PX // image.width)
    for top in range(0, image.height, rows):
        band = image.crop((0, top, image.width, min(image.height, top + rows)))
        digest.update(band.tobytes())


def _notes(image: Image.Image) -> tuple[object, ...]:
    """Mode, size, palette, times and tags of the present frame."""
    palette = image.palette
    colours = (palette.mode, bytes(palette.palette)) if palette is not None else None
    info = {k: v for k, v in image.info.items() if k not in _XMP_INFO}
    tags = {k: v for k, v in dict(getattr(image, "tag_v2", {})).items() if k != _XMP_TAG}
    return image.mode, image.size, colours, info, tags


def _sum(value: object) -> str:
    return hashlib.sha256(repr(_sorted(value)).encode("utf-8", "backslashreplace")).hexdigest()


def _sorted(value: object) -> object:
    if isinstance(value, Mapping):
        return sorted((str(k), _sorted(v)) for k, v in value.items())
    if isinstance(value, (list, tuple)):
        return [_sorted(item) for item in value]
    return value


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


def _opened(data: bytes) -> Any:
    pyexiv2 = require_exiv2()
    pyexiv2.set_log_level(4)  # what goes wrong is raised; nothing is printed
    return pyexiv2.ImageData(data)
