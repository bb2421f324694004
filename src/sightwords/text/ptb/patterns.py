r"""The notation in which the tokeniser's rules are written, and its parser.

A subset of the usual regular expressions:

    a  \.  \u2019   a character; an ASCII letter stands for both its cases
    [a-z_]  [^"]     one of a set, or none of it; here case counts, and letters, digits, spaces
                     and signs stand for themselves except \ ^ - ]
    {name}           a named pattern or set
    x|y  (x)  x?  x*  x+  x{2,4}

What is matched are UTF-16 code units (see `lexer.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from sightwords.text.ptb.characters import Ranges

LAST_UNIT = 0xFFFF


@dataclass(frozen=True, slots=True)
class OneOf:
    """One code unit out of a set."""

    ranges: Ranges


@dataclass(frozen=True, slots=True)
class Sequenced:
    """One pattern after the other."""

    parts: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class Either:
    """Any one of the patterns."""

    options: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class Repeated:
    """A pattern `least` to `most` times; without `most`, any number of times."""

    part: Pattern
    least: int
    most: int | None


Pattern: TypeAlias = "OneOf | Sequenced | Either | Repeated"


def parse(text: str, names: Mapping[str, Pattern]) -> Pattern:
    """Read a pattern; `names` are those it may use in braces.

    >>> parse("a[b-d]", {}).parts[1]
    OneOf(ranges=((98, 100),))
    """
    reader = _Reader(text, names)
    pattern = reader.either()
    assert reader.at == len(text), f"pattern {text!r}: stopped at {reader.at}"
    return pattern


class _Reader:
    """Recursive descent over one pattern's text."""

    def __init__(self, text: str, names: Mapping[str, Pattern]) -> None:
        self.text = text
        self.names = names
        self.at = 0

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def take(self) -> str:
        self.at += 1
        return self.text[self.at - 1]

    def either(self) -> Pattern:
        options = [self.sequence()]
        while self.peek() == "|":
            self.take()
            options.append(self.sequence())
        return options[0] if len(options) == 1 else Either(tuple(options))

    def sequence(self) -> Pattern:
        parts = []
        while self.peek() not in ("", "|", ")"):
            parts.append(self.repeated())
        return Sequenced(tuple(parts))

    def repeated(self) -> Pattern:
        part = self.single()
        while True:
            sign = self.peek()
            if sign in ("?", "*", "+") and sign:
                self.take()
                part = Repeated(part, int(sign == "+"), 1 if sign == "?" else None)
            elif sign == "{" and self.text[self.at + 1].isdigit():
                low, _, high = self.braced().partition(",")
                part = Repeated(part, int(low), int(high or low))
            else:
                return part

    def single(self) -> Pattern:
        sign = self.peek()
        if sign == "(":
            self.take()
            inner = self.either()
            assert self.take() == ")", self.text
            return inner
        if sign == "[":
            return self.character_set()
        if sign == "{":
            return self.names[self.braced()]
        return _literal(self.character())

    def braced(self) -> str:
        stop = self.text.index("}", self.at)
        inside = self.text[self.at + 1 : stop]
        self.at = stop + 1
        return inside

    def character(self) -> str:
        sign = self.take()
        if sign != "\\":
            return sign
        sign = self.take()
        if sign == "u":
            self.at += 4
            return chr(int(self.text[self.at - 4 : self.at], 16))
        return {"n": "\n", "r": "\r", "t": "\t", "f": "\f"}.get(sign, sign)

    def character_set(self) -> Pattern:
        self.take()
        negated = self.peek() == "^"
        if negated:
            self.take()
        ranges = []
        while self.peek() != "]":
            low = high = ord(self.character())
            if self.peek() == "-" and self.text[self.at + 1] != "]":
                self.take()
                high = ord(self.character())
            ranges.append((low, high))
        self.take()
        return OneOf(complement(ranges) if negated else tuple(ranges))


# Beside its two ASCII cases, a letter written bare also stands for these.
_FURTHER_CASES = {"i": "\u0130\u0131", "k": "\u212a", "s": "\u017f"}


def _literal(character: str) -> OneOf:
    cases = {character}
    if character.isascii():
        low = character.lower()
        cases |= {low, character.upper(), *_FURTHER_CASES.get(low, "")}
    return OneOf(tuple((ord(c), ord(c)) for c in sorted(cases)))


def complement(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """The code units outside the ranges.

    >>> complement([(65, 90), (0, 9)])
    ((10, 64), (91, 65535))
    """
    gaps = []
    low = 0
    for first, last in sorted(ranges):
        if first > low:
            gaps.append((low, first - 1))
        low = max(low, last + 1)
    if low <= LAST_UNIT:
        gaps.append((low, LAST_UNIT))
    return tuple(gaps)
