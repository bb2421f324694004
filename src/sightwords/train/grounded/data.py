"""The grounded model's training data as tensors: images with words, and captions.

Stage: re-ranking (section 5), beyond the paper. Sentences are rows of P = maximum_length + 1
targets: words, then the end of sentence, then NOTHING. The network reads the same row shifted by
one, the start symbol first (`inputs_of`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sightwords.config import GroundedConfig
from sightwords.corpus.ids import canonical_id
from sightwords.errors import InputError
from sightwords.rerank.grounded import shown_words
from sightwords.text.ptb import tokenize_all
from sightwords.text.vocabulary import Vocabulary
from sightwords.train.dmsm.image_features import ImageFeatures
from sightwords.train.language.data import AttributeSets
from sightwords.train.rerank.lists import Lists
from sightwords.types import Example

log = logging.getLogger(__name__)

NOTHING = -1
"""Stands for a missing word, and for targets after the end of sentence."""
CAPTIONS = 5
"""Captions per row; an image with more has several rows."""

WordSet = tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]


@dataclass(frozen=True)
class Images:
    """I images and, as the last row, no image, for text alone."""

    rows: Mapping[str, int]
    """Canonical id -> row."""
    features: Tensor
    """(I + 1, T, D) float16."""
    mirrored: Tensor | None
    """(I + 1, T, D) float16 of the mirror images, if training uses them."""
    word_ids: Tensor
    """(I + 1, W) int16; NOTHING where an image has fewer."""
    word_probs: Tensor
    """(I + 1, W) float16."""

    @property
    def no_image(self) -> int:
        """The row of text without an image."""
        return len(self.features) - 1

    @property
    def shape(self) -> tuple[int, int]:
        """T and D."""
        return int(self.features.shape[1]), int(self.features.shape[2])

    def to(self, device: str | torch.device) -> Images:
        """The same on another device."""
        mirrored = None if self.mirrored is None else self.mirrored.to(device)
        return Images(
            self.rows,
            self.features.to(device),
            mirrored,
            self.word_ids.to(device),
            self.word_probs.to(device),
        )


@dataclass(frozen=True)
class Sentences:
    """G rows of up to K sentences about one image each."""

    images: Tensor
    """(G,) rows of `Images`."""
    targets: Tensor
    """(G, K, P) int16."""

    def __len__(self) -> int:
        return len(self.images)

    def to(self, device: str | torch.device) -> Sentences:
        """The same on another device."""
        return Sentences(self.images.to(device), self.targets.to(device))


def images_of(
    features: ImageFeatures, words: Mapping[str, WordSet], config: GroundedConfig
) -> Images:
    """Tokens and likeliest words of each image; `words` is by canonical id."""
    count = len(features)
    names = [canonical_id(name) for name in features.ids]
    ids = np.full((count + 1, config.words), NOTHING, dtype=np.int16)
    probs = np.zeros((count + 1, config.words), dtype=np.float16)
    for row, name in enumerate(names):
        if name in words:
            found = shown_words(*words[name], threshold=config.word_threshold, limit=config.words)
            ids[row, : len(found[0])], probs[row, : len(found[0])] = found
    bare = sum(name not in words for name in names)
    if bare:
        log.warning("%d of %d images have no word scores and are used without words", bare, count)
    mirrored = None if features.mirrored is None else _with_none(features.mirrored)
    return Images(
        {name: row for row, name in enumerate(names)},
        _with_none(features.features),
        mirrored,
        torch.from_numpy(ids),
        torch.from_numpy(probs),
    )


def words_of_sets(sets: AttributeSets) -> dict[str, WordSet]:
    """Word sets by image id, from a detector's scores (`language_data.read_detections`)."""
    return {
        name: (
            sets.ids[sets.offsets[row] : sets.offsets[row + 1]].astype(np.int64),
            np.exp(sets.log_probs[sets.offsets[row] : sets.offsets[row + 1]]),
        )
        for name, row in sets.rows.items()
    }


def words_of_lists(lists: Lists) -> dict[str, WordSet]:
    """Word sets by image id, as M-best lists hold them."""
    starts = lists.word_offsets
    return {
        name: (
            lists.word_ids[starts[row] : starts[row + 1]].astype(np.int64),
            lists.word_probs[starts[row] : starts[row + 1]],
        )
        for row, name in enumerate(lists.ids.tolist())
    }


def captions_of(
    examples: Iterable[Example],
    vocabulary: Vocabulary,
    rows: Mapping[str, int],
    config: GroundedConfig,
    *,
    no_image: int,
    block: int = 20_000,
) -> Sentences:
    """Captions of images in `rows`; those of other images, and text, get the row `no_image`."""
    images: list[int] = []
    targets: list[npt.NDArray[np.int16]] = []
    loose: list[list[int]] = []
    stream = iter(examples)
    while some := list(islice(stream, block)):
        tokenised = iter(tokenize_all([c for example in some for c in example.captions]))
        for example in some:
            encoded = [vocabulary.encode(next(tokenised)) for _ in example.captions]
            row = rows.get(canonical_id(example.id), no_image)
            if row == no_image:
                loose += encoded
                continue
            for first in range(0, len(encoded), CAPTIONS):
                images.append(row)
                targets.append(_padded(encoded[first : first + CAPTIONS], vocabulary, config))
    for first in range(0, len(loose), CAPTIONS):
        images.append(no_image)
        targets.append(_padded(loose[first : first + CAPTIONS], vocabulary, config))
    if not images:
        raise InputError("no captions to train on; give a corpus with captions")
    return Sentences(torch.tensor(images), torch.from_numpy(np.stack(targets)))


def inputs_of(targets: Tensor, start: int) -> Tensor:
    """(..., P) targets -> (..., P) the words the network reads to predict them.

    >>> inputs_of(torch.tensor([[4, 7, 9, NOTHING]]), start=10).tolist()
    [[10, 4, 7, 9]]
    """
    first = torch.full_like(targets[..., :1], start)
    return torch.cat([first, targets[..., :-1].clamp_min(0)], dim=-1)


def _padded(
    encoded: Sequence[Sequence[int]], vocabulary: Vocabulary, config: GroundedConfig
) -> npt.NDArray[np.int16]:
    """(CAPTIONS, P); a caption that is too long is cut, without an end of sentence."""
    places, end = config.maximum_length + 1, len(vocabulary) + 1
    targets = np.full((CAPTIONS, places), NOTHING, dtype=np.int16)
    for row, ids in enumerate(encoded):
        whole = [*ids, end][:places]
        targets[row, : len(whole)] = whole
    return targets


def _with_none(features: npt.NDArray[np.float16]) -> Tensor:
    """A row of zeros at the end, for text without an image."""
    return torch.from_numpy(np.concatenate([features, np.zeros_like(features[:1])]))
