"""Photographs captioned by several processes: records in the order of the items, memory bounded.

Each process has the whole system on one thread and decodes, detects and writes sentences by
itself; that keeps every core busy, since one decodes while others detect. The networks' sums do
not depend on how many processes there are, so neither do the captions.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager

from sightwords.batch.records import Record, caption_record
from sightwords.batch.sources import Item
from sightwords.errors import SightwordsError
from sightwords.pipeline import Captioner

MakeCaptioner = Callable[[], Captioner]
"""Loads the system; called once in each process, so it must be picklable."""

AHEAD = 4
"""Items a process that are under way: enough that none waits, few enough to hold in memory."""

_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

_captioner: Captioner | None = None
_n_best = 0


def captioned(
    items: Iterable[Item], make: MakeCaptioner, *, workers: int, n_best: int = 0
) -> Iterator[Record]:
    """A record for each item, in order; one that cannot be captioned has `error` instead."""
    if workers == 1:
        captioner = make()
        for item in items:
            yield describe(captioner, item, n_best)
        return
    with closing(_in_processes(items, make, workers, n_best)) as records:
        yield from records


def describe(captioner: Captioner, item: Item, n_best: int = 0) -> Record:
    """Caption one item."""
    try:
        caption = captioner(item.image)
    except SightwordsError as error:
        return {"id": item.id, "error": str(error)}
    return {"id": item.id, **caption_record(caption, n_best=n_best)}


def _in_processes(
    items: Iterable[Item], make: MakeCaptioner, workers: int, n_best: int
) -> Generator[Record, None, None]:
    # Spawned, not forked: a fork of a process with threads may hang.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        workers, mp_context=context, initializer=_begin, initargs=(make, n_best)
    ) as pool:
        flying: deque[Future[Record]] = deque()
        try:
            for item in items:
                with one_thread_each():  # a pool starts its processes when work is submitted
                    flying.append(pool.submit(_describe, item))
                if len(flying) > AHEAD * workers:
                    yield flying.popleft().result()
            while flying:
                yield flying.popleft().result()
        except BrokenProcessPool as error:
            raise SightwordsError(
                "a worker process died, killed from outside or for want of memory; what was "
                "captioned is kept: go on with --resume, perhaps with fewer --workers"
            ) from error
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


@contextmanager
def one_thread_each() -> Iterator[None]:
    """Processes started meanwhile do their linear algebra on one thread, as there is one a core.

    The libraries read these variables when they are loaded, which no initializer comes before.
    """
    added = [name for name in _THREAD_VARIABLES if name not in os.environ]
    os.environ.update(dict.fromkeys(added, "1"))
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


def _begin(make: MakeCaptioner, n_best: int) -> None:
    """In each process: load the system, leave Ctrl-C to the parent, and never outlive it."""
    global _captioner, _n_best
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _captioner, _n_best = make(), n_best


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _describe(item: Item) -> Record:
    assert _captioner is not None
    return describe(_captioner, item, _n_best)
