"""Counts for Prometheus, in a registry of its own: two servers in one process do not mix."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

SECONDS = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30)
SIZES = (1, 2, 3, 4, 6, 8, 12, 16)


class Metrics:
    """What is counted."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "sightwords_requests", "Answered requests", ["path", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "sightwords_request_seconds",
            "From a request's first byte to its answer",
            ["path"],
            buckets=SECONDS,
            registry=self.registry,
        )
        self.batches = Histogram(
            "sightwords_batch_photographs",
            "Photographs that a worker took together",
            buckets=SIZES,
            registry=self.registry,
        )
        self._waiting = Gauge(
            "sightwords_waiting_photographs", "In the queue", registry=self.registry
        )
        self._held = Gauge(
            "sightwords_held_bytes", "Of bodies that are read or wait", registry=self.registry
        )
        self._workers = Gauge(
            "sightwords_workers", "Worker processes that can make a caption", registry=self.registry
        )
        self.lost_workers = Counter(
            "sightwords_lost_workers",
            "Worker processes that died or hung and were replaced",
            registry=self.registry,
        )
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)

    def watch(
        self,
        *,
        waiting: Callable[[], float],
        held: Callable[[], float],
        workers: Callable[[], float],
    ) -> None:
        """Where to read those that rise and fall."""
        self._waiting.set_function(waiting)
        self._held.set_function(held)
        self._workers.set_function(workers)

    def text(self) -> bytes:
        """In the format that Prometheus reads."""
        return generate_latest(self.registry)
