"""START HERE: builds the application from a bundle and limits, and serves it until stopped."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial

from starlette.types import ASGIApp

from sightwords.http_server import run_server
from sightwords.web.app import make_app
from sightwords.web.engine import Engine
from sightwords.web.guard import LOOPBACK, Guard
from sightwords.web.limits import Limits
from sightwords.web.metrics import Metrics
from sightwords.web.workers import Pool, ProcessWorker, StartWorker

PATHS = (
    "/", "/v1/caption", "/v1/words", "/v1/rank", "/v1/explain", "/healthz", "/metrics",
)  # fmt: skip


@contextmanager
def guarded_app(
    start_worker: StartWorker,
    *,
    workers: int = 1,
    limits: Limits | None = None,
    token: str | None = None,
    hosts: Collection[str] | None = LOOPBACK,
) -> Iterator[ASGIApp]:
    """The whole ASGI application with running workers."""
    limits, metrics = limits or Limits(), Metrics()
    pool = Pool(
        start_worker,
        workers=workers,
        limits=limits,
        on_batch=metrics.batches.observe,
        on_lost=metrics.lost_workers.inc,
    )
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
    """Serve until stopped. `hosts` are the accepted host names; None: all.

    `on_ready` is called when the server accepts requests.
    """
    chosen = limits or Limits()
    make = partial(Engine.load, bundle, limits=chosen, threads=1)
    start = partial(ProcessWorker, make, seconds=chosen.seconds)
    with guarded_app(start, workers=workers, limits=chosen, token=token, hosts=hosts) as app:
        run_server(
            app,
            host=host,
            port=port,
            # A full queue gives 503 with Retry-After; this limit is for floods only.
            connections=8 * chosen.queue,
            grace_seconds=chosen.seconds,
            on_ready=on_ready,
        )
