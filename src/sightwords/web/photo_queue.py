"""The bounded queue of photos: requests put photos in, workers take them out."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from sightwords.web.engine import Job, Value
from sightwords.web.errors import BUSY, RESTARTING, TOO_LATE, ApiError, RequestRefusedError

Answer = Value | ApiError


@dataclass(slots=True, eq=False)
class Ticket:
    """A job that waits for its answer."""

    job: Job
    deadline: float
    """On the clock of `time.monotonic`."""
    answer: Future[Answer] = field(default_factory=Future)
    tries: int = 0
    """How many workers crashed while they had it."""

    def late(self) -> ApiError:
        """The error for a client whose time is up."""
        if self.tries:
            return RESTARTING
        return TOO_LATE if self.answer.running() else BUSY


class PhotoQueue:
    """First in, first out; never more than `limit` photos.

    >>> queue = PhotoQueue(limit=3, batch=2, workers=1)
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
        """Add all, or raise `RequestRefusedError` if they do not fit."""
        with self._changed:
            if len(self._tickets) + len(tickets) > self._limit:  # clients that left make room
                self._tickets = deque(t for t in self._tickets if not t.answer.cancelled())
            if self._closed or len(self._tickets) + len(tickets) > self._limit:
                raise RequestRefusedError(BUSY)
            self._tickets.extend(tickets)
            self._changed.notify(len(tickets))

    def put_back(self, tickets: Sequence[Ticket]) -> None:
        """Put tickets back at the front, in order, even if the queue is full."""
        with self._changed:
            if self._closed:
                for ticket in tickets:
                    ticket.answer.set_result(RESTARTING)
                return
            self._tickets.extendleft(reversed(tickets))
            self._changed.notify(len(tickets))

    def take(self, seconds: float | None = None) -> list[Ticket] | None:
        """A worker's share of the queue; empty if nothing arrives in time, None once closed."""
        with self._changed:
            while True:
                self._changed.wait_for(lambda: self._tickets or self._closed, seconds)
                if self._closed:
                    return None
                if not self._tickets:
                    return []
                share = math.ceil(len(self._tickets) / self._workers)
                taken = [self._tickets.popleft() for _ in range(min(share, self._batch))]
                # The ticket of a client that left, or stopped waiting, is cancelled.
                if alive := [t for t in taken if _wanted(t)]:
                    return alive

    def close(self) -> None:
        """End the wait of every worker; tickets in the queue are answered `busy`."""
        with self._changed:
            self._closed = True
            for ticket in self._tickets:
                if _wanted(ticket):
                    ticket.answer.set_result(BUSY)
            self._tickets.clear()
            self._changed.notify_all()


def _wanted(ticket: Ticket) -> bool:
    return ticket.answer.running() or ticket.answer.set_running_or_notify_cancel()
