"""Arguments of compiled code: named groups of arrays and numbers, without behaviour.

numba reads named tuples but no dataclasses. V counts the words and `<unk>`; the V + 1 outcomes
are these and the end of sentence (see `maxent`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sightwords.language.features import FloatArray, IntArray, context_count


class Shape(NamedTuple):
    """Which contexts are hashed, and how far."""

    shift: Any
    """uint64: 64 less the table's bits."""
    reach: int
    """Words of history: order - 1."""
    contexts: int
    distant: bool


class Text(NamedTuple):
    """S sentences."""

    tokens: Any
    """(N,) outcomes, each sentence's end included."""
    offsets: Any
    """(S + 1,)"""
    images: Any
    """(S,) row of its attribute set; -1 where there is none."""
    weights: Any
    """(S,)"""


class Sets(NamedTuple):
    """I attribute sets."""

    offsets: Any
    """(I + 1,)"""
    ids: Any
    log_probs: Any


class LogBilinear(NamedTuple):
    """The option of section 4.1: a word's vector meets one predicted from those before it."""

    context: Any
    """(V + 2, D) vectors of the words before, the start symbol's last; D = 0 where it is off."""
    position: Any
    """(order - 1, D) what each place before the word multiplies them by, the nearest last."""
    target: Any
    """(V + 1, D) vectors of predicted words, the end of sentence last."""

    def scores(self, histories: IntArray) -> FloatArray:
        """(K, V + 1): what the vectors add to the scores after histories (K, order - 1)."""
        predicted = (self.context[histories] * self.position).sum(axis=1)
        found: FloatArray = predicted @ self.target.T
        return found


class Weights(NamedTuple):
    """A model, as `MaxEnt` holds it."""

    table: Any
    scale: Any
    unigram: Any
    end: Any
    attribute: Any
    score: Any
    bilinear: LogBilinear


class Scratch(NamedTuple):
    """Where a kernel keeps the sentence it is in."""

    held: Any
    """(V + 1,) whether an outcome is in the attribute set."""
    logs: Any
    """(V + 1,) its log-probability, while it is."""
    history: Any
    """(order - 1,) uint64."""
    contexts: Any
    """(contexts,) uint64."""
    starts: Any
    """(2, contexts) of N-gram- and N-gram+."""
    predicted: Any
    """(D,) the vector the history predicts."""


def shape_of(order: int, distant: bool, table_bits: int) -> Shape:
    """The shape of a model."""
    return Shape(np.uint64(64 - table_bits), order - 1, context_count(order, distant), distant)


def no_bilinear(order: int, size: int) -> LogBilinear:
    """In place of the option, where it is off; `size` is V."""
    rows = (size + 2, order - 1, size + 1)
    return LogBilinear(*(np.zeros((count, 0), dtype=np.float32) for count in rows))
