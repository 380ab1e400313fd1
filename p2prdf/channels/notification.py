"""Notifications to the subscribers of channels."""

from __future__ import annotations

import dataclasses
import enum

__all__ = ["Kind", "Notification"]


class Kind(enum.Enum):
    """How a binding is known to hold."""

    TENTATIVE = "tentative"
    """Predicted and tested: it holds. The query has not run since and will confirm it."""
    CONFIRMED = "confirmed"
    """Found by a run of the query. If it was not tentative before, this is its first notification."""


@dataclasses.dataclass(frozen=True, slots=True)
class Notification:
    """A new binding of a channel, or the confirmation of a tentative one."""

    channel: str
    kind: Kind
    binding: tuple[str, ...]
    """Canonical terms of the projected variables, in order."""
    subscribers: tuple[str, ...]
    after: int
    """Number of publications and deletions after which it holds; a later deletion may end it."""
    first: bool
    """Whether this is the first notification of the binding since it holds."""
