"""Possible faults of processes, disks, links, views, clocks and clients, as one class of named chances and times."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Final

from p2prdf.errors import LocalProtocolError

__all__ = ["KINDS", "Failures"]

KINDS: Final = (
    "crash", "failpoint", "power-cut", "disk-loss", "cut", "swizzle", "suspicion", "join", "leave", "clock-step",
    "slow-disk", "compaction", "subscriber-crash", "rack-cut", "gone", "gone-halfway",
    "disk-loss-and-crash", "long-absence", "unseen-absence", "zone-cut", "zone-loss",
)  # fmt: skip
"""Everything that :mod:`schedules.failures.mischief` can do."""

_WEIGHTS: Final = {
    "crash": 6.0, "failpoint": 6.0, "power-cut": 1.0, "disk-loss": 2.0, "cut": 4.0, "swizzle": 1.0,
    "suspicion": 2.0, "join": 2.0, "leave": 1.0, "clock-step": 1.0, "slow-disk": 1.0, "compaction": 2.0,
    "subscriber-crash": 3.0,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Failures:
    """Chances are in 0..1, times in seconds; with ``min`` and ``max``, drawn evenly between them.

    ``weights``: how often each of :data:`KINDS` is drawn, relative to the others; absent means never.
    ``happenings_min/max``: the number drawn for one schedule, within its first ``span_seconds``.

    ``sync_*``: time to make written records durable; ``slow_sync_*``: while a disk is slow, which lasts
    ``slow_disk_*``.  ``kept_probability``: a crash keeps a random prefix of the written and unsynced records;
    otherwise all of them are lost. ``power_cut_spread_seconds``: time within which all peers go, and within
    which they return.  A rack has as many peers as a key has replicas; they go at one moment.

    ``down_*``: time that a crashed peer stays away.  ``moved_probability``: it comes back at another address.
    ``detect_*``: time until each peer by itself notices that another is gone; ``meet_*``: that it is (back)
    there.

    ``cut_*``: time that links stay cut.  ``unnoticed_probability``: no failure detector sees a cut.
    ``swizzle_gap_seconds``: time from one node's links to the next one's. ``step_seconds_max``: largest jump of
    a clock, either way.

    ``patience_*``: time until a publisher publishes the same at another peer. ``publisher_crash_probability``:
    a publisher is gone for ever before it has the outcome of its publication.  ``accepted``: publishers wait
    only for staging (copies are not counted at that moment then, and no disk should be lost).
    ``handle_seconds_max``: time of a subscriber to store answers together with its token.  ``absent_*``: time
    that a crashed subscriber stays away. ``bookmarks``: subscribers want bookmarks.  ``removals``: triples are
    removed, too.  ``standing``: some subscribe to algebra queries.  ``texts``: some subscribe to queries with
    conditions on texts, and texts are published, too.  ``eager``: most is published just when a query has
    become live, by clients that waited for that.  ``shared``: each query has several subscriptions, made at
    different times.  ``again``: few triples are published, again and again.  ``late``: no subscription is made
    in the first quarter of the schedule. ``living_only``: a starting peer gets the living members alone.
    ``times_as_much``: a factor of the publications in the same time.  ``hurried``: bookmarks are urgent.
    ``late_bootstrap_seconds``: time after the start at which the names of peers resolve; until then each sees
    itself alone. ``late_bootstrap_peers``: number of peers, the last ones, to which that applies; the others
    see each other at once.  0: all. ``islands_seconds``: peers begin two clusters, which do not see each other
    for this time; then they meet. ``zones``: number of failure zones over which peers are spread by turns; with
    0 each stands by itself. ``clock_steps_max``: most times that the clocks of one peer, of two or of all are
    wrong by minutes to years for some seconds, from one restart to another. ``graphs``, ``rules``, ``windows``:
    clients subscribe to queries over named graphs, rules, and a query with a window over a stream, and publish
    for them (:mod:`schedules.failures.features`). ``slowness_max``: the work of half of the peers takes virtual
    time, up to this multiple of the nominal cost, so that the budget of a turn is often spent; with 0 it takes
    none.
    """

    span_seconds: float = 12.0
    happenings_min: int = 1
    happenings_max: int = 6
    weights: dict[str, float] = field(default_factory=lambda: dict(_WEIGHTS))

    sync_min_seconds: float = 0.0005
    sync_max_seconds: float = 0.02
    slow_sync_min_seconds: float = 0.05
    slow_sync_max_seconds: float = 0.3
    slow_disk_min_seconds: float = 0.5
    slow_disk_max_seconds: float = 4.0
    kept_probability: float = 0.5
    power_cut_spread_seconds: float = 2.0

    down_min_seconds: float = 0.05
    down_max_seconds: float = 6.0
    moved_probability: float = 0.3
    detect_min_seconds: float = 0.3
    detect_max_seconds: float = 3.0
    meet_min_seconds: float = 0.01
    meet_max_seconds: float = 1.0

    cut_min_seconds: float = 0.3
    cut_max_seconds: float = 6.0
    unnoticed_probability: float = 0.25
    swizzle_gap_seconds: float = 1.0
    step_seconds_max: float = 0.2

    patience_min_seconds: float = 1.0
    patience_max_seconds: float = 4.0
    publisher_crash_probability: float = 0.1
    accepted: bool = False
    handle_seconds_max: float = 0.2
    absent_min_seconds: float = 0.05
    absent_max_seconds: float = 3.0
    bookmarks: bool = False
    removals: bool = False
    standing: bool = False
    texts: bool = False
    eager: bool = False
    shared: bool = False
    again: bool = False
    late: bool = False
    living_only: bool = False
    times_as_much: int = 1
    hurried: bool = False
    zones: int = 0
    late_bootstrap_seconds: float = 0.0
    late_bootstrap_peers: int = 0
    clock_steps_max: int = 0
    graphs: bool = False
    rules: bool = False
    windows: bool = False
    islands_seconds: float = 0.0
    slowness_max: float = 0.0

    def validate(self) -> None:
        """Raise LocalProtocolError for a value that means nothing."""
        for each in dataclasses.fields(self):
            value = getattr(self, each.name)
            if each.name == "weights":
                continue
            if value < 0 or (each.name.endswith("probability") and value > 1):
                raise LocalProtocolError(f"failures: {each.name}={value} is out of range")
            if "_min" in each.name and value > (most := getattr(self, each.name.replace("_min", "_max"))):
                raise LocalProtocolError(f"failures: {each.name}={value} is above the most, {most}")
        for kind, weight in self.weights.items():
            if kind not in KINDS or weight < 0:
                raise LocalProtocolError(f"failures: there is no weight {weight} of {kind!r}")
