"""Going on from a trained language model: its weights, and the pairs of words it has seen.

For few captions of one's own: they alone teach no grammar. The words stay those of the model, since
places in its table follow from their ids.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt

from sightwords.config import LanguageConfig
from sightwords.errors import ConfigError, VocabularyError
from sightwords.language.maxent import MaxEnt
from sightwords.text.vocabulary import Vocabulary
from sightwords.train.language.state import State


def check_start(start: MaxEnt, vocabulary: Vocabulary, config: LanguageConfig) -> LanguageConfig:
    """The settings with the model's own order and table; another vocabulary is refused."""
    if start.vocabulary.words != vocabulary.words:
        raise VocabularyError(
            f"the model to go on from has {len(start.vocabulary)} words, the vocabulary "
            f"{len(vocabulary)} or others; use the model's own vocabulary"
        )
    if (start.log_bilinear is not None) != config.log_bilinear:
        raise ConfigError("log_bilinear differs from that of the model to go on from; set it alike")
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
    """Its followers as `followers_of` takes them: before * (V + 2) + after, ascending."""
    counts = np.diff(start.follower_offsets)
    before = np.repeat(np.arange(len(counts)), counts)
    before[before == start.size] = start.size + 1  # the start symbol
    found: npt.NDArray[np.int64] = np.unique(before * (start.size + 2) + start.follower_ids)
    return found
