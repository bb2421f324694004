"""The workers that take photos from the queue (`photo_queue.py`).

Each worker is a process that runs the whole model on one thread, as in `batch`: Python runs one
thread at a time, and a photo that makes the process crash or hang costs one answer, not the server.
A free worker takes its share of the queue, up to `limits.batch` photos, and answers them one by
one. A worker that crashes or hangs, even while idle, is replaced. Its current photo goes back to
the front of the queue, so that any free worker tries it again.
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
from sightwords.web.errors import INTERNAL, WORKER_DIED
from sightwords.web.limits import Limits
from sightwords.web.photo_queue import Answer, PhotoQueue, Ticket
from sightwords.worker_process import WorkerLostError, WorkerProcess

log = logging.getLogger(__name__)

MakeEngine = Callable[[], Engine]
"""Called once in each worker process, so it must be picklable."""

About = dict[str, Any]

START_SECONDS = 60.0
"""How long a worker may take to load the bundle."""
IDLE_SECONDS = 1.0
"""How often an idle worker is checked."""
RESTART_SECONDS = 2.0
"""The pause after a worker could not start."""
HEALTHY_SECONDS = 3.0
"""A worker that has been silent for longer does not count as ready."""
MAX_TRIES = 3
"""A photo is given up after this many workers crashed on it."""


class Worker(Protocol):
    """Something that answers jobs."""

    about: About

    def answers(self, jobs: Sequence[Job]) -> Iterator[Answer]:
        """In order; may raise `WorkerLostError`."""
        ...

    def listen(self) -> bool:
        """Whether it still responds; called while it is idle."""
        ...

    def ready(self) -> bool:
        """Whether it responded a moment ago; called from any thread."""
        ...

    def stop(self) -> None:
        """End it."""
        ...


StartWorker = Callable[[], Worker]


class ProcessWorker:
    """A worker in its own process."""

    def __init__(self, make: MakeEngine, *, seconds: float) -> None:
        """`seconds` is the time limit of one answer."""
        self._seconds = seconds
        try:
            self.process: WorkerProcess[Sequence[Job] | None, Any] = WorkerProcess(
                _load, make, start_seconds=START_SECONDS
            )
        except WorkerLostError as lost:
            raise BundleError(
                f"a worker crashed while it loaded the bundle: {lost}; "
                "if memory is short, try --workers 1"
            ) from lost
        self.about: About = next(self.process.ask(None, seconds=START_SECONDS))

    def answers(self, jobs: Sequence[Job]) -> Iterator[Answer]:
        """Answers arrive over a pipe, one by one."""
        return self.process.ask(jobs, seconds=self._seconds)

    def listen(self) -> bool:
        """Read its heartbeat."""
        return self.process.listen()

    def ready(self) -> bool:
        """Whether its last heartbeat is recent."""
        return self.process.responds(HEALTHY_SECONDS)

    def stop(self) -> None:
        """Kill the process: it has nothing to save."""
        self.process.stop()


class Pool:
    """Workers and their queue; any thread can call `submit`."""

    def __init__(
        self,
        start_worker: StartWorker,
        *,
        workers: int = 1,
        limits: Limits,
        on_batch: Callable[[int], None] = lambda size: None,
        on_lost: Callable[[], None] = lambda: None,
    ) -> None:
        """Start the workers and wait until each has loaded the model."""
        self._start_worker, self._limits = start_worker, limits
        self._on_batch, self._on_lost = on_batch, on_lost
        self.waiting = PhotoQueue(limit=limits.queue, batch=limits.batch, workers=workers)
        self.about: About = {}
        """Describes the model; a worker with another model is refused."""
        self._workers: list[Worker | None] = []
        self._closed = threading.Event()
        first = self._start()
        self.about = first.about
        self._workers.append(first)
        for _ in range(1, workers):
            self._workers.append(self._start())
        self._threads = [
            threading.Thread(target=self._run_worker, args=(number,), daemon=True)
            for number in range(workers)
        ]
        for thread in self._threads:
            thread.start()

    def enter(self, jobs: Sequence[Job], *, deadline: float | None = None) -> list[Ticket]:
        """Queue jobs; raises `RequestRefusedError` if the queue has no room for all of them.

        `deadline` is on the clock of `time.monotonic`; the default is the time limit from now.
        """
        until = monotonic() + self._limits.seconds if deadline is None else deadline
        tickets = [Ticket(job, until) for job in jobs]
        self.waiting.add(tickets)
        return tickets

    def submit(self, jobs: Sequence[Job], *, deadline: float | None = None) -> list[Future[Answer]]:
        """Like `enter`; returns the answers."""
        return [ticket.answer for ticket in self.enter(jobs, deadline=deadline)]

    def ready(self) -> int:
        """How many workers are ready."""
        return sum(worker is not None and worker.ready() for worker in list(self._workers))

    def close(self) -> None:
        """Stop taking jobs; workers end after they have answered the photos they have."""
        self._closed.set()
        self.waiting.close()
        for thread in self._threads:
            thread.join(self._limits.seconds)

    def _start(self) -> Worker:
        worker = self._start_worker()
        if self.about and worker.about != self.about:
            worker.stop()
            raise BundleError("the bundle has changed since the server started; restart the server")
        return worker

    def _run_worker(self, number: int) -> None:
        """Feed one worker, and those that replace it, until the pool is closed."""
        while (worker := self._running(number)) is not None:
            tickets = self.waiting.take(IDLE_SECONDS)
            if tickets is None:
                break
            try:
                if tickets:
                    self._on_batch(len(tickets))
                    self._answer(worker, tickets)
                elif not worker.listen():
                    raise WorkerLostError("it does not respond while idle")
            except WorkerLostError as lost:
                log.error("a worker crashed or hung (%s); starting another", lost)
                self._on_lost()
                self._workers[number] = None
                worker.stop()
        if worker is not None:
            worker.stop()

    def _running(self, number: int) -> Worker | None:
        """The worker of this number, started again if needed; None once the pool is closed."""
        while self._workers[number] is None and not self._closed.is_set():
            try:
                self._workers[number] = self._start()
            except Exception as error:  # no memory, for example; other workers go on
                ours = isinstance(error, (SightwordsError, OSError))
                log.error("a worker could not start; trying again (%s)", error, exc_info=not ours)
                self._closed.wait(RESTART_SECONDS)
        return self._workers[number]

    def _answer(self, worker: Worker, tickets: Sequence[Ticket]) -> None:
        """Answer the tickets; on any error, unanswered ones go back into the queue."""
        left = deque(ticket for ticket in tickets if not _expired(ticket))
        try:
            if left:
                for answer in worker.answers([ticket.job for ticket in left]):
                    left.popleft().answer.set_result(answer)
        except WorkerLostError:
            if left and not _expired(left[0]):  # the worker had it
                left[0].tries += 1
                if left[0].tries == MAX_TRIES:
                    left.popleft().answer.set_result(WORKER_DIED)
            raise
        except Exception:  # after a bug, clients must not wait in vain
            log.exception("a worker failed")
            if left:
                left.popleft().answer.set_result(INTERNAL)
        finally:
            self.waiting.put_back([ticket for ticket in left if not _expired(ticket)])


def _expired(ticket: Ticket) -> bool:
    """Whether the time limit of a ticket is over; if so, it is answered."""
    expired = ticket.deadline <= monotonic()
    if expired and not ticket.answer.done():
        ticket.answer.set_result(ticket.late())
    return expired


def about(engine: Engine) -> About:
    """What the page and `/healthz` show about the model."""
    return {
        "fingerprint": engine.captioner.fingerprint,
        "words": len(engine.captioner.vocabulary),
        "shown_precision": engine.detector.config.threshold,
        "ranks": engine.dmsm is not None,
    }


def _load(make: MakeEngine) -> Callable[[Sequence[Job] | None], Iterable[Any]]:
    """In a worker process: a function that answers jobs, or describes the model for None."""
    engine = make()
    return lambda jobs: [about(engine)] if jobs is None else engine.answers(jobs)
