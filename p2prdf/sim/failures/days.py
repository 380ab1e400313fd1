"""Kinds of bad days: those that a seed draws, and the same with more of what one rule is about.

A rule that matters when a view changes while a subscription opens is seldom put to the test on a day of one slow disk.
Such days are drawn as all are, and then changed: which failures happen, how many, and what people do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from p2prdf.sim.failures.scenario import BadDay, with_bookmarks, with_removals, with_standing

__all__ = ["DAYS"]

_COPIES: Final = 3, 2
_HAPPENINGS: Final = 6, 14


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


def _clocks(day: BadDay) -> BadDay:
    """Let clocks differ as far as they may among many peers, so that not all hear of the furthest one by the way."""
    skew = 0.4
    config = replace(day.options.config, replicas=2, copies_min=2, clock_skew_seconds=2 * skew)
    options = replace(
        day.options, peers=9, config=config, faults=replace(day.options.faults, skew_seconds_max=skew)
    )
    weights = {"clock-step": 2.0, "crash": 1.0, "subscriber-crash": 1.0}
    failures = replace(day.failures, weights=weights, happenings_min=0, happenings_max=2, eager=True)
    return replace(day, options=options, failures=failures)


DAYS: Final[dict[str, Callable[[BadDay], BadDay]]] = {
    "drawn": lambda day: day,
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
}
"""By name: what becomes of a drawn day."""
