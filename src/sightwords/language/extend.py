"""Section 4.2: a stack of paths -> their possible extensions, scored, in numpy.

Extensions of a path are the end of sentence, the most frequent words, the attributes that remain
to be mentioned, the words seen after its last word in training, and, beyond the paper, the
required words it still lacks. `Extensions` lists the frequent and the seen words of every last
word once, with the part of their score that only it decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from sightwords.language.constraints import BoolArray, Problem
from sightwords.language.features import MINUS, PLUS, FloatArray, IntArray, places
from sightwords.language.maxent import MaxEnt

Index = npt.NDArray[np.int64]


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

    def __call__(self, stack: Stack, problem: Problem, *, width: int) -> Candidates:
        """Score the extensions of every path."""


@dataclass(frozen=True)
class Extensions:
    """What may follow each word, whatever the image: built once a model."""

    model: MaxEnt
    offsets: Index
    """(V + 2,) of last word i, and of the start symbol at V, into `words` and `base`."""
    words: IntArray
    """Frequent words and words seen after the last word, ascending; no `<unk>`."""
    base: FloatArray
    """Their score so far: N-gram- of one and of two words."""

    @classmethod
    def of(cls, model: MaxEnt, *, frequent_words: int) -> Extensions:
        """List and score them; about 100 ms for 4,000 words."""
        frequent = model.frequent(frequent_words)
        lasts = [*range(model.size), model.start_id]
        listed = [np.union1d(frequent, model.followers(last)) for last in lasts]
        counts = np.array([len(words) for words in listed], dtype=np.int64)
        offsets: Index = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        words = np.concatenate(listed).astype(np.int32)
        base = model.unigram[MINUS][words]
        if model.order > 1:
            histories = np.repeat(np.array(lasts, dtype=np.int32)[:, None], model.order - 1, axis=1)
            starts = places(histories, table_bits=model.table_bits, distant=False)[MINUS, 0]
            base = base + _weights(model, np.repeat(starts, counts) + words.astype(np.int64))
        return cls(model, offsets, words, base)

    def __call__(self, stack: Stack, problem: Problem, *, width: int = 0) -> Candidates:
        """Score every extension of every path."""
        model = self.model
        histories = last_words(model, stack.tokens, reach=model.order - 1)
        starts = places(histories, table_bits=model.table_bits, distant=model.distant)
        exhausted: BoolArray = np.logical_not(stack.remaining.any(axis=1))
        lasts = last_words(model, stack.tokens, reach=1)[:, 0]
        named, minus, plus = named_words(stack, problem)
        rows, words, scores = self._seen(lasts, starts, exhausted)
        scores += stack.totals[rows]
        blocked = blocked_words(stack, problem, named)
        open_ = ~blocked[rows, words]
        found = [(rows[open_], words[open_], scores[open_])]
        for pairs, score in ((minus, self._minus), (plus, self._plus)):
            if len(pairs[0]):
                totals = score(*pairs, starts, exhausted, problem)
                totals += stack.totals[pairs[0]]
                found.append((*pairs, totals))
        everywhere = np.arange(len(histories))
        ends = self._minus(
            everywhere, np.full_like(everywhere, model.end_id), starts, exhausted, problem
        )
        ends += stack.totals
        return Candidates(
            np.concatenate([part[0] for part in found]),
            np.concatenate([part[1] for part in found]),
            np.concatenate([part[2] for part in found]),
            ends,
        )

    def _seen(
        self, lasts: IntArray, starts: Index, exhausted: BoolArray
    ) -> tuple[Index, Index, FloatArray]:
        """Rows, words and scores of the listed extensions of each path."""
        lists = np.minimum(lasts, self.model.size)  # the start symbol's list is the last
        counts = self.offsets[lists + 1] - self.offsets[lists]
        rows = np.repeat(np.arange(len(lasts)), counts)
        ends = np.cumsum(counts)
        places_ = np.arange(len(rows)) + (self.offsets[lists] - ends + counts)[rows]
        words = self.words[places_].astype(np.int64)
        scores = self.base[places_]
        for start in starts[MINUS, 1:]:
            scores += _weights(self.model, start[rows] + words)
        if exhausted.any():
            scores += np.where(exhausted[rows], self.model.end[words], np.float32(0))
        return rows, words, scores

    def _minus(
        self, rows: Index, words: Index, starts: Index, exhausted: BoolArray, problem: Problem
    ) -> FloatArray:
        scores: FloatArray = self.model.unigram[MINUS][words]
        for start in starts[MINUS]:
            scores += _weights(self.model, start[rows] + words)
        scores += np.where(exhausted[rows], self.model.end[words], np.float32(0))
        return scores

    def _plus(
        self, rows: Index, words: Index, starts: Index, exhausted: BoolArray, problem: Problem
    ) -> FloatArray:
        scores: FloatArray = self.model.unigram[PLUS][words] + np.float32(self.model.attribute)
        scores += np.float32(self.model.score) * problem.word_log_probs[words]
        for start in starts[PLUS]:
            scores += _weights(self.model, start[rows] + words)
        return scores


def last_words(model: MaxEnt, tokens: IntArray, *, reach: int) -> IntArray:
    """(K, reach) the last words of paths (K, n), start symbols in front."""
    padding = np.full((len(tokens), max(0, reach - tokens.shape[1])), model.start_id, np.int32)
    kept = tokens[:, max(0, tokens.shape[1] - reach) :]
    return np.concatenate([padding, kept], axis=1)


def named_words(
    stack: Stack, problem: Problem
) -> tuple[BoolArray, tuple[Index, Index], tuple[Index, Index]]:
    """Words this problem adds to each path: which (K, V), required (N-) and attributes (N+)."""
    named = np.zeros((len(stack.totals), len(problem.forbidden)), dtype=np.bool_)
    rows, columns = np.nonzero(stack.remaining)
    plus = rows, problem.attributes[columns].astype(np.int64)
    rows, columns = np.nonzero(stack.unmet & ~np.isin(problem.required, problem.attributes))
    minus = rows, problem.required[columns].astype(np.int64)
    named[plus] = True
    named[minus] = True
    return named, minus, plus


def blocked_words(stack: Stack, problem: Problem, named: BoolArray) -> BoolArray:
    """(K, V) words that a path's list must not give: forbidden, used up, or already named."""
    blocked: BoolArray = named | problem.forbidden
    if problem.once.any():
        rows, places_ = np.nonzero(problem.once[stack.tokens])
        blocked[rows, stack.tokens[rows, places_]] = True
    return blocked


def _weights(model: MaxEnt, slots: Index) -> FloatArray:
    found: FloatArray = model.table[slots] * np.float32(model.scale)
    return found
