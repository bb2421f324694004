"""Section 4.2, the plain way: score every word of the vocabulary, then leave out what is no
extension.

Slower than `extend`, and equal to it; needed for what the fast ways leave out: exact likelihoods
(Eq. 3 with its denominator) and log-bilinear features.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sightwords.language.constraints import BoolArray, SearchProblem
from sightwords.language.maxent import MaxEnt
from sightwords.language.paths import Candidates, Stack, blocked_words, last_words, named_words


@dataclass(frozen=True)
class DenseExtensions:
    """Extends paths by scoring all V words."""

    model: MaxEnt
    listed: BoolArray
    """(V + 1, V) frequent words and words seen after each word; the start symbol's row last."""
    exact: bool
    """Normalised likelihoods instead of the paper's unnormalised ones."""

    @classmethod
    def of(cls, model: MaxEnt, *, frequent_words: int, exact: bool = False) -> DenseExtensions:
        """Tabulate what may follow each word."""
        listed = np.zeros((model.size + 1, model.size), dtype=np.bool_)
        listed[:, model.frequent(frequent_words)] = True
        for row, last in enumerate((*range(model.size), model.start_id)):
            listed[row, model.followers(last)] = True
        return cls(model, listed, exact)

    def __call__(self, stack: Stack, problem: SearchProblem, *, width: int) -> Candidates:
        """Score every extension of every path."""
        model = self.model
        remaining = np.zeros((len(stack.totals), model.size), dtype=np.bool_)
        remaining[:, problem.attributes] = stack.remaining
        score = model.log_probs_next if self.exact else model.score_next
        histories = last_words(model, stack.tokens, reach=model.order - 1)
        scores = score(histories, remaining, problem.word_log_probs).astype(np.float32)
        totals = stack.totals[:, None] + scores
        minus, plus = named_words(stack, problem)
        lasts = np.minimum(last_words(model, stack.tokens, reach=1)[:, 0], model.size)
        allowed = self.listed[lasts] & ~blocked_words(stack, problem, minus, plus)
        allowed[minus] = True
        allowed[plus] = True
        rows, words = np.nonzero(allowed)
        return Candidates(rows, words, totals[rows, words], totals[:, model.end_id])
