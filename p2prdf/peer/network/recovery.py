"""How far a peer has compared its copies with those of the other replicas.

Anti-entropy (:mod:`p2prdf.peer.replication.anti_entropy`) keeps this state up to date, and every component reads it.
It stands below all of them, so that no component needs a reference to the one that compares.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Recovery"]


class Recovery:
    """The state of recovery of one peer."""

    def __init__(self, *, replicated: bool):
        """``replicated``: whether there is more than one copy of an item, and anything to compare."""
        self._replicated = replicated
        self._conditions: list[Callable[[], bool]] = []
        self.caught_up = not replicated
        """Whether the records of coordinators were compared with all other replicas since the last peer came."""
        self.receiving = False
        """Whether another peer hands over records of coordinators that this peer did not have."""
        self.pass_completed = False
        """Whether a comparison of all data was completed since the view changed."""
        self.closing = False
        """Whether this peer leaves, and takes in nothing more that other peers should keep."""
        self.offer_due = False
        """Whether items that belong to other peers are to be offered to them."""
        self.misplaced = 0
        """Rows that this peer has kept although they may belong to other peers."""
        self.misplaced_offered = 0
        """The value of ``misplaced`` when such rows were offered last."""

    @property
    def compared(self) -> bool:
        """Whether all data was compared since the view changed, and all misplaced rows were offered."""
        return not self._replicated or (
            self.caught_up and self.pass_completed and not (self.closing or self.offer_due)
            and self.misplaced == self.misplaced_offered
        )  # fmt: skip

    def requires(self, condition: Callable[[], bool]) -> None:
        """Add a condition for :attr:`complete`."""
        self._conditions.append(condition)

    @property
    def complete(self) -> bool:
        """Whether this peer lacks nothing that leads to an answer, and has joined all data that it holds.

        It is false while so many peers are missing as keep an acknowledged publication safe: they may live in another
        part of the network, and acknowledge publications there.
        """
        return all(condition() for condition in self._conditions) and self.compared
