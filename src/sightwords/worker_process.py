"""A process that loads something once and then answers requests, one at a time.

Starting, sending and receiving have time limits, and a thread in the process tells twice a second
that it runs. A worker that dies or hangs raises `WorkerLostError` in the caller, which stops it and
starts another.
"""

from __future__ import annotations

import multiprocessing
import pickle
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, Generic, TypeVar

from sightwords.errors import SightwordsError
from sightwords.parallel import (
    PATIENCE_SECONDS,
    begin_worker,
    how_it_ended,
    leave_to_parent,
    one_thread_each,
)

T = TypeVar("T")
R = TypeVar("R")

ENDING_SECONDS = 10.0
"""How long a process may take to end after it was killed or has closed its pipe."""

BEAT_SECONDS = 0.5
"""How often a worker process tells that it runs, whatever it is doing."""

SILENT_SECONDS = 8.0
"""A worker that is silent for this long hangs: it was stopped, or one call never ends."""


class WorkerLostError(SightwordsError):
    """A worker process died or hangs: stop it and start another."""

    def __init__(self, reason: str, *, hung: bool = False) -> None:
        super().__init__(reason)
        self.hung = hung
        """It lives but does not read or answer; otherwise it died."""


class AnswerError(SightwordsError):
    """One request failed in a worker with an error that is not ours; the worker continues."""


class WorkerProcess(Generic[T, R]):
    """A process that loads something once and then answers requests, one at a time.

    `load(*arguments)` runs in the process and returns the function that answers: it takes a
    request and gives its replies. Everything that is sent must be picklable. Only one thread at a
    time may use a worker; `responds` may be read by any.

        worker = WorkerProcess(load_model, path, start_seconds=60)
        for reply in worker.ask(photos, seconds=10):
            ...
    """

    def __init__(
        self,
        load: Callable[..., Callable[[T], Iterable[R]]],
        *arguments: object,
        start_seconds: float,
    ) -> None:
        """Start it and wait until it has loaded; raises what `load` raises, as `ask` does."""
        # Spawned, not forked: a fork of a process with threads may hang.
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._beats, their_beats = context.Pipe(duplex=False)
        self._process = context.Process(
            target=_work, args=(theirs, their_beats, load, arguments), daemon=True
        )
        self._heard = self._listened = 0.0
        self._loaded = False
        self._number = 0
        self._started: threading.Thread | None = None
        with one_thread_each():
            self._process.start()
        theirs.close()
        their_beats.close()
        # A worker ignores SIGTERM, with which Python ends its children at exit: kill it before.
        self._kill = weakref.finalize(self, self._process.kill)
        try:
            for _ in self._replies(start_seconds):
                pass
        except BaseException:
            self.stop()
            raise
        self._heard, self._loaded = time.monotonic(), True

    @property
    def pid(self) -> int:
        """The number of the process."""
        assert self._process.pid is not None
        return self._process.pid

    def responds(self, within: float | None = None) -> bool:
        """Whether the process lives and was heard recently, as far as `listen` knows."""
        silent = time.monotonic() - self._heard
        return self._process.is_alive() and silent < (within or SILENT_SECONDS)

    def listen(self) -> bool:
        """Check whether the process runs; call it every few seconds while the worker is idle."""
        now = time.monotonic()
        if now - self._listened > SILENT_SECONDS / 2:  # this process did not run either
            self._heard = now
        self._listened = now
        with suppress(EOFError, OSError):
            while self._beats.poll():
                self._beats.recv_bytes()
                self._heard = now
        return self.responds()

    def ask(self, request: T, *, seconds: float) -> Iterator[R]:
        """The replies to a request, each within so many seconds of the one before.

        Raises `WorkerLostError` where the process died or hangs, our own errors as they were
        raised, and `AnswerError` for every other error; after the latter two the worker continues.
        """
        self._number += 1
        message = (self._number, request)
        self._within(seconds, lambda: self._pipe.send(message), "take its request")
        yield from self._replies(seconds)

    def stop(self) -> None:
        """Kill it, even if it is stopped, and wait for its end."""
        self._process.kill()
        self._process.join(ENDING_SECONDS)
        if self._started is not None:
            self._started.join(PATIENCE_SECONDS)  # its end of the pipe is gone: this ends too
            if self._started.is_alive():
                return  # closing a pipe that a thread still uses could hit another file
        self._pipe.close()
        self._beats.close()
        self._kill.detach()

    def _replies(self, seconds: float) -> Iterator[R]:
        while True:
            number, kind, value = self._within(seconds, self._pipe.recv, "answer")
            if number != self._number:  # of a request whose replies were not all read
                continue
            if kind == "end":
                return
            if kind == "error":
                raise value
            yield value

    def _within(self, seconds: float, act: Callable[[], Any], what: str) -> Any:
        """Use the pipe in a thread: neither reading nor writing has a time limit of its own."""
        done: Future[Any] = Future()

        def run() -> None:
            try:
                done.set_result(act())
            except BaseException as error:
                done.set_exception(error)

        self._started = threading.Thread(target=run, daemon=True)
        self._started.start()
        until = time.monotonic() + seconds
        while not wait([done], max(0.0, min(BEAT_SECONDS, until - time.monotonic()))).done:
            # Of a process that died the pipe is about to tell.
            silent = self._loaded and not self.listen() and self._process.is_alive()
            if silent or time.monotonic() >= until:
                limit = SILENT_SECONDS if silent else seconds
                message = f"the worker process did not {what} in {limit:g} seconds"
                raise WorkerLostError(message, hung=True)
        try:
            return done.result()
        except (EOFError, OSError) as error:
            self._process.join(ENDING_SECONDS)  # its end of the pipe is closed
            message = f"the worker process {how_it_ended(self._process.exitcode)}"
            raise WorkerLostError(message) from error


def _work(
    pipe: Connection,
    beats: Connection,
    load: Callable[..., Callable[[T], Iterable[R]]],
    arguments: tuple[object, ...],
) -> None:
    """The life of a worker process; it ends when its parent does."""
    begin_worker()
    leave_to_parent("SIGTERM", "SIGHUP")
    threading.Thread(target=_beat, args=(beats,), daemon=True).start()
    number = 0
    try:
        answers = load(*arguments)
    except Exception as error:
        pipe.send((number, "error", _portable(error)))
        return
    pipe.send((number, "end", None))
    with suppress(EOFError, OSError):
        while True:
            number, request = pipe.recv()
            for kind, value in _told(answers, request):
                pipe.send((number, kind, value))


def _beat(beats: Connection) -> None:
    with suppress(OSError):  # the parent has gone
        while True:
            beats.send_bytes(b".")
            time.sleep(BEAT_SECONDS)


def _told(answers: Callable[[T], Iterable[R]], request: T) -> Iterator[tuple[str, Any]]:
    try:
        for reply in answers(request):
            yield "reply", reply
    except Exception as error:
        yield "error", _portable(error)
    else:
        yield "end", None


def _portable(error: Exception) -> SightwordsError:
    """Our errors as they are; others, which may not be picklable, as text."""
    if isinstance(error, SightwordsError):
        with suppress(Exception):
            pickle.loads(pickle.dumps(error))
            return error
    return AnswerError("".join(traceback.format_exception(error)).strip())
