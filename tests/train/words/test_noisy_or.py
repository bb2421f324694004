"""Eq. 1 on logits: equal to a plain float64 form, and its gradients are right everywhere."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from sightwords.train.words import noisy_or as twin  # noqa: E402
from sightwords.words.noisy_or import noisy_or, sigmoid  # noqa: E402

pytestmark = pytest.mark.torch


def _logits(shape: tuple[int, ...] = (2, 4, 3, 5), *, scale: float = 4) -> np.ndarray:
    return np.random.default_rng(0).normal(-3, scale, shape).astype(np.float32)


EXTREMES = np.array([-1e4, -200, -90, -50, -20, -14, 0, 20, 50, 1e4], dtype=np.float32)


def _log_miss(logits: np.ndarray) -> np.ndarray:
    """log(1 - P) in float64: minus the sum of log(1 + exp(x))."""
    total: np.ndarray = -np.logaddexp(0, logits.astype(np.float64)).sum(axis=(-3, -2))
    return total


def _log_prob(logits: np.ndarray) -> np.ndarray:
    """log P in float64; where 1 - P rounds to 1, P is the sum of all p."""
    log_p = -np.logaddexp(0, -logits.astype(np.float64))
    sums: np.ndarray = np.logaddexp.reduce(np.logaddexp.reduce(log_p, axis=-3), axis=-2)
    miss = _log_miss(logits)
    with np.errstate(divide="ignore"):
        return np.where(miss > -1e-12, sums, np.log(-np.expm1(miss)))


@pytest.mark.parametrize(
    "logits",
    [_logits(), _logits(scale=30), np.broadcast_to(EXTREMES, (2, 12, 12, len(EXTREMES))).copy()],
    ids=["usual", "wide", "extreme"],
)
def test_equal_to_the_plain_form(logits: np.ndarray) -> None:
    x = torch.from_numpy(logits)
    targets = np.random.default_rng(1).random((len(logits), logits.shape[-1])).astype(np.float32)
    log_prob, miss = _log_prob(logits), _log_miss(logits)
    np.testing.assert_allclose(twin.log_miss(x), miss, rtol=1e-5, atol=1e-30)
    np.testing.assert_allclose(twin.image_log_prob(x), log_prob, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        twin.cross_entropy(x, torch.from_numpy(targets)),
        -(targets * log_prob + (1 - targets) * miss),
        rtol=1e-5,
        atol=1e-6,
    )
    np.testing.assert_allclose(twin.image_prob(x), noisy_or(sigmoid(logits)), rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("target", [0.0, 0.3, 1.0])
@pytest.mark.parametrize(
    "logits",
    [_logits(), np.broadcast_to(EXTREMES, (2, 3, 3, len(EXTREMES))).copy()],
    ids=["usual", "extreme"],
)
def test_gradient_equal_to_the_analytic_one(logits: np.ndarray, target: float) -> None:
    """d loss / d x_j = p_j (P - t) / P: regions share the blame by their own probability."""
    x = torch.from_numpy(logits).requires_grad_()
    targets = np.full((len(logits), logits.shape[-1]), target, dtype=np.float32)
    twin.cross_entropy(x, torch.from_numpy(targets)).sum().backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None
    log_p = -np.logaddexp(0, -logits.astype(np.float64))
    log_prob = _log_prob(logits)[:, None, None]
    expected = np.exp(log_p - log_prob) * (np.exp(log_prob) - target)
    np.testing.assert_allclose(x.grad, expected, rtol=1e-3, atol=1e-5)


def test_loss_by_hand() -> None:
    # two regions at p = 1/2: P = 3/4
    loss = twin.cross_entropy(torch.zeros(2, 1), torch.tensor([0.4]), dim=-2)
    assert float(loss) == pytest.approx(-0.4 * np.log(0.75) - 0.6 * np.log(0.25), rel=1e-6)


@pytest.mark.parametrize("value", [-1e-8, -1e-3, -0.5, -math.log(2), -1.0, -5.0, -15.0, -80.0])
def test_log1mexp_against_double_precision(value: float) -> None:
    exact = math.log(-math.expm1(value)) if value > -0.7 else math.log1p(-math.exp(value))
    assert float(twin.log1mexp(torch.tensor(value))) == pytest.approx(exact, rel=1e-5)


def test_gradcheck() -> None:
    logits = torch.randn(2, 2, 3, 4, dtype=torch.float64, generator=_seeded()) * 3 - 2
    targets = torch.rand(2, 4, dtype=torch.float64, generator=_seeded())
    x = logits.requires_grad_()
    assert torch.autograd.gradcheck(lambda v: twin.cross_entropy(v, targets), (x,))
    assert torch.autograd.gradcheck(twin.image_log_prob, (x,))
    tiny = (torch.randn(1, 2, 2, 3, dtype=torch.float64, generator=_seeded()) - 30).requires_grad_()
    assert torch.autograd.gradcheck(twin.image_log_prob, (tiny,))


def test_the_loss_is_the_mean_over_words_times_twenty() -> None:
    # two regions at p = 1/2, one word present, one not: 20 * (-log 3/4 - log 1/4) / 2
    loss = twin.noisy_or_loss(torch.zeros(1, 2, 1, 2), torch.tensor([[1.0, 0.0]]))
    assert float(loss) == pytest.approx(10 * (-np.log(0.75) - np.log(0.25)), rel=1e-6)


def test_boxes_instead_of_a_grid() -> None:
    logits = _logits((2, 7, 5))
    expected = -np.logaddexp(0, logits.astype(np.float64)).sum(axis=-2)
    np.testing.assert_allclose(twin.log_miss(torch.from_numpy(logits), dim=-2), expected, rtol=1e-5)


def test_half_precision_is_widened() -> None:
    logits = torch.full((1, 12, 12, 1), -6.5, dtype=torch.bfloat16)
    assert twin.log_miss(logits).dtype == torch.float32
    assert float(twin.image_prob(logits)) == pytest.approx(1 - (1 - 1 / (1 + np.exp(6.5))) ** 144)


def _seeded() -> Any:
    return torch.Generator().manual_seed(0)
