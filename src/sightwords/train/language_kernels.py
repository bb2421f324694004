"""Noise contrastive estimation and the exact gradient of Eq. 4, compiled by numba.

A *cell* is a weight beside AdaGrad's sum of its squared gradients: one cache line holds both.
Threads run the kernels side by side on the same cells without locks; one thread alone gives the
same weights every time.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sightwords.language.arrays import Scratch, Sets, Text
from sightwords.language.features import MINUS, PLUS
from sightwords.language.kernels import (
    find_places,
    hold,
    jit,
    mention,
    new_scratch,
    predict,
    release,
)
from sightwords.train.language_state import Cells, Plan


def _step(cells: Any, i: int, gradient: Any, rate: Any) -> None:
    """AdaGrad: one step up a log-likelihood's gradient."""
    total = cells[i, 1] + gradient * gradient
    cells[i, 1] = total
    cells[i, 0] += rate * gradient / math.sqrt(total)


step = jit(_step)


def _score(v: int, left: int, scratch: Scratch, cells: Cells) -> Any:
    """The score of Eq. 3 of one outcome."""
    outcomes, mask = len(cells.end), len(cells.table) - 1
    sign = PLUS if scratch.held[v] else MINUS
    total = cells.unigram[sign * outcomes + v, 0]
    for c in range(scratch.starts.shape[1]):
        total += cells.table[(scratch.starts[sign, c] + v) & mask, 0]
    if sign == PLUS:
        total += cells.scalars[0, 0] + cells.scalars[1, 0] * scratch.logs[v]
    if left == 0:
        total += cells.end[v, 0]
    for d in range(len(scratch.predicted)):
        total += scratch.predicted[d] * cells.bilinear.target[v, d]
    return total


score = jit(_score)


def _update(case: Any, gradient: Any, scratch: Scratch, cells: Cells, plan: Plan) -> None:
    """Step all weights of one outcome's features; `case` is the outcome and the words left."""
    v, left = case
    outcomes, mask, rate = len(cells.end), len(cells.table) - 1, plan.rate
    sign = PLUS if scratch.held[v] else MINUS
    step(cells.unigram, sign * outcomes + v, gradient, rate)
    for c in range(scratch.starts.shape[1]):
        step(cells.table, (scratch.starts[sign, c] + v) & mask, gradient, rate)
    if sign == PLUS:
        step(cells.scalars, 0, gradient, rate)
        if plan.use_score:
            step(cells.scalars, 1, gradient * scratch.logs[v], rate)
    if left == 0:
        step(cells.end, v, gradient, rate)


update = jit(_update)


def _pull_target(v: int, gradient: Any, scratch: Scratch, cells: Cells, pull: Any) -> None:
    """The log-bilinear option: gather what the history's vectors learn, step the target's.

    `pull` (D + 1,) ends in the rate.
    """
    width = len(scratch.predicted)
    target = cells.bilinear.target
    norm = np.float32(0)
    for d in range(width):
        norm += scratch.predicted[d] * scratch.predicted[d]
        pull[d] += gradient * target[v, d]
    cells.target_squares[v] += gradient * gradient * norm / width
    by = pull[width] * gradient / math.sqrt(cells.target_squares[v])
    for d in range(width):
        target[v, d] += by * scratch.predicted[d]


pull_target = jit(_pull_target)


def _pull_context(scratch: Scratch, cells: Cells, pull: Any) -> None:
    """Step the vectors of the history's words by what `pull` gathered."""
    width, rate = len(scratch.predicted), pull[len(scratch.predicted)]
    context, position = cells.bilinear.context, cells.bilinear.position
    for j in range(len(scratch.history)):
        word = scratch.history[j]
        norm = np.float32(0)
        for d in range(width):
            norm += (pull[d] * position[j, d]) ** 2
        cells.context_squares[word] += norm / width
        by = rate / math.sqrt(cells.context_squares[word])
        for d in range(width):
            old = context[word, d]
            context[word, d] += by * pull[d] * position[j, d]
            position[j, d] += np.float32(0.01) * by * pull[d] * old


pull_context = jit(_pull_context)


def _draw(state: Any, plan: Plan, words: Any) -> Any:
    """Fill `words` from its second place on with noise; the next state of xorshift64."""
    state ^= state << np.uint64(13)
    state ^= state >> np.uint64(7)
    state ^= state << np.uint64(17)
    # The top bits are the best of it.
    first = np.int64((state >> np.uint64(24)) & np.uint64(len(plan.noise) - plan.samples - 1))
    for i in range(plan.samples):
        words[i + 1] = plan.noise[first + i]
    return state


draw = jit(_draw)


def _nce(run: Any, text: Text, sets: Sets, cells: Cells, plan: Plan) -> float:
    """One pass over the sentences `run`; returns the sum of the NCE objective."""
    width = cells.bilinear.context.shape[1]
    scratch = new_scratch(len(cells.end), width, plan.shape)
    words = np.empty(plan.samples + 1, dtype=np.int64)
    scores = np.empty(plan.samples + 1, dtype=np.float32)
    pull = np.zeros(width + 1, dtype=np.float32)
    pull[width] = plan.rate
    state = plan.seed | np.uint64(1)
    objective = 0.0
    for s in run:
        left = hold(s, text, sets, scratch)
        for t in range(text.offsets[s], text.offsets[s + 1]):
            find_places(scratch, plan.shape)
            words[0] = text.tokens[t]
            state = draw(state, plan, words)
            predict(scratch, cells.bilinear)
            pull[:width] = 0
            # All reads first: they do not wait for each other, and memory is what takes time.
            for i in range(len(words)):
                scores[i] = score(words[i], left, scratch, cells) - plan.log_kq[words[i]]
            chance = 1.0
            for i in range(len(words)):
                # P(data | word) = exp(score) / (exp(score) + k q(word))
                is_data = np.float32(1) / (np.float32(1) + math.exp(-scores[i]))
                right = is_data if i == 0 else np.float32(1) - is_data
                chance *= right
                error = np.float32(1) - is_data if i == 0 else -is_data
                gradient = text.weights[s] * error
                if width:
                    pull_target(words[i], gradient, scratch, cells, pull)
                update((words[i], left), gradient, scratch, cells, plan)
            if width:
                pull_context(scratch, cells, pull)
            objective += math.log(max(chance, 1e-300))
            left = mention(text.tokens[t], left, scratch)
        release(s, text, sets, scratch)
    return objective


nce = jit(_nce)


def _exact(run: Any, text: Text, sets: Sets, cells: Cells, plan: Plan) -> float:
    """One pass up the exact gradient of Eq. 4, every outcome of every position; its sum.

    The yardstick for `nce`, for small data: it takes V / k times as long.
    """
    width = cells.bilinear.context.shape[1]
    scratch = new_scratch(len(cells.end), width, plan.shape)
    scores = np.empty(len(cells.end), dtype=np.float32)
    pull = np.zeros(width + 1, dtype=np.float32)
    pull[width] = plan.rate
    objective = 0.0
    for s in run:
        left = hold(s, text, sets, scratch)
        for t in range(text.offsets[s], text.offsets[s + 1]):
            find_places(scratch, plan.shape)
            predict(scratch, cells.bilinear)
            pull[:width] = 0
            for v in range(len(scores)):
                scores[v] = score(v, left, scratch, cells)
            largest = scores.max()
            total = 0.0
            for v in range(len(scores)):
                scores[v] = math.exp(scores[v] - largest)
                total += scores[v]
            objective += math.log(max(scores[text.tokens[t]] / total, 1e-300))
            for v in range(len(scores)):
                right = np.float32(1) if v == text.tokens[t] else np.float32(0)
                gradient = text.weights[s] * (right - np.float32(scores[v] / total))
                if width:
                    pull_target(v, gradient, scratch, cells, pull)
                update((v, left), gradient, scratch, cells, plan)
            if width:
                pull_context(scratch, cells, pull)
            left = mention(text.tokens[t], left, scratch)
        release(s, text, sets, scratch)
    return objective


exact = jit(_exact)
