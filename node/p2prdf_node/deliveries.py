"""Delivery of solutions to one client: waiting solutions per subscription, and acknowledgement times."""

from __future__ import annotations

import math
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from p2prdf.columns import as_list
from p2prdf.errors import ClustersMerging, LocalProtocolError
from p2prdf.wire import contract, messages

if TYPE_CHECKING:
    from p2prdf.rdf.reach import Reach
    from p2prdf_node.clients import Clients
    from p2prdf_node.session import ClientSession

__all__ = ["Deliveries", "Delivery"]

FRAME_ANSWERS: Final = 4096
"""Most solutions in one frame."""
FRAMES_TIMED: Final = 64
"""Most unacknowledged frames of one subscription with a measured write time."""


@dataclass(slots=True)
class Delivery:
    """Delivery of one subscription to one client."""

    subscription: int
    live: bool
    """Whether the client knows of the subscription; solutions wait until then."""
    once: bool = False
    """Whether it is a one-time query."""
    until: float = math.inf
    """Deadline of the query, in monotonic seconds."""
    reach: Reach | None = None
    """Data scope of the query; None until it is known."""
    request: int = 0
    """Number of the client's attach request; 0 if the client opened the subscription."""
    waiting: deque[contract.Notify | contract.Bookmark] = field(default_factory=deque)
    """At most one window of solutions, which the coordinator enforces; of bookmarks only the last."""
    timed: dict[int, float] = field(default_factory=dict)
    """Write time of each unacknowledged frame, by the identity of its last solution; at most FRAMES_TIMED, the
    latest."""


class Deliveries:
    """The deliveries of one session."""

    def __init__(self, clients: Clients, session: ClientSession):
        self._clients = clients
        self._session = session
        self._by_number: dict[int, Delivery] = {}
        self._room = True

    def __len__(self) -> int:
        return len(self._by_number)

    def find(self, subscription: int) -> Delivery | None:
        """Return the delivery of a subscription, or None."""
        return self._by_number.get(subscription)

    def live(self) -> list[Delivery]:
        """Return the deliveries that the client knows of."""
        return [each for each in self._by_number.values() if each.live]

    def overdue(self, now: float) -> list[Delivery]:
        """Return the deliveries with a deadline before monotonic time ``now``."""
        return [each for each in self._by_number.values() if each.until < now]

    def count(self, *, once: bool) -> int:
        """Return the number of one-time queries (``once``), or else of subscriptions."""
        return sum(each.once == once for each in self._by_number.values())

    @property
    def waiting(self) -> int:
        """Solutions that wait for room in the client's socket."""
        return sum(
            len(each.identity)
            for delivery in self._by_number.values()
            for each in delivery.waiting
            if isinstance(each, contract.Notify)
        )

    # --- beginning and end ---------------------------------------------------------------------------

    def begin(self, delivery: Delivery) -> None:
        """Direct a subscription's solutions to this session."""
        self._clients.deliver_to(delivery.subscription, self._session)
        self._by_number[delivery.subscription] = delivery

    def confirm(self, delivery: Delivery, reach: Reach) -> None:
        """Write the solutions received since the client's request; the client now knows the subscription."""
        delivery.live, delivery.reach = True, reach
        self._pump(delivery)

    def end(self, subscription: int) -> None:
        """Stop the delivery of a subscription."""
        self._by_number.pop(subscription, None)
        self._clients.forget(subscription, self._session)

    def drop(self, subscription: int) -> None:
        """Stop the delivery of a subscription, which lives on for its lease."""
        self.end(subscription)
        self._clients.submit(contract.Detach(subscription))

    def drop_all(self) -> None:
        """Stop all deliveries; the subscriptions live on for their leases."""
        for subscription in list(self._by_number):
            self.drop(subscription)

    def ended(self, subscription: int, code: str, text: str) -> None:
        """Tell the client that a subscription has ended."""
        self._by_number.pop(subscription, None)
        self._session.connection.send([messages.ClientEnded(subscription, code, text)])

    # --- solutions -------------------------------------------------------------------------------

    def notify(self, effect: contract.Notify) -> None:
        """Write solutions, or keep them until the client's socket has room."""
        delivery = self._by_number[effect.subscription]
        delivery.waiting.append(effect)
        self._pump(delivery)

    def bookmark(self, effect: contract.Bookmark) -> None:
        """Write a bookmark after the preceding solutions."""
        delivery = self._by_number[effect.subscription]
        if delivery.once and (reason := self._clients.merging()) is not None:  # a merge began after the query
            self.drop(effect.subscription)
            self.ended(effect.subscription, ClustersMerging.code, reason)
            return
        if delivery.waiting and isinstance(delivery.waiting[-1], contract.Bookmark):
            delivery.waiting.pop()
        delivery.waiting.append(effect)
        self._pump(delivery)

    def writable(self, *, room: bool) -> None:
        """Write waiting solutions, or stop until the client reads."""
        self._room = room
        if room:
            for delivery in list(self._by_number.values()):
                self._pump(delivery)

    def acknowledged(self, message: messages.ClientAcknowledge) -> None:
        """Record the time from write to acknowledgement of a frame."""
        delivery = self._by_number.get(message.subscription)
        if delivery is not None and delivery.timed:
            now = time.monotonic()
            for identity in delivery.timed.keys() & set(as_list(message.identity)):
                self._clients.solution_seconds.observe(now - delivery.timed.pop(identity))

    def _pump(self, delivery: Delivery) -> None:
        while delivery.live and delivery.waiting and self._room:
            effect = delivery.waiting.popleft()
            if isinstance(effect, contract.Bookmark):
                self._session.connection.send([messages.ClientBookmark(effect.subscription, effect.stamp)])
            else:
                self._write_rows(delivery, effect)

    def _write_rows(self, delivery: Delivery, effect: contract.Notify) -> None:
        """Write solutions in frames of bounded size; the rest waits while the socket is full."""
        rows = len(effect.identity)
        count = min(rows, FRAME_ANSWERS)  # zero rows: the frame only reports a loss
        while True:
            try:
                self._session.connection.send([_rows_of(effect, count)])
                break
            except LocalProtocolError:  # long terms: fewer solutions fit a frame
                if count <= 1:
                    raise
                count = (count + 1) // 2
        self._clients.counts["solutions"] += count
        if count:
            delivery.timed[int(effect.identity[count - 1])] = time.monotonic()
            if len(delivery.timed) > FRAMES_TIMED:
                del delivery.timed[next(iter(delivery.timed))]
        if count < rows:
            delivery.waiting.appendleft(_rest_of(effect, count))


def _rows_of(effect: contract.Notify, count: int) -> messages.ClientRows:
    """Return the first ``count`` solutions as a message to the client."""
    return messages.ClientRows(
        effect.subscription, effect.first, effect.lost, effect.identity[:count], effect.born[:count],
        tuple(column[:count] for column in effect.bindings), effect.epoch,
    )  # fmt: skip


def _rest_of(effect: contract.Notify, count: int) -> contract.Notify:
    """Return the solutions after the first ``count``."""
    return contract.Notify(
        effect.subscription, effect.first + count, 0, effect.identity[count:], effect.born[count:],
        tuple(column[count:] for column in effect.bindings), effect.epoch,
    )  # fmt: skip
