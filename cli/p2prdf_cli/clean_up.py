"""The clean-up after an expulsion: each statement goes back to the state that honest members gave it.

Each node returns its record of a statement: publications and deletions with their stamp, the member that sent them, and
whether that member was the origin.  Without the events of the expelled member, the latest publication or deletion by an
origin decides.  If the expelled member's event is the latest of all and the two states differ, the clean-up deletes the
statement or publishes it again.  docs/explanation/design/members-that-lie.md argues the rule.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["DELETE", "NOTHING", "PUBLISH", "Event", "Repair", "decide"]

DELETE: Final = "delete"
PUBLISH: Final = "publish"
NOTHING: Final = "keep"


@dataclass(frozen=True, slots=True, order=True)
class Event:
    """A publication or a deletion of a statement, as one node recorded it; a deletion counts at equal stamps."""

    stamp: int
    deleted: bool
    member: str
    first_hand: bool

    @classmethod
    def of(cls, values: Iterable[Any]) -> Event:
        """Return an event from the values of a node's answer."""
        stamp, deleted, member, first_hand = values
        return cls(int(stamp), bool(deleted), str(member), bool(first_hand))


@dataclass(frozen=True, slots=True)
class Repair:
    """The action of a clean-up on a statement: ``DELETE``, ``PUBLISH`` or ``NOTHING``.

    ``uncertain``: a record may have dropped the publication of an honest member, so an operator has to look at it.
    """

    action: str
    uncertain: bool = False


def decide(events: Iterable[Event], expelled: str, since: int) -> Repair:
    """Return the action that undoes the events of an expelled member.

    ``since``: all records are complete from this stamp on.
    """
    every = set(events)
    honest = {(each.stamp, each.deleted) for each in every if each.first_hand and each.member != expelled}
    lies = {(each.stamp, each.deleted) for each in every if each.member == expelled} - honest
    latest = max({(each.stamp, each.deleted) for each in every}, default=None)
    if latest is None or latest not in lies:
        return Repair(NOTHING)
    was_published = bool(honest) and not max(honest)[1]
    if latest[1]:
        return Repair(PUBLISH if was_published else NOTHING)
    return Repair(NOTHING if was_published else DELETE, uncertain=not honest and since > 0)
