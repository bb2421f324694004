"""A second language model that sees the photo: sentences -> how well each fits it.

Stage: re-ranking (section 5), beyond the paper and off in its preset. Input: image tokens (T, D),
detected words, sentences of the maximum entropy beam. Output: (M,) scores. It generates no
sentences: a small transformer decoder gives p(sentence | image tokens, detected words) and a score
of the whole sentence; `train.grounded.training` trains it. A directory holds

    grounded.json     sizes
    network.onnx      tokens, positions, parents (N,), seen (N, N), image (T, D), word_ids,
                      word_probs (W,) -> log_probs (N,), end_log_probs (N,), values (N,)
    vocabulary.json   the words of the first language model
    sums.json         the SHA-256 sums of these files; in a bundle, `bundle.json` has them

The N nodes are the distinct beginnings of all sentences (`prefix_tree`), read in one pass.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from sightwords.errors import BundleError, InputError, VocabularyError
from sightwords.files import write_text
from sightwords.json_reader import Reader
from sightwords.rerank.prefix_tree import PrefixTree
from sightwords.runtime import Network
from sightwords.sealed import Sealed, folder_of, write_sums
from sightwords.text.vocabulary import Vocabulary
from sightwords.text.vocabulary_file import load_vocabulary
from sightwords.types import DetectedWords, FloatArray

FORMAT = 1
GROUNDED_NAME = "grounded.json"
NETWORK_NAME = "network.onnx"
VOCABULARY_NAME = "vocabulary.json"

OUTPUTS = ("log_probs", "end_log_probs", "values")

SENTENCES_A_PASS = 128
"""More are read in several passes: attention takes the square of the nodes in time and memory."""

P = TypeVar("P", Path, Sealed, Path | Sealed)
Words = DetectedWords | Mapping[str, float]
Shown = tuple[npt.NDArray[np.int64], FloatArray]
"""Ids and probabilities of the words shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroundedSpec:
    """The contents of `grounded.json`."""

    tokens: int
    """T, of the image."""
    features: int
    """D, of each image token."""
    vocabulary: int
    """Words that it tells apart."""
    words: int
    """At most this many detected words are its input."""
    word_threshold: float
    maximum_length: int
    length_power: float
    """Log-probabilities are divided by (words + 1) to this power."""

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write `grounded.json` beside network and vocabulary, and the sums of all three."""
        folder = Path(directory)
        document = {"format": FORMAT, **asdict(self)}
        write_text(folder / GROUNDED_NAME, json.dumps(document, indent=1) + "\n")
        names = (GROUNDED_NAME, NETWORK_NAME, VOCABULARY_NAME)
        for name in names:
            _present(folder / name)
        write_sums(folder, names)

    @classmethod
    def load(cls, directory: str | os.PathLike[str] | Sealed) -> GroundedSpec:
        """Read and check `grounded.json`."""
        reader = Reader.open(_present(folder_of(directory) / GROUNDED_NAME), newest=FORMAT)
        counts = ("tokens", "features", "vocabulary", "words", "maximum_length")
        return cls(
            **{name: reader.count(name) for name in counts},
            word_threshold=reader.between("word_threshold", 0, 1),
            length_power=reader.between("length_power", -4, 4),
        )


@dataclass(frozen=True)
class SentenceScores:
    """The model's scores of M sentences."""

    log_probs: FloatArray
    """(M,) of the words and the end of sentence."""
    values: FloatArray
    """(M,) of the sentences as a whole."""
    lengths: npt.NDArray[np.int64]
    """(M,) in words."""

    def total(self, length_power: float) -> FloatArray:
        """(M,) values added to log-probabilities, these divided by a power of the length."""
        found: FloatArray = self.log_probs / (self.lengths + 1.0) ** length_power + self.values
        return found.astype(np.float32)


@dataclass(frozen=True)
class Grounded:
    """A loaded model. Calls from several threads are safe."""

    spec: GroundedSpec
    vocabulary: Vocabulary
    network: Network

    @classmethod
    def load(
        cls, directory: str | os.PathLike[str] | Sealed, *, threads: int | None = None
    ) -> Grounded:
        """Read a directory; files of different models are refused by name."""
        folder = folder_of(directory)
        if not folder.is_dir():
            raise BundleError(f"{folder}: no such directory; expected a grounded model")
        spec = GroundedSpec.load(folder)
        try:
            vocabulary = load_vocabulary(_present(folder / VOCABULARY_NAME))
        except VocabularyError as error:
            raise BundleError(str(error)) from error
        if len(vocabulary) != spec.vocabulary:
            raise BundleError(
                f"{folder / VOCABULARY_NAME}: {len(vocabulary)} words, {GROUNDED_NAME} has "
                f"{spec.vocabulary}; the files are of different models: copy all of one"
            )
        network = Network(_present(folder / NETWORK_NAME), threads=threads)
        if network.inputs.get("image") != (spec.tokens, spec.features):
            raise BundleError(
                f"{network.name}: its image is {network.inputs.get('image', 'absent')}, "
                f"{GROUNDED_NAME} has {(spec.tokens, spec.features)}; copy all of one model"
            )
        if missing := set(OUTPUTS) - set(network.outputs):
            raise BundleError(
                f"{network.name}: gives no {min(missing)}; expected {', '.join(OUTPUTS)}: copy it "
                "again"
            )
        return cls(spec, vocabulary, network)

    def score(
        self, features: FloatArray, words: Words, sentences: Sequence[Sequence[str]]
    ) -> FloatArray:
        """(M,) the higher, the better the sentence fits; comparable within one image only."""
        return self.scores(features, words, sentences).total(self.spec.length_power)

    def scores(
        self, features: FloatArray, words: Words, sentences: Sequence[Sequence[str]]
    ) -> SentenceScores:
        """The two parts of `score`; words outside the vocabulary are read as `<unk>`."""
        image, shown = self._image(features), self._words(words)
        encoded = [self.vocabulary.encode(sentence) for sentence in sentences]
        log_probs, values = np.zeros((2, len(encoded)), dtype=np.float32)
        # Side by side in the order of their tokens, sentences share the most.
        order = sorted(range(len(encoded)), key=encoded.__getitem__)
        for first in range(0, len(order), SENTENCES_A_PASS):
            part = order[first : first + SENTENCES_A_PASS]
            log_probs[part], values[part] = self._pass(image, shown, [encoded[i] for i in part])
        lengths = np.array([len(ids) for ids in encoded], dtype=np.int64)
        return SentenceScores(log_probs, values, lengths)

    def _pass(
        self, image: FloatArray, shown: Shown, sentences: Sequence[Sequence[int]]
    ) -> tuple[FloatArray, FloatArray]:
        """Log-probabilities and values of a few sentences."""
        # Words are 0 to V - 2, <unk> V - 1, the end V, the start V + 1 (`language.maxent`).
        tree = PrefixTree.of(sentences, start=len(self.vocabulary) + 2)
        found = self.network.run(
            {
                "tokens": tree.tokens,
                "positions": np.minimum(tree.depths, self.spec.maximum_length),
                "parents": tree.parents,
                "seen": tree.seen(),
                "image": image,
                "word_ids": shown[0],
                "word_probs": shown[1],
            }
        )
        for name in OUTPUTS:
            if found[name].shape != tree.tokens.shape:
                raise BundleError(
                    f"{self.network.name}: {name} has shape {found[name].shape} for "
                    f"{len(tree.tokens)} beginnings of sentences; copy the network again"
                )
        last = tree.last
        log_probs = tree.sums(found["log_probs"])[last] + found["end_log_probs"][last]
        return log_probs, found["values"][last]

    def _image(self, features: FloatArray) -> FloatArray:
        expected = (self.spec.tokens, self.spec.features)
        if np.shape(features) != expected:
            raise InputError(
                f"image features of shape {np.shape(features)}; this grounded model takes "
                f"{expected}: use the detector that it was trained with"
            )
        return np.ascontiguousarray(features, dtype=np.float32)

    def _words(self, words: Words) -> Shown:
        probs = (
            {word.word: word.prob for word in words.words}
            if isinstance(words, DetectedWords)
            else words
        )
        closed = self.vocabulary.closed_class
        known = {w: p for w, p in probs.items() if w in self.vocabulary and w not in closed}
        return shown_words(
            [self.vocabulary.ids[word] for word in known],
            list(known.values()),
            threshold=self.spec.word_threshold,
            limit=self.spec.words,
        )


def shown_words(
    ids: Iterable[int] | npt.NDArray[np.int64],
    probs: Iterable[float] | FloatArray,
    *,
    threshold: float,
    limit: int,
) -> Shown:
    """The likeliest `limit` words of at least `threshold`; ties by id.

    >>> ids, probs = shown_words([4, 2, 3], [0.5, 0.5, 0.1], threshold=0.15, limit=9)
    >>> ids.tolist(), probs.tolist()
    ([2, 4], [0.5, 0.5])
    """
    every = np.asarray(list(ids) if not isinstance(ids, np.ndarray) else ids, dtype=np.int64)
    values = np.asarray(list(probs) if not isinstance(probs, np.ndarray) else probs, np.float32)
    order = np.lexsort((every, -values))
    order = order[values[order] >= threshold][:limit]
    return every[order], values[order]


def _present(path: P) -> P:
    if not path.is_file():
        raise BundleError(
            f"{path}: no such file; a grounded model's directory holds {GROUNDED_NAME}, "
            f"{NETWORK_NAME} and {VOCABULARY_NAME}"
        )
    return path
