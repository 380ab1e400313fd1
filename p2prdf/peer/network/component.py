"""The contract between a peer and its components.

A component owns a part of the state of a peer.  It names the messages that it handles, the requests of local clients
that it serves, the records that it restores after a restart, the records of a snapshot, its next deadline, and its part
of the status.  The peer merges these tables and dispatches by them.  The order of a turn and of a snapshot is in
:mod:`p2prdf.peer.core`.

No component is polled.  A turn wakes the components that are *dirty* and those with a deadline that has come.  A
component marks itself as dirty where its state changes outside :meth:`Component.wake` in such a way that there is work
for the next turn, or an earlier deadline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from p2prdf.wire.messages import Contact, Message

__all__ = ["Component", "Handlers", "Restorers", "earliest", "merged"]

Handlers: TypeAlias = Mapping[type[Message], Callable[[Contact, Any], None]]
"""By type of message the method that takes the sender and the message."""
Restorers: TypeAlias = Mapping[type[Message], Callable[[Any], None]]
"""By type of record the method that takes the record."""


class Component:
    """A part of a peer.

    The defaults describe a component without messages, records, deadline or status.
    """

    dirty = True
    """Whether the next turn wakes this component; :attr:`deadline` is read anew until then."""
    due: float | None = None
    """The deadline as of the last wake: it counts while the component is not dirty."""

    def mark_dirty(self) -> None:
        """Mark this component as dirty; a receiver of signals."""
        self.dirty = True

    def handlers(self) -> Handlers:
        """Return the handlers of messages of other peers.

        A handler may raise P2PRDFError to refuse a message.
        """
        return {}

    def requests(self) -> Mapping[type[Any], Callable[[Any], None]]:
        """Return the handlers of requests of local clients and of the driver."""
        return {}

    def restorers(self) -> Restorers:
        """Return the methods that restore the records of an earlier process."""
        return {}

    def restored(self) -> None:
        """Note that all records of the earlier process are restored."""

    def kept(self) -> Iterable[Message]:
        """Return the records from which the next process restores this component."""
        return ()

    def wake(self) -> None:
        """Do the work that is due; a component with further steps in a turn has methods of its own for them."""

    @property
    def deadline(self) -> float | None:
        """When :meth:`wake` must be called, in seconds of the driver's clock, or None."""
        return None

    def status(self) -> Mapping[str, object]:
        """Return counters and sizes as plain JSON values; keys are unique in a peer."""
        return {}


def earliest(*times: float | None) -> float | None:
    """Return the earliest of some times, or None if there is none."""
    found = None
    for at in times:
        if at is not None and (found is None or at < found):
            found = at
    return found


def merged(tables: Iterable[Mapping[Any, Any]]) -> dict[Any, Any]:
    """Return the union of several tables; a key in two of them is a programming error."""
    found: dict[Any, Any] = {}
    for table in tables:
        repeated = found.keys() & table.keys()
        assert not repeated, f"two components claim {', '.join(map(str, repeated))}"
        found.update(table)
    return found
