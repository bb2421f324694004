"""What one photo may cost: bytes, pixels, memory and seconds."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sightwords.errors import ConfigError

MEGABYTE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageLimits:
    """Limits that are checked before or while a photo is decoded.

    The defaults take JPEGs of 12,000 x 9,000, PNGs and TIFFs of 64 megapixels, HEIC of 50, AVIF of
    30, WebP and JPEG 2000 of 15.

    >>> ImageLimits(pixels=0)
    Traceback (most recent call last):
        ...
    sightwords.errors.ConfigError: limits of a photo: pixels is 0; expected more than 0
    """

    file_bytes: int = 512 * MEGABYTE
    """Of a file on disk, which is read piece by piece."""
    held_bytes: int = 96 * MEGABYTE
    """Of what has to be in memory as a whole: bytes, a shard's member, a download, a pipe; and of
    WebP, AVIF and HEIC files, which their decoders read as a whole."""
    pixels: int = 178_956_970
    """Width times height, as the header says. Pillow's own limit is the same."""
    side_px: int = 65_535
    """Width or height."""
    memory_bytes: int = 300 * MEGABYTE
    """What the decoder may allocate (`decode_apart`), and what the header says that it will."""
    scans: int = 500
    """Of a progressive JPEG; cameras and editors write about ten."""
    seconds: float = 8.0
    """For reading and decoding (`decode_apart`)."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if not value > 0:
                raise ConfigError(f"limits of a photo: {name} is {value}; expected more than 0")


DEFAULT_LIMITS = ImageLimits()

MAX_SECONDS = 10.0
"""For one photo with its caption."""
MAX_MEGABYTES = DEFAULT_LIMITS.memory_bytes / MEGABYTE
"""For decoding one photo."""
LEAST_MEGABYTES = 16
"""With less, some decoders do not even start, and a sound photo looks damaged."""


def limits_of(max_seconds: float, max_megabytes: float = MAX_MEGABYTES) -> ImageLimits:
    """The limits where a photo and its caption may take so long: a fifth is for the caption.

    >>> limits_of(10).seconds
    8.0
    """
    memory_bytes = max(1, int(max_megabytes * MEGABYTE))
    return replace(DEFAULT_LIMITS, seconds=0.8 * max_seconds, memory_bytes=memory_bytes)
