"""Image/caption pairs as DMSM training takes them: arrays of numbers, made once (section 5.1)."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from sightwords.config import DmsmConfig
from sightwords.corpus.ids import canonical_id
from sightwords.errors import CorpusError, InputError
from sightwords.rerank.dmsm import TextIndex
from sightwords.text.ptb import tokenize_all
from sightwords.text.trigrams import TrigramIndex
from sightwords.train.dmsm.image_features import ImageFeatures
from sightwords.train.rerank.lists import Lists

log = logging.getLogger(__name__)

LONGEST = 30
"""Longer captions, fewer than one in a thousand, are cut to this many words."""
FEWEST = 2
"""Trigrams of words that occur less often than this are left out: misspellings."""
KEPT_OF_LIST = 32
"""Sentences of each image's list that are kept to draw from."""

Tokens = npt.NDArray[np.int32]


@dataclass(frozen=True)
class DmsmData:
    """C captions of N images."""

    features: ImageFeatures
    """Of the N images."""
    index: TextIndex
    words: tuple[str, ...]
    """Every word of the captions; row 0, the empty word, is the sentence boundary."""
    tokens: Tokens
    """(C, L) rows of `words`; 0 after the end."""
    images: npt.NDArray[np.int64]
    """(C,) the image of each caption, a row of `features`."""
    listed: Tokens | None = None
    """(N, K, L) sentences of each image's own list; all 0 for an image without a list."""
    worth: npt.NDArray[np.float32] | None = None
    """(N, K) their values minus the list's mean; NaN for an image without a list."""

    def __len__(self) -> int:
        return len(self.images)


def dmsm_data(
    features: ImageFeatures,
    captions: Mapping[str, Sequence[str]],
    config: DmsmConfig,
) -> DmsmData:
    """Tokenise the captions of every image that has features; the others are left out."""
    known = {canonical_id(name): list(texts) for name, texts in captions.items()}
    ids = [name for name in features.ids if known.get(canonical_id(name))]
    if not ids:
        raise CorpusError(
            f"none of the {len(features)} images with features has a caption among those of "
            f"{len(captions)} images; give the features of this corpus"
        )
    if len(ids) < len(features):
        log.warning("%d images without captions left out", len(features) - len(ids))
    groups = [known[canonical_id(name)] for name in ids]
    sentences = tokenize_all([caption for group in groups for caption in group])
    images = np.repeat(np.arange(len(ids)), [len(group) for group in groups])
    said = np.array([bool(tokens) for tokens in sentences])
    counts = Counter(word for tokens in sentences for word in tokens)
    words = ("", *sorted(counts, key=lambda word: (-counts[word], word)))
    if len(words) == 1:
        raise CorpusError("the captions contain no words; check the corpus")
    return DmsmData(
        features=features if len(ids) == len(features) else features.select(ids),
        index=text_index(counts, config),
        words=words,
        tokens=word_rows([tokens for tokens in sentences if tokens], words),
        images=images[said],
    )


def text_index(counts: Mapping[str, int], config: DmsmConfig) -> TextIndex:
    """The commonest words, and the trigrams of all but the rarest.

    >>> index = text_index({"dog": 3, "a": 5, "dgo": 1}, DmsmConfig(own_words=1))
    >>> index.words, index.trigrams.trigrams
    (('a',), ('#a#', '#do', 'dog', 'og#'))
    """
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    common = [word for word in ranked if counts[word] >= FEWEST] or ranked
    return TextIndex(
        tuple(common[: config.own_words]), TrigramIndex.of_words(common), config.word_window
    )


def word_rows(sentences: Sequence[Sequence[str]], words: Sequence[str]) -> Tokens:
    """(C, L) rows of `words`, 0 after the end; sentences are cut at 30 words."""
    places = {word: row for row, word in enumerate(words)}
    width = min(LONGEST, max([1, *map(len, sentences)]))
    rows = np.zeros((len(sentences), width), dtype=np.int32)
    for row, tokens in zip(rows, sentences, strict=True):
        cut = tokens[:width]
        row[: len(cut)] = [places[word] for word in cut]
    return rows


def with_lists(data: DmsmData, lists: Lists, values: npt.NDArray[np.float32]) -> DmsmData:
    """Add sentences of M-best lists, 32 random ones of each.

    `values` (H,) are the values of the sentences, such as CIDEr (`train.rerank.list_metrics`).
    """
    if len(values) != lists.hypotheses:
        raise InputError(f"{len(values)} values for {lists.hypotheses} sentences; give one each")
    words = (*data.words, *sorted(set(lists.words) - set(data.words)))
    places = {word: row for row, word in enumerate(words)}
    rows = np.array([places[word] for word in lists.words], dtype=np.int32)
    listed = np.zeros((len(data.features), KEPT_OF_LIST, LONGEST), dtype=np.int32)
    worth = np.full(listed.shape[:2], np.nan, dtype=np.float32)
    by_id = {name: row for row, name in enumerate(lists.ids.tolist())}
    rng = np.random.default_rng(0)
    for image, name in enumerate(data.features.ids):
        place = by_id.get(canonical_id(name))
        if place is None:
            continue
        first, last = int(lists.offsets[place]), int(lists.offsets[place + 1])
        chosen = first + np.resize(rng.permutation(last - first), KEPT_OF_LIST)  # short ones repeat
        worth[image] = values[chosen] - values[first:last].mean()
        for slot, hypothesis in enumerate(chosen):
            start, end = lists.token_offsets[hypothesis : hypothesis + 2]
            cut = rows[lists.tokens[start:end][:LONGEST]]
            listed[image, slot, : len(cut)] = cut
    return replace(data, words=words, listed=listed, worth=worth)
