"""What other peers sent here and is to be acknowledged.

An acknowledgement says: this is at its owner.  For what a receiver keeps that is so by the end of
its turn.  For what it passes on it is so when the next peer has acknowledged in turn, and then
acknowledgements run back the way the message came.  So a publication is acknowledged when every
owner holds its triples, whichever way they went.

Most transfers end at the peer they came to, so one costs nothing but its number, until something
of it is passed on: then it gets a token (:mod:`p2prdf.peer.network.completions`), held for each message that it
waits for, and is no longer among those to acknowledge until that is released.

While a transfer is being passed on its sender, impatient, sends it again.  Passing on every
repetition would multiply them at every hop, so a repetition of what is still under way is dropped
here: its acknowledgement will come, and the message that it waits for is repeated by the outbox of
this peer.  What was acknowledged is forgotten; if it comes again it is taken in again, which is
harmless.

What is noted with a transfer that is passed on: some of its keys.  When it is done their owners are
known here, and the sender is told (see :mod:`p2prdf.overlay.multisend`).

Bounds: at most as many transfers as the senders' windows let be under way, ``KEYS_MAX`` keys of each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from p2prdf.peer.network.completions import Tokens
from p2prdf.wire.messages import Contact

__all__ = ["KEYS_MAX", "Arrival", "Arrivals"]

Arrival = tuple[Contact, int]
"""A transfer: who sent it, and its number."""

KEYS_MAX: Final = 256


class Arrivals:
    """Transfers of other peers that are being worked on, and those to acknowledge."""

    def __init__(self, tokens: Tokens, tell: Callable[[Contact, Sequence[int]], None]):
        """``tell`` is called with sender and noted keys when a transfer is done."""
        self._tokens = tokens
        self._tell = tell
        self._keys: dict[int, dict[int, None]] = {}
        self._open: dict[Arrival, int] = {}  # the token of each that waits for something
        self._done: dict[Contact, dict[int, None]] = {}  # no sender without a transfer
        self.current: Arrival | None = None
        """The transfer that is being taken in, if somebody waits for its acknowledgement."""

    @property
    def waiting(self) -> int:
        """Number of transfers that wait for what was passed on."""
        return len(self._open)

    @property
    def to_acknowledge(self) -> bool:
        """Whether something was taken in that is not acknowledged yet."""
        return bool(self._done)

    def begin(self, sender: Contact, transfer: int) -> bool:
        """Note which transfer is being taken in (0: one that nobody waits for).

        False if it is a repetition of one that is being passed on: leave it.
        """
        if self._open and (sender, transfer) in self._open:
            return False
        self.current = (sender, transfer) if transfer else None
        return True

    def keep(self, arrival: Arrival | None) -> tuple[int, ...]:
        """Return the token that the acknowledgement of a transfer waits for, held once more.

        Call it before the transfer is acknowledged: while it is taken in, or in the turn after.
        No token (an empty tuple) for None: nobody waits.
        """
        if arrival is None:
            return ()
        token = self._open.get(arrival)
        if token is not None:
            self._tokens.hold((token,))
            return (token,)
        sender, transfer = arrival
        done = self._done.get(sender)
        if done is not None and done.pop(transfer, 0) is None and not done:
            del self._done[sender]
        finish = partial(self._finish, sender, transfer)
        token = self._open[arrival] = self._tokens.token(finish, sparing=True)
        return (token,)

    def note(self, tokens: Sequence[int], keys: Sequence[int]) -> None:
        """Note keys that are passed on for the transfers that these tokens stand for."""
        for token in tokens:
            noted = self._keys.setdefault(token, {})
            for key in keys[: KEYS_MAX - len(noted)]:
                noted[key] = None

    def refuse(self) -> None:
        """Leave the transfer in hand to be sent again: it cannot be taken in yet."""
        self.current = None

    def end(self) -> None:
        """Note that the transfer in hand was taken in; unless something of it is passed on, it is done."""
        current, self.current = self.current, None
        if current is not None and not (self._open and current in self._open):
            self._done.setdefault(current[0], {})[current[1]] = None

    def _finish(self, sender: Contact, transfer: int) -> None:
        keys = self._keys.pop(self._open.pop((sender, transfer)), None)
        if keys:
            self._tell(sender, list(keys))
        self._done.setdefault(sender, {})[transfer] = None

    def take_done(self) -> dict[Contact, list[int]]:
        """Return what is to be acknowledged now, by sender."""
        done, self._done = self._done, {}
        return {sender: list(transfers) for sender, transfers in done.items()}
