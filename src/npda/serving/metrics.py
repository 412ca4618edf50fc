"""What Prometheus may ask: how long things take, how much waits, what is searched."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)


class Metrics:
    """One set for one server, in a registry of its own, so that several servers fit into one process."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.requests = Counter(
            "npda_requests", "Requests answered, by route and status.", ("method", "route", "status"), registry=registry
        )
        self.seconds = Histogram(
            "npda_request_seconds",
            "Seconds by phase: receive, decode (the file), load (a model), hear, wait, search, translate, total.",
            ("phase",),
            buckets=_SECONDS,
            registry=registry,
        )
        self.in_flight = Gauge("npda_requests_in_flight", "Requests that have no answer yet.", registry=registry)
        self.refused = Counter("npda_refused", "Requests that were refused, by code.", ("code",), registry=registry)
        self.audio = Counter(
            "npda_audio_seconds", "Seconds of audio that were translated.", ("model",), registry=registry
        )
        self.queue = Gauge("npda_queue", "Utterances that wait for the model.", registry=registry)
        self.batch = Histogram(
            "npda_batch_size", "Utterances decoded together.", buckets=(1, 2, 4, 8, 16, 32, 64), registry=registry
        )
        self.searches = Counter("npda_searches", "Neighbour searches, in queries.", registry=registry)
        self.loaded = Gauge("npda_model_loaded", "1 while a model is in memory.", ("model",), registry=registry)
        self.jobs = Gauge("npda_jobs", "Jobs by state.", ("state",), registry=registry)
        self.jobs_ended = Counter(
            "npda_jobs_ended", "Jobs that have ended, by kind and state.", ("kind", "state"), registry=registry
        )
        self.corrections = Counter("npda_corrections", "Corrections that were added.", registry=registry)
        self.live = Gauge("npda_live_sessions", "Open live captions.", registry=registry)
        self.dropped = Counter("npda_live_dropped_seconds", "Live audio that came too fast.", registry=registry)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time what happens inside, whether it succeeds or not."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds.labels(name).observe(time.perf_counter() - start)

    def text(self) -> bytes:
        """All of it, as Prometheus reads it."""
        return generate_latest(self.registry)
