"""Completion counters: the number of events and acknowledgements that an operation waits for.

A counter (identified by a *token*) waits for local events, all of which must happen, and for peers, each of which must
acknowledge its messages.  A few peers may be outstanding.  With ``r`` copies under way per item, each at another peer,
and ``spare`` peers outstanding, every item has at least ``r - spare`` copies.  If many peers are involved this requires
more than necessary (two slow peers may hold copies of different items), and never less.  It costs one number per peer
instead of one per item.

A lost peer is no longer outstanding, because its messages have been sent to other peers.  If members are lost, fewer
copies are spare.  Members that come later receive no messages under way, so the minimum of ``spare`` since the start of
the operation counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

__all__ = ["Completions"]

NOBODY: Final = -1
"""Stands for a peer's key: there is none."""


@dataclass(slots=True)
class _Token:
    """One completion counter."""

    left: int
    done: Callable[[], None] | None
    """None: it has run, and the outstanding peers only delay the removal of the counter."""
    spare: int
    """How many peers may be outstanding: the minimum since the operation began."""
    peers: dict[int, int] = field(default_factory=dict)
    """Outstanding messages per peer."""


class Completions:
    """All completion counters of a peer."""

    def __init__(self, spare: Callable[[], int] = lambda: 0) -> None:
        """``spare``: how many peers may be outstanding if an operation permits it."""
        self._spare = spare
        self._open: dict[int, _Token] = {}
        self._last = 0

    def __len__(self) -> int:
        return len(self._open)

    def token(self, done: Callable[[], None], *, sparing: bool = False) -> int:
        """Return a new counter with the value 1.

        ``done`` runs when each hold is released and all peers have acknowledged.  With ``sparing``, ``spare`` peers may
        be outstanding.
        """
        self._last += 1
        self._open[self._last] = _Token(1, done, self._spare() if sparing else 0)
        return self._last

    def hold(self, tokens: Sequence[int], peer: int = NOBODY) -> None:
        """Increment each counter, for a message to a peer (by its key) or for a local event."""
        for number in tokens:
            token = self._open[number]
            if peer != NOBODY:
                token.peers[peer] = token.peers.get(peer, 0) + 1
            else:
                token.left += 1

    def release(self, tokens: Sequence[int], peer: int = NOBODY) -> None:
        """Decrement each counter, and finish those that are complete."""
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
        return len(token.peers) <= token.spare and len(token.peers) <= self._spare()

    def _finish(self, number: int, token: _Token) -> None:
        if not token.peers:
            del self._open[number]
        done, token.done = token.done, None
        if done is not None:
            done()
