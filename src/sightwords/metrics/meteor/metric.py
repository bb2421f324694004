"""METEOR 1.5 for English, without Java (Denkowski and Lavie, 2014).

"Meteor Universal: Language Specific Translation Evaluation for Any Target Language", with the
English ranking parameters, as pycocoevalcap runs it (`-l en -norm`): comparison -> score.

A candidate is aligned with each of its references (`match.py`, `align.py`); the reference
that scores best counts. The corpus score is not the mean of the images' scores: the counts of all
images are added up and scored as if they were one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sightwords.metrics.meteor.align import align_all
from sightwords.metrics.meteor.cache import load_table
from sightwords.metrics.meteor.data import MeteorData, load_data, meteor_files
from sightwords.metrics.meteor.hash import I64
from sightwords.metrics.meteor.lexicon import Lexicon
from sightwords.metrics.meteor.match import find_matches
from sightwords.metrics.meteor.paraphrases import ParaphraseTable
from sightwords.metrics.meteor.text import normalize, sentence_text
from sightwords.metrics.ngrams import Tokens
from sightwords.metrics.score import Comparison, Score, Sums, signature

ALPHA, BETA, GAMMA, DELTA = 0.85, 0.20, 0.60, 0.75
"""Weight of recall, power and weight of the fragmentation penalty, weight of content words."""
WEIGHTS = (1.0, 0.6, 0.8, 0.6)
"""Of exact, stem, synonym and paraphrase matches."""

_IMAGES_AT_ONCE = 5000

# Columns of the statistics of a pair: lengths and function words of candidate and reference, the
# sixteen counters of `align_all`, chunks.
_COLUMNS = 21


def meteor(pairs: Comparison) -> Score:
    """METEOR of a corpus and of each image.

    An empty candidate scores 0, as METEOR's jar gives it; so does one with an empty reference only.
    Needs the extra `meteor`, for METEOR's data; the first call prepares the paraphrase table for
    later ones.
    """
    files = meteor_files()
    statistics = image_statistics(pairs, load_data(files.jar), load_table(files.paraphrases))
    return Score(
        metric="meteor",
        value=float(score(_addable(statistics).sum(axis=0))),
        per_image=score(statistics),
        signature=signature("meteor", pairs, variant="1.5", lang="en", norm="yes"),
        sums=Sums(_addable(statistics).astype(np.float64), score),
    )


def image_statistics(pairs: Comparison, data: MeteorData, table: ParaphraseTable) -> I64:
    """(images, 21) counts of each image with its best reference."""
    batches = range(0, len(pairs.ids), _IMAGES_AT_ONCE)  # so that memory does not grow with images
    return np.concatenate(
        [
            _statistics(
                pairs.candidates[first : first + _IMAGES_AT_ONCE],
                pairs.references[first : first + _IMAGES_AT_ONCE],
                data,
                table,
            )
            for first in batches
        ]
    )


def score(statistics: npt.NDArray[np.int64 | np.float64]) -> npt.NDArray[np.float64]:
    """METEOR of rows of statistics: (..., 21) -> (...)."""
    length = statistics[..., 0:2].astype(np.float64)  # candidate, reference
    function_words = statistics[..., 2:4]
    matched = statistics[..., 4:20].reshape(*statistics.shape[:-1], 4, 2, 2)
    chunks = statistics[..., 20]
    words = matched.sum(axis=(-3, -2))
    weighted = np.zeros_like(length)
    for kind, share in enumerate((DELTA, 1.0 - DELTA)):
        for module, weight in enumerate(WEIGHTS):
            weighted += matched[..., module, kind, :] * weight * share
    weighted_length = DELTA * (length - function_words) + (1.0 - DELTA) * function_words
    with np.errstate(divide="ignore", invalid="ignore"):
        precision, recall = np.moveaxis(weighted / weighted_length, -1, 0)
        mean = 1.0 / ((1.0 - ALPHA) / precision + ALPHA / recall)
        fragmentation = np.where(_is_perfect(statistics), 0.0, chunks / (words.sum(axis=-1) / 2))
        value = mean * (1.0 - GAMMA * fragmentation**BETA)
    return np.where(np.isnan(value), 0.0, np.maximum(value, 0.0))


def _is_perfect(statistics: npt.NDArray[np.int64 | np.float64]) -> npt.NDArray[np.bool_]:
    """Every word of both sentences matched, in one chunk."""
    words = statistics[..., 4:20].reshape(*statistics.shape[:-1], 8, 2).sum(axis=-2)
    full = (words == statistics[..., 0:2]).all(axis=-1)
    return np.asarray(full & (statistics[..., 20] == 1))


def _addable(statistics: I64) -> I64:
    """Rows for adding up over images: a perfect one adds no chunk, having no fragmentation."""
    rows: I64 = statistics.copy()
    rows[:, 20] -= _is_perfect(statistics)
    return rows


def _statistics(
    candidates: Sequence[Tokens],
    references: Sequence[Sequence[Tokens]],
    data: MeteorData,
    table: ParaphraseTable,
) -> I64:
    distinct = set(candidates).union(*references)
    normal = {tokens: tuple(normalize(sentence_text(tokens), data.prefixes)) for tokens in distinct}
    sentences = dict.fromkeys(normal.values())
    number = dict(zip(sentences, range(len(sentences)), strict=True))
    counts = np.array([len(group) for group in references])
    ours = np.repeat([number[normal[tokens]] for tokens in candidates], counts)
    theirs = np.array([number[normal[tokens]] for group in references for tokens in group])
    rows = _pair_statistics(Lexicon(list(sentences), data, table), ours, theirs)
    values = score(rows)
    # the first of equals, as the jar takes it
    firsts = np.cumsum(counts) - counts
    best = [f + int(np.argmax(values[f : f + n])) for f, n in zip(firsts, counts, strict=True)]
    return rows[best]


def _pair_statistics(lexicon: Lexicon, ours: I64, theirs: I64) -> I64:
    """(pairs, 21)"""
    size = len(lexicon.lengths)
    distinct, inverse = np.unique(ours * size + theirs, return_inverse=True)
    ours, theirs = distinct // size, distinct % size
    lengths = lexicon.lengths
    counts, chunks = align_all(find_matches(lexicon, ours, theirs), lengths[ours], lengths[theirs])
    rows = np.empty((len(distinct), _COLUMNS), dtype=np.int64)
    rows[:, 0], rows[:, 1] = lengths[ours], lengths[theirs]
    rows[:, 2], rows[:, 3] = lexicon.function_words[ours], lexicon.function_words[theirs]
    rows[:, 4:20], rows[:, 20] = counts, chunks
    return rows[inverse]
