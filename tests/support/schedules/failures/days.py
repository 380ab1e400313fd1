"""Kinds of fault schedules: those that a seed draws, and the same with more of the events that one rule is about.

A rule that matters when a view changes while a subscription opens is seldom tested by a schedule of one slow
disk. Such schedules are drawn as all are, and then changed: the kinds of failures, their number, and the
clients' actions.
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


def _many(day: BadDay, weights: dict[str, float], **changed: Any) -> BadDay:
    """Let many failures of some kinds happen, where there is more than one copy of everything."""
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


def _of_copies(day: BadDay, replicas: int, copies_min: int) -> BadDay:
    """Return a schedule with so many copies of everything, unless its peers have the configuration of daemons."""
    if day.daemons:
        return day
    config = replace(day.options.config, replicas=replicas, copies_min=copies_min)
    return replace(day, options=replace(day.options, config=config))


def _clocks(day: BadDay) -> BadDay:
    """Let clocks differ as far as they may among many peers, so that not all hear of the furthest one by the way."""
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
    """Let the first schedules be those that failed once, unchanged."""
    return draw_bad_day(_KEPT[day.seed], "varied") if day.seed < len(_KEPT) else day


def _pinned(day: BadDay) -> BadDay:
    """Let the first schedules be those that failed once, with the options that they had then."""
    return _PINNED[day.seed] if day.seed < len(_PINNED) else day


def _of_daemons(day: BadDay) -> BadDay:
    """Return a schedule that failed once with peers of the configuration of daemons."""
    return replace(day, options=as_daemons(day.options), daemons=True)


def _shared(day: BadDay, *, peers: int, weights: dict[str, float], **changed: Any) -> BadDay:
    """Let the same query be left at several peers, some of which do not see each other for long or are away."""
    times = {"span_seconds": 20.0, "cut_min_seconds": 2.0, "cut_max_seconds": 12.0}
    day = _many(day, weights, shared=True, **times, **changed)
    config = replace(day.options.config, replicas=_COPIES[0], copies_min=_COPIES[1])
    config = config if day.daemons else replace(config, indexes="on-demand")
    return replace(day, options=replace(day.options, peers=peers, config=config))


def _shared_lopsided(day: BadDay) -> BadDay:
    """Let some notice late that they are cut off, where two of four peers can make something safe."""
    weights = {"cut": 8.0, "suspicion": 2.0, "subscriber-crash": 2.0, "crash": 1.0}
    return _shared(day, peers=4 + day.seed % 3, weights=weights, detect_max_seconds=8.0)


def _shared_by_three(day: BadDay) -> BadDay:
    """Make all peers coordinators of everything, and let some lose their data."""
    weights = {"crash": 6.0, "disk-loss": 5.0, "cut": 5.0, "suspicion": 1.0}
    return _shared(day, peers=3, weights=weights, detect_max_seconds=1.0)


def _parted(
    day: BadDay, weights: dict[str, float], *, indexes: str = "", detect_max_seconds: float = 6.0, **changed: Any
) -> BadDay:  # fmt: skip
    """Let each part of a network that is cut for long go on by itself: one copy is enough."""
    day = _many(day, weights, span_seconds=20.0, detect_max_seconds=detect_max_seconds, **changed)
    config = replace(day.options.config, replicas=2 + day.seed % 2, copies_min=1)
    config = replace(config, indexes=config.indexes if day.daemons else indexes or config.indexes)
    return replace(day, options=replace(day.options, peers=2 + day.seed % 3, config=config))


def _parted_and_crashes(day: BadDay) -> BadDay:
    weights = {"cut": 8.0, "suspicion": 3.0, "subscriber-crash": 3.0, "crash": 2.0, "failpoint": 1.0}
    times: dict[str, Any] = {"cut_min_seconds": 1.0, "cut_max_seconds": 10.0, "unnoticed_probability": 0.4}
    return _parted(day, weights, indexes="on-demand", **times)


def _parted_again(day: BadDay) -> BadDay:
    """Let few triples be published again and again, and the same query be left in this part and that."""
    times: dict[str, Any] = {"cut_min_seconds": 5.0, "cut_max_seconds": 15.0, "unnoticed_probability": 0.2}
    return replace(_parted(day, {"cut": 1.0}, shared=True, again=True, **times), per_event=day.seed % 2 == 0)


def _parted_late(day: BadDay) -> BadDay:
    """Leave no subscription before the network is cut, so that one part hears of none before it meets the other.

    The cut is noticed soon, and a peer's crash loses everything that it has on no disk.
    """
    weights = {"cut": 6.0, "crash": 8.0, "power-cut": 1.0}
    times: dict[str, Any] = {"cut_min_seconds": 5.0, "cut_max_seconds": 15.0, "unnoticed_probability": 0.0}
    return _parted(day, weights, indexes="on-demand", detect_max_seconds=1.0, late=True, **times)


def _parted_standing(day: BadDay) -> BadDay:
    """Let each part notify subscribers of algebra queries, and then hear of the other."""
    weights = {"cut": 8.0, "suspicion": 2.0, "subscriber-crash": 6.0, "crash": 2.0, "compaction": 2.0}
    times: dict[str, Any] = {"cut_min_seconds": 3.0, "cut_max_seconds": 10.0, "unnoticed_probability": 0.3}
    return with_standing(with_removals(_parted(day, weights, detect_max_seconds=2.0, **times)))


def _disks_and_snapshots(day: BadDay) -> BadDay:
    """Have many faults at few peers.

    A snapshot replaces a disk's content, or the disk is lost, while the peers hardly hear of each other, and
    answers of algebra queries are replicated to them first.
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
    """Give a starting peer only the living members, as a daemon gets that finds them by its seeds.

    With one copy of everything, no other peer makes up for an absent one.
    """
    return replace(day, failures=replace(day.failures, living_only=day.options.config.replicas > 1))


def _racks(day: BadDay) -> BadDay:
    """Let as many peers as keep a key go at one moment, and stay away for some seconds."""
    weights = {"rack-cut": 6.0, "subscriber-crash": 2.0}
    times: dict[str, Any] = {"down_min_seconds": 2.0, "down_max_seconds": 8.0, "detect_max_seconds": 0.6}
    day = _many(day, weights, span_seconds=20.0, **times)
    config = _of_copies(day, 2, 2).options.config
    return _bookmarks(replace(day, options=replace(day.options, peers=6 + day.seed % 3, config=config)))


def _stragglers(day: BadDay) -> BadDay:
    """Let messages overtake each other by a second between peers with different clocks, and nothing fail.

    There is one copy of everything, so consequences have one way to come.
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
    """Let much be published, and people be in a hurry for bookmarks: cuts are passed while something is under way."""
    day = _stragglers(day)
    faults = replace(day.options.faults, delay_max_seconds=0.03, straggler_seconds=0.5)
    failures = replace(day.failures, times_as_much=4, hurried=True)
    return replace(day, options=replace(day.options, peers=5, faults=faults), failures=failures)


def _strangers(day: BadDay) -> BadDay:
    """Let three peers that keep everything see each other one way for some seconds, with urgent bookmarks.

    A publication of one then reaches one other, which does not see it and has replicas that it does not reach.
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
    """Let peers be gone for good while they publish, and soon those that got some of it, while the others compare.

    That they are gone is noticed late, and their publishers ask nobody again.
    """
    times: dict[str, Any] = {"span_seconds": 15.0, "detect_min_seconds": 1.0, "detect_max_seconds": 4.0}
    day = _many(day, {"gone-halfway": 4.0, "suspicion": 8.0}, **times, publisher_crash_probability=0.9)
    config = replace(day.options.config, replicas=3, copies_min=3)
    failures = replace(day.failures, happenings_min=10, happenings_max=20)
    return replace(day, options=replace(day.options, peers=9, config=config), failures=failures)


def _long_absences(day: BadDay) -> BadDay:
    """Let one of three be away until nobody waits for it; as it comes back a disk is lost, and the third crashes."""
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
    """Let one of three be taken for dead, and crash later: nobody waits for it, and it takes itself for back soon."""
    day = _long_absences(day)
    times: dict[str, Any] = {"span_seconds": 70.0, "down_min_seconds": 0.5, "happenings_min": 20, "happenings_max": 30}
    weights = {"unseen-absence": 1.0}
    return replace(day, failures=replace(day.failures, weights=weights, times_as_much=6, **times))


def _zones(day: BadDay) -> BadDay:
    """Let peers stand in three failure zones, each of which may go as a whole, and lose all its disks."""
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
    """Let all peers go and come back one by one during deliveries, without removals: delivered answers stay."""
    weights = {"power-cut": 6.0, "crash": 4.0, "failpoint": 4.0, "suspicion": 2.0, "slow-disk": 2.0}
    times: dict[str, Any] = {"span_seconds": 20.0, "detect_max_seconds": 0.6, "down_max_seconds": 2.0}
    day = _of_the_living(with_standing(_many(day, weights, removals=False, **times)))
    peers = max(day.options.config.replicas, 3 + day.seed % 3)
    return replace(day, options=replace(day.options, peers=peers))


def _late_bootstrap(day: BadDay) -> BadDay:
    """Let the names of peers resolve 60 s late, and let processes and disks fail while islands could form.

    In half of the schedules the names of some peers alone do, and the others form a cluster at once.
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
    """Let peers begin two clusters with publications and subscriptions in both, which meet while processes crash."""
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


DAYS: Final[dict[str, Callable[[BadDay], BadDay]]] = {
    "drawn": with_features,
    "plain": lambda day: day,
    "removals": with_removals,
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
    "slow processors, bookmarks": lambda day: _bookmarks(_slow_processors(day)),
}
"""Changes of a drawn schedule, by name."""


def run_day(
    kind: str, seed: int, *, configurations: Configurations = "daemon", trace: Callable[[str], None] | None = None
) -> Verdict:
    """Draw the schedule of a seed, make it one of a kind (a key of :data:`DAYS`), run it and check its results."""
    return run_bad_day(DAYS[kind](draw_bad_day(seed, configurations)), trace=trace)
