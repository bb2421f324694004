"""METEOR's own normaliser for English (its option -norm): text -> words.

METEOR tokenises again what the COCO tokeniser has tokenised: hyphenated words come apart
(`black-and-white`), contractions split at the apostrophe (and a lone `'s`, into two),
`u.s.` loses its dots. The rules are
those of the Moses tokeniser with METEOR's additions; their order matters, and each rule finds
only matches that do not overlap, which is why `a-b-c` keeps its second hyphen.

>>> normalize("the dog's black-and-white u.s. ball costs 1,000 -lrb- x -rrb-", {})
['the', 'dog', "'s", 'black', 'and', 'white', 'us', 'ball', 'costs', '1,000', '-lrb-', 'x', '-rrb-']
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

# What METEOR takes for letters: Western European, Cyrillic and phonetic ranges.
LETTERS = (
    "A-Za-z\u0160\u017d\u0161\u017e\u0178\xc0-\xd6\xd8-\xf6\xf8-\u017e"
    "\u0400-\u04ff\u0500-\u0527\ua640-\ua66e\ua67e-\ua697\u1d00-\u1d7f"
)
ODD_SPACES = " \u2000-\u200a\u202f\u205f\u3000\xa0"

_RULES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        # symbols stand alone
        (rf"([^0-9{LETTERS} \t\n\x0b\f\r.'`,\-\u2018\u2019])", r" \1 "),
        # so do ellipses
        (r"(\.{2,})", r" \1 "),
        # and commas, unless between digits
        (r"([^0-9]),([^0-9])", r"\1 , \2"),
        (r"([0-9]),([^0-9])", r"\1 , \2"),
        (r"([^0-9]),([0-9])", r"\1 , \2"),
        # one kind of quotes, one kind of dash
        (r"[`\u2018\u2019]", "'"),
        (r"[\u201c\u201d]|''", ' " '),
        ("\u2013", "-"),
        ("--", "-"),
        # compounds come apart, so that half a compound can match
        (rf"([0-9{LETTERS}.])-([0-9{LETTERS}])", r"\1 \2"),
        # apostrophes: alone, or at the head of a contraction
        (rf"([^{LETTERS}])'([^{LETTERS}])", r"\1 ' \2"),
        (rf"([^{LETTERS}0-9])'([{LETTERS}])", r"\1 ' \2"),
        (rf"([{LETTERS}])'([^{LETTERS}])", r"\1 ' \2"),
        (rf"([{LETTERS}])'([{LETTERS}])", r"\1 '\2"),
        (r"([0-9])'(s)", r"\1 '\2"),
    )
)
_PLAIN = re.compile(r"[a-z0-9 ]*")
_LINE_ENDS = re.compile(r"[\r\n]")
_BLANKS = re.compile(r"[ \t\n\r\f]+")
_ODD_SPACES = re.compile(f"[{ODD_SPACES}]+")
_LETTER = re.compile(f"[{LETTERS}]")
_CONTROL_OR_BLANK = "".join(map(chr, range(33)))


def sentence_text(tokens: Sequence[str]) -> str:
    """A tokenised caption as METEOR is given it: one line, without METEOR's field separator.

    >>> sentence_text(("a", "|||", "dog"))
    'a  dog'
    """
    return _LINE_ENDS.sub(" ", " ".join(tokens).replace("|||", ""))


def normalize(text: str, prefixes: Mapping[str, bool]) -> list[str]:
    """The words METEOR compares.

    `prefixes` are abbreviations that keep their dot (`vs`); True where only before a number.
    """
    if _PLAIN.fullmatch(text):  # nearly every caption: no rule has anything to change
        return text.split()
    text = f" {text} "
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    words = _split(text)
    text = " ".join(
        _resolve_dot(word, follower, prefixes)
        for word, follower in zip(words, [*words[1:], ""], strict=False)
    )
    return _split(_ODD_SPACES.sub(" ", text).strip(_CONTROL_OR_BLANK).lower())


def _split(text: str) -> list[str]:
    return [word for word in _BLANKS.split(text) if word]


def _resolve_dot(word: str, follower: str, prefixes: Mapping[str, bool]) -> str:
    """Drop, keep or split off the dot at the end of a word."""
    if not word.endswith(".") or not word.strip("."):
        return word
    stump = word[:-1]
    if "." in stump and _LETTER.search(stump):
        return word.replace(".", "")
    numbers_only = prefixes.get(stump)
    if numbers_only is False or "a" <= follower[:1] <= "z":
        return word
    if numbers_only and "0" <= follower[:1] <= "9":
        return word
    return f"{stump} ."
