"""Noise contrastive estimation and the exact gradient of Eq. 4, compiled by numba.

A *cell* is a weight beside AdaGrad's sum of its squared gradients: one cache line holds both.
Threads run the kernels side by side on the same cells without locks; one thread alone gives the
same weights every time.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from sightwords.language.arrays import Sets, Text
from sightwords.language.features import MINUS, PLUS
from sightwords.language.kernels import (
    find_places,
    hold,
    mention,
    new_scratch,
    predict,
    release,
)
from sightwords.language.kernels import jit as plain_jit
from sightwords.train import language_state
from sightwords.train.language_state import Cells, Plan

jit = partial(plain_jit, beside=(str(language_state.__file__),))


def _step(cells: Any, i: int, gradient: Any, rate: Any) -> None:
    """AdaGrad: one step up a log-likelihood's gradient."""
    total = cells[i, 1] + gradient * gradient
    cells[i, 1] = total
    cells[i, 0] += rate * gradient / math.sqrt(total)


step = jit(_step)


def _next_random(state: Any) -> Any:
    """The next state of xorshift64; its top bits are the best of it."""
    state ^= state << np.uint64(13)
    state ^= state >> np.uint64(7)
    state ^= state << np.uint64(17)
    return state


next_random = jit(_next_random)


def _draw(state: Any, noise: Any, words: Any) -> Any:
    """Fill `words` from its second place on with noise; the next random state."""
    state = next_random(state)
    samples = len(words) - 1
    # The list is of a power of two and the samples.
    first = np.int64((state >> np.uint64(24)) & np.uint64(len(noise) - samples - 1))
    for i in range(samples):
        words[i + 1] = noise[first + i]
    return state


draw = jit(_draw)


def _draw_attributes(state: Any, attributes: Any, held: Any, count: int, words: Any) -> Any:
    """Put up to `count` words of the attribute set in place of noise; the next random state.

    A draw that hits a word already mentioned leaves the noise where it is.
    """
    for i in range(count):
        state = next_random(state)
        word = attributes[np.int64((state >> np.uint64(24)) % np.uint64(len(attributes)))]
        if held[word]:
            words[i + 1] = word
    return state


draw_attributes = jit(_draw_attributes)


def _nce_gradients(scores: Any, words: Any, expected: Any, held: Any, mixture: Any) -> float:
    """Scores of the true word and of noise -> their gradients, in place; the objective.

    expected: (V + 1,) k q(word) under the unigram noise; mixture: what to multiply that by, and
    what to add for a word of the attribute set.
    """
    chance = 1.0
    share, extra = mixture
    for i in range(len(words)):
        # P(data | word) = exp(score) / (exp(score) + k q(word))
        kq = share * expected[words[i]] + (extra if held[words[i]] else np.float32(0))
        is_data = np.float32(1) / (np.float32(1) + kq * math.exp(-scores[i]))
        if i == 0:
            chance *= is_data
            scores[i] = np.float32(1) - is_data
        else:
            chance *= np.float32(1) - is_data
            scores[i] = -is_data
    return math.log(max(chance, 1e-300))


nce_gradients = jit(_nce_gradients)


def _exact_gradients(scores: Any, word: int) -> float:
    """Scores of every outcome -> the gradient of the word's log-probability; that is returned."""
    largest = scores.max()
    total = np.float32(0)
    for v in range(len(scores)):
        scores[v] = math.exp(scores[v] - largest)
        total += scores[v]
    prob = scores[word] / total
    for v in range(len(scores)):
        scores[v] = -scores[v] / total
    scores[word] += np.float32(1)
    return math.log(max(prob, 1e-300))


exact_gradients = jit(_exact_gradients)


def _pull_target(v: int, gradient: Any, predicted: Any, target: Any, squares: Any) -> Any:
    """The log-bilinear option: what to step a target's vector by, times the predicted one."""
    norm = np.float32(0)
    for d in range(len(predicted)):
        norm += predicted[d] * predicted[d]
    squares[v] += gradient * gradient * norm / np.float32(len(predicted))
    return gradient / math.sqrt(squares[v])


pull_target = jit(_pull_target)


def _pull_context(history: Any, pull: Any, cells: Cells, rate: Any) -> None:
    """Step the vectors of the history's words by what the targets pull them to."""
    context, position = cells.bilinear.context, cells.bilinear.position
    for j in range(len(history)):
        word = history[j]
        norm = np.float32(0)
        for d in range(len(pull)):
            norm += (pull[d] * position[j, d]) ** 2
        cells.context_squares[word] += norm / np.float32(len(pull))
        by = rate / math.sqrt(cells.context_squares[word])
        for d in range(len(pull)):
            old = context[word, d]
            context[word, d] += by * pull[d] * position[j, d]
            position[j, d] += np.float32(0.01) * by * pull[d] * old


pull_context = jit(_pull_context)


def _learn(run: Any, text: Text, sets: Sets, cells: Cells, plan: Plan) -> float:
    """One pass over the sentences `run`; returns the sum of the objective.

    With samples, noise contrastive estimation. Without, the exact gradient of Eq. 4: every
    outcome is a candidate at every position, which takes V / k times as long.
    """
    # Arrays are taken out of their groups here: to do so counts references, which inside the
    # loops would take longer than the arithmetic.
    tokens, offsets, weights = text.tokens, text.offsets, text.weights
    table, unigram, end, scalars = cells.table, cells.unigram, cells.end, cells.scalars
    context, position, target = cells.bilinear
    target_squares, noise, expected = cells.target_squares, plan.noise, plan.expected
    set_ids = sets.ids
    outcomes, mask, rate, width = len(end), len(table) - 1, plan.rate, context.shape[1]
    scratch = new_scratch(outcomes, width, plan.shape)
    held, logs, history = scratch.held, scratch.logs, scratch.history
    contexts, starts, predicted = scratch.contexts, scratch.starts, scratch.predicted
    exact = plan.samples == 0
    words = np.arange(outcomes if exact else plan.samples + 1)
    scores = np.empty(len(words), dtype=np.float32)
    pull = np.zeros(width, dtype=np.float32)
    state = plan.seed | np.uint64(1)
    objective = 0.0
    for s in run:
        left = hold(s, text, sets, scratch)
        weight = weights[s]
        for t in range(offsets[s], offsets[s + 1]):
            find_places(history, contexts, starts, plan.shape)
            if width:
                predict(history, context, position, predicted)
                pull[:] = 0
            if not exact:
                words[0] = tokens[t]
                state = draw(state, noise, words)
                mixture = (np.float32(1), np.float32(0))
                if left > 0 and plan.from_set > 0:
                    first, last = sets.offsets[text.images[s]], sets.offsets[text.images[s] + 1]
                    state = draw_attributes(state, set_ids[first:last], held, plan.from_set, words)
                    drawn = np.float32(plan.from_set / (last - first))
                    mixture = (np.float32(1) - drawn * np.float32(left / plan.samples), drawn)
            # All reads first: they do not wait for each other, and memory is what takes time.
            for i in range(len(words)):
                v = words[i]
                sign = PLUS if held[v] else MINUS
                total = unigram[sign * outcomes + v, 0]
                for c in range(starts.shape[1]):
                    total += table[(starts[sign, c] + v) & mask, 0]
                if sign == PLUS:
                    total += scalars[0, 0] + scalars[1, 0] * logs[v]
                if left == 0:
                    total += end[v, 0]
                for d in range(width):
                    total += predicted[d] * target[v, d]
                scores[i] = total
            if exact:
                objective += exact_gradients(scores, tokens[t])
            else:
                objective += nce_gradients(scores, words, expected, held, mixture)
            for i in range(len(words)):
                v, gradient = words[i], weight * scores[i]
                sign = PLUS if held[v] else MINUS
                step(unigram, sign * outcomes + v, gradient, rate)
                for c in range(starts.shape[1]):
                    step(table, (starts[sign, c] + v) & mask, gradient, rate)
                if sign == PLUS:
                    step(scalars, 0, gradient, rate)
                    if plan.use_score:
                        step(scalars, 1, gradient * logs[v], rate)
                if left == 0:
                    step(end, v, gradient, rate)
                if width:
                    by = rate * pull_target(v, gradient, predicted, target, target_squares)
                    for d in range(width):
                        pull[d] += gradient * target[v, d]
                        target[v, d] += by * predicted[d]
            if width:
                pull_context(history, pull, cells, rate)
            left = mention(tokens[t], left, history, held)
        release(s, text, sets, scratch)
    return objective


learn = jit(_learn)
