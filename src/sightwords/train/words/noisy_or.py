"""Eq. 1 in torch, for training: the same equation as `words/noisy_or.py`, from logits.

Input: logits of regions, `(..., rows, columns, V)`, of any precision; all sums are float32 (or
float64 for float64 input), so a bfloat16 network may feed it. Output: `(..., V)`, or the loss.

Deviation: the authors clamp P to at least 1e-5 inside the logarithm; here log P is computed
exactly and needs no clamp, so that a positive word with a tiny P keeps its gradient.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, softplus

from sightwords.words.noisy_or import MAP_AXES, Axis

AUTHORS_SCALE = 20.0
"""The authors' weight of the loss."""
SMALL = 1e-6
"""Below this sum of p_j, P is the sum itself to within float32's rounding (P = sum - O(sum^2))."""


def log_miss(region_logits: Tensor, *, dim: Axis = MAP_AXES) -> Tensor:
    """log(1 - P) = -sum_j softplus(x_j)."""
    return -softplus(_wide(region_logits)).sum(dim=dim)


def image_log_prob(region_logits: Tensor, *, dim: Axis = MAP_AXES) -> Tensor:
    """The log of Eq. 1, log P, finite and with a finite gradient for every finite logit."""
    return _log_prob(region_logits, log_miss(region_logits, dim=dim), dim)


def image_prob(region_logits: Tensor, *, dim: Axis = MAP_AXES) -> Tensor:
    """P itself (Eq. 1)."""
    return -torch.expm1(log_miss(region_logits, dim=dim))


def cross_entropy(region_logits: Tensor, targets: Tensor, *, dim: Axis = MAP_AXES) -> Tensor:
    """-(t log P + (1 - t) log(1 - P)) for each image and word; t lies in [0, 1]."""
    miss = log_miss(region_logits, dim=dim)
    t = targets.to(miss.dtype)
    return -(t * _log_prob(region_logits, miss, dim) + (1 - t) * miss)


def noisy_or_loss(
    region_logits: Tensor,
    targets: Tensor,
    *,
    dim: Axis = MAP_AXES,
    scale: float = AUTHORS_SCALE,
) -> Tensor:
    """The loss of a batch: the mean over images and words, times the authors' 20."""
    return scale * cross_entropy(region_logits, targets, dim=dim).mean()


def log1mexp(value: Tensor) -> Tensor:
    """log(1 - exp(value)) for value < 0; both branches stay finite, so gradients do too."""
    near = value > -0.6931472
    close = torch.where(near, value, -1.0)
    far = torch.where(near, -1.0, value)
    return torch.where(near, torch.log(-torch.expm1(close)), torch.log1p(-torch.exp(far)))


def _log_prob(region_logits: Tensor, miss: Tensor, dim: Axis) -> Tensor:
    tiny = miss > -SMALL
    # The branch not taken must not meet log(0): its NaN gradient would leak through `where`.
    usual = log1mexp(torch.where(tiny, -1.0, miss))
    return torch.where(tiny, torch.logsumexp(logsigmoid(_wide(region_logits)), dim=dim), usual)


def _wide(logits: Tensor) -> Tensor:
    return logits if logits.dtype == torch.float64 else logits.float()
