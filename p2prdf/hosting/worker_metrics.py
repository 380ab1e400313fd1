"""Metrics of a channel worker, its knowledge bases and their channels.

At most ``CHANNELS_REPORTED`` channels have metrics of their own, failing and refused ones first.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from p2prdf.hosting.base_pass import BasePass
from p2prdf.hosting.worker import ChannelWorker
from p2prdf.monitoring.exposition import counter, gauge, lines
from p2prdf.presence.worker_metrics import worker_metrics, worker_state

__all__ = ["CHANNELS_REPORTED", "METRICS", "STATES", "exposition"]

CHANNELS_REPORTED: Final = 1000
STATES: Final = ("failing", "refused", "reading", "evaluated")
"""The states of a channel, in the order in which channels get metrics of their own."""

METRICS: Final = (
    *worker_metrics("host"),
    gauge("host_channels", "states", "Channels of this host by state; several hosts may report refused ones.", "state"),
    gauge("host_channels_untold", "untold", "Channels without metrics of their own because of their number."),
    gauge("host_base_lag_seconds", "bases.lag_seconds", "Age of the oldest publication that is not evaluated.", "base"),
    gauge("host_base_failing", "bases.failing", "1 while the knowledge base cannot be read or written.", "base"),
    gauge("host_base_graphs", "bases.graphs", "Published graphs.", "base"),
    gauge("host_base_facts", "bases.facts", "Facts, including derived ones.", "base"),
    gauge("host_base_rules", "bases.rules", "Rule texts in use.", "base"),
    gauge("host_base_refused", "bases.refused_publications", "Refused publications and rules.", "base"),
    gauge("host_channel_state", "channels.state", "1 for the state of the channel.", "channel", "state"),
    gauge("host_channel_bindings", "channels.bindings", "Current bindings.", "channel"),
    counter("host_channel_told", "channels.told", "New bindings delivered.", "channel"),
    counter("host_channel_foreseen", "channels.foreseen", "Bindings delivered before an evaluation.", "channel"),
    counter("host_channel_runs", "channels.runs", "Evaluations of the query.", "channel"),
    counter("host_channel_skipped", "channels.skipped", "Publications without an evaluation of the query.", "channel"),
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
        "untold": max(0, len(channels) - CHANNELS_REPORTED), "bases": bases, "channels": reported,
    }  # fmt: skip


def _about(base: BasePass, one: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state of a knowledge base.  ``one``: the statistics of any of its channels, which repeat it."""
    found = {name: one[name] for name in ("graphs", "facts", "rules", "refused_publications") if name in one}
    lag = {} if base.as_of is None else {"lag_seconds": max(0.0, time.time() - base.as_of)}
    return {"failing": base.error is not None, **lag, **found}


def _put(found: dict[str, dict[str, Any]], name: str, reported: Mapping[str, Any]) -> None:
    for key, value in reported.items():
        found.setdefault(key, {})[name] = value
