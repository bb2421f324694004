"""Any photograph -> upright 8-bit RGB (the input of section 3.1).

Decoding is the one place where the package meets bytes of strangers, so it is strict about what
it opens (formats of photographs only: Pillow would run Ghostscript for an EPS), refuses by the
size in the header before it allocates, and turns every failure into an `ImageError` that names
the file. Metadata never costs an image: unreadable EXIF means "upright".

Not done: colour management. ICC profiles are ignored, as they were for the networks' training
images; a wide-gamut photograph comes out slightly pale.
"""

from __future__ import annotations

import io
import os
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, BinaryIO

import numpy as np
import numpy.typing as npt
from PIL import Image

from sightwords.errors import ImageError, MissingExtraError, require
from sightwords.images.pixels import array_to_rgb, image_to_rgb
from sightwords.images.sniff import describe, is_heif
from sightwords.images.source import name_of, one_line, open_source
from sightwords.types import ImageRef

ImageSource = str | os.PathLike[str] | bytes | IO[bytes] | ImageRef | Image.Image | npt.NDArray[Any]

DEFAULT_MAX_PIXELS = 178_956_970
"""Pillow's own hard limit (it takes 0.7 GB to hold that many RGB pixels); a 12000 x 9000
photograph of a 108 megapixel phone passes, a small file that unpacks to gigabytes does not."""

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

_warnings_lock = threading.Lock()


def decode(source: ImageSource, *, max_pixels: int = DEFAULT_MAX_PIXELS) -> Image.Image:
    """Read an image as upright 8-bit RGB, whatever it was stored as.

    Takes a path or URL, encoded bytes, a file opened in binary mode (read from where it stands,
    and left open), an `ImageRef`, a Pillow image, or an array of pixels: (H, W), (H, W, 1),
    (H, W, 3) RGB or (H, W, 4) RGBA; bool, uint8, uint16, or float in 0..1.
    The first frame of an animation. 16-bit values are scaled, not clipped. Transparent parts
    become white, since that is the page most pictures with transparency were drawn for (what
    lies hidden under them is often black or noise).

    `max_pixels` is checked on the header, before pixels are unpacked. Pillow keeps a limit of
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
        _refuse_size(source.shape[1::-1], max_pixels, name)
        return array_to_rgb(source, name)
    if isinstance(source, Image.Image):
        return _finish(source, max_pixels, name)
    if not isinstance(source, str | os.PathLike | ImageRef) and hasattr(source, "read"):
        source = _content(source, name)
    if not isinstance(source, str | os.PathLike | bytes | bytearray | memoryview | ImageRef):
        raise ImageError(
            f"cannot decode a {type(source).__name__}; give a path, bytes, a file opened in binary "
            "mode, an ImageRef, a Pillow image or a numpy array"
        )
    with open_source(source) as stream:
        return _decode_stream(stream, max_pixels, name)


def to_array(image: Image.Image) -> npt.NDArray[np.uint8]:
    """The pixels of a decoded image: (height, width, 3) uint8, RGB; a copy.

    >>> to_array(Image.new("RGB", (3, 2), "red")).shape
    (2, 3, 3)
    """
    return np.array(image if image.mode == "RGB" else image_to_rgb(image), dtype=np.uint8)


def _decode_stream(stream: BinaryIO, max_pixels: int, name: str) -> Image.Image:
    try:
        if not stream.seekable():  # a pipe, which Pillow too would read as a whole
            stream = io.BytesIO(stream.read())
        head = stream.read(512)
        stream.seek(0)
    except OSError as error:
        raise ImageError(
            f"{name}: cannot be read ({one_line(error)}); copy it to a sound disk"
        ) from error
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
        return _finish(image, max_pixels, name)


def _content(file: Any, name: str) -> bytes:
    """All that is left of a file that the caller has opened."""
    try:
        content = file.read()
    except Exception as error:  # whatever object it is
        raise ImageError(f"{name}: cannot be read ({one_line(error)})") from error
    if not isinstance(content, bytes):
        raise ImageError(f"{name}: gives {type(content).__name__}; open it in binary mode, 'rb'")
    return content


def _reads_heif() -> bool:
    """Whether Pillow reads HEIC, with its plug-in if that is installed (extra `heic`)."""
    if "HEIF" not in Image.OPEN:
        try:
            plugin = require("pillow_heif", extra="heic", purpose="reading HEIC photographs")
        except (MissingExtraError, ImportError):  # not there, or without a library it needs
            return False
        plugin.register_heif_opener()
    return True


def _finish(image: Image.Image, max_pixels: int, name: str) -> Image.Image:
    _refuse_size(image.size, max_pixels, name)
    try:
        image.load()
        rgb = image_to_rgb(image)
    except Exception as error:  # as above: OSError, SyntaxError, struct.error, zlib.error, ...
        kind = image.format or "image"
        raise ImageError(
            f"{name}: a damaged or truncated {kind} ({one_line(error)}); "
            "copy or download the file again"
        ) from error
    turn = _UPRIGHT.get(_orientation(image))
    return rgb if turn is None else rgb.transpose(turn)


def _orientation(image: Image.Image) -> int:
    """The EXIF (or XMP) orientation, 1 to 8; 1 where it is absent or unreadable."""
    if image.format == "TIFF":
        return 1  # Pillow turned it while loading
    try:
        with _quiet():
            return int(image.getexif().get(_ORIENTATION_TAG, 1))
    except Exception:  # odd metadata is common and must not cost the image
        return 1


def _refuse_size(size: tuple[int, ...], max_pixels: int, name: str) -> None:
    if len(size) != 2 or 0 in size:
        raise ImageError(f"{name}: has no pixels (size {size}); give an image with both sides > 0")
    width, height = size
    if width * height > max_pixels:
        raise ImageError(
            f"{name}: {width} x {height} is {width * height / 1e6:.0f} megapixels, over the limit "
            f"of {max_pixels / 1e6:.0f}; shrink the image, or raise the limit if it is trusted "
            "(max_pixels in Python, --max-megapixels of sightwords serve)"
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
