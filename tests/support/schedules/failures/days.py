"""Kinds of fault schedules: those that a seed draws, and variants with more of the failures that one rule handles.

A drawn schedule seldom tests a rule about, for example, a change of the view during the opening of a subscription.  A
variant is drawn like any schedule and then changed: kinds and number of failures, and actions of clients.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any, Final

from p2prdf.sim.faults import CALM, Faults
from schedules.failures.kept import KEPT
from schedules.failures.pinned import PINNED
from schedules.failures.scenario import (
    BadDay,
    Verdict,
    draw_bad_day,
    run_bad_day,
    with_bookmarks,
    with_features,
    with_removals,
    with_standing,
)
from schedules.shares import Configurations, as_daemons

__all__ = ["DAYS", "run_day"]

_KEPT: Final = list(KEPT)
_PINNED: Final = list(PINNED.values())
_COPIES: Final = 3, 2
_HAPPENINGS: Final = 6, 14
_YEARS_SECONDS: Final = 1.7e9
_SOME_LATE: Final = 2
_ASKED: Final = 30
"""One-time queries of a schedule."""


def _many(day: BadDay, weights: dict[str, float], **changed: Any) -> BadDay:
    """Return a schedule with many failures of some kinds, for replicated data only."""
    config = day.options.config
    if config.replicas == 1:
        config = replace(config, replicas=_COPIES[0], copies_min=_COPIES[1])
    least, most = _HAPPENINGS
    failures = replace(day.failures, weights=weights, happenings_min=least, happenings_max=most, **changed)
    return replace(day, options=replace(day.options, config=config), failures=failures)


def _returns(day: BadDay) -> BadDay:
    weights = {"crash": 6.0, "suspicion": 4.0, "failpoint": 2.0}
    return _many(day, weights, down_max_seconds=1.0, detect_max_seconds=1.0)


def _bookmarks(day: BadDay) -> BadDay:
    return with_bookmarks(day, slow=day.seed % 2 == 0)


def _bookmarks_and_failures(day: BadDay) -> BadDay:
    weights = {"crash": 6.0, "failpoint": 4.0, "cut": 4.0, "suspicion": 2.0, "disk-loss": 2.0, "join": 2.0}
    return _bookmarks(_many(day, weights))


def _removals_and_disks(day: BadDay) -> BadDay:
    weights = {"crash": 4.0, "failpoint": 5.0, "disk-loss": 4.0, "slow-disk": 2.0, "cut": 2.0}
    return with_removals(_many(day, weights, publisher_crash_probability=0.4, kept_probability=0.2))


def _replacements(day: BadDay) -> BadDay:
    """Delete more than is published, while peers crash, come back, and leave and enter views, with quiet between."""
    weights = {
        "crash": 5.0, "failpoint": 3.0, "cut": 3.0, "suspicion": 3.0, "disk-loss": 1.0, "join": 1.0, "compaction": 2.0,
        "power-cut": 0.5, "subscriber-crash": 1.0,
    }  # fmt: skip
    times = {"down_max_seconds": 4.0, "detect_max_seconds": 2.0, "span_seconds": 24.0}
    day = replace(with_removals(_many(day, weights, replaced=True, **times)), per_event=False)
    return replace(day, failures=replace(day.failures, happenings_min=2, happenings_max=7))


def _of_copies(day: BadDay, replicas: int, copies_min: int) -> BadDay:
    """Return a schedule with these numbers of replicas, unless its peers have the configuration of daemons."""
    if day.daemons:
        return day
    config = replace(day.options.config, replicas=replicas, copies_min=copies_min)
    return replace(day, options=replace(day.options, config=config))


def _clocks(day: BadDay) -> BadDay:
    """Use the largest skew among many peers, so that not all peers learn the fastest clock by chance."""
    skew = 0.4
    day = _of_copies(day, 2, 2)
    config = replace(day.options.config, clock_skew_seconds=2 * skew)
    options = replace(
        day.options, peers=9, config=config, faults=replace(day.options.faults, skew_seconds_max=skew)
    )
    weights = {"clock-step": 2.0, "crash": 1.0, "subscriber-crash": 1.0}
    failures = replace(day.failures, weights=weights, happenings_min=0, happenings_max=2, eager=True)
    return replace(day, options=options, failures=failures)


def _kept(day: BadDay) -> BadDay:
    """Let the first seeds be the schedules that failed once, with their original seeds."""
    return draw_bad_day(_KEPT[day.seed], "varied") if day.seed < len(_KEPT) else day


def _pinned(day: BadDay) -> BadDay:
    """Let the first seeds be the schedules that failed once, with their original options."""
    return _PINNED[day.seed] if day.seed < len(_PINNED) else day


def _of_daemons(day: BadDay) -> BadDay:
    """Return a schedule that failed once with peers of the configuration of daemons."""
    return replace(day, options=as_daemons(day.options), daemons=True)


def _shared(day: BadDay, *, peers: int, weights: dict[str, float], **changed: Any) -> BadDay:
    """Subscribe to the same query at several peers, some of which are partitioned for long or down."""
    times = {"span_seconds": 20.0, "cut_min_seconds": 2.0, "cut_max_seconds": 12.0}
    day = _many(day, weights, shared=True, **times, **changed)
    config = replace(day.options.config, replicas=_COPIES[0], copies_min=_COPIES[1])
    config = config if day.daemons else replace(config, indexes="on-demand")
    return replace(day, options=replace(day.options, peers=peers, config=config))


def _shared_lopsided(day: BadDay) -> BadDay:
    """Let some peers notice a partition late, where two of four peers are a quorum."""
    weights = {"cut": 8.0, "suspicion": 2.0, "subscriber-crash": 2.0, "crash": 1.0}
    return _shared(day, peers=4 + day.seed % 3, weights=weights, detect_max_seconds=8.0)


def _shared_by_three(day: BadDay) -> BadDay:
    """Make all peers coordinators of all queries, and let some of them lose their data."""
    weights = {"crash": 6.0, "disk-loss": 5.0, "cut": 5.0, "suspicion": 1.0}
    return _shared(day, peers=3, weights=weights, detect_max_seconds=1.0)


def _parted(
    day: BadDay, weights: dict[str, float], *, indexes: str = "", detect_max_seconds: float = 6.0, **changed: Any
) -> BadDay:  # fmt: skip
    """Let each part of a long partition continue by itself: one copy is enough."""
    day = _many(day, weights, span_seconds=20.0, detect_max_seconds=detect_max_seconds, **changed)
    config = replace(day.options.config, replicas=2 + day.seed % 2, copies_min=1)
    config = replace(config, indexes=config.indexes if day.daemons else indexes or config.indexes)
    return replace(day, options=replace(day.options, peers=2 + day.seed % 3, config=config))


def _parted_and_crashes(day: BadDay) -> BadDay:
    weights = {"cut": 8.0, "suspicion": 3.0, "subscriber-crash": 3.0, "crash": 2.0, "failpoint": 1.0}
    times: dict[str, Any] = {"cut_min_seconds": 1.0, "cut_max_seconds": 10.0, "unnoticed_probability": 0.4}
    return _parted(day, weights, indexes="on-demand", **times)


def _parted_again(day: BadDay) -> BadDay:
    """Publish few triples repeatedly, and subscribe to the same query in both parts."""
    times: dict[str, Any] = {"cut_min_seconds": 5.0, "cut_max_seconds": 15.0, "unnoticed_probability": 0.2}
    return replace(_parted(day, {"cut": 1.0}, shared=True, again=True, **times), per_event=day.seed % 2 == 0)


def _parted_late(day: BadDay) -> BadDay:
    """Subscribe only after the partition, so that one part knows no query until the parts meet.

    The partition is detected soon, and a crash loses all data without durable records.
    """
    weights = {"cut": 6.0, "crash": 8.0, "power-cut": 1.0}
    times: dict[str, Any] = {"cut_min_seconds": 5.0, "cut_max_seconds": 15.0, "unnoticed_probability": 0.0}
    return _parted(day, weights, indexes="on-demand", detect_max_seconds=1.0, late=True, **times)


def _parted_standing(day: BadDay) -> BadDay:
    """Let each part deliver answers of queries that are not only conjunctive, before the parts meet."""
    weights = {"cut": 8.0, "suspicion": 2.0, "subscriber-crash": 6.0, "crash": 2.0, "compaction": 2.0}
    times: dict[str, Any] = {"cut_min_seconds": 3.0, "cut_max_seconds": 10.0, "unnoticed_probability": 0.3}
    return with_standing(with_removals(_parted(day, weights, detect_max_seconds=2.0, **times)))


def _disks_and_snapshots(day: BadDay) -> BadDay:
    """Let many failures affect few peers: snapshots and losses of disks during partitions.

    Answers of queries that are not only conjunctive go to these peers first.
    """
    weights = {"compaction": 10.0, "crash": 8.0, "disk-loss": 8.0, "cut": 8.0}
    times: dict[str, Any] = {
        "down_max_seconds": 2.0, "detect_max_seconds": 1.0, "cut_min_seconds": 0.5, "cut_max_seconds": 2.0,
        "unnoticed_probability": 1.0,
    }  # fmt: skip
    day = with_standing(with_removals(_many(day, weights, span_seconds=20.0, **times)))
    config = _of_copies(day, 2, 2).options.config
    faults = replace(CALM, delay_min_seconds=0.001, delay_max_seconds=0.02)
    faults = replace(faults, skew_seconds_max=day.options.faults.skew_seconds_max)
    options = replace(day.options, peers=2 + day.seed % 2, config=config, faults=faults)
    failures = replace(day.failures, happenings_min=25, happenings_max=50)
    return replace(day, network="calm", options=options, failures=failures)


def _of_the_living(day: BadDay) -> BadDay:
    """Let a starting peer learn of live peers only, as a daemon does from its bootstrap addresses.

    Without replication, no other peer replaces an absent one.
    """
    return replace(day, failures=replace(day.failures, living_only=day.options.config.replicas > 1))


def _racks(day: BadDay) -> BadDay:
    """Let as many peers as there are replicas fail at once, for some seconds."""
    weights = {"rack-cut": 6.0, "subscriber-crash": 2.0}
    times: dict[str, Any] = {"down_min_seconds": 2.0, "down_max_seconds": 8.0, "detect_max_seconds": 0.6}
    day = _many(day, weights, span_seconds=20.0, **times)
    config = _of_copies(day, 2, 2).options.config
    return _bookmarks(replace(day, options=replace(day.options, peers=6 + day.seed % 3, config=config)))


def _stragglers(day: BadDay) -> BadDay:
    """Let messages overtake each other by a second between peers with clock skew, without failures.

    There is no replication, so each derived result comes from one peer.
    """
    skew = 0.4
    config = replace(day.options.config, replicas=1, copies_min=1, clock_skew_seconds=2 * skew, retry_seconds=1.0)
    faults = Faults(
        delay_min_seconds=0.001, delay_max_seconds=0.05, straggler_probability=0.25, straggler_seconds=1.0,
        turn_seconds_max=0.005, skew_seconds_max=skew,
    )  # fmt: skip
    options = replace(day.options, peers=3 + day.seed % 2, config=config, faults=faults)
    failures = replace(day.failures, weights={}, span_seconds=15.0, publisher_crash_probability=0.0)
    failures = replace(failures, standing=False, texts=False)
    return with_bookmarks(replace(day, network="stragglers", options=options, failures=failures), slow=False)


def _stragglers_busy(day: BadDay) -> BadDay:
    """Publish much and request bookmarks urgently, so that cuts pass while messages are in flight."""
    day = _stragglers(day)
    faults = replace(day.options.faults, delay_max_seconds=0.03, straggler_seconds=0.5)
    failures = replace(day.failures, times_as_much=4, hurried=True)
    return replace(day, options=replace(day.options, peers=5, faults=faults), failures=failures)


def _strangers(day: BadDay) -> BadDay:
    """Let three replicas of all keys see each other in one direction for some seconds, with urgent bookmarks.

    A publication then reaches one other peer, which does not see its sender and has other replicas that the sender does
    not reach.
    """
    times: dict[str, Any] = {"span_seconds": 20.0, "detect_max_seconds": 2.0, "cut_min_seconds": 1.0}
    more: dict[str, Any] = {"publisher_crash_probability": 0.0, "unnoticed_probability": 0.0}
    day = _many(day, {"cut": 6.0, "suspicion": 10.0}, **times, **more, times_as_much=2, hurried=True)
    config = replace(day.options.config, replicas=3, copies_min=2)
    faults = replace(CALM, delay_min_seconds=0.001, delay_max_seconds=0.02)
    failures = replace(day.failures, happenings_min=15, happenings_max=30, standing=False, texts=False, removals=False)
    options = replace(day.options, peers=3, config=config, faults=faults)
    return with_bookmarks(replace(day, network="calm", options=options, failures=failures), slow=False)


def _gone(day: BadDay) -> BadDay:
    weights = {"gone": 4.0, "failpoint": 5.0, "crash": 3.0, "power-cut": 1.0}
    day = _many(day, weights, publisher_crash_probability=0.4)
    return replace(day, options=replace(day.options, peers=max(6, day.options.peers)))


def _gone_halfway(day: BadDay) -> BadDay:
    """Let peers fail for good while they publish, and soon afterwards receivers of parts, during anti-entropy.

    The failures are detected late, and the publishers do not repeat their publications.
    """
    times: dict[str, Any] = {"span_seconds": 15.0, "detect_min_seconds": 1.0, "detect_max_seconds": 4.0}
    day = _many(day, {"gone-halfway": 4.0, "suspicion": 8.0}, **times, publisher_crash_probability=0.9)
    config = replace(day.options.config, replicas=3, copies_min=3)
    failures = replace(day.failures, happenings_min=10, happenings_max=20)
    return replace(day, options=replace(day.options, peers=9, config=config), failures=failures)


def _long_absences(day: BadDay) -> BadDay:
    """Let one of three peers be down until no peer waits for it; at its return a disk is lost and the third crashes."""
    times: dict[str, Any] = {
        "span_seconds": 36.0, "down_min_seconds": 0.3, "down_max_seconds": 5.0, "detect_max_seconds": 1.0,
        "meet_max_seconds": 0.6,
    }  # fmt: skip
    day = _many(day, {"long-absence": 1.0}, **times, living_only=True, times_as_much=2)
    config = _of_copies(day, 2, 2).options.config
    faults = replace(CALM, delay_min_seconds=0.001, delay_max_seconds=0.05)
    failures = replace(day.failures, happenings_min=12, happenings_max=16, standing=False, texts=False, removals=False)
    options = replace(day.options, peers=3, config=config, faults=faults)
    return replace(day, network="calm", options=options, failures=failures)


def _unseen_absences(day: BadDay) -> BadDay:
    """Let one of three peers be taken for dead before its crash: it knows a short downtime, the others a long one."""
    day = _long_absences(day)
    times: dict[str, Any] = {"span_seconds": 70.0, "down_min_seconds": 0.5, "happenings_min": 20, "happenings_max": 30}
    weights = {"unseen-absence": 1.0}
    return replace(day, failures=replace(day.failures, weights=weights, times_as_much=6, **times))


def _zones(day: BadDay) -> BadDay:
    """Put peers into three failure zones, each of which may fail as a whole and lose all its disks."""
    weights = {"zone-loss": 6.0, "zone-cut": 3.0, "crash": 3.0, "failpoint": 2.0, "cut": 2.0, "join": 1.0, "leave": 1.0}
    day = _many(day, weights, span_seconds=15.0, zones=3, living_only=day.seed % 2 == 0, down_max_seconds=3.0)
    config = replace(day.options.config, replicas=3, copies_min=2)
    return replace(day, options=replace(day.options, peers=4 + day.seed % 5, config=config))


def _leaving_alone(day: BadDay) -> BadDay:
    weights = {"leave": 6.0, "power-cut": 5.0, "crash": 5.0}
    day = _many(day, weights, power_cut_spread_seconds=1.0)
    return replace(day, options=replace(day.options, peers=max(4, day.options.config.replicas + 1)))


def _standing_and_crashes(day: BadDay) -> BadDay:
    weights = {"crash": 6.0, "failpoint": 6.0, "compaction": 6.0, "suspicion": 4.0, "power-cut": 2.0, "disk-loss": 2.0}
    return with_standing(with_removals(_many(day, weights)))


def _standing_and_suspicions(day: BadDay) -> BadDay:
    weights = {"suspicion": 8.0, "cut": 4.0, "crash": 3.0, "compaction": 2.0, "subscriber-crash": 2.0}
    return with_standing(with_removals(_many(day, weights)))


def _standing_and_growing(day: BadDay) -> BadDay:
    """Restart all peers one by one during deliveries, without deletions: delivered answers must stay."""
    weights = {"power-cut": 6.0, "crash": 4.0, "failpoint": 4.0, "suspicion": 2.0, "slow-disk": 2.0}
    times: dict[str, Any] = {"span_seconds": 20.0, "detect_max_seconds": 0.6, "down_max_seconds": 2.0}
    day = _of_the_living(with_standing(_many(day, weights, removals=False, **times)))
    peers = max(day.options.config.replicas, 3 + day.seed % 3)
    return replace(day, options=replace(day.options, peers=peers))


def _late_bootstrap(day: BadDay) -> BadDay:
    """Let the names of peers resolve 60 s late, and let processes and disks fail while islands could form.

    In half of the schedules only the names of some peers resolve late, and the others form a cluster at once.
    """
    weights = {"crash": 6.0, "disk-loss": 4.0, "failpoint": 3.0, "subscriber-crash": 2.0, "compaction": 1.0}
    times: dict[str, Any] = {
        "span_seconds": 75.0, "down_max_seconds": 3.0, "detect_max_seconds": 1.0, "late_bootstrap_seconds": 60.0,
    }  # fmt: skip
    day = _of_copies(_many(day, weights, **times), 2 + day.seed % 2, 2)
    peers = 3 + day.seed % 3
    some = Random(f"p2prdf late bootstrap {day.seed}").randint(1, peers - 1) if day.seed % 4 >= _SOME_LATE else 0
    failures = replace(day.failures, late_bootstrap_peers=some)
    return replace(day, options=replace(day.options, peers=peers), failures=failures)


def _islands(day: BadDay) -> BadDay:
    """Start two clusters with publications and subscriptions in both, which meet while processes crash."""
    random = Random(f"p2prdf islands {day.seed}")
    weights = {
        "crash": 6.0, "failpoint": 4.0, "subscriber-crash": 3.0, "compaction": 1.0, "suspicion": 2.0, "disk-loss": 1.0,
        "join": 1.0,
    }  # fmt: skip
    times: dict[str, Any] = {
        "span_seconds": 16.0, "down_max_seconds": 3.0, "detect_max_seconds": 1.0, "bookmarks": False,
        "islands_seconds": random.uniform(3.0, 10.0),
    }  # fmt: skip
    day = _of_copies(_many(day, weights, **times), 2 + day.seed % 2, 2)
    failures = replace(day.failures, happenings_min=2, happenings_max=10)
    return replace(day, options=replace(day.options, peers=random.randint(4, 7)), failures=failures)


def _clock_steps(day: BadDay) -> BadDay:
    """Let clocks be wrong by minutes to years, from one restart to another, while peers and subscribers crash."""
    weights = {"crash": 3.0, "failpoint": 1.0, "compaction": 2.0, "subscriber-crash": 2.0}
    times: dict[str, Any] = {
        "span_seconds": 24.0, "down_max_seconds": 2.0, "detect_max_seconds": 1.0, "living_only": True,
        "bookmarks": False, "clock_steps_max": 2,
    }  # fmt: skip
    day = _many(day, weights, **times)
    failures = replace(day.failures, happenings_min=0, happenings_max=4)
    options = replace(day.options, start_seconds=_YEARS_SECONDS)  # so late that clocks can go back by years
    return replace(day, options=options, failures=failures)


def _slow_processors(day: BadDay) -> BadDay:
    """Let work take time at half of the peers, so that turns are split, while processes and disks fail."""
    weights = {"crash": 6.0, "failpoint": 8.0, "power-cut": 2.0, "cut": 2.0, "suspicion": 2.0, "subscriber-crash": 2.0}
    day = _many(day, weights, down_max_seconds=2.0, detect_max_seconds=1.0, slowness_max=40.0)
    return replace(day, failures=replace(day.failures, times_as_much=2))


def _one_time_queries(day: BadDay) -> BadDay:
    """Ask one-time queries while triples come and go and peers crash, are cut off, join and leave.

    Most schedules have tables of lists and no codec, because they take a fifth of the time.
    """
    weights = {
        "crash": 5.0, "failpoint": 5.0, "suspicion": 4.0, "cut": 2.0, "join": 2.0, "leave": 2.0, "disk-loss": 1.0,
        "compaction": 1.0, "power-cut": 1.0,
    }  # fmt: skip
    times: dict[str, Any] = {"down_max_seconds": 2.0, "detect_max_seconds": 1.0, "span_seconds": 10.0}
    day = with_removals(_many(day, weights, asked=_ASKED, **times))
    failures = replace(
        day.failures, happenings_min=0, happenings_max=4, replaced=day.seed % 8 == 0, publisher_crash_probability=0.0
    )
    config = replace(day.options.config, indexes="all", audit_seconds=0.0, read_queries=True)
    options = replace(day.options, peers=3 + day.seed % 3, config=config)
    if day.seed % 4:
        options = replace(options, tables="lists", through_codec=False)
    return replace(day, options=options, failures=failures)


DAYS: Final[dict[str, Callable[[BadDay], BadDay]]] = {
    "drawn": with_features,
    "plain": lambda day: day,
    "removals": with_removals,
    "replacements": _replacements,
    "standing queries": lambda day: with_standing(with_removals(day)),
    "bookmarks": _bookmarks,
    "crashes": lambda day: _many(day, {"crash": 6.0, "failpoint": 8.0, "subscriber-crash": 2.0}),
    "returns": _returns,
    "power cuts": lambda day: _many(day, {"power-cut": 3.0, "crash": 4.0, "disk-loss": 3.0, "failpoint": 4.0}),
    "cuts": lambda day: _many(day, {"cut": 6.0, "swizzle": 1.0, "suspicion": 3.0, "subscriber-crash": 6.0}),
    "cuts and crashes": lambda day: _many(
        day, {"cut": 6.0, "crash": 4.0, "failpoint": 3.0, "suspicion": 2.0, "subscriber-crash": 3.0}
    ),
    "members": lambda day: _many(day, {"join": 6.0, "leave": 4.0, "crash": 3.0, "suspicion": 3.0}),
    "leaving": lambda day: _many(day, {"leave": 8.0, "crash": 4.0, "power-cut": 1.0}),
    "bookmarks and failures": _bookmarks_and_failures,
    "clocks": _clocks,
    "removals and disks": _removals_and_disks,
    "kept": _kept,
    "pinned": _pinned,
    "kept, of daemons": lambda day: _of_daemons(_kept(day)),
    "pinned, of daemons": lambda day: _of_daemons(_pinned(day)),
    "shared, lopsided": _shared_lopsided,
    "shared by three": _shared_by_three,
    "parted": _parted_and_crashes,
    "parted, again": _parted_again,
    "parted, late": _parted_late,
    "parted, standing queries": _parted_standing,
    "disks and snapshots": _disks_and_snapshots,
    "told of the living": _of_the_living,
    "disks and snapshots, told of the living": lambda day: _of_the_living(_disks_and_snapshots(day)),
    "racks": _racks,
    "gone for good": _gone,
    "gone halfway": _gone_halfway,
    "long absences": _long_absences,
    "unseen absences": _unseen_absences,
    "zones": _zones,
    "leaving alone": _leaving_alone,
    "standing queries and crashes": _standing_and_crashes,
    "standing queries and suspicions": _standing_and_suspicions,
    "standing queries, nothing removed": _standing_and_growing,
    "stragglers": _stragglers,
    "stragglers, busy": _stragglers_busy,
    "strangers": _strangers,
    "late bootstrap": _late_bootstrap,
    "islands": _islands,
    "clock steps": _clock_steps,
    "slow processors": _slow_processors,
    "one-time queries": _one_time_queries,
    "slow processors, one-time queries": lambda day: _slow_processors(_one_time_queries(day)),
    "slow processors, bookmarks": lambda day: _bookmarks(_slow_processors(day)),
}
"""Kinds by name, each a function that changes a drawn schedule."""


def run_day(
    kind: str, seed: int, *, configurations: Configurations = "daemon", trace: Callable[[str], None] | None = None
) -> Verdict:
    """Draw the schedule of a seed, change it to a kind (a key of :data:`DAYS`), run and check it."""
    return run_bad_day(DAYS[kind](draw_bad_day(seed, configurations)), trace=trace)
