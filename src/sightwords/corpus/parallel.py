"""Work side by side: a function mapped over a stream in threads, and how worker processes begin."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

PATIENCE_SECONDS = 1.0
"""So often a worker process looks whether its parent is alive."""


def default_workers() -> int:
    """One thread a core: decoding and encoding images release Python's lock."""
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


def begin_worker() -> None:
    """Of a worker process: leave Ctrl-C to the parent, and never outlive it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def parent_watch() -> Callable[[], bool]:
    """Whether this process' parent is still alive, to be asked again and again."""
    # Both are asked: a process that was forked later may hold what tells of the parent's end.
    above, parent = os.getppid(), multiprocessing.parent_process()
    return lambda: os.getppid() == above and parent is not None and parent.is_alive()


def _end_with_parent() -> None:
    lives = parent_watch()
    while lives():
        time.sleep(PATIENCE_SECONDS)
    os._exit(1)
