"""Section 3.1, Eq. 1: probabilities of a word in regions -> its probability in the image.

    P = 1 - prod_j (1 - p_j),    p_j = 1 / (1 + exp(-x_j))

Input: probabilities p of regions, `(..., rows, columns, V)`; `axis` says which axes are regions.
Output: `(..., V)`.

The product is computed as a sum of logarithms: log(1 - P) = sum_j log(1 - p_j). It does not
underflow where a product of 144 factors does, and P = -expm1(log(1 - P)) keeps its digits where
every p is tiny. Training works on the logits x: `train/words/noisy_or.py`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sightwords.types import FloatArray, RegionScores, WordScores

Axis = int | tuple[int, ...]
MAP_AXES: Axis = (-3, -2)
"""Rows and columns of a response map `(..., rows, columns, V)`; -2 for a list of boxes."""


def pool(regions: RegionScores) -> WordScores:
    """Eq. 1 and the raw score of section 3.2: regions -> the image.

    >>> scores = pool(RegionScores(np.array([[[0.5]], [[0.2]]], dtype=np.float32)))
    >>> scores.image_probs.round(3).tolist(), scores.raw_scores.tolist()
    ([0.6000000238418579], [0.5])
    """
    flat = regions.region_probs.reshape(-1, regions.region_probs.shape[-1])
    given = regions.image_probs
    return WordScores(
        image_probs=noisy_or(flat, axis=0) if given is None else given,
        raw_scores=flat.max(axis=0),
    )


def noisy_or(region_probs: npt.ArrayLike, *, axis: Axis = MAP_AXES) -> FloatArray:
    """Eq. 1: (..., rows, columns, V) probabilities of regions -> (..., V) of images.

    >>> noisy_or([[0.5], [0.5], [0.2]], axis=-2).round(4)
    array([0.8], dtype=float32)
    """
    p = np.asarray(region_probs, dtype=np.float32)
    with np.errstate(divide="ignore"):  # a certain region: log 0
        image_probs: FloatArray = -np.expm1(np.sum(np.log1p(-p), axis=axis))
    return image_probs


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
