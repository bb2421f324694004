"""Any photo -> upright 8-bit RGB (the input of section 3.1).

Decoding is the one place where the package meets bytes of strangers, so it is strict about what
it opens (photo formats only: Pillow would run Ghostscript for an EPS), refuses large images by the
size in their header before it allocates, and turns every failure into an `ImageError` that names
the file. Bad metadata is never an error: unreadable EXIF means "upright". `apart.py` does the same
in a process of its own, with limits of memory and time that the operating system enforces.

Networks look at 224 or 565 px, so that images over `REDUCED_ABOVE` pixels come out smaller by a
whole factor; JPEGs are decoded at that size at once, which is quicker.

Not done: colour management. ICC profiles are ignored, as they were for the networks' training
images; a wide-gamut photo comes out slightly pale.
"""

from __future__ import annotations

import io
import math
import os
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, BinaryIO

import numpy as np
import numpy.typing as npt
from PIL import Image

from sightwords.errors import ImageError, ImageMemoryError, MissingExtraError, require
from sightwords.images.limits import DEFAULT_LIMITS, MEGABYTE, ImageLimits
from sightwords.images.pixels import array_to_rgb, buffer_to_rgb, image_to_rgb
from sightwords.images.sniff import describe, is_heif, read_as_a_whole, webp_size
from sightwords.images.source import name_of, one_line, open_source
from sightwords.types import ImageRef

ImageSource = str | os.PathLike[str] | bytes | IO[bytes] | ImageRef | Image.Image | npt.NDArray[Any]

REDUCED_ABOVE = 8_000_000
"""Pixels; what is larger is reduced by the smallest whole factor that brings it below."""

FORMATS = ("JPEG", "PNG", "WEBP", "AVIF", "GIF", "BMP", "TIFF", "PPM", "JPEG2000")

_ORIENTATION_TAG = 0x0112
_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""EXIF orientation -> the turn that undoes it (EXIF 2.32, tag 274)."""

_DECODER_BYTES = {"WEBP": 18, "JPEG2000": 20, "AVIF": 10, "HEIF": 6}
"""What a decoder allocates per pixel, its result included; 4 at most for all other formats."""
_MODE_BYTES = {"1": 1, "L": 1, "P": 1, "I;16": 2, "I;16B": 2, "I;16L": 2, "I;16N": 2}

_LESS = (
    "shrink the photo, or raise the limit if you trust it (--set max_memory=MB, "
    "ImageLimits.memory_bytes)"
)
_warnings_lock = threading.Lock()


def decode(
    source: ImageSource, *, limits: ImageLimits = DEFAULT_LIMITS, whole: bool = False
) -> Image.Image:
    """Read an image as upright 8-bit RGB, whatever it was stored as.

    Takes a path or URL, encoded bytes, a file opened in binary mode (read from where it stands,
    and left open), an `ImageRef`, a Pillow image, or an array of pixels: (H, W), (H, W, 1),
    (H, W, 3) RGB or (H, W, 4) RGBA; bool, uint8, uint16, or float in 0..1.
    The first frame of an animation. 16-bit values are scaled, not clipped. Transparent parts
    become white, since that is the page most pictures with transparency were drawn for (what
    lies hidden under them is often black or noise).

    An image of more than `REDUCED_ABOVE` pixels is reduced by a whole factor, unless `whole`.
    `limits` are checked on the header, before pixels are unpacked. Pillow keeps a limit of
    its own (`PIL.Image.MAX_IMAGE_PIXELS`, refused at twice that): raise both for larger images.

    Raises `ImageError` for everything that cannot be read. Nothing is left open; a Pillow image
    that was passed in is left as it is.

    >>> decode(np.zeros((2, 3), dtype=np.uint8)).size
    (3, 2)
    >>> decode("no-such-photo.jpg")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    sightwords.errors.ImageError: no-such-photo.jpg: no such file; check the path ...
    """
    name = name_of(source)
    if isinstance(source, np.ndarray):
        _refuse_size(source.shape[1::-1], limits, name)
        image = array_to_rgb(source, name)
        factor = 1 if whole else _factor(image.size)
        return image if factor == 1 else image.reduce(factor)
    if isinstance(source, Image.Image):
        return _finish(source, limits, name, whole=whole)
    if not isinstance(source, str | os.PathLike | ImageRef):
        source = content_of(source, limits, name)
    return decode_located(source, limits, name, whole=whole)


def decode_located(
    source: str | os.PathLike[str] | bytes | ImageRef,
    limits: ImageLimits,
    name: str,
    *,
    whole: bool = False,
) -> Image.Image:
    """`decode` of encoded bytes, wherever they are; `name` is what errors call them."""
    with open_source(source, limits) as stream:
        return _decode_stream(stream, limits, name, whole=whole)


def content_of(source: object, limits: ImageLimits, name: str) -> bytes:
    """The encoded bytes of a source that is not a regular file, within the limits."""
    if isinstance(source, bytes | bytearray | memoryview):
        content = bytes(source)
    elif isinstance(source, str | os.PathLike | ImageRef):
        with open_source(source, limits) as stream:
            content = stream.read(limits.held_bytes + 1)
    elif hasattr(source, "read"):
        content = _rest_of(source, limits, name)
    else:
        raise ImageError(
            f"cannot decode a {type(source).__name__}; give a path, bytes, a file opened in binary "
            "mode, an ImageRef, a Pillow image or a numpy array"
        )
    if len(content) > limits.held_bytes:
        raise ImageError(
            f"{name}: has more than {limits.held_bytes / MEGABYTE:,.0f} MB, which would all have "
            "to be in memory; write it to a file and give its path"
        )
    return content


def to_array(image: Image.Image) -> npt.NDArray[np.uint8]:
    """The pixels of a decoded image: (height, width, 3) uint8, RGB; a copy.

    >>> to_array(Image.new("RGB", (3, 2), "red")).shape
    (2, 3, 3)
    """
    return np.array(image if image.mode == "RGB" else image_to_rgb(image), dtype=np.uint8)


def _decode_stream(stream: BinaryIO, limits: ImageLimits, name: str, *, whole: bool) -> Image.Image:
    try:
        head = stream.read(512)
        size = stream.seek(0, io.SEEK_END)
        stream.seek(0)
    except OSError as error:
        raise ImageError(
            f"{name}: cannot be read ({one_line(error)}); copy it to another disk"
        ) from error
    if size > limits.held_bytes and read_as_a_whole(head):
        raise ImageError(
            f"{name}: a WebP, AVIF or HEIC file of {size / MEGABYTE:,.0f} MB, over the limit of "
            f"{limits.held_bytes / MEGABYTE:,.0f}; shrink the photo"
        )
    if (canvas := webp_size(head)) is not None:  # Pillow allocates it when it opens the file
        _refuse_size(canvas, limits, name)
        _refuse_memory(canvas, _DECODER_BYTES["WEBP"], limits, name)
    heif = is_heif(head) and _reads_heif()
    formats = (*FORMATS, "HEIF") if heif else FORMATS
    try:
        with _quiet():
            image = Image.open(stream, formats=formats)
    except Image.DecompressionBombError as error:
        raise ImageError(
            f"{name}: too large ({one_line(error)}); shrink the image (or, in Python and if it is "
            "trusted, raise PIL.Image.MAX_IMAGE_PIXELS)"
        ) from error
    except Exception as error:  # decoders fail in every way on bytes that are not an image
        raise ImageError(f"{name}: {describe(head, reads_heif=heif)}") from error
    with image:
        if image.format == "JPEG":
            _refuse_scans(stream, limits, name)
        return _finish(image, limits, name, whole=whole)


def _rest_of(file: Any, limits: ImageLimits, name: str) -> bytes:
    """All that is left of a file that the caller has opened, or one byte over the limit."""
    try:
        content = file.read(limits.held_bytes + 1)
    except Exception as error:  # whatever object it is
        raise ImageError(f"{name}: cannot be read ({one_line(error)})") from error
    if not isinstance(content, bytes):
        raise ImageError(f"{name}: gives {type(content).__name__}; open it in binary mode, 'rb'")
    return content


def _reads_heif() -> bool:
    """Whether Pillow reads HEIC, with its plug-in if that is installed (extra `heic`)."""
    if "HEIF" not in Image.OPEN:
        try:
            plugin = require("pillow_heif", extra="heic", purpose="reading HEIC photos")
        except (MissingExtraError, ImportError):  # not there, or without a library it needs
            return False
        plugin.register_heif_opener(decode_threads=1)
    return True


def _finish(image: Image.Image, limits: ImageLimits, name: str, *, whole: bool) -> Image.Image:
    _refuse_size(image.size, limits, name)
    whole_size = image.size
    if not whole and image.format == "JPEG":
        factor = _factor(image.size)
        image.draft("", (-(-image.width // factor), -(-image.height // factor)))
    _refuse_memory(image.size, _decoder_bytes(image, whole_size), limits, name)
    try:
        rgb = _loaded(image, whole=whole)
    except MemoryError as error:
        raise ImageMemoryError(
            f"{name}: {image.width} x {image.height} pixels of {image.format or 'an image'} take "
            f"more memory to decode than there is, or than the limit allows; {_LESS}"
        ) from error
    except Exception as error:  # as above: OSError, SyntaxError, struct.error, zlib.error, ...
        kind = image.format or "image"
        raise ImageError(
            f"{name}: a damaged or truncated {kind} ({one_line(error)}); "
            "copy or download the file again"
        ) from error
    turn = _UPRIGHT.get(_orientation(image))
    return rgb if turn is None else rgb.transpose(turn)


def _loaded(image: Image.Image, *, whole: bool) -> Image.Image:
    """Decode, and convert to RGB."""
    heif = getattr(image, "_heif_file", None)
    if heif is not None:
        # Straight from the decoder's rows: 48 megapixels of a telephone then take 290 MB, not 410.
        frame = heif[image.tell()]
        data = memoryview(frame.data)  # the size is known for sure only now
        factor = 1 if whole else _factor(frame.size)
        return buffer_to_rgb(data, frame.mode, frame.size, frame.stride, factor=factor)
    image.load()
    return image_to_rgb(image, factor=1 if whole else _factor(image.size))


def _decoder_bytes(image: Image.Image, whole_size: tuple[int, int]) -> float:
    """What decoding allocates per pixel of the result, which is kept.

    A libjpeg or libtiff that runs out of memory reports a damaged file instead.
    """
    kept = _MODE_BYTES.get(image.mode, 4)
    if image.format == "JPEG" and image.info.get("progressive"):
        samples: list[tuple[int, int]] = [part[1:3] for part in getattr(image, "layer", [])]
        area = max((h for h, _ in samples), default=1) * max((v for _, v in samples), default=1)
        coefficients = 2 * sum(h * v for h, v in samples) / area
        return kept + coefficients * math.prod(whole_size) / math.prod(image.size)
    tiles = getattr(image, "tile", ())
    if image.format == "TIFF" and tiles and tiles[0][0] == "libtiff":
        return 2 * kept  # one strip may hold the whole image
    return _DECODER_BYTES.get(image.format or "", kept)


def _factor(size: tuple[int, int]) -> int:
    """What an image is reduced by: the smallest whole factor that brings it to `REDUCED_ABOVE`.

    >>> [_factor(size) for size in ((640, 480), (4000, 3000), (12000, 9000))]
    [1, 2, 4]
    """
    return math.ceil(math.sqrt(size[0] * size[1] / REDUCED_ABOVE)) or 1


def _orientation(image: Image.Image) -> int:
    """The EXIF (or XMP) orientation, 1 to 8; 1 where it is absent or unreadable."""
    if image.format == "TIFF":
        return 1  # Pillow turned it while loading
    try:
        with _quiet():
            return int(image.getexif().get(_ORIENTATION_TAG, 1))
    except Exception:  # odd metadata is common and must not cost the image
        return 1


def _refuse_size(size: tuple[int, ...], limits: ImageLimits, name: str) -> None:
    if len(size) != 2 or 0 in size:
        raise ImageError(f"{name}: has no pixels (size {size}); give an image with both sides > 0")
    width, height = size
    if max(width, height) > limits.side_px:
        raise ImageError(
            f"{name}: {width} x {height} has a side over the limit of {limits.side_px} px; cut the "
            "image into parts"
        )
    if width * height > limits.pixels:
        raise ImageError(
            f"{name}: {width} x {height} is {width * height / 1e6:.0f} megapixels, over the limit "
            f"of {limits.pixels / 1e6:.0f}; shrink the image, or raise the limit if it is trusted "
            "(ImageLimits.pixels in Python, --set max_megapixels=N of sightwords serve)"
        )


def _refuse_memory(size: tuple[int, int], cost: float, limits: ImageLimits, name: str) -> None:
    """`cost`: bytes per pixel."""
    needed = size[0] * size[1] * cost
    if needed > limits.memory_bytes:
        raise ImageMemoryError(
            f"{name}: {size[0]} x {size[1]} would take {needed / MEGABYTE:,.0f} MB to decode, over "
            f"the limit of {limits.memory_bytes / MEGABYTE:,.0f}; {_LESS}"
        )


def _refuse_scans(stream: BinaryIO, limits: ImageLimits, name: str) -> None:
    """A progressive JPEG of thousands of scans takes minutes to decode."""
    place, scans, last = stream.tell(), 0, b""
    stream.seek(0)
    while piece := stream.read(1 << 20):
        # In image data ff is followed by 00, so that ffda begins a scan; thumbnails add a few.
        scans += (last + piece).count(b"\xff\xda")
        last = piece[-1:]
    stream.seek(place)
    if scans > limits.scans:
        raise ImageError(
            f"{name}: a JPEG of {scans:,} scans, over the limit of {limits.scans}; save it again "
            "with an image editor"
        )


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence Pillow's warnings: our own limit and fallbacks speak for them.

    Warning filters belong to the whole process, hence the lock; it is held while a header or
    EXIF block is parsed, never while pixels are unpacked.
    """
    with _warnings_lock, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
