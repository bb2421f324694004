from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightwords.corpus.splits import choose_references, half_by_hash, hold_out, paper_halves
from sightwords.errors import CorpusError

IDS = st.sets(st.text(min_size=1, max_size=6), max_size=30)


@given(IDS, st.integers(0, 2**32), st.randoms())
def test_halves_part_the_ids_whatever_their_order(ids: set[str], seed: int, random: object) -> None:
    shuffled = sorted(ids)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    first, second = paper_halves(shuffled, seed=seed)
    assert first | second == ids
    assert not first & second
    assert len(second) - len(first) == len(ids) % 2
    assert (first, second) == paper_halves(sorted(ids), seed=seed)


def test_halves_of_the_papers_size_and_of_another_seed() -> None:
    ids = [f"{number:012d}" for number in range(40_487)]
    first, second = paper_halves(ids, seed=0)
    assert (len(first), len(second)) == (20_243, 20_244)
    assert first != paper_halves(ids, seed=1)[0]


def test_references_depend_on_seed_and_id_alone() -> None:
    references = {str(n): [f"{n} {letter}" for letter in "abcde"] for n in range(50)}
    chosen = choose_references(references, seed=0)
    assert all(len(set(four)) == 4 for four in chosen.values())
    assert choose_references({"7": references["7"]}, seed=0)["7"] == chosen["7"]
    backwards = {i: list(reversed(captions)) for i, captions in references.items()}
    again = choose_references(backwards, seed=0)
    assert {i: set(four) for i, four in again.items()} == {i: set(f) for i, f in chosen.items()}
    assert choose_references(references, seed=1) != chosen
    left_out = [set(references[i]).difference(chosen[i]).pop()[-1] for i in references]
    assert set(left_out) == set("abcde")  # each position is left out somewhere


def test_fewer_references_than_asked_are_all_kept_in_order() -> None:
    assert choose_references({"1": ["b", "a"]}, seed=3) == {"1": ("b", "a")}
    with pytest.raises(CorpusError, match="0"):
        choose_references({}, seed=0, count=0)


def test_hash_splits_are_stable() -> None:
    """Fixed values: a change of the hash would silently move held-out images into training."""
    ids = [f"{number:012d}" for number in range(2000)]
    assert [half_by_hash(i) for i in ids[:8]] == [1, 1, 0, 1, 1, 1, 0, 1]
    assert 900 < sum(map(half_by_hash, ids)) < 1100
    held = hold_out(ids, 300)
    assert len(held) == 300
    assert held == hold_out(reversed(ids), 300)
    assert hold_out(ids, 100) < held
    assert held != hold_out(ids, 300, salt="other")
    assert sorted(hold_out(ids, 3)) == ["000000000297", "000000000927", "000000001054"]
    with pytest.raises(CorpusError, match=r"5.*2"):
        hold_out(["a", "b"], 5)
