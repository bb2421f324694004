"""Plans a study: how many pairs and judges are needed to show a difference of d points.

Model: each pair has its own probabilities of better, same and worse, from a Dirichlet distribution
with concentration 1/kappa - 1, which gives Fleiss' kappa. Judges vote independently. The outcome
of n judges is computed exactly, over all (better, same, worse) counts. Given shares are majority
shares of five judges, as in the tables of results.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from sightwords.errors import StudyError
from sightwords.evaluate.grid import Grid
from sightwords.study.results.statistics import majority

FloatArray = npt.NDArray[np.float64]

REFERENCE_JUDGES = 5
PAPER_SHARES = (0.078, 0.262, 0.66)
"""Better, same, worse of the best system of the paper against people (Table 4)."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The size of a study for one number of judges per pair."""

    judges_per_pair: int
    difference: float
    """The expected difference in the majority outcome of this many judges, as a fraction."""
    pairs: int
    """Per study: two systems need one study each, head to head needs one in all."""
    votes: int
    """In all."""
    judges: int
    """In all, if nobody is excluded."""


def plan(
    difference: float,
    *,
    judges_per_pair: int,
    shares: Sequence[float] = PAPER_SHARES,
    kappa: float = 0.4,
    head_to_head: bool = False,
    alpha: float = 0.05,
    power: float = 0.8,
    pairs_per_judge: int = 20,
) -> Plan:
    """The smallest study whose two-sided test at `alpha` finds `difference` with this power.

    Two systems, each against people on different images: the difference is that of their
    same-or-better shares, and the first system has `shares`. Head to head, one system against the
    other: the difference is better minus worse, and only the "same" share of `shares` is used.

    >>> plan(0.05, judges_per_pair=5).pairs > plan(0.1, judges_per_pair=5).pairs
    True
    """
    _check(difference, shares, kappa, alpha, power, head_to_head=head_to_head)
    first, second = _outcome_targets(difference, shares, head_to_head=head_to_head)
    means = [votes_for(target, kappa=kappa) for target in (first, second)]
    value = np.array([1.0, 0.0, -1.0]) if head_to_head else np.array([1.0, 1.0, 0.0])
    moments = [_moments(mean, value, judges_per_pair, kappa) for mean in means]
    (base, base_variance), (found, variance) = moments
    if head_to_head:
        base, base_variance = 0.0, 0.0  # compared with zero, not with a second study
    normal = NormalDist()
    quantiles = normal.inv_cdf(1 - alpha / 2) + normal.inv_cdf(power)
    pairs = math.ceil(quantiles**2 * (base_variance + variance) / (found - base) ** 2)
    votes = pairs * judges_per_pair * (1 if head_to_head else 2)
    return Plan(judges_per_pair, found - base, pairs, votes, math.ceil(votes / pairs_per_judge))


def power_grid(
    difference: float,
    *,
    judges: Sequence[int],
    shares: Sequence[float] = PAPER_SHARES,
    kappa: float = 0.4,
    head_to_head: bool = False,
    alpha: float = 0.05,
    power: float = 0.8,
    pairs_per_judge: int = 20,
) -> Grid:
    """The table of `sightwords study power`: one row per number of judges per pair."""
    rows = []
    for count in judges:
        found = plan(
            difference, judges_per_pair=count, shares=shares, kappa=kappa,
            head_to_head=head_to_head, alpha=alpha, power=power, pairs_per_judge=pairs_per_judge,
        )  # fmt: skip
        sizes = (found.judges_per_pair, found.pairs, found.votes, found.judges)
        rows.append((*map(str, sizes), f"{100 * found.difference:.1f}"))
    pairs = "pairs" if head_to_head else "pairs per system"
    what = "better minus worse" if head_to_head else "same or better, of two systems"
    return Grid(
        ("judges per pair", pairs, "votes in all", "judges in all", "expected points"),
        tuple(rows),
        title=f"Size of a study that shows {100 * difference:g} points ({what}; majority of 5)",
        notes=(
            f"two-sided test at {alpha:g}, power {100 * power:g} %; kappa {kappa:g}; "
            f"{pairs_per_judge} pairs per judge, nobody excluded",
            "expected points: this difference in the majority outcome of this many judges",
        ),
    )


def votes_for(target: Sequence[float], *, kappa: float) -> FloatArray:
    """(3,) shares of single votes for which the majority of five judges has the shares `target`.

    >>> mean = votes_for((0.2, 0.3, 0.5), kappa=0.4)
    >>> expected_outcome(mean, 5, 0.4).round(3).tolist()
    [0.2, 0.3, 0.5]
    """
    wanted = np.maximum(np.asarray(target, dtype=np.float64), 1e-6)
    wanted /= wanted.sum()
    mean: FloatArray = wanted.copy()
    for _ in range(500):
        mean = mean * wanted / np.maximum(expected_outcome(mean, REFERENCE_JUDGES, kappa), 1e-12)
        mean /= mean.sum()
    return mean


def expected_outcome(mean: FloatArray, judges: int, kappa: float) -> FloatArray:
    """(3,) expected majority shares if single votes have shares `mean`."""
    counts, chances = vote_counts(mean, judges, kappa)
    expected: FloatArray = chances @ majority(counts)
    return expected


def vote_counts(
    mean: FloatArray, judges: int, kappa: float
) -> tuple[npt.NDArray[np.int64], FloatArray]:
    """(C, 3) all possible vote counts of a pair, and (C,) their probabilities."""
    counts = np.array(list(_compositions(judges)), dtype=np.int64)
    alpha = mean * (1 / kappa - 1)
    log_chance = np.array(
        [
            _log_rising(1.0, judges)
            - _log_rising(float(alpha.sum()), judges)
            + sum(
                _log_rising(float(a), int(n)) - _log_rising(1.0, int(n))
                for a, n in zip(alpha, row, strict=True)
            )
            for row in counts
        ]
    )
    return counts, np.exp(log_chance)


def _moments(mean: FloatArray, value: FloatArray, judges: int, kappa: float) -> tuple[float, float]:
    counts, chances = vote_counts(mean, judges, kappa)
    outcome = majority(counts) @ value
    expected = float(chances @ outcome)
    return expected, float(chances @ (outcome - expected) ** 2)


def _log_rising(start: float, steps: int) -> float:
    """Logarithm of start (start + 1) ... (start + steps - 1)."""
    return math.lgamma(start + steps) - math.lgamma(start)


def _compositions(total: int) -> Iterator[tuple[int, int, int]]:
    for better in range(total + 1):
        for same in range(total - better + 1):
            yield better, same, total - better - same


def _outcome_targets(
    difference: float, shares: Sequence[float], *, head_to_head: bool
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Majority shares without and with the difference."""
    better, same, worse = shares
    if head_to_head:
        rest = 1 - same
        return (rest / 2, same, rest / 2), ((rest + difference) / 2, same, (rest - difference) / 2)
    scale = (better + same + difference) / (better + same)  # better and same grow alike
    return (better, same, worse), (better * scale, same * scale, worse - difference)


def _check(
    difference: float,
    shares: Sequence[float],
    kappa: float,
    alpha: float,
    power: float,
    *,
    head_to_head: bool,
) -> None:
    if len(shares) != 3 or min(shares) < 0 or not math.isclose(sum(shares), 1, abs_tol=0.005):
        raise StudyError(f"shares are {list(shares)}; expected better, same, worse that add to 1")
    if shares[0] + shares[1] <= 0:
        raise StudyError(
            f"the shares of better and same are {shares[0]} and {shares[1]}; expected a sum above 0"
        )
    if not 0 < kappa < 1:
        raise StudyError(f"kappa is {kappa}; expected more than 0 and less than 1")
    if not 0 < alpha < 1 or not 0 < power < 1:
        raise StudyError(f"alpha is {alpha}, power {power}; expected between 0 and 1")
    room = 1 - shares[1] if head_to_head else shares[2]
    if not 0 < difference < room:
        raise StudyError(
            f"the difference is {100 * difference:g} points; with these shares, expected more than "
            f"0 and less than {100 * room:g}"
        )
