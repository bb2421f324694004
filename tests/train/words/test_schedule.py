"""Learning rates, worked by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from sightwords.config import WordsConfig  # noqa: E402
from sightwords.train.words.network import WordNetwork  # noqa: E402
from sightwords.train.words.training import layer_groups, rate_factor  # noqa: E402

pytestmark = pytest.mark.torch


def test_the_authors_steps() -> None:
    """A tenth after each third: 80k of 240k iterations."""
    paper = WordsConfig()
    rates = [rate_factor(s, 240_000, paper) for s in (0, 79_999, 80_000, 159_999, 160_000, 239_999)]
    assert rates == pytest.approx([1, 1, 0.1, 0.1, 0.01, 0.01])


def test_warm_up_then_half_a_cosine() -> None:
    config = WordsConfig(schedule="cosine", warmup=0.1)
    assert [rate_factor(s, 100, config) for s in (0, 4, 9)] == pytest.approx([0.1, 0.5, 1.0])
    assert rate_factor(10, 100, config) == 1.0
    assert rate_factor(55, 100, config) == pytest.approx(0.5)
    assert rate_factor(99, 100, config) == pytest.approx(0.5 * (1 + math.cos(math.pi * 89 / 90)))


def test_the_head_learns_faster_and_biases_twice_as_fast_under_sgd(tiny_net: Any) -> None:
    network = WordNetwork(tiny_net(), 5)
    groups = list(layer_groups(network, WordsConfig()))
    base = 1.5625e-5
    found = [(len(g["params"]), g["lr"] / base, g["weight_decay"]) for g in groups]
    assert found == [
        (1, 1.0, 5e-4),
        (1, 2.0, 0.0),
        (1, 10.0, 5e-4),
        (1, 20.0, 0.0),
    ]
    assert groups[2]["params"][0] is network.head.weight


def test_rates_fall_by_layer(tiny_net: Any) -> None:
    class Deep(tiny_net):  # type: ignore[misc]
        def layers(self) -> list[list[Any]]:
            first, second = self.cells[0].parameters()
            return [[first], [second.view(1, -1)]]  # as if it were a matrix

    config = replace(
        WordsConfig(), optimizer="adamw", layer_decay=0.5, learning_rate=1.0, head_rate=3.0
    )
    groups = list(layer_groups(WordNetwork(Deep(), 5), config))
    assert [g["lr"] for g in groups] == [0.5, 1.0, 3.0, 3.0]
