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
        """The set of members has changed, and all of it is known."""
        self.caught_up = Signal()
        """The records of coordinators were compared with all other replicas (:attr:`Recovery.caught_up`)."""
        self.handoff_done = Signal()
        """Records that other peers were handing over are here (:attr:`Recovery.receiving`)."""
        self.index_widened = Signal()
        """A subscription begins earlier than its query was known to, so everything is to be joined again."""
