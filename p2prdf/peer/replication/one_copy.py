"""A peer without replicas: no other peer has a copy to compare with, and none takes the items of a leaving peer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from p2prdf.peer.network.component import Component

if TYPE_CHECKING:
    from p2prdf.peer.network.messenger import Messenger
    from p2prdf.wire.messages import Contact

__all__ = ["OneCopy"]


class OneCopy(Component):
    """The counterpart of :class:`p2prdf.peer.replication.anti_entropy.AntiEntropy` with one copy."""

    settled = True
    """Whether this peer lacks no data that another replica has, in the present view."""
    is_asked = False
    """Whether questions of other replicas wait for an answer."""
    is_urgent = False
    """Whether questions of other replicas about coordinators' records wait for an answer."""

    def __init__(self, messenger: Messenger):
        self._messenger = messenger
        self._on_left: Callable[[bool], None] | None = None
        self.parts = (self,)
        """The components that this one consists of."""

    def status(self) -> Mapping[str, object]:
        """Return that nothing was compared or transferred."""
        return {"comparing": False, "anti_entropy_rounds": 0, "items_sent": 0, "items_requested": 0}

    def answer_first(self) -> None:
        """Do nothing: no other peer asks."""

    def heard_stranger(self) -> None:
        """Note that a peer outside this peer's view has sent items."""

    def contact_lost(self, contact: Contact) -> None:
        """Note that a peer is gone."""

    def leave(self, done: Callable[[bool], None]) -> None:
        """Accept no more input, and call ``done`` in the next turn: nobody has the items of this peer."""
        self._messenger.recovery.closing, self._on_left = True, done

    @property
    def deadline(self) -> float | None:
        """The time of the next action, or None."""
        return None if self._on_left is None else self._messenger.now

    def wake(self) -> None:
        """End a departure."""
        if self._on_left is not None:
            done, self._on_left = self._on_left, None
            done(False)
