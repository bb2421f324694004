from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from sightwords.errors import ScoreError
from sightwords.metrics.agreement import agreement


def test_both_taus_equal_the_definition_on_pairs() -> None:
    rng = np.random.default_rng(0)
    values = rng.integers(0, 12, 80)
    judged = np.clip(values // 4 + rng.integers(0, 3, 80), 1, 4)
    balance, tied_values, tied_judged, pairs = 0.0, 0, 0, 0
    for (v, j), (w, k) in itertools.combinations(zip(values, judged, strict=True), 2):
        balance += np.sign(v - w) * np.sign(j - k)
        tied_values += v == w
        tied_judged += j == k
        pairs += 1
    found = agreement(values, judged)
    expected = balance / math.sqrt((pairs - tied_values) * (pairs - tied_judged))
    assert found.tau_b == pytest.approx(expected)
    smaller = min(len(set(values.tolist())), len(set(judged.tolist())))
    assert found.tau_c == pytest.approx(2 * balance / (80**2 * (smaller - 1) / smaller))
    assert found.judgements == 80


def test_opposite_orders_disagree() -> None:
    assert agreement([1, 2, 3], [3, 2, 1]).tau_b == pytest.approx(-1.0)


@pytest.mark.parametrize(
    ("values", "judgements", "message"),
    [
        ([1.0, 2.0], [1.0], "one of each"),
        ([1.0, 1.0], [1.0, 2.0], "metric values are all equal"),
        ([1.0, 2.0], [3.0, 3.0], "judgements are all equal"),
        ([1.0, 2.0], [3.0, math.nan], "not all finite"),
        ([], [], "fewer than two"),
    ],
)
def test_what_has_no_order_is_refused(
    values: list[float], judgements: list[float], message: str
) -> None:
    with pytest.raises(ScoreError, match=message):
        agreement(values, judgements)
