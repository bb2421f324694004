"""Human and Shuffled Human: what is compared with what."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightwords.errors import ScoreError
from sightwords.evaluate.baselines import (
    derangement,
    evaluate_baseline,
    hold_out_one,
    shuffle_captions,
    usual_count,
)
from sightwords.evaluate.captions import evaluate_captions

PEOPLE = {str(i): tuple(f"image {i} caption {k}" for k in range(5)) for i in range(20)}


@given(st.integers(2, 50), st.integers(0, 1000))
def test_nothing_stays_in_place(count: int, seed: int) -> None:
    order = derangement(count, random.Random(seed))
    assert sorted(order) == list(range(count))
    assert all(place != item for place, item in enumerate(order))


def test_every_derangement_is_equally_likely() -> None:
    rng = random.Random(0)
    found = Counter(tuple(derangement(4, rng)) for _ in range(9000))
    assert len(found) == 9  # of 24 orders of four, nine leave nothing in place
    assert min(found.values()) > 850
    assert max(found.values()) < 1150


def test_one_image_cannot_be_shuffled() -> None:
    with pytest.raises(ScoreError, match="1 image"):
        evaluate_baseline("shuffled-human", {"1": ["a dog"]}, metrics=["bleu"])


def test_shuffled_captions_are_human_and_of_another_image() -> None:
    captions, references = shuffle_captions(PEOPLE, 4, seed=3)
    assert list(captions) == list(PEOPLE)
    for key, caption in captions.items():
        assert caption not in PEOPLE[key]
        assert any(caption in said for said in PEOPLE.values())
        assert len(references[key]) == 4
        assert set(references[key]) <= set(PEOPLE[key])
    assert captions == shuffle_captions(PEOPLE, 4, seed=3)[0]
    assert captions != shuffle_captions(PEOPLE, 4, seed=4)[0]


def test_each_caption_is_held_out_once_and_never_its_own_reference() -> None:
    rounds = [hold_out_one(PEOPLE, turn, None, seed=0) for turn in range(5)]
    for key, said in PEOPLE.items():
        assert sorted(captions[key] for captions, _ in rounds) == sorted(said)
        for captions, references in rounds:
            assert sorted([captions[key], *references[key]]) == sorted(said)


def test_images_with_other_numbers_of_captions_take_part() -> None:
    people = {**PEOPLE, "few": ("a", "b", "c", "d"), "many": tuple("abcdefg")}
    assert usual_count(people) == 5
    rounds = [hold_out_one(people, turn, 4, seed=0) for turn in range(5)]
    assert {len(r["few"]) for _, r in rounds} == {3}
    assert {len(r["many"]) for _, r in rounds} == {4}
    assert len({c["many"] for c, _ in rounds}) == 5
    assert len({c["few"] for c, _ in rounds}) == 4  # one of them has a second turn


def test_equal_captions_may_still_be_compared_with_each_other() -> None:
    captions, references = hold_out_one({"1": ("a dog", "a dog")}, 0, None, seed=0)
    assert captions == {"1": "a dog"}
    assert references == {"1": ("a dog",)}


def test_human_is_the_mean_over_choices() -> None:
    people = {"1": ("a dog runs", "a dog", "the dog runs"), "2": ("cats", "a cat", "cats sit")}
    report = evaluate_baseline("human", people, metrics=["bleu_1", "cider"])
    rounds = [
        evaluate_captions(*hold_out_one(people, turn, None, seed=0), metrics=["bleu_1", "cider"])
        for turn in range(3)
    ]
    for metric in ("bleu_1", "cider"):
        assert report.values[metric] == pytest.approx(np.mean([r.values[metric] for r in rounds]))
        np.testing.assert_allclose(
            report.score(metric).per_image,
            np.mean([r.score(metric).per_image for r in rounds], axis=0),
        )
    assert report.scores[0].signature.endswith("|baseline:human|choices:3|seed:0")
    assert "|refs:2|" in report.scores[0].signature


def test_fifty_references_take_ten_turns_unless_asked_for_more() -> None:
    people = {str(i): tuple(f"{i} {k}" for k in range(50)) for i in range(2)}
    report = evaluate_baseline("human", people, metrics=["bleu_1"])
    assert "|choices:10|" in report.scores[0].signature
    assert "|refs:49|" in report.scores[0].signature
    fewer = evaluate_baseline(
        "human", people, metrics=["bleu_1"], choices=3, references_per_image=4
    )
    assert "|choices:3|" in fewer.scores[0].signature
    assert "|refs:4|" in fewer.scores[0].signature


def test_one_caption_cannot_be_held_out() -> None:
    with pytest.raises(ScoreError, match=r"'1'.*1 caption"):
        evaluate_baseline("human", {"1": ["a dog"]}, metrics=["bleu"])


def test_unknown_baseline() -> None:
    with pytest.raises(ScoreError, match="'midge'"):
        evaluate_baseline("midge", PEOPLE)
