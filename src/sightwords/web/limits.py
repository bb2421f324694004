"""What a server accepts, and how much of it at once."""

from __future__ import annotations

from dataclasses import dataclass

from sightwords.errors import ConfigError
from sightwords.images import DEFAULT_LIMITS

MEGABYTE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """All of them positive.

    >>> Limits(queue=0)
    Traceback (most recent call last):
        ...
    sightwords.errors.ConfigError: limits: queue is 0; expected more than 0
    """

    body_bytes: int = 32 * MEGABYTE
    """Of one request, all its photographs together."""
    pixels: int = 64_000_000
    """Of one photograph, read off its header."""
    memory_bytes: int = DEFAULT_LIMITS.memory_bytes
    """For decoding one photo."""
    images: int = 16
    """In one request."""
    sentences: int = 200
    """To rank in one request."""
    seconds: float = 30.0
    """From the first byte of a request to its answer."""
    queue: int = 64
    """Photographs that wait; further ones are answered 503."""
    held_bytes: int = 256 * MEGABYTE
    """Of all requests that are being read or wait; further ones are answered 503."""
    batch: int = 4
    """Photographs that a worker takes at a time, where so many wait."""
    remembered: int = 16
    """Photographs whose word scores (not pixels) a worker keeps, so that other wishes for the same
    photograph are answered at once."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if not value > 0:
                raise ConfigError(f"limits: {name} is {value}; expected more than 0")
