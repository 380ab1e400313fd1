"""Marks of settled subscriptions: low watermarks on their way to the evaluations of this peer.

The coordinator asks for low watermarks itself, often while changes are held back, and once a second otherwise
(:mod:`p2prdf.continuous.settled`).
"""

from __future__ import annotations

from typing import Final

from p2prdf.continuous.home import Home, Subscription, subscription_home
from p2prdf.continuous.settled import SettledEvaluation
from p2prdf.peer.network.messenger import Messenger
from p2prdf.peer.progress.backfill import Backfill
from p2prdf.peer.progress.low_watermark import Known

__all__ = ["Marks"]

_URGENT_SECONDS: Final = 2.0
"""Seconds after a change for which low watermarks are wanted often."""


class Marks:
    """The settled subscriptions that this peer evaluates."""

    def __init__(self, messenger: Messenger, home: Home):
        self._messenger = messenger
        self._home = home
        self._evaluated: dict[int, tuple[Subscription, SettledEvaluation]] = {}
        self._filling: dict[int, Backfill] = {}
        """By subscription, the backfill that is not complete."""
        self._urgent_until = 0.0
        self.hurries = 0
        """Number of times that a mark was wanted soon."""

    @property
    def wanted(self) -> bool:
        """Whether low watermarks are wanted."""
        return bool(self._evaluated)

    @property
    def urgent(self) -> bool:
        """Whether they are wanted often."""
        return bool(self._filling) or (self.wanted and self._messenger.now < self._urgent_until)

    def begin(self, subscription: Subscription, evaluation: SettledEvaluation) -> None:
        """Deliver marks of a subscription; its evaluation begins here."""
        number = subscription.number
        self._evaluated[number] = subscription, evaluation
        # Each leaf has one pattern, so the chains of all leaves have equally few links.
        self._filling[number] = Backfill(subscription_home(number), self._messenger.clock, 1)
        self.hurry()

    def hurry(self) -> None:
        """Ask for low watermarks soon."""
        self.hurries += 1
        self._urgent_until = self._messenger.now + _URGENT_SECONDS

    def learn(self, known: Known) -> list[Subscription]:
        """Take a low watermark; return the subscriptions that it may lead to a mark."""
        found = []
        for number, (subscription, evaluation) in list(self._evaluated.items()):
            if subscription.evaluation is not evaluation or self._home.subscriptions.get(number) is not subscription:
                del self._evaluated[number]
                self._filling.pop(number, None)
                continue
            backfill = self._filling.get(number)
            if backfill is not None and backfill.over(known):
                del self._filling[number]
                evaluation.filled()
            evaluation.known_upto(known.upto, known.at, self._messenger.view)
            if evaluation.hurries:
                self.hurry()
            found.append(subscription)
        return found
