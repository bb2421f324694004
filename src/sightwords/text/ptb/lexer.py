"""The PTB rules at work: a text and a position in, one token out.

The reference runs on Java's 16-bit `char`s, so a character beyond U+FFFF counts as two there
(which decides, for one, whether an abbreviation has two characters after it). Texts are therefore
spelled in UTF-16 code units before they are cut, and tokens put together again.
"""

from __future__ import annotations

import re
from functools import lru_cache

from sightwords.text.ptb.automaton import Alphabet, Automaton
from sightwords.text.ptb.patterns import parse
from sightwords.text.ptb.rules import RULES, named_patterns


class Lexer:
    """The compiled rules. Holds nothing of the texts: a token depends on what follows alone."""

    def __init__(self) -> None:
        names = named_patterns()
        whole = [parse(f"({rule.pattern})({rule.before})", names) for rule in RULES]
        alphabet = Alphabet(whole)
        self._automaton = Automaton(whole, alphabet)
        self._parts = [
            tuple(Automaton([parse(p, names)], alphabet) for p in (rule.pattern, rule.before))
            if rule.before
            else None
            for rule in RULES
        ]

    def token(self, units: str, start: int) -> tuple[str | None, int, int]:
        """The token at `start` (None: none there), where the next begins, and how far it looked.

        The third value is the number of code units of the text that the result depends on; one
        more than there are when it depends on the text's ending there.

        >>> lexer().token("cannot", 0)
        ('can', 3, 7)
        >>> lexer().token("so what", 2)
        (None, 3, 4)
        """
        rule, end, reach = self._automaton.longest(units, start)
        parts = self._parts[rule]
        if parts is not None:
            end = _boundary(parts[0], parts[1], units, start, end)
        token, used = RULES[rule].action(units[start:end])
        return token and _lowered(token), start + used, reach


def _boundary(pattern: Automaton, before: Automaton, units: str, start: int, end: int) -> int:
    """Where the token ends and its context begins: the longest token that leaves a context."""
    for middle in reversed(pattern.ends(units, start, end)):
        if end in before.ends(units, middle, end):
            return middle
    raise AssertionError(f"a rule matched {units[start:end]!r} but its parts do not")


@lru_cache(maxsize=1)
def lexer() -> Lexer:
    """The one lexer, compiled when first needed."""
    return Lexer()


_ASTRAL = re.compile("[\U00010000-\U0010ffff]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def to_units(text: str) -> str:
    r"""The text with every character beyond U+FFFF spelled as two surrogates.

    >>> [hex(ord(unit)) for unit in to_units("a\N{GRINNING FACE}")]
    ['0x61', '0xd83d', '0xde00']
    """
    return text if text.isascii() else _ASTRAL.sub(_as_surrogates, text)


def _as_surrogates(match: re.Match[str]) -> str:
    offset = ord(match[0]) - 0x10000
    return chr(0xD800 + (offset >> 10)) + chr(0xDC00 + (offset & 0x3FF))


def _lowered(token: str) -> str:
    if _SURROGATE.search(token):
        encoded = token.encode("utf-16-le", "surrogatepass")
        token = encoded.decode("utf-16-le", "surrogatepass")
    return _SIGMA_WORD.sub(_with_sigmas, token).lower() if "\u03a3" in token else token.lower()


# Capital sigma turns into one of two letters. Java asks whether another cased letter stands
# before it and none after it in the same word, and a word there continues over digits, hyphens and
# apostrophes; Python looks no further than the nearest character that matters.
_SIGMA_WORD = re.compile(r"[\w\u00ad]+(?:[.'\u2019\u2010\u2011-][\w\u00ad]+)*")


def _with_sigmas(match: re.Match[str]) -> str:
    word = match[0]
    cased = [at for at, sign in enumerate(word) if sign.lower() != sign.upper()]
    is_final = len(cased) > 1 and word[cased[-1]] == "\u03a3"
    head, tail = (word[: cased[-1]], word[cased[-1] + 1 :]) if is_final else (word, "")
    return head.replace("\u03a3", "\u03c3") + "\u03c2" * is_final + tail
