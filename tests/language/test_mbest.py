"""The M-best list by hand: coverage T lowered until M sentences are found."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sightwords.language.constraints import Constraints, SearchProblem, pose
from sightwords.language.mbest import Completed, Generation, lower_coverage, m_best
from sightwords.text.vocabulary import Vocabulary

VOCABULARY = Vocabulary(("a", "dog", "cat", "runs"), (4, 3, 2, 1), 10)
WORDS = (*VOCABULARY.words, "<unk>")
PROBLEM = pose({"dog": 0.9, "cat": 0.8, "runs": 0.7}, VOCABULARY, maximum_length=4)
SENTENCES = {
    "a dog": -1.0,  # mentions 1 of 3
    "a cat": -1.5,  # 1
    "dog runs": -2.0,  # 2
    "a": -0.5,  # 0
    "a cat runs": -3.0,  # 2
    "dog cat runs": -4.0,  # 3
}


def completed(sentences: dict[str, float], problem: SearchProblem = PROBLEM) -> list[Completed]:
    """As the search gives them: one entry a length, in the order of token ids."""
    found = []
    for length in range(1, 5):
        paths = sorted(
            (VOCABULARY.encode(text.split()), score)
            for text, score in sentences.items()
            if len(text.split()) == length
        )
        tokens = np.array([path for path, _ in paths], dtype=np.int32).reshape(-1, length)
        found.append(
            Completed(
                tokens=tokens,
                log_probs=np.array([score for _, score in paths], dtype=np.float32),
                covered=(tokens[:, :, None] == problem.attributes).any(axis=1),
                met=(tokens[:, :, None] == problem.required).any(axis=1),
            )
        )
    return found


def best(m: int, coverage: int, problem: SearchProblem = PROBLEM) -> Generation:
    return m_best(completed(SENTENCES, problem), problem, WORDS, m=m, coverage=coverage)


def texts(found: Generation) -> list[str]:
    return [" ".join(h.tokens) for h in found.m_best.hypotheses]


def test_one_sentence_covers_three() -> None:
    found = best(1, 3)
    assert texts(found) == ["dog cat runs"]
    assert found.m_best.coverage == 3
    assert found.m_best.hypotheses[0].mentioned == ("dog", "cat", "runs")


def test_coverage_falls_until_m_are_found() -> None:
    # Three sentences cover two or more; the list is in order of likelihood, not of coverage.
    found = best(2, 10)
    assert texts(found) == ["dog runs", "a cat runs"]
    assert found.m_best.coverage == 2
    found = best(4, 10)
    assert texts(found) == ["a dog", "a cat", "dog runs", "a cat runs"]
    assert found.m_best.coverage == 1


def test_coverage_may_fall_to_nothing() -> None:
    found = best(100, 10)
    assert texts(found) == ["a", "a dog", "a cat", "dog runs", "a cat runs", "dog cat runs"]
    assert found.m_best.coverage == 0


def test_the_target_is_never_raised() -> None:
    assert best(1, 1).m_best.coverage == 1
    assert texts(best(2, 0)) == ["a", "a dog"]


def test_equal_sentences_stand_shortest_first_then_by_ids() -> None:
    sentences = dict.fromkeys(["cat dog", "a runs", "a a a", "runs", "cat"], -1.0)
    found = m_best(completed(sentences), PROBLEM, WORDS, m=10, coverage=0)
    assert texts(found) == ["cat", "runs", "a runs", "cat dog", "a a a"]


@pytest.mark.parametrize(
    ("covered", "m", "target", "expected"),
    [([], 1, 3, 0), ([5, 5], 2, 3, 3), ([5, 1], 2, 3, 1), ([5, 0], 2, 3, 0), ([2], 1, 0, 0)],
)
def test_lower_coverage(covered: list[int], m: int, target: int, expected: int) -> None:
    assert lower_coverage(covered, m=m, target=target) == expected


def test_sentences_that_miss_a_constraint_are_left_out() -> None:
    asked = Constraints(required=("cat",))
    problem = pose({"dog": 0.9}, VOCABULARY, constraints=asked, maximum_length=4)
    found = best(100, 0, problem)
    assert texts(found) == ["a cat", "a cat runs", "dog cat runs"]
    assert found.unmet == ()
    longer = replace(problem, minimum_length=3)
    assert texts(best(100, 0, longer)) == ["a cat runs", "dog cat runs"]


def test_what_cannot_be_met_is_said_and_the_closest_returned() -> None:
    asked = Constraints(required=("cat",), minimum_length=4)
    problem = pose({"dog": 0.9}, VOCABULARY, constraints=asked, maximum_length=4)
    found = best(100, 0, problem)
    assert texts(found) == ["a cat runs", "dog cat runs"]
    assert found.unmet == ("minimum length 4",)


def test_a_required_word_that_no_sentence_has_is_named() -> None:
    asked = Constraints(required=("runs", "cat"))
    problem = pose({"dog": 0.9}, VOCABULARY, constraints=asked, maximum_length=4)
    short = completed({"a dog": -1.0, "dog runs": -2.0, "runs": -3.0}, problem)
    found = m_best(short, problem, WORDS, m=10, coverage=0)
    assert texts(found) == ["dog runs", "runs"]
    assert found.unmet == ("required word 'cat'",)


def test_required_words_that_exclude_each_other_are_all_named() -> None:
    asked = Constraints(required=("dog", "cat"))
    problem = pose({"dog": 0.9}, VOCABULARY, constraints=asked, maximum_length=4)
    short = completed({"dog": -1.0, "cat": -2.0, "a": 0.0}, problem)
    found = m_best(short, problem, WORDS, m=10, coverage=0)
    assert texts(found) == ["dog", "cat"]
    assert found.unmet == ("required word 'dog'", "required word 'cat'")
