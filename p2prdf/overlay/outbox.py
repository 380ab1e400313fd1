"""Unacknowledged messages to other peers: at-least-once delivery.

Each message has a transfer number and stays here until its receiver acknowledges it.  It is repeated after
``retry_seconds``, then after doubling delays up to ``retry_max_seconds``.  Receivers are idempotent.  So that
repetitions do not overload a busy receiver, the first delay is at least four times the smoothed time of its recent
acknowledgements (compare RFC 6298).

At most ``window`` messages per receiver and number of hops are in flight; others queue in order.  A forwarded message
is acknowledged when the next peer has acknowledged it.  With one window per receiver, a cycle of full windows could
deadlock.  With one window per hop count a message waits only for messages of more hops, and those of the most hops are
not forwarded (compare buffer classes by hop count in packet networks).

Offers and fetches of anti-entropy have a window of their own: a departing peer accepts nothing else, and they must not
wait for room.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from p2prdf.wire.messages import Contact, Fetch, IdentityList, Message

__all__ = ["Outbox", "Transfer"]

_OFFERS: Final = -1
"""The channel number of offers and fetches, instead of a hop count."""


@dataclass(slots=True)
class Transfer:
    """One message in flight; ``tokens``: the completion counters that wait for its acknowledgement.

    ``channel``: the receiver's key and the number of hops; each channel has a window of its own.
    """

    number: int
    to: Contact
    message: Message
    tokens: tuple[int, ...]
    channel: tuple[int, int]
    due: float
    delay: float
    sent_at: float = 0.0
    attempts: int = 0


class Outbox:
    """The unacknowledged messages of one peer."""

    def __init__(
        self, *, window: int = 256, retry_seconds: float = 1.0, retry_max_seconds: float = 16.0, first: int = 0
    ):
        """Start transfer numbers at ``first`` + 1.

        ``first`` should be random, so that these transfers differ from those of an earlier process.
        """
        self._window = window
        self._retry = retry_seconds
        self._retry_max = retry_max_seconds
        self._next = first
        self._open: dict[int, Transfer] = {}
        self._on_its_way: set[tuple[int, int, tuple[int, ...]]] = set()
        """Receiver, identity of the message object, and tokens of every transfer."""
        self._under_way: dict[tuple[int, int], int] = {}
        self._waiting: dict[tuple[int, int], deque[Transfer]] = {}
        self._due: list[tuple[float, int]] = []
        self._seconds: dict[int, float] = {}
        self.retries = 0

    def __len__(self) -> int:
        return len(self._open) + sum(len(queue) for queue in self._waiting.values())

    def messages(self) -> Iterator[Message]:
        """Yield all unacknowledged messages."""
        for transfer in self._open.values():
            yield transfer.message
        for queue in self._waiting.values():
            for transfer in queue:
                yield transfer.message

    def holds(self, to: Contact, message: Message, tokens: tuple[int, ...]) -> bool:
        """Return whether this message object is in flight or queued to a receiver for the same tokens.

        After the loss of a peer its messages go to all current replicas, and most of these have them in flight already.
        Without this check each further loss would double the number of messages in flight.
        """
        return (to.key, id(message), tokens) in self._on_its_way

    def put(self, to: Contact, message: Message, tokens: tuple[int, ...], now: float) -> Transfer | None:
        """Add a message; return the transfer if it may be sent now, None if it is queued."""
        self._next += 1
        channel = (to.key, _OFFERS if isinstance(message, IdentityList | Fetch) else getattr(message, "hops", 0))
        transfer = Transfer(self._next, to, message, tokens, channel, now, self._retry)
        self._on_its_way.add((to.key, id(message), tokens))
        if channel in self._waiting or self._under_way.get(channel, 0) >= self._window:
            self._waiting.setdefault(channel, deque()).append(transfer)
            return None
        self._start(transfer, now)
        return transfer

    def _start(self, transfer: Transfer, now: float) -> None:
        self._open[transfer.number] = transfer
        transfer.sent_at = now
        transfer.delay = max(transfer.delay, 4 * self._seconds.get(transfer.to.key, 0.0))
        self._under_way[transfer.channel] = self._under_way.get(transfer.channel, 0) + 1
        self._schedule(transfer, now)

    def _schedule(self, transfer: Transfer, now: float) -> None:
        transfer.attempts += 1
        transfer.due = now + transfer.delay
        transfer.delay = max(transfer.delay, min(transfer.delay * 2, self._retry_max))
        heapq.heappush(self._due, (transfer.due, transfer.number))

    def acknowledge(
        self, sender: Contact, numbers: list[int], now: float
    ) -> tuple[list[Transfer], list[Transfer]]:
        """Close the sender's transfers; return those closed, and the queued ones that may be sent now."""
        closed, started = [], []
        for number in numbers:
            transfer = self._open.get(number)
            if transfer is None or transfer.to.key != sender.key:
                continue
            del self._open[number]
            closed.append(transfer)
            key = transfer.to.key
            self._on_its_way.discard((key, id(transfer.message), transfer.tokens))
            if transfer.attempts == 1:  # a repeated message gives no round trip time: the acknowledged copy is unknown
                took = now - transfer.sent_at
                self._seconds[key] = took + 0.875 * (self._seconds.get(key, took) - took)
            following = self._leave(transfer.channel)
            if following is not None:
                self._start(following, now)
                started.append(following)
        return closed, started

    def _leave(self, channel: tuple[int, int]) -> Transfer | None:
        """Make room in a window; return the next queued transfer, if any.  Unused channels are removed."""
        left = self._under_way[channel] - 1
        if left:
            self._under_way[channel] = left
        else:
            del self._under_way[channel]
        queue = self._waiting.get(channel)
        if queue is None:
            return None
        following = queue.popleft()
        if not queue:
            del self._waiting[channel]
        return following

    def lost(self, to: Contact) -> list[Transfer]:
        """Remove a lost receiver; return all its transfers, to be routed again."""
        gone = [each for each in self._open.values() if each.to.key == to.key]
        for transfer in gone:
            del self._open[transfer.number]
        self._seconds.pop(to.key, None)
        for channel in [channel for channel in self._under_way if channel[0] == to.key]:
            del self._under_way[channel]
        for channel in [channel for channel in self._waiting if channel[0] == to.key]:
            gone += self._waiting.pop(channel)
        self._on_its_way.difference_update((to.key, id(each.message), each.tokens) for each in gone)
        return gone

    @property
    def deadline(self) -> float | None:
        """The time of the next repetition."""
        while self._due:
            due, number = self._due[0]
            transfer = self._open.get(number)
            if transfer is not None and transfer.due == due:
                break
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else None

    def _stale(self, due: float, number: int) -> bool:
        transfer = self._open.get(number)
        return transfer is None or transfer.due != due

    def overdue(self, now: float) -> list[Transfer]:
        """Return the transfers to be repeated now."""
        found = []
        while self._due and self._due[0][0] <= now:
            due, number = heapq.heappop(self._due)
            if self._stale(due, number):
                continue
            transfer = self._open[number]
            self._schedule(transfer, now)
            self.retries += 1
            found.append(transfer)
        return found
