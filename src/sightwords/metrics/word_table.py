"""Input and output of the word metrics: Table 3 of the paper.

`CaptionCounts` go into `word_ap.evaluate_words`, a `WordTable` comes out, and `summarise` makes
the rows and columns of Table 3 of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sightwords.errors import ScoreError
from sightwords.metrics.ngrams import FloatArray, IntArray

PARTS_OF_SPEECH = ("NN", "VB", "JJ", "DT", "PRP", "IN")
OTHERS = "Others"
ALL = "All"


@dataclass(frozen=True, slots=True)
class CaptionCounts:
    """In how many of each image's captions each word occurs."""

    counts: npt.NDArray[np.int64]
    """(N, V)"""
    captions: IntArray
    """(N,) captions used, at least 2: with one, no caption could repeat another's words."""

    def __post_init__(self) -> None:
        if self.counts.ndim != 2 or self.captions.shape != self.counts.shape[:1]:
            raise ScoreError(
                f"caption counts of shape {self.counts.shape} beside {self.captions.shape} numbers "
                "of captions; expected (images, words) and (images,)"
            )
        if not len(self.captions) or int(self.captions.min()) < 2:
            raise ScoreError("word metrics need images, and at least 2 captions of each")
        if self.counts.size and (self.counts.min() < 0 or np.any(self.captions < self.counts.T)):
            raise ScoreError("a word occurs in fewer than 0 or more captions than an image has")


@dataclass(frozen=True, slots=True)
class WordTable:
    """One row per word; undefined values are NaN."""

    words: tuple[str, ...]
    pos: tuple[str, ...]
    """Part of speech, one of `PARTS_OF_SPEECH` or `Others`."""
    positives: IntArray
    """(V,) images with the word in a caption."""
    ap: FloatArray
    """(V,) the authors' weighted form; NaN for a word without positives."""
    ap_plain: FloatArray
    """(V,) section 6.2."""
    chance: FloatArray
    """(V,) `ap` of a constant score."""
    chance_plain: FloatArray
    """(V,) `ap_plain` of a constant score: the share of positives."""
    phr: FloatArray
    """(V,) Precision at Human Recall; NaN without positives."""
    human_precision: FloatArray
    """(V,) NaN without positives."""
    human_recall: FloatArray
    """(V,)"""
    signature: str


@dataclass(frozen=True, slots=True)
class WordMeans:
    """Means over the words of one part of speech, or All: one column of Table 3."""

    pos: str
    words: int
    words_with_ap: int
    """Words with a positive image, over which `ap` and `chance` are means."""
    words_with_phr: int
    """Words with a positive image, over which `phr` and `human_agreement` are means."""
    ap: float
    ap_plain: float
    chance: float
    chance_plain: float
    phr: float
    human_agreement: float


def summarise(table: WordTable) -> tuple[WordMeans, ...]:
    """The columns of Table 3: each part of speech, Others, All."""
    pos = np.array(table.pos, dtype=object)
    groups = [(name, pos == name) for name in (*PARTS_OF_SPEECH, OTHERS)]
    return tuple(
        _means(table, name, rows) for name, rows in (*groups, (ALL, np.full(len(pos), True)))
    )


def _means(table: WordTable, name: str, rows: npt.NDArray[np.bool_]) -> WordMeans:
    def mean(column: FloatArray, defined: npt.NDArray[np.bool_]) -> float:
        return float(column[defined].mean()) if defined.any() else math.nan

    with_ap = rows & ~np.isnan(table.ap)
    with_phr = rows & ~np.isnan(table.phr)
    return WordMeans(
        pos=name,
        words=int(rows.sum()),
        words_with_ap=int(with_ap.sum()),
        words_with_phr=int(with_phr.sum()),
        ap=mean(table.ap, with_ap),
        ap_plain=mean(table.ap_plain, with_ap),
        chance=mean(table.chance, with_ap),
        chance_plain=mean(table.chance_plain, with_ap),
        phr=mean(table.phr, with_phr),
        human_agreement=mean(table.human_precision, with_phr),
    )
