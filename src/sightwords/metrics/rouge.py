"""ROUGE-L (Lin, ACL 2004 workshop) as the COCO caption tools compute it.

`Comparison` -> `Score`. The longest common subsequence of candidate and reference, over their
lengths, gives precision and recall; the best precision and the best recall are taken separately
over the references and joined with beta = 1.2.

The subsequences of all pairs are found together, one bit per candidate token: Hyyro's bit-parallel
recurrence (2004), run on whole arrays.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sightwords.metrics.ngrams import FloatArray, IntArray, Interned, Pairs, pair_up, spans
from sightwords.metrics.score import Comparison, Score, signature

BETA = 1.2
WORD_BITS = 64

BitArray = npt.NDArray[np.uint64]


def rouge_l(pairs: Comparison) -> Score:
    """ROUGE-L of each image, and their mean.

    >>> pairs = Comparison(("1",), (("a", "dog", "runs"),), ((("a", "big", "dog"),),))
    >>> round(rouge_l(pairs).value, 3)  # 'a dog' is in both: precision and recall 2/3
    0.667
    """
    per_image = candidate_scores(pairs.sentences)
    return Score(
        metric="rouge_l",
        value=float(per_image.mean()),
        per_image=per_image,
        signature=signature("rouge_l", pairs, beta=BETA),
    )


def candidate_scores(sentences: Interned) -> FloatArray:
    """(C,) ROUGE-L of every candidate; any number of them per image."""
    pairs, lengths = pair_up(sentences), sentences.lengths
    if not len(pairs.starts):
        return np.zeros(0)
    common = _lcs_lengths(sentences, pairs)
    precision = common / np.maximum(lengths[pairs.candidate], 1)
    recall = common / np.maximum(lengths[pairs.reference], 1)
    best_precision = np.maximum.reduceat(precision, pairs.starts)
    best_recall = np.maximum.reduceat(recall, pairs.starts)
    denominator = best_recall + BETA**2 * best_precision
    scores: FloatArray = np.divide(
        (1 + BETA**2) * best_precision * best_recall,
        denominator,
        out=np.zeros_like(denominator),
        where=denominator > 0,
    )
    return scores


def lcs_length(first: Sequence[object], second: Sequence[object]) -> int:
    """Length of the longest common subsequence of two sequences of any length.

    >>> lcs_length("a man rides a horse".split(), "a horse and a man".split())
    2
    """
    matches: dict[object, int] = {}
    for position, token in enumerate(first):
        matches[token] = matches.get(token, 0) | 1 << position
    ones = (1 << len(first)) - 1
    row = ones  # a zero bit marks a place where the subsequence grows
    for token in second:
        hit = row & matches.get(token, 0)
        row = ((row + hit) | (row - hit)) & ones
    return len(first) - row.bit_count()


def _lcs_lengths(sentences: Interned, pairs: Pairs) -> IntArray:
    """(P,) for each pair; the few sentences beyond one machine word go one by one."""
    starts, lengths = sentences.starts, sentences.lengths
    long = lengths[pairs.candidate] > WORD_BITS
    common = np.zeros(len(long), dtype=np.int64)
    short = np.flatnonzero(~long)
    common[short] = _bit_parallel(sentences, pairs.candidate[short], pairs.reference[short])
    for pair in np.flatnonzero(long):
        candidate, reference = pairs.candidate[pair], pairs.reference[pair]
        common[pair] = lcs_length(
            sentences.tokens[starts[candidate] : starts[candidate + 1]].tolist(),
            sentences.tokens[starts[reference] : starts[reference + 1]].tolist(),
        )
    return common


def _bit_parallel(sentences: Interned, candidate: IntArray, reference: IntArray) -> IntArray:
    """(P,) for candidates of at most 64 tokens."""
    length, height = sentences.lengths[candidate], sentences.lengths[reference]
    matches, offset = _match_bits(sentences, candidate, reference)
    by_height = np.argsort(-height, kind="stable")  # the pairs still running are the first ones
    running = np.searchsorted(-height[by_height], -np.arange(int(height.max(initial=0))), "left")
    row = np.full(len(length), ~np.uint64(0), dtype=np.uint64)
    offset = offset[by_height]
    for step, count in enumerate(running):
        now = row[:count]
        hit = now & matches[offset[:count] + step]
        row[:count] = (now + hit) | (now - hit)
    zeros = np.empty_like(length)
    zeros[by_height] = _count_ones(~row & _low_bits(length[by_height]))
    return zeros


def _match_bits(
    sentences: Interned, candidate: IntArray, reference: IntArray
) -> tuple[BitArray, IntArray]:
    """For every reference token, the candidate positions it equals: bits, and where each pair's
    tokens begin.
    """
    length, height = sentences.lengths[candidate], sentences.lengths[reference]
    by_length = np.argsort(-length, kind="stable")  # longest candidates first: work on a prefix
    heights = height[by_length]
    ends = np.cumsum(heights)
    pair = np.repeat(np.arange(len(by_length)), heights)
    tokens = sentences.tokens[spans(sentences.starts[reference[by_length]], heights)]
    bits = np.zeros(len(tokens), dtype=np.uint64)
    first = sentences.starts[candidate[by_length]]
    reaching = np.searchsorted(-length[by_length], -np.arange(int(length.max(initial=0))), "left")
    for position, count in enumerate(reaching):
        size = int(ends[count - 1])
        same = sentences.tokens[first[:count] + position][pair[:size]] == tokens[:size]
        bits[:size] |= same.astype(np.uint64) << np.uint64(position)
    offset = np.empty_like(ends)
    offset[by_length] = ends - heights
    return bits, offset


def _low_bits(count: IntArray) -> BitArray:
    """`count` ones, 0 to 64 of them."""
    shift = np.minimum(count, WORD_BITS - 1).astype(np.uint64)
    ones = (np.uint64(1) << shift) - np.uint64(1)
    low: BitArray = np.where(count >= WORD_BITS, ~np.uint64(0), ones)
    return low


def _count_ones(words: BitArray) -> IntArray:
    """Ones in each 64-bit word; numpy has this only from version 2 on."""
    octets = np.unpackbits(words.view(np.uint8).reshape(-1, 8), axis=1)
    ones: IntArray = octets.sum(axis=1, dtype=np.int64)
    return ones
