"""Counters for Prometheus. They hold no text of queries or documents, and no names of callers. It stands
alone because the guard, the service and jobs count, and import each other in one direction."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        made: dict[str, Any] = {"registry": self.registry, "namespace": "surefind"}
        self._requests = Counter("requests_total", "Requests by route", ["method", "route", "status"], **made)
        self._seconds = Histogram("request_seconds", "Time of requests", ["route"], buckets=_SECONDS, **made)
        self.search = Histogram("search_seconds", "Time of searches", ["pipeline"], buckets=_SECONDS, **made)
        self.running = Gauge("requests_running", "Requests that are being answered", **made)
        self.cache = Counter("cache_total", "Searches answered from the cache, or not", ["result"], **made)
        self.generation = Gauge("generation", "The generation that is served", **made)
        self.jobs = Counter("jobs_total", "Jobs by kind and result", ["kind", "state"], **made)

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        known = method if method in ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS") else "other"
        self._requests.labels(known, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def text(self) -> bytes:
        return generate_latest(self.registry)
