"""Shared batches are right with slow and fast workers; errors reach the caller; nothing is left."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sightwords.errors import CorpusError, ExternalToolError
from sightwords.train.data.shard_loader.workers import SLOTS, BatchWorkers, InProcess, Parts

LAYOUT = (((6, 50), "int32"), ((6,), "float32"))
WORKERS = 3

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="workers are forked with closures")


def numbered(
    before: Callable[[int, int], None] = lambda worker, number: None, workers: int = WORKERS
) -> Callable[[int, Iterator[Parts]], Iterator[Parts]]:
    """Work that writes the batch's number into the worker's rows, one cell after another."""

    def work(worker: int, batches: Iterator[Parts]) -> Iterator[Parts]:
        for number, (cells, rows) in enumerate(batches):
            before(worker, number)
            for column in range(cells.shape[1]):
                cells[worker::workers, column] = number
            rows[worker::workers] = number + worker / 8
            yield cells, rows

    return work


def taken(batches: BatchWorkers | InProcess) -> Parts:
    into = tuple(np.full(shape, -1, dtype=kind) for shape, kind in LAYOUT)
    batches.take(into)
    return into


def check(batch: Parts, number: int, workers: int = WORKERS) -> None:
    cells, rows = batch
    assert (cells == number).all()
    np.testing.assert_array_equal(rows, [number + (row % workers) / 8 for row in range(6)])


def test_workers_wait_for_a_free_slot() -> None:
    """A slow consumer finds every batch complete; workers wait for it meanwhile."""
    begun = multiprocessing.RawArray("q", WORKERS)

    def note(worker: int, number: int) -> None:
        begun[worker] = number + 1

    batches = BatchWorkers(numbered(note), LAYOUT, workers=WORKERS)
    for number in range(3 * SLOTS):
        deadline = time.monotonic() + 60
        while min(begun) < number + SLOTS and time.monotonic() < deadline:
            time.sleep(0.005)
        time.sleep(0.02)  # time to do something wrong
        assert list(begun) == [number + SLOTS] * WORKERS
        check(taken(batches), number)


@pytest.mark.parametrize("slow", [0, 2])
def test_a_slow_worker_is_waited_for(slow: int) -> None:
    def linger(worker: int, number: int) -> None:
        if worker == slow:
            time.sleep(0.01 * (number % 3))

    batches = BatchWorkers(numbered(linger), LAYOUT, workers=WORKERS)
    for number in range(5 * SLOTS):
        check(taken(batches), number)


def test_without_workers_it_is_the_same() -> None:
    alone = InProcess(numbered(workers=1))
    for number in range(2 * SLOTS):
        check(taken(alone), number, workers=1)


class _PickyError(Exception):
    """Cannot be made again from its arguments."""

    def __init__(self, one: str, other: str) -> None:
        super().__init__(f"{one} and {other}")


@pytest.mark.parametrize(
    ("error", "expected", "message"),
    [
        (CorpusError("shard-07.tar: is gone"), CorpusError, r"^shard-07.tar: is gone$"),
        (_PickyError("a", "b"), RuntimeError, r"^_PickyError: a and b$"),
        (CorpusError("x" * 300_000), CorpusError, "xxx"),  # more than a pipe holds
    ],
)
def test_an_error_of_a_worker_comes_after_the_batches_before_it(
    error: Exception, expected: type[Exception], message: str
) -> None:
    def fail(worker: int, number: int) -> None:
        if (worker, number) == (1, 2):
            raise error

    batches = BatchWorkers(numbered(fail), LAYOUT, workers=WORKERS)
    check(taken(batches), 0)
    check(taken(batches), 1)
    with pytest.raises(expected, match=message) as caught:
        taken(batches)
    assert "in worker 1:" in str(caught.value.__cause__)
    assert "raise error" in str(caught.value.__cause__)


def test_a_killed_worker_is_named() -> None:
    def kill(worker: int, number: int) -> None:
        if (worker, number) == (2, 1):
            os.kill(os.getpid(), signal.SIGKILL)

    batches = BatchWorkers(numbered(kill), LAYOUT, workers=WORKERS)
    check(taken(batches), 0)
    with pytest.raises(ExternalToolError, match=r"worker 2 .*exit code -9"):
        taken(batches)


def _left() -> tuple[set[str], int]:
    """Names in shared memory, and open files."""
    shared = Path("/dev/shm")
    names = {p.name for p in shared.iterdir()} if shared.exists() else set()
    return names, len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_deleted_workers_leave_nothing() -> None:
    BatchWorkers(numbered(), LAYOUT, workers=WORKERS)  # multiprocessing keeps some files
    gc.collect()
    names, files = _left()
    for _ in range(3):
        batches = BatchWorkers(numbered(), LAYOUT, workers=WORKERS)
        taken(batches)
        processes = list(batches.processes)
        del batches
        assert not any(process.is_alive() for process in processes)
        del processes
    gc.collect()
    after, files_after = _left()
    assert not {name for name in after - names if str(os.getpid()) in name}
    assert files_after <= files


MAIN = """
import sys, time, os, signal
def interrupted():
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(60)
sys.path.insert(0, {folder!r})
import test_workers
batches = test_workers.BatchWorkers(test_workers.numbered(), test_workers.LAYOUT, workers=3)
test_workers.check(test_workers.taken(batches), 0)
print(*(process.pid for process in batches.processes), flush=True)
{end}
"""


@pytest.mark.parametrize(
    ("end", "status"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", -9),
        ("raise SystemExit(3)", 3),
        ("interrupted()", -2),
    ],
)
def test_workers_end_with_the_main_process(end: str, status: int) -> None:
    script = MAIN.format(folder=str(Path(__file__).parent), end=end)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == status, done.stderr
    workers = [int(number) for number in done.stdout.split()]
    assert len(workers) == 3
    for _ in count():
        alive = [pid for pid in workers if _runs(pid)]
        if not alive or _ == 300:
            break
        time.sleep(0.1)
    assert not alive


def _runs(pid: int) -> bool:
    try:
        state: Any = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2]
    except OSError:
        return False
    return state.split()[0] not in "ZX"
