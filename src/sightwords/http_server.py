"""How both servers, `serve` and `study serve`, speak HTTP: with time limits for rude clients.

uvicorn alone waits for ever for the rest of a request's head, reads on after a body was refused,
and keeps an answer that nobody fetches. Here a connection that makes no progress is closed, an
answer that was given before the body was read ends its connection, and the number of connections
is bounded.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from socket import socket
from time import monotonic
from types import FrameType
from typing import TYPE_CHECKING, Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

LONGEST_HEAD = 64 << 10
HEAD_SECONDS = 10.0
"""From a connection's begin, or a request's first byte, to the end of its head."""
FETCH_SECONDS = 60.0
"""How long an answer may wait for a client that does not fetch it."""
IDLE_SECONDS = 5
"""Between two requests of one connection."""
DRAIN_SECONDS = 2.0
DRAIN_BYTES = 48 << 20
"""So much of a refused body is still read, so that simple clients see the answer."""

FREE_CHUNKS = 1000
CHUNK_BYTES = 100
"""Of a body in chunks: beyond the free ones they must have so many bytes on average."""


def run_server(
    app: ASGIApp,
    *,
    host: str,
    port: int,
    connections: int,
    grace_seconds: float,
    on_ready: Callable[[], None] = lambda: None,
) -> None:
    """Serve until SIGINT, SIGTERM or SIGHUP; requests that were taken are answered first.

    `connections` are served at a time; further ones are answered 503 or closed. A second SIGINT
    ends the server at once, else `grace_seconds` after the first at the latest.
    """
    server = _Server(server_config(app, host, port, connections, grace_seconds), on_ready)
    with suppress(KeyboardInterrupt):
        server.run()


def server_config(
    app: ASGIApp, host: str, port: int, connections: int, grace_seconds: float = 10
) -> uvicorn.Config:
    """Settings of uvicorn, the same for both servers."""
    return uvicorn.Config(
        CloseUnread(app),
        host=host,
        port=port,
        http=PatientProtocol,
        ws="none",
        access_log=False,
        log_level="error",  # a warning for each bad request would fill the log
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=IDLE_SECONDS,
        # A body may be refused at the last moment; what is left of it is read then.
        timeout_graceful_shutdown=int(grace_seconds + DRAIN_SECONDS) + 2,
        limit_concurrency=connections,
        h11_max_incomplete_event_size=LONGEST_HEAD,
    )


class _Server(uvicorn.Server):
    """Says when it has begun, and ends in peace."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self.on_ready = on_ready

    async def startup(self, sockets: list[socket] | None = None) -> None:
        await super().startup(sockets)
        self._heed_hangup()
        self.on_ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # uvicorn would raise the signal again at the end, before our workers have gone.
        if self.should_exit and sig == signal.SIGINT:
            self.force_exit = True
        self.should_exit = True

    def _heed_hangup(self) -> None:
        """A closed terminal ends the server as SIGTERM does, unless nohup has it ignored."""
        hangup = getattr(signal, "SIGHUP", None)
        if hangup is None or threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(hangup) is not signal.SIG_IGN:
            signal.signal(hangup, self.handle_exit)


class _Chunks(h11.Connection):
    """Refuses bodies in chunks of a few bytes: reading them would keep the server from all else."""

    _count = _bytes = 0

    def next_event(self) -> Any:
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._count = self._bytes = 0
        elif isinstance(event, h11.Data):
            self._count += event.chunk_end
            self._bytes += len(event.data)
            if self._count > FREE_CHUNKS + self._bytes // CHUNK_BYTES:
                raise h11.RemoteProtocolError("too many small chunks")
        return event


class PatientProtocol(H11Protocol):
    """A connection whose patience ends: with heads that do not end, and answers not fetched."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.conn = _Chunks(h11.SERVER, LONGEST_HEAD)

    _head: asyncio.TimerHandle | None = None
    _fetch: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request; beyond twice the limit of connections, close at once."""
        super().connection_made(transport)
        self._wait_for_head()
        if self.limit_concurrency and len(self.connections) > 2 * self.limit_concurrency:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing to wait for."""
        self._stop_waiting_for_head()
        self._stop_waiting_for_fetch()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Wait for the rest of a head; the application has limits of its own for the body."""
        super().handle_events()
        if self.conn.their_state is h11.IDLE:
            if self._head is None:
                self._wait_for_head()
            return
        self._stop_waiting_for_head()
        if not self.flow.write_paused:
            self._stop_waiting_for_fetch()

    def on_response_complete(self) -> None:
        """Wait until the client has fetched the answer, or sends another request."""
        if not self.flow.write_paused:
            self._wait_for_fetch()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """The client does not fetch its answer."""
        super().pause_writing()
        self._wait_for_fetch()

    def resume_writing(self) -> None:
        """It does; of a whole answer the rest may still wait to be fetched."""
        super().resume_writing()
        self._stop_waiting_for_fetch()
        if self.transport.is_closing() or self.cycle.response_complete:
            self._wait_for_fetch()

    def _wait_for_head(self) -> None:
        self._head = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def _stop_waiting_for_head(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _wait_for_fetch(self) -> None:
        self._stop_waiting_for_fetch()
        self._fetch = self.loop.call_later(FETCH_SECONDS, self.transport.abort)

    def _stop_waiting_for_fetch(self) -> None:
        if self._fetch is not None:
            self._fetch.cancel()
            self._fetch = None


@dataclass
class CloseUnread:
    """Around an application: an answer given before the body was read closes the connection."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on; drain a little of the body before the connection is closed."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        unread, closing = has_body(scope), False

        async def read() -> Message:
            nonlocal unread
            message = await receive()
            unread = unread and message.get("more_body", False)
            return message

        async def answer(message: Message) -> None:
            nonlocal closing
            if message["type"] == "http.response.start" and unread:
                closing = True
                message["headers"] = [*message.get("headers", ()), (b"connection", b"close")]
            if not closing or message["type"] == "http.response.start" or message.get("more_body"):
                await send(message)
                return
            await send({**message, "more_body": True})
            if not _expects(scope):  # such a client sends its body only when told to
                await _drain(read)
            await send({"type": "http.response.body", "body": b"", "more_body": False})

        await self.app(scope, read, answer)


def has_body(scope: Scope) -> bool:
    """Whether a request announces a body.

    >>> has_body({"headers": [(b"content-length", b"0")]}), has_body({"headers": []})
    (False, False)
    >>> has_body({"headers": [(b"transfer-encoding", b"chunked")]})
    True
    """
    headers = dict(scope["headers"])
    return headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers


def _expects(scope: Scope) -> bool:
    return any(name == b"expect" for name, _ in scope["headers"])


async def _drain(receive: Callable[[], Any]) -> None:
    """Read and forget: a connection closed with unread bytes would take the answer with it."""
    until, left = monotonic() + DRAIN_SECONDS, DRAIN_BYTES
    with suppress(asyncio.TimeoutError):
        while left > 0:
            message = await asyncio.wait_for(receive(), max(0.0, until - monotonic()))
            left -= len(message.get("body", b""))
            if not message.get("more_body", False):
                return
