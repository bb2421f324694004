"""What language training counts before it learns: words, and which follow which (section 4.2).

Counts of parts add up, pairs of parts unite: the result is that of one pass, byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt

from sightwords.text.vocabulary import Vocabulary
from sightwords.train.language.data import Sentences

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Counted:
    """Occurrences of every outcome, and the different pairs of neighbours, start to end."""

    counts: Numbers
    """(V + 1,)"""
    pairs: Numbers
    """Ascending before * (V + 2) + after; V + 1 stands for the start."""

    @classmethod
    def nothing(cls, vocabulary: Vocabulary) -> Counted:
        """Of no sentences."""
        return cls(np.zeros(len(vocabulary) + 2, dtype=np.int64), np.empty(0, dtype=np.int64))


def count(block: Sentences, vocabulary: Vocabulary) -> Counted:
    """Of one block."""
    outcomes = len(vocabulary) + 2
    before = np.concatenate([[outcomes], block.tokens[:-1]]).astype(np.int64)
    before[block.offsets[:-1]] = outcomes  # the start symbol
    pairs: Numbers = np.unique(before * (outcomes + 1) + block.tokens)
    return Counted(np.bincount(block.tokens, minlength=outcomes), pairs)


def merged(parts: Iterable[Counted]) -> Counted:
    """Of all parts, in any order.

    >>> one = Counted(np.array([1, 2]), np.array([4, 9]))
    >>> both = merged([one, Counted(np.array([0, 5]), np.array([4]))])
    >>> both.counts.tolist(), both.pairs.tolist()
    ([1, 7], [4, 9])
    """
    return reduce(_both, parts)


def _both(one: Counted, other: Counted) -> Counted:
    return Counted(one.counts + other.counts, np.union1d(one.pairs, other.pairs))
