"""Compiled scoring against numpy's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sightwords.language.features import context_count, context_starts
from sightwords.language.maxent import LogBilinear, MaxEnt, padded_table
from sightwords.text.vocabulary import Vocabulary

pytest.importorskip("numba")

WORDS = Vocabulary(tuple(f"w{i:02}" for i in range(40)), tuple(range(80, 40, -1)), 9999)
SIZE = len(WORDS) + 1


def random_model(order: int = 4, *, distant: bool = False, bilinear: bool = False) -> MaxEnt:
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        return rng.normal(size=shape).astype(np.float32)

    return MaxEnt(
        vocabulary=WORDS,
        order=order,
        distant=distant,
        table=padded_table(normal(1 << 12), SIZE + 1),
        scale=1.0,
        unigram=normal(2, SIZE + 1),
        end=normal(SIZE + 1),
        attribute=1.5,
        score=0.7,
        follower_offsets=np.zeros(SIZE + 2, dtype=np.int64),
        follower_ids=np.empty(0, dtype=np.int32),
        log_bilinear=LogBilinear(normal(SIZE + 2, 6), normal(order - 1, 6), normal(SIZE + 1, 6))
        if bilinear
        else None,
    )


MODELS = {
    "plain": random_model(),
    "bigrams": random_model(2),
    "unigrams": random_model(1),
    "distant": random_model(distant=True),
    "bilinear": random_model(bilinear=True),
    "quantised": random_model().quantised(),
}


@pytest.mark.parametrize("name", MODELS)
def test_numba_equals_numpy(name: str) -> None:
    model = MODELS[name]
    rng = np.random.default_rng(1)
    histories = rng.integers(0, SIZE + 2, size=(64, model.order - 1)).astype(np.int32)
    remaining = rng.random((64, SIZE)) < 0.1
    remaining[:8] = False
    log_probs = np.log(rng.random(SIZE)).astype(np.float32)
    slow = model.score_next(histories, remaining, log_probs)
    fast = model.compiled().score_next(histories, remaining, log_probs)
    assert np.abs(slow - fast).max() < 1e-5 * max(1, np.abs(slow).max())


def test_a_context_may_wrap_around_the_table() -> None:
    model = random_model()
    rng = np.random.default_rng(2)
    histories = rng.integers(0, SIZE, size=(2000, 3)).astype(np.int32)
    start = context_starts(histories, table_bits=12, distant=False)[0]
    wraps = (start > (1 << 12) - SIZE).any(axis=0)
    assert wraps.any()
    held = np.zeros((int(wraps.sum()), SIZE), dtype=np.bool_)
    nothing = np.zeros(SIZE, dtype=np.float32)
    found = replace(model, end=np.zeros_like(model.end)).score_next(histories[wraps], held, nothing)
    slots = (start[:, wraps, None] + np.arange(SIZE + 1)) % (1 << 12)
    expected = model.unigram[0] + model.table[slots].sum(axis=0)
    assert np.abs(found - expected).max() < 1e-5
    assert context_count(4, False) == len(start)


def test_without_a_cache_folder_it_still_compiles(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from sightwords.language import kernels

    real = kernels.numba.njit

    def njit(*, cache: bool = False, **options: object) -> object:
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return real(**options)

    monkeypatch.setattr(kernels.numba, "njit", njit)
    assert kernels.jit(lambda x: x + 1)(1) == 2
    assert "NUMBA_CACHE_DIR" in caplog.text


def test_the_cache_follows_the_sources() -> None:
    from sightwords.language import kernels

    def one(x: int) -> int:
        return x

    def two(x: int) -> int:
        return x

    kernels.jit(one)
    kernels.jit(two, beside=(__file__,))
    assert one.__qualname__.rpartition("_")[2] != two.__qualname__.rpartition("_")[2]


def test_nothing_is_compiled_after_compiled() -> None:
    from sightwords.language import kernels

    model = random_model(3).compiled()
    known = len(kernels.score_rows.signatures)  # type: ignore[attr-defined]
    histories = np.zeros((5, 2), dtype=np.int32)
    held = np.asfortranarray(np.ones((5, SIZE), dtype=np.bool_))
    model.score_next(histories, held, np.zeros(SIZE, dtype=np.float32))
    model.token_log_probs(["w00", "w01"])
    assert len(kernels.score_rows.signatures) == known  # type: ignore[attr-defined]
