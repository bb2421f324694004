from __future__ import annotations

import math

import pytest

from sightwords.errors import ScoreError
from sightwords.metrics.perplexity import perplexity


def test_a_uniform_model_has_the_perplexity_of_its_choices() -> None:
    assert perplexity(30 * math.log(1 / 17), 30) == pytest.approx(17)


def test_what_the_model_holds_impossible_is_infinite() -> None:
    assert perplexity(-math.inf, 3) == math.inf


@pytest.mark.parametrize(("log_prob", "tokens"), [(0.1, 3), (math.nan, 3), (-1.0, 0)])
def test_what_is_no_perplexity_is_refused(log_prob: float, tokens: int) -> None:
    with pytest.raises(ScoreError):
        perplexity(log_prob, tokens)
