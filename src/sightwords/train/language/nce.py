"""Noise contrastive estimation (section 4.1, Eq. 4), compiled by numba, at the speed of memory.

A *cell* is a weight beside AdaGrad's sum of its squared gradients; one cache line holds both.
Threads change the same cells without locks; one thread gives the same weights every time.

A sentence is learned in two passes. `gather` writes down, for each of its tokens, the *candidates*
(the word and its noise; noise drawn twice is one candidate that counts twice) and the places of
their weights, and asks the processor to fetch these. `learn` gathers one sentence while it follows
the gradient of the one before, so that it computes while memory is slow. Scores, gradients and
AdaGrad's steps run over all candidates of a sentence at once, which compilers turn into vector
instructions. If a weight serves several candidates, all their steps use the old sum of squares.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from sightwords.errors import require
from sightwords.language.arrays import Scratch, Sets, Text
from sightwords.language.kernels import find_places, hold, mention, new_scratch, predict, release
from sightwords.language.kernels import jit as plain_jit
from sightwords.train.language import state as state_module
from sightwords.train.language.state import Cells, Plan

_PURPOSE = "training language models"
_extending = require("numba.extending", extra="train", purpose=_PURPOSE)
_numba = require("numba", extra="train", purpose=_PURPOSE)
_cgutils = require("numba.core.cgutils", extra="train", purpose=_PURPOSE)
_ir = require("llvmlite.ir", extra="train", purpose=_PURPOSE)

exact_jit = partial(plain_jit, beside=(str(state_module.__file__),))
jit = partial(exact_jit, fast=True)
STRIDE = 24
"""Tokens learned at a time; a longer sentence is learned in pieces."""
OBJECTIVE_EVERY = 16
"""The objective is summed over every 16th sentence, because logarithms take time."""
TINY = np.float32(1e-30)


class Stride(NamedTuple):
    """Up to STRIDE tokens and their candidates, N in all, one token's after another's."""

    words: Any
    """(N,) uint32"""
    times: Any
    """(N,) how often each was drawn; 1 for the word of the caption."""
    signs: Any
    """(N,) 1 for a word in the attribute set, else 0."""
    logs: Any
    """(N,) its log-probability, while it is there."""
    expected: Any
    """(N,) k q(word)"""
    slots: Any
    """(contexts + 1, N) uint32, flat: places in the table, then in `unigram`."""
    bounds: Any
    """(tokens + 1,) where each token's candidates start; the caption's word comes first."""
    remaining: Any
    """(tokens,) words left in the attribute set; -1 if the sentence has no set."""
    history: Any
    """(tokens, order - 1)"""


class Work(NamedTuple):
    """Numbers on the way from scores to steps; (N,) unless stated otherwise."""

    scores: Any
    gradients: Any
    squares: Any
    steps: Any
    """(contexts + 1, N), flat: sums of squares, then steps."""
    predicted: Any
    """(D,) the log-bilinear option: the vector that the history predicts."""
    pull: Any
    """(D,) the gradient of that vector."""


class Given(NamedTuple):
    """What a pass works on."""

    text: Text
    sets: Sets
    cells: Cells
    plan: Plan


def _new_stride(size: int, contexts: int, reach: int) -> Stride:
    return Stride(
        np.zeros(size, dtype=np.uint32),
        np.zeros(size, dtype=np.float32),
        np.zeros(size, dtype=np.float32),
        np.zeros(size, dtype=np.float32),
        np.zeros(size, dtype=np.float32),
        np.zeros(size * (contexts + 1), dtype=np.uint32),
        np.zeros(STRIDE + 1, dtype=np.int64),
        np.zeros(STRIDE, dtype=np.int64),
        np.zeros((STRIDE, reach), dtype=np.uint64),
    )


new_stride = jit(_new_stride)


_FOR_WRITING, _KEEP, _DATA = 1, 3, 1


@_extending.intrinsic  # type: ignore[untyped-decorator]
def prefetch(_context: Any, cells: Any, row: Any) -> Any:
    """`prefetch(cells, row)`: fetch row `row` (uint64) of cells (N, 2), without waiting."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        place = builder.mul(arguments[1], _ir.Constant(arguments[1].type, 2))
        pointer = builder.bitcast(builder.gep(array.data, [place]), _cgutils.voidptr_t)
        number = _ir.IntType(32)
        kind = _ir.FunctionType(_ir.VoidType(), [_cgutils.voidptr_t, number, number, number])
        fetch = builder.module.declare_intrinsic("llvm.prefetch", [_cgutils.voidptr_t], kind)
        how = [_ir.Constant(number, value) for value in (_FOR_WRITING, _KEEP, _DATA)]
        builder.call(fetch, [pointer, *how])
        return context.get_dummy_value()

    return _numba.types.void(cells, _numba.types.uint64), generate


def _next_random(state: Any) -> Any:
    """The next state of xorshift64; use its top bits, which are the most random."""
    state ^= state << np.uint64(13)
    state ^= state >> np.uint64(7)
    state ^= state << np.uint64(17)
    return state


next_random = exact_jit(_next_random)


def _gather(span: Any, state: Any, given: Given, scratch: Scratch, stride: Stride) -> Any:
    """Write down tokens; returns how much is left of the attribute set, and the random state.

    span: the sentence, its first token and the one after the last, and words left in the set.
    """
    s, first, last, left = span
    text, sets, cells, plan = given
    held, logs, history, starts = scratch.held, scratch.logs, scratch.history, scratch.starts
    words, times, signs, slots = stride.words, stride.times, stride.signs, stride.slots
    noise_words, noise_times, drawn = plan.noise.words, plan.noise.times, plan.noise.drawn
    spare, set_ids, table, base = plan.noise.spare, sets.ids, cells.table, plan.expected
    tokens, from_set, shape = text.tokens, plan.from_set, plan.shape
    contexts, size = starts.shape[1], len(words)
    outcomes, mask = np.uint32(len(held)), np.uint32(len(table) - 1)
    start, attributes, each = np.int64(0), np.uint64(0), np.float32(0)
    if left > 0:
        start = sets.offsets[text.images[s]]
        attributes = np.uint64(sets.offsets[text.images[s] + 1] - start)
        each = np.float32(from_set) / np.float32(attributes)
    state = next_random(state)
    row = np.uint64(state >> np.uint64(24))
    n = 0
    for t in range(first, last):
        find_places(history, scratch.contexts, starts, shape)
        begin, m = n, t - first
        words[n], times[n] = tokens[t], np.float32(1)
        n += 1
        row = (row + np.uint64(1)) & np.uint64(len(drawn) - 1)
        for i in range(drawn[row]):
            words[n + i], times[n + i] = noise_words[row, i], noise_times[row, i]
        n += drawn[row]
        share, extra = np.float32(1), np.float32(0)
        if left > 0:
            share -= each * np.float32(left) / np.float32(plan.samples)
            extra = each
        for i in range(from_set):
            word = spare[row, i]
            if left > 0:  # a draw that hits a word already mentioned leaves the noise
                state = next_random(state)
                pick = ((state >> np.uint64(32)) * attributes) >> np.uint64(32)
                other = np.uint32(set_ids[start + np.int64(pick)])
                word = other if held[other] else word
            words[n], times[n] = word, np.float32(1)
            n += 1
        for i in range(begin, n):
            word = words[i]
            sign = np.uint32(held[word])
            signs[i] = sign
            stride.logs[i] = logs[word] * np.float32(sign)
            stride.expected[i] = share * base[word] + extra * np.float32(sign)
            slots[contexts * size + i] = sign * outcomes + word
            for c in range(contexts):
                slot = np.uint32(np.uint32(starts[sign, c]) + word) & mask
                slots[c * size + i] = slot
                prefetch(table, np.uint64(slot))
        stride.remaining[m] = left
        for i in range(len(history)):
            stride.history[m, i] = history[i]
        left = mention(tokens[t], left, history, held)
        stride.bounds[m + 1] = n
    return left, state


gather = jit(_gather)


def _exp(x: Any) -> Any:
    """Exp in 32 bits, to 2e-7: written out, so that many are computed side by side."""
    scaled = min(max(x, np.float32(-80)), np.float32(80)) * np.float32(1.4426950408889634)
    whole = np.floor(scaled + np.float32(0.5))
    part = scaled - whole
    power = np.float32(1.8775767e-3)
    power = power * part + np.float32(8.9893397e-3)
    power = power * part + np.float32(5.5826318e-2)
    power = power * part + np.float32(2.4015361e-1)
    power = power * part + np.float32(6.9315308e-1)
    power = power * part + np.float32(9.9999994e-1)
    bits = np.int32((np.int32(whole) + np.int32(127)) << np.int32(23))
    return power * bits.view(np.float32)


exp = jit(_exp)


def _read(n: int, stride: Stride, cells: Cells, work: Work) -> None:
    """Weights of the table's and the unigrams' cells -> scores, and the sums of squares."""
    size, scores, sums = len(work.scores), work.scores, work.steps
    unigram, table, slots = cells.unigram, cells.table, stride.slots
    signs, logs = stride.signs, stride.logs
    contexts = len(slots) // size - 1
    attribute, score = cells.scalars[0, 0], cells.scalars[1, 0]
    last = contexts * size
    for i in range(n):
        slot = slots[last + i]
        sums[last + i] = unigram[slot, 1]
        scores[i] = unigram[slot, 0] + signs[i] * attribute + score * logs[i]
    for c in range(contexts):
        for i in range(n):
            slot = slots[c * size + i]
            scores[i] += table[slot, 0]
            sums[c * size + i] = table[slot, 1]


read = jit(_read)


def _follow(n: int, tokens: int, weight: Any, stride: Stride, work: Work) -> None:
    """Scores -> P(data | word) in their place, gradients and their squares."""
    chances, gradients, squares = work.scores, work.gradients, work.squares
    expected, times, bounds = stride.expected, stride.times, stride.bounds
    square = weight * weight
    for i in range(n):
        # P(data | word) = exp(score) / (exp(score) + k q(word))
        chance = np.float32(1) / (np.float32(1) + expected[i] * exp(-chances[i]))
        chances[i] = chance
        gradients[i] = -weight * times[i] * chance
        squares[i] = square * times[i] * chance * chance
    for m in range(tokens):
        i = bounds[m]
        rest = np.float32(1) - chances[i]
        gradients[i], squares[i] = weight * rest, square * rest * rest


follow = jit(_follow)


def _objective(n: int, tokens: int, stride: Stride, chances: Any) -> float:
    """The sum of the objective of Eq. 4 by NCE: the word is data, its noise is not."""
    total = 0.0
    for i in range(n):
        total += stride.times[i] * math.log(max(np.float32(1) - chances[i], TINY))
    for m in range(tokens):
        chance = chances[stride.bounds[m]]
        total += math.log(max(chance, TINY)) - math.log(max(np.float32(1) - chance, TINY))
    return total


objective_of = jit(_objective)


def _write(part: Any, cells: Any, rate: Any, stride: Stride, work: Work) -> None:
    """AdaGrad: one step up the gradient for n cells; their places start at `first`."""
    n, first = part
    gradients, squares, steps, slots = work.gradients, work.squares, work.steps, stride.slots
    for i in range(n):
        steps[first + i] = rate * gradients[i] / math.sqrt(steps[first + i] + squares[i])
    for i in range(n):
        slot = slots[first + i]
        cells[slot, 0] += steps[first + i]
        cells[slot, 1] += squares[i]


write = jit(_write)


def _write_scalars(n: int, cells: Any, plan: Plan, stride: Stride, work: Work) -> None:
    """Attribute and Score: one step for the whole stride."""
    gradients, squares, signs, logs = work.gradients, work.squares, stride.signs, stride.logs
    first, first_square = np.float32(0), np.float32(0)
    second, second_square = np.float32(0), np.float32(0)
    for i in range(n):
        first += signs[i] * gradients[i]
        first_square += signs[i] * squares[i]
        second += logs[i] * gradients[i]
        second_square += logs[i] * logs[i] * squares[i]
    cells[0, 1] += first_square
    cells[0, 0] += plan.rate * first / math.sqrt(cells[0, 1])
    if plan.use_score:
        cells[1, 1] += second_square
        cells[1, 0] += plan.rate * second / math.sqrt(cells[1, 1])


write_scalars = jit(_write_scalars)


def _write_end(tokens: int, rate: Any, end: Any, stride: Stride, work: Work) -> None:
    """End: only where the attribute set is empty."""
    for m in range(tokens):
        if stride.remaining[m] == 0:
            for i in range(stride.bounds[m], stride.bounds[m + 1]):
                word = stride.words[i]
                end[word, 1] += work.squares[i]
                end[word, 0] += rate * work.gradients[i] / math.sqrt(end[word, 1])


write_end = jit(_write_end)


def _add_end(tokens: int, end: Any, stride: Stride, scores: Any) -> None:
    for m in range(tokens):
        if stride.remaining[m] == 0:
            for i in range(stride.bounds[m], stride.bounds[m + 1]):
                scores[i] += end[stride.words[i], 0]


add_end = jit(_add_end)


def _add_vectors(tokens: int, cells: Cells, stride: Stride, work: Work) -> None:
    """The log-bilinear option: what the vectors add to the scores."""
    context, position, target = cells.bilinear
    for m in range(tokens):
        predict(stride.history[m], context, position, work.predicted)
        for i in range(stride.bounds[m], stride.bounds[m + 1]):
            for d in range(len(work.predicted)):
                work.scores[i] += work.predicted[d] * target[stride.words[i], d]


add_vectors = jit(_add_vectors)


def _pull_target(v: int, gradient: Any, predicted: Any, target: Any, squares: Any) -> Any:
    """The log-bilinear option: step of a target's vector, as a factor of the predicted one."""
    norm = np.float32(0)
    for d in range(len(predicted)):
        norm += predicted[d] * predicted[d]
    squares[v] += gradient * gradient * norm / np.float32(len(predicted))
    return gradient / math.sqrt(squares[v])


pull_target = exact_jit(_pull_target)


def _pull_context(history: Any, pull: Any, cells: Cells, rate: Any) -> None:
    """The log-bilinear option: step the vectors of the history's words."""
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


pull_context = exact_jit(_pull_context)


def _write_vectors(tokens: int, rate: Any, cells: Cells, stride: Stride, work: Work) -> None:
    """The log-bilinear option: steps of the vectors."""
    context, position, target = cells.bilinear
    predicted, pull = work.predicted, work.pull
    for m in range(tokens):
        predict(stride.history[m], context, position, predicted)
        pull[:] = 0
        for i in range(stride.bounds[m], stride.bounds[m + 1]):
            word, gradient = stride.words[i], work.gradients[i]
            by = rate * pull_target(word, gradient, predicted, target, cells.target_squares)
            for d in range(len(predicted)):
                pull[d] += gradient * target[word, d]
                target[word, d] += by * predicted[d]
        pull_context(stride.history[m], pull, cells, rate)


write_vectors = jit(_write_vectors)


def _climb(tokens: int, weight: Any, given: Given, stride: Stride, work: Work) -> None:
    """One step up the gradient of a stride."""
    cells, rate = given.cells, given.plan.rate
    n, size = stride.bounds[tokens], len(work.scores)
    read(n, stride, cells, work)
    add_end(tokens, cells.end, stride, work.scores)
    if len(work.predicted):
        add_vectors(tokens, cells, stride, work)
    follow(n, tokens, weight, stride, work)
    contexts = len(stride.slots) // size - 1
    for c in range(contexts):
        write((n, c * size), cells.table, rate, stride, work)
    write((n, contexts * size), cells.unigram, rate, stride, work)
    write_scalars(n, cells.scalars, given.plan, stride, work)
    write_end(tokens, rate, cells.end, stride, work)
    if len(work.predicted):
        write_vectors(tokens, rate, cells, stride, work)


climb = jit(_climb)


def _learn(run: Any, text: Text, sets: Sets, cells: Cells, plan: Plan) -> float:
    """One pass over the sentences `run`; returns the sum of the objective, extrapolated."""
    if len(run) == 0:
        return 0.0
    given = Given(text, sets, cells, plan)
    offsets, weights = text.offsets, text.weights
    width = cells.bilinear[0].shape[1]
    scratch = new_scratch(len(cells.end), width, plan.shape)
    contexts, reach = scratch.starts.shape[1], len(scratch.history)
    size = STRIDE * (plan.samples + 1)
    now, ahead = new_stride(size, contexts, reach), new_stride(size, contexts, reach)
    work = Work(
        np.zeros(size, dtype=np.float32),
        np.zeros(size, dtype=np.float32),
        np.zeros(size, dtype=np.float32),
        np.ones(size * (contexts + 1), dtype=np.float32),
        scratch.predicted,
        np.zeros(width, dtype=np.float32),
    )
    state = plan.seed | np.uint64(1)
    total, measured, seen = 0.0, 0, 0
    tokens, weight = 0, np.float32(0)
    for place in range(len(run) + 1):
        s = run[min(place, len(run) - 1)]
        t, end = offsets[s], offsets[s + 1]
        if place == len(run):
            t = end  # nothing more to gather: only the last stride is left
        left = hold(s, text, sets, scratch)
        while True:
            stop = min(t + STRIDE, end)
            if t < stop:
                left, state = gather((s, t, stop, left), state, given, scratch, ahead)
            if tokens > 0:
                climb(tokens, weight, given, now, work)
                seen += tokens
                if place % OBJECTIVE_EVERY == 1:
                    total += objective_of(now.bounds[tokens], tokens, now, work.scores)
                    measured += tokens
            now, ahead, tokens, weight = ahead, now, stop - t, weights[s]
            t = stop
            if t == end:
                break
        release(s, text, sets, scratch)
    return total * seen / measured


learn = jit(_learn)
