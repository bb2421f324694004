from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightwords.errors import ScoreError
from sightwords.metrics.bleu import bleu, from_columns, statistics_of
from sightwords.metrics.score import Comparison

sentence = st.lists(st.sampled_from("abcd"), max_size=9).map(tuple)

Tokens = tuple[str, ...]
Images = list[tuple[list[Tokens], list[Tokens]]]


def grams(tokens: Tokens, n: int) -> Counter[Tokens]:
    return Counter(tokens[i : i + n] for i in range(len(tokens) - n + 1))


def bleu_counts(candidate: Tokens, references: Sequence[Tokens], n: int) -> tuple[int, int]:
    """Clipped matches and total."""
    mine = grams(candidate, n)
    best = Counter[Tokens]()
    for reference in references:
        best |= grams(reference, n)
    return sum((mine & best).values()), sum(mine.values())


def closest(candidate: Tokens, references: Sequence[Tokens]) -> int:
    lengths = [len(r) for r in references]
    return min(lengths, key=lambda length: (abs(length - len(candidate)), length))


def test_hand_worked() -> None:
    # 'the' is clipped to the 2 of one reference; Papineni's own example, unigrams 2/7.
    candidate = ("the",) * 7
    references = (
        ("the", "cat", "is", "on", "the", "mat"),
        ("there", "is", "a", "cat", "on", "the", "mat"),
    )
    scores = bleu(Comparison(("1",), (candidate,), (references,)))
    assert scores[0].value == pytest.approx(2 / 7)
    assert [s.metric for s in scores] == ["bleu_1", "bleu_2", "bleu_3", "bleu_4"]


def test_brevity_uses_the_closest_reference_and_the_shorter_of_two() -> None:
    candidate = ("a", "b", "c")
    references = (("a", "b", "c", "x"), ("a", "b"), ("a",) * 9)  # 4 and 2 are both 1 away
    found = statistics_of([[candidate]], [references])
    assert found.reference_length.tolist() == [2]
    short = bleu(Comparison(("1",), (("a", "b"),), ((("a", "b", "c", "d"),),)))
    assert short[0].value == pytest.approx(math.exp(1 - 4 / 2))


def test_the_corpus_score_is_of_sums_not_a_mean() -> None:
    pairs = Comparison(("1", "2"), (("a", "b"), ("c",) * 8), ((("a", "b"),), (tuple("dddddddd"),)))
    score = bleu(pairs)[0]
    assert score.value == pytest.approx(2 / 10)
    assert score.per_image == pytest.approx([1.0, 0.0], abs=1e-9)


@given(
    st.lists(st.tuples(st.lists(sentence, max_size=4), st.lists(sentence, min_size=1, max_size=3)))
)
def test_statistics_equal_the_definition(images: Images) -> None:
    found = statistics_of([c for c, _ in images], [r for _, r in images])
    flat = [(c, refs) for cs, refs in images for c in cs]
    for n in range(4):
        expected = [bleu_counts(c, refs, n + 1) for c, refs in flat]
        counted = zip(found.correct[:, n].tolist(), found.total[:, n].tolist(), strict=True)
        assert list(counted) == expected
    assert found.candidate_length.tolist() == [len(c) for c, _ in flat]
    assert found.reference_length.tolist() == [closest(c, refs) for c, refs in flat]


def test_statistics_add_up_over_images() -> None:
    pairs = Comparison(
        ("1", "2"),
        (
            ("a", "dog", "runs", "on", "grass"),
            ("a", "cat", "sits", "on", "the", "bed"),
        ),
        (
            (("a", "dog", "runs", "on", "the", "grass"),),
            (("the", "cat", "sits", "on", "the", "bed"),),
        ),
    )
    columns = statistics_of([[c] for c in pairs.candidates], pairs.references).as_columns()
    assert from_columns(columns.sum(axis=0)) == pytest.approx([s.value for s in bleu(pairs)])


def test_a_score_carries_the_sums_it_is_made_of() -> None:
    pairs = Comparison.of(
        {"1": "a dog runs on the beach", "2": "a cat"},
        {"1": ["a dog runs on sand"], "2": ["the cat sat on a mat"]},
    )
    for score in bleu(pairs):
        assert score.sums is not None
        assert score.sums.value_of(score.sums.rows.sum(axis=0)) == score.value
        assert score.sums.value_of(score.sums.rows).tolist() == score.per_image.tolist()


def test_columns_of_another_shape_are_refused() -> None:
    with pytest.raises(ScoreError, match=r"10.*3"):
        from_columns(np.zeros((2, 3)))
