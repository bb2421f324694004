"""METEOR's aligner: the batch search equals the plain one, and the plain one finds the best."""

from __future__ import annotations

from itertools import groupby

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightwords.metrics.meteor import beam as meteor_beam
from sightwords.metrics.meteor.align import Match, Path, align
from sightwords.metrics.meteor.beam import align_all
from sightwords.metrics.meteor.match import Matches


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


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_all_pairs_at_once_as_one_by_one(data: st.DataObject) -> None:
    """Lengths differ between pairs; there are enough matches to fill the beam."""
    lengths = data.draw(st.lists(st.sampled_from([1, 2, 5, 12, 70]), min_size=1, max_size=6))
    pairs = [data.draw(listed_matches(n, 3 * min(n, 12))) for n in lengths]
    columns, sizes = matches_of(pairs), np.array(lengths)
    counts, chunks = align_all(columns, sizes, sizes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(meteor_beam, "MOST_WORDS", 0)  # nothing fits: one by one
        plain_counts, plain_chunks = align_all(columns, sizes, sizes)
    assert counts.tolist() == plain_counts.tolist()
    assert chunks.tolist() == plain_chunks.tolist()


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
