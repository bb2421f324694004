"""No key twice in a whole batch, with 8 bytes of memory per key.

Each machine returns 64-bit prints of its keys. Equal prints are looked for among all of them, and
only units that share a print are compared by name. A billion keys take 8 GB that way, and chance
makes about .03 of them share a print with another, which the names then tell apart.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

Prints = npt.NDArray[np.uint64]


def prints_of(keys: Iterable[str]) -> Prints:
    """A number of 64 bits for each key, the same on every machine.

    >>> prints_of(["a", "b", "a"]).tolist()
    [3405396810240292928, 8453121595177857668, 3405396810240292928]
    """
    digests = (hashlib.blake2b(_bytes(key), digest_size=8).digest() for key in keys)
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


def shared_prints(prints: Sequence[Prints]) -> Prints:
    """Those that occur more than once in all of them, sorted.

    >>> shared_prints([np.array([5, 2], np.uint64), np.array([7, 5], np.uint64)])
    array([5], dtype=uint64)
    """
    found = [np.empty(0, np.uint64)]
    for digit in range(16):  # a sixteenth at a time, to save memory
        every = np.sort(np.concatenate([*found[:1], *(p[p >> 60 == digit] for p in prints)]))
        found.append(np.unique(every[1:][every[1:] == every[:-1]]))
    return np.concatenate(found)


def doubles(
    prints: Mapping[int, Prints], keys_of: Callable[[int], Sequence[str]]
) -> dict[str, list[int]]:
    """Keys that are in several units, or several times in one, with those units.

    >>> held = {0: ["a", "b"], 1: ["c", "b"]}
    >>> doubles({unit: prints_of(keys) for unit, keys in held.items()}, held.__getitem__)
    {'b': [0, 1]}
    """
    shared = shared_prints(list(prints.values()))
    if not len(shared):
        return {}
    found: dict[str, list[int]] = {}
    for unit, own in prints.items():
        suspect = np.isin(own, shared)
        if suspect.any():
            keys = keys_of(unit)
            for index in np.flatnonzero(suspect).tolist():
                found.setdefault(keys[index], []).append(unit)
    return {key: units for key, units in found.items() if len(units) > 1}


def _bytes(key: str) -> bytes:
    return key.encode("utf-8", "surrogatepass")
