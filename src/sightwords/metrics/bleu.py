"""BLEU-1 to BLEU-4 (Papineni et al., ACL 2002) as the COCO caption tools compute it.

`Comparison` -> four `Score`s. Departures of the COCO tools from the paper, kept here: the
reference length is the closest one (the shorter of two equally close), and two tiny constants
stand in for smoothing, so that a candidate without a matching n-gram scores almost, not exactly,
zero.

`BleuStatistics` are the sums that corpus BLEU is made of: they add up over sentences, which is
what minimum error rate training and the bootstrap need.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from sightwords.errors import ScoreError
from sightwords.metrics.ngrams import (
    ORDERS,
    FloatArray,
    IntArray,
    Interned,
    NgramTable,
    Tokens,
    count_in_blocks,
    pair_up,
)
from sightwords.metrics.score import Comparison, Score, Sums, signature

TINY = 1e-15
"""Added to every numerator."""
SMALL = 1e-9
"""Added to every denominator."""


@dataclass(frozen=True, slots=True)
class BleuStatistics:
    """What BLEU is computed from, one row per candidate."""

    correct: IntArray
    """(C, 4) n-grams of the candidate found in the references, clipped."""
    total: IntArray
    """(C, 4) n-grams of the candidate."""
    candidate_length: IntArray
    """(C,) tokens."""
    reference_length: IntArray
    """(C,) tokens of the reference closest in length."""

    def as_columns(self) -> FloatArray:
        """(C, 10): correct, total, both lengths; sums of rows are statistics too."""
        lengths = (self.candidate_length[:, None], self.reference_length[:, None])
        return np.hstack([self.correct, self.total, *lengths]).astype(np.float64)


def bleu(pairs: Comparison) -> tuple[Score, Score, Score, Score]:
    """BLEU-1, BLEU-2, BLEU-3 and BLEU-4 of the corpus and of each image.

    >>> pairs = Comparison(("1",), (("a", "dog", "runs"),), ((("a", "dog", "sits"),),))
    >>> [round(score.value, 3) for score in bleu(pairs)[:2]]  # 2 of 3 words, 1 of 2 bigrams
    [0.667, 0.577]
    """
    columns = statistics(pairs.table).as_columns()
    corpus = from_columns(columns.sum(axis=0))
    per_image = from_columns(columns)
    first, second, third, fourth = (
        Score(
            metric=f"bleu_{n}",
            value=float(corpus[n - 1]),
            per_image=per_image[:, n - 1].copy(),
            signature=signature(f"bleu_{n}", pairs, length="closest"),
            sums=Sums(columns, partial(_of_order, order=n)),
        )
        for n in range(1, ORDERS + 1)
    )
    return first, second, third, fourth


def _of_order(sums: FloatArray, *, order: int) -> FloatArray:
    return from_columns(sums)[..., order - 1]


def statistics(table: NgramTable) -> BleuStatistics:
    """The sufficient statistics of every candidate in the table, in its order."""
    sentences = table.sentences
    is_candidate = sentences.is_candidate
    length = sentences.lengths[is_candidate]
    correct = [
        np.bincount(
            order.sentence,
            weights=np.minimum(order.count, order.reference_count[order.run]),
            minlength=len(is_candidate),
        )[is_candidate]
        for order in table.orders
    ]
    return BleuStatistics(
        correct=np.stack(correct, axis=1).astype(np.int64),
        total=np.maximum(length[:, None] - np.arange(ORDERS), 0),
        candidate_length=length,
        reference_length=_closest_reference_lengths(sentences),
    )


def statistics_of(
    candidates: Sequence[Sequence[Tokens]], references: Sequence[Sequence[Tokens]]
) -> BleuStatistics:
    """Statistics of many candidates per image (M-best lists), in order.

    >>> found = statistics_of([[("a", "dog"), ("a", "a")]], [[("a", "dog", "runs")]])
    >>> found.correct[:, :2].tolist(), found.reference_length.tolist()
    ([[2, 1], [1, 0]], [3, 3])
    """
    blocks = [statistics(table) for table in count_in_blocks(candidates, references)]
    return BleuStatistics(
        correct=np.concatenate([block.correct for block in blocks]),
        total=np.concatenate([block.total for block in blocks]),
        candidate_length=np.concatenate([block.candidate_length for block in blocks]),
        reference_length=np.concatenate([block.reference_length for block in blocks]),
    )


def from_columns(columns: FloatArray) -> FloatArray:
    """BLEU-1 to BLEU-4 of rows of statistics: (..., 10) -> (..., 4).

    >>> from_columns(np.array([3.0, 2, 1, 0, 4, 3, 2, 1, 4, 4])).round(3).tolist()
    [0.75, 0.707, 0.63, 0.0]
    """
    if columns.shape[-1] != 2 * ORDERS + 2:
        raise ScoreError(
            f"BLEU statistics have {2 * ORDERS + 2} columns, found {columns.shape[-1]}; "
            "use BleuStatistics.as_columns"
        )
    correct, total = columns[..., :ORDERS], columns[..., ORDERS : 2 * ORDERS]
    precision = np.cumprod((correct + TINY) / (total + SMALL), axis=-1)
    ratio = (columns[..., -2] + TINY) / (columns[..., -1] + SMALL)
    brevity = np.exp(np.minimum(0.0, 1.0 - 1.0 / ratio))
    scores: FloatArray = precision ** (1.0 / np.arange(1, ORDERS + 1)) * brevity[..., None]
    return scores


def _closest_reference_lengths(sentences: Interned) -> IntArray:
    """(C,) the length with the smallest (distance, length) over the image's references."""
    lengths, pairs = sentences.lengths, pair_up(sentences)
    if not len(pairs.starts):
        return pairs.starts
    scale = int(lengths.max()) + 1  # distance and length packed: one minimum finds both
    of_reference = lengths[pairs.reference]
    distance = np.abs(of_reference - lengths[pairs.candidate])
    closest: IntArray = np.minimum.reduceat(distance * scale + of_reference, pairs.starts) % scale
    return closest
