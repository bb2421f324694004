"""Section 3.2: which detected words a sentence may use.

WordScores, RegionScores -> DetectedWords

Deviation: the paper passes on the words whose precision reaches tau. The language model here was
trained to weigh words by their probability, so it gets every content word of at least
`minimum_prob`, and tau only decides which words are *shown* as detected. `minimum_precision` is
the user's own threshold: words below it are not given to the language model either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sightwords.types import DetectedWord, DetectedWords, RegionScores, WordScores
from sightwords.words.detector import Detector


@dataclass(frozen=True)
class WordSelector:
    """Selects the words of one image that a sentence may use: call it with the scores."""

    detector: Detector
    known: frozenset[str]
    """Words that the language model knows; no others are selected."""
    minimum_prob: float
    minimum_precision: float = 0.0
    minimum_words: int = 3
    """At least this many words are selected, even if improbable: a sentence needs some."""

    def __call__(self, scores: WordScores, regions: RegionScores) -> DetectedWords:
        """Most precise first, then by probability, then by word; with boxes."""
        vocabulary, closed = self.detector.vocabulary.words, self.detector.vocabulary.closed_class
        places = [i for i, w in enumerate(vocabulary) if w in self.known and w not in closed]
        ranked = sorted(places, key=lambda i: (-scores.image_probs[i], vocabulary[i]))
        likely = [i for i in ranked if scores.image_probs[i] >= self.minimum_prob]
        # Computing precisions takes time: only these few words get one.
        few = likely if len(likely) >= self.minimum_words else ranked[: self.minimum_words]
        found = self.detector.describe(scores, regions, few).words
        chosen = precise_words(found, self.minimum_precision, at_least=self.minimum_words)
        return DetectedWords(chosen, self.detector.config.threshold)


def precise_words(
    words: Sequence[DetectedWord], precision: float, *, at_least: int
) -> tuple[DetectedWord, ...]:
    """The words of at least this precision, most precise first; never fewer than `at_least`.

    >>> dog, cat = DetectedWord("dog", 0.9, 0.8, 0.9), DetectedWord("cat", 0.2, 0.1, 0.2)
    >>> [w.word for w in precise_words([cat, dog], 0.5, at_least=1)]
    ['dog']
    """
    ranked = sorted(words, key=lambda w: (-w.precision, -w.prob, w.word))
    kept = sum(word.precision >= precision for word in ranked)
    return tuple(ranked[: max(kept, at_least)])
