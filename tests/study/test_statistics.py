"""The paper's figures on small cases worked by hand, and on simulated votes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightwords.errors import StudyError
from sightwords.study.model import ANSWERS, Ballot
from sightwords.study.results.statistics import fleiss_kappa, judge_agreement, majority, shares

votes_of_five = st.tuples(st.integers(0, 5), st.integers(0, 5)).filter(lambda t: sum(t) <= 5)
tables = st.lists(votes_of_five.map(lambda t: [*t, 5 - sum(t)]), min_size=1, max_size=30)


@pytest.mark.parametrize(
    ("counts", "outcome"),
    [
        ([5, 0, 0], [1, 0, 0]),
        ([1, 3, 1], [0, 1, 0]),
        ([2, 1, 2], [0.5, 0, 0.5]),  # one half to each of the two best
        ([2, 2, 1], [0.5, 0.5, 0]),
        ([0, 2, 3], [0, 0, 1]),
        ([2, 0, 1], [1, 0, 0]),  # three judges
        ([1, 1, 1], [1 / 3, 1 / 3, 1 / 3]),
        ([0, 1, 1], [0, 0.5, 0.5]),
    ],
)
def test_majority_by_hand(counts: list[int], outcome: list[float]) -> None:
    assert majority([counts])[0].tolist() == pytest.approx(outcome)


def test_shares_by_hand() -> None:
    """Outcomes: better, same | better half, same half | same, worse half | worse."""
    counts = [[4, 1, 0], [2, 2, 1], [1, 2, 2], [0, 0, 5]]
    found = shares(counts, rng=np.random.default_rng(0))
    assert found.better.mean == (1 + 0.5 + 0 + 0) / 4
    assert found.same.mean == (0 + 0.5 + 0.5 + 0) / 4
    assert found.same_or_better.mean == (1 + 1 + 0.5 + 0) / 4


def test_error_bar_by_hand() -> None:
    """Two pairs, one won: resampled means are 0, 1/2, 1 with chances 1/4, 1/2, 1/4, so the 5th
    and 95th percentiles are 0 and 1. Three pairs, one won: 0 has chance 8/27, 2/3 or less 26/27,
    so the percentiles are 0 and 2/3, both 1/3 away.
    """
    two = shares([[5, 0, 0], [0, 0, 5]], rng=np.random.default_rng(0))
    assert two.better.margin == 0.5
    three = shares([[5, 0, 0], [0, 0, 5], [0, 0, 5]], rng=np.random.default_rng(0))
    assert three.better.margin == pytest.approx(1 / 3)
    assert three.same.margin == 0.0


def test_the_farther_percentile_counts() -> None:
    """Twenty pairs, one won: 0 is 1/20 below the mean, the 95th percentile (3/20) 2/20 above."""
    counts = [[5, 0, 0]] + [[0, 0, 5]] * 19
    found = shares(counts, rng=np.random.default_rng(1))
    assert found.better.margin == pytest.approx(0.1)


@pytest.mark.parametrize("pairs", [7, 60, 400])
def test_error_bars_are_those_of_drawn_pairs(pairs: int) -> None:
    """Drawing kinds of outcomes is drawing pairs: the same margin, up to the grid of means."""
    counts = np.random.default_rng(pairs).multinomial(5, [0.1, 0.3, 0.6], size=pairs)
    found = shares(counts, rng=np.random.default_rng(0), resamples=20_000)
    outcomes = majority(counts)[:, 1]
    means = np.random.default_rng(1).choice(outcomes, (20_000, pairs)).mean(axis=1)
    margin = np.abs(np.percentile(means, [5, 95]) - outcomes.mean()).max()
    assert found.same.mean == pytest.approx(outcomes.mean())
    assert found.same.margin == pytest.approx(margin, abs=0.51 / pairs)


@given(tables)
def test_shares_add_up(counts: list[list[int]]) -> None:
    outcome = majority(counts)
    assert np.allclose(outcome.sum(axis=1), 1)
    found = shares(counts, rng=np.random.default_rng(0), resamples=20)
    assert found.same_or_better.mean == pytest.approx(found.same.mean + found.better.mean)


def test_kappa_by_hand() -> None:
    """P_i = 1, 1, .4, .2, mean .65; answers 8, 10, 2 of 20, so P_e = .16 + .25 + .01 = .42."""
    counts = [[5, 0, 0], [0, 5, 0], [2, 3, 0], [1, 2, 2]]
    assert fleiss_kappa(counts) == pytest.approx((0.65 - 0.42) / 0.58)


def test_kappa_at_its_ends() -> None:
    assert fleiss_kappa([[3, 0, 0], [0, 3, 0]]) == 1.0
    assert fleiss_kappa([[5, 0, 0], [5, 0, 0]]) is None  # all alike: nothing to agree beyond
    assert fleiss_kappa([[1, 0, 0]]) is None  # one vote: nobody to agree with
    # Two judges who always differ, answers half and half: P = 0, P_e = 1/2.
    assert fleiss_kappa([[1, 1, 0], [1, 1, 0]]) == -1.0


@given(tables)
def test_kappa_is_agreement_of_all_pairs_of_judges(counts: list[list[int]]) -> None:
    """The same figure from its definition: the chance that two judges of a pair agree."""
    agree = []
    for row in counts:
        said = [answer for answer, n in enumerate(row) for _ in range(n)]
        agree.append(np.mean([a == b for a, b in itertools.permutations(said, 2)]))
    chance = sum((sum(column) / (5 * len(counts))) ** 2 for column in zip(*counts, strict=True))
    found = fleiss_kappa(counts)
    if found is None:
        assert chance == 1
    else:
        assert found == pytest.approx((np.mean(agree) - chance) / (1 - chance))


def test_random_votes_have_no_kappa() -> None:
    rng = np.random.default_rng(0)
    counts = rng.multinomial(5, [0.2, 0.3, 0.5], size=20_000)
    found = fleiss_kappa(counts)
    assert found is not None
    assert abs(found) < 0.01


def test_agreement_by_hand() -> None:
    """Judge 1 agrees with 1 of 2 on pair 7 and nobody on pair 8; pair 9 has no other judge."""
    said = {(1, 7): "same", (2, 7): "same", (3, 7): "worse", (1, 8): "better", (2, 8): "worse"}
    ballots = [Ballot(j, p, a) for (j, p), a in said.items()] + [Ballot(3, 9, "same")]  # type: ignore[arg-type]
    found = {row.judge: (row.votes, row.agreement) for row in judge_agreement(ballots)}
    assert found == {1: (2, 0.25), 2: (2, 0.25), 3: (1, 0.0)}


@pytest.mark.parametrize("counts", [[], [[1, 2]], [[1, -1, 5]], [1, 2, 3]])
def test_wrong_shapes_are_refused(counts: list[int]) -> None:
    with pytest.raises(StudyError, match="shape"):
        majority(counts)


def test_a_pair_without_votes_is_refused() -> None:
    with pytest.raises(StudyError, match="votes"):
        majority([[0, 0, 0]])


def test_answers_are_in_the_order_of_the_counts() -> None:
    assert ANSWERS == ("better", "same", "worse")
