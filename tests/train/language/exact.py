"""The exact gradient of Eq. 4, which NCE approximates: an oracle for tests and benchmarks.

`learn_exactly` is a `kernel` of `train.language.maxent.fit_language`. Every outcome is a candidate
at every position, which takes V / k times as long as NCE with k noise words.
"""

from __future__ import annotations

import math
from typing import Any

import numba
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
from sightwords.train.language.nce import pull_context, pull_target
from sightwords.train.language.state import Cells, Plan

# Not cached on disk: numba cannot load cached functions of a module that no import finds.
jit = numba.njit(nogil=True, fastmath={"contract", "nsz", "arcp", "reassoc"})


def _step(cells: Any, i: int, gradient: Any, rate: Any) -> None:
    """AdaGrad: one step up a log-likelihood's gradient."""
    total = cells[i, 1] + gradient * gradient
    cells[i, 1] = total
    cells[i, 0] += rate * gradient / math.sqrt(total)


step = jit(_step)


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


def _learn_exactly(run: Any, text: Text, sets: Sets, cells: Cells, plan: Plan) -> float:
    """One pass over the sentences `run`; returns the sum of the objective."""
    # Arrays are taken out of their groups here: doing so inside the loops would cost more than
    # the arithmetic.
    tokens, offsets, weights = text.tokens, text.offsets, text.weights
    table, unigram, end, scalars = cells.table, cells.unigram, cells.end, cells.scalars
    context, position, target = cells.bilinear
    target_squares = cells.target_squares
    outcomes, mask, rate, width = len(end), len(table) - 1, plan.rate, context.shape[1]
    scratch = new_scratch(outcomes, width, plan.shape)
    held, logs, history = scratch.held, scratch.logs, scratch.history
    contexts, starts, predicted = scratch.contexts, scratch.starts, scratch.predicted
    scores = np.empty(outcomes, dtype=np.float32)
    pull = np.zeros(width, dtype=np.float32)
    objective = 0.0
    for s in run:
        left = hold(s, text, sets, scratch)
        weight = weights[s]
        for t in range(offsets[s], offsets[s + 1]):
            find_places(history, contexts, starts, plan.shape)
            if width:
                predict(history, context, position, predicted)
                pull[:] = 0
            for v in range(outcomes):
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
                scores[v] = total
            objective += exact_gradients(scores, tokens[t])
            for v in range(outcomes):
                gradient = weight * scores[v]
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


learn_exactly = jit(_learn_exactly)
