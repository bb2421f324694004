"""Is one system better than another? Tests on the same images.

`wilcoxon` is the paper's test (section 6.3): signed ranks of per-image differences, which the paper
takes of METEOR and of `four_gram_overlap`. `paired_bootstrap` (Efron and Tibshirani 1993; Koehn,
EMNLP 2004) resamples images and also serves metrics that are not means over images, such as corpus
BLEU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sightwords.errors import ScoreError, require
from sightwords.metrics.bleu import statistics
from sightwords.metrics.ngrams import FloatArray, IntArray
from sightwords.metrics.score import Comparison, Score, signature

RESAMPLES = 1000
"""As in the paper (section 6.1)."""

NOISE = 1e-10
"""Differences below this are rounding, not a difference between captions."""

_BLOCK = 2_000_000  # drawn images at a time


@dataclass(frozen=True, slots=True)
class PairedTest:
    """The outcome of a test of first against second."""

    test: str
    """What was done, with its settings."""
    difference: float
    """First minus second."""
    p_value: float
    """Two-sided."""
    images: int
    differing: int
    """Images on which the two differ."""
    low: float | None = None
    """5th percentile of the resampled difference; bootstrap only."""
    high: float | None = None
    """95th percentile."""


def wilcoxon(first: npt.ArrayLike, second: npt.ArrayLike) -> PairedTest:
    """Wilcoxon's signed-rank test on per-image values, two-sided; equal pairs are left out.

    Two systems without a difference have p = 1.

    >>> test = wilcoxon([3.0, 5.0, 4.0, 6.0, 9.0], [1.0, 2.0, 0.0, 1.0, 3.0])
    >>> round(test.p_value, 4), test.differing  # all five in favour: 2 / 2**5
    (0.0625, 5)
    """
    left, right = _paired(first, second)
    delta = _quiet(left - right)
    differing = int(np.count_nonzero(delta))
    p_value = 1.0
    if differing:
        stats = require("scipy.stats", extra="eval", purpose="the Wilcoxon test")
        unequal = delta[delta != 0]  # dropped here: versions of scipy differ in what zeros entail
        p_value = float(stats.wilcoxon(unequal, correction=False).pvalue)
    name = "wilcoxon|zeros:dropped|sided:two"
    return PairedTest(name, float(delta.mean()), p_value, len(delta), differing)


def paired_bootstrap(
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    *,
    rng: np.random.Generator,
    resamples: int = RESAMPLES,
    statistic: Callable[[FloatArray], FloatArray] | None = None,
) -> PairedTest:
    """Draw images with replacement, the same for both systems, and look at the difference.

    `first` and `second` are per-image values (N,), compared by their means; or, with `statistic`,
    rows of statistics (N, D) whose sums (..., D) it turns into a value (...): see `score.Sums`.
    The p-value is twice the share of resamples on the far side of zero, counting one more.

    >>> test = paired_bootstrap([1.0, 2, 3], [0.0, 1, 2], rng=np.random.default_rng(0))
    >>> test.difference, test.differing, round(test.p_value, 4)
    (1.0, 3, 0.002)
    """
    left, right = _paired(first, second)
    if resamples < 1:
        raise ScoreError(f"{resamples} resamples; draw at least 1, the paper draws {RESAMPLES}")
    differing = int(np.count_nonzero(_quiet(left - right).reshape(len(left), -1).any(axis=1)))
    rows = np.hstack([x.reshape(len(left), -1) for x in (left, right)])  # (N, 2D)
    value = statistic or (lambda sums: sums[..., 0] / len(left))

    def difference(sums: FloatArray) -> FloatArray:
        middle = sums.shape[-1] // 2
        return _quiet(value(sums[..., :middle]) - value(sums[..., middle:]))

    drawn = np.concatenate(
        [difference(times @ rows) for times in _draws(len(left), resamples, rng)]
    )
    far = min(int((drawn <= 0).sum()), int((drawn >= 0).sum()))
    low, high = np.percentile(drawn, [5, 95])
    return PairedTest(
        test=f"paired-bootstrap|resamples:{resamples}|sided:two",
        difference=float(difference(rows.sum(axis=0))),
        p_value=min(1.0, 2 * (far + 1) / (resamples + 1)),
        images=len(left),
        differing=differing,
        low=float(low),
        high=float(high),
    )


def four_gram_overlap(pairs: Comparison) -> Score:
    """The share of each candidate's 4-grams found in its references, clipped; and their mean.

    The paper does not define its "4-gram overlap"; this is BLEU's 4-gram precision of one image.
    Candidates of fewer than four words have no 4-gram and score 0.

    >>> reference = ("a", "dog", "runs", "on", "grass")
    >>> pairs = Comparison(("1",), (("a", "dog", "runs", "on", "sand"),), ((reference,),))
    >>> four_gram_overlap(pairs).value
    0.5
    """
    found = statistics(pairs.table)
    per_image = found.correct[:, 3] / np.maximum(found.total[:, 3], 1)
    return Score(
        metric="overlap_4",
        value=float(per_image.mean()),
        per_image=per_image,
        signature=signature("overlap_4", pairs, clipped="yes"),
    )


def _draws(size: int, resamples: int, rng: np.random.Generator) -> Iterator[IntArray]:
    """(block, N): how often each resample holds each image."""
    block = max(1, _BLOCK // size)
    for start in range(0, resamples, block):
        rows = min(block, resamples - start)
        drawn = rng.integers(size, size=(rows, size)) + size * np.arange(rows)[:, None]
        yield np.bincount(drawn.ravel(), minlength=rows * size).reshape(rows, size)


def _quiet(difference: FloatArray) -> FloatArray:
    return np.where(np.abs(difference) < NOISE, 0.0, difference)


def _paired(first: npt.ArrayLike, second: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    left, right = _checked(first, "first"), _checked(second, "second")
    if left.shape != right.shape:
        raise ScoreError(
            f"first has values of shape {left.shape} and second {right.shape}; "
            "give both systems' values for the same images in the same order"
        )
    return left, right


def _checked(values: npt.ArrayLike, name: str) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    if not array.size:
        raise ScoreError(f"{name} holds no values; give at least one image")
    if not np.isfinite(array).all():
        raise ScoreError(f"{name} holds values that are not finite; leave those images out of both")
    return array
