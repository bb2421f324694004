"""Measured precision: which pairs are counted."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sightwords.errors import InputError
from sightwords.words.calibration import Calibration
from sightwords.words.reliability import reliability

WORDS = ("a", "dog", "cat", "sky")


def _identity(base_rates: list[float]) -> Calibration:
    """Every score is its own precision."""
    knots = np.tile(np.array([[0.0, 1.0]], dtype=np.float32), (len(base_rates), 1))
    return Calibration(knots, knots, np.array(base_rates, dtype=np.float32), "paper", 10)


def test_pairs_above_the_threshold_are_pooled() -> None:
    scores = np.array([[1.0, 0.9, 0.2, 0.8], [1.0, 0.7, 0.8, 0.9]])
    labels = np.array([[1, 1, 0, 1], [1, 0, 1, 1]])
    # 'a' is closed-class and 'sky' more common than .5: dog .9 .7 and cat .8 remain, one wrong
    found = reliability(_identity([0.9, 0.1, 0.1, 0.6]), scores, labels, WORDS, promises=[0.5])[0]
    assert (found.pairs, found.words) == (3, 2)
    assert found.measured == pytest.approx(2 / 3)
    # at .75 'sky' counts too: dog .9, cat .8, sky .8 .9
    found = reliability(_identity([0.9, 0.1, 0.1, 0.6]), scores, labels, WORDS, promises=[0.75])[0]
    assert (found.pairs, found.words, found.measured) == (4, 3, 1.0)


def test_nothing_above_is_no_number() -> None:
    found = reliability(_identity([0.1] * 4), np.zeros((2, 4)), np.zeros((2, 4)), WORDS)
    assert [r.pairs for r in found] == [0] * 5
    assert all(math.isnan(r.measured) for r in found)


def test_shapes_must_agree() -> None:
    with pytest.raises(InputError, match="of 3"):
        reliability(_identity([0.1] * 3), np.zeros((2, 4)), np.zeros((2, 4)), WORDS)
    with pytest.raises(InputError, match=r"\(2, 3\)"):
        reliability(_identity([0.1] * 4), np.zeros((2, 4)), np.zeros((2, 3)), WORDS)
