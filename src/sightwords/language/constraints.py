"""Section 4.2, constraints on sentences: words and lengths -> a checked search problem.

    Constraints     as asked, in words: checked for contradictions when made
    SearchProblem         as searched, in ids: `pose` checks every word against the vocabulary

The paper has no such constraints; `Constraints()` is none, and leaves its search unchanged.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sightwords.errors import InputError, VocabularyError
from sightwords.language.features import FloatArray, IntArray, attribute_set
from sightwords.text.vocabulary import Vocabulary

BoolArray = npt.NDArray[np.bool_]

ALIKE = 0.65
"""difflib's ratio from which a word is suggested for an unknown one: `dgo` and `dog` have .67,
`hijab` and `china` .6."""


def split_words(words: str | Iterable[str]) -> tuple[str, ...]:
    """Words as people give them, each once: no word has a space, comma or capital.

    >>> split_words(["Man,woman", "man"]), split_words("dog")
    (('man', 'woman'), ('dog',))
    """
    given = [words] if isinstance(words, str) else words
    split = (re.split(r"[\s,;]+", text.lower()) for text in given)
    return tuple(dict.fromkeys(word for several in split for word in several if word))


def unknown_words_warning(forbidden: Iterable[str], vocabulary: Vocabulary) -> str:
    """A warning about forbidden words that the language model does not know; "" if there are none.

    >>> unknown_words_warning(["dog", "wommen", "zebra"], Vocabulary(("dog", "women"), (2, 1), 3))
    "forbid: not among the 2 words of the language model, so never used anyway: 'wommen' \
(did you mean 'women'?), 'zebra'"
    """
    never = [word for word in forbidden if word not in vocabulary]
    if not never:
        return ""
    close = {word: _nearest(word, vocabulary) for word in never}
    named = (f"{word!r} (did you mean {close[word]!r}?)" if close[word] else repr(word)
             for word in never)  # fmt: skip
    return (
        f"forbid: not among the {len(vocabulary)} words of the language model, so never used "
        f"anyway: {', '.join(named)}"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraints:
    """What must hold of every sentence.

    >>> Constraints(required=("dog",), forbidden=("dog",))
    Traceback (most recent call last):
        ...
    sightwords.errors.InputError: constraints: 'dog' is both required and forbidden; \
take it out of one of the two
    """

    required: tuple[str, ...] = ()
    """Words that must appear."""
    forbidden: tuple[str, ...] = ()
    """Words that must not."""
    minimum_length: int = 1
    """In words, at least 1."""
    maximum_length: int | None = None
    """In words; None keeps the limit of the settings. It can only lower that limit."""
    repeats: bool = True
    """Whether a content word (one not in the closed class) may occur twice, as in the paper."""

    def __post_init__(self) -> None:
        for word in self.required:
            if word in self.forbidden:
                raise InputError(
                    f"constraints: {word!r} is both required and forbidden; "
                    "take it out of one of the two"
                )
        if self.minimum_length < 1:
            raise InputError(
                f"constraints: minimum_length is {self.minimum_length}; expected at least 1"
            )
        if self.maximum_length is not None and self.maximum_length < self.minimum_length:
            raise InputError(
                f"constraints: minimum_length {self.minimum_length} is above maximum_length "
                f"{self.maximum_length}; raise the maximum or lower the minimum"
            )


@dataclass(frozen=True, slots=True)
class SearchProblem:
    """One search, in the ids of a language model: V outcomes, `<unk>` the last of them."""

    attributes: IntArray
    """(A,) the detected words to mention, ascending; closed-class words removed (section 4.1)."""
    word_log_probs: FloatArray
    """(V,) log-probability of each attribute, 0 elsewhere: the Score feature of Table 1."""
    required: IntArray
    """(R,) ascending, each once."""
    unattached: BoolArray
    """(R,) required words that are not attributes: those of the closed class."""
    forbidden: BoolArray
    """(V,) words never to use; `<unk>` is always one of them."""
    once: BoolArray
    """(V,) words that may occur once only; none where repeats are allowed."""
    minimum_length: int
    maximum_length: int


def pose(
    probs: Mapping[str, float],
    vocabulary: Vocabulary,
    *,
    constraints: Constraints | None = None,
    maximum_length: int,
) -> SearchProblem:
    """Detected words with their probabilities, and constraints -> the problem to search.

    A required word that was not detected joins the attributes with probability 1: the user vouches
    for it. A forbidden word is not an attribute. A forbidden word outside the vocabulary has no
    effect (`unknown_words_warning`); any other word outside it is an error.

    >>> words = Vocabulary(("a", "dog", "cat"), (3, 2, 1), 6)
    >>> problem = pose({"dog": 0.5, "a": 0.9}, words, maximum_length=5)
    >>> problem.attributes.tolist(), problem.word_log_probs.round(3).tolist()
    ([1], [0.0, -0.6930000185966492, 0.0, 0.0])
    """
    asked = constraints or Constraints()
    _check(probs, asked, vocabulary)
    wanted = {**dict.fromkeys(asked.required, 1.0), **probs}
    attributes = attribute_set(
        {word: prob for word, prob in wanted.items() if word not in asked.forbidden}, vocabulary
    )
    size = len(vocabulary) + 1  # `<unk>`
    limit = min(maximum_length, asked.maximum_length or maximum_length)
    if asked.minimum_length > limit:
        raise InputError(
            f"constraints: minimum_length {asked.minimum_length} is above the longest sentence of "
            f"the search, {limit}; lower it, or raise maximum_length (--set max_length=N of "
            "generate)"
        )
    required = np.array(sorted({vocabulary.ids[w] for w in asked.required}), dtype=np.int32)
    once = np.zeros(size, dtype=np.bool_)
    if not asked.repeats:
        once = ~_mask(vocabulary.closed_class, vocabulary)
    forbidden = _mask(asked.forbidden, vocabulary)
    forbidden[vocabulary.unknown_id] = True
    return SearchProblem(
        attributes=attributes.ids,
        word_log_probs=attributes.word_log_probs(size),
        required=required,
        unattached=~np.isin(required, attributes.ids),
        forbidden=forbidden,
        once=once,
        minimum_length=asked.minimum_length,
        maximum_length=limit,
    )


def _check(probs: Mapping[str, float], asked: Constraints, vocabulary: Vocabulary) -> None:
    if not probs:
        raise InputError("no detected words; give at least one, such as 'dog'")
    for word, prob in probs.items():
        if not 0 <= prob <= 1:  # also refuses nan
            raise InputError(f"the word {word!r} has probability {prob}; expected 0 to 1")
    missing = [word for word in dict.fromkeys((*probs, *asked.required)) if word not in vocabulary]
    if missing:
        close = _nearest(missing[0], vocabulary)
        hint = f"did you mean {close!r}?" if close else "words are lower-case"
        raise VocabularyError(
            f"not among the {len(vocabulary)} words of the language model: "
            f"{', '.join(map(repr, missing))}; {hint}"
        )


def _nearest(word: str, vocabulary: Vocabulary) -> str | None:
    close = difflib.get_close_matches(word, vocabulary.words, n=1, cutoff=ALIKE)
    return close[0] if close else None


def _mask(words: Iterable[str], vocabulary: Vocabulary) -> BoolArray:
    """(V,) which outcomes these words are."""
    mask = np.zeros(len(vocabulary) + 1, dtype=np.bool_)
    mask[[vocabulary.ids[word] for word in words if word in vocabulary]] = True
    return mask
