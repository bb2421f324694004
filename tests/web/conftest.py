"""A server with a model of eight words, in this process."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fastapi")

import uvicorn
from starlette.testclient import TestClient

from sightwords.http_server import server_config
from sightwords.web.engine import Engine, Job
from sightwords.web.limits import Limits
from sightwords.web.photo_queue import Answer
from sightwords.web.serve import guarded_app
from sightwords.web.workers import MakeEngine, StartWorker, about

Running = Callable[[Any], AbstractContextManager[str]]
InThread = Callable[[MakeEngine], StartWorker]


class ThreadWorker:
    """Works in the thread that asks, without a process of its own."""

    def __init__(self, make: MakeEngine) -> None:
        self._engine = make()
        self.about = about(self._engine)

    def answers(self, jobs: Sequence[Job]) -> Iterator[Answer]:
        return self._engine.answers(jobs)

    def listen(self) -> bool:
        return True

    def ready(self) -> bool:
        return True

    def stop(self) -> None:
        pass


@pytest.fixture(scope="session")
def in_thread() -> InThread:
    """How to start a worker without a process, for an engine."""
    return lambda make: partial(ThreadWorker, make)


@pytest.fixture(scope="session")
def make_engine(tiny_bundle: Path) -> partial[Engine]:
    return partial(Engine.load, tiny_bundle)


class Similar:
    """Stands for the similarity model, which a bundle of eight words has no use for."""

    def score(self, features: Any, sentences: Any) -> Any:
        return np.array([float(len(words)) / 10 for words in sentences])

    def shares(self, scores: Any) -> Any:
        return scores / scores.sum()


@pytest.fixture(scope="session")
def make_ranking_engine(make_engine: partial[Engine]) -> Callable[[], Engine]:
    def make() -> Engine:
        engine = make_engine()
        engine.dmsm = Similar()  # type: ignore[assignment]
        return engine

    return make


@pytest.fixture(scope="module")
def client(make_engine: partial[Engine], in_thread: InThread) -> Iterator[TestClient]:
    """A client of the whole application, with one worker in a thread."""
    limits = Limits(body_bytes=400_000, pixels=1_000_000, images=4, sentences=5, seconds=20)
    make = partial(make_engine, limits=limits)
    with guarded_app(in_thread(make), limits=limits) as app:
        yield TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False)


@contextmanager
def _running(app: Any) -> Iterator[str]:
    """A real server on a free port; its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = uvicorn.Server(server_config(app, "127.0.0.1", port, connections=100))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + 20
    while not server.started and time.monotonic() < deadline:
        time.sleep(0.02)
    assert server.started
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join(10)


@pytest.fixture(scope="session")
def running() -> Running:
    """Runs an ASGI application on a real port."""
    return _running
