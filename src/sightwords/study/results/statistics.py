"""The figures of the paper (section 6.3) and the agreement of judges.

(N, 3) counts of better, same, worse votes per pair -> outcomes, error bars, kappa.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sightwords.errors import StudyError
from sightwords.metrics.significance import RESAMPLES
from sightwords.study.model import Ballot

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ErrorBar:
    """A mean with the paper's margin (section 6.1), from resamples of what was judged.

    The margin is the farther of the 5th and the 95th percentile from the mean.
    """

    mean: float
    margin: float


@dataclass(frozen=True, slots=True)
class Shares:
    """The three columns of the paper, as fractions of the pairs, with error bars."""

    pairs: int
    same: ErrorBar
    better: ErrorBar
    same_or_better: ErrorBar


@dataclass(frozen=True, slots=True)
class JudgeAgreement:
    """How often a judge gives the same answer as the other judges of a pair."""

    judge: int
    votes: int
    agreement: float
    """Mean share of other judges of a pair with the same answer."""


def majority(counts: npt.ArrayLike) -> FloatArray:
    """(N, 3) outcome of each pair: 1 for the answer with most votes, ties split evenly.

    The paper: "In ties, one-half of a count is distributed to the two best answers". Five votes
    cannot tie three ways; fewer votes can, and then each answer gets a third.

    >>> majority([[3, 1, 1], [2, 2, 1], [0, 0, 5]]).tolist()
    [[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]
    """
    votes = _checked(counts)
    if (votes.sum(axis=1) == 0).any():
        raise StudyError("a pair has no votes, so it has no majority; leave it out")
    best = votes == votes.max(axis=1, keepdims=True)
    outcome: FloatArray = best / best.sum(axis=1, keepdims=True)
    return outcome


def shares(
    counts: npt.ArrayLike, *, rng: np.random.Generator, resamples: int = RESAMPLES
) -> Shares:
    """Better, same and same-or-better of the majority outcomes, with the error bars of the paper.

    >>> found = shares([[5, 0, 0], [0, 5, 0], [0, 0, 5], [0, 2, 3]], rng=np.random.default_rng(0))
    >>> found.better.mean, found.same.mean, found.same_or_better.mean
    (0.25, 0.25, 0.5)
    """
    outcome = majority(counts)
    better, same, _ = outcome.T
    columns = np.stack([same, better, same + better], axis=1)
    return Shares(len(outcome), *error_bars(columns, rng=rng, resamples=resamples))


def error_bars(
    outcomes: FloatArray, *, rng: np.random.Generator, resamples: int = RESAMPLES
) -> list[ErrorBar]:
    """The error bar of each column of (N, C) outcomes: 1000 bootstrap resamples of the N pairs.

    The bar is the larger distance of the 5th and 95th percentile from the mean. Outcomes have few
    different values, so a resample is one multinomial draw of their counts.

    >>> [bar] = error_bars(np.array([[1.0], [0.0]]), rng=np.random.default_rng(0))
    >>> bar
    ErrorBar(mean=0.5, margin=0.5)
    """
    kinds, numbers = np.unique(outcomes, axis=0, return_counts=True)
    size = len(outcomes)
    drawn = rng.multinomial(size, numbers / size, size=resamples) @ kinds / size  # (R, C)
    means = outcomes.mean(axis=0)
    low, high = np.percentile(drawn, [5, 95], axis=0)
    margins = np.maximum(means - low, high - means)
    return [ErrorBar(float(m), float(d)) for m, d in zip(means, margins, strict=True)]


def fleiss_kappa(counts: npt.ArrayLike) -> float | None:
    """Agreement beyond chance (Fleiss 1971); None if all votes are equal.

    Pairs can have different numbers of votes, at least two: agreement is computed within each pair,
    the shares of answers over all votes. With equal numbers this is the formula of Fleiss.

    >>> fleiss_kappa([[5, 0, 0], [0, 5, 0], [0, 0, 5]])
    1.0
    """
    votes = _checked(counts)
    votes = votes[votes.sum(axis=1) >= 2]
    if not len(votes):
        return None
    size = votes.sum(axis=1)
    agreement = ((votes * (votes - 1)).sum(axis=1) / (size * (size - 1))).mean()
    chance = float(((votes.sum(axis=0) / votes.sum()) ** 2).sum())
    if chance == 1.0:
        return None
    return float((agreement - chance) / (1.0 - chance))


def judge_agreement(ballots: Sequence[Ballot]) -> list[JudgeAgreement]:
    """The agreement of each judge with the other judges, lowest first, then by number.

    Pairs with only one vote are left out.

    >>> votes = [Ballot(1, 7, "same"), Ballot(2, 7, "same"), Ballot(3, 7, "worse")]
    >>> [(a.judge, a.agreement) for a in judge_agreement(votes)]
    [(3, 0.0), (1, 0.5), (2, 0.5)]
    """
    by_pair: dict[int, list[Ballot]] = defaultdict(list)
    for ballot in ballots:
        by_pair[ballot.pair].append(ballot)
    found: dict[int, list[float]] = defaultdict(list)
    for group in by_pair.values():
        for one in group if len(group) > 1 else ():
            alike = sum(other.answer == one.answer for other in group) - 1
            found[one.judge].append(alike / (len(group) - 1))
    rows = [JudgeAgreement(j, len(v), float(np.mean(v))) for j, v in found.items()]
    return sorted(rows, key=lambda row: (row.agreement, row.judge))


def _checked(counts: npt.ArrayLike) -> npt.NDArray[np.int64]:
    votes = np.asarray(counts, dtype=np.int64)
    if votes.ndim != 2 or votes.shape[1] != 3 or (votes < 0).any() or not len(votes):
        raise StudyError(
            f"votes have shape {votes.shape}; expected (pairs, 3) non-negative counts of better, "
            "same, worse for at least one pair"
        )
    return votes
