"""Unconditioned generation: seeded, and distributed as the model says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from sightwords.errors import InputError
from sightwords.language.maxent import MaxEnt
from sightwords.language.sample import sample

MakeModel = Callable[..., MaxEnt]


def test_the_same_seed_gives_the_same_sentences(make_model: MakeModel) -> None:
    model = make_model(0)
    assert sample(model, 20, seed=1) == sample(model, 20, seed=1)
    assert sample(model, 20, seed=1) != sample(model, 20, seed=2)


def test_words_come_as_often_as_the_model_says(make_model: MakeModel) -> None:
    """First words, and second words after the commonest first one, of 20,000 sentences."""
    conditioned = make_model(4)
    drawn = sample(conditioned, 20_000, seed=0, maximum_length=2)
    model = replace(conditioned, end=np.zeros_like(conditioned.end))  # no set, so none used up
    firsts = Counter(sentence[0] for sentence in drawn)
    empty, scores = np.zeros((1, model.size), dtype=np.bool_), np.zeros(model.size, np.float32)
    history = np.full((1, 3), model.start_id, dtype=np.int32)
    expected = np.exp(model.log_probs_next(history, empty, scores)[0, : model.unknown_id])
    expected /= expected.sum()  # neither <unk> nor the end comes first
    for word, share in zip(model.words, expected, strict=False):
        assert firsts[word] / 20_000 == pytest.approx(share, abs=0.015)

    first, times = firsts.most_common(1)[0]
    seconds = Counter(sentence[1:] for sentence in drawn if sentence[0] == first)
    history[0, -1] = model.vocabulary.index(first)
    expected = np.exp(model.log_probs_next(history, empty, scores)[0])
    expected[model.unknown_id] = 0
    expected /= expected.sum()
    assert seconds[()] / times == pytest.approx(expected[model.end_id], abs=0.03)
    for word, share in zip(model.words, expected, strict=False):
        assert seconds[(word,)] / times == pytest.approx(share, abs=0.03)


def test_lengths_and_words(make_model: MakeModel) -> None:
    model = make_model(2)
    drawn = sample(model, 200, maximum_length=3)
    assert {len(sentence) for sentence in drawn} == {1, 2, 3}
    assert {word for sentence in drawn for word in sentence} <= set(model.vocabulary.words)
    assert sample(model, 0) == []


def test_bad_requests(make_model: MakeModel) -> None:
    with pytest.raises(InputError, match="count is -1"):
        sample(make_model(0), -1)
    with pytest.raises(InputError, match="maximum_length is 0"):
        sample(make_model(0), 1, maximum_length=0)
