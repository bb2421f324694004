"""Section 5 in one call: M-best list -> Caption, the last stage of the pipeline.

    Chooser.load(bundle_directory)(m_best, detected_words, word_scores, region_scores)

The directory holds `rerank/` (weights.json, confidence.json), and `dmsm/` and `grounded/` where the
weights use them. Ties: equal scores leave the likelier sentence first.
"""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from sightwords.errors import BundleError, InputError
from sightwords.rerank.confidence import CONFIDENCE_NAME, Confidence, confidence_features
from sightwords.rerank.features import DOUBT, candidates_of
from sightwords.rerank.linear import Given, Ints, Ranker, Ranking
from sightwords.sealed import Sealed, folder_of
from sightwords.text.vocabulary import CLOSED_CLASS
from sightwords.text.vocabulary_file import load_vocabulary
from sightwords.types import (
    Caption,
    CaptionWord,
    DetectedWords,
    FloatArray,
    Hypothesis,
    MBest,
    RankedHypothesis,
    RegionScores,
    WordScores,
)

Sentences = Sequence[Sequence[str]]


class Similarity(Protocol):
    """The part of the DMSM that the chooser needs."""

    def score(self, features: FloatArray, sentences: Sentences) -> FloatArray:
        """(M,) similarity of each sentence with the image."""


class SecondModel(Protocol):
    """The part of the grounded model that the chooser needs."""

    def score(self, features: FloatArray, words: DetectedWords, sentences: Sentences) -> FloatArray:
        """(M,) how well each sentence fits the image."""


@dataclass(frozen=True)
class Chooser:
    """The last stage, loaded: call it with the results of the earlier ones."""

    ranker: Ranker
    confidence: Confidence | None = None
    """Without it a caption's confidence is NaN."""
    dmsm: Similarity | None = None
    grounded: SecondModel | None = None
    vocabulary: Sequence[str] = field(default=(), repr=False)
    """The detector's words, for `doubtful_log_prob`."""
    closed_class: Collection[str] = field(default=CLOSED_CLASS, repr=False)
    """Words that describe no image content ("the", "of")."""
    written: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Words that a caption does not write in lower case."""
    n_best: int = 5
    """Sentences that a caption keeps, with their scores."""

    def __post_init__(self) -> None:
        for name, model in (("dmsm", self.dmsm), ("grounded", self.grounded)):
            if self.ranker.needs(name) and model is None:
                raise BundleError(
                    f"the re-ranking weights use {name!r}, but no such model was given; add its "
                    f"directory {name}/, or use weights without it"
                )
        if self.n_best < 1:
            raise InputError(f"n_best is {self.n_best}; expected at least 1")

    @classmethod
    def load(
        cls,
        directory: str | os.PathLike[str] | Sealed,
        *,
        threads: int | None = None,
        n_best: int = 5,
    ) -> Chooser:
        """Load the re-ranking of a bundle's directory; models without a weight are not loaded."""
        from sightwords.rerank.dmsm import Dmsm
        from sightwords.rerank.grounded import Grounded

        folder = folder_of(directory)
        ranker = Ranker.load(folder / "rerank")
        words = folder / "words" / "vocabulary.json"
        spoken = folder / "language" / "vocabulary.json"
        language = load_vocabulary(spoken) if spoken.is_file() else None
        has_confidence = (folder / "rerank" / CONFIDENCE_NAME).is_file()
        return cls(
            ranker,
            Confidence.load(folder / "rerank") if has_confidence else None,
            Dmsm.load(folder / "dmsm", threads=threads) if ranker.needs("dmsm") else None,
            Grounded.load(folder / "grounded", threads=threads)
            if ranker.needs("grounded")
            else None,
            load_vocabulary(words).words if words.is_file() else (),
            language.closed_class if language else CLOSED_CLASS,
            language.written if language else {},
            n_best,
        )

    def __call__(
        self, m_best: MBest, detected: DetectedWords, scores: WordScores, regions: RegionScores
    ) -> Caption:
        """The caption that fits the image, with its words, its confidence and the n-best list."""
        known = self._known(scores)
        candidates = candidates_of(m_best, detected, known, closed_class=self.closed_class)
        ranking = self.ranker.rank(candidates, self._given(m_best, detected, regions))
        best = m_best.hypotheses[int(ranking.order[0])]
        confidence = (
            self.confidence(confidence_features(candidates, ranking), _whole(regions))
            if self.confidence
            else math.nan
        )
        return Caption(
            text=sentence_text([self.written.get(word, word) for word in best.tokens]),
            confidence=confidence,
            words=_shown(best, detected),
            n_best=_ranked(m_best, ranking, self.n_best),
            weights=dict(self.ranker.stages[-1].weights),
        )

    def _known(self, scores: WordScores) -> Mapping[str, float]:
        """Words that are not certain to be absent, for `doubtful_log_prob`."""
        if not self.vocabulary or not self.ranker.needs("doubtful_log_prob"):
            return {}
        probs = scores.image_probs
        likely = np.flatnonzero(probs >= DOUBT).tolist()
        return {self.vocabulary[i]: float(probs[i]) for i in likely}

    def _given(self, m_best: MBest, detected: DetectedWords, regions: RegionScores) -> Given:
        sentences = [h.tokens for h in m_best.hypotheses]
        features = regions.features

        def of_dmsm(places: Ints) -> FloatArray:
            assert self.dmsm is not None
            return self.dmsm.score(_present(features), [sentences[i] for i in places])

        def of_grounded(places: Ints) -> FloatArray:
            assert self.grounded is not None
            some = [sentences[i] for i in places]
            return self.grounded.score(_present(features), detected, some)

        return {"dmsm": of_dmsm, "grounded": of_grounded}


def sentence_text(tokens: Sequence[str]) -> str:
    """Tokens as people write them: `man 's` becomes `man's`.

    >>> sentence_text(("a", "man", "'s", "dog", "does", "n't", "run"))
    "a man's dog doesn't run"
    """
    text = ""
    for token in tokens:
        joins = token.startswith("'") or token == "n't"
        text += token if joins or not text else f" {token}"
    return text


def _present(features: FloatArray | None) -> FloatArray:
    if features is None:
        raise InputError(
            "the detector gave no image features, but the re-ranking weights use a model that "
            "needs them; use a detector exported with features, or weights of Table 2 without dmsm"
        )
    return features


def _whole(regions: RegionScores) -> FloatArray | None:
    """(D,) what describes the image as a whole."""
    return None if regions.features is None else regions.features[regions.whole_token]


def _shown(best: Hypothesis, detected: DetectedWords) -> tuple[CaptionWord, ...]:
    """Words that reach the global precision threshold, and all that the caption uses."""
    used = set(best.tokens)
    return tuple(
        CaptionWord(word, word.word in used)
        for word in detected.words
        if word.precision >= detected.threshold or word.word in used
    )


def _ranked(m_best: MBest, ranking: Ranking, count: int) -> tuple[RankedHypothesis, ...]:
    some = zip(ranking.order.tolist(), ranking.features, ranking.scores.tolist(), strict=False)
    return tuple(
        RankedHypothesis(
            m_best.hypotheses[place],
            dict(zip(ranking.names, row.tolist(), strict=True)),
            score,
        )
        for place, row, score in list(some)[:count]
    )
