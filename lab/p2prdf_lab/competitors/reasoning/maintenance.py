"""The interface of all maintenance programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Protocol

from p2prdf.reasoning import Change, Fact

__all__ = ["HELD", "Maintenance"]

HELD: Final = 0
"""The label of all present facts in programs without labels."""


class Maintenance(Protocol):
    """The closure, under some rules, of facts given with expiration times, step by step.

    Times are integers from 0 in any unit, and never go back.
    """

    touched: int
    """Number of facts processed so far: the cost of the steps, independent of the machine."""

    def __len__(self) -> int:
        """Return the number of present facts."""
        ...

    def __iter__(self) -> Iterator[tuple[Fact, int]]:
        """Yield the present facts with their labels; not during a step."""
        ...

    def step(self, now: int, given: Mapping[Fact, int] | None = None, taken_back: Iterable[Fact] = ()) -> Change:
        """Advance to a moment; retract given facts, then add others with their labels.

        A fact given again keeps the larger label; a fact that has expired already counts as late.  Retracting a fact
        that was not given, or has expired, has no effect.  Raises LocalProtocolError if time goes back.
        """
        ...
