"""Section 4.2, compiled: the extensions of `extend`, and of them only those that may be kept.

The kernel walks the same lists and adds the same numbers in the same order as `extend`, so that
both give equal sentences. It also remembers the k likeliest so far of each group of paths (see
`beam`), and gives back only candidates that are among them; where even the largest weights of the
table could not lift a candidate that far, its longer N-grams are not looked up.

Compiled code is cached on disk by numba. `NumbaExtensions.of` compiles or loads it, so that no
request does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from sightwords.errors import require
from sightwords.language.constraints import Problem
from sightwords.language.extend import Candidates, Extensions, Stack, last_words
from sightwords.language.features import MINUS, PLUS, FloatArray, places

SLACK = 1e-2
"""Added to bounds, which are sums in another order: more than any rounding of such sums."""


@dataclass(frozen=True)
class NumbaExtensions:
    """Extends paths with compiled code."""

    extensions: Extensions
    kernel: Callable[..., tuple[Any, Any, Any, FloatArray]]
    largest: float
    """The largest weight in the table, for the bounds."""
    largest_end: float
    """The largest End weight."""

    @classmethod
    def of(cls, extensions: Extensions, *, compiled: bool = True) -> NumbaExtensions:
        """Compile the kernel, or load it from numba's cache, and run it once.

        `compiled=False` runs the same lines in Python, slowly, for tests.
        """
        model = extensions.model
        made = cls(
            extensions,
            _compiled() if compiled else extend_kernel,
            max(0.0, float(model.table.max()) * model.scale),
            max(0.0, float(model.end.max())),
        )
        if compiled:
            made(*_smallest(model.size))
        return made

    def __call__(self, stack: Stack, problem: Problem, *, width: int = 0) -> Candidates:
        """Score the extensions of every path; leave out those that no beam of `width` keeps."""
        listed = self.extensions
        model = listed.model
        histories = last_words(model, stack.tokens, reach=model.order - 1)
        lasts = np.minimum(last_words(model, stack.tokens, reach=1)[:, 0], model.size)
        rows, words, totals, ends = self.kernel(
            stack.tokens,
            stack.totals,
            stack.remaining,
            stack.unmet & ~np.isin(problem.required, problem.attributes),
            stack.unmet.sum(axis=1),
            problem.attributes,
            problem.required,
            problem.word_log_probs,
            problem.forbidden,
            problem.once,
            lasts,
            places(histories, table_bits=model.table_bits, distant=model.distant),
            np.argsort(-stack.totals, kind="stable"),
            listed.offsets,
            listed.words,
            listed.base,
            model.table,
            np.float32(model.scale),
            model.unigram,
            model.end,
            np.float32(model.attribute),
            np.float32(model.score),
            np.float32(self.largest),
            np.float32(self.largest_end + SLACK),
            max(width, len(problem.required) + 1),
        )
        return Candidates(rows, words, totals, ends)


@lru_cache(maxsize=1)
def _compiled() -> Callable[..., tuple[Any, Any, Any, FloatArray]]:
    numba = require("numba", extra="fast", purpose="the compiled search")
    compiled: Callable[..., tuple[Any, Any, Any, FloatArray]]
    compiled = numba.njit(cache=True, nogil=True)(extend_kernel)
    return compiled


def _smallest(size: int) -> tuple[Stack, Problem]:
    """A stack of one empty path and a problem without words, to compile for."""
    nothing = np.empty(0, dtype=np.int32)
    none = np.zeros((1, 0), dtype=np.bool_)
    words = np.zeros(size, dtype=np.bool_)
    stack = Stack(np.empty((1, 0), np.int32), np.zeros(1, np.float32), none, none)
    return stack, Problem(nothing, np.zeros(size, np.float32), nothing, words, words, 1, 1)


def extend_kernel(  # noqa: PLR0917 - compiled code takes arrays, not objects
    tokens: Any,  # (K, n) int32
    totals: Any,  # (K,) float32
    remaining: Any,  # (K, A) bool
    named: Any,  # (K, R) bool: required words that a path lacks and that are no attributes
    lacking: Any,  # (K,) how many required words each path lacks
    attributes: Any,  # (A,) int32
    required: Any,  # (R,) int32
    word_log_probs: Any,  # (V,) float32
    forbidden: Any,  # (V,) bool
    once: Any,  # (V,) bool
    lasts: Any,  # (K,) each path's list of extensions
    starts: Any,  # (2, contexts, K) int64
    order: Any,  # (K,) paths, the likeliest first: they raise the threshold early
    offsets: Any,  # (V + 2,) int64
    listed: Any,  # int32
    base: Any,  # float32
    table: Any,  # int8 or float32
    scale: Any,
    unigram: Any,  # (2, V + 1) float32
    end: Any,  # (V + 1,) float32
    attribute: Any,
    score: Any,
    largest: Any,
    slack: Any,
    width: int,
) -> tuple[Any, Any, Any, Any]:
    """Rows, words and totals of the candidates that may be kept, and the totals of all ends."""
    paths, length = tokens.shape
    contexts = starts.shape[1]
    size = len(forbidden)
    extra = len(attributes) + len(required)
    capacity = paths * extra
    for row in range(paths):
        capacity += offsets[lasts[row] + 1] - offsets[lasts[row]]
    out_rows = np.empty(capacity, np.int64)
    out_words = np.empty(capacity, np.int64)
    out_totals = np.empty(capacity, np.float32)
    out_groups = np.empty(capacity, np.int64)
    count = 0
    heaps = np.full((len(required) + 1, width), -np.inf, np.float32)  # smallest first
    ends = np.empty(paths, np.float32)
    stamp = np.full(size, -1, np.int64)  # the path whose list must not give the word
    for row in order:
        exhausted = not remaining[row].any()
        total = totals[row]
        found = unigram[MINUS, size]
        for c in range(contexts):
            found += np.float32(table[starts[MINUS, c, row] + size]) * scale
        if exhausted:
            found += end[size]
        ends[row] = total + found
        for a in range(len(attributes)):
            if remaining[row, a]:
                stamp[attributes[a]] = row
        for r in range(len(required)):
            if named[row, r]:
                stamp[required[r]] = row
        for i in range(length):
            if once[tokens[row, i]]:
                stamp[tokens[row, i]] = row
        first = offsets[lasts[row]]
        seen = offsets[lasts[row] + 1] - first
        for i in range(seen + extra):
            group = lacking[row]
            if i < seen:
                word = listed[first + i]
                if forbidden[word] or stamp[word] == row:
                    continue
                found = base[first + i]
                if total + found + largest * (contexts - 1) + slack < heaps[group, 0]:
                    continue
                for c in range(1, contexts):
                    found += np.float32(table[starts[MINUS, c, row] + word]) * scale
                if exhausted:
                    found += end[word]
            elif i < seen + len(attributes):
                if not remaining[row, i - seen]:
                    continue
                word = attributes[i - seen]
                found = unigram[PLUS, word] + attribute
                found += score * word_log_probs[word]
                for c in range(contexts):
                    found += np.float32(table[starts[PLUS, c, row] + word]) * scale
                for r in range(len(required)):
                    if required[r] == word:
                        group -= 1
            else:
                if not named[row, i - seen - len(attributes)]:
                    continue
                word = required[i - seen - len(attributes)]
                found = unigram[MINUS, word]
                for c in range(contexts):
                    found += np.float32(table[starts[MINUS, c, row] + word]) * scale
                if exhausted:
                    found += end[word]
                group -= 1
            longer = total + found
            heap = heaps[group]
            if longer < heap[0]:
                continue
            out_rows[count] = row
            out_words[count] = word
            out_totals[count] = longer
            out_groups[count] = group
            count += 1
            place = 0  # replace the smallest and let it sink
            while True:
                child = 2 * place + 1
                if child >= width:
                    break
                if child + 1 < width and heap[child + 1] < heap[child]:
                    child += 1
                if heap[child] >= longer:
                    break
                heap[place] = heap[child]
                place = child
            heap[place] = longer
    kept = 0
    for i in range(count):
        if out_totals[i] >= heaps[out_groups[i], 0]:
            out_rows[kept] = out_rows[i]
            out_words[kept] = out_words[i]
            out_totals[kept] = out_totals[i]
            kept += 1
    return out_rows[:kept], out_words[:kept], out_totals[:kept], ends
