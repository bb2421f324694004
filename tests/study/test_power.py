"""Planning: the model behind it, by hand and by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sightwords.errors import StudyError
from sightwords.study.results.power import (
    expected_outcome,
    plan,
    power_grid,
    vote_counts,
    votes_for,
)
from sightwords.study.results.statistics import fleiss_kappa


def test_chances_by_hand() -> None:
    """Two judges, kappa 1/2, so alpha = mean: chance of agreeing on answer k is m(m+1)/2."""
    mean = np.array([0.5, 0.3, 0.2])
    counts, chances = vote_counts(mean, 2, 0.5)
    found = {tuple(row): chance for row, chance in zip(counts.tolist(), chances, strict=True)}
    assert found[(2, 0, 0)] == pytest.approx(0.5 * 1.5 / 2)
    assert found[(0, 0, 2)] == pytest.approx(0.2 * 1.2 / 2)
    assert found[(1, 1, 0)] == pytest.approx(2 * 0.5 * 0.3 / 2)
    assert sum(chances) == pytest.approx(1)


def test_one_judge_is_the_share_itself() -> None:
    mean = np.array([0.1, 0.3, 0.6])
    assert expected_outcome(mean, 1, 0.4).tolist() == pytest.approx([0.1, 0.3, 0.6])


@pytest.mark.parametrize("kappa", [0.1, 0.4, 0.8])
def test_the_spread_gives_the_kappa(kappa: float) -> None:
    rng = np.random.default_rng(0)
    chances = rng.dirichlet(np.array([0.2, 0.3, 0.5]) * (1 / kappa - 1), 20_000)
    found = fleiss_kappa(rng.multinomial(5, chances))
    assert found == pytest.approx(kappa, abs=0.02)


@pytest.mark.parametrize("target", [(0.078, 0.262, 0.66), (0.024, 0.099, 0.877), (0.4, 0.2, 0.4)])
def test_shares_are_found_again(target: tuple[float, float, float]) -> None:
    mean = votes_for(target, kappa=0.4)
    assert expected_outcome(mean, 5, 0.4).tolist() == pytest.approx(target, abs=1e-4)


def test_one_judge_head_to_head_by_hand() -> None:
    """Nearly perfect agreement: majority is the vote. Same .4, better - worse = .1: the outcome
    has variance .6 - .01, so n = (1.95996 + .84162)^2 .59 / .01 = 463.07 -> 464 pairs.
    """
    found = plan(0.1, judges_per_pair=1, shares=(0.3, 0.4, 0.3), kappa=0.9999, head_to_head=True)
    assert found.pairs == pytest.approx(464, abs=1)
    assert found.votes == found.pairs
    assert found.judges == math.ceil(found.votes / 20)


def test_a_planned_study_finds_what_it_was_planned_for() -> None:
    """300 simulated pairs of studies: four in five must find the ten points."""
    found = plan(0.1, judges_per_pair=5)
    rng = np.random.default_rng(1)
    hits = 0
    means = [votes_for(t, kappa=0.4) for t in ((0.078, 0.262, 0.66), (0.101, 0.339, 0.56))]
    for _ in range(300):
        outcomes = []
        for mean in means:
            votes = rng.multinomial(5, rng.dirichlet(mean * 1.5, found.pairs))
            best = votes == votes.max(axis=1, keepdims=True)
            outcomes.append((best / best.sum(axis=1, keepdims=True))[:, :2].sum(axis=1))
        error = np.sqrt(sum(o.var() / len(o) for o in outcomes))
        hits += abs(outcomes[0].mean() - outcomes[1].mean()) > 1.96 * error
    assert 0.73 < hits / 300 < 0.87  # three standard errors about .8


def test_more_judges_fewer_pairs_more_votes() -> None:
    plans = [plan(0.05, judges_per_pair=n) for n in (1, 3, 5, 7)]
    assert [p.pairs for p in plans] == sorted((p.pairs for p in plans), reverse=True)
    assert [p.votes for p in plans] == sorted(p.votes for p in plans)


@pytest.mark.parametrize(
    ("difference", "options", "message"),
    [
        (0.0, {}, "more than 0 and less than 66"),
        (0.7, {}, "less than 66"),
        (0.7, {"head_to_head": True, "shares": (0.3, 0.4, 0.3)}, "less than 60"),
        (0.1, {"kappa": 1.0}, "kappa is 1.0"),
        (0.1, {"shares": (0.5, 0.4, 0.3)}, "add to 1"),
        (0.1, {"power": 1.0}, "power 1.0"),
        (0.1, {"shares": (0.0, 0.0, 1.0)}, "0.0 and 0.0"),
    ],
)
def test_what_cannot_be_planned(
    difference: float, options: dict[str, object], message: str
) -> None:
    with pytest.raises(StudyError, match=message):
        plan(difference, judges_per_pair=5, **options)  # type: ignore[arg-type]


def test_the_table_says_what_it_rests_on() -> None:
    text = power_grid(0.05, judges=(3, 5)).text()
    assert "5 points" in text
    assert "kappa 0.4" in text
