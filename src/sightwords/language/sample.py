"""Unconditioned generation: sentences drawn from the language model without an image.

The first row of the paper's Table 4, "Unconditioned": an N-gram model without a detector. It has no
attribute set, which is not the same as an empty one: the End feature, which means that everything
has been mentioned, is left out. Each word is drawn by its probability under Eq. 3,
normalised over the whole vocabulary.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from sightwords.errors import InputError
from sightwords.language.features import IntArray
from sightwords.language.maxent import MaxEnt
from sightwords.language.paths import last_words


def sample(
    model: MaxEnt, count: int, *, seed: int = 0, maximum_length: int = 18
) -> list[tuple[str, ...]]:
    """Draw `count` sentences; the same seed gives the same ones.

    `<unk>` is never drawn, a sentence never ends before its first word, and one that reaches
    `maximum_length` words is cut there.
    """
    if count < 0:
        raise InputError(f"count is {count}; expected 0 or more sentences")
    if maximum_length < 1:
        raise InputError(f"maximum_length is {maximum_length}; expected at least 1")
    model = replace(model, end=np.zeros_like(model.end))
    rng = np.random.default_rng(seed)
    tokens = np.full((count, maximum_length), model.end_id, dtype=np.int32)
    going = np.arange(count)
    for length in range(maximum_length):
        if len(going) == 0:
            break
        drawn = _draw(model, tokens[going, :length], rng)
        tokens[going, length] = drawn
        going = going[drawn != model.end_id]
    return [tuple(model.words[i] for i in path if i != model.end_id) for path in tokens.tolist()]


def _draw(model: MaxEnt, tokens: IntArray, rng: np.random.Generator) -> IntArray:
    """(K,) the next word of each path (K, n)."""
    count = len(tokens)
    remaining = np.zeros((count, model.size), dtype=np.bool_)
    histories = last_words(model, tokens, reach=model.order - 1)
    log_probs = model.log_probs_next(histories, remaining, np.zeros(model.size, dtype=np.float32))
    log_probs[:, model.unknown_id] = -np.inf
    if tokens.shape[1] == 0:
        log_probs[:, model.end_id] = -np.inf
    sums: npt.NDArray[np.float64] = np.cumsum(np.exp(log_probs), axis=1)
    drawn = rng.random(count) * sums[:, -1]
    chosen: IntArray = np.argmax(sums > drawn[:, None], axis=1).astype(np.int32)
    return chosen
