"""Confidence: fitted on outcomes that it should recover, calibrated, low where nothing is seen."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from sightwords.errors import InputError
from sightwords.rerank.confidence import Confidence
from sightwords.rerank.linear import Ranker, Stage
from sightwords.train.rerank.confidence import (
    Choices,
    auc,
    choose_all,
    fit_confidence,
    probabilities,
    reliability,
    with_reliability,
)
from sightwords.train.rerank.lists import Lists

NAMES = ("margin", "top_prob")


def outcomes(count: int, seed: int) -> tuple[Choices, npt.NDArray[np.float64]]:
    """CIDEr-D that depends on the second feature, with noise."""
    rng = np.random.default_rng(seed)
    rows = np.stack([rng.normal(size=count), rng.uniform(0.3, 1.0, count)], axis=1)
    cider = 3 * rows[:, 1] - 1 + rng.logistic(size=count) * 0.4
    return Choices(NAMES, rows, np.arange(count)), cider


def test_probabilities_come_true_on_other_images() -> None:
    fitted = fit_confidence(*outcomes(3000, 0))
    assert fitted.good_share == pytest.approx(0.62, abs=0.01)
    checked, table = with_reliability(fitted, *outcomes(3000, 1))
    assert checked.reliability["ece"] < 0.03
    assert checked.reliability["auc"] > 0.75
    assert all(abs(b.confidence - b.good) < 0.1 for b in table if b.captions > 100)


def test_images_that_show_nothing_get_less_than_a_tenth() -> None:
    choices, cider = outcomes(2000, 0)
    rng = np.random.default_rng(3)
    nothing = np.stack([rng.normal(size=40), rng.uniform(0, 0.1, 40)], axis=1)
    bad = Choices(NAMES, nothing[:20], np.arange(20))
    fitted = fit_confidence(choices, cider, bad=bad)
    assert fitted.probabilities(nothing[20:]).max() < 0.1
    assert with_reliability(fitted, *outcomes(2000, 1))[0].reliability["ece"] < 0.04


@pytest.mark.parametrize("count", [5, 8, 12])
def test_few_images_allow_no_certainty(count: int) -> None:
    new, _ = outcomes(200, 9)
    for seed in range(10):
        choices, cider = outcomes(count, seed)
        cider = np.sort(cider)[np.argsort(np.argsort(choices.rows[:, 1]))]  # told apart perfectly
        found = fit_confidence(choices, cider).probabilities(new.rows)
        assert found.min() > 0.02
        assert found.max() < 0.98


def test_an_odd_image_does_not_make_the_sum_run_away() -> None:
    fitted = fit_confidence(*outcomes(1000, 0))
    far, farther = (np.array(fitted.means) + steps * np.array(fitted.scales) for steps in (5, 500))
    assert fitted.probabilities(farther[None]) == fitted.probabilities(far[None])


def test_the_threshold_can_be_given() -> None:
    choices, cider = outcomes(500, 0)
    fitted = fit_confidence(choices, cider, threshold=0.5)
    assert fitted.threshold == 0.5
    assert fitted.good_share == np.mean(cider >= 0.5)
    with pytest.raises(InputError, match="all or none of 500 captions"):
        fit_confidence(choices, cider, threshold=99)


def test_a_constant_feature_does_no_harm() -> None:
    choices, cider = outcomes(500, 0)
    choices.rows[:, 0] = 3.0
    assert np.isfinite(fit_confidence(choices, cider).probabilities(choices.rows)).all()
    choices.rows[7, 0] = np.inf
    with pytest.raises(InputError, match="not finite"):
        fit_confidence(choices, cider)


def test_what_does_not_belong_together() -> None:
    choices, cider = outcomes(50, 0)
    with pytest.raises(InputError, match="50 choices and CIDEr-D of 49"):
        fit_confidence(choices, cider[1:])
    other = Choices(("top_prob", "margin"), choices.rows, choices.hypotheses)
    with pytest.raises(InputError, match="other weights"):
        fit_confidence(choices, cider, bad=other)


def test_reliability_of_perfect_and_useless_confidence() -> None:
    good = np.array([1, 0] * 50)
    assert reliability(good.astype(float), good)[1] == 0
    assert reliability(1.0 - good, good)[1] == 1
    assert auc(good, good) == 1
    assert auc(np.zeros(100), good) == 0.5


def test_choices_are_those_of_the_pipeline() -> None:
    lists = Lists(
        ids=np.array(["1", "2"]),
        splits=np.array(["val", "val"]),
        words=("a", "dog", "cat", "runs"),
        word_offsets=np.array([0, 1, 2]),
        word_ids=np.array([1, 2], dtype=np.uint16),
        word_probs=np.array([0.9, 0.4], dtype=np.float32),
        word_precisions=np.array([0.8, 0.3], dtype=np.float32),
        offsets=np.array([0, 2, 5]),
        token_offsets=np.array([0, 2, 5, 6, 8, 10]),
        tokens=np.array([0, 1, 0, 1, 3, 2, 0, 2, 0, 1], dtype=np.uint16),
        log_probs=np.array([-1, -2, -1, -2, -3], dtype=np.float32),
        coverage=np.zeros(2, dtype=np.uint8),
    )
    ranker = Ranker((Stage({"word_log_prob": -1.0}), Stage({"dmsm": 1.0})), shortlist=2)
    scores = np.array([0, 1, 1, 0, 9], dtype=np.float32)
    found = choose_all(lists, ranker, {"dmsm": scores})
    # Image 2: its last sentence mentions no detected word and stays below; of the other two the
    # similarity prefers the first.
    assert found.hypotheses.tolist() == [1, 2]
    assert found.rows[:, found.names.index("mentioned_precision")] == pytest.approx([0.8, 0.3])


def test_strange_images_are_told_by_their_features() -> None:
    """What is known of the choice looks fine; the image itself is far from all others."""
    choices, cider = outcomes(1500, 0)
    rng = np.random.default_rng(5)
    usual = rng.normal(size=(1500, 16)).astype(np.float32)
    strange = (rng.normal(size=(40, 16)) + 3).astype(np.float32)
    rows = choices.rows[:40]
    bad = [Choices(NAMES, rows[i::2], np.arange(20), strange[i::2]) for i in (0, 1)]
    fitted = fit_confidence(
        Choices(NAMES, choices.rows, choices.hypotheses, usual), cider, bad=bad[0]
    )
    assert probabilities(fitted, bad[1]).max() < 0.1
    assert fitted.reliability["ece"] < 0.04
    features = dict(zip(NAMES, rows[1].tolist(), strict=True))
    assert fitted(features, strange[1]) == pytest.approx(probabilities(fitted, bad[1])[0])


def test_few_photographs_do_not_make_new_ones_strange() -> None:
    """In many dimensions any few photographs lie on one side of a plane that others do not."""
    rng = np.random.default_rng(5)
    choices, cider = outcomes(100, 0)
    tokens = rng.normal(size=(400, 200)).astype(np.float32)
    known = Choices(NAMES, choices.rows, choices.hypotheses, tokens[:100])
    nothing = Choices(NAMES, choices.rows[:40], np.arange(40), tokens[100:140] + 0.5)
    fitted = fit_confidence(known, cider, bad=nothing)
    rows = outcomes(260, 1)[0].rows
    new = probabilities(fitted, Choices(NAMES, rows, np.arange(260), tokens[140:]))
    assert 0.5 < new.mean() < 0.75  # 62 % are good


def test_familiar_survives_its_file(tmp_path: Path) -> None:
    choices, cider = outcomes(300, 0)
    tokens = np.random.default_rng(5).normal(size=(300, 4)).astype(np.float32)
    known = Choices(NAMES, choices.rows, choices.hypotheses, tokens)
    nothing = Choices(NAMES, choices.rows[:9], choices.hypotheses[:9], tokens[:9] + 4)
    fitted = fit_confidence(known, cider, bad=nothing)
    fitted.save(tmp_path)
    again = Confidence.load(tmp_path)
    assert probabilities(again, known).tolist() == probabilities(fitted, known).tolist()
    assert again.familiar is not None
    assert np.mean(again.familiar.strangeness(tokens) > 0) == pytest.approx(0.02, abs=0.005)
