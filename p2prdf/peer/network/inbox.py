"""Received messages in progress, and those to be acknowledged.

An acknowledgement means that the content has reached its owner.  For content that the receiver stores, that holds at
the end of its turn.  For forwarded content it holds when the next hop has acknowledged, so acknowledgements run back
along the route.

Most messages end at their receiver and cost only their number.  A forwarded one gets a completion counter
(:mod:`p2prdf.peer.network.completions`), held for each message that it waits for.

A repetition of a message that is not acknowledged yet is dropped.  Forwarding it would multiply it at every hop, and
this peer's outbox already repeats the forwarded message.  Storing it would lengthen a turn that lasts so long that
senders repeat their messages, and the next one again: the peer would end up with nothing but repetitions.  A
repetition in the turn after the acknowledgement has waited meanwhile, and is acknowledged again.  A later one is
handled again, which is harmless.

Some keys of a forwarded message are noted, so that the sender learns their owners (:mod:`p2prdf.overlay.multisend`).

Bounds: the senders' windows, and ``KEYS_MAX`` keys per message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from p2prdf.peer.network.completions import Completions
from p2prdf.wire.messages import Contact

__all__ = ["KEYS_MAX", "Arrival", "Inbox"]

Arrival = tuple[Contact, int]
"""A message in flight: its sender and number."""

KEYS_MAX: Final = 256


class Inbox:
    """Messages of other peers that are in progress or to be acknowledged."""

    def __init__(self, tokens: Completions, tell: Callable[[Contact, Sequence[int]], None]):
        """``tell`` is called with the sender and the noted keys when a message is done."""
        self._tokens = tokens
        self._tell = tell
        self._keys: dict[int, dict[int, None]] = {}
        self._open: dict[Arrival, int] = {}  # the completion counter of each message that waits
        self.done: dict[Contact, dict[int, None]] = {}
        """The messages to acknowledge, by sender; only senders with such messages."""
        self._acknowledged: dict[Contact, dict[int, None]] = {}
        """The messages that the last turn acknowledged, by sender."""
        self.current: Arrival | None = None
        """The message being handled, if its sender expects an acknowledgement."""

    @property
    def waiting(self) -> int:
        """Number of messages that wait for forwarded content."""
        return len(self._open)

    def begin(self, sender: Contact, transfer: int) -> bool:
        """Begin to handle a message (0: one without acknowledgement).

        Returns False for a repetition of a message that is not acknowledged yet, or was by the last turn: it must be
        ignored.
        """
        if (self._open and (sender, transfer) in self._open) or transfer in self.done.get(sender, ()):
            return False
        if transfer in self._acknowledged.get(sender, ()):
            self.done.setdefault(sender, {})[transfer] = None
            return False
        self.current = (sender, transfer) if transfer else None
        return True

    def keep(self, arrival: Arrival | None) -> tuple[int, ...]:
        """Return the completion counter of a message's acknowledgement, held once more.

        Call it before the message is acknowledged: while it is handled, or in the turn after.  Returns an empty tuple
        for None, a message without acknowledgement.
        """
        if arrival is None:
            return ()
        token = self._open.get(arrival)
        if token is not None:
            self._tokens.hold((token,))
            return (token,)
        sender, transfer = arrival
        done = self.done.get(sender)
        if done is not None and done.pop(transfer, 0) is None and not done:
            del self.done[sender]
        finish = partial(self._finish, sender, transfer)
        token = self._open[arrival] = self._tokens.token(finish, sparing=True)
        return (token,)

    def note(self, tokens: Sequence[int], keys: Sequence[int]) -> None:
        """Note keys that are forwarded for the messages of these completion counters."""
        for token in tokens:
            noted = self._keys.setdefault(token, {})
            for key in keys[: KEYS_MAX - len(noted)]:
                noted[key] = None

    def refuse(self) -> None:
        """Refuse the current message for now: its sender repeats it."""
        self.current = None

    def end(self) -> None:
        """End the current message; it is done unless parts of it are being forwarded."""
        current, self.current = self.current, None
        if current is not None and not (self._open and current in self._open):
            self.done.setdefault(current[0], {})[current[1]] = None

    def _finish(self, sender: Contact, transfer: int) -> None:
        keys = self._keys.pop(self._open.pop((sender, transfer)), None)
        if keys:
            self._tell(sender, list(keys))
        self.done.setdefault(sender, {})[transfer] = None

    def take_done(self) -> dict[Contact, list[int]]:
        """Return the messages to acknowledge now, by sender."""
        done, self.done = self.done, {}
        self._acknowledged = done
        return {sender: list(transfers) for sender, transfers in done.items()}
