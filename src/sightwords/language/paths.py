"""Section 4.2: paths of the search, what may not follow them, and the step that extends them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from sightwords.language.constraints import BoolArray, SearchProblem
from sightwords.language.features import FloatArray, IntArray
from sightwords.language.maxent import MaxEnt

Index = npt.NDArray[np.int64]
Pairs = tuple[Index, Index]
"""Rows of a stack, and a word for each."""


@dataclass(frozen=True, slots=True)
class Stack:
    """K open paths of one length n, in ascending order of their token ids."""

    tokens: IntArray
    """(K, n)"""
    totals: FloatArray
    """(K,) log-likelihood so far."""
    remaining: BoolArray
    """(K, A) attributes not yet mentioned."""
    unmet: BoolArray
    """(K, R) required words not yet used."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """Paths one word longer, in no particular order, none twice."""

    rows: Index
    """(N,) the path each extends."""
    words: Index
    """(N,) the word it appends."""
    totals: FloatArray
    """(N,) its log-likelihood."""
    ends: FloatArray
    """(K,) log-likelihood of each path when it ends here."""


class Extend(Protocol):
    """One step of the search; all implementations give equal numbers.

    Candidates that no beam of this width would keep may be left out.
    """

    def __call__(self, stack: Stack, problem: SearchProblem, *, width: int) -> Candidates:
        """Score the extensions of every path."""


def last_words(model: MaxEnt, tokens: IntArray, *, reach: int) -> IntArray:
    """(K, reach) the last words of paths (K, n), start symbols in front."""
    padding = np.full((len(tokens), max(0, reach - tokens.shape[1])), model.start_id, np.int32)
    kept = tokens[:, max(0, tokens.shape[1] - reach) :]
    return np.concatenate([padding, kept], axis=1)


def named_words(
    stack: Stack, problem: SearchProblem
) -> tuple[tuple[Index, Index], tuple[Index, Index]]:
    """Rows and words that this problem adds: required words (N-gram-) and attributes (N-gram+)."""
    rows, columns = np.nonzero(stack.unmet & problem.unattached)
    minus = rows, problem.required[columns].astype(np.int64)
    rows, columns = np.nonzero(stack.remaining)
    return minus, (rows, problem.attributes[columns].astype(np.int64))


def blocked_words(
    stack: Stack,
    problem: SearchProblem,
    minus: Pairs,
    plus: Pairs,
) -> BoolArray:
    """(K, V) words that a path's list must not give: forbidden, used up, or named already."""
    blocked = np.empty((len(stack.totals), len(problem.forbidden)), dtype=np.bool_)
    blocked[:] = problem.forbidden
    blocked[plus] = True
    blocked[minus] = True
    if problem.once.any():
        rows, places_ = np.nonzero(problem.once[stack.tokens])
        blocked[rows, stack.tokens[rows, places_]] = True
    return blocked
