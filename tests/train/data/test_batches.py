"""Rows of a table that is not on the device are prefetched, and take() returns the right ones."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from sightwords.config import WordsConfig  # noqa: E402
from sightwords.errors import CorpusError  # noqa: E402
from sightwords.train.data.batches import Order, Rows  # noqa: E402
from sightwords.train.data.prefetch import Prefetcher  # noqa: E402
from sightwords.train.words.run import new_network  # noqa: E402
from sightwords.train.words.training import WordsFit  # noqa: E402

pytestmark = pytest.mark.torch

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def _rows(made: Any, device: str) -> Rows:
    rows = Rows(made.table(), made.targets(), torch.device(device))
    rows.pixels = None  # as where the table is larger than the GPU
    return rows


@pytest.mark.parametrize("device", DEVICES)
def test_rows_are_the_same_expected_or_not(squares: Any, device: str) -> None:
    made = squares(40)
    rows, order = _rows(made, device), Order(40, 8, seed=3)
    for step in (0, 1, 2, 6, 7, 3, 4, 5, 0):  # with jumps, as a checkpoint makes them
        wanted = order.rows(step)
        if step != 7:
            rows.expect(wanted, order.rows(step + 1))
        for _ in range(2):  # the second time nobody expected them
            pixels, content, targets = rows.take(wanted)
            np.testing.assert_array_equal(pixels.cpu(), made.pixels[wanted])
            np.testing.assert_array_equal(content.cpu(), made.table().content[wanted])
            np.testing.assert_array_equal(targets.cpu(), made.targets()[wanted])


@pytest.mark.parametrize("device", DEVICES)
def test_batches_that_are_kept_do_not_change(squares: Any, device: str) -> None:
    """Memory is reused only when nobody holds it."""
    made = squares(40)
    rows, order = _rows(made, device), Order(40, 8, seed=0)
    kept = []
    for step in range(20):
        rows.expect(order.rows(step), order.rows(step + 1))
        kept.append((order.rows(step), rows.take(order.rows(step))[0]))
    for wanted, pixels in kept:
        np.testing.assert_array_equal(pixels.cpu(), made.pixels[wanted])


def test_the_next_batch_is_made_while_this_one_is_used() -> None:
    made = threading.Event()

    def make(key: int) -> list[Any]:
        if key == 1:
            made.set()
        return [torch.tensor(key)]

    ahead: Prefetcher[int] = Prefetcher(make, torch.device("cpu"))
    ahead.expect(0, 1)
    assert [int(part) for part in ahead.take(0)] == [0]
    assert made.wait(60)


def test_expected_batches_that_are_not_taken_are_discarded() -> None:
    calls: list[int] = []

    def make(key: int) -> list[Any]:
        calls.append(key)
        return [torch.tensor(key)]

    ahead: Prefetcher[int] = Prefetcher(make, torch.device("cpu"))
    ahead.expect(1, 2, 3)
    assert int(ahead.take(3)[0]) == 3
    assert int(ahead.take(2)[0]) == 2
    assert calls[-1] == 2


def test_an_error_in_the_thread_is_raised_by_take() -> None:
    def make(key: int) -> list[Any]:
        if key == 1:
            raise CorpusError("pixels.raw: is gone")
        return [torch.tensor(key)]

    ahead: Prefetcher[int] = Prefetcher(make, torch.device("cpu"))
    ahead.expect(0, 1, 2)
    assert int(ahead.take(0)[0]) == 0
    with pytest.raises(CorpusError, match="pixels"):
        ahead.take(1)
    assert int(ahead.take(2)[0]) == 2


def test_the_thread_ends_with_its_prefetcher() -> None:
    ahead: Prefetcher[int] = Prefetcher(lambda key: [torch.tensor(key)], torch.device("cpu"))
    ahead.take(0)
    [thread] = ahead._thread._threads
    del ahead
    thread.join(60)
    assert not thread.is_alive()


@pytest.mark.usefixtures("tiny_net")
@pytest.mark.parametrize("accumulate", [1, 4])
def test_a_loop_expects_what_it_takes(
    squares: Any, toy_config: WordsConfig, accumulate: int
) -> None:
    """All rows but the first are prefetched, also across the end of an epoch."""
    made = squares(40)
    config = replace(toy_config, batch_size=8, accumulate=accumulate)
    network = new_network(config, 4, weights=None, size_px=48)
    loop = WordsFit(network, made.table(), made.targets(), config, device="cpu")
    taken: list[bool] = []

    class Watched(Prefetcher[bytes]):
        def take(self, key: bytes) -> Any:
            taken.append(self._pending[0][0] == key)
            return super().take(key)

        def expect(self, *keys: bytes) -> None:
            new = [key for key in keys if key not in {k for k, _ in self._pending}]
            taken.extend([False] * (len(new) - 1))  # only the one behind may be new
            super().expect(*keys)

    loop.rows._ahead.__class__ = Watched  # type: ignore[union-attr]
    for _ in range(12):
        loop.advance()
    assert taken == [False] + [True] * (12 * accumulate)
