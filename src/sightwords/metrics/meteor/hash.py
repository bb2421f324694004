"""Phrases as 64-bit numbers: hashes of any spans of a text, all at once.

The hash is a polynomial in the bytes, modulo 2**64, so that the hash of a span follows from two
prefix sums: one pass of numpy hashes every line of METEOR's paraphrase table, and another every
n-gram of the captions. With the table's 2.6 million phrases and a million of the captions' own, the
chance that any two share a hash is less than one in a million.
"""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]

NEWLINE = ord("\n")
_BASE = 0x9E3779B97F4A7C15  # odd, so that it has an inverse
_MODULUS = 1 << 64


def _letters() -> U64:
    digest = hashlib.shake_256(b"sightwords phrases").digest(256 * 8)
    letters = np.frombuffer(digest, dtype="<u8").astype(np.uint64)
    letters[NEWLINE] = 0  # so that a prefix sum is the same on both sides of a line's end
    return letters


_LETTERS = _letters()


def _powers(base: int, count: int) -> U64:
    powers = np.full(count, base, dtype=np.uint64)
    powers[:1] = 1
    return np.multiply.accumulate(powers)


class SpanHasher:
    """Hashes of any spans of a text, from its prefix sums."""

    def __init__(self, longest: int) -> None:
        self._powers = _powers(_BASE, longest)
        self._inverse_powers = _powers(pow(_BASE, -1, _MODULUS), longest + 1)

    def prefix_sums(self, text: npt.NDArray[np.uint8]) -> U64:
        """(bytes,) sums up to and including each byte."""
        sums = np.take(_LETTERS, text, mode="clip")  # nothing to clip, but faster than indexing
        sums *= self._powers[: len(text)]
        return np.cumsum(sums, out=sums)

    def hashes(self, before: U64, after: U64, starts: I64) -> U64:
        """Hashes of spans from their sums before and after, moved to position 0."""
        return np.asarray((after - before) * self._inverse_powers[starts], dtype=np.uint64)


def scheme() -> str:
    """A mark of this very hash: what was stored under another mark cannot be compared with it.

    >>> scheme()
    'e21d4c7ca4a18a30'
    """
    probe = np.frombuffer(b"a dog\non the beach", dtype=np.uint8)
    return f"{int(SpanHasher(len(probe)).prefix_sums(probe)[-1]):016x}"
