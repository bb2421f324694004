"""What the server accepts, and how much of it at a time."""

from __future__ import annotations

from dataclasses import dataclass

from sightwords.errors import ConfigError
from sightwords.images import DEFAULT_LIMITS

MEGABYTE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """All of them are positive.

    >>> Limits(queue=0)
    Traceback (most recent call last):
        ...
    sightwords.errors.ConfigError: limits: queue is 0; expected more than 0
    """

    body_bytes: int = 32 * MEGABYTE
    """Per request: all its photos together."""
    pixels: int = 64_000_000
    """Per photo, read from its header."""
    memory_bytes: int = DEFAULT_LIMITS.memory_bytes
    """For decoding one photo."""
    images: int = 16
    """Photos per request."""
    sentences: int = 200
    """Sentences to rank per request."""
    seconds: float = 30.0
    """From the first byte of a request to its answer."""
    queue: int = 64
    """Photos that can wait; requests beyond that get 503."""
    held_bytes: int = 256 * MEGABYTE
    """In memory for all current requests; requests beyond that get 503."""
    batch: int = 4
    """The most photos that a worker takes from the queue at a time."""
    remembered: int = 16
    """A worker keeps the word scores (no pixels) of this many photos, so that the same photo with
    other options is answered at once."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if not value > 0:
                raise ConfigError(f"limits: {name} is {value}; expected more than 0")
