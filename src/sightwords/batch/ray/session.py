"""Ray itself: join or start it, ask how large it is, give it units, read its rows."""

from __future__ import annotations

import logging
import os
import pickle
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from sightwords.batch.parquet import require_pyarrow
from sightwords.batch.workers import THREADS
from sightwords.errors import SightwordsError, require

CONNECT_SECONDS = 5.0
_VARIABLES = {
    "RAY_BACKEND_LOG_LEVEL": "fatal",  # its C++ side would report to stderr what it repairs itself
    "RAY_USAGE_STATS_ENABLED": "0",  # nothing is reported to anybody
    "RAY_worker_niceness": "0",  # of a cluster that is started here: as the local engine
}


def require_ray() -> Any:
    """Ray with Ray Data, or the command that installs it."""
    ray = require("ray", extra="ray", purpose="--engine ray")
    require("ray.data", extra="ray", purpose="--engine ray")
    require_pyarrow()
    return ray


@contextmanager
def connected(ray: Any, address: str | None) -> Iterator[None]:
    """Join a cluster, or start one on this machine; one that was joined before is used."""
    joined = ray.is_initialized()
    with _unless_set(_VARIABLES):
        if not joined:
            _join(ray, address or os.environ.get("RAY_ADDRESS") or "local")
        try:
            with _set(ray.data.DataContext.get_current(), _SETTINGS):
                yield
        finally:
            if not joined:
                ray.shutdown()


_SETTINGS = {
    "target_max_block_size": 1,  # one slice per block: any actor may take it
    "enable_progress_bars": False,
    "print_on_execution_start": False,
    "memory_usage_poll_interval_s": None,  # would walk through an actor's memory every second
}


@contextmanager
def _set(context: Any, settings: dict[str, Any]) -> Iterator[None]:
    """Ray Data's settings for a while; one that this version of it lacks is left out."""
    known = {name: getattr(context, name) for name in settings if hasattr(context, name)}
    for name in known:
        setattr(context, name, settings[name])
    try:
        yield
    finally:
        for name, value in known.items():
            setattr(context, name, value)


def _join(ray: Any, address: str) -> None:
    host, _, port = address.rpartition(":")
    try:
        if host and port.isdecimal():  # Ray itself would try for a minute
            socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS).close()
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        ray.init(
            address=address,
            log_to_driver=False,
            logging_level=logging.ERROR,
            **({"include_dashboard": False} if address == "local" else {}),
        )
    except (OSError, RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise SightwordsError(
            f"--address {address}: no Ray cluster answers ({reason}); check that it runs with: ray "
            "status --address HOST:PORT, and that this machine has the same Ray and Python"
        ) from error


@contextmanager
def _unless_set(defaults: dict[str, str]) -> Iterator[None]:
    added = {name: value for name, value in defaults.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


def shape(ray: Any, workers: int | None) -> tuple[int, int]:
    """Threads of an actor, and actors: all cores of the cluster, or as many as were asked for."""
    alive = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    cores = [int(node["CPU"]) for node in alive if node.get("CPU", 0) >= 1]
    if not cores:
        raise SightwordsError(
            "the cluster has no machine with a free core; start one with: ray start --address ..."
        )
    threads = min(THREADS, *cores, workers or THREADS)
    room = sum(count // threads for count in cores)
    return threads, min(room, -(-workers // threads)) if workers else room


def source_of(ray: Any, rows: Iterable[object]) -> Any:
    """One row per unit, each in its own block: Ray distributes blocks."""
    items = [{"unit": pickle.dumps(row)} for row in rows]
    return ray.data.from_items(items, override_num_blocks=len(items))


def rows_of(data: Any) -> Iterator[dict[str, Any]]:
    """Run a pipeline of Ray Data; raises what its machines report."""
    exceptions = require("ray.exceptions", extra="ray", purpose="--engine ray")
    try:
        for batch in data.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=0):
            for row in batch.to_pylist():
                if row["fatal"]:
                    raise SightwordsError(row["fatal"])
                yield row
    except exceptions.RayError as error:
        last = next((line for line in reversed(str(error).splitlines()) if line.strip()), "")
        raise SightwordsError(
            f"Ray gave up ({type(error).__name__}: {last.strip()}); finished captions are kept: "
            "continue with --resume"
        ) from error
