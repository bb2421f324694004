"""Captions and detected words as the arrays that language training reads (section 4.1).

Input: examples of any corpus reader, word scores of a detector. Output: `Sentences` in blocks of
bounded size, so that text may be larger than memory; `AttributeSets`; and what is `Counted` before
training starts.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from itertools import islice

import numpy as np
import numpy.typing as npt

from sightwords.corpus.ids import canonical_id
from sightwords.errors import CorpusError, InputError
from sightwords.files import DAMAGED_ZIP
from sightwords.language.arrays import Sets, Text
from sightwords.language.features import SMALLEST_PROB, FloatArray, IntArray
from sightwords.text.ptb import tokenize_all
from sightwords.text.vocabulary import Vocabulary
from sightwords.types import Example

Offsets = npt.NDArray[np.int64]
NO_SET = -1
"""Instead of an image's row: the sentence has no detected words."""


@dataclass(frozen=True)
class AttributeSets:
    """The attribute sets of many images, one after another."""

    rows: Mapping[str, int]
    """Image id (canonical) -> number of its set."""
    offsets: Offsets
    """(I + 1,)"""
    ids: IntArray
    log_probs: FloatArray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def row(self, image_id: str) -> int:
        """The number of an image's set, or NO_SET."""
        return self.rows.get(canonical_id(image_id), NO_SET)

    def arrays(self) -> Sets:
        """For compiled code."""
        return Sets(self.offsets, self.ids, self.log_probs)


NO_SETS = AttributeSets(
    {}, np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int32), np.empty(0, dtype=np.float32)
)


@dataclass(frozen=True)
class Sentences:
    """Encoded sentences, each ending in the end of sentence."""

    tokens: IntArray
    """(N,) outcomes: words, <unk>, end of sentence."""
    offsets: Offsets
    """(S + 1,) where each sentence starts."""
    images: IntArray
    """(S,) row of its attribute set, or NO_SET."""
    weights: FloatArray
    """(S,) how much each sentence counts."""

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def arrays(self) -> Text:
        """For compiled code."""
        return Text(self.tokens, self.offsets, self.images, self.weights)


def encode_blocks(
    examples: Iterable[Example],
    vocabulary: Vocabulary,
    sets: AttributeSets = NO_SETS,
    *,
    text_weight: float = 1.0,
    captions_per_image: int | None = None,
    block: int = 250_000,
) -> Iterator[Sentences]:
    """Encode a stream of examples, `block` captions at a time.

    Sentences of images that are not in `sets`, and text without images, count for `text_weight`;
    if it is 0, they are left out.
    """
    pairs = (
        (caption, row)
        for example in examples
        for row in [sets.row(example.id)]
        if row != NO_SET or text_weight > 0
        for caption in example.captions[:captions_per_image]
    )
    while part := list(islice(pairs, block)):
        texts, rows = zip(*part, strict=True)
        yield encode(tokenize_all(list(texts)), rows, vocabulary, text_weight=text_weight)


def encode(
    sentences: Iterable[Iterable[str]],
    images: Iterable[int],
    vocabulary: Vocabulary,
    *,
    text_weight: float = 1.0,
) -> Sentences:
    """Tokenised sentences as one array; `images` holds each one's row, or NO_SET."""
    end = len(vocabulary) + 1
    encoded = [[*vocabulary.encode(tokens), end] for tokens in sentences]
    rows = np.fromiter(images, dtype=np.int32)
    lengths = np.fromiter((len(ids) for ids in encoded), dtype=np.int64, count=len(encoded))
    return Sentences(
        np.fromiter((i for ids in encoded for i in ids), dtype=np.int32, count=lengths.sum()),
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        rows,
        np.where(rows == NO_SET, text_weight, 1.0).astype(np.float32),
    )


def joined(parts: Iterable[Sentences]) -> Sentences:
    """Several blocks as one."""
    every = list(parts)
    if not every:
        raise CorpusError("no captions to train on; give a source that has some")
    starts = np.cumsum([0, *(len(part.tokens) for part in every)])
    offsets = [part.offsets[:-1] + start for part, start in zip(every, starts, strict=False)]
    return Sentences(
        np.concatenate([part.tokens for part in every]),
        np.concatenate([*offsets, starts[-1:]]).astype(np.int64),
        np.concatenate([part.images for part in every]),
        np.concatenate([part.weights for part in every]),
    )


@dataclass(frozen=True)
class Counted:
    """Occurrences of every outcome, and the different pairs of neighbours, start to end."""

    counts: Offsets
    """(V + 1,)"""
    pairs: Offsets
    """Ascending before * (V + 2) + after; V + 1 stands for the start."""

    @classmethod
    def nothing(cls, vocabulary: Vocabulary) -> Counted:
        """Of no sentences."""
        return cls(np.zeros(len(vocabulary) + 2, dtype=np.int64), np.empty(0, dtype=np.int64))


def count(block: Sentences, vocabulary: Vocabulary) -> Counted:
    """Of one block."""
    outcomes = len(vocabulary) + 2
    before = np.concatenate([[outcomes], block.tokens[:-1]]).astype(np.int64)
    before[block.offsets[:-1]] = outcomes  # the start symbol
    pairs: Offsets = np.unique(before * (outcomes + 1) + block.tokens)
    return Counted(np.bincount(block.tokens, minlength=outcomes), pairs)


def merged(parts: Iterable[Counted]) -> Counted:
    """Of all parts, in any order.

    >>> one = Counted(np.array([1, 2]), np.array([4, 9]))
    >>> both = merged([one, Counted(np.array([0, 5]), np.array([4]))])
    >>> both.counts.tolist(), both.pairs.tolist()
    ([1, 7], [4, 9])
    """
    return reduce(_both, parts)


def _both(one: Counted, other: Counted) -> Counted:
    return Counted(one.counts + other.counts, np.union1d(one.pairs, other.pairs))


def joined_sets(parts: Iterable[AttributeSets]) -> AttributeSets:
    """Sets of several files as one; no image may be in two of them."""
    every = list(parts)
    rows: dict[str, int] = {}
    first = 0  # a file that names an image twice has more sets than names
    offsets = [np.zeros(1, dtype=np.int64)]
    for part in every:
        twice = rows.keys() & part.rows.keys()
        if twice:
            raise InputError(f"image {min(twice)!r} has word scores in two files; give one of them")
        rows.update({name: row + first for name, row in part.rows.items()})
        first += len(part)
        offsets.append(part.offsets[1:] + offsets[-1][-1])
    return AttributeSets(
        rows,
        np.concatenate(offsets),
        np.concatenate([part.ids for part in [NO_SETS, *every]]),
        np.concatenate([part.log_probs for part in [NO_SETS, *every]]),
    )


@dataclass(frozen=True)
class Detections:
    """Words detected in images, in any order: image, word and probability of each."""

    names: list[str]
    """(I,) ids of the images, canonical."""
    words: list[str]
    """(W,) the detector's words."""
    rows: npt.NDArray[np.intp]
    """(D,) indices into `names`."""
    columns: npt.NDArray[np.intp]
    """(D,) indices into `words`."""
    probs: npt.NDArray[np.floating]
    """(D,)"""

    def attribute_sets(self, vocabulary: Vocabulary) -> AttributeSets:
        """Without closed-class words and words outside the language model's vocabulary."""
        usable = [w if w not in vocabulary.closed_class else "" for w in self.words]
        ids = np.array([vocabulary.ids.get(w, -1) for w in usable], dtype=np.int32)[self.columns]
        kept = ids >= 0
        rows, ids = self.rows[kept], ids[kept]
        logs = np.log(np.clip(self.probs[kept].astype(np.float32), SMALLEST_PROB, 1.0))
        order = np.lexsort((ids, rows))
        offsets = np.searchsorted(rows[order], np.arange(len(self.names) + 1))
        return AttributeSets(
            {name: i for i, name in enumerate(self.names)},
            offsets.astype(np.int64),
            ids[order],
            logs[order].astype(np.float32),
        )


def read_detections(path: str | os.PathLike[str], *, threshold: float = 0.15) -> Detections:
    """A detector's words of probability `threshold` or more.

    Reads two forms of NPZ: `ids`, `words`, `scores` (N, V), as `sightwords words` writes, and
    `ids`, `words`, `indices` (N, T), `probs` (N, T), the likeliest T words of each image.
    """
    try:
        with np.load(path, allow_pickle=False) as arrays:
            stored = {name: arrays[name] for name in arrays.files}
    except (OSError, *DAMAGED_ZIP) as error:
        raise InputError(f"{path}: cannot be read as NPZ ({error}); give word scores") from error
    names = set(stored)
    if not ({"ids", "words", "scores"} <= names or {"ids", "words", "indices", "probs"} <= names):
        raise InputError(
            f"{path}: contains {', '.join(sorted(stored)) or 'nothing'}; expected ids, words and "
            "scores, or ids, words, indices and probs"
        )
    if "scores" in stored:
        rows, columns = np.nonzero(stored["scores"] >= threshold)
        probs = stored["scores"][rows, columns]
    else:
        rows, places = np.nonzero(stored["probs"].astype(np.float32) >= threshold)
        columns, probs = stored["indices"][rows, places], stored["probs"][rows, places]
    ids = [canonical_id(str(i)) for i in stored["ids"]]
    return Detections(ids, stored["words"].tolist(), rows, columns.astype(np.intp), probs)
