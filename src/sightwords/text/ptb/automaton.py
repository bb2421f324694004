"""A longest-match automaton: many patterns at once, the longest match and its rule out.

The reference tokeniser is a generated lexer: of all rules it takes the one that matches the most
characters, and of equally long ones the first. Python's `re` takes the first alternative that
works instead, and may backtrack for ever on a hostile string. So the patterns are compiled here
to a non-deterministic automaton, whose deterministic states are made when a text first needs
them: exact longest matches, one table look-up a character.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from sightwords.text.ptb.characters import Ranges
from sightwords.text.ptb.patterns import LAST_UNIT, Either, OneOf, Pattern, Repeated, Sequenced


class Alphabet:
    """Code units that no pattern tells apart share a letter, so that tables stay small."""

    def __init__(self, patterns: Iterable[Pattern]) -> None:
        sets = sorted({ranges for pattern in patterns for ranges in _sets_in(pattern)})
        edges = {0, LAST_UNIT + 1}
        edges.update(edge for ranges in sets for low, high in ranges for edge in (low, high + 1))
        cuts = sorted(edges)
        members = [0] * len(cuts)  # bit i of members[k]: is cuts[k] in sets[i]?
        for index, ranges in enumerate(sets):
            for low, high in ranges:
                for cut in range(bisect_left(cuts, low), bisect_left(cuts, high + 1)):
                    members[cut] |= 1 << index
        letters: dict[int, int] = {}
        numbered = [letters.setdefault(mask, len(letters)) for mask in members[:-1]]
        assert len(letters) < 256, "one byte a letter"
        runs = (bytes([n]) * (b - a) for n, a, b in zip(numbered, cuts, cuts[1:], strict=False))
        self.letter_of = b"".join(runs)
        self.size = len(letters)
        self._letters_of = {
            ranges: frozenset(letter for mask, letter in letters.items() if mask >> index & 1)
            for index, ranges in enumerate(sets)
        }

    def letters(self, one_of: OneOf) -> frozenset[int]:
        """The letters that a set of the given patterns consists of."""
        return self._letters_of[one_of.ranges]


def _sets_in(pattern: Pattern) -> Iterable[Ranges]:
    if isinstance(pattern, OneOf):
        yield pattern.ranges
    elif isinstance(pattern, Repeated):
        yield from _sets_in(pattern.part)
    else:
        for part in pattern.parts if isinstance(pattern, Sequenced) else pattern.options:
            yield from _sets_in(part)


class State:
    """A deterministic state: a set of non-deterministic ones, its edges filled in on demand."""

    __slots__ = ("edges", "ends_here", "items", "rule")

    def __init__(self, items: frozenset[int], rule: int, ends_here: bool, size: int) -> None:
        self.items = items
        self.rule = rule
        """The first rule that accepts here, or -1."""
        self.ends_here = ends_here
        """No text leads on from here."""
        self.edges: list[State | None] = [_UNKNOWN] * size
        """By letter; None is the end."""


_UNKNOWN = State.__new__(State)


class Automaton:
    """All patterns at once; pattern i is rule i.

    >>> from sightwords.text.ptb.patterns import parse
    >>> greeting, word = parse("hello", {}), parse("[a-z]+", {})
    >>> automaton = Automaton([greeting, word], Alphabet([greeting, word]))
    >>> automaton.longest("hello there", 0), automaton.longest("hellos", 0)
    ((0, 5, 6), (1, 6, 7))
    """

    def __init__(self, patterns: Sequence[Pattern], alphabet: Alphabet) -> None:
        self.alphabet = alphabet
        self._skips: list[list[int]] = []  # moves that read nothing
        self._moves: list[tuple[frozenset[int], int] | None] = []
        self._rules: dict[int, int] = {}
        self._closures: dict[int, frozenset[int]] = {}
        self._states: dict[frozenset[int], State] = {}
        start = self._new()
        for rule, pattern in enumerate(patterns):
            first, last = self._new(), self._new()
            self._skips[start].append(first)
            self._add(pattern, first, last)
            self._rules[last] = rule
        self._start = self._state([start])

    def longest(self, text: str, start: int) -> tuple[int, int, int]:
        """The rule of the longest match at `start`, its end, and how far the text mattered.

        The third value is the number of characters of `text` that had to be looked at, one more
        than there are when the end of the text was looked at too. Rule -1: nothing matches.
        """
        letter_of = self.alphabet.letter_of
        state, rule, end, at, size = self._start, -1, start, start, len(text)
        while at < size:
            letter = letter_of[ord(text[at])]
            following = state.edges[letter]
            if following is _UNKNOWN:
                following = self._grow(state, letter)
            at += 1
            if following is None:
                return rule, end, at
            state = following
            if state.rule >= 0:
                rule, end = state.rule, at
            if state.ends_here:
                return rule, end, at
        return rule, end, size + 1

    def ends(self, text: str, start: int, stop: int) -> list[int]:
        """All ends of matches of `text[start:stop]` at `start`, ascending."""
        letter_of = self.alphabet.letter_of
        state: State | None = self._start
        found = [start] if self._start.rule >= 0 else []
        for at in range(start, stop):
            assert state is not None
            letter = letter_of[ord(text[at])]
            following = state.edges[letter]
            state = self._grow(state, letter) if following is _UNKNOWN else following
            if state is None:
                break
            if state.rule >= 0:
                found.append(at + 1)
        return found

    def _new(self) -> int:
        self._skips.append([])
        self._moves.append(None)
        return len(self._skips) - 1

    def _add(self, pattern: Pattern, first: int, last: int) -> None:
        """Lead from `first` to `last` by way of the pattern."""
        if isinstance(pattern, OneOf):
            step = self._new()
            self._skips[first].append(step)
            self._moves[step] = (self.alphabet.letters(pattern), last)
        elif isinstance(pattern, Either):
            for option in pattern.options:
                self._add(option, first, last)
        elif isinstance(pattern, Sequenced):
            for part in pattern.parts:
                middle = self._new()
                self._add(part, first, middle)
                first = middle
            self._skips[first].append(last)
        else:
            self._add_repeated(pattern, first, last)

    def _add_repeated(self, pattern: Repeated, first: int, last: int) -> None:
        for _ in range(pattern.least):
            middle = self._new()
            self._add(pattern.part, first, middle)
            first = middle
        if pattern.most is None:
            loop, back = self._new(), self._new()
            self._skips[first].append(loop)
            self._add(pattern.part, loop, back)
            self._skips[back].append(loop)
            self._skips[loop].append(last)
            return
        self._skips[first].append(last)
        for _ in range(pattern.most - pattern.least):
            middle = self._new()
            self._add(pattern.part, first, middle)
            self._skips[middle].append(last)
            first = middle

    def _beyond(self, node: int) -> frozenset[int]:
        """The nodes that read or accept and are reached from a node without reading."""
        known = self._closures.get(node)
        if known is not None:
            return known
        reached, waiting = {node}, [node]
        while waiting:
            new = set(self._skips[waiting.pop()]) - reached
            reached |= new
            waiting += new
        nodes = frozenset(n for n in reached if self._moves[n] is not None or n in self._rules)
        return self._closures.setdefault(node, nodes)

    def _state(self, nodes: Iterable[int]) -> State:
        items = frozenset().union(*map(self._beyond, nodes))
        known = self._states.get(items)
        if known is not None:
            return known
        rule = min((self._rules[i] for i in items if i in self._rules), default=-1)
        ends_here = all(self._moves[i] is None for i in items)
        state = State(items, rule, ends_here, self.alphabet.size)
        return self._states.setdefault(items, state)

    def _grow(self, state: State, letter: int) -> State | None:
        moves = (self._moves[item] for item in state.items)
        targets = {move[1] for move in moves if move is not None and letter in move[0]}
        following = self._state(targets) if targets else None
        state.edges[letter] = following
        return following
