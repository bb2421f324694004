"""The last stage: two stages of scoring, ties, words shown, files, confidence."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from sightwords.errors import BundleError, InputError
from sightwords.rerank.chooser import Chooser
from sightwords.rerank.confidence import STRANGENESS, Confidence, Familiar, confidence_features
from sightwords.rerank.features import candidates_of
from sightwords.rerank.linear import Ranker, Stage
from sightwords.types import (
    DetectedWord,
    DetectedWords,
    FloatArray,
    Hypothesis,
    MBest,
    RegionScores,
    WordScores,
)

DETECTED = DetectedWords(
    (
        DetectedWord("dog", 0.9, 0.8, 0.9),
        DetectedWord("grass", 0.4, 0.3, 0.4),
        DetectedWord("cat", 0.2, 0.1, 0.2),
    ),
    0.5,
)
SCORES = WordScores(np.zeros(3, dtype=np.float32), np.zeros(3, dtype=np.float32))
REGIONS = RegionScores(np.zeros((1, 1, 3), dtype=np.float32), features=np.ones((1, 2), np.float32))


def m_best(*texts: str) -> MBest:
    return MBest(tuple(Hypothesis(tuple(t.split()), -1.0 - i, ()) for i, t in enumerate(texts)), 0)


class Loves:
    """A model that loves one word, and notes how many sentences it was asked about."""

    def __init__(self, word: str) -> None:
        self.word, self.asked = word, 0

    def score(self, features: FloatArray, *rest: object) -> FloatArray:
        sentences = rest[-1]
        assert isinstance(sentences, Sequence)
        self.asked = len(sentences)
        return np.array([float(self.word in s) for s in sentences], dtype=np.float32)


LIST = m_best("a dog", "a dog on grass", "a cat on grass", "a dog 's grass")


def test_likelihood_alone() -> None:
    caption = Chooser(Ranker((Stage({"log_likelihood": 1.0}),)), n_best=2)(
        LIST, DETECTED, SCORES, REGIONS
    )
    assert caption.text == "a dog"
    assert [r.hypothesis.tokens for r in caption.n_best] == [
        ("a", "dog"),
        ("a", "dog", "on", "grass"),
    ]
    assert caption.n_best[0].features == {"log_likelihood": -1.0}
    assert caption.weights == {"log_likelihood": 1.0}
    assert math.isnan(caption.confidence)


def test_scores_are_the_weighted_features() -> None:
    ranker = Ranker((Stage({"length": 0.5, "log_likelihood": 0.25}),))
    caption = Chooser(ranker)(LIST, DETECTED, SCORES, REGIONS)
    for ranked in caption.n_best:
        total = sum(caption.weights[n] * v for n, v in ranked.features.items())
        assert ranked.score == pytest.approx(total)
    assert [r.score for r in caption.n_best] == sorted(r.score for r in caption.n_best)[::-1]


def test_words_shown_are_precise_or_used() -> None:
    ranker = Ranker((Stage({"length": 1.0}),))
    caption = Chooser(ranker)(LIST, DETECTED, SCORES, REGIONS)
    assert caption.text == "a dog on grass"  # the first of those with four words
    assert [(w.detected.word, w.used) for w in caption.words] == [("dog", True), ("grass", True)]


def test_the_second_stage_sees_the_shortlist_only() -> None:
    model = Loves("cat")
    two = (Stage({"log_likelihood": 1.0}), Stage({"grounded": 1.0, "log_likelihood": 0.01}))
    caption = Chooser(Ranker(two, shortlist=2), grounded=model)(LIST, DETECTED, SCORES, REGIONS)
    assert (model.asked, caption.text) == (2, "a dog")
    caption = Chooser(Ranker(two, shortlist=3), grounded=model)(LIST, DETECTED, SCORES, REGIONS)
    assert (model.asked, caption.text) == (3, "a cat on grass")
    assert set(caption.n_best[0].features) == {"grounded", "log_likelihood"}


def test_the_similarity_is_asked_of_all() -> None:
    model = Loves("'s")
    caption = Chooser(Ranker((Stage({"dmsm": 1.0}),)), dmsm=model)(LIST, DETECTED, SCORES, REGIONS)
    assert (model.asked, caption.text) == (4, "a dog's grass")


def test_equal_scores_leave_the_likelier_first() -> None:
    ranker = Ranker((Stage({"mentioned_9": 1.0}), Stage({"mentioned_10": 1.0})), shortlist=3)
    caption = Chooser(ranker)(LIST, DETECTED, SCORES, REGIONS)
    assert [r.hypothesis.log_prob for r in caption.n_best] == [-1.0, -2.0, -3.0]
    # Whatever order the first stage has left them in.
    turned = (Stage({"log_likelihood": -1.0}), Stage({"mentioned_10": 1.0}))
    caption = Chooser(Ranker(turned, shortlist=3))(LIST, DETECTED, SCORES, REGIONS)
    assert [r.hypothesis.log_prob for r in caption.n_best] == [-2.0, -3.0, -4.0]


def test_fewer_and_identical_candidates() -> None:
    ranker = Ranker((Stage({"consensus": 1.0}), Stage({"length": 1.0})), shortlist=64)
    same = m_best("a dog", "a dog", "a dog")
    assert Chooser(ranker)(same, DETECTED, SCORES, REGIONS).text == "a dog"
    assert Chooser(ranker)(m_best("dog"), DETECTED, SCORES, REGIONS).text == "dog"


def test_words_that_were_not_offered_count_as_doubtful() -> None:
    ranker = Ranker((Stage({"doubtful_log_prob": 1.0}),))
    some = m_best("a horse", "a zebra")
    probs = np.array([0.06, 0.5], dtype=np.float32)
    scores = WordScores(probs, probs)
    chooser = Chooser(ranker, vocabulary=("horse", "zebra"))
    assert chooser(some, DETECTED, scores, REGIONS).text == "a zebra"


@pytest.mark.parametrize(("tokens", "whole"), [(1, 0), (17, 0), (17, 1), (18, 1), (5, 4)])
def test_confidence_sees_the_token_that_the_detector_names(tokens: int, whole: int) -> None:
    """Whatever their number: 17 may be a mean and its parts, or a class token and 16 others."""
    confidence = Confidence(
        (STRANGENESS,), (0.0,), (1.0,), (-1.0,), bias=0.0, slope=1.0, shift=0.0, threshold=0.9,
        good_share=0.5, familiar=Familiar(np.array([1.0]), 0.0),
    )  # fmt: skip
    values = np.zeros((tokens, 1), np.float32)
    values[whole] = 2
    seen = RegionScores(REGIONS.region_probs, features=values, whole_token=whole)
    chooser = Chooser(Ranker((Stage({"log_likelihood": 1.0}),)), confidence)
    found = chooser(LIST, DETECTED, SCORES, seen).confidence
    assert found == pytest.approx(1 / (1 + math.exp(2)))


def test_missing_models_and_features() -> None:
    with pytest.raises(BundleError, match=r"weights.*'dmsm'"):
        Chooser(Ranker((Stage({"dmsm": 1.0}),)))
    with pytest.raises(InputError, match="image features"):
        Chooser(Ranker((Stage({"dmsm": 1.0}),)), dmsm=Loves("a"))(
            LIST, DETECTED, SCORES, RegionScores(np.zeros((1, 1, 3), dtype=np.float32))
        )


def test_weights_are_saved_and_loaded(tmp_path: Path) -> None:
    ranker = Ranker(
        (Stage({"length": 0.5, "dmsm": -1.25}), Stage({"grounded": 2.0})),
        32,
        "cider",
        {"tuning": {"cider": 1.25}, "held_out": {"cider": 1.125}},
    )
    ranker.save(tmp_path)
    assert Ranker.load(tmp_path) == ranker
    (tmp_path / "bundle" / "rerank").mkdir(parents=True)
    Ranker((Stage({"length": 1.0}),)).save(tmp_path / "bundle" / "rerank")
    chooser = Chooser.load(tmp_path / "bundle", n_best=1)
    assert chooser(LIST, DETECTED, SCORES, REGIONS).text == "a dog on grass"


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ([], "stages"),
        ([{"features": {}}], "features"),
        ([{"features": {"lenght": 1.0}}], "lenght"),
        ([{"features": {"length": "x"}}], "length is 'x'"),
    ],
)
def test_bad_weights_are_refused(tmp_path: Path, stages: object, message: str) -> None:
    document = {"format": 1, "objective": "", "shortlist": 4, "stages": stages, "values": {}}
    (tmp_path / "weights.json").write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(BundleError, match=message):
        Ranker.load(tmp_path)
    with pytest.raises(BundleError, match="sightwords train mert"):
        Ranker.load(tmp_path / "nowhere")


def test_confidence(tmp_path: Path) -> None:
    fitted = Confidence(
        ("top_prob",), (0.5,), (0.25,), (2.0,), 0.0, 1.0, 0.0, 0.8, 0.62, {"ece": 0.02}
    )
    assert fitted({"top_prob": 0.5}) == 0.5
    assert fitted({"top_prob": 0.9}) > 0.9 > 0.1 > fitted({"top_prob": 0.1})
    fitted.save(tmp_path)
    assert Confidence.load(tmp_path) == fitted
    ranker = Ranker((Stage({"length": 1.0}),))
    caption = Chooser(ranker, fitted)(LIST, DETECTED, SCORES, REGIONS)
    assert caption.confidence == pytest.approx(1 / (1 + math.exp(-2 * (0.9 - 0.5) / 0.25)))
    with pytest.raises(BundleError, match="'top_prob'"):
        fitted({})


def test_confidence_features_by_hand() -> None:
    candidates = candidates_of(LIST, DETECTED)
    ranking = Ranker((Stage({"length": 1.0}),)).rank(candidates, {})
    found = confidence_features(candidates, ranking)
    assert found["margin"] == 0.0  # three sentences of four words
    assert found["mentioned_precision"] == pytest.approx((0.8 + 0.3) / 2)
    assert found["least_precision"] == pytest.approx(0.3)
    assert found["top_prob"] == pytest.approx(0.9)
    assert found["top_probs"] == pytest.approx(0.5)
    assert found["length"] == 4.0
    shares = np.exp([0, 0, 0, -8.0])
    shares /= shares.sum()
    assert found["entropy"] == pytest.approx(-(shares * np.log(shares)).sum())
