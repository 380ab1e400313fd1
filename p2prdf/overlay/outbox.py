"""What was sent and is not acknowledged: at-least-once delivery to other peers.

Every parcel that must not be lost has a transfer number and stays here until its receiver
acknowledges it; it is sent again after ``retry_seconds``, doubling up to ``retry_max_seconds``.
Receivers insert idempotently, so sending again is harmless, but it is work: a receiver that is busy
would be buried under repetitions.  So the first wait is never shorter than four times the smoothed
time that this receiver's acknowledgements have lately taken (as in RFC 6298).  At most ``window``
parcels per receiver *and number of hops* are under way; later ones wait their turn in order.

Why hops: a message that its receiver passes on is acknowledged when the next one has acknowledged
it.  With one window per receiver, three peers in a ring could each have a full window of messages
that wait for the next one's window to have room, for ever.  Passed on, a message has one hop more;
with a window for each number of hops it only ever waits for messages of more hops than its own, and
those of the most hops are passed on no further (as buffers by hop count keep packet networks from
deadlock).  Few numbers of hops are in use at a time, so the windows of one receiver stay few.

What is on its way to a receiver need not be sent there once more: when a peer is gone, what it was sent goes to all who
keep it now, and most of these were sent it as well.  If each loss doubled what is under way, those who lose all others
one after the other would be buried under it.

Offers and what is wanted of them have a window of their own as well: a peer that is about to be gone takes in nothing
else any more, and they must not wait for the room that what it does not take in will never make.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from p2prdf.wire.messages import Contact, Message, Offer, Want

__all__ = ["Outbox", "Transfer"]

_OFFERS: Final = -1
"""In place of the number of hops."""


@dataclass(slots=True)
class Transfer:
    """One message on its way; ``tokens`` name the publications that wait for it.

    ``channel``: its receiver and its hops; each channel has a window of its own.
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
    """Unacknowledged transfers of one peer."""

    def __init__(
        self, *, window: int = 256, retry_seconds: float = 1.0, retry_max_seconds: float = 16.0, first: int = 0
    ):
        """Number transfers from ``first`` + 1 on: at random, so that a former life's are not taken for these."""
        self._window = window
        self._retry = retry_seconds
        self._retry_max = retry_max_seconds
        self._next = first
        self._open: dict[int, Transfer] = {}
        self._on_its_way: set[tuple[int, int, tuple[int, ...]]] = set()
        """Receiver, message (by its address) and tokens of every transfer."""
        self._under_way: dict[tuple[int, int], int] = {}
        self._waiting: dict[tuple[int, int], deque[Transfer]] = {}
        self._due: list[tuple[float, int]] = []
        self._seconds: dict[int, float] = {}
        self.retries = 0

    def __len__(self) -> int:
        return len(self._open) + sum(len(queue) for queue in self._waiting.values())

    def messages(self) -> Iterator[Message]:
        """Yield all messages that are not acknowledged."""
        for transfer in self._open.values():
            yield transfer.message
        for queue in self._waiting.values():
            for transfer in queue:
                yield transfer.message

    def holds(self, to: Contact, message: Message, tokens: tuple[int, ...]) -> bool:
        """Return whether this very message is on its way to a receiver on behalf of the same tokens."""
        return (to.key, id(message), tokens) in self._on_its_way

    def put(self, to: Contact, message: Message, tokens: tuple[int, ...], now: float) -> Transfer | None:
        """Take a message in charge; return the transfer if it may be sent now."""
        self._next += 1
        channel = (to.key, _OFFERS if isinstance(message, Offer | Want) else getattr(message, "hops", 0))
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
        """Close the sender's transfers; return those closed, and those that may be sent in their place."""
        closed, started = [], []
        for number in numbers:
            transfer = self._open.get(number)
            if transfer is None or transfer.to.key != sender.key:
                continue
            del self._open[number]
            closed.append(transfer)
            key = transfer.to.key
            self._on_its_way.discard((key, id(transfer.message), transfer.tokens))
            if transfer.attempts == 1:  # of one sent twice nobody knows which was acknowledged
                took = now - transfer.sent_at
                self._seconds[key] = took + 0.875 * (self._seconds.get(key, took) - took)
            following = self._leave(transfer.channel)
            if following is not None:
                self._start(following, now)
                started.append(following)
        return closed, started

    def _leave(self, channel: tuple[int, int]) -> Transfer | None:
        """Make room in a window; return who waits for it.  Of a channel that nobody uses nothing stays."""
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
        """Give up a receiver; return all its transfers, to be routed anew."""
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
        """When the next transfer is due to be sent again."""
        while self._due and self._stale(*self._due[0]):
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else None

    def _stale(self, due: float, number: int) -> bool:
        transfer = self._open.get(number)
        return transfer is None or transfer.due != due

    def overdue(self, now: float) -> list[Transfer]:
        """Return the transfers to be sent again now."""
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
