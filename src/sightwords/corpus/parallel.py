"""Maps a function over a stream in threads: results in order, memory bounded."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


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
