"""The state of recovery: the progress of a peer in comparing its copies with the other replicas.

Anti-entropy (:mod:`p2prdf.peer.replication.anti_entropy`) keeps this state up to date, and every component reads it. It
stands below all of them, so that no component needs a reference to the one that compares.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Recovery", "RecoveryOfOneCopy"]


class Recovery:
    """The state of recovery of one peer."""

    def __init__(self) -> None:
        self._conditions: list[Callable[[], bool]] = []
        self.caught_up = False
        """Whether the coordinators' records were compared with all other replicas since the last peer came."""
        self.receiving = False
        """Whether another peer hands over coordinators' records that this peer did not have."""
        self.pass_completed = False
        """Whether a comparison of all data was completed since the view changed."""
        self.closing = False
        """Whether this peer leaves, and accepts no more items that other peers should store."""
        self.offer_due = False
        """Whether misplaced items must be offered to their owners."""
        self.misplaced = 0
        """Rows that this peer has stored although it may not be their replica."""
        self.misplaced_offered = 0
        """The value of ``misplaced`` at the last offer."""

    @property
    def compared(self) -> bool:
        """Whether all data was compared since the view changed, and all misplaced rows were offered."""
        return (
            self.caught_up and self.pass_completed and not (self.closing or self.offer_due)
            and self.misplaced == self.misplaced_offered
        )  # fmt: skip

    def requires(self, condition: Callable[[], bool]) -> None:
        """Add a condition for :attr:`complete`."""
        self._conditions.append(condition)

    @property
    def complete(self) -> bool:
        """Whether this peer has all data that leads to a solution, and has joined all of it.

        It is false while so many members are missing that they could have acknowledged publications by themselves, in
        another part of the network.
        """
        return all(condition() for condition in self._conditions) and self.compared


class RecoveryOfOneCopy(Recovery):
    """The state of a peer if each item has one copy: there is nothing to compare."""

    def __init__(self) -> None:
        super().__init__()
        self.caught_up = True

    @property
    def compared(self) -> bool:
        """Return True."""
        return True
