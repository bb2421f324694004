"""Coarse part of speech of each vocabulary word (section 6.2, word detection): the majority tag.

Input: tokenised captions and a tagger. Output: word -> NN, VB, JJ, DT, PRP, IN or other, the tag
the word has most often in the captions. The classes and what goes into them are those of the
authors' released code. The tagger is ours to choose: `docs/text.md` compares those that install
from PyPI with their model inside.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from sightwords.errors import InputError, require
from sightwords.text.vocabulary import COARSE_TAGS

Tagger = Callable[[Sequence[str]], Sequence[str]]
"""Tokens of one caption -> as many coarse tags."""

C5_TO_COARSE: Mapping[str, str] = {
    **dict.fromkeys(("NN", "NN0", "NN1", "NN2", "NP0"), "NN"),
    **dict.fromkeys(("UNC", "PNI"), "NN"),
    **{f"V{kind}{form}": "VB" for kind in "BDHV" for form in "BDGINZ"},
    **dict.fromkeys(("AJ0", "AJC", "AJS", "ORD"), "JJ"),
    **dict.fromkeys(("AT0", "DT0"), "DT"),
    **dict.fromkeys(("PNP", "DPS"), "PRP"),
    **dict.fromkeys(("PRP", "PRF", "CJS", "CJT", "IN"), "IN"),
}
"""The British National Corpus' tags (C5), which HanTa speaks, put where Penn's go. Beware: C5's
PRP is a preposition. Penn calls `someone` (PNI) a noun, `first` (ORD) an adjective, and
conjunctions like `while` (CJS, CJT) IN; unclassified words (UNC) are nouns nearly always."""

_QUANTIFIERS = frozenset(("many", "several", "few", "much", "more", "most", "less"))
"""Determiners to C5 (DT0), adjectives to Penn."""


def c5_to_coarse(word: str, tag: str) -> str:
    """The coarse class of a C5 tag, where Penn's depends on the word too.

    >>> c5_to_coarse("dog", "NN1"), c5_to_coarse("with", "PRP"), c5_to_coarse("several", "DT0")
    ('NN', 'IN', 'JJ')
    """
    if word == "to":
        return "other"  # Penn gives every `to` a tag of its own, TO
    if tag == "DT0" and word in _QUANTIFIERS:
        return "JJ"
    return C5_TO_COARSE.get(tag, "other")


def hanta_tagger() -> Tagger:
    """HanTa's English tagger (Wartena 2019: a trigram hidden Markov model over morphemes).

    Lower-case captions, so names are not told by their capital.
    """
    module = require("HanTa.HanoverTagger", extra="pos", purpose="tagging parts of speech")
    model: Any = module.HanoverTagger("morphmodel_en.pgz")

    def tag(tokens: Sequence[str]) -> list[str]:
        tags = model.tag_sent(list(tokens), taglevel=0, casesensitive=False)
        return [c5_to_coarse(word, c5) for word, c5 in zip(tokens, tags, strict=True)]

    return tag


def count_tags(
    captions: Iterable[Sequence[str]], tagger: Tagger, *, words: Collection[str] | None = None
) -> dict[str, Counter[str]]:
    """How often each word has each coarse tag; only of `words`, if given.

    >>> counts = count_tags([["a", "swing"], ["they", "swing"]], lambda tokens: ["DT", "NN"])
    >>> counts["swing"]
    Counter({'NN': 2})
    """
    wanted = None if words is None else frozenset(words)
    counts: dict[str, Counter[str]] = {}
    for tokens in captions:
        if wanted is not None and wanted.isdisjoint(tokens):
            continue
        tags = tagger(tokens)
        if len(tags) != len(tokens):
            raise InputError(f"the tagger gave {len(tags)} tags for {len(tokens)} tokens: {tokens}")
        for word, tag in zip(tokens, tags, strict=True):
            if wanted is None or word in wanted:
                counts.setdefault(word, Counter())[tag] += 1
    return counts


def majority_tag(counts: Mapping[str, int]) -> str:
    """The most frequent tag; a tie goes to the one that `COARSE_TAGS` names first.

    >>> majority_tag({"VB": 2, "NN": 2, "JJ": 1}), majority_tag({})
    ('NN', 'other')
    """
    if not counts:
        return "other"
    unknown = set(counts) - set(COARSE_TAGS)
    if unknown:
        expected = ", ".join(COARSE_TAGS)
        raise InputError(f"coarse tag {min(unknown)!r}; expected one of {expected}")
    return max(COARSE_TAGS, key=lambda tag: (counts.get(tag, 0), -COARSE_TAGS.index(tag)))


def coarse_pos(
    words: Collection[str], captions: Iterable[Sequence[str]], *, tagger: Tagger | None = None
) -> dict[str, str]:
    """Coarse part of speech of `words` by majority over tokenised captions.

    A word that no caption has is `other`. The tagger is HanTa's unless given; it tags some 25,000
    words a second, so a large corpus may be thinned out first.

    >>> coarse_pos(["dog"], [["a", "dog"]], tagger=lambda tokens: ["DT", "NN"])
    {'dog': 'NN'}
    """
    counts = count_tags(captions, tagger or hanta_tagger(), words=words)
    return {word: majority_tag(counts.get(word, {})) for word in words}
