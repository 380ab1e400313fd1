"""Tokens: what an undertaking waits for, counted.

An undertaking waits for *things*, each of which must come to pass, and for *peers* that are to acknowledge
what was sent to them.  Of the peers a few may be outstanding: with ``r`` copies under way per item, each at
another peer, and ``spare`` peers outstanding, every item has at least ``r - spare`` copies.  That asks for more
than needed where many peers are concerned (two slow ones may hold copies of different items), and never for
less; and it costs one number per peer, not one per item.  A peer that is lost is outstanding no more: what was
sent there has been sent to others then.  With fewer peers there are fewer copies to spare; and if more come, no more of
what is under way goes to them.  So what counts is the least since an undertaking was begun.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

__all__ = ["Tokens"]

NOBODY: Final = -1
"""No peer's key."""


@dataclass(slots=True)
class _Token:
    """How much an undertaking still waits for, and what to do then."""

    left: int
    done: Callable[[], None] | None
    """None: it is done, and what is outstanding is only waited for to be forgotten."""
    spare: int
    """How many peers may be outstanding: the least since it was begun."""
    peers: dict[int, int] = field(default_factory=dict)
    """Messages outstanding per peer."""


class Tokens:
    """All undertakings of a peer that wait for something."""

    def __init__(self, spare: Callable[[], int] = lambda: 0) -> None:
        """``spare``: how many peers may be outstanding where an undertaking allows for it."""
        self._spare = spare
        self._open: dict[int, _Token] = {}
        self._last = 0

    def __len__(self) -> int:
        return len(self._open)

    def token(self, done: Callable[[], None], *, sparing: bool = False) -> int:
        """Return a new token, held once.

        ``done`` runs when it is released as often as held, and all peers have acknowledged; with ``sparing`` as
        many as are needed.
        """
        self._last += 1
        self._open[self._last] = _Token(1, done, self._spare() if sparing else 0)
        return self._last

    def hold(self, tokens: Sequence[int], peer: int = NOBODY) -> None:
        """Count one more to wait for on behalf of each token: a message to a peer (by its key), or else a thing."""
        for number in tokens:
            token = self._open[number]
            if peer != NOBODY:
                token.peers[peer] = token.peers.get(peer, 0) + 1
            else:
                token.left += 1

    def release(self, tokens: Sequence[int], peer: int = NOBODY) -> None:
        """Count one less, and finish what is complete."""
        for number in tokens:
            token = self._open[number]
            if peer == NOBODY:
                token.left -= 1
            elif token.peers[peer] > 1:
                token.peers[peer] -= 1
            else:
                del token.peers[peer]
            if token.left == 0 and (not token.peers or self._enough(token)):
                self._finish(number, token)

    def fewer(self) -> None:
        """Note that there are fewer peers."""
        spare = self._spare()
        for token in self._open.values():
            token.spare = min(token.spare, spare)

    def _enough(self, token: _Token) -> bool:
        return token.spare > 0 and len(token.peers) <= min(token.spare, self._spare())

    def _finish(self, number: int, token: _Token) -> None:
        if not token.peers:
            del self._open[number]
        done, token.done = token.done, None
        if done is not None:
            done()
