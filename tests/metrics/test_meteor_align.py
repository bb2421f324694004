"""METEOR's aligner: the batch search equals a plain one, and the plain one finds the best.

The plain aligner, for one pair of sentences and written for reading, comes first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import groupby
from operator import or_

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightwords.metrics.meteor.align import BEAM, align_all
from sightwords.metrics.meteor.match import Matches


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


def matches_of(pairs: list[list[Match]]) -> Matches:
    """Columns, with a made-up number of function words: the first word of each span."""
    rows = [(p, m) for p, listed in enumerate(pairs) for m in listed]

    def column(values: list[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.array(values, dtype=np.int64)

    return Matches(
        pair=column([p for p, _ in rows]),
        module=column([m.module for _, m in rows]),
        start=column([m.start for _, m in rows]),
        length=column([m.length for _, m in rows]),
        function_words=column([1 for _ in rows]),
        candidate_start=column([m.candidate_start for _, m in rows]),
        candidate_length=column([m.candidate_length for _, m in rows]),
        candidate_function_words=column([1 for _ in rows]),
    )


@st.composite
def listed_matches(draw: st.DrawFn, words: int, most: int) -> list[Match]:
    def span() -> tuple[int, int]:
        start = draw(st.integers(0, words - 1))
        return start, draw(st.integers(1, min(3, words - start)))

    found = []
    for _ in range(draw(st.integers(0, most))):
        module = draw(st.integers(0, 3))
        (start, length), (ours, our_length) = span(), span()
        if module < 3:
            length = our_length = 1
        found.append(Match(module, start, length, ours, our_length))
    return sorted(found, key=lambda m: (m.start, m.module))


def one_by_one(pairs: list[list[Match]], lengths: list[int]) -> tuple[list[list[int]], list[int]]:
    """What `align_all` says, from the plain aligner; one function word per span, as above."""
    counts, chunks = [], []
    for listed, length in zip(pairs, lengths, strict=True):
        path = align(listed, length)
        words = np.zeros((4, 4), dtype=np.int64)
        for m in path.chosen:
            words[m.module] += (m.candidate_length - 1, m.length - 1, 1, 1)
        counts.append(words.ravel().tolist())
        chunks.append(path.chunks)
    return counts, chunks


def check(pairs: list[list[Match]], lengths: list[int]) -> None:
    counts, chunks = align_all(matches_of(pairs), np.array(lengths), np.array(lengths))
    assert (counts.tolist(), chunks.tolist()) == one_by_one(pairs, lengths)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_all_pairs_at_once_as_one_by_one(data: st.DataObject) -> None:
    """Lengths differ between pairs; there are enough matches to fill the beam."""
    lengths = data.draw(st.lists(st.sampled_from([1, 2, 5, 12, 70]), min_size=1, max_size=6))
    check([data.draw(listed_matches(n, 3 * min(n, 12))) for n in lengths], lengths)


@pytest.mark.parametrize("words", [255, 256])
def test_sentences_of_hundreds_of_words(words: int) -> None:
    """Counters beyond 8 bits, and beside many short pairs a sort key beyond 64 bits."""
    a = range(0, words, 10)
    crowd = [exact(i, j) for i in a for j in a]
    rest = [exact(i, words - 1 - i) for i in range(words) if i % 10 and (words - 1 - i) % 10]
    long = sorted(crowd + rest, key=lambda m: m.start)
    for short_pairs in (1, 3000):
        check([long, *[[exact(0, 1)]] * short_pairs], [words, *[2] * short_pairs])


@settings(max_examples=150, deadline=None)
@given(listed_matches(4, 5))
def test_the_plain_search_finds_the_most_weight_and_then_the_fewest_chunks(
    listed: list[Match],
) -> None:
    """Given that a match which competes with no other has to be part of it."""
    certain = {m for m in listed if not any(overlap(m, n) for n in listed if n is not m)}
    possible = [path for path in alignments(listed) if certain <= set(path.chosen)]
    best = min(possible, key=lambda path: path.rank[:2])
    assert align(listed, 4).rank[:2] == best.rank[:2]


def alignments(listed: list[Match]) -> list[Path]:
    """Every choice of matches that do not overlap."""
    at = {start: list(group) for start, group in groupby(listed, lambda m: m.start)}

    def grow(path: Path, position: int) -> list[Path]:
        if position >= 4:
            return [path.close()]
        found = grow(path.close(), position + 1)
        for match in at.get(position, []):
            if not any(overlap(match, chosen) for chosen in path.chosen):
                found += grow(path.take(match), position + match.length)
        return found

    return grow(Path((), 0, 0), 0)


def overlap(one: Match, other: Match) -> bool:
    return bool(
        one.reference_words & other.reference_words or one.candidate_words & other.candidate_words
    )


def exact(start: int, candidate_start: int) -> Match:
    return Match(0, start, 1, candidate_start, 1)


def test_fewer_chunks_win() -> None:
    """`a b a` in `a b`: the a beside the b."""
    path = align([exact(0, 0), exact(1, 1), exact(2, 0)], 3)
    assert [m.start for m in path.chosen] == [0, 1]
    assert path.chunks == 1


def test_what_competes_with_nothing_is_taken_even_for_a_chunk_of_its_own() -> None:
    stem = Match(1, 2, 1, 0, 1)
    path = align([exact(0, 1), stem], 3)
    assert path.chosen == (exact(0, 1), stem)
    assert path.chunks == 2


def test_no_matches() -> None:
    assert align([], 3).chosen == ()
    empty = matches_of([])
    counts, chunks = align_all(empty, np.array([2, 0]), np.array([0, 3]))
    assert not counts.any()
    assert not chunks.any()
