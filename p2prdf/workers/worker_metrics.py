"""Metrics that are common to the workers of all groups."""

from __future__ import annotations

import time
from typing import Any, Final

from p2prdf.monitoring.exposition import counter, gauge
from p2prdf.monitoring.process import memory_bytes
from p2prdf.workers.worker import Worker

__all__ = ["WORKER_METRICS", "not_ready_reason", "worker_state"]


WORKER_METRICS: Final = (
    gauge("worker_uptime_seconds", "uptime_seconds", "Time since the start of the worker."),
    gauge("worker_memory_bytes", "memory_bytes", "Resident memory of the worker."),
    gauge("worker_ready", "ready", "1 if the worker has read the registry and knows its share."),
    gauge("worker_lease_held", "lease_held", "1 if the lease of the worker is valid."),
    gauge("worker_members", "members", "Workers of the group that are there, as far as this one knows."),
    counter("worker_disconnections", "disconnections", "Restarts of all work after a disconnection from the cluster."),
    counter("worker_lapses", "lapses", "Lapses of the lease while the worker was running."),
)
"""Metrics of a worker of any kind."""


def worker_state(worker: Worker) -> dict[str, Any]:
    """Return the state from which the metrics of ``WORKER_METRICS`` take their values."""
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
