"""Letter trigrams with boundary marks: the words of the DMSM's text side (section 5.1).

Huang et al. (2013) hash a word into the three-letter pieces of `#word#`; the text network takes
their counts, which keeps its input small and lets it read words it was not trained on. Pieces not
seen when the index was built are dropped: they have no weights.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sightwords.errors import VocabularyError

BOUNDARY = "#"


def letter_trigrams(word: str) -> list[str]:
    """The pieces of one word in reading order, repeats kept.

    Letters are Unicode code points. A `#` of the word itself cannot be told from the boundary
    mark, as in the papers. The empty word has no pieces.

    >>> letter_trigrams("good")
    ['#go', 'goo', 'ood', 'od#']
    >>> letter_trigrams("a"), letter_trigrams("é!")
    (['#a#'], ['#é!', 'é!#'])
    """
    if not word:
        return []
    marked = f"{BOUNDARY}{word}{BOUNDARY}"
    return [marked[i : i + 3] for i in range(len(marked) - 2)]


@dataclass(frozen=True)
class TrigramIndex:
    """Which trigram has which place in the network's input.

    >>> index = TrigramIndex.of_words(["good", "goods"])
    >>> index.trigrams
    ('#go', 'ds#', 'goo', 'od#', 'ods', 'ood')
    >>> places, counts = index.counts(["good", "mood"])
    >>> [index.trigrams[i] for i in places], counts.tolist()
    (['#go', 'goo', 'od#', 'ood'], [1, 1, 2, 2])
    """

    trigrams: tuple[str, ...]
    """In the order of their code points."""
    ids: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        wrong = next((t for t in self.trigrams if len(t) != 3), None)
        if wrong is not None:
            raise VocabularyError(f"{wrong!r} has {len(wrong)} letters; a trigram has three")
        if list(self.trigrams) != sorted(set(self.trigrams)):
            raise VocabularyError(
                "trigrams are not sorted or not unique; build the index with TrigramIndex.of_words"
            )
        object.__setattr__(self, "ids", {t: i for i, t in enumerate(self.trigrams)})

    @classmethod
    def of_words(cls, words: Iterable[str]) -> TrigramIndex:
        """Index every trigram of the words; their order and repeats do not matter."""
        return cls(tuple(sorted({t for word in set(words) for t in letter_trigrams(word)})))

    def __len__(self) -> int:
        return len(self.trigrams)

    def counts(self, words: Sequence[str]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Sparse counts over a word or a sentence: places in ascending order, and how often each.

        Both (n,), n the number of different known trigrams.
        """
        if isinstance(words, str):
            raise VocabularyError(f"counts takes a list of words; write [{words!r}]")
        found = Counter(t for word in words for t in letter_trigrams(word) if t in self.ids)
        pairs = sorted((self.ids[trigram], count) for trigram, count in found.items())
        places = np.fromiter((place for place, _ in pairs), dtype=np.int64, count=len(pairs))
        return places, np.fromiter((n for _, n in pairs), dtype=np.int64, count=len(pairs))

    def dense(self, words: Sequence[str]) -> npt.NDArray[np.float32]:
        """The same as a vector: (len(self),) float32.

        >>> TrigramIndex.of_words(["good"]).dense(["good", "zzz"]).tolist()
        [1.0, 1.0, 1.0, 1.0]
        """
        vector = np.zeros(len(self), dtype=np.float32)
        places, counts = self.counts(words)
        vector[places] = counts
        return vector
