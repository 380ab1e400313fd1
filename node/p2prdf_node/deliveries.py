"""Solutions of one client's subscriptions on their way to it, and what it has acknowledged."""

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
"""Solutions in one frame."""
FRAMES_TIMED: Final = 64
"""Frames of a subscription whose acknowledgement is waited for to count how long it took."""


@dataclass(slots=True)
class Delivery:
    """Solutions of one subscription on their way to one client."""

    subscription: int
    live: bool
    """Whether the client has been told of it; what comes in before waits."""
    once: bool = False
    """It is a query that is to be answered once."""
    until: float = math.inf
    """When it is cut off, in monotonic seconds."""
    reach: Reach | None = None
    """What it is about; None as long as that is not known."""
    request: int = 0
    """The client's, by which it was attached; 0 if it was opened."""
    waiting: deque[contract.Notify | contract.Bookmark] = field(default_factory=deque)
    """At most a window of solutions, for the home sends no more than is acknowledged; of bookmarks the last alone."""
    timed: dict[int, float] = field(default_factory=dict)
    """When the last solution of each frame was written, by identity; of frames not acknowledged the latest alone."""


class Deliveries:
    """What one session is told."""

    def __init__(self, clients: Clients, session: ClientSession):
        self._clients = clients
        self._session = session
        self._by_number: dict[int, Delivery] = {}
        self._room = True

    def __len__(self) -> int:
        return len(self._by_number)

    def find(self, subscription: int) -> Delivery | None:
        """Return what is delivered of a subscription, if it is."""
        return self._by_number.get(subscription)

    def live(self) -> list[Delivery]:
        """Return those that the client was told of."""
        return [each for each in self._by_number.values() if each.live]

    def overdue(self, now: float) -> list[Delivery]:
        """Return those to be cut off at monotonic time ``now``."""
        return [each for each in self._by_number.values() if each.until < now]

    def count(self, *, once: bool) -> int:
        """Return how many one-time queries (``once``), or else subscriptions, there are."""
        return sum(each.once == once for each in self._by_number.values())

    @property
    def waiting(self) -> int:
        """Solutions that wait until the client takes some."""
        return sum(
            len(each.identity)
            for delivery in self._by_number.values()
            for each in delivery.waiting
            if isinstance(each, contract.Notify)
        )

    # --- beginning and end -----------------------------------------------------------------------

    def begin(self, delivery: Delivery) -> None:
        """Take a subscription over."""
        self._clients.deliver_to(delivery.subscription, self._session)
        self._by_number[delivery.subscription] = delivery

    def confirm(self, delivery: Delivery, reach: Reach) -> None:
        """Write what came in since the client asked for it: it was told that it has it."""
        delivery.live, delivery.reach = True, reach
        self._pump(delivery)

    def end(self, subscription: int) -> None:
        """Deliver a subscription no more."""
        self._by_number.pop(subscription, None)
        self._clients.forget(subscription, self._session)

    def drop(self, subscription: int) -> None:
        """Deliver a subscription no more; it lives on for its lease."""
        self.end(subscription)
        self._clients.submit(contract.Detach(subscription))

    def drop_all(self) -> None:
        """Deliver nothing more; all live on for their leases."""
        for subscription in list(self._by_number):
            self.drop(subscription)

    def ended(self, subscription: int, code: str, text: str) -> None:
        """Tell the client that it gets nothing more of a subscription."""
        self._by_number.pop(subscription, None)
        self._session.connection.send([messages.ClientEnded(subscription, code, text)])

    # --- solutions -------------------------------------------------------------------------------

    def notify(self, effect: contract.Notify) -> None:
        """Write solutions, or keep them until the client takes some."""
        delivery = self._by_number[effect.subscription]
        delivery.waiting.append(effect)
        self._pump(delivery)

    def bookmark(self, effect: contract.Bookmark) -> None:
        """Write a bookmark after the solutions before it."""
        delivery = self._by_number[effect.subscription]
        if delivery.once and (reason := self._clients.merging()) is not None:  # it has met another cluster since
            self.drop(effect.subscription)
            self.ended(effect.subscription, ClustersMerging.code, reason)
            return
        if delivery.waiting and isinstance(delivery.waiting[-1], contract.Bookmark):
            delivery.waiting.pop()
        delivery.waiting.append(effect)
        self._pump(delivery)

    def writable(self, *, room: bool) -> None:
        """Write what waits, or nothing until the client reads."""
        self._room = room
        if room:
            for delivery in list(self._by_number.values()):
                self._pump(delivery)

    def acknowledged(self, message: messages.ClientAcknowledge) -> None:
        """Count how long the client took for solutions that it has dealt with."""
        delivery = self._by_number.get(message.subscription)
        if delivery is not None and delivery.timed:
            now = time.monotonic()
            for identity in delivery.timed.keys() & set(as_list(message.identity)):
                self._clients.answer_seconds.observe(now - delivery.timed.pop(identity))

    def _pump(self, delivery: Delivery) -> None:
        while delivery.live and delivery.waiting and self._room:
            effect = delivery.waiting.popleft()
            if isinstance(effect, contract.Bookmark):
                self._session.connection.send([messages.ClientBookmark(effect.subscription, effect.stamp)])
            else:
                self._write_rows(delivery, effect)

    def _write_rows(self, delivery: Delivery, effect: contract.Notify) -> None:
        """Write solutions in frames of moderate size; what the socket has no room for waits again."""
        rows = len(effect.identity)
        count = min(rows, FRAME_ANSWERS)  # none if there is only a loss to tell
        while True:
            try:
                self._session.connection.send([_rows_of(effect, count)])
                break
            except LocalProtocolError:  # long terms: not so many fit a frame
                if count <= 1:
                    raise
                count = (count + 1) // 2
        self._clients.counts["answers"] += count
        if count:
            delivery.timed[int(effect.identity[count - 1])] = time.monotonic()
            if len(delivery.timed) > FRAMES_TIMED:
                del delivery.timed[next(iter(delivery.timed))]
        if count < rows:
            delivery.waiting.appendleft(_rest_of(effect, count))


def _rows_of(effect: contract.Notify, count: int) -> messages.ClientRows:
    """Return the first ``count`` solutions as a client is told them."""
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
