"""Work side by side: a function mapped over a stream in threads, and how our processes start.

`worker_process` and `sandbox` start processes; the rules for all of them are here. Linear algebra
runs on one thread, signals for the whole group are left to the parent, and no process outlives it.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

PATIENCE_SECONDS = 1.0
"""How often a worker process checks whether its parent is alive."""

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""Environment in which libraries do their linear algebra on one thread."""

_environment = threading.RLock()


def available_cores() -> int:
    """The cores this process may use (a container or `taskset` may give fewer than there are)."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS and Windows
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


def ordered_map(
    function: Callable[[T], R], items: Iterable[T], *, workers: int
) -> Iterator[tuple[T, R]]:
    """Each item with its result, in the order of the items; a few are in flight at a time.

    >>> list(ordered_map(abs, [-1, 2, -3], workers=2))
    [(-1, 1), (2, 2), (-3, 3)]
    """
    with ThreadPoolExecutor(workers) as pool:
        flying: deque[tuple[T, Future[R]]] = deque()
        try:
            for item in items:
                flying.append((item, pool.submit(function, item)))
                if len(flying) > 4 * workers:
                    first, future = flying.popleft()
                    yield first, future.result()
            while flying:
                first, future = flying.popleft()
                yield first, future.result()
        finally:
            for _, future in flying:
                future.cancel()


@contextmanager
def one_thread_each() -> Iterator[None]:
    """Processes started inside do their linear algebra on one thread: each caption has a core.

    The libraries read these variables when they are loaded, before any code of ours runs.
    Variables that the user has set stay.
    """
    with _environment:
        added = {name: value for name, value in ONE_THREAD.items() if name not in os.environ}
        os.environ.update(added)
        try:
            yield
        finally:
            for name in added:
                del os.environ[name]


def begin_worker() -> None:
    """In a worker process: leave Ctrl-C to the parent, and never outlive it."""
    leave_to_parent("SIGINT")
    threading.Thread(target=_end_with_parent, daemon=True).start()


def leave_to_parent(*signals: str) -> None:
    """In a worker process: ignore signals that are sent to the whole group, the parent included."""
    for name in signals:
        if hasattr(signal, name):  # Windows lacks some
            signal.signal(getattr(signal, name), signal.SIG_IGN)


def parent_watch() -> Callable[[], bool]:
    """A function that tells whether this process' parent is still alive."""
    # Both are asked: a process that was forked later may hold what tells of the parent's end.
    above, parent = os.getppid(), multiprocessing.parent_process()
    return lambda: os.getppid() == above and parent is not None and parent.is_alive()


def _end_with_parent() -> None:
    lives = parent_watch()
    while lives():
        time.sleep(PATIENCE_SECONDS)
    os._exit(1)


def how_it_ended(exit_code: int | None) -> str:
    """How a process ended.

    >>> how_it_ended(3), how_it_ended(-9)
    ('ended with exit code 3', 'was killed by SIGKILL')
    """
    if exit_code is None:
        return "closed its pipe"
    if exit_code >= 0:
        return f"ended with exit code {exit_code}"
    with suppress(ValueError):
        return f"was killed by {signal.Signals(-exit_code).name}"
    return f"was killed by signal {-exit_code}"
