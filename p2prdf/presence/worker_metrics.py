"""Metrics that are common to the workers of all groups."""

from __future__ import annotations

import time
from typing import Any

from p2prdf.monitoring.exposition import Metric, counter, gauge
from p2prdf.monitoring.process import memory_bytes
from p2prdf.presence.worker import Worker

__all__ = ["not_ready_reason", "worker_metrics", "worker_state"]


def worker_metrics(word: str) -> tuple[Metric, ...]:
    """Return the metrics of a worker.  ``word``: the noun for it, with which the names of metrics begin."""
    return (
        gauge(f"{word}_uptime_seconds", "uptime_seconds", f"Time since the start of the {word}."),
        gauge(f"{word}_memory_bytes", "memory_bytes", f"Resident memory of the {word}."),
        gauge(f"{word}_ready", "ready", f"1 if the {word} has read the registry and knows its share."),
        gauge(f"{word}_lease_held", "lease_held", f"1 if the lease of the {word} is valid."),
        gauge(f"{word}_members", "members", f"{word.capitalize()}s that are there, as far as this one knows."),
        counter(
            f"{word}_disconnections", "disconnections", "Restarts of all work after a disconnection from the cluster."
        ),
        counter(f"{word}_lapses", "lapses", f"Lapses of the lease while the {word} was running."),
    )


def worker_state(worker: Worker) -> dict[str, Any]:
    """Return the state from which the metrics of :func:`worker_metrics` take their values."""
    return {
        "uptime_seconds": time.monotonic() - worker.began,
        "memory_bytes": memory_bytes(),
        "ready": worker.is_ready,
        "lease_held": worker.holds_lease(),
        "members": len(worker.known.membership.workers()),
        "disconnections": worker.disconnections,
        "lapses": worker.lapses,
    }


def not_ready_reason(worker: Worker) -> str | None:
    """Return the reason why a worker is not ready, None if it is; used by readiness probes."""
    if not worker.is_ready:
        return "the registry in the overlay has not been read completely"
    return None if worker.holds_lease() else "the lease was not renewed in time: others may have taken over"
