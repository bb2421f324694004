"""Calibration: the curves by hand, the file, the choice of words, and the promise kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sightwords.errors import BundleError, InputError
from sightwords.sealed import renew_sum
from sightwords.words import calibration_fit
from sightwords.words.calibration import Calibration, choose_words
from sightwords.words.calibration_fit import PROMISES, Method, fit_calibration
from sightwords.words.reliability import reliability


def test_the_papers_curve_by_hand() -> None:
    # ascending .1 .2 .3 .4 .5 with labels 0 1 0 1 1:
    # at or above: 3/5 3/4 2/3 1 1, running maximum .6 .75 .75 1 1, duplicates away
    scores = np.array([[0.3], [0.1], [0.5], [0.2], [0.4]])
    labels = np.array([[0], [0], [1], [1], [1]])
    curve = fit_calibration(scores, labels, method="paper")
    np.testing.assert_allclose(curve.scores, [[0.1, 0.2, 0.4]], rtol=1e-6)
    np.testing.assert_allclose(curve.precisions, [[0.6, 0.75, 1.0]], rtol=1e-6)
    np.testing.assert_allclose(
        curve.precision([[0.0], [0.1], [0.15], [0.3], [0.4], [1.0]]).ravel(),
        [0.6, 0.6, 0.675, 0.875, 1.0, 1.0],
        rtol=1e-5,
    )
    assert curve.thresholds(0.875)[0] == pytest.approx(0.3)
    assert curve.thresholds(0.6)[0] == -np.inf  # every score has it
    assert curve.base_rates[0] == pytest.approx(0.6)


def test_equal_scores_pass_together() -> None:
    # three images at .5, one of them right: no score tells them apart
    curve = fit_calibration([[0.5], [0.5], [0.5]], [[1], [0], [0]], method="paper")
    assert curve.thresholds(0.34)[0] == np.inf
    assert curve.precision([0.5])[0] == pytest.approx(1 / 3)


def test_words_never_seen_and_always_seen() -> None:
    scores = np.tile(np.linspace(0.01, 0.99, 100)[:, None], (1, 2))
    labels = np.tile(np.array([[0, 1]]), (100, 1))
    for method in ("paper", "shrunk"):
        curve = fit_calibration(scores, labels, method=method)
        assert np.isfinite(curve.precisions).all()
        assert curve.precision([0.9, 0.1])[0] < 0.5 < curve.precision([0.9, 0.1])[1]


@settings(max_examples=25, deadline=None)
@given(
    arrays(np.float32, (60, 3), elements=st.floats(0, 1, width=32)),
    arrays(np.bool_, (60, 3)),
    st.sampled_from(["paper", "shrunk"]),
    st.floats(0.01, 0.99),
)
def test_curves_rise_and_thresholds_invert_them(
    scores: np.ndarray, labels: np.ndarray, method: Method, wanted: float
) -> None:
    curve = fit_calibration(scores, labels, method=method)
    assert (np.diff(curve.scores, axis=1) >= 0).all()
    assert (np.diff(curve.precisions, axis=1) >= 0).all()
    assert (curve.precisions >= 0).all()
    assert (curve.precisions <= 1).all()
    grid = np.linspace(0, 1, 21, dtype=np.float32)[:, None].repeat(3, axis=1)
    assert (np.diff(curve.precision(grid), axis=0) >= -1e-6).all()
    thresholds = curve.thresholds(wanted)
    found = np.isfinite(thresholds)
    reached = curve.precision(np.where(found, thresholds, 0))
    np.testing.assert_allclose(reached[found], wanted, atol=2e-3)
    assert (curve.precisions[thresholds == np.inf, -1] < wanted).all()
    assert (curve.precisions[thresholds == -np.inf, 0] >= wanted).all()


def _simulated(
    seed: int, images: int, *, words: int = 300, new_images: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Scores of detectors, each off in its own way, of rare and common words, and the truth."""
    rng = np.random.default_rng(seed)
    base = np.clip(0.5 / np.arange(1, words + 1) ** 0.8, 0.004, 0.5)
    skill = rng.uniform(1.0, 3.0, words)
    shift, stretch = rng.normal(0.2, 0.5, words), np.exp(rng.normal(0.15, 0.25, words))
    start = np.log(base / (1 - base)) - 0.3 * skill**2

    def draw(count: int) -> tuple[np.ndarray, np.ndarray]:
        truth = start + skill * rng.normal(size=(count, words))
        labels = rng.random(truth.shape) < 1 / (1 + np.exp(-truth))
        seen = truth + 0.6 * rng.normal(size=truth.shape)
        return 1 / (1 + np.exp(-(shift + stretch * seen))), labels

    return (*draw(images), *draw(new_images or images))


def test_the_promise_is_kept_on_new_images() -> None:
    """Pairs above the thresholds for p are right p of the time; by the authors' curve, less."""
    gaps: dict[str, list[list[float]]] = {"shrunk": [], "paper": []}
    names = [str(i) for i in range(300)]
    methods: tuple[Method, ...] = ("shrunk", "paper")
    for seed in range(3):
        scores, labels, new_scores, new_labels = _simulated(seed, 3000, new_images=9000)
        for method in methods:
            curve = fit_calibration(scores, labels, method=method)
            found = reliability(curve, new_scores, new_labels, names)
            assert all(r.pairs > 1000 for r in found)
            gaps[method].append([r.measured - r.promised for r in found])
    assert np.abs(gaps["shrunk"]).max() < 0.03
    assert np.abs(np.mean(gaps["shrunk"], axis=0)).max() < 0.015  # no bias
    assert np.mean(gaps["paper"], axis=0)[-2:].max() < -0.06  # at .8 and .9


def test_the_order_of_words_and_images_does_not_matter() -> None:
    scores, labels, *_ = _simulated(1, 400, words=20)
    curve = fit_calibration(scores, labels)
    turned = fit_calibration(scores[:, ::-1], labels[:, ::-1])
    np.testing.assert_allclose(
        curve.precision(scores[:5]), turned.precision(scores[:5, ::-1])[:, ::-1], atol=1e-4
    )


@pytest.mark.parametrize(
    ("scores", "labels", "message"),
    [
        (np.zeros((3, 2)), np.zeros((3, 1)), r"shape \(3, 2\) and labels of shape \(3, 1\)"),
        (np.zeros((0, 2)), np.zeros((0, 2)), "at least one of each"),
        (np.full((3, 1), np.nan), np.zeros((3, 1)), "outside 0 to 1 or NaN"),
        (np.full((3, 1), 1.5), np.zeros((3, 1)), "outside 0 to 1"),
    ],
)
def test_bad_data_is_refused(scores: np.ndarray, labels: np.ndarray, message: str) -> None:
    with pytest.raises(InputError, match=message):
        fit_calibration(scores, labels)


def test_an_unknown_method_is_refused() -> None:
    with pytest.raises(InputError, match="platt"):
        fit_calibration([[0.5]], [[1]], method="platt")  # type: ignore[arg-type]


def test_file_round_trip(colour_detector: Path) -> None:
    curve = Calibration.load(colour_detector)
    assert (curve.method, curve.images, len(curve)) == ("shrunk", 2000, 8)
    curve.save(colour_detector)
    again = Calibration.load(colour_detector)
    np.testing.assert_array_equal(curve.scores, again.scores)
    np.testing.assert_array_equal(curve.precisions, again.precisions)
    np.testing.assert_array_equal(curve.base_rates, again.base_rates)


def test_curves_of_unequal_length_survive_the_file(colour_detector: Path) -> None:
    scores = np.zeros((4, 8))
    scores[:, 0] = [0.1, 0.2, 0.3, 0.4]
    labels = np.array([[0, 1, 1, 1]]).T.repeat(8, axis=1)
    curve = fit_calibration(scores, labels, method="paper")  # two knots, and one a word
    curve.save(colour_detector)
    again = Calibration.load(colour_detector)
    grid = np.linspace(0, 1, 11)[:, None].repeat(8, axis=1)
    np.testing.assert_allclose(curve.precision(grid), again.precision(grid), atol=1e-4)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"words": 7}, ".*7 words, .*8 curves"),
        ({"format": 9}, ".*format 9"),
        ({"curves": [[[0.5, 0.1], [0.1, 0.2]]] * 8}, "curve 0"),
        ({"curves": [[[0.5], [0.1, 0.2]]] * 8}, "curve 0.*1 .*2 "),
        ({"curves": [[["x"], [0.1]]] * 8}, "curve 0"),
        ({"curves": [[[0.5], [float("nan")]]] * 8}, ".*NaN"),
        ({"curves": [[[0.5], [1.5]]] * 8}, r"curve 0.*1\.5"),
        ({"curves": [[[-0.5], [0.5]]] * 8}, r"curve 0.*-0\.5"),
        ({"base_rates": [10**400] * 8}, "base_rates"),
        ({"curves": [3] * 8}, "curve 0"),
    ],
)
def test_a_bad_file_is_named(colour_detector: Path, changes: dict[str, Any], message: str) -> None:
    path = colour_detector / "calibration.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**document, **changes}), encoding="utf-8")
    renew_sum(colour_detector, path.name)
    with pytest.raises(BundleError, match=rf"calibration\.json: {message}"):
        Calibration.load(colour_detector)


def test_a_detector_without_calibration_says_how_to_get_one(colour_detector: Path) -> None:
    (colour_detector / "calibration.json").unlink()
    (colour_detector / "sums.json").unlink()
    with pytest.raises(BundleError, match="sightwords train calibration"):
        Calibration.load(colour_detector)


def test_scores_of_another_vocabulary_are_refused(colour_detector: Path) -> None:
    with pytest.raises(InputError, match=r"\(3,\).* 8 words"):
        Calibration.load(colour_detector).precision([0.1, 0.2, 0.3])


class TestChoice:
    WORDS = ("a", "dog", "cat", "of", "red")

    def _chosen(self, precisions: list[float], **options: Any) -> list[str]:
        values = np.array(precisions, dtype=np.float32)
        places = choose_words(values, values, self.WORDS, **options)
        return [self.WORDS[i] for i in places]

    def test_all_words_at_the_threshold_and_above(self) -> None:
        precisions = [0.9, 0.5, 0.6, 0.49, 0.7]
        assert self._chosen(precisions) == ["a", "red", "cat", "dog"]

    def test_topped_up_to_three_content_words(self) -> None:
        # 'of' stands above the third content word in the ranking and comes along
        assert self._chosen([0.9, 0.1, 0.3, 0.2, 0.4]) == ["a", "red", "cat", "of", "dog"]

    def test_closed_class_words_do_not_count(self) -> None:
        assert self._chosen([0.9, 0.1, 0.3, 0.2, 0.4], minimum_content_words=1) == ["a", "red"]

    def test_no_minimum(self) -> None:
        assert self._chosen([0.1] * 5, minimum_content_words=0) == []

    def test_not_enough_words(self) -> None:
        assert len(self._chosen([0.1] * 5, minimum_content_words=4)) == 5

    def test_a_word_that_is_unlikely_here_is_not_put_out(self) -> None:
        # dog: images scored .01 or higher have it .8 of the time, this one hardly
        precisions = np.array([0.9, 0.8, 0.7, 0.2, 0.6], dtype=np.float32)
        probs = np.array([0.9, 0.01, 0.5, 0.3, 0.11], dtype=np.float32)
        chosen = choose_words(precisions, probs, self.WORDS, minimum_content_words=2)
        assert [self.WORDS[i] for i in chosen] == ["a", "cat", "red"]
        # it comes last when words are short, and as in the paper when asked for
        chosen = choose_words(precisions, probs, self.WORDS, minimum_content_words=3)
        assert [self.WORDS[i] for i in chosen] == ["a", "cat", "red", "of", "dog"]
        chosen = choose_words(precisions, probs, self.WORDS, least_share=0)
        assert [self.WORDS[i] for i in chosen] == ["a", "dog", "cat", "red"]

    def test_ties_by_probability_then_by_word(self) -> None:
        precisions = np.full(5, 0.7, dtype=np.float32)
        probs = np.array([0.1, 0.2, 0.3, 0.3, 0.2], dtype=np.float32)
        places = choose_words(precisions, probs, self.WORDS)
        assert [self.WORDS[i] for i in places] == ["cat", "of", "dog", "red", "a"]


def test_a_score_that_runs_the_wrong_way_round_promises_nothing() -> None:
    """Its images of the lowest scores have the word; the regression does not follow that."""
    rng = np.random.default_rng(0)
    truth = rng.random((400, 6)) < 0.2
    scores = np.clip(0.2 + 0.5 * truth + rng.normal(0, 0.1, truth.shape), 0.01, 0.99)
    scores[:, 0] = np.clip(0.8 - scores[:, 0], 0.01, 0.99)
    order = np.argsort(scores, axis=0)
    ranked, counted = (np.take_along_axis(x, order, axis=0) for x in (scores, truth))
    probs = calibration_fit._shrunk_probs(ranked.astype(np.float32), counted.astype(np.float64))
    assert probs[0, 0] < 0.5  # all of the lowest have it
    assert probs[-1, 1] > 0.9


def test_words_more_common_than_a_promise_say_nothing_of_it() -> None:
    """Any score of a word that six in ten images have keeps a promise of a half."""
    rng = np.random.default_rng(0)
    scores, truth = rng.random((400, 1)).astype(np.float32), rng.random((400, 1)) < 0.6
    came_true = calibration_fit._came_true(scores, truth)
    common = PROMISES <= 0.5
    np.testing.assert_allclose(came_true[common], PROMISES[common])
