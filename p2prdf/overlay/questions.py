"""Pending questions of a peer without a view: numbers, timeouts, repetitions.

A question is repeated after ``timeout_seconds`` without an answer.  It fails after the number of silences that its
caller allows, or that ``patience`` returns for the peer, as a connection with it may have broken meanwhile.  A timeout
that is noticed too late does not count as silence: this process was stalled, and the answer may lie unread in the
socket.

The outcome calls one of two callbacks of the question.  An answer to a question that is not pending, or from another
peer than the asked one, changes nothing.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass

from p2prdf.overlay.routed_messages import Answer, Question
from p2prdf.wire.messages import Contact

__all__ = ["Open", "Requests"]


@dataclass(slots=True, eq=False)
class Open:
    """A pending question.  ``silences_max``: allowed silences; 0: as many as ``patience`` returns."""

    to: Contact
    question: Question
    silences_max: int
    answered: Callable[[Answer], None]
    failed: Callable[[], None]
    due: float = 0.0
    silences: int = 0


class Requests:
    """All pending questions of one peer.  Callers bound their number."""

    def __init__(self, *, first: int, timeout_seconds: float, patience: Callable[[Contact], int]):
        """Start numbers at ``first`` + 1; ``patience``: allowed silences of a peer."""
        self._patience = patience
        self._next = first
        self._timeout = timeout_seconds
        self._open: dict[int, Open] = {}
        self._due: list[tuple[float, int]] = []

    def __len__(self) -> int:
        return len(self._open)

    def number(self) -> int:
        """Return a new request number, from 1 to 2^63."""
        self._next = (self._next + 1) % (1 << 63)
        return self._next or self.number()

    def ask(self, request: Open, now: float) -> None:
        """Add a question that is being sent."""
        self._open[request.question.request] = request
        self._schedule(request, now)

    def _schedule(self, request: Open, now: float) -> None:
        request.due = now + self._timeout
        heapq.heappush(self._due, (request.due, request.question.request))

    def close(self, number: int, sender: Contact) -> Open | None:
        """Remove the question that ``sender`` answers, if it is pending."""
        request = self._open.get(number)
        if request is None or request.to != sender:
            return None
        del self._open[number]
        return request

    def to(self, contact: Contact) -> list[Open]:
        """Return all questions to a peer, oldest first."""
        return [request for request in self._open.values() if request.to == contact]

    def clear(self) -> None:
        """Drop all questions without calling back."""
        self._open.clear()

    @property
    def deadline(self) -> float | None:
        """The time of the next timeout."""
        while self._due and self._stale(*self._due[0]):
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else None

    def _stale(self, due: float, number: int) -> bool:
        request = self._open.get(number)
        return request is None or request.due != due

    def overdue(self, now: float) -> tuple[list[Open], list[Open]]:
        """Return the questions to repeat, and those that failed."""
        again, given_up = [], []
        while self._due and self._due[0][0] <= now:
            due, number = heapq.heappop(self._due)
            if self._stale(due, number):
                continue
            request = self._open[number]
            if now - due <= self._timeout:
                request.silences += 1
            if request.silences < (request.silences_max or self._patience(request.to)):
                self._schedule(request, now)
                again.append(request)
            else:
                del self._open[number]
                given_up.append(request)
        return again, given_up
