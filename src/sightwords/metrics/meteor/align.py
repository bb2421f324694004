"""METEOR's aligner: the matches of one pair of sentences -> those that hold together.

METEOR 1.5 goes through the reference from left to right with a beam of 40 partial alignments.
Better is: more words matched exactly (other matches count half, and the half is lost for single
words: METEOR adds them to a whole number), then fewer chunks, then a smaller distance; what is
still equal stays in the order of discovery. METEOR adds the distance of a match to the paths that
come after it and not to its own; both peculiarities decide between alignments and are kept.

This is the plain form, for reading, for tests and for very long sentences; `beam.py` does the
same for all pairs at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import groupby
from operator import or_

BEAM = 40


@dataclass(frozen=True, slots=True)
class Match:
    """Words of the reference and of the candidate that stand for the same."""

    module: int
    """0 to 3: exact, stem, synonym, paraphrase."""
    start: int
    length: int
    """In the reference."""
    candidate_start: int
    candidate_length: int

    @property
    def weight(self) -> int:
        """What the beam counts for it."""
        if self.module == 0:
            return self.length + self.candidate_length
        return self.length // 2 + self.candidate_length // 2

    @property
    def distance(self) -> int:
        """How far the match moves its words."""
        return abs(self.start - self.candidate_start)

    @property
    def reference_words(self) -> int:
        """Bit set of positions in the reference."""
        return ((1 << self.length) - 1) << self.start

    @property
    def candidate_words(self) -> int:
        """Bit set of positions in the candidate."""
        return ((1 << self.candidate_length) - 1) << self.candidate_start


@dataclass(frozen=True, slots=True)
class Path:
    """A partial alignment."""

    chosen: tuple[Match, ...]
    reference_used: int
    """Bit set."""
    candidate_used: int
    """Bit set."""
    weight: int = 0
    chunks: int = 0
    """Closed ones; the last is open while `candidate_end` is set."""
    candidate_end: int | None = None
    """Where the next match has to begin to continue the chunk."""
    distance: int = 0

    @property
    def rank(self) -> tuple[int, int, int]:
        """Smaller is better."""
        return (-self.weight, self.chunks, self.distance)

    def close(self) -> Path:
        """End the open chunk, if there is one."""
        if self.candidate_end is None:
            return self
        return replace(self, chunks=self.chunks + 1, candidate_end=None)

    def take(self, match: Match) -> Path:
        """Add a match; it continues the open chunk or begins a new one."""
        breaks = self.candidate_end not in (None, match.candidate_start)
        return replace(
            self,
            chosen=(*self.chosen, match),
            reference_used=self.reference_used | match.reference_words,
            candidate_used=self.candidate_used | match.candidate_words,
            weight=self.weight + match.weight,
            chunks=self.chunks + breaks,
            candidate_end=match.candidate_start + match.candidate_length,
        )


def align(matches: Sequence[Match], reference_length: int) -> Path:
    """The alignment METEOR chooses, its chunks counted.

    `matches` are in METEOR's order, by position in the reference.

    >>> a_dog, a_dog_2 = Match(0, 0, 1, 0, 1), Match(0, 1, 1, 1, 1)  # "a dog" == "a dog"
    >>> path = align([a_dog, a_dog_2], 2)
    >>> len(path.chosen), path.chunks
    (2, 1)
    """
    at = {start: tuple(group) for start, group in groupby(matches, lambda m: m.start)}
    certain = _certain(matches, at)
    paths = [
        Path(
            (),
            _union(m.reference_words for m in certain.values()),
            _union(m.candidate_words for m in certain.values()),
        )
    ]
    for position in range(reference_length):
        best = sorted(paths, key=lambda path: path.rank)[:BEAM]
        paths = [
            extended
            for path in best
            for extended in _extend(path, position, at.get(position, ()), certain.get(position))
        ]
    best = [path.close() for path in sorted(paths, key=lambda path: path.rank)[:BEAM]]
    return min(best, key=lambda path: path.rank)


def _extend(
    path: Path, position: int, options: tuple[Match, ...], certain: Match | None
) -> list[Path]:
    if certain:
        path = path.take(certain)
        return [replace(path, distance=path.distance + certain.distance)]
    if path.reference_used >> position & 1:  # inside a match
        return [path]
    extended = []
    for match in options:
        if match.reference_words & path.reference_used:
            continue
        if match.candidate_words & path.candidate_used:
            continue
        extended.append(path.take(match))
        path = replace(path, distance=path.distance + match.distance)
    return [*extended, path.close()]


def _certain(matches: Sequence[Match], at: dict[int, tuple[Match, ...]]) -> dict[int, Match]:
    """Matches that compete with no other: every alignment has them."""
    in_reference = Counter(p for m in matches for p in range(m.start, m.start + m.length))
    in_candidate = Counter(
        p for m in matches for p in range(m.candidate_start, m.candidate_start + m.candidate_length)
    )

    def alone(m: Match) -> bool:
        ours = range(m.candidate_start, m.candidate_start + m.candidate_length)
        return all(in_candidate[p] == 1 for p in ours) and all(
            in_reference[p] == 1 for p in range(m.start, m.start + m.length)
        )

    return {start: ms[0] for start, ms in at.items() if len(ms) == 1 and alone(ms[0])}


def _union(bit_sets: Iterable[int]) -> int:
    return reduce(or_, bit_sets, 0)
