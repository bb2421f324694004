"""Table 2 by hand, and the features beyond it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sightwords.errors import InputError
from sightwords.rerank.consensus import agreement, posterior
from sightwords.rerank.features import (
    MENTIONED,
    NAMES,
    TABLE_2,
    Candidates,
    candidates_of,
    mentions,
    sentence_features,
)
from sightwords.types import DetectedWord, DetectedWords, Hypothesis, MBest

DETECTED = DetectedWords(
    (
        DetectedWord("dog", 0.9, 0.8, 0.9),
        DetectedWord("grass", 0.5, 0.6, 0.5),
        DetectedWord("a", 1.0, 1.0, 1.0),  # closed-class: no object
    ),
    0.5,
)
LIST = MBest(
    tuple(
        Hypothesis(tuple(text.split()), log_prob, ())
        for text, log_prob in (("a dog", -3.0), ("a dog on grass", -4.0), ("a frisbee", -6.0))
    ),
    0,
)


def columns(names: tuple[str, ...], **given: list[float]) -> dict[str, list[float]]:
    matrix = sentence_features(candidates_of(LIST, DETECTED, {"frisbee": 0.1}), names, given)
    return {name: matrix[:, i].tolist() for i, name in enumerate(names)}


def test_table_2_by_hand() -> None:
    found = columns((*TABLE_2, "dmsm"), dmsm=[0.5, 0.25, 0.0])
    assert len(TABLE_2) == 4 + 11
    assert found["log_likelihood"] == [-3.0, -4.0, -6.0]
    assert found["length"] == [2, 4, 2]
    assert found["log_prob_per_word"] == pytest.approx([-1.0, -0.8, -2.0])
    assert found["log_rank"] == pytest.approx([0.0, math.log(2), math.log(3)])
    assert [found[name] for name in MENTIONED[:4]] == [
        [0, 0, 1], [1, 0, 0], [0, 1, 0], [0, 0, 0],
    ]  # fmt: skip
    assert not any(any(found[name]) for name in MENTIONED[3:])
    assert found["dmsm"] == [0.5, 0.25, 0.0]


def test_words_mentioned_and_not() -> None:
    found = columns(NAMES, dmsm=[0, 0, 0], grounded=[0, 0, 0])
    p, q = math.log(0.9), math.log(0.5)
    assert found["word_log_prob"] == pytest.approx([p, p + q, 0], abs=1e-6)
    r, s = math.log(0.1), math.log(0.5)
    assert found["absent_log_prob"] == pytest.approx([s, 0, r + s], abs=1e-5)
    assert found["covered_precision"] == pytest.approx([0.8 / 1.4, 1, 0])
    assert found["unused_confident"] == pytest.approx([0, 0, 0.8], abs=1e-6)
    assert found["doubtful_log_prob"] == pytest.approx([0, 0, math.log(0.1)])


def test_a_word_that_nobody_knows_is_most_doubtful() -> None:
    matrix = sentence_features(candidates_of(LIST, DETECTED), ("doubtful_log_prob",))
    assert matrix[:, 0].tolist() == pytest.approx([0, 0, math.log(0.05)])


def test_rank_is_by_likelihood_whatever_the_order() -> None:
    mixed = MBest(LIST.hypotheses[::-1], 0)
    matrix = sentence_features(candidates_of(mixed, DETECTED), ("log_rank",))
    assert matrix[:, 0].tolist() == pytest.approx([math.log(3), math.log(2), 0.0])


def test_more_than_ten_objects_have_no_feature() -> None:
    words = tuple(f"word{i}" for i in range(11))
    detected = DetectedWords(tuple(DetectedWord(w, 0.5, 0.5, 0.5) for w in words), 0.5)
    both = MBest((Hypothesis(words, -1.0, ()), Hypothesis(words[:10], -2.0, ())), 0)
    matrix = sentence_features(candidates_of(both, detected), MENTIONED)
    assert matrix[0].sum() == 0
    assert matrix[1].tolist() == [0.0] * 10 + [1.0]


def test_identical_candidates_have_identical_features() -> None:
    same = MBest((LIST.hypotheses[1],) * 3, 0)
    names = tuple(n for n in NAMES if n not in ("dmsm", "grounded", "log_rank"))
    matrix = sentence_features(candidates_of(same, DETECTED), names)
    assert (matrix == matrix[0]).all()


def test_one_candidate_is_enough() -> None:
    one = MBest(LIST.hypotheses[:1], 0)
    names = tuple(n for n in NAMES if n not in ("dmsm", "grounded"))
    assert np.isfinite(sentence_features(candidates_of(one, DETECTED), names)).all()


@pytest.mark.parametrize("bad", [math.inf, math.nan])
def test_a_value_that_is_not_finite_is_named(bad: float) -> None:
    with pytest.raises(InputError, match=r"feature 'dmsm' of candidate 2 is (inf|nan)"):
        columns(("length", "dmsm"), dmsm=[0.0, bad, 0.0])


def test_what_is_missing_is_named() -> None:
    with pytest.raises(InputError, match=r"'dmsm'"):
        columns(("dmsm",))
    with pytest.raises(InputError, match=r"'dsmm'.*log_likelihood"):
        columns(("dsmm",))
    with pytest.raises(InputError, match="candidate"):
        sentence_features(candidates_of(MBest((), 0), DETECTED), ("length",))


def test_mentions() -> None:
    found: Candidates = candidates_of(LIST, DETECTED)
    assert mentions(found).tolist() == [[True, False], [True, True], [False, False]]


def test_agreement_equals_pairs_of_cosines() -> None:
    """The linear form is the expected cosine over all pairs, done one by one here."""
    sentences = [[0, 1, 2, 3, 4], [0, 1, 2], [3, 4], [5], [0, 1, 5, 6, 2]]
    probs = posterior([0.0, -1, -2, -3, 0.5])
    starts = np.cumsum([0, *map(len, sentences)])
    found = agreement(np.concatenate(sentences), starts, probs)
    expected = []
    for mine in sentences:
        total = 0.0
        for theirs, prob in zip(sentences, probs, strict=True):
            for n in range(1, 5):
                a = [tuple(mine[i : i + n]) for i in range(len(mine) - n + 1)]
                b = [tuple(theirs[i : i + n]) for i in range(len(theirs) - n + 1)]
                if a and b:
                    shared = sum(b.count(gram) for gram in a)
                    total += prob * shared / math.sqrt(len(a) * len(b)) / 4
        expected.append(total)
    assert found == pytest.approx(expected)


def test_posterior_of_large_scores() -> None:
    assert posterior([1000.0, 1000.0 - math.log(3)]).tolist() == pytest.approx([0.75, 0.25])
