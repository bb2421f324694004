"""HTTP for both servers, `serve` and `study serve`: uvicorn with time limits for slow clients.

uvicorn alone waits forever for the rest of a request's head, continues to read a body after it was
refused, and keeps answers that nobody reads. Here, a connection without progress is closed, an
answer that is sent before the body was read ends the connection, and the number of connections is
limited.
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

MAX_HEAD_BYTES = 64 << 10
HEAD_SECONDS = 10.0
"""From the start of a connection, or the first byte of a request, to the end of its head."""
READ_SECONDS = 60.0
"""How long an answer waits for a client that does not read it."""
IDLE_SECONDS = 5
"""Between two requests on one connection."""
DRAIN_SECONDS = 2.0
DRAIN_BYTES = 48 << 20
"""The most that is still read of a refused body, so that simple clients see the answer."""

FREE_CHUNKS = 1000
CHUNK_BYTES = 100
"""Beyond the free chunks, the chunks of a body must have this many bytes on average."""


def run_server(
    app: ASGIApp,
    *,
    host: str,
    port: int,
    connections: int,
    grace_seconds: float,
    on_ready: Callable[[], None] = lambda: None,
) -> None:
    """Serve until SIGINT, SIGTERM or SIGHUP; current requests are answered first.

    Connections beyond `connections` are answered with 503 or closed. The server ends at most
    `grace_seconds` after the signal, or at once after a second SIGINT.
    """
    server = _Server(server_config(app, host, port, connections, grace_seconds), on_ready)
    with suppress(KeyboardInterrupt):
        server.run()


def server_config(
    app: ASGIApp, host: str, port: int, connections: int, grace_seconds: float = 10
) -> uvicorn.Config:
    """The uvicorn settings of both servers."""
    return uvicorn.Config(
        CloseUnread(app),
        host=host,
        port=port,
        http=TimeLimitedProtocol,
        ws="none",
        access_log=False,
        log_level="error",  # warnings about bad requests would fill the log
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=IDLE_SECONDS,
        # A body can be refused at the last moment; then the rest of it is read.
        timeout_graceful_shutdown=int(grace_seconds + DRAIN_SECONDS) + 2,
        limit_concurrency=connections,
        h11_max_incomplete_event_size=MAX_HEAD_BYTES,
    )


class _Server(uvicorn.Server):
    """Reports when it is ready, and shuts down cleanly."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self.on_ready = on_ready

    async def startup(self, sockets: list[socket] | None = None) -> None:
        await super().startup(sockets)
        self._handle_hangup()
        self.on_ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # uvicorn would raise the signal again at the end, before our workers have ended.
        if self.should_exit and sig == signal.SIGINT:
            self.force_exit = True
        self.should_exit = True

    def _handle_hangup(self) -> None:
        """SIGHUP (a closed terminal) works like SIGTERM, unless nohup ignores it."""
        hangup = getattr(signal, "SIGHUP", None)
        if hangup is None or threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(hangup) is not signal.SIG_IGN:
            signal.signal(hangup, self.handle_exit)


class _Chunks(h11.Connection):
    """Refuses bodies in chunks of a few bytes: reading them would block the server."""

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


class _Deadline:
    """Aborts a connection unless it is stopped in time."""

    def __init__(self, protocol: H11Protocol) -> None:
        self._protocol = protocol
        self._timer: asyncio.TimerHandle | None = None

    @property
    def running(self) -> bool:
        return self._timer is not None

    def start(self, seconds: float) -> None:
        self.stop()
        self._timer = self._protocol.loop.call_later(seconds, self._protocol.transport.abort)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class TimeLimitedProtocol(H11Protocol):
    """A connection with time limits for heads that do not end and answers that nobody reads."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.conn = _Chunks(h11.SERVER, MAX_HEAD_BYTES)
        self._head, self._reader = _Deadline(self), _Deadline(self)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a request; beyond twice the limit of connections, close at once."""
        super().connection_made(transport)
        self._head.start(HEAD_SECONDS)
        if self.limit_concurrency and len(self.connections) > 2 * self.limit_concurrency:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all timers."""
        self._head.stop()
        self._reader.stop()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Wait for the rest of a head; the application limits the time for the body."""
        super().handle_events()
        if self.conn.their_state is h11.IDLE:
            if not self._head.running:
                self._head.start(HEAD_SECONDS)
            return
        self._head.stop()
        if not self.flow.write_paused:
            self._reader.stop()

    def on_response_complete(self) -> None:
        """Wait until the client has read the answer, or sends another request."""
        if not self.flow.write_paused:
            self._reader.start(READ_SECONDS)
        super().on_response_complete()

    def pause_writing(self) -> None:
        """The client does not read its answer."""
        super().pause_writing()
        self._reader.start(READ_SECONDS)

    def resume_writing(self) -> None:
        """The client reads again; the rest of a complete answer may still have to be read."""
        super().resume_writing()
        self._reader.stop()
        if self.transport.is_closing() or self.cycle.response_complete:
            self._reader.start(READ_SECONDS)


@dataclass
class CloseUnread:
    """Wraps an application: an answer that is sent before the body was read ends the connection."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application; read a part of an unread body before the connection is closed."""
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
            if not _expects(scope):  # such a client has not sent its body
                await _drain(read)
            await send({"type": "http.response.body", "body": b"", "more_body": False})

        await self.app(scope, read, answer)


def has_body(scope: Scope) -> bool:
    """Whether a request has a body.

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
    """Read and ignore: if unread bytes remain, closing the connection would discard the answer."""
    until, left = monotonic() + DRAIN_SECONDS, DRAIN_BYTES
    with suppress(asyncio.TimeoutError):
        while left > 0:
            message = await asyncio.wait_for(receive(), max(0.0, until - monotonic()))
            left -= len(message.get("body", b""))
            if not message.get("more_body", False):
                return
