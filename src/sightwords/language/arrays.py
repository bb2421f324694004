"""What compiled code takes: named groups of arrays and numbers, without behaviour.

numba reads named tuples but no dataclasses. V counts the words and `<unk>`; the V + 1 outcomes
are these and the end of sentence (see `maxent`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sightwords.language.features import context_count


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


class Bilinear(NamedTuple):
    """The log-bilinear option; no columns where it is off."""

    context: Any
    """(V + 2, D)"""
    position: Any
    """(order - 1, D)"""
    target: Any
    """(V + 1, D)"""


class Weights(NamedTuple):
    """A model, as `MaxEnt` holds it."""

    table: Any
    scale: Any
    unigram: Any
    end: Any
    attribute: Any
    score: Any
    bilinear: Bilinear


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


def no_bilinear(order: int, size: int) -> Bilinear:
    """In place of the option, where it is off; `size` is V."""
    rows = (size + 2, order - 1, size + 1)
    return Bilinear(*(np.zeros((count, 0), dtype=np.float32) for count in rows))
