"""Measured offsets of other members' clocks, and the judgement whether this peer's clock is wrong.

*Measurement* (Cristian 1989).  A question goes out at t0, the answer with its sender's clock comes in at t1.  That
clock is ahead by ``clock - (t0 + t1) / 2``, plus or minus half of the round trip.  Of two measurements of one member
the more certain one is kept; certainty decays with age.

*Rule.*  A peer's clock is *suspect* while more than half of the freshly measured others certainly differ from it by
more than ``clock_differs_seconds``.  At least three others must be measured, or all if there are fewer.

*Strangers.*  Peers with clocks ten seconds apart cannot read each other's datagrams, and form separate views.  They
measure each other by probes (:class:`p2prdf.overlay.swim_messages.OtherTime`).  A peer's clock is also suspect while a
stranger reports at least as many members as this peer sees, so at most the larger view serves.  A report counts for
``clock_fresh_seconds``, or until the stranger becomes a member.

Design: docs/explanation/design/clocks.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from p2prdf.overlay.swim_config import SwimConfig
    from p2prdf.wire.messages import Contact

__all__ = ["Clocks"]

_JUDGES: Final = 3
"""Minimum number of measured others for a judgement; all, if there are fewer."""
_STRANGERS_MAX: Final = 16
"""Maximum number of strangers; the oldest are forgotten."""
_DRIFT: Final = 0.01
"""Loss of a measurement's certainty in seconds per second; it also makes a clock change visible soon."""


@dataclass(frozen=True, slots=True)
class _Measured:
    offset: float
    uncertainty: float
    at: float


@dataclass(frozen=True, slots=True)
class _Stranger:
    """A member of this cluster with a clock so different that neither reads the other's datagrams."""

    contact: Contact
    offset: float
    members: int
    at: float

    def described(self) -> dict[str, object]:
        """Return the stranger as plain JSON values."""
        contact = self.contact
        return {
            "key": f"{contact.key:016x}", "host": contact.host, "port": contact.port, "members": self.members,
            "offset_seconds": round(self.offset, 4),
        }  # fmt: skip


class Clocks:
    """Measured clock offsets of other members, at most one for each."""

    def __init__(self, config: SwimConfig):
        self._config = config
        self._measured: dict[int, _Measured] = {}
        self.strangers: dict[int, _Stranger] = {}
        """Members of this cluster with another time that have answered, by key."""
        self.reason: str | None = None
        """The reason why this peer's clock is suspect, with the remedy; None if it is not."""

    @property
    def suspect(self) -> bool:
        """Whether this peer's clock is suspect."""
        return self.reason is not None

    def meet_stranger(self, contact: Contact, offset: float, members: int, now: float) -> None:
        """Handle a stranger's answer: the offset of its clock, and the number of members that it sees."""
        self.strangers.pop(contact.key, None)
        while len(self.strangers) >= _STRANGERS_MAX:
            del self.strangers[next(iter(self.strangers))]
        self.strangers[contact.key] = _Stranger(contact, offset, members, now)

    def meet(self, key: int) -> None:
        """Note that a peer is a member of this view, and no stranger any more."""
        self.strangers.pop(key, None)

    def measure(self, key: int, clock: float, asked_at: float, now: float) -> None:
        """Handle an answer with the time ``clock`` to a question sent at ``asked_at``, all in seconds."""
        fresh = _Measured(clock - (asked_at + now) / 2, (now - asked_at) / 2, now)
        known = self._measured.get(key)
        if known is None or fresh.uncertainty <= known.uncertainty + _DRIFT * (now - known.at):
            self._measured[key] = fresh

    def forget(self, key: int) -> None:
        """Forget the clock of a member that is gone."""
        self._measured.pop(key, None)

    def offset(self, key: int) -> float | None:
        """Return the seconds by which a member's clock is ahead, None if it was not measured."""
        measured = self._measured.get(key)
        return None if measured is None else measured.offset

    def judge(self, now: float, others: int) -> bool:
        """Apply the rule to a view with so many other members; return whether the judgement changed."""
        before = self.suspect
        self.reason = self._outnumbered(now, others) or self._disagreement(now, others)
        return before != self.suspect

    def _outnumbered(self, now: float, others: int) -> str | None:
        """Return the reason if a stranger sees at least as many members as this peer, else None."""
        oldest = now - self._config.clock_fresh_seconds
        for key in [key for key, each in self.strangers.items() if each.at < oldest]:
            del self.strangers[key]
        most = max(self.strangers.values(), key=lambda each: each.members, default=None)
        if most is None or most.members <= others:
            return None
        side = "ahead of" if most.offset > 0 else "behind"
        return (
            f"the clock of {most.contact} is {abs(most.offset):.0f} s {side} this node's, and it sees"
            f" {most.members} nodes of its time, this node {others + 1}: set the clock that is wrong and start that"
            " node again"
        )

    def _disagreement(self, now: float, others: int) -> str | None:
        """Return the reason if the clocks of most members differ from this one, else None."""
        oldest = now - self._config.clock_fresh_seconds
        fresh = [each for each in self._measured.values() if each.at >= oldest]
        differ = self._config.clock_differs_seconds
        disagreeing = sum(abs(each.offset) - each.uncertainty > differ for each in fresh)
        enough = len(fresh) >= min(others, _JUDGES)
        if not enough or 2 * disagreeing <= len(fresh):
            return None
        return (
            f"this node's clock differs from those of most others by more than {differ:g} s: set it and start the node"
            " again"
        )
