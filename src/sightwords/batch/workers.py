"""Photographs captioned on several cores: records in the order of the items, memory bounded.

A process has the whole system once and captions on up to four threads, each of which decodes,
detects and writes sentences by itself. Threads share the networks' weights, which then stay in the
processor's cache: two of them caption 1.8 times as much as one, two processes 1.3 times. More than
four would wait for Python's lock, so beyond that there are several processes. The networks' sums
do not depend on any of this, so neither do the captions.
"""

from __future__ import annotations

import multiprocessing
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from itertools import islice

from sightwords.batch.records import Record, caption_record
from sightwords.batch.sources import Item
from sightwords.errors import SightwordsError
from sightwords.parallel import begin_worker, one_thread_each
from sightwords.pipeline import Captioner

MakeCaptioner = Callable[[], Captioner]
"""Loads the system; called once in each process, so it must be picklable."""

THREADS = 4
"""Of one process; more would wait for each other."""

GROUP = 8
"""Items a thread that a process is given at a time: its threads wait once a group."""

AHEAD = 2
"""Groups a process that are under way: none waits, and memory holds them."""

_captioner: Captioner | None = None
_threads: ThreadPoolExecutor | None = None
_n_best = 0
_refused: SightwordsError | None = None
"""Why the system could not be loaded: told by the first task, since an initializer that raises
looks to the parent like a process that died."""


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
    threads = min(workers, THREADS)
    processes = -(-workers // threads)
    waiting = iter(items)
    with ProcessPoolExecutor(
        processes, mp_context=context, initializer=_begin, initargs=(make, n_best, threads)
    ) as pool:
        flying: deque[Future[list[Record]]] = deque()
        try:
            while group := list(islice(waiting, GROUP * threads)):
                with one_thread_each():  # a pool starts its processes when work is submitted
                    flying.append(pool.submit(_describe, group))
                if len(flying) > AHEAD * processes:
                    yield from flying.popleft().result()
            while flying:
                yield from flying.popleft().result()
        except BrokenProcessPool as error:
            raise SightwordsError(
                "a worker process died, killed from outside or for want of memory; what was "
                "captioned is kept: go on with --resume, perhaps with fewer --workers"
            ) from error
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _begin(make: MakeCaptioner, n_best: int, threads: int) -> None:
    """In each process: load the system, leave Ctrl-C to the parent, and never outlive it."""
    global _captioner, _n_best, _refused, _threads
    begin_worker()
    (_captioner, _refused), _n_best, _threads = _loaded(make), n_best, ThreadPoolExecutor(threads)


def _loaded(make: MakeCaptioner) -> tuple[Captioner | None, SightwordsError | None]:
    try:
        return make(), None
    except SightwordsError as error:
        return None, error


def _describe(items: list[Item]) -> list[Record]:
    if _refused is not None:
        raise _refused
    assert _captioner is not None
    assert _threads is not None
    captioner = _captioner
    return list(_threads.map(lambda item: describe(captioner, item, _n_best), items))
