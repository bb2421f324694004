"""The state of language training: weights of Table 1, AdaGrad's sums, and their checkpoint."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sightwords.config import LanguageConfig
from sightwords.errors import ConfigError
from sightwords.files import DAMAGED_ZIP
from sightwords.language.arrays import LogBilinear, Shape, shape_of
from sightwords.language.features import FloatArray, IntArray
from sightwords.language.maxent import MaxEnt, padded_table
from sightwords.text.vocabulary import Vocabulary
from sightwords.train.integrity import summed_path

_CELLS = ("table", "unigram", "end", "scalars", "context_squares", "target_squares")
_VECTORS = ("context", "position", "target")


class Cells(NamedTuple):
    """Everything that training changes."""

    table: Any
    """(2^bits, 2)"""
    unigram: Any
    """(2 (V + 1), 2): N-gram-, then N-gram+."""
    end: Any
    """(V + 1, 2)"""
    scalars: Any
    """(2, 2): Attribute and Score."""
    bilinear: LogBilinear
    context_squares: Any
    """(V + 2,) sums of squared gradients, one for each vector."""
    target_squares: Any
    """(V + 1,)"""


class Noise(NamedTuple):
    """R rows of words drawn from the noise distribution; each position of the text uses one row."""

    words: Any
    """(R, k - from_set) uint32: the different words of a row, ascending."""
    times: Any
    """(R, k - from_set) float32: how often each was drawn."""
    drawn: Any
    """(R,) int64: how many different words."""
    spare: Any
    """(R, from_set) uint32: used if the attribute set has no words left."""


class Plan(NamedTuple):
    """How to train."""

    shape: Shape
    use_score: bool
    rate: Any
    noise: Noise
    expected: Any
    """(V + 1,) k q(word), k samples from the noise distribution q."""
    samples: int
    from_set: int
    """How many of the samples are drawn from the attribute set while it has words left."""
    seed: Any


@dataclass(frozen=True)
class State:
    """The cells of a run: each is a weight beside the sum of its squared gradients."""

    cells: Cells
    log_unigram: FloatArray
    """(V + 1,) logarithms of the noise distribution q."""

    def plan(self, config: LanguageConfig, *, noise: Noise, rate: float, seed: np.uint64) -> Plan:
        """The settings, for the kernels."""
        return Plan(
            shape=shape_of(config.ngram_order, config.distant_bigrams, config.table_bits),
            use_score=config.score_feature,
            rate=np.float32(rate),
            noise=noise,
            expected=np.exp(self.log_unigram) * np.float32(config.noise_samples),
            samples=config.noise_samples,
            from_set=config.attribute_samples,
            seed=seed,
        )

    def model(
        self,
        vocabulary: Vocabulary,
        config: LanguageConfig,
        followers: tuple[npt.NDArray[np.int64], IntArray] | None = None,
    ) -> MaxEnt:
        """The weights as a model; without followers it can score but not generate."""
        cells, outcomes = self.cells, len(self.cells.end)
        offsets, ids = followers or followers_of(np.empty(0, dtype=np.int64), outcomes - 1)
        vectors = (vector.copy() for vector in cells.bilinear)
        return MaxEnt(
            vocabulary=vocabulary,
            order=config.ngram_order,
            distant=config.distant_bigrams,
            table=padded_table(cells.table[:, 0], outcomes),
            scale=1.0,
            unigram=np.ascontiguousarray(cells.unigram[:, 0].reshape(2, outcomes)),
            end=cells.end[:, 0].copy(),
            attribute=float(cells.scalars[0, 0]),
            score=float(cells.scalars[1, 0]),
            follower_offsets=offsets,
            follower_ids=ids,
            log_bilinear=LogBilinear(*vectors) if config.log_bilinear else None,
        )


def new_state(log_unigram: FloatArray, config: LanguageConfig) -> State:
    """Every score at the logarithm of the word's frequency, all other weights 0.

    The sums of squares start above 0, so that the first step of a weight is small.
    """
    outcomes = len(log_unigram)
    width = config.bilinear_units if config.log_bilinear else 0
    rng = np.random.default_rng((config.seed, 2))

    def cells(count: int) -> FloatArray:
        found = np.zeros((count, 2), dtype=np.float32)
        found[:, 1] = config.first_square
        return found

    def vectors(count: int) -> FloatArray:
        return (rng.normal(size=(count, width)) * 0.1).astype(np.float32)

    unigram = cells(2 * outcomes)
    unigram[:, 0] = np.concatenate([log_unigram, log_unigram])
    position = np.ones((config.ngram_order - 1, width), dtype=np.float32)
    return State(
        Cells(
            table=cells(1 << config.table_bits),
            unigram=unigram,
            end=cells(outcomes),
            scalars=cells(2),
            bilinear=LogBilinear(vectors(outcomes + 1), position, vectors(outcomes)),
            context_squares=np.full(outcomes + 1, config.first_square, dtype=np.float32),
            target_squares=np.full(outcomes, config.first_square, dtype=np.float32),
        ),
        log_unigram,
    )


def followers_of(pairs: npt.NDArray[np.int64], size: int) -> tuple[npt.NDArray[np.int64], IntArray]:
    """Offsets (V + 2,) and ids of the words seen after each word; row V is the start symbol's.

    pairs: ascending before * (V + 2) + after, as counted in training; `size` is V.
    """
    before, after = np.divmod(pairs, size + 2)
    words = after < size - 1  # neither <unk> nor the end of sentence
    before, after = np.minimum(before[words], size), after[words]
    return np.searchsorted(before, np.arange(size + 2)), after.astype(np.int32)


def save_state(path: str | os.PathLike[str], state: State, epoch: int, identity: str) -> None:
    """Write a checkpoint, whole or not at all."""
    with summed_path(path) as temporary, temporary.open("wb") as stream:
        np.savez(
            stream,
            allow_pickle=False,
            epoch=np.array(epoch),
            identity=np.array(identity),
            log_unigram=state.log_unigram,
            **{name: getattr(state.cells, name) for name in _CELLS},
            **{name: getattr(state.cells.bilinear, name) for name in _VECTORS},
        )


def load_state(path: str | os.PathLike[str]) -> tuple[State, int, str]:
    """The state, the number of epochs done, and the identity of the run."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            bilinear = LogBilinear(*(stored[name] for name in _VECTORS))
            cells = Cells(bilinear=bilinear, **{name: stored[name] for name in _CELLS})
            state = State(cells, stored["log_unigram"])
            return state, int(stored["epoch"]), str(stored["identity"])
    except (OSError, KeyError, *DAMAGED_ZIP) as error:
        raise ConfigError(
            f"{path}: cannot be read as a checkpoint ({error}); delete it to start over"
        ) from error
