"""The V most frequent words of the training captions (section 3): captions -> Vocabulary.

Words are the tokens of the COCO tokeniser, lower-cased and without punctuation. They stand in
descending order of count, ties in the order of their code points, so that the same captions give
the same vocabulary everywhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

import numpy as np
import numpy.typing as npt

from sightwords.errors import VocabularyError
from sightwords.text.ptb import tokenize_all

CLOSED_CLASS = (
    "a", "on", "of", "the", "in", "with", "and", "is",
    "to", "an", "at", "are", "next", "that", "it",
)  # fmt: skip
"""The 15 most frequent closed-class words, in the order of the paper's footnote (section 4.1):
they are taken out of the detected words, since nearly every image has them. A vocabulary of another
language names its own."""

UNKNOWN = "<unk>"

COARSE_TAGS = ("NN", "VB", "JJ", "DT", "PRP", "IN", "other")
"""Coarse parts of speech, in the order of the paper's table of word detection."""


@dataclass(frozen=True)
class WordCounts:
    """How often each word occurs; counts of parts of a corpus add up to those of the whole.

    >>> both = WordCounts.of_captions(["A dog."]) + WordCounts.of_captions(["the dog runs"])
    >>> both.counts["dog"], both.total_tokens, both.captions
    (2, 5, 2)
    """

    counts: Mapping[str, int]
    captions: int

    @classmethod
    def of_captions(cls, captions: Iterable[str], *, batch_size: int = 20_000) -> WordCounts:
        """Count while streaming: captions are tokenised `batch_size` at a time and not kept."""
        counts: Counter[str] = Counter()
        seen = 0
        stream = iter(captions)
        while batch := list(islice(stream, batch_size)):
            seen += len(batch)
            for tokens in tokenize_all(batch):
                counts.update(tokens)
        return cls(counts, seen)

    @property
    def total_tokens(self) -> int:
        """Number of word occurrences."""
        return sum(self.counts.values())

    def __add__(self, other: WordCounts) -> WordCounts:
        merged = Counter(self.counts)
        merged.update(other.counts)
        return WordCounts(merged, self.captions + other.captions)


@dataclass(frozen=True)
class Vocabulary:
    """An ordered word list with what is known about each word.

    >>> words = Vocabulary.of_captions(["a dog and a cat", "a dog"], size=2)
    >>> words.words, words.counts, round(words.coverage, 3)
    (('a', 'dog'), (3, 2), 0.714)
    >>> words.encode(["a", "cat"])
    [0, 2]
    """

    words: tuple[str, ...]
    """(V,) by descending count, ties by word."""
    counts: tuple[int, ...]
    """(V,) occurrences in the captions it was built from."""
    total_tokens: int
    """Occurrences of all words there, those left out included."""
    pos: tuple[str, ...] | None = None
    """(V,) coarse part of speech, once tagged (see `sightwords.text.pos`)."""
    closed_class: tuple[str, ...] = CLOSED_CLASS
    """Words of its language that tell nothing about an image; they need not be among `words`."""
    written: Mapping[str, str] = field(default_factory=dict, hash=False)
    """How captions spell a word that they do not write in lower case: `mann` -> `Mann`."""
    ids: Mapping[str, int] = field(init=False, repr=False, compare=False)
    """Word -> its place, 0 to V - 1: the column of the detector."""

    def __post_init__(self) -> None:
        _check(self)
        object.__setattr__(self, "ids", {word: i for i, word in enumerate(self.words)})

    @classmethod
    def of_counts(cls, counts: WordCounts, *, size: int = 1000) -> Vocabulary:
        """The `size` most frequent words; fewer if there are not so many."""
        if size < 1:
            raise VocabularyError(f"a vocabulary of {size} words; ask for at least 1")
        ranked = sorted(counts.counts.items(), key=lambda item: (-item[1], item[0]))[:size]
        return cls(
            words=tuple(word for word, _ in ranked),
            counts=tuple(count for _, count in ranked),
            total_tokens=counts.total_tokens,
        )

    @classmethod
    def of_captions(cls, captions: Iterable[str], *, size: int = 1000) -> Vocabulary:
        """Count and choose in one step."""
        return cls.of_counts(WordCounts.of_captions(captions), size=size)

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self.ids

    @property
    def coverage(self) -> float:
        """Share of word occurrences that these words make up (92 % in the paper)."""
        return sum(self.counts) / self.total_tokens

    @property
    def unknown_id(self) -> int:
        """What `encode` gives every other word: V, so that words keep the detector's columns."""
        return len(self.words)

    def index(self, word: str) -> int:
        """Place of a word that must be here."""
        try:
            return self.ids[word]
        except KeyError:
            raise VocabularyError(
                f"{word!r} is not among the {len(self)} words of the vocabulary; "
                "use a larger vocabulary, or check the spelling (words are lower-case)"
            ) from None

    def encode(self, tokens: Iterable[str]) -> list[int]:
        """Tokens -> ids; words outside become `unknown_id`."""
        unknown = self.unknown_id
        return [self.ids.get(token, unknown) for token in tokens]

    def decode(self, ids: Iterable[int]) -> list[str]:
        """Ids -> tokens; the inverse of `encode` up to unknown words.

        >>> Vocabulary(("a", "dog"), (2, 1), 3).decode([1, 2])
        ['dog', '<unk>']
        """
        words = (*self.words, UNKNOWN)
        found = list(ids)
        for i in found:
            if not 0 <= i < len(words):
                raise VocabularyError(f"id {i} is outside the {len(self)} words and {UNKNOWN}")
        return [words[i] for i in found]

    def mentions(
        self, images: Sequence[Sequence[str]], *, captions_per_image: int = 5
    ) -> npt.NDArray[np.uint8]:
        """In how many of an image's first captions each word occurs: (images, V).

        The authors' labels look at the first five (section 3); a word is present where this is
        not zero. Word evaluation needs the number itself.

        >>> Vocabulary(("a", "dog"), (2, 1), 3).mentions([["A dog.", "a cat"], []]).tolist()
        [[2, 1], [0, 0]]
        """
        if not 1 <= captions_per_image <= 255:
            raise VocabularyError(
                f"captions_per_image is {captions_per_image}; expected 1 to 255 (the paper uses 5)"
            )
        first = [list(captions[:captions_per_image]) for captions in images]
        tokenised = iter(tokenize_all([caption for captions in first for caption in captions]))
        found = np.zeros((len(first), len(self)), dtype=np.uint8)
        for row, captions in enumerate(first):
            for _ in captions:
                here = {self.ids[token] for token in next(tokenised) if token in self.ids}
                found[row, list(here)] += 1
        return found

    def labels(
        self, images: Sequence[Sequence[str]], *, captions_per_image: int = 5
    ) -> npt.NDArray[np.bool_]:
        """Whether any of an image's first captions has the word: (images, V)."""
        return self.mentions(images, captions_per_image=captions_per_image) > 0

    def with_pos(self, tags: Mapping[str, str]) -> Vocabulary:
        """The same words with their part of speech; every word needs one."""
        missing = [word for word in self.words if word not in tags]
        if missing:
            raise VocabularyError(
                f"{len(missing)} of {len(self)} words have no part of speech "
                f"(first: {missing[0]!r}); tag captions that contain them"
            )
        return replace(self, pos=tuple(tags[word] for word in self.words))


def _check(vocabulary: Vocabulary) -> None:
    words, counts = vocabulary.words, vocabulary.counts
    if not words:
        raise VocabularyError("a vocabulary without words; give captions that have some")
    if len(counts) != len(words) or (
        vocabulary.pos is not None and len(vocabulary.pos) != len(words)
    ):
        tags = "no" if vocabulary.pos is None else len(vocabulary.pos)
        raise VocabularyError(
            f"{len(words)} words with {len(counts)} counts and {tags} parts of speech; "
            "expected one each"
        )
    repeated = [word for word, n in Counter(words).items() if n > 1]
    if repeated:
        raise VocabularyError(f"the word {repeated[0]!r} is listed more than once; keep one")
    order = [(-count, word) for word, count in zip(words, counts, strict=True)]
    wrong = next((i for i in range(1, len(order)) if order[i] < order[i - 1]), None)
    if wrong is not None:
        raise VocabularyError(
            f"{words[wrong]!r} ({counts[wrong]}) stands after {words[wrong - 1]!r} "
            f"({counts[wrong - 1]}); expected descending counts, ties by word"
        )
    if counts[-1] < 1 or vocabulary.total_tokens < sum(counts):
        raise VocabularyError(
            f"counts add up to {sum(counts)} of {vocabulary.total_tokens} tokens, the smallest is "
            f"{counts[-1]}; expected at least 1 each and no more than all tokens"
        )
    unknown = sorted(set(vocabulary.pos or ()) - set(COARSE_TAGS))
    if unknown:
        expected = ", ".join(COARSE_TAGS)
        raise VocabularyError(f"part of speech {unknown[0]!r}; expected one of {expected}")
