"""Questions of a Chord peer that wait for their answers: numbers, timeouts, repetitions.

A question is sent again when ``timeout_seconds`` have passed without an answer, and given up after as many
silences as the asker allowed.  A timeout that is found much too late says something about this process and
not about the other, whose answer may lie unread in the socket: it does not count.

What is to be done with the outcome is a pair of calls, kept with the question.  An answer to a question that
is no longer open, or from somebody else than was asked, finds none and changes nothing.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass

from p2prdf.overlay.chord_messages import Answer, Question
from p2prdf.wire.messages import Contact

__all__ = ["Open", "Requests"]


@dataclass(slots=True, eq=False)
class Open:
    """One question under way.  ``silences``: how many more are allowed."""

    to: Contact
    question: Question
    silences: int
    answered: Callable[[Answer], None]
    failed: Callable[[], None]
    due: float


class Requests:
    """All questions of one peer.  How many there may be is the asker's to bound."""

    def __init__(self, *, first: int, timeout_seconds: float):
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
        """Note a question that is being sent."""
        self._open[request.question.request] = request
        self._schedule(request, now)

    def _schedule(self, request: Open, now: float) -> None:
        request.due = now + self._timeout
        heapq.heappush(self._due, (request.due, request.question.request))

    def close(self, number: int, sender: Contact) -> Open | None:
        """Take out the question that ``sender`` answers, if it is open."""
        request = self._open.get(number)
        if request is None or request.to != sender:
            return None
        del self._open[number]
        return request

    def to(self, contact: Contact) -> list[Open]:
        """Return all questions to a peer, oldest first."""
        return [request for request in self._open.values() if request.to == contact]

    def clear(self) -> None:
        """Forget all questions without a word."""
        self._open.clear()

    @property
    def deadline(self) -> float | None:
        """When the next timeout is due."""
        while self._due and self._stale(*self._due[0]):
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else None

    def _stale(self, due: float, number: int) -> bool:
        request = self._open.get(number)
        return request is None or request.due != due

    def overdue(self, now: float) -> tuple[list[Open], list[Open]]:
        """Return the questions to be sent again, and those that are given up."""
        again, given_up = [], []
        while self._due and self._due[0][0] <= now:
            due, number = heapq.heappop(self._due)
            if self._stale(due, number):
                continue
            request = self._open[number]
            if now - due <= self._timeout:
                request.silences -= 1
            if request.silences > 0:
                self._schedule(request, now)
                again.append(request)
            else:
                del self._open[number]
                given_up.append(request)
        return again, given_up
