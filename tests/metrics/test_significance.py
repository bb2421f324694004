from __future__ import annotations

import numpy as np
import pytest

from sightwords.errors import ScoreError
from sightwords.metrics.bleu import bleu
from sightwords.metrics.score import Comparison
from sightwords.metrics.significance import four_gram_overlap, paired_bootstrap, wilcoxon


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def test_wilcoxon_hand_worked() -> None:
    # Differences 1, 2, -3: rank sums 1 + 2 against 3, as even as can be.
    test = wilcoxon([2.0, 4.0, 1.0, 8.0], [1.0, 2.0, 4.0, 8.0])
    assert (test.images, test.differing) == (4, 3)
    assert test.difference == pytest.approx(0.0)
    assert test.p_value == pytest.approx(1.0)


def test_wilcoxon_ignores_rounding() -> None:
    values = np.linspace(0, 1, 50)
    test = wilcoxon(values, values + 1e-16)
    assert (test.p_value, test.differing) == (1.0, 0)


def test_wilcoxon_finds_a_steady_difference() -> None:
    noise = rng().normal(size=400)
    test = wilcoxon(noise + 0.2 + rng().normal(scale=0.1, size=400), noise)
    assert test.p_value < 1e-6
    assert test.difference > 0


def test_bootstrap_of_means_covers_the_difference() -> None:
    first, second = rng().normal(loc=[[0.5], [0.0]], size=(2, 500))
    test = paired_bootstrap(first, second, rng=np.random.default_rng(1))
    assert test.low is not None
    assert test.high is not None
    assert test.low <= test.difference <= test.high
    assert test.p_value == pytest.approx(2 / 1001)
    assert "resamples:1000" in test.test


def test_bootstrap_of_equal_systems_has_p_one() -> None:
    values = rng().normal(size=50)
    assert paired_bootstrap(values, values, rng=rng()).p_value == 1.0


def test_bootstrap_p_values_are_uniform_without_a_difference() -> None:
    draws = np.random.default_rng(3)
    p_values = [
        paired_bootstrap(draws.normal(size=60), draws.normal(size=60), rng=draws, resamples=200)
        for _ in range(200)
    ]
    assert 0.02 < np.mean([test.p_value < 0.1 for test in p_values]) < 0.2


def test_bootstrap_is_reproducible_and_blocks_do_not_show() -> None:
    first, second = rng().normal(size=(2, 5000))
    one = paired_bootstrap(first, second, rng=np.random.default_rng(5), resamples=900)
    again = paired_bootstrap(first, second, rng=np.random.default_rng(5), resamples=900)
    assert one == again
    spread = np.sqrt((first - second).var() / 5000)
    assert one.high is not None
    assert one.low is not None
    assert one.high - one.low == pytest.approx(2 * 1.645 * spread, rel=0.15)


def test_bootstrap_of_sums_recomputes_the_corpus_score() -> None:
    words = np.array(list("abcdefgh"))
    draws = rng()
    references = tuple((tuple(draws.choice(words, 8).tolist()),) for _ in range(60))
    copies = tuple((*r[0][:6], "x", "y") for r in references)
    noise = tuple(tuple(draws.permutation(c).tolist()) for c in copies)
    ids = tuple(map(str, range(60)))
    pairs = Comparison(ids, copies, references), Comparison(ids, noise, references)
    for good, bad in zip(*map(bleu, pairs), strict=True):
        assert good.sums is not None
        assert bad.sums is not None
        rows = good.sums.rows, bad.sums.rows
        test = paired_bootstrap(*rows, rng=rng(), statistic=good.sums.value_of)
        assert test.difference == pytest.approx(good.value - bad.value)
    assert test.p_value < 0.01  # of BLEU-4; BLEU-1 is the same for both


def test_four_gram_overlap_is_clipped_and_short_candidates_score_zero() -> None:
    pairs = Comparison(
        ("1", "2", "3"),
        (tuple("abcdabcd"), ("a", "b", "c"), tuple("abcd")),
        ((tuple("abcd"),), (("a", "b", "c"),), (tuple("xabcd"), tuple("bcd"))),
    )
    score = four_gram_overlap(pairs)
    assert score.per_image == pytest.approx([1 / 5, 0.0, 1.0])
    assert score.signature.startswith("overlap_4|clipped:yes|images:3")


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ([1.0], [1.0, 2.0], r"\(1,\).*\(2,\)"),
        ([], [], "first"),
        ([np.nan], [1.0], "first"),
    ],
)
def test_values_that_cannot_be_paired_are_refused(
    first: list[float], second: list[float], message: str
) -> None:
    with pytest.raises(ScoreError, match=message):
        wilcoxon(first, second)
    with pytest.raises(ScoreError, match=message):
        paired_bootstrap(first, second, rng=rng())


def test_no_resamples_is_an_error() -> None:
    with pytest.raises(ScoreError, match="0"):
        paired_bootstrap([1.0], [0.0], rng=rng(), resamples=0)
