from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightwords.errors import ScoreError
from sightwords.metrics import ngrams
from sightwords.metrics.ngrams import NgramTable, count_in_blocks, count_ngrams, intern, pair_up

sentence = st.lists(st.sampled_from("abcd"), max_size=9).map(tuple)
group = st.lists(sentence, max_size=3)
images = st.lists(st.tuples(group, group), max_size=5)


def spelled(table: NgramTable) -> list[dict[tuple[int, tuple[str, ...]], int]]:
    """{(sentence, n-gram in words): count} of each order."""
    words = list(table.sentences.vocabulary)
    found, below = [], [()]
    for order in table.orders:
        names = [
            (*below[p], words[t])
            for p, t in zip(order.prefix.tolist(), order.last.tolist(), strict=True)
        ]
        cells = zip(order.sentence.tolist(), order.gram.tolist(), order.count.tolist(), strict=True)
        found.append({(s, names[g]): c for s, g, c in cells})
        below = names
    return found


@given(images)
def test_counts_equal_a_counter_over_windows(data: list) -> None:  # type: ignore[type-arg]
    table = count_ngrams([c for c, _ in data], [r for _, r in data])
    sentences = [s for c, r in data for s in (*c, *r)]
    for n, found in enumerate(spelled(table), start=1):
        windows = (
            (number, s[i : i + n])
            for number, s in enumerate(sentences)
            for i in range(len(s) - n + 1)
        )
        assert found == Counter(windows)


def test_the_sort_for_large_texts_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    data = [[tuple(rng.choice(list("abcde"), size=12)) for _ in range(3)] for _ in range(20)]
    usual = spelled(count_ngrams(data, data))

    def by_argsort(keys, position, positions):  # type: ignore[no-untyped-def]
        order = np.argsort(keys, kind="stable")
        return keys[order], position[order]

    monkeypatch.setattr(ngrams, "_sort_together", by_argsort)
    assert spelled(count_ngrams(data, data)) == usual


def test_keys_too_large_to_pack_are_sorted_all_the_same() -> None:
    keys = np.array([2**62, 5, 2**62, 1])
    position = np.array([0, 1, 2, 3])
    ordered, places = ngrams._sort_together(keys, position, 4)
    assert ordered.tolist() == [1, 5, 2**62, 2**62]
    assert places.tolist() == [3, 1, 0, 2]


@given(images, st.integers(1, 12))
def test_blocks_hold_the_same_images_in_order(data: list, size: int) -> None:  # type: ignore[type-arg]
    candidates, references = [c for c, _ in data], [r for _, r in data]
    tables = list(count_in_blocks(candidates, references, sentences=size))
    assert sum(table.sentences.images for table in tables) == len(data)
    lengths = np.concatenate([table.sentences.lengths for table in tables])
    assert lengths.tolist() == count_ngrams(candidates, references).sentences.lengths.tolist()
    several = [t.sentences.image for t in tables if len(set(t.sentences.image.tolist())) > 1]
    assert all(len(image) <= size for image in several)


def test_pairs_number_candidates_and_references_of_one_image_only() -> None:
    sentences = intern([[("a",)], [("b",), ("c",)]], [[("d",), ("e",)], [("f",)]])
    pairs = pair_up(sentences)
    assert pairs.candidate.tolist() == [0, 0, 3, 4]
    assert pairs.reference.tolist() == [1, 2, 5, 5]
    assert pairs.starts.tolist() == [0, 2, 3]
    assert (pairs.offset[pairs.candidate] + pairs.reference).tolist() == [0, 1, 2, 3]


def test_a_candidate_without_reference_is_refused() -> None:
    with pytest.raises(ScoreError, match="1"):
        pair_up(intern([[("a",)], [("b",)]], [[("a",)], []]))
