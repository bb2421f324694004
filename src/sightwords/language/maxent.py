"""The maximum entropy language model (section 4.1, Eq. 3): words so far -> the next word's scores.

Ids: the V outcomes are the vocabulary's words, 0 to V - 2, in its order, and `<unk>`, V - 1,
which stands for every other word (`Vocabulary.encode` gives these ids). The end of sentence is
V. V + 1 is the start symbol: it fills histories shorter than three words and is never predicted.

A history is the last order - 1 ids, the most recent last. The attribute set holds the detected
words not yet mentioned; the closed-class words are never in it. Decoding uses the unnormalised
scores as the paper does; perplexity and `log_probs_next` normalise over all V + 1 outcomes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from sightwords.errors import BundleError, InputError, VocabularyError, require
from sightwords.language.arrays import LogBilinear, Shape, Weights, no_bilinear, shape_of
from sightwords.language.features import (
    MINUS,
    NO_ATTRIBUTES,
    PLUS,
    Attributes,
    FloatArray,
    IntArray,
    context_starts,
    unpack,
)
from sightwords.language.table_file import read_model, write_model
from sightwords.sealed import Sealed
from sightwords.text.vocabulary import UNKNOWN, Vocabulary

__all__ = ["LogBilinear", "MaxEnt", "padded_table"]


@dataclass(frozen=True)
class MaxEnt:
    """A trained model: the weights of Table 1. Arrays are read-only."""

    vocabulary: Vocabulary
    """The words it tells apart, V - 1 of them; `<unk>` is added here."""
    order: int
    """Longest N-gram, 4 in the paper."""
    distant: bool
    """Whether bigrams over a gap are features too."""
    table: npt.NDArray[np.float32] | npt.NDArray[np.int8]
    """(2^bits + V + 1,) hashed weights over `scale`; the first V + 1 again at the end, so that
    the weights of a context are one slice."""
    scale: float
    unigram: FloatArray
    """(2, V + 1) N-gram- and N-gram+ of single words."""
    end: FloatArray
    """(V + 1,) End."""
    attribute: float
    """Attribute."""
    score: float
    """Score; 0 in the paper's row "Baseline"."""
    follower_offsets: npt.NDArray[np.int64]
    """(V + 2,) where each word's followers start in `follower_ids`; row V is the start symbol's."""
    follower_ids: IntArray
    """Words observed after each word in training, ascending."""
    log_bilinear: LogBilinear | None = None
    kernels: ModuleType | None = field(default=None, repr=False, compare=False)
    """`sightwords.language.kernels`, where scoring is compiled: see `compiled`."""
    words: tuple[str, ...] = field(init=False, repr=False, compare=False)
    """(V,) the vocabulary's words and `<unk>`."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", (*self.vocabulary.words, UNKNOWN))
        _check(self)
        for array in (self.table, self.unigram, self.end, self.follower_ids):
            array.setflags(write=False)

    @property
    def size(self) -> int:
        """V: the vocabulary's words and `<unk>`."""
        return len(self.words)

    @property
    def unknown_id(self) -> int:
        """V - 1."""
        return len(self.words) - 1

    @property
    def end_id(self) -> int:
        """V."""
        return len(self.words)

    @property
    def start_id(self) -> int:
        """V + 1: only in histories."""
        return len(self.words) + 1

    @property
    def table_bits(self) -> int:
        """The hash table holds 2^table_bits weights."""
        return int(len(self.table) - self.size - 1).bit_length() - 1

    @property
    def shape(self) -> Shape:
        """What compiled code needs to find a context's weights."""
        return shape_of(self.order, self.distant, self.table_bits)

    def weights(self) -> Weights:
        """The model as compiled code takes it."""
        return Weights(
            self.table,
            np.float32(self.scale),
            self.unigram,
            self.end,
            np.float32(self.attribute),
            np.float32(self.score),
            self.log_bilinear or no_bilinear(self.order, self.size),
        )

    def compiled(self) -> MaxEnt:
        """The same model, scored by numba (extra `fast`).

        Compiles, or loads from numba's cache, at once: no later call waits for the compiler.
        """
        kernels = require("sightwords.language.kernels", extra="fast", purpose="compiled scoring")
        model = replace(self, kernels=kernels)
        histories = np.full((1, self.order - 1), self.start_id, dtype=np.int32)
        held = np.zeros((1, self.size), dtype=np.bool_)
        model.score_next(histories, held, np.zeros(self.size, dtype=np.float32))
        return model

    def score_next(
        self,
        histories: IntArray,
        remaining: npt.NDArray[np.bool_] | npt.NDArray[np.uint8],
        word_log_probs: FloatArray,
    ) -> FloatArray:
        """Unnormalised scores of Eq. 3 for every word and the end of sentence: (K, V + 1).

        histories: (K, order - 1); remaining: (K, V) bool, or bit sets of `features.pack`;
        word_log_probs: (V,), read where a word remains.
        """
        held = _as_bool(remaining, self.size)
        if self.kernels is not None:
            found: FloatArray = self.kernels.score_rows(
                histories.astype(np.uint64),
                np.ascontiguousarray(held),
                np.ascontiguousarray(word_log_probs, dtype=np.float32),
                self.weights(),
                self.shape,
            )
            return found
        starts = context_starts(histories, table_bits=self.table_bits, distant=self.distant)
        runs = np.lib.stride_tricks.sliding_window_view(self.table, self.size + 1)
        scores: FloatArray = np.repeat(self.unigram[MINUS][None], len(histories), axis=0)
        for start in starts[MINUS]:
            scores += runs[start] * np.float32(self.scale)
        rows, ids = np.nonzero(held)
        plus = self.unigram[PLUS][ids] + np.float32(self.attribute)
        plus += np.float32(self.score) * word_log_probs[ids]
        for start in starts[PLUS]:
            plus += self.table[start[rows] + ids] * np.float32(self.scale)
        scores[rows, ids] = plus
        scores[~held.any(axis=1)] += self.end
        if self.log_bilinear is not None:
            scores += self.log_bilinear.scores(histories)
        return scores

    def log_probs_next(
        self,
        histories: IntArray,
        remaining: npt.NDArray[np.bool_] | npt.NDArray[np.uint8],
        word_log_probs: FloatArray,
    ) -> npt.NDArray[np.float64]:
        """Eq. 3 with its denominator, summed over every outcome: (K, V + 1) natural logarithms."""
        scores = self.score_next(histories, remaining, word_log_probs).astype(np.float64)
        scores -= scores.max(axis=1, keepdims=True)
        scores -= np.log(np.exp(scores).sum(axis=1, keepdims=True))
        return scores

    def token_log_probs(
        self, tokens: Sequence[str], attributes: Attributes = NO_ATTRIBUTES
    ) -> npt.NDArray[np.float64]:
        """Normalised log-probability of each word and of the end of sentence: (tokens + 1,)."""
        ids = np.array([*self.vocabulary.encode(tokens), self.end_id], dtype=np.int32)
        histories = self.histories(ids)
        remaining = np.repeat(attributes.remaining(self.size)[None], len(ids), axis=0)
        for place, word in enumerate(ids[:-1]):
            remaining[place + 1 :, word] = False
        scores = attributes.word_log_probs(self.size)
        found = self.log_probs_next(histories, remaining, scores)
        picked: npt.NDArray[np.float64] = found[np.arange(len(ids)), ids]
        return picked

    def sentence_log_prob(
        self, tokens: Sequence[str], attributes: Attributes = NO_ATTRIBUTES
    ) -> float:
        """Normalised log-probability of a sentence, its end included (one term of Eq. 4)."""
        return float(self.token_log_probs(tokens, attributes).sum())

    def histories(self, ids: IntArray) -> IntArray:
        """(N, order - 1): the history of each of a sentence's ids, start symbols in front."""
        reach = self.order - 1
        padded = np.concatenate([np.full(reach, self.start_id, dtype=np.int32), ids])
        if reach == 0:
            return np.empty((len(ids), 0), dtype=np.int32)
        windows = np.lib.stride_tricks.sliding_window_view(padded, reach)[: len(ids)]
        return np.ascontiguousarray(windows)

    def followers(self, word_id: int) -> IntArray:
        """Words observed after a word, or after the start symbol, in training; ascending ids.

        Neither `<unk>` nor the end of sentence is among them.
        """
        row = self.end_id if word_id == self.start_id else word_id
        if not 0 <= row <= self.end_id or word_id == self.end_id:
            raise VocabularyError(f"id {word_id} is neither a word nor the start symbol")
        return self.follower_ids[self.follower_offsets[row] : self.follower_offsets[row + 1]]

    def frequent(self, count: int) -> IntArray:
        """Ids of the most frequent words: the vocabulary is in that order."""
        return np.arange(min(count, len(self.vocabulary)), dtype=np.int32)

    def quantised(self) -> MaxEnt:
        """The same model with its hashed weights in one byte each (see docs/language.md)."""
        if self.table.dtype == np.int8:
            return self
        scale = max(float(np.abs(self.table).max()) * self.scale / 127, 1e-12)
        table = np.round(self.table * np.float32(self.scale / scale)).astype(np.int8)
        return replace(self, table=table, scale=scale)

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write the model into a directory: `language.json`, `vocabulary.json`, `language.npz`."""
        numbers = {
            "words": len(self.vocabulary),
            "order": self.order,
            "distant": self.distant,
            "table_bits": self.table_bits,
            "scale": self.scale,
            "attribute": self.attribute,
            "score": self.score,
        }
        arrays: dict[str, npt.NDArray[Any]] = {
            "table": self.table[: 1 << self.table_bits],
            "unigram": self.unigram,
            "end": self.end,
            "follower_offsets": self.follower_offsets.astype(np.int32),
            "follower_ids": self.follower_ids.astype(np.uint16 if self.size < 65536 else np.int32),
        }
        if self.log_bilinear is not None:
            arrays["bilinear_context"] = self.log_bilinear.context
            arrays["bilinear_position"] = self.log_bilinear.position
            arrays["bilinear_target"] = self.log_bilinear.target
        write_model(directory, vocabulary=self.vocabulary, numbers=numbers, arrays=arrays)

    @classmethod
    def load(cls, directory: str | os.PathLike[str] | Sealed) -> MaxEnt:
        """Read what `save` wrote; sizes, bounds and hash are checked."""
        vocabulary, numbers, arrays = read_model(directory)
        names = [f"bilinear_{name}" for name in ("context", "position", "target")]
        try:
            return cls(
                vocabulary=vocabulary,
                order=numbers["order"],
                distant=numbers["distant"],
                table=padded_table(arrays["table"], len(vocabulary) + 2),
                scale=numbers["scale"],
                unigram=arrays["unigram"].astype(np.float32),
                end=arrays["end"].astype(np.float32),
                attribute=numbers["attribute"],
                score=numbers["score"],
                follower_offsets=arrays["follower_offsets"].astype(np.int64),
                follower_ids=arrays["follower_ids"].astype(np.int32),
                log_bilinear=LogBilinear(*(arrays[name].astype(np.float32) for name in names))
                if names[0] in arrays
                else None,
            )
        except InputError as error:
            raise BundleError(f"{directory}: {error}; copy the directory again") from error


def padded_table(
    table: npt.NDArray[Any], outcomes: int
) -> npt.NDArray[np.float32] | npt.NDArray[np.int8]:
    """The table with its first `outcomes` weights again at its end.

    >>> padded_table(np.array([1, 2, 3, 4], dtype=np.int8), 2).tolist()
    [1, 2, 3, 4, 1, 2]
    """
    return np.concatenate([table, np.resize(table[:outcomes], outcomes)])


def _as_bool(remaining: npt.NDArray[Any], size: int) -> npt.NDArray[np.bool_]:
    return unpack(remaining, size) if remaining.dtype == np.uint8 else remaining


def _check(model: MaxEnt) -> None:
    outcomes = model.size + 1
    shapes = {
        "unigram": (model.unigram.shape, (2, outcomes)),
        "end": (model.end.shape, (outcomes,)),
        "follower_offsets": (model.follower_offsets.shape, (outcomes + 1,)),
    }
    for name, (found, expected) in shapes.items():
        if found != expected:
            raise InputError(
                f"language model: {name} has shape {found}; expected {expected} for "
                f"{len(model.vocabulary)} words"
            )
    hashed = len(model.table) - outcomes
    if hashed < 1 or hashed & (hashed - 1):
        raise InputError(
            f"language model: the table holds {hashed} weights; expected a power of two"
        )
    if model.order < 1:
        raise InputError(f"language model: order {model.order}; expected at least 1")
    _check_followers(model)
    if model.log_bilinear is not None:
        _check_bilinear(model.log_bilinear, model.order, outcomes)


def _check_followers(model: MaxEnt) -> None:
    """Each word's followers are words, ascending; one list ends where the next one starts."""
    offsets, ids = model.follower_offsets, model.follower_ids
    if ids.ndim != 1 or offsets[0] != 0 or offsets[-1] != len(ids) or (np.diff(offsets) < 0).any():
        raise InputError(
            f"language model: follower_offsets do not divide {ids.size} followers into one list "
            "per word"
        )
    if ids.size and not 0 <= ids.min() <= ids.max() < len(model.vocabulary):
        raise InputError(
            f"language model: followers {ids.min()} to {ids.max()}; expected words from 0 to "
            f"{len(model.vocabulary) - 1}"
        )
    falls = np.flatnonzero(np.diff(ids) <= 0) + 1
    if not np.isin(falls, offsets).all():
        raise InputError("language model: a list of followers is not ascending")


def _check_bilinear(vectors: LogBilinear, order: int, outcomes: int) -> None:
    units = vectors.context.shape[-1:]
    expected = ((outcomes + 1, *units), (order - 1, *units), (outcomes, *units))
    found = tuple(array.shape for array in vectors)
    if found != expected:
        raise InputError(f"language model: vectors of shapes {found}; expected {expected}")
