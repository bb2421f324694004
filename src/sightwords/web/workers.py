"""The workers that empty the queue of photos (`waiting.py`).

Each worker is a process of its own with the whole system on one thread, as in `batch`: Python runs
one thread at a time, and a file that makes a decoder crash or hang must cost one answer, not the
server. A worker that is free takes its share of what waits, up to `limits.batch` photos, and
answers them one by one. A worker that dies or hangs, even while it has nothing to do, is replaced;
the photo that was with it goes back to the front of the queue, so that any free worker tries it
again. `workers=0` works in a thread of this process, for tests.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from time import monotonic
from typing import Any, Protocol

from sightwords.errors import BundleError, SightwordsError
from sightwords.web.engine import Engine, Job
from sightwords.web.limits import Limits
from sightwords.web.problems import BROKEN, DIED
from sightwords.web.waiting import Answer, Ticket, Waiting
from sightwords.worker_process import WorkerLostError, WorkerProcess

log = logging.getLogger(__name__)

MakeEngine = Callable[[], Engine]
"""Called once in each worker, so it must be picklable where workers are processes."""

About = dict[str, Any]

START_SECONDS = 60.0
"""How long a worker may take to load the bundle."""
IDLE_SECONDS = 1.0
"""How often a worker that has nothing to do is checked."""
HIRE_AGAIN_SECONDS = 2.0
"""The pause after a worker could not be started."""
HEALTHY_SECONDS = 3.0
"""A worker that was not heard for so long does not count as ready."""
MOST_TRIES = 3
"""A photo with which so many workers were lost is given up."""


class Worker(Protocol):
    """What answers jobs."""

    about: About

    def answers(self, jobs: Sequence[Job]) -> Iterator[Answer]:
        """In order; may raise `WorkerLostError`."""
        ...

    def listen(self) -> bool:
        """Whether it still runs; asked while it has nothing to do."""
        ...

    def ready(self) -> bool:
        """Whether it was heard a moment ago; any thread may ask."""
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

    def listen(self) -> bool:
        """It runs where it is asked."""
        return True

    def ready(self) -> bool:
        """It runs where it is asked."""
        return True

    def stop(self) -> None:
        """Nothing to end."""


class ProcessWorker:
    """Works in a process of its own."""

    def __init__(self, make: MakeEngine, *, seconds: float) -> None:
        """`seconds` is the time limit of one answer."""
        self._seconds = seconds
        try:
            self.process: WorkerProcess[Sequence[Job] | None, Any] = WorkerProcess(
                _load, make, start_seconds=START_SECONDS
            )
        except WorkerLostError as lost:
            raise BundleError(
                f"a worker was lost while it loaded the bundle: {lost}; "
                "there may be too little memory: try --workers 1"
            ) from lost
        self.about: About = next(self.process.ask(None, seconds=START_SECONDS))

    def answers(self, jobs: Sequence[Job]) -> Iterator[Answer]:
        """Over the pipe, one by one."""
        return self.process.ask(jobs, seconds=self._seconds)

    def listen(self) -> bool:
        """Hear its sign of life."""
        return self.process.listen()

    def ready(self) -> bool:
        """Heard a moment ago."""
        return self.process.responds(HEALTHY_SECONDS)

    def stop(self) -> None:
        """Kill it: it holds nothing that could be lost."""
        self.process.stop()


class Pool:
    """Workers and their queue; `submit` from any thread."""

    def __init__(
        self,
        make: MakeEngine,
        *,
        workers: int,
        limits: Limits,
        on_batch: Callable[[int], None] = lambda size: None,
        on_lost: Callable[[], None] = lambda: None,
    ) -> None:
        """Start the workers and wait until each has loaded the system."""
        self._make, self._limits = make, limits
        self._on_batch, self._on_lost = on_batch, on_lost
        self._in_processes = workers > 0
        count = max(1, workers)
        self.waiting = Waiting(limit=limits.queue, batch=limits.batch, workers=count)
        self.about: About = {}
        """What every worker says of its system: one that says otherwise is not taken."""
        self._workers: list[Worker | None] = []
        self._closed = threading.Event()
        first = self._hire()
        self.about = first.about
        self._workers.append(first)
        for _ in range(1, count):
            self._workers.append(self._hire())
        self._threads = [
            threading.Thread(target=self._attend, args=(seat,), daemon=True)
            for seat in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def enter(self, jobs: Sequence[Job], *, deadline: float | None = None) -> list[Ticket]:
        """Queue jobs; raises `Refused` where the queue has no room for all of them.

        `deadline`, by the clock of `time.monotonic`, is the time limit from now on unless given.
        """
        until = monotonic() + self._limits.seconds if deadline is None else deadline
        tickets = [Ticket(job, until) for job in jobs]
        self.waiting.add(tickets)
        return tickets

    def submit(self, jobs: Sequence[Job], *, deadline: float | None = None) -> list[Future[Answer]]:
        """Queue jobs as `enter` does; their answers."""
        return [ticket.answer for ticket in self.enter(jobs, deadline=deadline)]

    def ready(self) -> int:
        """How many workers can make a caption now."""
        return sum(worker is not None and worker.ready() for worker in list(self._workers))

    def close(self) -> None:
        """Stop taking jobs, and end the workers once they have answered what they took."""
        self._closed.set()
        self.waiting.close()
        for thread in self._threads:
            thread.join(self._limits.seconds)

    def _hire(self) -> Worker:
        worker: Worker
        if self._in_processes:
            worker = ProcessWorker(self._make, seconds=self._limits.seconds)
        else:
            worker = HereWorker(self._make)
        if self.about and worker.about != self.about:
            worker.stop()
            raise BundleError(
                "the bundle is not the one that this server began with; restart the server"
            )
        return worker

    def _attend(self, seat: int) -> None:
        """The life of one worker, and of those that replace it."""
        while (worker := self._seated(seat)) is not None:
            tickets = self.waiting.take(IDLE_SECONDS)
            if tickets is None:
                break
            try:
                if tickets:
                    self._on_batch(len(tickets))
                    self._run(worker, tickets)
                elif not worker.listen():
                    raise WorkerLostError("it does not respond while it has nothing to do")
            except WorkerLostError as lost:
                log.error("a worker was lost (%s); starting another", lost)
                self._on_lost()
                self._workers[seat] = None
                worker.stop()
        if worker is not None:
            worker.stop()

    def _seated(self, seat: int) -> Worker | None:
        """The worker of a seat, started again and again where that fails; None once closed."""
        while self._workers[seat] is None and not self._closed.is_set():
            try:
                self._workers[seat] = self._hire()
            except Exception as error:  # without memory, say; others may work meanwhile
                ours = isinstance(error, (SightwordsError, OSError))
                log.error("no new worker; trying again (%s)", error, exc_info=not ours)
                self._closed.wait(HIRE_AGAIN_SECONDS)
        return self._workers[seat]

    def _run(self, worker: Worker, tickets: Sequence[Ticket]) -> None:
        """Answer the tickets; those that are left go back into the queue, whatever happens."""
        left = deque(ticket for ticket in tickets if not _expired(ticket))
        try:
            if left:
                for answer in worker.answers([ticket.job for ticket in left]):
                    left.popleft().answer.set_result(answer)
        except WorkerLostError:
            if left and not _expired(left[0]):  # it was with the worker
                left[0].tries += 1
                if left[0].tries == MOST_TRIES:
                    left.popleft().answer.set_result(DIED)
            raise
        except Exception:  # a bug of ours must not leave clients waiting
            log.exception("a worker failed")
            if left:
                left.popleft().answer.set_result(BROKEN)
        finally:
            self.waiting.put_back([ticket for ticket in left if not _expired(ticket)])


def _expired(ticket: Ticket) -> bool:
    """Whether nobody waits any more for a ticket; it is answered then."""
    expired = ticket.deadline <= monotonic()
    if expired and not ticket.answer.done():
        ticket.answer.set_result(ticket.late())
    return expired


def about(engine: Engine) -> About:
    """What the page and `/healthz` say of the system."""
    return {
        "fingerprint": engine.captioner.fingerprint,
        "words": len(engine.captioner.vocabulary),
        "shown_precision": engine.detector.config.threshold,
        "ranks": engine.dmsm is not None,
    }


def _load(make: MakeEngine) -> Callable[[Sequence[Job] | None], Iterable[Any]]:
    """In a worker process: the function that answers jobs, and tells of the system for None."""
    engine = make()
    return lambda jobs: [about(engine)] if jobs is None else engine.answers(jobs)
