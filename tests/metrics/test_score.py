from __future__ import annotations

import pickle

import pytest

from sightwords.errors import ScoreError
from sightwords.metrics.bleu import bleu
from sightwords.metrics.cider import cider, cider_plain
from sightwords.metrics.rouge import rouge_l
from sightwords.metrics.score import Comparison, signature
from sightwords.metrics.significance import four_gram_overlap

DOG = ("a", "dog", "runs", "on", "grass")
CAT = ("two", "cats", "sleep", "on", "beds")
METRICS = [
    lambda pairs: bleu(pairs)[0],
    lambda pairs: bleu(pairs)[3],
    rouge_l,
    cider,
    cider_plain,
    four_gram_overlap,
]


def test_the_order_is_that_of_the_candidates() -> None:
    pairs = Comparison.of({"b": "a dog", "a": "a cat"}, {"a": ["cats"], "b": ["dogs", "the dog"]})
    assert pairs.ids == ("b", "a")
    assert pairs.references == ((("dogs",), ("the", "dog")), (("cats",),))
    assert pairs.reference_counts == "1-2"


def test_unicode_and_numbers_survive() -> None:
    pairs = Comparison.of({"1": "Ein Café in Zürich"}, {"1": ["ein café in zürich"]})
    assert rouge_l(pairs).value == pytest.approx(1.0)
    assert bleu(pairs)[3].value == pytest.approx(1.0)


@pytest.mark.parametrize("metric", METRICS)
def test_an_empty_candidate_scores_zero_beside_a_perfect_one(metric) -> None:  # type: ignore[no-untyped-def]
    pairs = Comparison(("1", "2"), ((), CAT), ((DOG,), (CAT, DOG)))
    score = metric(pairs)
    assert score.per_image[0] == 0.0
    assert score.per_image[1] > 0.4


@pytest.mark.parametrize("metric", METRICS)
def test_only_empty_sentences_score_zero(metric) -> None:  # type: ignore[no-untyped-def]
    pairs = Comparison(("1", "2"), ((), ()), (((),), ((), ())))
    assert metric(pairs).value == 0.0


@pytest.mark.parametrize("metric", METRICS)
def test_one_reference_equal_to_the_candidate_is_perfect(metric) -> None:  # type: ignore[no-untyped-def]
    pairs = Comparison(("1", "2"), (DOG, CAT), ((DOG,), (CAT,)))
    score = metric(pairs)
    perfect = 10.0 if score.metric.startswith("cider") else 1.0
    assert score.per_image == pytest.approx([perfect, perfect])
    assert f"{score.metric}|" in score.signature
    assert "images:2|refs:1|tok:ptb-coco|version:" in score.signature


def test_signature_shows_settings() -> None:
    pairs = Comparison(("1",), (DOG,), ((DOG, CAT),))
    found = signature("meteor", pairs, language="en")
    assert found.startswith("meteor|language:en|images:1|refs:2|tok:ptb-coco|version:")


def test_a_candidate_without_reference_is_named() -> None:
    with pytest.raises(ScoreError, match="'2'"):
        Comparison.of({"1": "a", "2": "b"}, {"1": ["a"]})
    with pytest.raises(ScoreError, match="'2'"):
        Comparison.of({"1": "a", "2": "b"}, {"1": ["a"], "2": []})


def test_an_image_without_candidate_is_named() -> None:
    with pytest.raises(ScoreError, match="'9'"):
        Comparison.of({"1": "a"}, {"1": ["a"], "9": ["b"]})


def test_nothing_to_score_is_an_error() -> None:
    with pytest.raises(ScoreError):
        Comparison.of({}, {})


def test_repeated_ids_are_named() -> None:
    with pytest.raises(ScoreError, match="'7'"):
        Comparison(("7", "7"), (DOG, CAT), ((DOG,), (CAT,)))


def test_columns_of_different_length_are_refused() -> None:
    with pytest.raises(ScoreError, match=r"2 .*1 .*1 "):
        Comparison(("1", "2"), (DOG,), ((DOG,),))


def test_a_string_where_a_list_belongs_is_refused() -> None:
    with pytest.raises(ScoreError, match=r"'1'.*'a dog'"):
        Comparison.of({"1": "a dog"}, {"1": "a dog"})
    with pytest.raises(ScoreError, match=r"'1'.*list"):
        Comparison.of({"1": ["a dog"]}, {"1": ["a dog"]})  # type: ignore[dict-item]


def test_a_comparison_can_be_sent_to_another_process() -> None:
    pairs = Comparison(("1",), (DOG,), ((CAT,),))
    again = pickle.loads(pickle.dumps(pairs))
    assert again == pairs
    assert bleu(again)[0].value == bleu(pairs)[0].value
