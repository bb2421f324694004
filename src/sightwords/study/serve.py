"""Run the judges' server until it is told to stop."""

from __future__ import annotations

from sightwords.http_server import run_server
from sightwords.study.app import make_app
from sightwords.study.store import Store

CONNECTIONS = 256
"""Of judges' browsers at a time; each opens a few."""


def serve(store: Store, *, host: str = "127.0.0.1", port: int = 8000) -> None:
    """Serve judges. Addresses hold their keys, so requests are not logged."""
    run_server(make_app(store), host=host, port=port, connections=CONNECTIONS, grace_seconds=10)
