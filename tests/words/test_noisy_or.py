"""Eq. 1: worked by hand, at the ends of the number range, and against its own derivative."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sightwords.words.noisy_or import noisy_or, sigmoid

PROBS = arrays(np.float32, (3, 4, 2), elements=st.floats(0, 1, width=32))
LOGITS = arrays(np.float32, (3, 4, 2), elements=st.floats(-1e4, 1e4, width=32))


def test_by_hand() -> None:
    # 1 - (1/2)(1/2)(4/5) = 4/5; 1 - 1 * 1 * 9/10 = 1/10
    regions = np.array([[[0.5, 0.0], [0.5, 0.0], [0.2, 0.1]]])
    np.testing.assert_allclose(noisy_or(regions), [0.8, 0.1], rtol=1e-6)
    np.testing.assert_allclose(noisy_or(regions[0], axis=-2), [0.8, 0.1], rtol=1e-6)


def test_the_authors_initial_bias_gives_their_initial_probability() -> None:
    probs = sigmoid(np.full((12, 12, 1), -6.58))
    assert probs[0, 0, 0] == pytest.approx(0.00139, abs=5e-6)
    assert noisy_or(probs)[0] == pytest.approx(0.181, abs=5e-4)


def test_a_batch_is_its_images_one_by_one() -> None:
    batch = sigmoid(np.random.default_rng(0).normal(-4, 3, (5, 12, 12, 7)))
    one_by_one = np.stack([noisy_or(image) for image in batch])
    np.testing.assert_allclose(noisy_or(batch), one_by_one, rtol=1e-5)


def test_many_small_probabilities_keep_their_digits() -> None:
    # 144 regions at 1e-9: 1 - prod(1 - p) in float32 is 0, the sum is 1.44e-7
    regions = np.full((12, 12, 1), 1e-9, dtype=np.float32)
    assert noisy_or(regions)[0] == pytest.approx(1.44e-7, rel=1e-4)
    assert 1 - np.prod(1 - regions) == 0


@given(LOGITS)
def test_no_logit_gives_nan(logits: np.ndarray) -> None:
    probs = sigmoid(logits)
    assert np.isfinite(probs).all()
    assert np.isfinite(noisy_or(probs)).all()


@given(PROBS)
def test_bounds_and_the_authors_form(probs: np.ndarray) -> None:
    image = noisy_or(probs)
    flat = probs.reshape(12, 2)
    assert (image >= flat.max(axis=0) * (1 - 1e-6)).all()  # at least the best region
    assert (image <= np.minimum(flat.sum(axis=0), 1) + 1e-6).all()  # at most the sum
    # The authors' code takes the larger of 1 - prod(1 - p) and the largest p.
    authors = np.maximum(1 - np.prod(1 - flat, axis=0), flat.max(axis=0))
    np.testing.assert_allclose(image, authors, atol=2e-6)
    np.testing.assert_allclose(image, noisy_or(flat[::-1], axis=0), rtol=1e-5, atol=1e-7)
