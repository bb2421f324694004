"""Section 5.1: how well a sentence fits a photo, by the cosine of two vectors.

    dmsm = Dmsm.load("my-dmsm", threads=1)
    dmsm.score(regions.features, [("a", "dog"), ("a", "cat")])      # (2,) from -1 to 1

Image side: the detector's tokens (T, D) under tanh layers. Text side: letter trigrams of each
word (Huang et al. 2013), a convolution over three words, the maximum over the sentence, a tanh
layer (Shen et al. 2014). Both networks were exported by `train.dmsm.export`.

The sentences of one image's list share most of their words and three-word windows, so each word
and each window is computed once: 500 sentences cost as much as a few dozen unrelated ones.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sightwords.errors import BundleError, InputError, VocabularyError
from sightwords.json_reader import Reader
from sightwords.runtime import Network
from sightwords.sealed import Sealed, folder_of
from sightwords.text.ptb import TOKENIZER
from sightwords.text.trigrams import TrigramIndex, letter_trigrams
from sightwords.types import FloatArray

IntArray = npt.NDArray[np.int32]

FORMAT = 1
DMSM_NAME = "dmsm.json"
IMAGE_NAME = "image.onnx"
TEXT_NAME = "text.onnx"
MOST_WORDS_SEEN = 99
"""By the convolution at a time; three in the paper."""


@dataclass(frozen=True, slots=True)
class TextBatch:
    """Sentences as the text network takes them; row 0 of the words is the sentence boundary."""

    own: IntArray
    """(W,) place of each different word among those with a vector of their own, from 1; 0: none."""
    trigrams: IntArray
    """(W, K) places of its trigrams, from 1; 0: none."""
    windows: IntArray
    """(U, window) words of each different window, by their rows."""
    sentences: IntArray
    """(M, L) windows of each sentence; shorter ones repeat their first, which no maximum sees."""


@dataclass(frozen=True)
class TextIndex:
    """From words to the numbers of a `TextBatch`.

    >>> index = TextIndex(("a",), TrigramIndex.of_words(["a", "dog"]), window=3)
    >>> batch = index.encode([("a", "dog"), ("a", "dot")])
    >>> batch.own.tolist()                   # boundary, a, dog, dot
    [0, 1, 0, 0]
    >>> batch.trigrams.tolist()              # #a#, #do, dog, og#; 'dot' shares one of its three
    [[0, 0, 0], [1, 0, 0], [2, 3, 4], [2, 0, 0]]
    >>> batch.windows.tolist(), batch.sentences.tolist()
    ([[0, 1, 2], [0, 1, 3], [1, 2, 0], [1, 3, 0]], [[0, 2], [1, 3]])
    """

    words: tuple[str, ...]
    """Words with a vector of their own; none in the paper."""
    trigrams: TrigramIndex
    window: int = 3
    places: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "places", {w: i + 1 for i, w in enumerate(self.words)})

    def rows(self, words: Sequence[str]) -> tuple[IntArray, IntArray]:
        """Own place (W,) and trigrams (W, K) of each word; the empty word has none."""
        known = self.trigrams.ids
        pieces = [[known[t] + 1 for t in letter_trigrams(w) if t in known] for w in words]
        table = np.zeros((len(words), max([1, *map(len, pieces)])), dtype=np.int32)
        for row, places in enumerate(pieces):
            table[row, : len(places)] = places
        return np.array([self.places.get(w, 0) for w in words], dtype=np.int32), table

    def encode(self, sentences: Sequence[Sequence[str]]) -> TextBatch:
        """Sentences of lower-case tokens, each with at least one."""
        _check_sentences(sentences)
        ids = {"": 0}
        flat = [ids.setdefault(word, len(ids)) for tokens in sentences for word in tokens]
        lengths = np.array([len(tokens) for tokens in sentences])
        longest = int(lengths.max())
        there = np.arange(longest) < lengths[:, None]
        grid = np.zeros((len(sentences), longest + self.window - 1), dtype=np.int64)
        grid[:, self.window // 2 :][:, :longest][there] = flat
        every = np.lib.stride_tricks.sliding_window_view(grid, self.window, axis=1)[there]
        windows, places = _unique_rows(every, len(ids))
        starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
        found = np.repeat(places[starts][:, None], longest, axis=1)
        found[there] = places
        own, trigrams = self.rows(list(ids))
        return TextBatch(own, trigrams, windows.astype(np.int32), found.astype(np.int32))


class Dmsm:
    """A loaded similarity model."""

    def __init__(
        self,
        index: TextIndex,
        image: Network,
        text: Network,
        *,
        shape: tuple[int, int],
        semantic_units: int,
        gamma: float,
    ) -> None:
        """Combine the parts; both networks must end in vectors of the same length."""
        self.index, self.shape, self.gamma = index, shape, gamma
        self.semantic_units = semantic_units
        self._image, self._text = image, text
        _check_shape(image, image.inputs, "features", (None, *shape))
        _check_shape(image, image.outputs, "vector", (None, semantic_units))
        _check_shape(text, text.inputs, "windows", (None, index.window))
        _check_shape(text, text.outputs, "vector", (None, semantic_units))

    @classmethod
    def load(
        cls, directory: str | os.PathLike[str] | Sealed, *, threads: int | None = None
    ) -> Dmsm:
        """Read and verify a directory that `train.dmsm.export` wrote."""
        folder = folder_of(directory)
        if not (folder / DMSM_NAME).is_file():
            raise BundleError(
                f"{folder}: holds no {DMSM_NAME}; expected a directory with {DMSM_NAME}, "
                f"{IMAGE_NAME} and {TEXT_NAME}: train one with: sightwords train dmsm"
            )
        reader = Reader.open(folder / DMSM_NAME, newest=FORMAT)
        tokenizer = reader.take("tokenizer", str)
        if tokenizer != TOKENIZER:
            raise BundleError(
                f"{reader.where}: tokenizer is {tokenizer!r:.60}, this sightwords has "
                f"{TOKENIZER!r}; train the model again"
            )
        networks = [_network(folder / name, threads) for name in (IMAGE_NAME, TEXT_NAME)]
        return cls(
            _index(reader),
            *networks,
            shape=(reader.count("tokens"), reader.count("units")),
            semantic_units=reader.count("semantic_units"),
            gamma=reader.take("gamma", float),
        )

    def image(self, features: FloatArray) -> FloatArray:
        """(T, D) tokens of one image -> (S,) its vector, of length 1."""
        vectors: FloatArray = self.images(features[None])[0]
        return vectors

    def images(self, features: FloatArray) -> FloatArray:
        """(N, T, D) -> (N, S)."""
        if features.ndim != 3 or features.shape[1:] != self.shape:
            tokens, units = self.shape
            raise InputError(
                f"image features of shape {features.shape[1:]}; this model takes ({tokens}, "
                f"{units}): take the detector it was trained with"
            )
        if not np.isfinite(features).all():
            raise InputError("image features hold NaN or infinity; check what made them")
        inputs = np.ascontiguousarray(features, dtype=np.float32)
        return self._vectors(self._image, self._image.run({"features": inputs}), len(inputs))

    def texts(self, sentences: Sequence[Sequence[str]]) -> FloatArray:
        """Sentences of lower-case tokens -> (M, S) their vectors, of length 1."""
        if not sentences:
            return np.zeros((0, self.semantic_units), dtype=np.float32)
        batch = self.index.encode(sentences)
        inputs: dict[str, IntArray] = {
            "trigrams": batch.trigrams,
            "windows": batch.windows,
            "sentences": batch.sentences,
        }
        if self.index.words:
            inputs["own"] = batch.own
        return self._vectors(self._text, self._text.run(inputs), len(sentences))

    def _vectors(self, network: Network, found: dict[str, FloatArray], count: int) -> FloatArray:
        if found["vector"].shape != (count, self.semantic_units):
            raise BundleError(
                f"{network.name}: gives vectors of shape {found['vector'].shape}; expected "
                f"{(count, self.semantic_units)}: copy the network again"
            )
        return found["vector"]

    def score(self, features: FloatArray, sentences: Sequence[Sequence[str]]) -> FloatArray:
        """R(Q, D): the cosine of one image (T, D) with each sentence, (M,)."""
        vectors: FloatArray = self.texts(sentences) @ self.image(features)
        return vectors

    def shares(self, scores: FloatArray) -> FloatArray:
        """Eq. 5: the posterior of each sentence, were these all there are; adds up to 1.

        The largest score is taken off first, so that no exponential overflows.
        """
        weights = np.exp(self.gamma * (scores - scores.max()))
        found: FloatArray = weights / weights.sum()
        return found


def _unique_rows(
    rows: npt.NDArray[np.int64], base: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The different rows of an array of numbers below `base`, and the place of each row there.

    Column by column, renumbering in between, so that no code outgrows 64 bits.
    """
    codes = rows[:, 0]
    for column in rows.T[1:]:
        codes = np.unique(codes * base + column, return_inverse=True)[1].reshape(-1)
    _, first, places = np.unique(codes, return_index=True, return_inverse=True)
    return rows[first], places.reshape(-1)


def _check_sentences(sentences: Sequence[Sequence[str]]) -> None:
    for number, tokens in enumerate(sentences, start=1):
        if isinstance(tokens, str):
            raise InputError(f"sentence {number} is one text, {tokens!r:.60}; give its words")
        if not tokens:
            raise InputError(f"sentence {number} of {len(sentences)} has no words; leave it out")


def _index(reader: Reader) -> TextIndex:
    words, trigrams = reader.take("words", list), reader.take("trigrams", list)
    if not all(isinstance(w, str) for w in (*words, *trigrams)):
        raise BundleError(f"{reader.where}: words and trigrams are not all text; copy it again")
    try:
        window = reader.count("word_window", MOST_WORDS_SEEN)
        return TextIndex(tuple(words), TrigramIndex(tuple(trigrams)), window)
    except VocabularyError as error:
        raise BundleError(f"{reader.where}: {error}") from error


def _network(path: Path | Sealed, threads: int | None) -> Network:
    if not path.is_file():
        raise BundleError(f"{path}: no such file; {DMSM_NAME} needs it: copy both")
    return Network(path, threads=threads)


def _check_shape(
    network: Network,
    shapes: dict[str, tuple[int | None, ...]],
    name: str,
    expected: tuple[int | None, ...],
) -> None:
    found = shapes.get(name)
    if found != expected:
        raise BundleError(
            f"{network.name}: {name} is {found or 'absent'}, {DMSM_NAME} has {expected} "
            "(None: any); the files are of different models: export it again"
        )
