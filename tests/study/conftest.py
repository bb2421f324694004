"""Tiny studies on both databases; a real PostgreSQL, started for the session."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PIL import Image

pytest.importorskip("sqlalchemy")

from sightwords.study.create import create_study
from sightwords.study.model import Design
from sightwords.study.store import Store

WORDS = ("dog", "cat", "bus", "tree", "boat", "horse", "kite", "lamp", "cake", "bridge")
COLOURS = ("red", "blue", "green", "white", "black", "brown")


def _programs() -> Path | None:
    """The folder of PostgreSQL's server programs."""
    found = shutil.which("initdb")
    if found:
        return Path(found).parent
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return folders[-1].parent if folders else None


def _memory() -> str | None:
    """A folder in memory, if there is one: databases sync every commit."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """URL of a PostgreSQL server that we start for the session."""
    programs = _programs()
    if programs is None:
        pytest.skip("PostgreSQL's server programs are not installed (apt-get install postgresql)")
    user = "postgres" if os.geteuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir=_memory() or "/tmp"))  # sockets: short paths
    if user:
        shutil.chown(folder, user)
    data = folder / "data"

    def run(*command: str) -> None:
        done = subprocess.run(
            command, user=user, cwd=folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr

    run(str(programs / "initdb"), "-D", str(data), "-U", "judge", "-A", "trust", "--no-sync")
    options = f"-c listen_addresses='' -k {folder} -c fsync=off -c max_connections=200"
    log = str(folder / "log")
    run(str(programs / "pg_ctl"), "-D", str(data), "-l", log, "-o", options, "-w", "start")
    try:
        yield f"postgresql://judge@/postgres?host={folder}"
    finally:
        run(str(programs / "pg_ctl"), "-D", str(data), "-m", "immediate", "-w", "stop")
        shutil.rmtree(folder, ignore_errors=True)


_numbers = itertools.count()


@pytest.fixture(
    params=["sqlite", pytest.param("postgresql", marks=pytest.mark.database)],
)
def where(request: pytest.FixtureRequest) -> Iterator[str]:
    """A new, empty study database, in SQLite and in PostgreSQL."""
    if request.param == "postgresql":
        yield new_schema(request.getfixturevalue("postgres"))
        return
    with tempfile.TemporaryDirectory(dir=_memory()) as folder:
        yield str(Path(folder) / "study.db")


def new_schema(url: str) -> str:
    """A schema stands for a database: it is made in milliseconds."""
    import psycopg

    name = f"study_{os.getpid()}_{next(_numbers)}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    return f"{url}&options=-csearch_path%3D{name}"


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """60 coloured squares, each with three captions, as a JSONL manifest."""
    return make_source(tmp_path_factory.mktemp("photographs"), count=60)


def make_source(folder: Path, *, count: int) -> Path:
    lines = []
    for number in range(count):
        word, colour = WORDS[number % 10], COLOURS[number // 10 % 6]
        Image.new("RGB", (60, 40), colour).save(folder / f"{number}.png")
        captions = [
            f"A {colour} {word}.",
            f"One {word} that is {colour}",
            f"There is a {word} in {colour} here",
        ]
        line = {"id": f"img-{number:02}", "image": f"{number}.png", "captions": captions}
        lines.append(json.dumps(line))
    path = folder / "photographs.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def system() -> dict[str, str]:
    return {f"img-{n:02}": f"something like a {WORDS[n % 10]}" for n in range(60)}


Make = Callable[..., Store]


@pytest.fixture
def make(where: str, source: Path, system: dict[str, str]) -> Iterator[Make]:
    """Make a study of scripted votes; keywords are the design's."""
    opened: list[Store] = []

    def make_study(**design: object) -> Store:
        small = {"pairs": 10, "pairs_per_judge": 5, "checks_per_judge": 2, "origin": "simulated"}
        store = create_study(
            where,
            Design("ours", **{**small, **design}),  # type: ignore[arg-type]
            images=source,
            system=system,
        )
        opened.append(store)
        return store

    yield make_study
    for store in opened:
        store.close()


@pytest.fixture
def serve() -> Iterator[Callable[[Store], int]]:
    """Serve a store from a thread; gives the port."""
    uvicorn = pytest.importorskip("uvicorn")
    from sightwords.http_server import server_config
    from sightwords.study.server import make_app

    running = []

    def start(store: Store) -> int:
        listener = socket.create_server(("127.0.0.1", 0))
        server = uvicorn.Server(server_config(make_app(store), "127.0.0.1", 0, connections=64))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        running.append((server, thread, listener))
        port: int = listener.getsockname()[1]
        return port

    yield start
    for server, thread, listener in running:
        server.should_exit = True
        thread.join(timeout=10)
        listener.close()
