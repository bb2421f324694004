"""Photos captioned on several cores: records in the order of the items, with limited memory.

A process holds the whole system once and captions on up to four threads. Each thread decodes,
detects and writes sentences by itself. Threads share the networks' weights, which then stay in the
processor's cache: two threads caption 1.8 times as much as one, two processes 1.3 times. More than
four threads would wait for Python's lock, so beyond that there are several processes. The captions
do not depend on the number of threads or processes.

A process that dies or hangs is replaced. The photos that were with it are tried again one by one,
and the one that does it again is listed as an error.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from functools import partial
from itertools import islice
from queue import SimpleQueue

from sightwords.batch.records import Record, caption_record
from sightwords.batch.sources import Item
from sightwords.batch.sums import file_stamp, read_once
from sightwords.errors import SightwordsError, said_of
from sightwords.images.limits import DEFAULT_LIMITS, MAX_SECONDS
from sightwords.pipeline import Captioner
from sightwords.worker_process import AnswerError, WorkerLostError, WorkerProcess

log = logging.getLogger(__name__)

MakeCaptioner = Callable[[], Captioner]
"""Loads the system; called once in each process, so it must be picklable."""

THREADS = 4
"""Threads per process; more would wait for each other."""

GROUP = 8
"""Items per thread that a process gets at a time: its threads wait once per group."""

AHEAD = 2
"""Groups per process that are in flight: no process waits, and they fit into memory."""

START_SECONDS = 300.0
"""Time limit for a process to load the system."""

GRACE_SECONDS = 20.0
"""Added to the time limits of a photo for a process to answer: machines may be busy."""


def captioned(
    items: Iterable[Item],
    make: MakeCaptioner,
    *,
    workers: int,
    n_best: int = 0,
    max_seconds: float = MAX_SECONDS,
) -> Iterator[Record]:
    """A record for each item, in order; one that cannot be captioned has an `error` instead."""
    if workers == 1:
        captioner = make()
        for item in items:
            yield describe(captioner, item, n_best)
        return
    with closing(_in_processes(items, make, workers, n_best, max_seconds)) as records:
        yield from records


def describe(captioner: Captioner, item: Item, n_best: int = 0) -> Record:
    """Caption one item; whatever goes wrong is an error of this photo alone."""
    content = None
    try:
        before = file_stamp(item.image)
        limits = getattr(captioner, "limits", DEFAULT_LIMITS)  # a function has none
        image, content = read_once(item.image, limits)
        caption = captioner(image)
        if image.data is None and file_stamp(item.image) != before:
            content = None  # it was changed meanwhile: a resumed run captions it again
        return {"id": item.id, "sha256": content, **caption_record(caption, n_best=n_best)}
    except Exception as error:  # MemoryError and RecursionError too: the other photos are captioned
        if not isinstance(error, SightwordsError):
            log.info("%s: unexpected error", item.image, exc_info=True)
        return {"id": item.id, "sha256": content, "error": said_of(error, str(item.image))}


def _in_processes(
    items: Iterable[Item], make: MakeCaptioner, workers: int, n_best: int, max_seconds: float
) -> Generator[Record, None, None]:
    threads = min(workers, THREADS)
    processes = -(-workers // threads)
    # Photos are decoded one per thread: between two answers lies one photo's time, not a group's.
    patience = 2 * max_seconds + GRACE_SECONDS
    crew = [_Worker(partial(_load, make, n_best, threads), patience) for _ in range(processes)]
    free: SimpleQueue[_Worker] = SimpleQueue()
    for worker in crew:
        free.put(worker)

    def describe_group(group: list[Item]) -> list[Record]:
        worker = free.get()
        try:
            return worker.describe(group)
        finally:
            free.put(worker)

    waiting = iter(items)
    with ThreadPoolExecutor(processes) as pool:  # a thread waits for each process
        flying: deque[Future[list[Record]]] = deque()
        try:
            while group := list(islice(waiting, GROUP * threads)):
                flying.append(pool.submit(describe_group, group))
                if len(flying) > AHEAD * processes:
                    yield from flying.popleft().result()
            while flying:
                yield from flying.popleft().result()
        finally:
            for future in flying:
                future.cancel()
            for worker in crew:
                worker.close()


class _Worker:
    """Holds one process, which is started when needed and replaced when lost."""

    def __init__(
        self, load: Callable[[], Callable[[list[Item]], Iterable[Record]]], patience: float
    ):
        self._load = load
        self._patience = patience
        self._process: WorkerProcess[list[Item], Record] | None = None
        self._closed = False

    def describe(self, items: list[Item]) -> list[Record]:
        """A record for each item; what a lost process has not answered is tried one by one."""
        records: list[Record] = []
        try:
            for record in self._running().ask(items, seconds=self._patience):
                records.append(record)
        except (WorkerLostError, AnswerError) as error:
            log.info("%s; its photos are tried one by one", error)
            self._drop()
            records += map(self._alone, items[len(records) :])
        return records

    def close(self) -> None:
        """Stop for good."""
        self._closed = True
        self._drop()

    def _alone(self, item: Item) -> Record:
        process = self._running()
        try:
            [record] = process.ask([item], seconds=self._patience)
        except (WorkerLostError, AnswerError) as error:
            self._drop()
            reason = f"{error} while it captioned this photo; check the photo, or remove it"
            return {"id": item.id, "sha256": None, "error": f"{item.image}: {reason}"}
        return record

    def _running(self) -> WorkerProcess[list[Item], Record]:
        if self._process is None:
            self._refuse_closed()
            try:
                self._process = WorkerProcess(self._load, start_seconds=START_SECONDS)
            except (WorkerLostError, OSError, EOFError) as error:
                raise SightwordsError(
                    f"a worker process could not start ({error}); finished captions are kept: "
                    "continue with --resume, and with --workers 1 if it happens again"
                ) from error
            self._refuse_closed()
        return self._process

    def _refuse_closed(self) -> None:
        if self._closed:
            self._drop()
            raise SightwordsError("the batch was stopped")

    def _drop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.stop()


def _load(
    make: MakeCaptioner, n_best: int, threads: int
) -> Callable[[list[Item]], Iterator[Record]]:
    """In a process: load the system; returns what captions items, in order, on its threads."""
    captioner, pool = make(), ThreadPoolExecutor(threads)
    return lambda items: pool.map(lambda item: describe(captioner, item, n_best), items)
