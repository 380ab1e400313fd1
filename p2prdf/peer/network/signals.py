"""Events inside one peer that several components react to.

A component connects in its constructor.  A signal calls its receivers in the order in which they connected, so a
component that others depend on is made before them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

__all__ = ["Signal", "Signals"]


class Signal:
    """One kind of event."""

    def __init__(self) -> None:
        self._receivers: Final[list[Callable[[], None]]] = []

    def connect(self, receiver: Callable[[], None]) -> None:
        """Call ``receiver`` at each event."""
        self._receivers.append(receiver)

    def emit(self) -> None:
        """Call all receivers."""
        for receiver in self._receivers:
            receiver()


class Signals:
    """The signals of one peer."""

    def __init__(self) -> None:
        self.view_changed = Signal()
        """The set of members has changed, and the view is complete."""
        self.caught_up = Signal()
        """The coordinators' records were compared with all other replicas (:attr:`Recovery.caught_up`)."""
        self.compared = Signal()
        """All data was compared with all other replicas since the view changed (:attr:`Recovery.pass_completed`)."""
        self.home_changed = Signal()
        """The lease of a subscription has begun at this peer, or a group is orphaned."""
        self.misplaced = Signal()
        """This peer has stored rows of which it may not be a replica (:attr:`Recovery.misplaced`)."""
        self.handoff_done = Signal()
        """The records that other peers were handing over have arrived (:attr:`Recovery.receiving`)."""
        self.index_widened = Signal()
        """A subscription begins before the known start of its query, so all rows must be joined again."""
