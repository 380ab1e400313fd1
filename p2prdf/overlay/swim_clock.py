"""How far other members' clocks are from this one's, and whether it is this one that is wrong.

An answer tells its sender's clock.  If the question went out at t0 and the answer came in at t1, the clock was
read at some moment in between, so it is ahead by ``clock - (t0 + t1) / 2``, give or take half of the round trip
(Cristian 1989).  A loop that was held up makes the round trip long and the measurement uncertain, not wrong.  So
of a fresh and an older measurement of one member the more certain is kept, the older one losing
certainty with time.

*The rule.*  Two clocks disagree if they differ by more than ``clock_differs_seconds`` for certain.  A peer's clock is
*suspect* while more than half of the others of which it has fresh measurements disagree with it; it takes three of
them, or all others if these are fewer, or the first one who happens to answer would decide.  So of three clocks only
the one that is wrong is suspect, and of two that disagree both are, since nobody can tell which is wrong.  ("At least
half", as is also said, would make one wrong clock of three stop all.)

*Strangers.*  Clocks that differ by ten seconds keep peers from reading each other's datagrams.  Such peers form views
of their own.  They measure each other by probes (:class:`p2prdf.overlay.swim_messages.OtherTime`) and tell how many
members they see.  A peer's clock is suspect as well while a stranger sees at least as many members as the peer does,
itself included.  So of two views of different times at most one serves, and it is the larger one.  What a stranger
told counts for ``clock_fresh_seconds``, or until it becomes a member: both views may shrink for a moment.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from p2prdf.overlay.swim_config import SwimConfig
    from p2prdf.wire.messages import Contact

__all__ = ["Clocks"]

_JUDGES: Final = 3
"""So many others must have been measured, or all if they are fewer."""
_STRANGERS_MAX: Final = 16
"""Of more the oldest are forgotten."""
_DRIFT: Final = 0.01
"""How much certainty a measurement loses, in seconds per second: also so that a clock that is set is noticed soon."""


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
        """Return it as plain JSON values."""
        contact = self.contact
        return {
            "key": f"{contact.key:016x}", "host": contact.host, "port": contact.port, "members": self.members,
            "offset_seconds": round(self.offset, 4),
        }  # fmt: skip


class Clocks:
    """Measured differences to the clocks of others, one for each at most."""

    def __init__(self, config: SwimConfig):
        self._config = config
        self._measured: dict[int, _Measured] = {}
        self.strangers: dict[int, _Stranger] = {}
        """By key the members of other times that have answered."""
        self.reason: str | None = None
        """Why this peer's clock is suspect, with the remedy; None: it is not."""

    @property
    def suspect(self) -> bool:
        """Whether this peer's clock is suspect."""
        return self.reason is not None

    def meet_stranger(self, contact: Contact, offset: float, members: int, now: float) -> None:
        """Take in the answer of a member of another time: how far its clock is ahead, and how many members it sees."""
        self.strangers.pop(contact.key, None)
        while len(self.strangers) >= _STRANGERS_MAX:
            del self.strangers[next(iter(self.strangers))]
        self.strangers[contact.key] = _Stranger(contact, offset, members, now)

    def meet(self, key: int) -> None:
        """Note that a peer is a member of this view: whatever its former life was, it is no stranger."""
        self.strangers.pop(key, None)

    def measure(self, key: int, clock: float, asked_at: float, now: float) -> None:
        """Take in an answer that told ``clock`` to a question asked at ``asked_at``, all in seconds."""
        fresh = _Measured(clock - (asked_at + now) / 2, (now - asked_at) / 2, now)
        known = self._measured.get(key)
        if known is None or fresh.uncertainty <= known.uncertainty + _DRIFT * (now - known.at):
            self._measured[key] = fresh

    def forget(self, key: int) -> None:
        """Forget the clock of a member that is gone."""
        self._measured.pop(key, None)

    def offset(self, key: int) -> float | None:
        """Return by how many seconds a member's clock is ahead of this one's, None if that was not measured."""
        measured = self._measured.get(key)
        return None if measured is None else measured.offset

    def judge(self, now: float, others: int) -> bool:
        """Apply the rule, there being so many other members; return whether that changed anything."""
        before = self.suspect
        self.reason = self._outnumbered(now, others) or self._disagreement(now, others)
        return before != self.suspect

    def _outnumbered(self, now: float, others: int) -> str | None:
        """Return that a stranger sees as many members as this peer, or more, and so speaks for the cluster."""
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
        """Return that the clocks of most members differ from this one."""
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
