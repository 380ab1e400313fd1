"""What every way to keep up to date what follows from facts has in common: its steps, and what they tell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from p2prdf.reasoning.facts import Fact

__all__ = ["FOREVER", "HELD", "Change", "Maintenance"]

FOREVER: Final = (1 << 63) - 1
"""The label of what does not expire: background knowledge."""
HELD: Final = 0
"""The label of all that holds, for programs that keep no other."""


@dataclass(frozen=True, slots=True)
class Change:
    """What a step did to the facts that hold."""

    added: dict[Fact, int] = field(default_factory=dict)
    """With their labels."""
    removed: list[Fact] = field(default_factory=list)
    relabelled: dict[Fact, int] = field(default_factory=dict)
    """What holds longer than it was known to, or less long after something was taken back: the new labels.

    After a step that began anew (``anew``) these are left out, for they are most; programs without labels have none.
    """
    anew: bool = False


class Maintenance(Protocol):
    """All that follows by some rules from facts given with expiration times, step by step.

    Times are whole numbers from 0 in any unit, and never go back.
    """

    touched: int
    """Facts looked at, so far: what steps cost, whatever the machine."""

    def __len__(self) -> int:
        """Return how many facts hold."""
        ...

    def __iter__(self) -> Iterator[tuple[Fact, int]]:
        """Yield what holds, with labels; not while stepping."""
        ...

    def step(self, now: int, given: Mapping[Fact, int] | None = None, taken_back: Iterable[Fact] = ()) -> Change:
        """Go on to a moment; take back given facts, then take in others with their labels.

        A fact given again keeps the larger label; one that has expired already is counted as late.  What was not
        given, or has expired, cannot be taken back: nothing happens.  Raises LocalProtocolError if time goes back.
        """
        ...
