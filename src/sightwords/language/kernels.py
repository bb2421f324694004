"""Eq. 3 compiled by numba (extra `fast`): the same sums as `maxent`, several times faster.

Imported only where numba is installed. Compiled code is cached on disk: beside this file, in the
user's cache where an installation is read-only (NUMBA_CACHE_DIR names another folder), or not at
all where neither can be written. `warm_up` compiles or loads what scoring needs, so that no
request pays for it.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from sightwords._version import __version__
from sightwords.errors import require
from sightwords.language import arrays, features
from sightwords.language.arrays import Scratch, Sets, Shape, Text, Weights
from sightwords.language.features import MINUS, PLUS, context_start, fill_contexts

log = logging.getLogger(__name__)
F = TypeVar("F", bound=Callable[..., Any])

_PURPOSE = "compiled scoring"
numba = require("numba", extra="fast", purpose=_PURPOSE)


def _digest(*paths: str) -> str:
    """Of the sources that compiled code depends on."""
    digest = hashlib.sha256(__version__.encode())
    for path in paths:
        with contextlib.suppress(OSError):  # an installation without sources
            digest.update(Path(path).read_bytes())
    return digest.hexdigest()[:12]


_SOURCES = (str(features.__file__), str(arrays.__file__), __file__)


def jit(
    function: F, *, beside: tuple[str, ...] = (), reorder: bool = True, fast: bool = False
) -> F:
    """Compile on first call, to run without Python's lock; cached on disk where possible.

    `fast` gives up exact rounding, infinities, NaN and the check for division by 0: for training
    only.

    numba's cache notices changes of the function's own file only, and fails on entries that name a
    class that no longer exists. So the cache key contains a digest of this package's sources and
    of the files `beside`.
    """
    # By default sums may be reordered, but infinities and NaN keep their meaning.
    options: dict[str, Any] = {"nogil": True}
    if fast:
        options |= {"fastmath": True, "error_model": "numpy"}
    elif reorder:
        options["fastmath"] = {"contract", "nsz", "arcp", "reassoc"}
    function.__qualname__ += f"_{_digest(*_SOURCES, *beside)}"
    try:
        compiled: F = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # no folder for the cache can be written
        log.warning("no cache folder for compiled code; set NUMBA_CACHE_DIR to keep it")
        compiled = numba.njit(**options)(function)
    return compiled


for _shared in (features.mix, fill_contexts, context_start):
    require("numba.extending", extra="fast", purpose=_PURPOSE).register_jitable(_shared)


def _new_scratch(outcomes: int, width: int, shape: Shape) -> Scratch:
    return Scratch(
        np.zeros(outcomes, dtype=np.bool_),
        np.zeros(outcomes, dtype=np.float32),
        np.empty(shape.reach, dtype=np.uint64),
        np.empty(shape.contexts, dtype=np.uint64),
        np.empty((2, shape.contexts), dtype=np.int64),
        np.zeros(width, dtype=np.float32),
    )


new_scratch = jit(_new_scratch)


def _find_places(history: Any, contexts: Any, starts: Any, shape: Shape) -> None:
    """Where the history's N-gram- and N-gram+ weights start."""
    if shape.reach:
        fill_contexts(history, contexts, shape.distant)
    for c in range(shape.contexts):
        starts[MINUS, c] = np.int64(context_start(contexts[c], np.uint64(MINUS), shape.shift))
        starts[PLUS, c] = np.int64(context_start(contexts[c], np.uint64(PLUS), shape.shift))


find_places = jit(_find_places)


def _predict(history: Any, context: Any, position: Any, predicted: Any) -> None:
    """The vector that the history predicts, where the log-bilinear option is on."""
    predicted[:] = 0
    for j in range(len(history)):
        for d in range(len(predicted)):
            predicted[d] += context[history[j], d] * position[j, d]


predict = jit(_predict)


def _hold(s: int, text: Text, sets: Sets, scratch: Scratch) -> int:
    """Start a sentence with its attribute set; the number of words in it, -1 without a set."""
    scratch.history[:] = np.uint64(len(scratch.held))  # the start symbol, V + 1
    image = text.images[s]
    if image < 0:
        return -1
    for j in range(sets.offsets[image], sets.offsets[image + 1]):
        scratch.held[sets.ids[j]] = True
        scratch.logs[sets.ids[j]] = sets.log_probs[j]
    return int(sets.offsets[image + 1] - sets.offsets[image])


hold = jit(_hold)


def _mention(word: int, left: int, history: Any, held: Any) -> int:
    """Append a word to the history and take it from the set; how many words remain."""
    for i in range(len(history) - 1):
        history[i] = history[i + 1]
    if len(history):
        history[len(history) - 1] = np.uint64(word)
    if held[word]:
        held[word] = False
        left -= 1
    return left


mention = jit(_mention)


def _release(s: int, text: Text, sets: Sets, scratch: Scratch) -> None:
    """End a sentence: forget what it left unmentioned."""
    image = text.images[s]
    if image >= 0:
        for j in range(sets.offsets[image], sets.offsets[image + 1]):
            scratch.held[sets.ids[j]] = False


release = jit(_release)


def _score_row(left: int, scratch: Scratch, weights: Weights, out: Any) -> None:
    """Unnormalised scores of every outcome after one history, (V + 1,), into `out`."""
    table, starts, scale = weights.table, scratch.starts, weights.scale
    out[:] = weights.unigram[MINUS]
    for c in range(starts.shape[1]):
        start = starts[MINUS, c]
        for v in range(len(out)):
            out[v] += scale * np.float32(table[start + v])
    if left == 0:
        for v in range(len(out)):
            out[v] += weights.end[v]
    elif left > 0:
        for v in range(len(out)):
            if scratch.held[v]:
                total = np.float32(0)
                for c in range(starts.shape[1]):
                    total += np.float32(table[starts[PLUS, c] + v])
                seen = weights.attribute + weights.score * scratch.logs[v]
                out[v] = weights.unigram[PLUS, v] + seen + scale * total
    for d in range(len(scratch.predicted)):
        for v in range(len(out)):
            out[v] += scratch.predicted[d] * weights.bilinear.target[v, d]


score_row = jit(_score_row)


def _score_rows(histories: Any, held: Any, logs: Any, weights: Weights, shape: Shape) -> Any:
    """`MaxEnt.score_next`: (K, V + 1)."""
    outcomes = len(weights.end)
    out = np.empty((len(histories), outcomes), dtype=np.float32)
    scratch = new_scratch(outcomes, weights.bilinear.context.shape[1], shape)
    scratch.logs[: outcomes - 1] = logs
    for k in range(len(histories)):
        scratch.history[:] = histories[k]
        scratch.held[: outcomes - 1] = held[k]
        find_places(scratch.history, scratch.contexts, scratch.starts, shape)
        predict(
            scratch.history, weights.bilinear.context, weights.bilinear.position, scratch.predicted
        )
        score_row(held[k].sum(), scratch, weights, out[k])
    return out


score_rows = jit(_score_rows)


def _log_sum_exp(values: Any) -> float:
    largest = values.max()
    total = 0.0
    for v in range(len(values)):
        total += math.exp(values[v] - largest)
    return float(largest) + math.log(total)


log_sum_exp = jit(_log_sum_exp)


def _token_log_probs(run: Any, text: Text, sets: Sets, weights: Weights, shape: Shape) -> Any:
    """Normalised log-probabilities of the tokens of sentences first to last, `run`, in order.

    A sentence without an attribute set is scored as training sees it: End does not fire.
    """
    first, last = run
    scratch = new_scratch(len(weights.end), weights.bilinear.context.shape[1], shape)
    history, bilinear = scratch.history, weights.bilinear
    row = np.empty(len(weights.end), dtype=np.float32)
    origin = text.offsets[first]
    out = np.empty(text.offsets[last] - origin, dtype=np.float64)
    for s in range(first, last):
        left = hold(s, text, sets, scratch)
        for t in range(text.offsets[s], text.offsets[s + 1]):
            find_places(history, scratch.contexts, scratch.starts, shape)
            predict(history, bilinear.context, bilinear.position, scratch.predicted)
            score_row(left, scratch, weights, row)
            out[t - origin] = row[text.tokens[t]] - log_sum_exp(row)
            left = mention(text.tokens[t], left, history, scratch.held)
        release(s, text, sets, scratch)
    return out


token_log_probs = jit(_token_log_probs)
