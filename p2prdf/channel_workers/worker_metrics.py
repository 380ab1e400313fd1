"""Metrics of a channel worker, its knowledge bases and their channels.

At most ``CHANNELS_REPORTED`` channels have metrics of their own, failing and refused ones first.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from p2prdf.channel_workers.base_pass import BasePass
from p2prdf.channel_workers.worker import ChannelWorker
from p2prdf.monitoring.exposition import Metric, counter, gauge, lines
from p2prdf.workers.worker_metrics import WORKER_METRICS, worker_state

__all__ = ["CHANNELS_REPORTED", "METRICS", "STATES", "exposition"]

CHANNELS_REPORTED: Final = 1000
STATES: Final = ("failing", "refused", "reading", "evaluated")
"""The states of a channel, in the order in which channels get metrics of their own."""


def _of_base(name: str, key: str, text: str) -> Metric:
    return gauge(f"knowledge_base_{name}", f"bases.{key}", text, "base")


def _of_channel(name: str, key: str, text: str) -> Metric:
    return counter(f"channel_{name}", f"channels.{key}", text, "channel")


METRICS: Final = (
    *WORKER_METRICS,
    gauge("channels", "states", "Channels of this worker by state; several workers may report refused ones.", "state"),
    gauge("channels_unreported", "unreported", "Channels without metrics of their own because of their number."),
    _of_base("lag_seconds", "lag_seconds", "Age of the oldest publication that is not evaluated."),
    _of_base("failing", "failing", "1 while the knowledge base cannot be read or written."),
    _of_base("graphs", "graphs", "Published graphs."),
    _of_base("facts", "facts", "Facts, including derived ones."),
    _of_base("rules", "rules", "Rule texts in use."),
    _of_base("refused", "refused_publications", "Refused publications and rules."),
    gauge("channel_state", "channels.state", "1 for the state of the channel.", "channel", "state"),
    gauge("channel_bindings", "channels.bindings", "Current bindings.", "channel"),
    _of_channel("bindings_delivered", "told", "New bindings delivered."),
    _of_channel("bindings_predicted", "foreseen", "Bindings delivered before an evaluation."),
    _of_channel("evaluations", "runs", "Evaluations of the query."),
    _of_channel("evaluations_skipped", "skipped", "Publications without an evaluation of the query."),
)  # fmt: skip


async def exposition(worker: ChannelWorker) -> str:
    """Return all metrics of a channel worker."""
    return "".join(f"{line}\n" for line in lines(METRICS, await _state(worker)))


async def _state(worker: ChannelWorker) -> dict[str, Any]:
    channels: dict[str, dict[str, Any]] = {}
    bases: dict[str, dict[str, Any]] = {}
    for base, each in sorted(worker.passes.items()):
        found = await each.statistics()
        channels |= found
        _put(bases, base[1:-1], _about(each, next(iter(found.values()), {})))
    channels |= {name: {"state": "refused"} for name in sorted(worker.refused)}
    states = Counter(str(each["state"]) for each in channels.values())
    order = sorted(channels, key=lambda name: (STATES.index(channels[name]["state"]), name))
    reported: dict[str, dict[str, Any]] = {}
    for name in order[:CHANNELS_REPORTED]:
        _put(reported, name, {**channels[name], "state": {channels[name]["state"]: 1}})
    return {
        **worker_state(worker), "states": {state: states[state] for state in STATES},
        "unreported": max(0, len(channels) - CHANNELS_REPORTED), "bases": bases, "channels": reported,
    }  # fmt: skip


def _about(base: BasePass, one: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state of a knowledge base.  ``one``: the statistics of any of its channels, which repeat it."""
    found = {name: one[name] for name in ("graphs", "facts", "rules", "refused_publications") if name in one}
    lag = {} if base.as_of is None else {"lag_seconds": max(0.0, time.time() - base.as_of)}
    return {"failing": base.error is not None, **lag, **found}


def _put(found: dict[str, dict[str, Any]], name: str, reported: Mapping[str, Any]) -> None:
    for key, value in reported.items():
        found.setdefault(key, {})[name] = value
