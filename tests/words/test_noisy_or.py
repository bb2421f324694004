"""Eq. 1: worked by hand, at the ends of the number range, and against its own derivative."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sightwords.words.noisy_or import (
    authors_noisy_or,
    cross_entropy,
    cross_entropy_gradient,
    image_log_prob,
    log1mexp,
    log_miss,
    log_sigmoid,
    noisy_or,
    prob_gradient,
    sigmoid,
)

PROBS = arrays(np.float32, (3, 4, 2), elements=st.floats(0, 1, width=32))
LOGITS = arrays(np.float32, (3, 4, 2), elements=st.floats(-1e4, 1e4, width=32))
# where the plain float64 form of the loss still has its digits
PLAIN = arrays(np.float32, (2, 3, 2), elements=st.floats(-6, 1.5, width=32))
MILD = arrays(np.float32, (2, 3, 2), elements=st.floats(-8, 8, width=32))


def test_by_hand() -> None:
    # 1 - (1/2)(1/2)(4/5) = 4/5; 1 - 1 * 1 * 9/10 = 1/10
    regions = np.array([[[0.5, 0.0], [0.5, 0.0], [0.2, 0.1]]])
    np.testing.assert_allclose(noisy_or(regions), [0.8, 0.1], rtol=1e-6)
    np.testing.assert_allclose(noisy_or(regions[0], axis=-2), [0.8, 0.1], rtol=1e-6)


def test_the_authors_initial_bias_gives_their_initial_probability() -> None:
    logits = np.full((12, 12, 1), -6.58)
    assert sigmoid(logits)[0, 0, 0] == pytest.approx(0.00139, abs=5e-6)
    assert -np.expm1(log_miss(logits))[0] == pytest.approx(0.181, abs=5e-4)


def test_a_batch_is_its_images_one_by_one() -> None:
    batch = np.random.default_rng(0).normal(-4, 3, (5, 12, 12, 7)).astype(np.float32)
    one_by_one = np.stack([log_miss(image) for image in batch])
    np.testing.assert_allclose(log_miss(batch), one_by_one, rtol=1e-5)
    np.testing.assert_allclose(noisy_or(sigmoid(batch)), -np.expm1(one_by_one), rtol=2e-5)


def test_many_small_probabilities_keep_their_digits() -> None:
    # 144 regions at 1e-9: 1 - prod(1 - p) in float32 is 0, the sum is 1.44e-7
    regions = np.full((12, 12, 1), 1e-9, dtype=np.float32)
    assert noisy_or(regions)[0] == pytest.approx(1.44e-7, rel=1e-4)
    assert 1 - np.prod(1 - regions) == 0


@pytest.mark.parametrize("extreme", [-1e4, -200, -50, 50, 200, 1e4])
def test_extreme_logits_give_numbers(extreme: float) -> None:
    logits = np.full((12, 12, 1), extreme, dtype=np.float32)
    log_prob = image_log_prob(logits)
    # far below zero P is the sum of 144 equal p, so log P = log 144 + x
    expected = math.log(144) + extreme if extreme < 0 else 0.0
    assert log_prob[0] == pytest.approx(expected, abs=2e-3)
    assert log_miss(logits)[0] == pytest.approx(-144 * max(extreme, 0), abs=1e-6)
    for target in (0.0, 0.3, 1.0):
        assert np.isfinite(cross_entropy(logits, [target])).all()
        assert np.isfinite(cross_entropy_gradient(logits, [target])).all()


@pytest.mark.parametrize("value", [-1e-8, -1e-3, -0.5, -math.log(2), -1.0, -5.0, -15.0, -80.0])
def test_log1mexp_against_double_precision(value: float) -> None:
    exact = math.log(-math.expm1(value)) if value > -0.7 else math.log1p(-math.exp(value))
    assert log1mexp(value) == pytest.approx(exact, rel=1e-5)


def test_log1mexp_at_nought() -> None:
    assert log1mexp(0.0) == -np.inf


@given(LOGITS)
def test_no_logit_gives_nan(logits: np.ndarray) -> None:
    assert np.isfinite(sigmoid(logits)).all()
    assert np.isfinite(log_sigmoid(logits)).all()
    assert np.isfinite(log_miss(logits)).all()
    assert np.isfinite(image_log_prob(logits)).all()


@given(PROBS)
def test_bounds_and_the_authors_form(probs: np.ndarray) -> None:
    image = noisy_or(probs)
    flat = probs.reshape(12, 2)
    assert (image >= flat.max(axis=0) * (1 - 1e-6)).all()  # at least the best region
    assert (image <= np.minimum(flat.sum(axis=0), 1) + 1e-6).all()  # at most the sum
    np.testing.assert_allclose(image, authors_noisy_or(probs), atol=2e-6)
    np.testing.assert_allclose(image, noisy_or(flat[::-1], axis=0), rtol=1e-5, atol=1e-7)


@given(MILD)
def test_both_ways_in_agree(logits: np.ndarray) -> None:
    np.testing.assert_allclose(noisy_or(sigmoid(logits)), np.exp(image_log_prob(logits)), rtol=1e-4)


def test_gradient_of_the_probability_by_hand() -> None:
    # the product over the others: .5 * .8, .5 * .8, .5 * .5
    gradient = prob_gradient([[0.5], [0.5], [0.2]], axis=-2)
    np.testing.assert_allclose(gradient.ravel(), [0.4, 0.4, 0.25], rtol=1e-6)
    # a certain region: the others no longer matter, it does
    np.testing.assert_allclose(prob_gradient([[1.0], [0.5]], axis=-2).ravel(), [0.5, 0.0])
    np.testing.assert_allclose(prob_gradient([[1.0], [1.0]], axis=-2).ravel(), [0.0, 0.0])


@given(PLAIN, st.floats(0, 1))
def test_gradient_of_the_loss_is_the_slope_of_the_loss(logits: np.ndarray, target: float) -> None:
    gradient = cross_entropy_gradient(logits, [target, target])
    x = logits.astype(np.float64)
    step = 1e-4

    def loss(values: np.ndarray) -> np.ndarray:  # plain float64, no tricks
        probs = 1 / (1 + np.exp(-values))
        image = 1 - np.prod(1 - probs, axis=(0, 1))
        result: np.ndarray = -(target * np.log(image) + (1 - target) * np.log1p(-image))
        return result

    for place in np.ndindex(2, 3):
        up, down = x.copy(), x.copy()
        up[place] += step
        down[place] -= step
        slope = (loss(up) - loss(down)) / (2 * step)
        np.testing.assert_allclose(gradient[place], slope, rtol=2e-3, atol=2e-4)


def test_loss_by_hand() -> None:
    # two regions at p = 1/2: P = 3/4
    loss = cross_entropy([[0.0], [0.0]], [1.0], axis=-2)
    assert loss[0] == pytest.approx(-math.log(0.75), rel=1e-6)
    soft = cross_entropy([[0.0], [0.0]], [0.4], axis=-2)
    assert soft[0] == pytest.approx(-0.4 * math.log(0.75) - 0.6 * math.log(0.25), rel=1e-6)
