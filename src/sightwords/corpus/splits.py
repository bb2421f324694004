"""Splits and choices that are the same on every machine and for every order of the input.

The paper (section 6) halves COCO's validation set into validation and test, and scores with 4
randomly chosen references; it lists neither the ids nor the choice, so both are functions of a
seed here. Holding out and halving by hash need no list at all: each id decides for itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from sightwords.errors import CorpusError

COCO_DIGITS = 12
"""Of an image id in the names of COCO's files."""


def paper_halves(ids: Iterable[str], *, seed: int) -> tuple[frozenset[str], frozenset[str]]:
    """Images in two random halves, validation and test (section 6, footnote on the COCO split).

    The ids are sorted before the shuffle, so that their order does not matter; of an odd number
    the second half gets one more, as in the paper (20,243 and 20,244).

    >>> validation, test = paper_halves(["3", "1", "5", "2", "4"], seed=0)
    >>> len(validation), len(test), sorted(validation | test)
    (2, 3, ['1', '2', '3', '4', '5'])
    """
    ordered = sorted(set(ids))
    shuffled = np.random.default_rng(seed).permutation(len(ordered))
    half = len(ordered) // 2
    first = frozenset(ordered[i] for i in shuffled[:half])
    return first, frozenset(ordered) - first


def choose_references(
    references: Mapping[str, Sequence[str]], *, seed: int, count: int = 4
) -> dict[str, tuple[str, ...]]:
    """Section 6, Metrics: `count` randomly selected references for each image.

    Each image has a generator of its own, seeded by `seed` and its id: neither the other images
    nor the order of the captions change its choice. Images with `count` or fewer keep them all.
    The chosen stay in the order given.

    >>> choose_references({"1": ["a dog", "dogs", "a cat"]}, seed=0, count=2)
    {'1': ('dogs', 'a cat')}
    """
    if count < 1:
        raise CorpusError(f"cannot choose {count} references; ask for 1 or more")
    return {i: _chosen(i, captions, seed, count) for i, captions in references.items()}


def _chosen(image_id: str, captions: Sequence[str], seed: int, count: int) -> tuple[str, ...]:
    by_text = sorted(range(len(captions)), key=captions.__getitem__)
    rng = np.random.default_rng([seed, id_hash(image_id)])
    picks = rng.permutation(len(captions))[:count]
    return tuple(captions[i] for i in sorted(by_text[pick] for pick in picks))


def half_by_hash(image_id: str, *, salt: str = "") -> int:
    """0 or 1, by the id alone: halves that stay put when images are added or removed.

    >>> [half_by_hash(i) for i in ("000000000009", "000000000025", "000000000030")]
    [1, 0, 0]
    """
    return id_hash(image_id, salt=salt) % 2


def coco_half(image_id: str) -> int:
    """`half_by_hash` of a COCO image as its files spell it, however its number is given.

    >>> coco_half("25"), coco_half("000000000025"), half_by_hash("25")
    (0, 0, 1)
    """
    is_number = image_id.isascii() and image_id.isdigit()
    return half_by_hash(image_id.zfill(COCO_DIGITS) if is_number else image_id)


def hold_out(ids: Iterable[str], count: int, *, salt: str = "") -> frozenset[str]:
    """The `count` ids with the smallest hashes: a held-out set that needs no list.

    >>> sorted(hold_out(["a", "b", "c", "d"], 2))
    ['a', 'd']
    """
    pool = set(ids)
    if not 0 <= count <= len(pool):
        raise CorpusError(
            f"cannot hold out {count} of {len(pool)} images; ask for 0 to {len(pool)}"
        )
    return frozenset(sorted(pool, key=lambda i: (id_hash(i, salt=salt), i))[:count])


def id_hash(image_id: str, *, salt: str = "") -> int:
    """64 bits of SHA-256 over `SALT/ID`: the same everywhere, unlike Python's own `hash`."""
    digest = hashlib.sha256(f"{salt}/{image_id}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big")
