"""Run the judges' server until it is told to stop."""

from __future__ import annotations

import uvicorn

from sightwords.study.app import make_app
from sightwords.study.store import Store


def serve(store: Store, *, host: str = "127.0.0.1", port: int = 8000) -> None:
    """Serve judges. Addresses hold their keys, so requests are not logged."""
    uvicorn.run(
        make_app(store),
        host=host,
        port=port,
        access_log=False,
        log_level="warning",
        server_header=False,
        proxy_headers=False,
    )
