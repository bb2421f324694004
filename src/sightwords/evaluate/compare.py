"""Two systems on the same images: differences, p-values, and where they differ most.

The paper calls an improvement significant by Wilcoxon's signed-rank test on 4-gram overlap and
METEOR per image (section 6.3); here every metric is tested so, and with a paired bootstrap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sightwords.errors import ScoreError
from sightwords.evaluate.captions import Report
from sightwords.metrics.ngrams import FloatArray
from sightwords.metrics.score import Comparison
from sightwords.metrics.significance import (
    PairedTest,
    four_gram_overlap,
    paired_bootstrap,
    wilcoxon,
)

RANK_BY = ("cider", "meteor", "rouge_l", "bleu_4", "bleu_3", "bleu_2", "bleu_1")
"""The page ranks images by the first of these that was computed: those that agree best with
people per image come first."""
SHOWN = 24
"""Images of each direction on the page."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One metric of two systems."""

    metric: str
    values: tuple[float, float]
    """Corpus scores; for `overlap_4`, the paper's 4-gram overlap, the means over images."""
    wilcoxon_p: float
    """Two-sided signed-rank test over images."""
    bootstrap_p: float
    """Two-sided paired bootstrap over images."""
    interval: tuple[float, float] | None
    """5th and 95th percentile of the resampled difference; None where what was resampled is not
    the corpus score."""

    @property
    def difference(self) -> float:
        """First system minus second."""
        return self.values[0] - self.values[1]


@dataclass(frozen=True, slots=True)
class ComparisonReport:
    """Two reports over the same images, and their differences."""

    first: Report
    second: Report
    differences: tuple[Difference, ...]
    settings: str
    """How the p-values were made, for reproducing them."""


def compare_reports(first: Report, second: Report, *, seed: int = 0) -> ComparisonReport:
    """Test every metric that both reports have, and the paper's 4-gram overlap.

    Both must be over the same images and references; the images may come in any order.
    """
    own, pairs = first.pairs, _in_order_of(first, second)
    tests = []
    for metric in first.values:
        if metric not in second.values:
            continue
        left, right = first.score(metric), aligned(second, metric, own.ids)
        resampled = _bootstrap(first, second, metric, seed=seed)
        values = (left.value, second.score(metric).value)
        tests.append(_difference(metric, values, wilcoxon(left.per_image, right), resampled))
    overlap = four_gram_overlap(own), four_gram_overlap(pairs)
    both = overlap[0].per_image, overlap[1].per_image
    resampled = paired_bootstrap(*both, rng=np.random.default_rng(seed))
    values = (overlap[0].value, overlap[1].value)
    tests.append(_difference("overlap_4", values, wilcoxon(*both), resampled))
    settings = f"{wilcoxon(*both).test}; {resampled.test}|seed:{seed}"
    return ComparisonReport(first, second, tuple(tests), settings)


def _bootstrap(first: Report, second: Report, metric: str, *, seed: int) -> PairedTest:
    """Resample images; BLEU and METEOR, not means over images, are computed from the sums."""
    rng = np.random.default_rng(seed)
    left, right = first.score(metric), second.score(metric)
    order = _rows_in_order(second, first.pairs.ids)
    if left.sums is None or right.sums is None:
        return paired_bootstrap(left.per_image, right.per_image[order], rng=rng)
    rows = left.sums.rows, right.sums.rows[order]
    return paired_bootstrap(*rows, rng=rng, statistic=left.sums.value_of)


def _difference(
    metric: str, values: tuple[float, float], ranks: PairedTest, resampled: PairedTest
) -> Difference:
    interval = None
    if resampled.low is not None and resampled.high is not None:
        same = math.isclose(resampled.difference, values[0] - values[1], abs_tol=1e-9)
        interval = (resampled.low, resampled.high) if same else None
    return Difference(metric, values, ranks.p_value, resampled.p_value, interval)


def _in_order_of(first: Report, second: Report) -> Comparison:
    """The second report's comparison with its images in the order of the first's."""
    if first.captions.keys() != second.captions.keys():
        shared = len(first.captions.keys() & second.captions.keys())
        raise ScoreError(
            f"{first.name} and {second.name} caption different images "
            f"({len(first.captions)} and {len(second.captions)}, {shared} shared); "
            "a paired comparison needs the same ones"
        )
    place = {key: number for number, key in enumerate(second.pairs.ids)}
    order = [place[key] for key in first.pairs.ids]
    pairs = Comparison(
        ids=first.pairs.ids,
        candidates=tuple(second.pairs.candidates[i] for i in order),
        references=tuple(second.pairs.references[i] for i in order),
        tokenizer=second.pairs.tokenizer,
    )
    if pairs.references != first.pairs.references:
        raise ScoreError(
            f"{first.name} and {second.name} were scored against different references; "
            "score both against the same"
        )
    return pairs


def most_different(
    comparison: ComparisonReport, *, count: int = SHOWN
) -> tuple[str, tuple[list[str], list[str]]]:
    """The metric that ranks, and the ids where the first and where the second is better.

    Largest difference first; equal ones in the order of the first report.
    """
    first, second = comparison.first, comparison.second
    metric = next(m for m in RANK_BY if m in first.values and m in second.values)
    ids = list(first.captions)
    gap = first.score(metric).per_image - aligned(second, metric, ids)
    best_first = [ids[i] for i in np.argsort(-gap, kind="stable")[:count] if gap[i] > 0]
    best_second = [ids[i] for i in np.argsort(gap, kind="stable")[:count] if gap[i] < 0]
    return metric, (best_first, best_second)


def aligned(report: Report, metric: str, ids: Sequence[str]) -> FloatArray:
    """Per-image values in the order of `ids`."""
    return report.score(metric).per_image[_rows_in_order(report, ids)]


def _rows_in_order(report: Report, ids: Sequence[str]) -> list[int]:
    place = {key: number for number, key in enumerate(report.captions)}
    return [place[key] for key in ids]
