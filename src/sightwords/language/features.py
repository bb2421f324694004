"""Table 1 of the paper (section 4.1), once: what training and decoding both look up.

Given a word, those before it and the attribute set (detected words not yet mentioned), the score
of Eq. 3 is the sum of these weights:

    Attribute   one weight            the word is in the attribute set
    Score       one weight            times the word's log-probability, while it is in the set
    N-gram+/-   one per N-gram        + while its last word is in the attribute set, - otherwise
    End         one per word          the attribute set is empty
    distant+/-  one per pair          option: bigrams over a gap, (w[l-2], w[l]), (w[l-3], w[l])

Unigram and End weights are arrays over the vocabulary. The others are hashed: a *context* (the
words before, and which of + and -) hashes to a place in one table, and the weights of all words
after it stand from there on, in the order of their ids:

    weight = table[(context_start(context) + word) mod size]

so that one context's frequent words share a cache line, and scoring every word reads one run of
memory. N-grams that collide share a weight (Mikolov et al. 2011).

`mix` and `fill_contexts` are written so that numpy (arrays of contexts) and numba (one context)
run the same lines.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sightwords.text.vocabulary import Vocabulary

IntArray = npt.NDArray[np.int32]
FloatArray = npt.NDArray[np.float32]

HASH_NAME = "mix64-contiguous-1"
"""Stored in a model's file: a table is useless under another hash."""
MINUS, PLUS = 0, 1
"""The word is outside, or in, the attribute set."""
SMALLEST_PROB = 1e-6
"""Detector probabilities are raised to this before their logarithm is taken."""

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio: odd, bits well spread
_FOLD = np.uint64(29)
_ONE = np.uint64(1)
_NGRAM = np.uint64(0x51)
_DISTANT = np.uint64(0xD5)


def mix(state: Any, value: Any) -> Any:
    """Hash `value` into `state`; both uint64, arrays or (in numba) numbers."""
    product = (state ^ (value + _ONE)) * _MULTIPLIER
    return product ^ (product >> _FOLD)


def context_count(order: int, distant: bool) -> int:
    """Number of hashed contexts of a history: bigram to N-gram, then the distant pairs.

    >>> context_count(4, False), context_count(4, True)
    (3, 5)
    """
    return (order - 1) + (max(0, order - 2) if distant else 0)


def fill_contexts(history: Any, out: Any, distant: bool) -> None:
    """Hash the contexts of a history into `out`, the same for + and -.

    history: (order - 1,) uint64 word ids, the last word last, or (order - 1, K) for K histories;
    out: (contexts,) uint64, or (contexts, K).
    """
    reach = len(history)
    state = mix(history[reach - 1] * np.uint64(0), _NGRAM)
    for back in range(reach):
        state = mix(state, history[reach - 1 - back])
        out[back] = state
    if distant:
        for back in range(1, reach):
            gap = mix(history[reach - 1] * np.uint64(0), _DISTANT + np.uint64(back))
            out[reach + back - 1] = mix(gap, history[reach - 1 - back])


def context_start(context: Any, sign: Any, shift: Any) -> Any:
    """Where a context's weights start in the table; `shift` is 64 less the table's bits.

    The top bits are taken: they depend on all of the state.
    """
    return mix(context, sign) >> shift


def context_starts(histories: IntArray, *, table_bits: int, distant: bool) -> npt.NDArray[np.int64]:
    """(2, contexts, K): where the weights of N-gram- and N-gram+ start, for K histories.

    histories: (K, order - 1) word ids, the last word last.
    """
    columns = np.ascontiguousarray(histories.T).astype(np.uint64)
    reach, count = columns.shape
    contexts = np.empty((context_count(reach + 1, distant), count), dtype=np.uint64)
    if reach:
        fill_contexts(columns, contexts, distant)
    shift = np.uint64(64 - table_bits)
    both = [context_start(contexts, np.uint64(sign), shift) for sign in (MINUS, PLUS)]
    return np.stack(both).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Attributes:
    """The attribute set V-tilde with its scores, before any word is mentioned."""

    ids: IntArray
    """(A,) word ids, ascending, none twice."""
    log_probs: FloatArray
    """(A,) natural logarithms of the detector's probabilities."""

    def __len__(self) -> int:
        return len(self.ids)

    def remaining(self, size: int) -> npt.NDArray[np.bool_]:
        """(size,) which words of the vocabulary are in the set."""
        found = np.zeros(size, dtype=np.bool_)
        found[self.ids] = True
        return found

    def word_log_probs(self, size: int) -> FloatArray:
        """(size,) the scores; 0 for words outside the set, where nothing reads them."""
        found = np.zeros(size, dtype=np.float32)
        found[self.ids] = self.log_probs
        return found


NO_ATTRIBUTES = Attributes(np.empty(0, dtype=np.int32), np.empty(0, dtype=np.float32))


def attribute_set(
    detected: Mapping[str, float] | Iterable[tuple[str, float]], vocabulary: Vocabulary
) -> Attributes:
    """Detected words and their probabilities -> the attribute set of section 4.1.

    Closed-class words and words outside the vocabulary are left out; of a word given twice the
    larger probability counts.

    >>> words = Vocabulary(("a", "dog", "cat"), (3, 2, 1), 6)
    >>> found = attribute_set({"a": 0.9, "cat": 0.5, "dog": 1.0, "zebra": 0.9}, words)
    >>> found.ids.tolist(), np.exp(found.log_probs).tolist()
    ([1, 2], [1.0, 0.5])
    """
    pairs = detected.items() if isinstance(detected, Mapping) else detected
    best: dict[int, float] = {}
    for word, prob in pairs:
        if word in vocabulary.ids and word not in vocabulary.closed_class:
            best[vocabulary.ids[word]] = max(prob, best.get(vocabulary.ids[word], SMALLEST_PROB))
    ids = sorted(best)
    return Attributes(
        np.array(ids, dtype=np.int32),
        np.array([math.log(min(best[i], 1.0)) for i in ids], dtype=np.float32),
    )


def pack(remaining: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint8]:
    """Attribute sets (..., V) as bit sets (..., ceil(V / 8)), word 0 in the lowest bit.

    >>> pack(np.array([True, False, True])).tolist()
    [5]
    """
    return np.packbits(remaining, axis=-1, bitorder="little")


def unpack(bits: npt.NDArray[np.uint8], size: int) -> npt.NDArray[np.bool_]:
    """The inverse of `pack` for a vocabulary of `size` words."""
    return np.unpackbits(bits, axis=-1, count=size, bitorder="little").astype(np.bool_)
