"""Training of the language model by noise contrastive estimation (section 4.1, Eq. 4).

Input: sentences with the attribute sets of their images. Output: a `MaxEnt`. NCE teaches the
model to tell each word from `noise_samples` words drawn by their frequency alone; weights start
where both are equally likely, at the logarithms of the words' frequencies. Each epoch's order and
noise follow from (seed, epoch, block): a run stopped after any block and resumed ends, on one
thread, with the weights of an unbroken one.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from sightwords.config import LanguageConfig
from sightwords.errors import ConfigError, CorpusError, require
from sightwords.language.maxent import MaxEnt
from sightwords.settings import to_toml
from sightwords.text.vocabulary import Vocabulary
from sightwords.train.integrity import is_whole
from sightwords.train.language.counts import Counted, count, merged
from sightwords.train.language.data import NO_SETS, AttributeSets, Sentences
from sightwords.train.language.noise_draws import noise_rows, smoothed
from sightwords.train.language.start import check_start, pairs_of, with_weights
from sightwords.train.language.state import (
    Noise,
    State,
    followers_of,
    load_state,
    new_state,
    save_state,
)

log = logging.getLogger(__name__)
Blocks = Callable[[], Iterable[Sentences]]
OnTokens = Callable[[int, int], None]
LAST_RATE = 0.05
"""The rate falls in a straight line to this share of the first."""


@dataclass(frozen=True, slots=True)
class EpochReport:
    """What a progress callback gets after each epoch."""

    epoch: int
    tokens: int
    objective: float
    """Mean NCE objective a token, in nats; 0 would be perfect."""
    state: State


def fit_language(
    blocks: Blocks,
    vocabulary: Vocabulary,
    config: LanguageConfig,
    *,
    sets: AttributeSets = NO_SETS,
    threads: int = 1,
    exact: bool = False,
    start: MaxEnt | None = None,
    counted: Counted | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Callable[[EpochReport], None] | None = None,
    on_tokens: OnTokens | None = None,
) -> MaxEnt:
    """Train on the sentences of `blocks()`, which is called once an epoch.

    They are counted beforehand in one more call, unless `counted` says what that would find.

    With `checkpoint`, a file, the state is written there after each epoch, and a run finds its
    way back to it. One thread is reproducible; more share the weights without locks. `exact`
    follows the exact gradient in place of NCE: the yardstick, V / k times slower. `start` is a
    model of the same words and features to go on from, in place of the frequencies. `on_tokens`
    is told after each block how many tokens of how many are done, all epochs counted.
    """
    found = counted or _count(blocks(), vocabulary)
    counts, bigrams = found.counts, found.pairs
    if not counts.sum():
        raise CorpusError("no captions to train on; give a source that has some")
    identity = _identity(config, vocabulary, counts, sets)
    if start is not None:
        config = check_start(start, vocabulary, config)
        identity = hashlib.sha256(identity.encode() + start.table.tobytes()).hexdigest()
        bigrams = np.union1d(bigrams, pairs_of(start))
    state, first = _start(counts, config, checkpoint, identity, start=start)
    noise = noise_rows(smoothed(counts, power=config.noise_power), config)
    for epoch in range(first, config.epochs):
        tokens, objective = 0, 0.0
        for number, block in enumerate(blocks()):
            rate = _rate(config, epoch)
            objective += run_block(
                state, block, sets, config, noise=noise, rate=rate,
                seed=(config.seed, epoch, number), threads=threads, exact=exact,
            )  # fmt: skip
            tokens += len(block.tokens)
            if on_tokens is not None:
                done = epoch * int(counts.sum()) + tokens
                on_tokens(done, config.epochs * int(counts.sum()))
        log.info("epoch %d: NCE objective %.4f a token", epoch + 1, objective / tokens)
        if checkpoint is not None:
            save_state(checkpoint, state, epoch + 1, identity)
        if progress is not None:
            progress(EpochReport(epoch + 1, tokens, objective / tokens, state))
    return state.model(vocabulary, config, followers_of(bigrams, len(vocabulary) + 1))


def run_block(
    state: State,
    block: Sentences,
    sets: AttributeSets,
    config: LanguageConfig,
    *,
    noise: Noise,
    rate: float,
    seed: tuple[int, ...],
    threads: int = 1,
    exact: bool = False,
) -> float:
    """One pass over a block in random order; returns the summed objective."""
    kernel = _kernel(exact)
    order = np.random.default_rng(seed).permutation(len(block))
    seeds = np.random.SeedSequence(seed).generate_state(threads, dtype=np.uint64)
    runs = np.array_split(order, threads)

    def part(number: int) -> float:
        plan = state.plan(config, noise=noise, rate=rate, seed=seeds[number])
        return float(kernel(runs[number], block.arrays(), sets.arrays(), state.cells, plan))

    if threads == 1:
        return part(0)
    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(part, range(threads)))


def _kernel(exact: bool) -> Callable[..., float]:
    require("numba", extra="train", purpose="training language models")
    if exact:
        from sightwords.train.language.exact import learn_exactly

        return learn_exactly
    from sightwords.train.language.nce import learn

    return learn


def _rate(config: LanguageConfig, epoch: int) -> float:
    done = epoch / max(1, config.epochs - 1)
    return config.learning_rate * (1 - done * (1 - LAST_RATE))


def _count(blocks: Iterable[Sentences], vocabulary: Vocabulary) -> Counted:
    nothing = Counted.nothing(vocabulary)
    return merged(chain([nothing], (count(block, vocabulary) for block in blocks)))


def _start(
    counts: npt.NDArray[np.int64],
    config: LanguageConfig,
    checkpoint: str | os.PathLike[str] | None,
    identity: str,
    *,
    start: MaxEnt | None,
) -> tuple[State, int]:
    if checkpoint is None or not is_whole(checkpoint):
        log_noise = np.log(smoothed(counts, power=config.noise_power))
        state = new_state(log_noise.astype(np.float32), config)
        return (state if start is None else with_weights(state, start)), 0
    state, epoch, stored = load_state(checkpoint)
    if stored != identity:
        raise ConfigError(
            f"{checkpoint}: is of a run with other settings, words or captions; go on with "
            "those, choose another folder, or delete the file to start over"
        )
    log.info("resumed %s after epoch %d of %d", checkpoint, epoch, config.epochs)
    return state, epoch


def _identity(
    config: LanguageConfig,
    vocabulary: Vocabulary,
    counts: npt.NDArray[np.int64],
    sets: AttributeSets,
) -> str:
    digest = hashlib.sha256(to_toml(config).encode())
    digest.update("\n".join(vocabulary.words).encode())
    for array in (counts, sets.offsets, sets.ids, sets.log_probs):
        digest.update(array.tobytes())
    return digest.hexdigest()
