"""Prometheus metrics, in their own registry, so that two servers in one process stay apart."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

SECONDS = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30)
SIZES = (1, 2, 3, 4, 6, 8, 12, 16)


class Metrics:
    """The metrics of one server."""

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
            "Photos that a worker took from the queue at a time",
            buckets=SIZES,
            registry=self.registry,
        )
        self._waiting = Gauge(
            "sightwords_waiting_photographs", "Photos in the queue", registry=self.registry
        )
        self._held = Gauge(
            "sightwords_held_bytes", "Request bodies in memory", registry=self.registry
        )
        self._workers = Gauge(
            "sightwords_workers", "Worker processes that are ready", registry=self.registry
        )
        self.lost_workers = Counter(
            "sightwords_lost_workers",
            "Worker processes that crashed or hung and were replaced",
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
        """Set where to read the gauges."""
        self._waiting.set_function(waiting)
        self._held.set_function(held)
        self._workers.set_function(workers)

    def text(self) -> bytes:
        """In the text format of Prometheus."""
        return generate_latest(self.registry)
