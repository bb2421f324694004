"""How often captions name a person's sex wrongly, where the references agree on it.

`Comparison` -> `Score`, better when lower. An image counts if at least two of its references use
a word for one sex ("woman", "she") and none uses a word for the other. The caption is wrong if it
uses words for the other sex alone. "Person", "child" and "people" are never wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from sightwords.errors import ScoreError
from sightwords.metrics.chair import share
from sightwords.metrics.score import Comparison, Score, Sums, signature

WOMEN = frozenset(
    [
        "woman",
        "women",
        "lady",
        "ladies",
        "girl",
        "girls",
        "female",
        "females",
        "she",
        "her",
        "hers",
        "herself",
        "mother",
        "mom",
        "wife",
        "daughter",
        "sister",
        "grandmother",
        "bride",
        "actress",
        "waitress",
        "businesswoman",
        "cowgirl",
    ]
)
MEN = frozenset(
    [
        "man",
        "men",
        "guy",
        "guys",
        "gentleman",
        "gentlemen",
        "boy",
        "boys",
        "male",
        "males",
        "he",
        "him",
        "his",
        "himself",
        "father",
        "dad",
        "husband",
        "son",
        "brother",
        "grandfather",
        "groom",
        "fireman",
        "policeman",
        "businessman",
        "cowboy",
        "waiter",
    ]
)
AGREEING = 2
"""So many references must name the sex."""

Sex = Literal["women", "men"]


def person_words(pairs: Comparison) -> tuple[Score, Score, Score]:
    """Share of wrong person words: of all images that count, of those of women, of those of men.

    >>> references = {"1": ["a woman sings", "a lady sings"], "2": ["a man", "a guy", "a man"]}
    >>> pairs = Comparison.of({"1": "a man singing", "2": "a person"}, references)
    >>> [(score.metric, score.value) for score in person_words(pairs)]
    [('person_words', 0.5), ('person_words_women', 1.0), ('person_words_men', 0.0)]
    """
    shown = [agreed_sex(references) for references in pairs.references]
    wrong = np.array([
        sex is not None and named_sexes(said) == {_other(sex)}
        for sex, said in zip(shown, pairs.candidates, strict=True)
    ], dtype=np.float64)  # fmt: skip
    of_women = np.array([sex == "women" for sex in shown], dtype=np.float64)
    of_men = np.array([sex == "men" for sex in shown], dtype=np.float64)
    if not of_women.any() and not of_men.any():
        raise ScoreError(
            f"in none of {len(pairs.ids)} images do {AGREEING} references agree on a person's sex"
        )
    return (
        _share("person_words", wrong, of_women + of_men, pairs),
        _share("person_words_women", wrong, of_women, pairs),
        _share("person_words_men", wrong, of_men, pairs),
    )


def named_sexes(tokens: Sequence[str]) -> set[Sex]:
    """The sexes that a caption's words name.

    >>> sorted(named_sexes("a man and his mother".split()))
    ['men', 'women']
    """
    found: set[Sex] = set()
    if WOMEN.intersection(tokens):
        found.add("women")
    if MEN.intersection(tokens):
        found.add("men")
    return found


def agreed_sex(references: Sequence[Sequence[str]]) -> Sex | None:
    """The sex that the references agree on; None where they do not, or too few name one."""
    named = [sex for reference in references for sex in named_sexes(reference)]
    return named[0] if len(named) >= AGREEING and len(set(named)) == 1 else None


def _other(sex: Sex) -> Sex:
    return "men" if sex == "women" else "women"


def _share(
    metric: str, wrong: npt.NDArray[np.float64], counted: npt.NDArray[np.float64], pairs: Comparison
) -> Score:
    told = signature(metric, pairs, agreeing=AGREEING, counted=int(counted.sum()))
    sums = np.stack([wrong * counted, counted], axis=1)
    return Score(metric, float(share(sums.sum(axis=0))), share(sums), told, Sums(sums, share))
