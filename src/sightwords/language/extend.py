"""Section 4.2: a stack of paths -> their possible extensions, scored, in numpy.

Extensions of a path are the end of sentence, the most frequent words, the attributes that remain
to be mentioned, the words seen after its last word in training, and, beyond the paper, the
required words it still lacks. `Extensions` lists the frequent and the seen words of every last
word once, with the part of their score that only it decides.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sightwords.language.constraints import BoolArray, SearchProblem
from sightwords.language.features import MINUS, PLUS, FloatArray, IntArray, context_starts
from sightwords.language.maxent import MaxEnt
from sightwords.language.paths import (
    Candidates,
    Index,
    Stack,
    blocked_words,
    last_words,
    named_words,
)

RUN = 64
"""Weights whose largest is known."""
HEAD = 16
"""Words of each list scored first, to learn how likely a path must be."""
SLACK = 1e-2
"""Added to bounds, which are sums in another order: more than any rounding of such sums."""


@dataclass(frozen=True)
class Extensions:
    """What may follow each word, whatever the image: built once per model.

    A list is sorted by the part of the score that its last word decides. The rest of the score is
    at most `bounds`, so that only the head of a list is looked at: the part that can still reach
    the k likeliest candidates found so far.
    """

    model: MaxEnt
    offsets: Index
    """(V + 2,) of last word i, and of the start symbol at V, into `words` and `base`."""
    words: IntArray
    """Frequent words and words seen after the last word; no `<unk>`."""
    base: FloatArray
    """Their score so far, N-gram- of one and of two words: descending in each list."""
    largest_here: FloatArray
    """By run of the table: the largest weight in it."""
    largest_from_here: FloatArray
    """By run of the table: no weight of a context that starts in it is larger."""

    @classmethod
    def of(cls, model: MaxEnt, *, frequent_words: int) -> Extensions:
        """List, score and sort; about 100 ms for 4,000 words."""
        frequent = model.frequent(frequent_words)
        lasts = np.array([*range(model.size), model.start_id], dtype=np.int32)
        listed = [np.union1d(frequent, model.followers(last)) for last in lasts.tolist()]
        counts = np.array([len(words) for words in listed], dtype=np.int64)
        offsets: Index = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        words = np.concatenate(listed).astype(np.int32)
        base = model.unigram[MINUS][words]
        if model.order > 1:
            histories = np.repeat(lasts[:, None], model.order - 1, axis=1)
            starts = context_starts(histories, table_bits=model.table_bits, distant=False)[MINUS, 0]
            base += _weights(model, np.repeat(starts, counts) + words.astype(np.int64))
        order = np.lexsort((words, -base, np.repeat(np.arange(len(lasts)), counts)))
        return cls(model, offsets, words[order], base[order], *_run_maxima(model))

    def bounds(self, starts: Index, exhausted: BoolArray) -> FloatArray:
        """(K,) what the longer N-grams and End can add at most to a path's listed words."""
        found = np.full(len(exhausted), SLACK, dtype=np.float32)
        for start in starts[MINUS, 1:]:
            found += self.largest_from_here[start // RUN]
        found[exhausted] += max(np.float32(0), self.model.end.max())
        return found

    def __call__(self, stack: Stack, problem: SearchProblem, *, width: int) -> Candidates:
        """Score the extensions of every path that may be among the `width` likeliest."""
        model = self.model
        histories = last_words(model, stack.tokens, reach=model.order - 1)
        starts = context_starts(histories, table_bits=model.table_bits, distant=model.distant)
        view = _View(self, stack, problem, starts, np.logical_not(stack.remaining.any(axis=1)))
        lists = np.minimum(last_words(model, stack.tokens, reach=1)[:, 0], model.size)
        first, last = self.offsets[lists], self.offsets[lists + 1]
        head = np.minimum(first + HEAD, last)
        parts = [*view.named(), view.listed(first, head)]
        tail = view.reach(head, last, view.thresholds(parts, width))
        parts.append(view.listed(head, tail))
        return Candidates(
            np.concatenate([part.rows for part in parts]),
            np.concatenate([part.words for part in parts]),
            np.concatenate([part.totals for part in parts]),
            view.ends(),
        )


@dataclass(frozen=True, slots=True)
class _Part:
    """Some of the candidates."""

    rows: Index
    words: Index
    totals: FloatArray
    lacking: Index
    """How many required words each lacks."""


class _View:
    """One stack, as its extensions are scored."""

    def __init__(
        self,
        extensions: Extensions,
        stack: Stack,
        problem: SearchProblem,
        starts: Index,
        exhausted: BoolArray,
    ) -> None:
        self.extensions, self.model = extensions, extensions.model
        self.stack, self.problem = stack, problem
        self.starts, self.exhausted = starts, exhausted
        self.lacking: Index = stack.unmet.sum(axis=1)
        self.minus, self.plus = named_words(stack, problem)
        self.blocked = blocked_words(stack, problem, self.minus, self.plus)

    def named(self) -> list[_Part]:
        """The attributes that remain, and required words that are not attributes."""
        parts = []
        for (rows, words), score in ((self.plus, self.score_plus), (self.minus, self.score_minus)):
            if len(rows):
                totals = score(rows, words)
                totals += self.stack.totals[rows]
                lacking = self.lacking[rows] - np.isin(words, self.problem.required)
                parts.append(_Part(rows, words, totals, lacking))
        return parts

    def listed(self, first: Index, last: Index) -> _Part:
        """The places from `first` up to `last` of each path's list."""
        counts = last - first
        rows = np.repeat(np.arange(len(counts)), counts)
        places_ = np.arange(len(rows)) + (first - np.cumsum(counts) + counts)[rows]
        words = self.extensions.words[places_].astype(np.int64)
        open_ = ~self.blocked[rows, words]
        rows, words, places_ = rows[open_], words[open_], places_[open_]
        totals = self.extensions.base[places_]
        for start in self.starts[MINUS, 1:]:
            totals += _weights(self.model, start[rows] + words)
        self._add_end(totals, rows, words)
        totals += self.stack.totals[rows]
        return _Part(rows, words, totals, self.lacking[rows])

    def thresholds(self, parts: list[_Part], width: int) -> FloatArray:
        """(R + 1,) by required words lacked: below this, `width` candidates are likelier."""
        totals = np.concatenate([part.totals for part in parts])
        lacking = np.concatenate([part.lacking for part in parts])
        groups = len(self.problem.required) + 1
        count = max(width, groups)
        found = np.full(groups, -np.inf, dtype=np.float32)
        for group in range(groups):
            members = totals[lacking == group] if groups > 1 else totals
            if len(members) >= count:
                found[group] = np.partition(members, -count)[-count]
        return found

    def reach(self, first: Index, last: Index, thresholds: FloatArray) -> Index:
        """Where each path's list falls below what can still reach the threshold."""
        needed = thresholds[self.lacking] - self.stack.totals
        needed -= self.extensions.bounds(self.starts, self.exhausted)
        low: Index = first.copy()
        high: Index = last.copy()
        while (searched := low < high).any():
            middle = (low + high) // 2
            enough = self.extensions.base[np.minimum(middle, len(self.extensions.base) - 1)]
            above = enough >= needed
            low = np.where(searched & above, middle + 1, low)
            high = np.where(searched & ~above, middle, high)
        return low

    def ends(self) -> FloatArray:
        """(K,) log-likelihood of each path when it ends here."""
        rows = np.arange(len(self.stack.totals))
        totals = self.score_minus(rows, np.full_like(rows, self.model.end_id))
        totals += self.stack.totals
        return totals

    def score_minus(self, rows: Index, words: Index) -> FloatArray:
        """Eq. 3 for words outside the attribute set."""
        scores: FloatArray = self.model.unigram[MINUS][words]
        for start in self.starts[MINUS]:
            scores += _weights(self.model, start[rows] + words)
        self._add_end(scores, rows, words)
        return scores

    def score_plus(self, rows: Index, words: Index) -> FloatArray:
        """Eq. 3 for words in the attribute set."""
        scores: FloatArray = self.model.unigram[PLUS][words] + np.float32(self.model.attribute)
        scores += np.float32(self.model.score) * self.problem.word_log_probs[words]
        for start in self.starts[PLUS]:
            scores += _weights(self.model, start[rows] + words)
        return scores

    def _add_end(self, scores: FloatArray, rows: Index, words: Index) -> None:
        if self.exhausted.any():
            scores += np.where(self.exhausted[rows], self.model.end[words], np.float32(0))


def _weights(model: MaxEnt, slots: Index) -> FloatArray:
    found: FloatArray = model.table[slots] * np.float32(model.scale)
    return found


def _run_maxima(model: MaxEnt) -> tuple[FloatArray, FloatArray]:
    """The largest weight in each run of the table, and among all of a context that starts there."""
    table = np.pad(model.table, (0, -len(model.table) % RUN), mode="edge")
    maxima = table.reshape(-1, RUN).max(axis=1) * np.float32(model.scale)
    runs = -(-(model.size + 1) // RUN) + 1  # a context's weights lie in this many runs
    padded = np.pad(maxima, (0, runs - 1), mode="edge")
    return maxima, np.lib.stride_tricks.sliding_window_view(padded, runs).max(axis=1)
