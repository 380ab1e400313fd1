"""What subscribers of channels are told."""

from __future__ import annotations

import dataclasses
import enum

__all__ = ["Kind", "Notification"]


class Kind(enum.Enum):
    """How far a binding is known to hold."""

    TENTATIVE = "tentative"
    """It was foreseen and tested: it holds.  The query has not run since, and will confirm it."""
    CONFIRMED = "confirmed"
    """A run of the query found it.  If it was not tentative before, this is the first that is said of it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Notification:
    """A binding that is new on a channel, or a tentative one that is confirmed."""

    channel: str
    kind: Kind
    binding: tuple[str, ...]
    """Canonical terms of the variables that the query projects, in order."""
    subscribers: tuple[str, ...]
    after: int
    """It holds after so many publications and deletions; what a deletion takes away later was told before."""
    first: bool
    """Whether the binding is told for the first time since it holds."""
