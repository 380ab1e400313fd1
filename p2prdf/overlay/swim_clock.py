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
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from p2prdf.overlay.swim_config import SwimConfig

__all__ = ["Clocks"]

_JUDGES: Final = 3
"""So many others must have been measured, or all if they are fewer."""
_DRIFT: Final = 0.01
"""How much certainty a measurement loses, in seconds per second: also so that a clock that is set is noticed soon."""


@dataclass(frozen=True, slots=True)
class _Measured:
    offset: float
    uncertainty: float
    at: float


class Clocks:
    """Measured differences to the clocks of others, one for each at most."""

    def __init__(self, config: SwimConfig):
        self._config = config
        self._measured: dict[int, _Measured] = {}
        self.suspect = False
        """Whether this peer's clock is suspect."""

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
        oldest = now - self._config.clock_fresh_seconds
        fresh = [each for each in self._measured.values() if each.at >= oldest]
        differ = self._config.clock_differs_seconds
        disagreeing = sum(abs(each.offset) - each.uncertainty > differ for each in fresh)
        enough = len(fresh) >= min(others, _JUDGES)
        before, self.suspect = self.suspect, enough and 2 * disagreeing > len(fresh)
        return before != self.suspect
