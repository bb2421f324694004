"""n-gram counts of candidates and references, made once and shared by BLEU and CIDEr.

Sentences -> `NgramTable`. Tokens become numbers, an n-gram becomes the pair (number of its first
n - 1 tokens, number of its last token), and one sort per order brings equal n-grams together, so
that everything BLEU and CIDEr ask for is a pass over sorted arrays.

S sentences, T tokens; per order G distinct n-grams, E cells (an n-gram in a sentence) and
R runs (an n-gram in an image, that is in any of its sentences).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from sightwords.errors import ScoreError

Tokens = tuple[str, ...]
IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

ORDERS = 4
"""BLEU and CIDEr both stop at 4-grams."""
BLOCK = 10_000
"""Sentences counted together in M-best lists; larger tables fall out of the processor's cache."""


@dataclass(frozen=True, slots=True)
class Interned:
    """The sentences of every image as one row of token numbers."""

    tokens: IntArray
    """(T,) image by image: the candidates of the image, then its references."""
    starts: IntArray
    """(S + 1,) sentence s is `tokens[starts[s]:starts[s + 1]]`."""
    image: IntArray
    """(S,) which image the sentence is about, ascending."""
    is_candidate: BoolArray
    """(S,)"""
    vocabulary: Mapping[str, int]
    images: int

    @property
    def lengths(self) -> IntArray:
        """(S,) tokens in each sentence."""
        return np.diff(self.starts)


@dataclass(frozen=True, slots=True)
class Pairs:
    """Every candidate beside every reference of its image: P pairs of C candidates."""

    candidate: IntArray
    """(P,) sentence number, ascending."""
    reference: IntArray
    """(P,) sentence number, ascending within a candidate."""
    starts: IntArray
    """(C,) the first pair of each candidate."""
    offset: IntArray
    """(S,) the pair of candidate c and reference r is number `offset[c] + r`."""


@dataclass(frozen=True, slots=True)
class OrderCounts:
    """How often each n-gram of one order occurs in each sentence."""

    prefix: IntArray
    """(G,) number of its first n - 1 tokens in the order below; 0 for single tokens."""
    last: IntArray
    """(G,) number of its last token; n-grams are sorted by (prefix, last)."""
    gram: IntArray
    """(E,) ascending."""
    sentence: IntArray
    """(E,) ascending within an n-gram."""
    count: IntArray
    """(E,) at least 1."""
    run: IntArray
    """(E,) which run the cell belongs to, ascending."""
    run_gram: IntArray
    """(R,)"""
    reference_count: IntArray
    """(R,) the largest count in one reference of the image; 0 when only candidates have it."""


@dataclass(frozen=True, slots=True)
class NgramTable:
    """Every n-gram count of a set of images, orders 1 to 4."""

    sentences: Interned
    orders: tuple[OrderCounts, ...]


def count_ngrams(
    candidates: Sequence[Sequence[Tokens]], references: Sequence[Sequence[Tokens]]
) -> NgramTable:
    """Count the n-grams of images with any number of candidates and references each.

    >>> table = count_ngrams([[("a", "dog")]], [[("a", "dog", "runs"), ("a", "a")]])
    >>> table.orders[0].count.tolist()  # a: 1, 1 and 2 times; dog: twice; runs: once
    [1, 1, 2, 1, 1, 1]
    >>> table.orders[1].reference_count.tolist()  # 'a dog', 'dog runs', 'a a' by number
    [1, 1, 1]
    """
    sentences = intern(candidates, references)
    return NgramTable(sentences, _count_orders(sentences))


def count_in_blocks(
    candidates: Sequence[Sequence[Tokens]],
    references: Sequence[Sequence[Tokens]],
    *,
    sentences: int = BLOCK,
) -> Iterator[NgramTable]:
    """`count_ngrams` for M-best lists of many images: tables of whole images, in order.

    >>> dogs, refs = [[("a", "dog")] * 3] * 4, [[("a", "dog")]] * 4
    >>> [table.sentences.images for table in count_in_blocks(dogs, refs, sentences=8)]
    [2, 2]
    """
    start, size = 0, 0
    for image, (mine, theirs) in enumerate(zip(candidates, references, strict=True)):
        if size and size + len(mine) + len(theirs) > sentences:
            yield count_ngrams(candidates[start:image], references[start:image])
            start, size = image, 0
        size += len(mine) + len(theirs)
    yield count_ngrams(candidates[start:], references[start:])


def intern(
    candidates: Sequence[Sequence[Tokens]], references: Sequence[Sequence[Tokens]]
) -> Interned:
    """Number the tokens in order of first appearance.

    >>> intern([[("a", "dog")]], [[("the", "dog")]]).tokens.tolist()
    [0, 1, 2, 1]
    """
    pairs = list(zip(candidates, references, strict=True))
    sentences = [s for of_image in pairs for s in chain.from_iterable(of_image)]
    flat = list(chain.from_iterable(sentences))
    vocabulary = {token: number for number, token in enumerate(dict.fromkeys(flat))}
    lengths = np.fromiter(map(len, sentences), np.int64, len(sentences))
    per_image = np.array([(len(c), len(r)) for c, r in pairs], dtype=np.int64).reshape(-1, 2)
    return Interned(
        tokens=np.fromiter(map(vocabulary.__getitem__, flat), np.int64, len(flat)),
        starts=np.concatenate(([0], np.cumsum(lengths))),
        image=np.repeat(np.arange(len(pairs)), per_image.sum(axis=1)),
        is_candidate=np.repeat(np.tile([True, False], len(pairs)), per_image.ravel()),
        vocabulary=vocabulary,
        images=len(pairs),
    )


def pair_up(sentences: Interned) -> Pairs:
    """Put each candidate beside the references of its image.

    >>> pairs = pair_up(intern([[("a",), ("b",)]], [[("c",), ("d",)]]))
    >>> list(zip(pairs.candidate.tolist(), pairs.reference.tolist()))
    [(0, 2), (0, 3), (1, 2), (1, 3)]
    """
    is_candidate, image = sentences.is_candidate, sentences.image
    references = np.bincount(image[~is_candidate], minlength=sentences.images)  # an image
    last = np.cumsum(np.bincount(image, minlength=sentences.images))
    candidates = np.flatnonzero(is_candidate)
    width = references[image[candidates]]  # (C,)
    if not width.all():
        bare = int(image[candidates[np.flatnonzero(width == 0)[0]]])
        raise ScoreError(
            f"image number {bare} has a candidate and no reference; give it one or leave it out"
        )
    starts = np.cumsum(width) - width
    first_reference = (last - references)[image[candidates]]
    offset = np.zeros(len(image), dtype=np.int64)
    offset[candidates] = starts - first_reference
    candidate = np.repeat(candidates, width)
    return Pairs(candidate, np.arange(width.sum()) - offset[candidate], starts, offset)


def spans(first: IntArray, counts: IntArray) -> IntArray:
    """Ranges of numbers, one after the other: `counts[i]` of them from `first[i]` on.

    >>> spans(np.array([5, 9]), np.array([3, 2])).tolist()
    [5, 6, 7, 9, 10]
    """
    ends = np.cumsum(counts)
    return np.repeat(first - (ends - counts), counts) + np.arange(ends[-1] if len(ends) else 0)


def _count_orders(sentences: Interned) -> tuple[OrderCounts, ...]:
    tokens, lengths = sentences.tokens, sentences.lengths
    sentence_of = np.repeat(np.arange(len(lengths)), lengths)  # (T,)
    remaining = sentences.starts[1:][sentence_of] - np.arange(len(tokens))  # (T,) to the end
    size = len(sentences.vocabulary)
    number = np.zeros_like(tokens)  # (T,) of the n-gram that starts at each token
    orders = []
    for order in range(1, ORDERS + 1):
        position = np.flatnonzero(remaining >= order)
        keys = number[position] * size + tokens[position + order - 1]
        keys, position = _sort_together(keys, position, len(tokens))
        is_new = _starts_of_runs(keys)
        gram = np.cumsum(is_new) - 1
        prefix, last = np.divmod(keys[is_new], max(size, 1))
        orders.append(_cells(prefix, last, gram, sentence_of[position], sentences))
        number[position] = gram
    return tuple(orders)


def _sort_together(keys: IntArray, position: IntArray, positions: int) -> tuple[IntArray, IntArray]:
    """Sort by key, then position.

    Key and position packed into one integer sort several times faster than an argsort, numpy
    having vectorised the former; the argsort is for texts too large to pack.
    """
    bits = positions.bit_length()
    if not len(keys) or int(keys.max()).bit_length() + bits > 63:
        order = np.argsort(keys, kind="stable")
        return keys[order], position[order]
    packed = (keys << bits) | position
    packed.sort()
    return packed >> bits, packed & ((1 << bits) - 1)


def _cells(
    prefix: IntArray, last: IntArray, gram: IntArray, sentence: IntArray, sentences: Interned
) -> OrderCounts:
    """Count equal (n-gram, sentence) pairs, which stand together, then mark the runs."""
    first = np.flatnonzero(_starts_of_runs(gram, sentence))
    count = np.diff(np.append(first, len(gram)))
    gram, sentence = gram[first], sentence[first]
    is_new_run = _starts_of_runs(gram, sentences.image[sentence])
    run_starts = np.flatnonzero(is_new_run)
    in_reference = np.where(sentences.is_candidate[sentence], 0, count)
    largest = np.maximum.reduceat(in_reference, run_starts) if len(count) else in_reference
    run = np.cumsum(is_new_run) - 1
    return OrderCounts(prefix, last, gram, sentence, count, run, gram[run_starts], largest)


def _starts_of_runs(*columns: IntArray) -> BoolArray:
    """Mark each row that differs from the one before it; the first always does."""
    is_new = np.zeros(len(columns[0]), dtype=np.bool_)
    is_new[:1] = True
    for column in columns:
        is_new[1:] |= column[1:] != column[:-1]
    return is_new
