"""Worker processes that fill batches together, in memory that all of them share.

    worker 0: its rows of batch 0, 1, 2, ...  \
    worker 1: its rows of batch 0, 1, 2, ...   > batch n in slot n mod 4 -> copied out -> free again
    ...                                       /

The memory is allocated once, before the workers start. For each batch, a worker and the main
process signal "ready" and "free" by semaphores; nothing else passes between them. (A `DataLoader`
creates a shared file for every tensor of every batch, maps it and sends its descriptor.)

Why no slot is overwritten before it was copied: `free` of each worker starts at SLOTS. A worker
takes one before it writes to batch n, and `take` gives one back after it copied batch n. So when
a worker writes to batch n, n + 1 - SLOTS batches have been copied, that is all up to n - SLOTS, and
batch n - SLOTS was the last one in this slot. In the same way `ready` of each worker counts the
batches it has finished, so no batch is copied before all its rows are there.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import pickle
import signal
import traceback
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Semaphore
from typing import Any

import numpy as np
import numpy.typing as npt

from sightwords.errors import ExternalToolError
from sightwords.parallel import parent_watch

SLOTS = 4
"""Batches in shared memory; a worker that is this far ahead sleeps."""
PATIENCE_SECONDS = 1.0
"""A waiting process checks this often whether the other one is alive."""

Parts = tuple[npt.NDArray[Any], ...]
"""The arrays of one batch."""
Layout = Sequence[tuple[tuple[int, ...], str]]
"""Shape and type of each."""
Work = Callable[[int, Iterator[Parts]], Iterator[Parts]]
"""Worker's number, empty batches -> the same batches, with the worker's rows filled in."""


class BatchWorkers:
    """Batches without end, in order; the workers end when this object is deleted."""

    def __init__(self, work: Work, layout: Layout, *, workers: int) -> None:
        context = multiprocessing.get_context()
        # Files without a name: nothing is left behind, however the processes end.
        memory = [context.RawArray("B", SLOTS * _bytes(*part)) for part in layout]
        self._slots = cycle(_slots(memory, layout))
        self._free = [context.Semaphore(SLOTS) for _ in range(workers)]
        self._ready = [context.Semaphore(0) for _ in range(workers)]
        self._failures: list[Connection] = []
        self.processes: list[BaseProcess] = []
        weakref.finalize(self, _end, self.processes, os.getpid())
        for number, (free, ready) in enumerate(zip(self._free, self._ready, strict=True)):
            failures, sent = context.Pipe(duplex=False)
            worker = _Worker(work, number, memory, layout, free, ready, sent)
            process = context.Process(target=worker.run, daemon=True)
            process.start()
            sent.close()
            self.processes.append(process)
            self._failures.append(failures)

    def take(self, into: Parts) -> None:
        """Copy the next batch; raises a worker's error after the batches before it."""
        for number in range(len(self.processes)):
            self._wait(number)
        for target, part in zip(into, next(self._slots), strict=True):
            target[...] = part  # numpy releases Python's lock meanwhile
        for free in self._free:
            free.release()

    def _wait(self, number: int) -> None:
        process, ready = self.processes[number], self._ready[number]
        while not ready.acquire(timeout=PATIENCE_SECONDS):
            alive = process.is_alive()
            sent = _error_of(self._failures[number])
            if sent is not None:
                raise sent[0] from RuntimeError(f"in worker {number}:\n{sent[1]}")
            if not alive:
                if ready.acquire(block=False):  # the last thing it did
                    return
                raise ExternalToolError(
                    f"worker {number} (process {process.pid}), which decodes images, ended with "
                    f"exit code {process.exitcode} (-9: killed, often for lack of memory); run the "
                    "same command with fewer run.workers: it resumes from the last checkpoint"
                )


class InProcess:
    """The same without workers: this process fills each batch when it is taken."""

    def __init__(self, work: Work) -> None:
        self._empty: list[Parts] = []
        self._filled = work(0, iter(self._empty.pop, ()))

    def take(self, into: Parts) -> None:
        """Fill these arrays with the next batch."""
        self._empty.append(into)
        next(self._filled)


@dataclass(frozen=True)
class _Worker:
    """A worker process: what it is given, and what it runs."""

    work: Work
    number: int
    memory: Sequence[Any]
    layout: Layout
    free: Semaphore
    ready: Semaphore
    failures: Connection

    def run(self) -> None:
        """Fill batches until the main process is gone."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # on Ctrl-C the main process ends it
        try:
            for _ in self.work(self.number, self._empty()):
                self.ready.release()
        except Exception as error:
            self.failures.send((_picklable(error), traceback.format_exc()))

    def _empty(self) -> Iterator[Parts]:
        lives = parent_watch()
        for slot in cycle(_slots(self.memory, self.layout)):
            while not self.free.acquire(timeout=PATIENCE_SECONDS):
                if not lives():
                    return
            yield slot


def _picklable(error: Exception) -> Exception:
    """The error itself, or its text in a `RuntimeError` if it cannot be pickled."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _error_of(failures: Connection) -> tuple[Exception, str] | None:
    """A worker's error and its traceback, if it sent one."""
    try:
        found: tuple[Exception, str] | None = failures.recv() if failures.poll() else None
    except EOFError:  # it ended without sending one
        return None
    return found


def _end(processes: list[BaseProcess], owner: int) -> None:
    if os.getpid() != owner:  # in a forked child: the workers belong to its parent
        return
    for process in processes:
        process.kill()  # a worker has nothing to clean up
    for process in processes:
        process.join()


def _bytes(shape: tuple[int, ...], kind: str) -> int:
    return math.prod(shape) * np.dtype(kind).itemsize


def _slots(memory: Sequence[Any], layout: Layout) -> list[Parts]:
    """The arrays of every slot, over the shared memory."""
    parts = [
        np.frombuffer(one, dtype=kind).reshape(SLOTS, *shape)
        for one, (shape, kind) in zip(memory, layout, strict=True)
    ]
    return list(zip(*parts, strict=True))
