"""Training of the language model by noise contrastive estimation (section 4.1, Eq. 4).

Input: sentences with the attribute sets of their images. Output: a `MaxEnt`. NCE teaches the
model to tell each word from `noise_samples` noise words. Weights start at the logarithms of the
words' frequencies, where words and noise are equally likely. The order of sentences and the noise
follow from (seed, epoch, block), so a stopped and resumed run ends, on one thread, with the
weights of an uninterrupted one.
"""

from __future__ import annotations

import dataclasses
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
from sightwords.errors import ConfigError, CorpusError, VocabularyError, require
from sightwords.language.maxent import MaxEnt
from sightwords.settings import to_toml
from sightwords.text.vocabulary import Vocabulary
from sightwords.train.integrity import is_whole
from sightwords.train.language.data import (
    NO_SETS,
    AttributeSets,
    Counted,
    Sentences,
    count,
    merged,
)
from sightwords.train.language.noise_draws import noise_rows, smoothed
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
Kernel = Callable[..., float]
"""Takes the numbers of some sentences, text, sets, cells and a plan; returns the objective."""
LAST_RATE = 0.05
"""The rate falls in a straight line to this share of the first."""


@dataclass(frozen=True, slots=True)
class EpochReport:
    """What a progress callback gets after each epoch."""

    epoch: int
    tokens: int
    objective: float
    """Mean NCE objective per token, in nats; 0 would be perfect."""
    state: State


def fit_language(
    blocks: Blocks,
    vocabulary: Vocabulary,
    config: LanguageConfig,
    *,
    sets: AttributeSets = NO_SETS,
    threads: int = 1,
    kernel: Kernel | None = None,
    start: MaxEnt | None = None,
    counted: Counted | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Callable[[EpochReport], None] | None = None,
    on_tokens: OnTokens | None = None,
) -> MaxEnt:
    """Train on the sentences of `blocks()`, which is called once per epoch.

    blocks: called once more before the first epoch to count words, unless `counted` is given.
    threads: one is reproducible; several share the weights without locks.
    start: a model of the same words and features to start from, instead of word frequencies.
    checkpoint: a file that is written after each epoch, and from which a stopped run resumes.
    on_tokens: called after each block with the tokens done and all tokens, of all epochs.
    kernel: what learns sentences instead of NCE (tests pass the exact gradient).
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
                seed=(config.seed, epoch, number), threads=threads, kernel=kernel,
            )  # fmt: skip
            tokens += len(block.tokens)
            if on_tokens is not None:
                done = epoch * int(counts.sum()) + tokens
                on_tokens(done, config.epochs * int(counts.sum()))
        log.info("epoch %d: NCE objective %.4f per token", epoch + 1, objective / tokens)
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
    kernel: Kernel | None = None,
) -> float:
    """One pass over a block in random order; returns the summed objective."""
    learn = kernel or _nce()
    order = np.random.default_rng(seed).permutation(len(block))
    seeds = np.random.SeedSequence(seed).generate_state(threads, dtype=np.uint64)
    runs = np.array_split(order, threads)

    def part(number: int) -> float:
        plan = state.plan(config, noise=noise, rate=rate, seed=seeds[number])
        return float(learn(runs[number], block.arrays(), sets.arrays(), state.cells, plan))

    if threads == 1:
        return part(0)
    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(part, range(threads)))


def _nce() -> Kernel:
    require("numba", extra="train", purpose="training language models")
    from sightwords.train.language.nce import learn

    found: Kernel = learn
    return found


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
            f"{checkpoint}: belongs to a run with other settings, words or captions; use the same "
            "ones, choose another folder, or delete the file to start over"
        )
    log.info("resumed %s after epoch %d of %d", checkpoint, epoch, config.epochs)
    return state, epoch


def check_start(start: MaxEnt, vocabulary: Vocabulary, config: LanguageConfig) -> LanguageConfig:
    """The settings with the model's own order and table; an error if the vocabulary differs.

    The words stay those of the model, because places in its table follow from their ids.
    """
    if start.vocabulary.words != vocabulary.words:
        raise VocabularyError(
            f"the model to start from has {len(start.vocabulary)} words, the vocabulary has "
            f"{len(vocabulary)}, or different ones; use the model's own vocabulary"
        )
    if (start.log_bilinear is not None) != config.log_bilinear:
        raise ConfigError(
            f"log_bilinear is {config.log_bilinear}, but {not config.log_bilinear} in the model to "
            "start from; use the same value"
        )
    return dataclasses.replace(
        config,
        ngram_order=start.order,
        distant_bigrams=start.distant,
        table_bits=start.table_bits,
    )


def with_weights(state: State, start: MaxEnt) -> State:
    """The state with a model's weights; sums of squares stay as they are."""
    cells = state.cells
    cells.table[:, 0] = start.table[: len(cells.table)] * np.float32(start.scale)
    cells.unigram[:, 0] = start.unigram.reshape(-1)
    cells.end[:, 0] = start.end
    cells.scalars[:, 0] = (start.attribute, start.score)
    if start.log_bilinear is not None:
        for mine, theirs in zip(cells.bilinear, start.log_bilinear, strict=True):
            mine[...] = theirs
    return state


def pairs_of(start: MaxEnt) -> npt.NDArray[np.int64]:
    """The model's pairs of neighbours, as `followers_of` takes them."""
    counts = np.diff(start.follower_offsets)
    before = np.repeat(np.arange(len(counts)), counts)
    before[before == start.size] = start.size + 1  # the start symbol
    found: npt.NDArray[np.int64] = np.unique(before * (start.size + 2) + start.follower_ids)
    return found


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
