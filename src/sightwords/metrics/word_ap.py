"""Word detection: average precision and Precision at Human Recall (section 6.2, Table 3).

Word scores (N, V) and caption counts (N, V) -> `WordTable`.

Two forms of average precision. `ap_plain` is the text of section 6.2: an image is positive if any
caption has the word. `ap` is what the authors' code computes, and what their table holds: with c
of an image's k captions having the word, the image is worth c (1 - 1/k) true positives and 1
(c = 0), 1/k (c = 1) or no false positives, as if each caption in turn judged by the others. Both
use the precision envelope: precision at a recall is the best at that recall or beyond.

Ties: images with one score pass a threshold together, so precision and recall are taken only
after the last of them. The order of images therefore never matters, and a constant score earns
exactly the base rate, which is the Chance row.

Precision at Human Recall takes people's own recall of the word (how often another caption of the
image repeats it) and reads the detector's precision, without envelope, at the first rank that
reaches it. As in the authors' code, a word that no caption repeats counts, too: its human recall
and human precision are 0, and the first rank reaches it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sightwords._version import __version__
from sightwords.errors import ScoreError
from sightwords.metrics.ngrams import BoolArray, FloatArray, IntArray, Tokens
from sightwords.metrics.word_table import OTHERS, PARTS_OF_SPEECH, CaptionCounts, WordTable

CAPTIONS = 5
"""K: captions used of each image, the first ones; images with fewer use what they have."""

_BLOCK = 64  # words at a time: a block of 5,000 images stays in the cache


def count_words(
    captions: Sequence[Sequence[Tokens]], words: Sequence[str], *, first: int = CAPTIONS
) -> CaptionCounts:
    """Count each word over the first captions of each image.

    >>> counts = count_words([[("a", "dog"), ("a", "a", "cat")]], ["a", "dog", "bird"])
    >>> counts.counts.tolist(), counts.captions.tolist()
    ([[2, 1, 0]], [2])
    """
    column = {word: number for number, word in enumerate(words)}
    counts = np.zeros((len(captions), len(words)), dtype=np.int64)
    for row, of_image in zip(counts, captions, strict=True):
        for caption in of_image[:first]:
            for token in set(caption) & column.keys():
                row[column[token]] += 1
    used = np.array([min(len(of_image), first) for of_image in captions], dtype=np.int64)
    return CaptionCounts(counts, used)


def evaluate_words(
    scores: npt.NDArray[np.floating], truth: CaptionCounts, words: Sequence[str], pos: Sequence[str]
) -> WordTable:
    """Judge the detector word by word; `scores` (N, V), higher meaning likelier.

    >>> truth = CaptionCounts(np.array([[2], [1], [0]]), np.array([2, 2, 2]))
    >>> table = evaluate_words(np.array([[0.9], [0.2], [0.8]]), truth, ["dog"], ["NN"])
    >>> table.ap_plain.round(3).tolist(), table.human_recall.round(3).tolist()
    ([0.833], [0.667])
    """
    _check_shapes(scores, truth, words, pos)
    columns = [
        _judge_block(np.ascontiguousarray(scores[:, block].T), truth.counts[:, block].T, truth)
        for block in (slice(start, start + _BLOCK) for start in range(0, len(words), _BLOCK))
    ]
    names = ("ap", "ap_plain", "chance", "chance_plain", "phr", "human_precision", "human_recall")
    values = np.concatenate(columns, axis=1) if columns else np.zeros((len(names), 0))
    return WordTable(
        words=tuple(words),
        pos=tuple(p if p in PARTS_OF_SPEECH else OTHERS for p in pos),
        positives=(truth.counts > 0).sum(axis=0),
        signature=_signature(truth),
        **dict(zip(names, values, strict=True)),
    )


def precision_recall(
    scores: npt.NDArray[np.floating], counts: IntArray, captions: IntArray, *, plain: bool = False
) -> tuple[FloatArray, FloatArray]:
    """Precision and recall of one word (N,) after each distinct score, highest first, no envelope.

    >>> precision, recall = precision_recall(
    ...     np.array([0.9, 0.8, 0.8]), np.array([2, 0, 1]), np.array([2, 2, 2]), plain=True
    ... )
    >>> precision.round(3).tolist(), recall.tolist()
    ([1.0, 0.667], [0.5, 1.0])
    """
    truth = CaptionCounts(counts[:, None], captions)
    weights = _plain_weights(counts[None]) if plain else _weights(counts[None], truth)[1:]
    order, is_end = _rank(scores[None])
    true, false = _cumulate(order, *weights)
    precision, recall = _ratio(true, true + false), _ratio(true, true[:, -1:])
    return precision[is_end], recall[is_end]


def _judge_block(
    scores: npt.NDArray[np.floating], counts: IntArray, truth: CaptionCounts
) -> FloatArray:
    """(V, N) of both -> (7, V), the columns that `evaluate_words` names."""
    share, hits, misses = _weights(counts, truth)
    order, is_end = _rank(scores)
    true, false = _cumulate(order, hits, misses)
    plain = _cumulate(order, *_plain_weights(counts))
    repeats = (counts * (counts - 1) * share).sum(axis=1).astype(np.float64)  # n of the paper
    alone = np.where(counts == 1, misses, 0.0).sum(axis=1)
    return np.stack(
        [
            _average_precision(true, false, is_end),
            _average_precision(*plain, is_end),
            _base_rate(true, false),
            _base_rate(*plain),
            _precision_at(repeats, true, false, is_end),
            _ratio(repeats, repeats + alone),
            _ratio(repeats, true[:, -1]),
        ]
    )


def _weights(counts: IntArray, truth: CaptionCounts) -> tuple[IntArray, FloatArray, FloatArray]:
    """(N,) 1/k and (V, N) true and false positives of the weighted form.

    All in units of one over a common multiple of the k, so that sums are whole numbers and exact.
    """
    unit = math.lcm(*np.unique(truth.captions).tolist())
    share = unit // truth.captions
    hits = counts * (unit - share)
    misses = np.where(counts == 0, unit, np.where(counts == 1, share, 0))
    return share, hits.astype(np.float64), misses.astype(np.float64)


def _plain_weights(counts: IntArray) -> tuple[FloatArray, FloatArray]:
    return (counts > 0).astype(np.float64), (counts == 0).astype(np.float64)


def _rank(scores: npt.NDArray[np.floating]) -> tuple[IntArray, BoolArray]:
    """(V, N) images in falling order of score, and where a run of equal scores ends."""
    order = np.argsort(-scores, axis=1)
    ranked = np.take_along_axis(scores, order, axis=1)
    is_end = np.ones(ranked.shape, dtype=np.bool_)
    is_end[:, :-1] = ranked[:, 1:] != ranked[:, :-1]
    return order, is_end


def _cumulate(
    order: IntArray, hits: FloatArray, misses: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """(V, N) running sums of true and false positives."""
    true = np.cumsum(np.take_along_axis(hits, order, axis=1), axis=1)
    return true, np.cumsum(np.take_along_axis(misses, order, axis=1), axis=1)


def _average_precision(true: FloatArray, false: FloatArray, is_end: BoolArray) -> FloatArray:
    """(V,) area under the envelope; the gains of a tie count at its end's precision."""
    precision = np.where(is_end, _ratio(true, true + false), -1.0)
    envelope = np.maximum.accumulate(precision[:, ::-1], axis=1)[:, ::-1]
    gains = np.diff(true, axis=1, prepend=0.0)
    return _ratio((gains * envelope).sum(axis=1), true[:, -1])


def _precision_at(
    wanted: FloatArray, true: FloatArray, false: FloatArray, is_end: BoolArray
) -> FloatArray:
    """(V,) precision at the first rank with at least the wanted true positives.

    NaN for a word without positives, of which nobody has a recall.
    """
    rank = np.argmax(is_end & (true >= wanted[:, None]), axis=1)[:, None]
    hits = np.take_along_axis(true, rank, axis=1)[:, 0]
    misses = np.take_along_axis(false, rank, axis=1)[:, 0]
    return np.where(true[:, -1] > 0, _ratio(hits, hits + misses), np.nan)


def _base_rate(true: FloatArray, false: FloatArray) -> FloatArray:
    """(V,) precision over all images; NaN for a word without positives."""
    hits, misses = true[:, -1], false[:, -1]
    return np.where(hits > 0, _ratio(hits, hits + misses), np.nan)


def _ratio(numerator: npt.ArrayLike, denominator: npt.ArrayLike) -> FloatArray:
    """Divide; NaN where there is nothing to divide by."""
    top, bottom = np.broadcast_arrays(
        np.asarray(numerator, dtype=np.float64), np.asarray(denominator, dtype=np.float64)
    )
    quotient: FloatArray = np.divide(top, bottom, out=np.full(top.shape, np.nan), where=bottom > 0)
    return quotient


def _signature(truth: CaptionCounts) -> str:
    low, high = int(truth.captions.min()), int(truth.captions.max())
    captions = str(low) if low == high else f"{low}-{high}"
    images, words = truth.counts.shape
    return (
        f"word_ap|captions:{captions}|ties:together|envelope:yes|images:{images}|words:{words}"
        f"|version:{__version__}"
    )


def _check_shapes(
    scores: npt.NDArray[np.floating], truth: CaptionCounts, words: Sequence[str], pos: Sequence[str]
) -> None:
    if scores.shape != truth.counts.shape:
        raise ScoreError(
            f"word scores of shape {scores.shape} and caption counts of shape "
            f"{truth.counts.shape}; expected both (images, words)"
        )
    if not len(words) == len(pos) == scores.shape[1]:
        raise ScoreError(
            f"{len(words)} words and {len(pos)} parts of speech for {scores.shape[1]} columns of "
            "scores; give one of each per column"
        )
    if np.isnan(scores).any():
        image, word = map(int, np.argwhere(np.isnan(scores))[0])
        raise ScoreError(
            f"the score of word {words[word]!r} in image number {image} is NaN; "
            "scores must be numbers to be ranked"
        )
