"""A queue of anti-entropy questions, answered within a share of the turn.

An answer takes up to tens of milliseconds, and after a change of the view every replica asks about every item type at
once.  Questions are therefore queued and answered a few per turn.  A question is acknowledged when it has been
answered, like every message, so its sender counts it as in flight until then
(:mod:`p2prdf.peer.progress.low_watermark`).  A sender without an answer repeats the question, which replaces the old
one.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from p2prdf.errors import P2PRDFError
from p2prdf.peer.network.component import Component, Handlers
from p2prdf.peer.network.messenger import Messenger
from p2prdf.wire.messages import BucketDigests, Contact, Fetch, IdentityList, Message, RootDigests

__all__ = ["Deferred"]

FIRST_SHARE: Final = 0.5
"""Share of a turn's budget for questions about coordinators' records: subscribers wait for these."""
SHARE: Final = 0.25
"""Share of a turn's budget for other questions."""

_Key = tuple[type, int, int, int]


class Deferred(Component):
    """Questions of anti-entropy in order of arrival, those about the first item types first."""

    def __init__(self, messenger: Messenger, answers: Handlers, first_kinds: Container[int]):
        """``answers``: the methods that answer the questions, by their type."""
        self._messenger, self._answers, self._first_kinds = messenger, answers, first_kinds
        self._first: dict[_Key, tuple[Contact, Message, tuple[int, ...]]] = {}
        self._others: dict[_Key, tuple[Contact, Message, tuple[int, ...]]] = {}

    def __len__(self) -> int:
        return len(self._first) + len(self._others)

    @property
    def urgent(self) -> bool:
        """Whether a question about coordinators' records waits."""
        return bool(self._first)

    def handlers(self) -> Handlers:
        """Return the handlers of questions: this queue receives all of them."""
        return dict.fromkeys(self._answers, self.add)

    def add(self, sender: Contact, message: RootDigests | BucketDigests | IdentityList | Fetch) -> None:
        """Queue a question; it replaces an earlier one of the same sender about the same subject."""
        kind = -1 if isinstance(message, RootDigests) else message.kind
        request = message.request if isinstance(message, IdentityList | Fetch) else 0
        key = type(message), sender.key, kind, request
        waiting = self._first if kind in self._first_kinds else self._others
        arrivals = self._messenger.inbox
        tokens = arrivals.keep(arrivals.current)
        if key in waiting:
            self._messenger.release(waiting[key][2])
        waiting[key] = (sender, message, tokens)

    @property
    def deadline(self) -> float | None:
        """Now while a question waits."""
        return self._messenger.now if self._first or self._others else None

    def wake(self) -> None:
        """Answer questions until their share of the turn is spent; one at least."""
        answered = self._answer(self._first, FIRST_SHARE, 0)
        self._answer(self._others, SHARE, answered)

    def answer_first(self) -> None:
        """Answer questions about coordinators' records in an open turn, which may stay open for long."""
        self._answer(self._first, FIRST_SHARE, 0)

    def _answer(self, waiting: dict[_Key, tuple[Contact, Message, tuple[int, ...]]], share: float, before: int) -> int:
        """Answer waiting questions until a share of the budget is spent; return how many are answered, with before."""
        pace, answered = self._messenger.pace, before
        while waiting and not (answered and pace.over_share(share)):
            sender, message, tokens = waiting.pop(next(iter(waiting)))
            try:
                self._answers[type(message)](sender, message)
            except P2PRDFError as error:
                self._messenger.note_refused(sender, error)
            self._messenger.release(tokens)
            pace.did()
            answered += 1
        return answered
