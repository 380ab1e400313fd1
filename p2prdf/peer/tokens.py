"""Tokens: what an undertaking waits for, counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

__all__ = ["Tokens"]


@dataclass(slots=True)
class _Token:
    """How much an undertaking still waits for, and what to do then."""

    left: int
    done: Callable[[], None]


class Tokens:
    """All undertakings of a peer that wait for something."""

    def __init__(self) -> None:
        self._open: dict[int, _Token] = {}
        self._last = 0

    def __len__(self) -> int:
        return len(self._open)

    def token(self, done: Callable[[], None]) -> int:
        """Return a new token, held once; ``done`` runs when it is released as often as held."""
        self._last += 1
        self._open[self._last] = _Token(1, done)
        return self._last

    def hold(self, tokens: Sequence[int]) -> None:
        """Count one more to wait for on behalf of each token."""
        for token in tokens:
            self._open[token].left += 1

    def release(self, tokens: Sequence[int]) -> None:
        """Count one less, and finish what is complete."""
        for number in tokens:
            token = self._open[number]
            token.left -= 1
            if token.left == 0:
                del self._open[number]
                token.done()
