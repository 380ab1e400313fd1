"""Options of fault schedules: probabilities and times of failures of processes, disks, links, views and clients."""

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
"""Kinds of failures (:mod:`schedules.failures.mischief`)."""

_WEIGHTS: Final = {
    "crash": 6.0, "failpoint": 6.0, "power-cut": 1.0, "disk-loss": 2.0, "cut": 4.0, "swizzle": 1.0,
    "suspicion": 2.0, "join": 2.0, "leave": 1.0, "clock-step": 1.0, "slow-disk": 1.0, "compaction": 2.0,
    "subscriber-crash": 3.0,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Failures:
    """Probabilities are in 0..1, times in seconds; values with ``min`` and ``max`` are drawn uniformly between them.

    ``weights``: relative frequencies of :data:`KINDS`; absent ones never happen.  ``happenings_min/max``: number of
    failures of one schedule, within its first ``span_seconds``.

    ``sync_*``: duration of a sync; ``slow_sync_*``: on a slow disk, for ``slow_disk_*``.  ``kept_probability``: a crash
    keeps a random prefix of the unsynced records; otherwise it loses all of them.  ``power_cut_spread_seconds``: time
    in which all peers fail, and in which they return.  A rack has as many peers as there are replicas, which fail at
    once.

    ``down_*``: downtime after a crash.  ``moved_probability``: of a return at another address.  ``detect_*``: each
    peer's delay in detecting a failure; ``meet_*``: in detecting a (re)start.

    ``cut_*``: duration of a cut.  ``unnoticed_probability``: of a cut without detection.  ``swizzle_gap_seconds``: time
    between the cuts of two nodes' links.  ``step_seconds_max``: size of a clock step, in either direction.

    ``patience_*``: time until a publisher repeats a publication at another peer.  ``publisher_crash_probability``: of a
    publisher that fails for good before an acknowledgement.  ``accepted``: publishers wait for acceptance only (copies
    are not counted then, and no disk should be lost).  ``handle_seconds_max``: time in which a subscriber stores
    answers with its token.  ``absent_*``: downtime of a crashed subscriber.

    ``bookmarks``: subscribers request bookmarks; ``hurried``: urgently.  ``removals``: clients also delete triples;
    ``replaced``: they delete most batches, some twice, and publish many of them again.
    ``standing``: some queries are not only conjunctive.  ``texts``: there are texts, and queries with conditions on
    them.  ``eager``: most publications happen just after a query became live.  ``shared``: several clients subscribe to
    each query, at different times.  ``again``: few triples, published repeatedly.  ``late``: no subscriptions in the
    first quarter.  ``living_only``: a starting peer learns of live peers only.  ``times_as_much``: factor of the
    publications, in the same time.  ``graphs``, ``rules``, ``windows``: see :mod:`schedules.failures.features`.
    ``asked``: number of one-time queries (:mod:`schedules.failures.asked`).

    ``late_bootstrap_seconds``: time until the names of peers resolve; until then each peer sees only itself.
    ``late_bootstrap_peers``: this applies only to so many peers, the last ones; 0: to all.  ``islands_seconds``: time
    for which two clusters are separate before they meet.  ``zones``: number of failure zones, assigned by turns; 0: a
    zone for each peer.  ``clock_steps_max``: most steps in which the clocks of one peer, of two or of all are wrong by
    minutes to years for some seconds, from one restart to the next.  ``slowness_max``: the work of half of the peers
    takes up to this factor of the nominal cost in virtual time, so that budgets of turns are often spent; 0: no time.
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
    replaced: bool = False
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
    asked: int = 0
    slowness_max: float = 0.0

    def validate(self) -> None:
        """Raise LocalProtocolError for a value out of range."""
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
