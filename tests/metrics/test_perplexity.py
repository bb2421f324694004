from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

from sightwords.errors import ScoreError
from sightwords.metrics.perplexity import UNKNOWN, perplexity, sentence_perplexity


class Unigrams:
    """Fixed probabilities; remembers what it was asked."""

    def __init__(self, probs: dict[str, float]) -> None:
        self.probs = probs
        self.asked: list[tuple[str | None, tuple[str, ...]]] = []

    @property
    def vocabulary(self) -> set[str]:
        return set(self.probs) - {UNKNOWN}

    def log_probs(self, tokens: Sequence[str], image: str | None) -> npt.NDArray[np.float64]:
        self.asked.append((image, tuple(tokens)))
        return np.log([*(self.probs[t] for t in tokens), 0.25])


def test_ends_of_sentence_and_unknown_words_are_counted() -> None:
    model = Unigrams({"dog": 0.5, UNKNOWN: 0.125})
    found = sentence_perplexity(model, [("7", ("dog", "yak")), (None, ())])
    assert model.asked == [("7", ("dog", UNKNOWN)), (None, ())]
    assert (found.tokens, found.unknown, found.sentences) == (4, 1, 2)
    assert found.value == pytest.approx((0.5 * 0.125 * 0.25 * 0.25) ** (-1 / 4))
    assert found.signature.startswith("perplexity|oov:<unk>|eos:counted|sentences:2|version:")


def test_a_uniform_model_has_the_perplexity_of_its_choices() -> None:
    assert perplexity(30 * math.log(1 / 17), 30) == pytest.approx(17)


def test_what_the_model_holds_impossible_is_infinite() -> None:
    assert perplexity(-math.inf, 3) == math.inf


@pytest.mark.parametrize(("log_prob", "tokens"), [(0.1, 3), (math.nan, 3), (-1.0, 0)])
def test_what_is_no_perplexity_is_refused(log_prob: float, tokens: int) -> None:
    with pytest.raises(ScoreError):
        perplexity(log_prob, tokens)


def test_a_model_that_forgets_the_end_is_refused() -> None:
    class Forgetful(Unigrams):
        def log_probs(self, tokens: Sequence[str], image: str | None) -> npt.NDArray[np.float64]:
            return super().log_probs(tokens, image)[:-1]

    with pytest.raises(ScoreError, match=r"shape \(1,\) for 1 tokens"):
        sentence_perplexity(Forgetful({"dog": 0.5}), [(None, ("dog",))])


def test_unnormalised_scores_are_refused() -> None:
    with pytest.raises(ScoreError, match="at most 0"):
        sentence_perplexity(Unigrams({"dog": 3.0}), [(None, ("dog",))])


def test_no_sentences_is_an_error() -> None:
    with pytest.raises(ScoreError, match="no tokens"):
        sentence_perplexity(Unigrams({"dog": 1.0}), [])
