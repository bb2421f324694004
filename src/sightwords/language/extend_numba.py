"""Section 4.2, compiled: the extensions of `extend`, and of them only those that may be kept.

The kernel walks the same lists and adds the same numbers in the same order as `extend`, so that
both give equal sentences. It also remembers the k likeliest so far of each group of paths (see
`beam`), returns only candidates that are among them, stops a path's list where its bound shows that
no later word can be among them, and skips a word where the bound of its runs of the table does.

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
from sightwords.language.constraints import SearchProblem
from sightwords.language.extend import RUN, SLACK, Extensions
from sightwords.language.features import MINUS, PLUS, FloatArray, context_starts
from sightwords.language.paths import Candidates, Stack, last_words


@dataclass(frozen=True)
class NumbaExtensions:
    """Extends paths with compiled code."""

    extensions: Extensions
    kernel: Callable[..., tuple[Any, Any, Any, FloatArray]]

    @classmethod
    def of(cls, extensions: Extensions, *, compiled: bool = True) -> NumbaExtensions:
        """Compile the kernel, or load it from numba's cache, and run it once.

        `compiled=False` runs the same lines in Python, slowly, for tests.
        """
        made = cls(extensions, _compiled() if compiled else extend_kernel)
        if compiled:
            made(*_smallest(extensions.model.size), width=1)
        return made

    def __call__(self, stack: Stack, problem: SearchProblem, *, width: int) -> Candidates:
        """Score the extensions of every path; leave out those that no beam of `width` keeps."""
        listed = self.extensions
        model = listed.model
        histories = last_words(model, stack.tokens, reach=model.order - 1)
        lasts = np.minimum(last_words(model, stack.tokens, reach=1)[:, 0], model.size)
        starts = context_starts(histories, table_bits=model.table_bits, distant=model.distant)
        exhausted = np.logical_not(stack.remaining.any(axis=1))
        rows, words, totals, ends = self.kernel(
            stack.tokens,
            stack.totals,
            stack.remaining,
            exhausted,
            stack.unmet & problem.unattached,
            stack.unmet.sum(axis=1),
            problem.attributes,
            problem.required,
            problem.word_log_probs,
            problem.forbidden,
            problem.once,
            lasts,
            starts,
            listed.bounds(starts, exhausted),
            listed.largest_here,
            np.float32(SLACK + max(0.0, float(model.end.max()))),
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
            max(width, len(problem.required) + 1),
        )
        return Candidates(rows, words, totals, ends)


@lru_cache(maxsize=1)
def _compiled() -> Callable[..., tuple[Any, Any, Any, FloatArray]]:
    require("numba", extra="fast", purpose="the compiled search")
    from sightwords.language.kernels import jit

    # Sums keep their order, so that lists are equal bit for bit to those of numpy.
    return jit(extend_kernel, beside=(__file__,), reorder=False)


def _smallest(size: int) -> tuple[Stack, SearchProblem]:
    """A stack of one empty path and a problem without words, to compile for."""
    nothing = np.empty(0, dtype=np.int32)
    none = np.zeros((1, 0), dtype=np.bool_)
    words = np.zeros(size, dtype=np.bool_)
    stack = Stack(np.empty((1, 0), np.int32), np.zeros(1, np.float32), none, none)
    return stack, SearchProblem(
        nothing, np.zeros(size, np.float32), nothing, none[0], words, words, 1, 1
    )


def extend_kernel(  # noqa: PLR0917 - compiled code takes arrays, not objects
    tokens: Any,  # (K, n) int32
    totals: Any,  # (K,) float32
    remaining: Any,  # (K, A) bool
    exhausted: Any,  # (K,) bool
    named: Any,  # (K, R) bool: required words that a path lacks and that are not attributes
    lacking: Any,  # (K,) how many required words each path lacks
    attributes: Any,  # (A,) int32
    required: Any,  # (R,) int32
    word_log_probs: Any,  # (V,) float32
    forbidden: Any,  # (V,) bool
    once: Any,  # (V,) bool
    lasts: Any,  # (K,) each path's list of extensions
    starts: Any,  # (2, contexts, K) int64
    bounds: Any,  # (K,) float32: no listed word adds more than this to its base
    largest_here: Any,  # float32, by run of the table
    rest: Any,  # float32: what End and rounding can add
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
    for turn in range(2 * paths):  # attributes and required words first: they raise the threshold
        row = order[turn % paths]
        total = totals[row]
        first = 0
        if turn < paths:
            found = unigram[MINUS, size]
            for c in range(contexts):
                found += np.float32(table[starts[MINUS, c, row] + size]) * scale
            if exhausted[row]:
                found += end[size]
            ends[row] = total + found
            tries = extra
        else:
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
            tries = offsets[lasts[row] + 1] - first
        for i in range(tries):
            group = lacking[row]
            if turn >= paths:
                found = base[first + i]
                if total + found + bounds[row] < heaps[group, 0]:
                    break  # bases descend
                word = listed[first + i]
                if forbidden[word] or stamp[word] == row:
                    continue
                most = total + found + rest
                for c in range(1, contexts):
                    most += largest_here[(starts[MINUS, c, row] + word) // RUN]
                if most < heaps[group, 0]:
                    continue
                for c in range(1, contexts):
                    found += np.float32(table[starts[MINUS, c, row] + word]) * scale
                if exhausted[row]:
                    found += end[word]
            elif i < len(attributes):
                if not remaining[row, i]:
                    continue
                word = attributes[i]
                found = unigram[PLUS, word] + attribute
                found += score * word_log_probs[word]
                for r in range(len(required)):
                    if required[r] == word:
                        group -= 1
                most = total + found + rest
                for c in range(contexts):
                    most += largest_here[(starts[PLUS, c, row] + word) // RUN]
                if most < heaps[group, 0]:
                    continue
                for c in range(contexts):
                    found += np.float32(table[starts[PLUS, c, row] + word]) * scale
            else:
                if not named[row, i - len(attributes)]:
                    continue
                word = required[i - len(attributes)]
                found = unigram[MINUS, word]
                for c in range(contexts):
                    found += np.float32(table[starts[MINUS, c, row] + word]) * scale
                if exhausted[row]:
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
