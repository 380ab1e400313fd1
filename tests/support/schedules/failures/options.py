"""What may happen to processes, disks, links, views, clocks and clients, as one class of named chances and times."""

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
    """Chances are in 0..1, times in seconds; where there are ``min`` and ``max``, drawn evenly between them.

    ``weights``: how often each of :data:`KINDS` is drawn, relative to the others; absent means
    never.  ``happenings_min/max``: how many are drawn for one story, within its first
    ``span_seconds``.

    ``sync_*``: what it takes to make written records durable; ``slow_sync_*``: while a disk is slow,
    which lasts ``slow_disk_*``.  ``kept_probability``: a crash keeps a random part of what was
    written and not yet synced, from its beginning; else all of it is lost.
    ``power_cut_spread_seconds``: within which all peers go, and within which they return.  A rack is as many peers as
    keep a key, which go at one moment.

    ``down_*``: how long a crashed peer stays away.  ``moved_probability``: it comes back at another
    address.  ``detect_*``: how long it takes each peer for itself to notice that another is gone;
    ``meet_*``: that it is (back) there.

    ``cut_*``: how long links stay cut.  ``unnoticed_probability``: no failure detector sees a cut.
    ``swizzle_gap_seconds``: time from one node's links to the next one's.
    ``step_seconds_max``: how far a clock jumps, either way.

    ``patience_*``: how long a publisher waits before it publishes the same at another peer.
    ``publisher_crash_probability``: a publisher is gone for ever before it has heard whether
    its publication was taken.  ``accepted``: publishers are content when their publications are accepted (copies are
    not counted at that moment then, and no disk should be lost).  ``handle_seconds_max``: how long a subscriber takes
    to store answers together with its token.  ``absent_*``: how long a crashed subscriber stays away.
    ``bookmarks``: whether subscribers want bookmarks.  ``removals``: whether triples are removed, too.  ``standing``:
    whether some leave queries that are more than conjunctive.  ``texts``: whether some leave queries with conditions on
    texts, and texts are published, too.  ``eager``: most is published just when a query has become live, by who waited
    for that.  ``shared``: each query is left by several, at different times.  ``again``: few triples are
    published, again and again.  ``late``: nobody has left any query in the first quarter of the day.
    ``living_only``: who starts is told of the peers that are there alone.  ``times_as_much`` is published, in the same
    time.  ``hurried``: who wants bookmarks wants them soon.
    ``late_bootstrap_seconds``: the names of peers resolve so long after the start; until then each sees itself alone.
    ``late_bootstrap_peers``: only for so many, the last ones; the others see each other at once.  0: for all.
    ``islands_seconds``: peers begin two clusters, which see nothing of each other for so long; then they meet.
    ``zones``: peers stand in so many failure zones, by turns; with 0 each stands by itself.
    ``clock_steps_max``: up to so many times the clocks of one peer, of two or of all are wrong by minutes to years for
    some seconds, from one restart to another.
    ``graphs``, ``rules``, ``windows``: clients leave queries over named graphs, rules, and a query with a window over
    a stream, and publish for them (:mod:`schedules.failures.features`).
    ``slowness_max``: the work of half of the peers takes virtual time, up to so many times the nominal cost, so that
    the budget of a turn is often spent; with 0 it takes none.
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
