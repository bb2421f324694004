"""Section 4.2: the left-to-right beam search, from detected words to completed sentences.

A stack holds the paths of one length. Each step extends every path; paths that end become completed
sentences, and the k likeliest of the others become the next stack, until the maximum length is
reached. `extend` lists what a path may be extended with.

Open in the paper and decided here: the end of sentence takes no place on the stack, so every path
on it is also completed as a sentence.

Required words, beyond the paper. With R of them the stack is divided into R + 1 groups by the
number of required words a path has used. Each group keeps its likeliest k / (R + 1) paths (at
least one; the remainder goes to the groups that have used most), and places that a group cannot
fill go to the likeliest other paths. A path with n required words extends to one with n + 1 at
every step, so the last group is reached however unlikely its words are.

Ties. Paths are in the order of their token ids, and of two equally likely paths the earlier is
kept. Scores are sums of 32-bit floats in a fixed order, so that every machine makes the same
choices.
"""

from __future__ import annotations

import numpy as np

from sightwords.language.constraints import SearchProblem
from sightwords.language.features import FloatArray
from sightwords.language.mbest import Completed
from sightwords.language.paths import Candidates, Extend, Index, Stack


def search(extend: Extend, problem: SearchProblem, *, width: int) -> list[Completed]:
    """Completed sentences, one entry per length from 1 to the longest.

    `width` is the number k of paths kept at each length.
    """
    stack = _start(problem)
    completed = []
    for length in range(problem.maximum_length + 1):
        candidates = extend(stack, problem, width=width)
        if length > 0:
            completed.append(_complete(stack, candidates))
        if length == problem.maximum_length or len(candidates.rows) == 0:
            break
        chosen = choose(candidates, stack, problem, width=width)
        stack = _advance(stack, candidates, chosen, problem)
    return completed


def choose(candidates: Candidates, stack: Stack, problem: SearchProblem, *, width: int) -> Index:
    """Which candidates make the next stack, in the order of their token ids."""
    codes = candidates.rows * len(problem.forbidden) + candidates.words
    if len(problem.required) == 0:
        kept = likeliest(candidates.totals, codes, width)
    else:
        kept = _of_each_group(candidates, codes, stack, problem, width)
    return kept[np.argsort(codes[kept])]


def likeliest(totals: FloatArray, codes: Index, count: int) -> Index:
    """Places of the `count` largest totals; of equal ones, those with the smaller code.

    >>> likeliest(np.float32([1, 3, 1, 2]), np.array([9, 8, 7, 6]), 3).tolist()
    [1, 3, 2]
    """
    if count <= 0 or len(totals) <= count:
        return np.arange(len(totals) if count > 0 else 0)
    least = np.partition(totals, -count)[-count]
    above = np.flatnonzero(totals > least)
    tied = np.flatnonzero(totals == least)
    tied = tied[np.argsort(codes[tied])][: count - len(above)]
    return np.concatenate([above, tied])


def quotas(width: int, required: int) -> list[int]:
    """Places for the paths that have used 0 to `required` of the required words.

    >>> quotas(200, 2), quotas(2, 3)
    ([66, 67, 67], [1, 1, 1, 1])
    """
    groups = required + 1
    share, rest = divmod(max(width, groups), groups)
    return [share + (group >= groups - rest) for group in range(groups)]


def _of_each_group(
    candidates: Candidates, codes: Index, stack: Stack, problem: SearchProblem, width: int
) -> Index:
    newly = stack.unmet[candidates.rows] & (candidates.words[:, None] == problem.required)
    lacking = stack.unmet.sum(axis=1)[candidates.rows] - newly.any(axis=1)
    kept = []
    for group, quota in enumerate(quotas(width, len(problem.required))):
        members = np.flatnonzero(lacking == len(problem.required) - group)
        kept.append(members[likeliest(candidates.totals[members], codes[members], quota)])
    chosen = np.concatenate(kept)
    others = np.ones(len(codes), dtype=np.bool_)
    others[chosen] = False
    left = np.flatnonzero(others)
    filled = left[likeliest(candidates.totals[left], codes[left], width - len(chosen))]
    return np.concatenate([chosen, filled])


def _start(problem: SearchProblem) -> Stack:
    return Stack(
        tokens=np.empty((1, 0), dtype=np.int32),
        totals=np.zeros(1, dtype=np.float32),
        remaining=np.ones((1, len(problem.attributes)), dtype=np.bool_),
        unmet=np.ones((1, len(problem.required)), dtype=np.bool_),
    )


def _complete(stack: Stack, candidates: Candidates) -> Completed:
    return Completed(
        tokens=stack.tokens,
        log_probs=candidates.ends,
        covered=~stack.remaining,
        met=~stack.unmet,
    )


def _advance(stack: Stack, candidates: Candidates, chosen: Index, problem: SearchProblem) -> Stack:
    rows = candidates.rows[chosen]
    words = candidates.words[chosen].astype(np.int32)
    return Stack(
        tokens=np.concatenate([stack.tokens[rows], words[:, None]], axis=1),
        totals=candidates.totals[chosen],
        remaining=stack.remaining[rows] & (words[:, None] != problem.attributes),
        unmet=stack.unmet[rows] & (words[:, None] != problem.required),
    )
