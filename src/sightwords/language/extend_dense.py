"""Section 4.2 for log-bilinear models: score every word, then leave out what is not allowed.

Slower than `extend`, and equal to it for models without log-bilinear features. `extend` skips words
by bounds on their N-gram weights, which a log-bilinear score does not have.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sightwords.language.constraints import BoolArray, SearchProblem
from sightwords.language.features import FloatArray, IntArray
from sightwords.language.maxent import MaxEnt
from sightwords.language.paths import Candidates, Stack, blocked_words, last_words, named_words


@dataclass(frozen=True)
class DenseExtensions:
    """Extends paths by scoring all V words."""

    model: MaxEnt
    listed: BoolArray
    """(V + 1, V) frequent words and words seen after each word; the start symbol's row last."""

    @classmethod
    def of(cls, model: MaxEnt, *, frequent_words: int) -> DenseExtensions:
        """Tabulate what may follow each word."""
        listed = np.zeros((model.size + 1, model.size), dtype=np.bool_)
        listed[:, model.frequent(frequent_words)] = True
        for row, last in enumerate((*range(model.size), model.start_id)):
            listed[row, model.followers(last)] = True
        return cls(model, listed)

    def __call__(self, stack: Stack, problem: SearchProblem, *, width: int) -> Candidates:
        """Score every extension of every path."""
        model = self.model
        remaining = np.zeros((len(stack.totals), model.size), dtype=np.bool_)
        remaining[:, problem.attributes] = stack.remaining
        histories = last_words(model, stack.tokens, reach=model.order - 1)
        scores = self.scores(histories, remaining, problem.word_log_probs)
        totals = stack.totals[:, None] + scores
        minus, plus = named_words(stack, problem)
        lasts = np.minimum(last_words(model, stack.tokens, reach=1)[:, 0], model.size)
        allowed = self.listed[lasts] & ~blocked_words(stack, problem, minus, plus)
        allowed[minus] = True
        allowed[plus] = True
        rows, words = np.nonzero(allowed)
        return Candidates(rows, words, totals[rows, words], totals[:, model.end_id])

    def scores(
        self, histories: IntArray, remaining: BoolArray, word_log_probs: FloatArray
    ) -> FloatArray:
        """(K, V + 1) scores of Eq. 3 without its denominator."""
        return self.model.score_next(histories, remaining, word_log_probs)
