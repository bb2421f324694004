"""Section 3.1, Eq. 1: probabilities of a word in regions -> its probability in the image.

    P = 1 - prod_j (1 - p_j),    p_j = 1 / (1 + exp(-x_j))

Input: logits x or probabilities p of regions, `(..., rows, columns, V)`; `axis` says which axes
are regions. Output: `(..., V)`.

All is done in log space: log(1 - p) = -softplus(x) is exact for every logit, sums do not
underflow where products of 144 factors do, and log P = log(1 - exp(log(1 - P))) keeps its digits
at both ends. The gradients stand here too, since they are part of the equation; training uses
`train/words/noisy_or.py`, the torch twin, and a test holds the two together.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sightwords.types import FloatArray

Axis = int | tuple[int, ...]
MAP_AXES: Axis = (-3, -2)
"""Rows and columns of a response map `(..., rows, columns, V)`; -2 for a list of boxes."""

SMALL = 1e-6
"""Below this sum of p_j, P is the sum itself to within float32's rounding (P = sum - O(sum^2))."""


def sigmoid(logits: npt.ArrayLike) -> FloatArray:
    """Eq. 2: the logistic function, float32, without overflow at either end.

    >>> sigmoid([-1e4, 0.0, 1e4]).tolist()
    [0.0, 0.5, 1.0]
    """
    x = np.asarray(logits, dtype=np.float32)
    small = np.exp(-np.abs(x))  # in (0, 1]: the one exponential both signs can share
    probs: FloatArray = np.where(x >= 0, np.float32(1), small)
    probs /= 1 + small
    return probs


def log_sigmoid(logits: npt.ArrayLike) -> FloatArray:
    """The log of Eq. 2, log p, float32; log(1 - p) is `log_sigmoid(-logits)`.

    >>> log_sigmoid([-1e4, 0.0, 1e4]).round(4).tolist()
    [-10000.0, -0.6930999755859375, 0.0]
    """
    x = np.asarray(logits, dtype=np.float32)
    value: FloatArray = np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x)))
    return value


def log1mexp(value: npt.ArrayLike) -> FloatArray:
    """log(1 - exp(value)) for value <= 0, float32; -inf at 0.

    Two forms, each exact where the other loses digits (Maechler 2012, "Accurately computing
    log(1 - exp(-|a|))").

    >>> np.exp(log1mexp(np.log([0.25, 0.9]))).round(4)  # 1 - 0.25, 1 - 0.9
    array([0.75, 0.1 ], dtype=float32)
    """
    x = np.asarray(value, dtype=np.float32)
    with np.errstate(divide="ignore"):
        near: FloatArray = np.log(-np.expm1(x))
        return np.where(x > -np.log(2), near, np.log1p(-np.exp(x)))


def log_miss(region_logits: npt.ArrayLike, *, axis: Axis = MAP_AXES) -> FloatArray:
    """log(1 - P) = sum_j log(1 - p_j): how unlikely it is that no region has the word.

    >>> np.exp(log_miss([[0.0], [0.0]], axis=-2))  # two regions at p = 1/2
    array([0.25], dtype=float32)
    """
    x = np.asarray(region_logits, dtype=np.float32)
    softplus = np.log1p(np.exp(-np.abs(x)))
    softplus += np.maximum(x, 0)
    total: FloatArray = -np.sum(softplus, axis=axis)
    return total


def log_miss_of_probs(region_probs: npt.ArrayLike, *, axis: Axis = MAP_AXES) -> FloatArray:
    """The same from probabilities: -inf where one of them is 1."""
    p = np.asarray(region_probs, dtype=np.float32)
    with np.errstate(divide="ignore"):
        total: FloatArray = np.sum(np.log1p(-p), axis=axis)
    return total


def noisy_or(region_probs: npt.ArrayLike, *, axis: Axis = MAP_AXES) -> FloatArray:
    """Eq. 1: (..., rows, columns, V) probabilities of regions -> (..., V) of images.

    >>> noisy_or([[0.5], [0.5], [0.2]], axis=-2).round(4)
    array([0.8], dtype=float32)
    """
    image_probs: FloatArray = -np.expm1(log_miss_of_probs(region_probs, axis=axis))
    return image_probs


def authors_noisy_or(region_probs: npt.ArrayLike, *, axis: Axis = MAP_AXES) -> FloatArray:
    """Eq. 1 as the authors' code has it: max(1 - prod(1 - p), max p).

    The product can only lower 1 - P below each 1 - p, so the outer maximum changes nothing but
    rounding: it saves the digits that 1 - prod loses when every p is tiny.
    """
    p = np.asarray(region_probs, dtype=np.float32)
    value: FloatArray = np.maximum(1 - np.prod(1 - p, axis=axis), np.max(p, axis=axis))
    return value


def image_log_prob(region_logits: npt.ArrayLike, *, axis: Axis = MAP_AXES) -> FloatArray:
    """The log of Eq. 1, log P, finite for every finite logit.

    Where all p_j are so small that 1 - P rounds to 1, P is their sum (`SMALL`).

    >>> image_log_prob([[-200.0], [-200.0]], axis=-2).round(3)  # log(2) - 200
    array([-199.307], dtype=float32)
    """
    miss = log_miss(region_logits, axis=axis)
    log_p = log_sigmoid(region_logits)
    peak = np.max(log_p, axis=axis, keepdims=True)
    log_sum = np.squeeze(peak, axis) + np.log(np.sum(np.exp(log_p - peak), axis=axis))
    value: FloatArray = np.where(miss > -SMALL, log_sum, log1mexp(miss))
    return value


def prob_gradient(region_probs: npt.ArrayLike, *, axis: Axis = MAP_AXES) -> FloatArray:
    """dP/dp_j = (1 - P) / (1 - p_j), the product over the other regions; shape of the input.

    Where 1 - p_j is 0 the quotient is not defined and the product is taken without it, which the
    authors' min(1, (1 - P) / (1 - p)) does not do.

    >>> prob_gradient([[0.5], [0.5], [0.2]], axis=-2).ravel().round(3).tolist()
    [0.4000000059604645, 0.4000000059604645, 0.25]
    """
    miss = 1 - np.asarray(region_probs, dtype=np.float32)
    is_zero = miss == 0
    with np.errstate(divide="ignore"):
        logs = np.where(is_zero, np.float32(0), np.log(miss))
    others = np.exp(np.sum(logs, axis=axis, keepdims=True) - logs)
    zeros_elsewhere = np.sum(is_zero, axis=axis, keepdims=True) - is_zero
    gradient: FloatArray = np.where(zeros_elsewhere > 0, np.float32(0), others)
    return gradient


def cross_entropy(
    region_logits: npt.ArrayLike, targets: npt.ArrayLike, *, axis: Axis = MAP_AXES
) -> FloatArray:
    """-(t log P + (1 - t) log(1 - P)) for targets t in [0, 1], `(..., V)`."""
    t = np.asarray(targets, dtype=np.float32)
    loss: FloatArray = -(
        t * image_log_prob(region_logits, axis=axis) + (1 - t) * log_miss(region_logits, axis=axis)
    )
    return loss


def cross_entropy_gradient(
    region_logits: npt.ArrayLike, targets: npt.ArrayLike, *, axis: Axis = MAP_AXES
) -> FloatArray:
    """Its derivative by each logit x_j, p_j (P - t) / P; shape of the logits.

    From d log(1 - P)/dx_j = -p_j. Regions share the blame by their own p_j: a region that says
    nothing learns nothing, which is how multiple instance learning picks its instances.

    >>> cross_entropy_gradient([[0.0], [0.0]], [1.0], axis=-2).ravel().round(4).tolist()
    [-0.16670000553131104, -0.16670000553131104]
    """
    t = np.expand_dims(np.asarray(targets, dtype=np.float32), _positive(axis, region_logits))
    log_prob = np.expand_dims(
        image_log_prob(region_logits, axis=axis), _positive(axis, region_logits)
    )
    log_p = log_sigmoid(region_logits)
    share = np.exp(np.minimum(log_p - log_prob, 0))  # p_j / P, at most 1
    gradient: FloatArray = share * (np.exp(log_prob) - t)
    return gradient


def _positive(axis: Axis, like: npt.ArrayLike) -> tuple[int, ...]:
    axes = (axis,) if isinstance(axis, int) else axis
    return tuple(a % np.ndim(like) for a in axes)
