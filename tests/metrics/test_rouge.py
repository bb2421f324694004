from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightwords.metrics.ngrams import intern
from sightwords.metrics.rouge import candidate_scores, lcs_length, rouge_l
from sightwords.metrics.score import Comparison

sentence = st.lists(st.sampled_from("abcd"), max_size=12).map(tuple)

Tokens = tuple[str, ...]
Images = list[tuple[list[Tokens], list[Tokens]]]


def lcs(first: Tokens, second: Tokens) -> int:
    row = [0] * (len(second) + 1)
    for token in first:
        previous = row[:]
        for j, other in enumerate(second, start=1):
            row[j] = previous[j - 1] + 1 if token == other else max(row[j - 1], previous[j])
    return row[-1]


def rouge(candidate: Tokens, references: Sequence[Tokens], beta: float = 1.2) -> float:
    common = [lcs(candidate, r) for r in references]
    if not any(common):
        return 0.0
    precision = max(common) / len(candidate)
    recall = max(c / len(r) for c, r in zip(common, references, strict=True) if r)
    return (1 + beta**2) * precision * recall / (recall + beta**2 * precision)


def test_best_precision_and_best_recall_may_come_from_two_references() -> None:
    references = (("a", "b", "x", "y", "z", "w"), ("a",))
    pairs = Comparison(("1",), (("a", "b"),), (references,))
    assert rouge_l(pairs).value == pytest.approx(1.0)  # precision 2/2 of one, recall 1/1 of other


def test_hand_worked() -> None:
    pairs = Comparison(("1",), (("a", "dog", "sat"),), ((("the", "dog", "sat", "down"),),))
    precision, recall = 2 / 3, 2 / 4
    assert rouge_l(pairs).value == pytest.approx(
        2.44 * precision * recall / (recall + 1.44 * precision)
    )


@given(
    st.lists(st.tuples(st.lists(sentence, max_size=3), st.lists(sentence, min_size=1, max_size=3)))
)
def test_scores_equal_the_definition(images: Images) -> None:
    found = candidate_scores(intern([c for c, _ in images], [r for _, r in images]))
    assert found == pytest.approx([rouge(c, refs) for cs, refs in images for c in cs])


@pytest.mark.parametrize("length", [1, 63, 64, 65, 130])
def test_sentences_up_to_and_beyond_one_machine_word(length: int) -> None:
    rng = np.random.default_rng(length)
    candidate = tuple(rng.choice(list("abcde"), size=length).tolist())
    references = tuple(
        tuple(rng.choice(list("abcde"), size=size).tolist()) for size in (3, 64, 70, 200)
    )
    found = candidate_scores(intern([[candidate, ("a", "b")]], [references]))
    assert found == pytest.approx([rouge(candidate, references), rouge(("a", "b"), references)])


@given(sentence, sentence)
def test_one_pair_equals_the_table_of_the_textbook(first: tuple, second: tuple) -> None:  # type: ignore[type-arg]
    assert lcs_length(first, second) == lcs(first, second)
