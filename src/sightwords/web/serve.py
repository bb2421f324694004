"""START HERE: a bundle and limits -> a server that runs until it is told to stop."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from socket import socket

import uvicorn
from starlette.types import ASGIApp

from sightwords.web.app import make_app
from sightwords.web.engine import Engine
from sightwords.web.guard import LOOPBACK, Guard
from sightwords.web.limits import Limits
from sightwords.web.metrics import Metrics
from sightwords.web.workers import MakeEngine, Pool

PATHS = (
    "/", "/v1/caption", "/v1/words", "/v1/rank", "/v1/explain", "/healthz", "/metrics",
)  # fmt: skip


@contextmanager
def guarded_app(
    make: MakeEngine,
    *,
    workers: int,
    limits: Limits | None = None,
    token: str | None = None,
    hosts: Collection[str] | None = LOOPBACK,
) -> Iterator[ASGIApp]:
    """The whole ASGI application, its workers running."""
    limits, metrics = limits or Limits(), Metrics()
    pool = Pool(make, workers=workers, limits=limits, on_batch=metrics.batches.observe)
    try:
        app = make_app(pool, limits, metrics, wants_token=token is not None)
        yield Guard(app, metrics, token, hosts, PATHS)
    finally:
        pool.close()


def serve(
    bundle: str | os.PathLike[str] | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    workers: int = 1,
    limits: Limits | None = None,
    token: str | None = None,
    hosts: Collection[str] | None = LOOPBACK,
    on_ready: Callable[[], None] = lambda: None,
) -> None:
    """Serve until stopped. `hosts` are the names that the server answers to; None: all.

    `on_ready` is called once requests are taken.
    """
    chosen = limits or Limits()
    make = partial(Engine.load, bundle, limits=chosen, threads=1)
    with guarded_app(make, workers=workers, limits=chosen, token=token, hosts=hosts) as app:
        config = uvicorn.Config(
            app,
            host=host,
            port=port,
            access_log=False,
            log_level="warning",
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=10,
            # Beyond the queue a client gets 503 with Retry-After; this is for floods only.
            limit_concurrency=8 * chosen.queue,
            h11_max_incomplete_event_size=64 * 1024,
        )
        with suppress(KeyboardInterrupt):
            _Server(config, on_ready).run()


class _Server(uvicorn.Server):
    """Says when it has begun."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self.on_ready = on_ready

    async def startup(self, sockets: list[socket] | None = None) -> None:
        await super().startup(sockets)
        self.on_ready()
