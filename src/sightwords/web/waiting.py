"""The bounded queue of photos: what clients put in, what workers take out."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from sightwords.web.engine import Job, Value
from sightwords.web.problems import BUSY, RESTARTING, TOO_LATE, Problem, Refused

Answer = Value | Problem


@dataclass(slots=True, eq=False)
class Ticket:
    """A job that waits for its answer."""

    job: Job
    deadline: float
    """By the clock of `time.monotonic`."""
    answer: Future[Answer] = field(default_factory=Future)
    tries: int = 0
    """How many workers were lost with it."""

    def late(self) -> Problem:
        """What to tell a client whose time is up: to come back, unless its photo takes so long."""
        if self.tries:
            return RESTARTING
        return TOO_LATE if self.answer.running() else BUSY


class Waiting:
    """First come, first served; never more than `limit`.

    >>> queue = Waiting(limit=3, batch=2, workers=1)
    >>> tickets = [Ticket(Job(kind="words", name=n, data=b""), math.inf) for n in "abc"]
    >>> queue.add(tickets)
    >>> [t.job.name for t in queue.take() or ()], len(queue)
    (['a', 'b'], 1)
    """

    def __init__(self, *, limit: int, batch: int, workers: int) -> None:
        self._limit, self._batch, self._workers = limit, batch, workers
        self._tickets: deque[Ticket] = deque()
        self._changed = threading.Condition()
        self._closed = False

    def __len__(self) -> int:
        return len(self._tickets)

    def add(self, tickets: Sequence[Ticket]) -> None:
        """All or none; raises `Refused` where they do not fit."""
        with self._changed:
            if len(self._tickets) + len(tickets) > self._limit:  # those who went away make room
                self._tickets = deque(t for t in self._tickets if not t.answer.cancelled())
            if self._closed or len(self._tickets) + len(tickets) > self._limit:
                raise Refused(BUSY)
            self._tickets.extend(tickets)
            self._changed.notify(len(tickets))

    def put_back(self, tickets: Sequence[Ticket]) -> None:
        """To the front, in their order; they were taken before and need no room."""
        with self._changed:
            if self._closed:
                for ticket in tickets:
                    ticket.answer.set_result(RESTARTING)
                return
            self._tickets.extendleft(reversed(tickets))
            self._changed.notify(len(tickets))

    def take(self, seconds: float | None = None) -> list[Ticket] | None:
        """A worker's share of what waits; empty if nothing comes in time, None once closed."""
        with self._changed:
            while True:
                self._changed.wait_for(lambda: self._tickets or self._closed, seconds)
                if self._closed:
                    return None
                if not self._tickets:
                    return []
                share = math.ceil(len(self._tickets) / self._workers)
                taken = [self._tickets.popleft() for _ in range(min(share, self._batch))]
                # A client that went away, or will not wait any longer, has cancelled its ticket.
                if alive := [t for t in taken if _wanted(t)]:
                    return alive

    def close(self) -> None:
        """Let every worker go home; what waits is answered `busy`."""
        with self._changed:
            self._closed = True
            for ticket in self._tickets:
                if _wanted(ticket):
                    ticket.answer.set_result(BUSY)
            self._tickets.clear()
            self._changed.notify_all()


def _wanted(ticket: Ticket) -> bool:
    return ticket.answer.running() or ticket.answer.set_running_or_notify_cancel()
