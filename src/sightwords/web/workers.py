"""The workers that empty the queue of photographs (`waiting.py`).

Each worker is a process of its own with the whole system on one thread, as in `batch`: Python runs
one thread at a time, and a file that makes a decoder crash or hang must cost one answer, not the
server. A worker that is free takes its share of what waits, up to `limits.batch` photographs, and
answers them one by one. `workers=0` works in a thread of this process, for tests.
"""

from __future__ import annotations

import logging
import multiprocessing
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from multiprocessing.connection import Connection
from time import monotonic
from typing import Any, Protocol

from sightwords.errors import BundleError, SightwordsError
from sightwords.parallel import one_thread_each
from sightwords.web.engine import Engine, Job
from sightwords.web.limits import Limits
from sightwords.web.problems import BROKEN, DIED, TOO_LATE, Problem
from sightwords.web.waiting import Answer, Ticket, Waiting

log = logging.getLogger(__name__)

MakeEngine = Callable[[], Engine]
"""Called once in each worker, so it must be picklable where workers are processes."""

About = dict[str, Any]

ENDING_SECONDS = 10.0
"""A process that has let go of its pipe may take so long to end."""


class WorkerLostError(Exception):
    """A worker died or hangs; it has to be replaced."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


class Worker(Protocol):
    """What answers jobs."""

    about: About

    def answers(self, jobs: Sequence[Job]) -> Iterator[Answer]:
        """In order; may raise `WorkerLostError`."""
        ...

    def stop(self) -> None:
        """End it."""
        ...


class HereWorker:
    """Works in the thread that asks."""

    def __init__(self, make: MakeEngine) -> None:
        self._engine = make()
        self.about = about(self._engine)

    def answers(self, jobs: Sequence[Job]) -> Iterator[Answer]:
        """As the engine gives them."""
        return self._engine.answers(jobs)

    def stop(self) -> None:
        """Nothing to end."""


class ProcessWorker:
    """Works in a process of its own."""

    def __init__(self, make: MakeEngine, *, seconds: float) -> None:
        self._seconds = seconds
        # Spawned, not forked: a fork of a process with threads may hang.
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(make, theirs), daemon=True)
        with one_thread_each():
            self._process.start()
        theirs.close()
        try:
            ready = self._pipe.recv()
        except EOFError:
            self._process.join(ENDING_SECONDS)  # else there is no exit code to tell yet
            self.stop()
            raise BundleError(
                f"a worker ended while it loaded the bundle (exit code {self._process.exitcode}); "
                "there may be too little memory: try --workers 1"
            ) from None
        if isinstance(ready, str):
            self.stop()
            raise BundleError(ready)
        self.about: About = ready

    def answers(self, jobs: Sequence[Job]) -> Iterator[Answer]:
        """Over the pipe, one by one."""
        try:
            self._pipe.send(jobs)
            for _ in jobs:
                if not self._pipe.poll(self._seconds):
                    raise WorkerLostError(TOO_LATE)
                yield self._pipe.recv()
        except (EOFError, OSError) as error:
            raise WorkerLostError(DIED) from error

    def stop(self) -> None:
        """Kill it: it holds nothing that could be lost."""
        self._pipe.close()
        self._process.kill()
        self._process.join()


class Pool:
    """Workers and their queue; `submit` from any thread."""

    def __init__(
        self,
        make: MakeEngine,
        *,
        workers: int,
        limits: Limits,
        on_batch: Callable[[int], None] = lambda size: None,
    ) -> None:
        """Start the workers and wait until each has loaded the system."""
        self._make, self._limits, self._on_batch = make, limits, on_batch
        self._in_processes = workers > 0
        count = max(1, workers)
        self.waiting = Waiting(limit=limits.queue, batch=limits.batch, workers=count)
        first = self._hire()
        self.about = first.about
        self._threads = [
            threading.Thread(target=self._attend, args=(worker,), daemon=True)
            for worker in [first, *(self._hire() for _ in range(count - 1))]
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, jobs: Sequence[Job], *, deadline: float | None = None) -> list[Future[Answer]]:
        """Queue jobs; raises `Refused` where the queue has no room for all of them.

        `deadline`, by the clock of `time.monotonic`, is the time limit from now on unless given.
        """
        until = monotonic() + self._limits.seconds if deadline is None else deadline
        tickets = [Ticket(job, until) for job in jobs]
        self.waiting.add(tickets)
        return [ticket.answer for ticket in tickets]

    def close(self) -> None:
        """Stop taking jobs, and end the workers once they have answered what they took."""
        self.waiting.close()
        for thread in self._threads:
            thread.join(self._limits.seconds)

    def _hire(self) -> Worker:
        if self._in_processes:
            return ProcessWorker(self._make, seconds=self._limits.seconds)
        return HereWorker(self._make)

    def _attend(self, worker: Worker) -> None:
        """The life of one worker, and of those that replace it."""
        while tickets := self.waiting.take():
            self._on_batch(len(tickets))
            worker = self._run(worker, tickets)
        worker.stop()

    def _run(self, worker: Worker, tickets: Sequence[Ticket]) -> Worker:
        """Answer all tickets, whatever happens; the worker to go on with."""
        left = deque(t for t in tickets if t.deadline > monotonic())
        for ticket in tickets:
            if ticket not in left:
                ticket.answer.set_result(TOO_LATE)
        try:
            for answer in worker.answers([t.job for t in left]) if left else ():
                left.popleft().answer.set_result(answer)
            return worker
        except WorkerLostError as lost:
            log.error("a worker was lost (%s); starting another", lost)
            worker.stop()
            worker = self._replace()
            if len(left) == 1:
                left.popleft().answer.set_result(lost.problem)
            while left:  # one of them did it: each has its own try
                worker = self._run(worker, [left.popleft()])
            return worker
        except Exception:  # a bug of ours must not leave clients waiting
            log.exception("a worker failed")
            for ticket in left:
                ticket.answer.set_result(BROKEN)
            worker.stop()  # what it still says would be taken for answers to others
            return self._replace()

    def _replace(self) -> Worker:
        try:
            return self._hire()
        except (SightwordsError, OSError):  # the latter where no process can be started
            log.exception("no new worker could be started")
            return _Absent(self.about)


class _Absent:
    """Stands in for a worker that could not be started; the next job tries again."""

    def __init__(self, about: About) -> None:
        self.about = about

    def answers(self, jobs: Sequence[Job]) -> Iterator[Answer]:
        raise WorkerLostError(DIED)

    def stop(self) -> None:
        pass


def about(engine: Engine) -> About:
    """What the page and `/healthz` say of the system."""
    return {
        "fingerprint": engine.captioner.fingerprint,
        "words": len(engine.captioner.vocabulary),
        "shown_precision": engine.detector.config.threshold,
        "ranks": engine.dmsm is not None,
    }


def _work(make: MakeEngine, pipe: Connection) -> None:
    """A worker's life: it ends when the other end of the pipe is gone, and so with the server."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the server's to handle
    try:
        engine = make()
    except SightwordsError as error:
        pipe.send(str(error))
        return
    pipe.send(about(engine))
    try:
        while True:
            for answer in engine.answers(pipe.recv()):
                pipe.send(answer)
    except (EOFError, OSError):
        return
