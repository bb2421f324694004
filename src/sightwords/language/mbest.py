"""Section 4.2: completed sentences -> the M-best list, with coverage T lowered until M are found.

Sentences are in descending order of log-likelihood; of equal ones the shorter comes first, then
the one whose token ids come first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sightwords.language.constraints import BoolArray, SearchProblem
from sightwords.language.features import FloatArray, IntArray
from sightwords.types import Hypothesis, MBest

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Completed:
    """The completed sentences of one length n, in ascending order of their token ids."""

    tokens: IntArray
    """(N, n)"""
    log_probs: FloatArray
    """(N,) of the words and the end of sentence."""
    covered: BoolArray
    """(N, A) which attributes each mentions."""
    met: BoolArray
    """(N, R) which required words each has."""


@dataclass(frozen=True, slots=True)
class Generation:
    """An M-best list, and what of the constraints could not be met."""

    m_best: MBest
    unmet: tuple[str, ...] = ()
    """Empty where every sentence meets every constraint; else what none of them could meet. The
    list then holds the sentences that come closest: most required words, then greatest length."""


def lower_coverage(covered: Sequence[int] | Counts, *, m: int, target: int) -> int:
    """The largest T up to `target` that at least `m` sentences reach; 0 if there is none.

    Three sentences mention 3, 2 and 2 attributes; two of two or more are found at T = 2:

    >>> lower_coverage([3, 2, 2], m=2, target=10)
    2
    """
    counts = np.asarray(covered)
    reached = [t for t in range(target, 0, -1) if np.count_nonzero(counts >= t) >= m]
    return reached[0] if reached else 0


def m_best(
    completed: Sequence[Completed],
    problem: SearchProblem,
    vocabulary: Sequence[str],
    *,
    m: int,
    coverage: int,
) -> Generation:
    """The M likeliest of the sentences that mention at least T attributes.

    `completed` holds one entry a length, shortest first. Sentences that break a constraint are
    left out, unless all of them do.
    """
    lengths = np.concatenate([np.full(len(c.log_probs), c.tokens.shape[1]) for c in completed])
    log_probs = np.concatenate([c.log_probs for c in completed])
    covered = np.concatenate([c.covered.sum(axis=1) for c in completed])
    allowed, unmet = _meeting(completed, lengths, problem, vocabulary)
    reached = lower_coverage(covered[allowed], m=m, target=coverage)
    eligible = np.flatnonzero(allowed & (covered >= reached))
    order = eligible[np.argsort(-log_probs[eligible], kind="stable")][:m]
    sentences = _sentences(completed, order, vocabulary)
    attributes = {vocabulary[i] for i in problem.attributes.tolist()}
    found = [
        Hypothesis(tokens, log_prob, tuple(dict.fromkeys([w for w in tokens if w in attributes])))
        for tokens, log_prob in zip(sentences, log_probs[order].tolist(), strict=True)
    ]
    return Generation(MBest(tuple(found), reached), unmet)


def _sentences(
    completed: Sequence[Completed], order: Counts, vocabulary: Sequence[str]
) -> list[tuple[str, ...]]:
    """The words of the sentences at these places; only those are looked up."""
    words = np.array(vocabulary, dtype=object)
    found: list[tuple[str, ...]] = [()] * len(order)
    first = 0
    for group in completed:
        ranks = np.flatnonzero((order >= first) & (order < first + len(group.tokens)))
        texts = words[group.tokens[order[ranks] - first]].tolist()
        for rank, text in zip(ranks.tolist(), texts, strict=True):
            found[rank] = tuple(text)
        first += len(group.tokens)
    return found


def _meeting(
    completed: Sequence[Completed],
    lengths: Counts,
    problem: SearchProblem,
    vocabulary: Sequence[str],
) -> tuple[BoolArray, tuple[str, ...]]:
    """Which sentences meet the constraints, or come closest, and what those fail to meet."""
    met = np.concatenate([c.met for c in completed])
    counts = met.sum(axis=1)
    allowed = counts == counts.max(initial=0)
    longest = int(lengths[allowed].max(initial=0))
    minimum = min(problem.minimum_length, longest)
    allowed &= lengths >= minimum
    missing = ~met[allowed].any(axis=0)
    if counts.max(initial=0) < len(problem.required) and not missing.any():
        missing |= True  # each is met by some sentence, all together by none
    unmet = [f"required word {vocabulary[i]!r}" for i in problem.required[missing].tolist()]
    if minimum < problem.minimum_length:
        unmet.append(f"minimum length {problem.minimum_length}")
    return allowed, tuple(unmet)
