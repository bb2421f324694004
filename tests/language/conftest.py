"""Random language models for the search's tests."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from sightwords.language.maxent import MaxEnt, padded_table
from sightwords.text.vocabulary import Vocabulary

WORDS = ("a", "dog", "on", "red", "runs", "grass", "cat", "jumps")
MakeModel = Callable[..., MaxEnt]


def random_model(
    seed: int,
    *,
    words: tuple[str, ...] = WORDS,
    bits: int = 10,
    followers: float = 0.5,
    integers: bool = False,
    distant: bool = False,
) -> MaxEnt:
    """Random weights over these words; `integers` draws few values, so that many paths tie."""
    rng = np.random.default_rng(seed)

    def weights(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        drawn = rng.integers(-1, 2, shape) if integers else rng.normal(-0.5, 1.0, shape)
        return drawn.astype(np.float32)

    size = len(words) + 1
    seen = rng.random((size + 1, len(words))) < followers
    table = weights(1 << bits).astype(np.int8 if integers else np.float32)
    return MaxEnt(
        vocabulary=Vocabulary(words, tuple(range(len(words), 0, -1)), 100),
        order=4,
        distant=distant,
        table=padded_table(table, size + 1),
        scale=1.0 if not integers else 0.5,
        unigram=weights(2, size + 1),
        end=weights(size + 1),
        attribute=1.0,
        score=0.5,
        follower_offsets=np.cumsum([0, *seen.sum(axis=1)]).astype(np.int64),
        follower_ids=np.nonzero(seen)[1].astype(np.int32),
    )


@pytest.fixture(scope="session")
def make_model() -> MakeModel:
    return random_model
