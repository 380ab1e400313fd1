"""What a subscriber has of its answers, until nobody will ever send them again.

The problem
-----------
An answer is to reach the application once.  The node may send it again: to another connection, after a
failover of its home, because an acknowledgement was lost.  And the application may be killed, and go on
from what it has stored.

The idea
--------
Answers are known by identity.  From the moment that one comes in until it is *settled*, which is when all
replicas of its home have noted that it is acknowledged, its identity is remembered here, and if it comes again
it is dropped.  If it was acknowledged, it is acknowledged again: somebody has not heard.  The resume token is the
list of these identities; whoever stores it together with what was made of the answers, in one step, loses and
repeats nothing, wherever it goes on.

An acknowledgement says that the application will never need the answer again.  So what was merely given out is
not acknowledged to anybody: were this process killed now, its successor would know nothing of it.

Sequence numbers count what is given out (and what is lost), from 1, over the whole life of the subscription;
they are the client's own, for the numbers of the home begin anew with each of its epochs.

An answer that is taken back has a *withdrawal*, of an identity that follows from its own.  If the answer was
given out, so is the withdrawal.  If not, neither ever is: the home cannot know, for it has many copies, but here
it is known, unless the answer was settled, and then the home does know (``SURE``).

Settled answers come again only if a home was believed dead when it was settled, and was not.  The last
``SETTLED_MAX`` are remembered against that too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container
from typing import Final

from p2prdf.hlc import GONE
from p2prdf.wire.messages import SURE, WITHDRAWN

__all__ = ["SETTLED_MAX", "Ledger"]

SETTLED_MAX: Final = 65_536
"""Identities remembered beyond their settlement."""


class Ledger:
    """Identities of one subscription's answers: queued, given out, acknowledged, settled."""

    def __init__(self, *, given: int = 0, lost: int = 0, unsettled: tuple[int, ...] = (), again: bool = False):
        """Go on from a token: ``unsettled`` were dealt with, as were all up to sequence number ``given``.

        ``again``: the application has had more, and reads it again; so withdrawals are new whatever was given out.
        """
        self._again = again
        self.given = given
        """Sequence number of the last answer given out."""
        self.acknowledged = given
        """Sequence number up to which the application is done."""
        self.lost = lost
        """Answers told to be lost so far."""
        self._taken = given
        self._unsettled = dict.fromkeys(unsettled, given)
        self._open: deque[tuple[int, list[int]]] = deque()
        """Not acknowledged: sequence number of the first, identities."""
        self._settled: dict[int, None] = {}

    @property
    def taken(self) -> int:
        """Sequence number of the last answer that came in."""
        return self._taken

    def take(self, identities: list[int], times: list[int], lost: int) -> tuple[int, list[int], list[int]]:
        """Take in answers and withdrawals that came, told by their times; ``lost`` are missing right before the first.

        A withdrawal of what the application has not been given, and never will be, is not new: it is dealt with.

        Returns the sequence number of the first that is new, the places of those that are new, and the identities
        of those that came again although they are acknowledged.
        """
        unsettled, settled = self._unsettled, self._settled
        never_had: list[int] = []
        if times and max(times) >= GONE and not self._again:
            places = self._places_new(identities, times, never_had)
        else:
            places = [at for at, each in enumerate(identities) if each not in unsettled and each not in settled]
        fresh, again = identities, []
        if len(places) < len(identities):
            fresh = [identities[place] for place in places]
            again = [each for each in identities if unsettled.get(each, 0) <= self.acknowledged]
            again = [each for each in again if each in unsettled or each in settled]
            again += never_had
        first = self._taken + lost + 1
        unsettled.update(zip(fresh, range(first, first + len(fresh)), strict=True))
        if fresh:
            self._open.append((first, fresh))
        self._taken += lost + len(fresh)
        return first, places, again

    def _places_new(self, identities: list[int], times: list[int], never_had: list[int]) -> list[int]:
        """Return the places of what is new; add to ``never_had`` the answers withdrawn without having been here."""
        known: tuple[Container[int], ...] = (self._unsettled, self._settled)
        places: dict[int, int] = {}
        for at, (identity, time) in enumerate(zip(identities, times, strict=True)):
            if identity in places or any(identity in each for each in known):
                continue
            answer = identity ^ WITHDRAWN
            if time < GONE or time & SURE or answer in places or any(answer in each for each in known):
                places[identity] = at
            else:
                self._unsettled[identity] = self._unsettled[answer] = 0
                never_had.append(answer)
        return list(places.values())

    def give(self, upto: int, lost: int) -> None:
        """Note that everything up to a sequence number is given out, ``lost`` more among it than were."""
        self.given = upto
        self.lost += lost

    def acknowledge(self, upto: int) -> list[int]:
        """Note that the application is done up to a sequence number; return the identities of which that is news."""
        done: list[int] = []
        while self._open and self._open[0][0] <= upto:
            first, identities = self._open.popleft()
            count = upto - first + 1
            done += identities[:count]
            if count < len(identities):
                self._open.appendleft((upto + 1, identities[count:]))
                break
        self.acknowledged = max(self.acknowledged, upto)
        return done

    def settle(self, identities: list[int]) -> None:
        """Note that some never come again."""
        for each in identities:
            if self._unsettled.pop(each, None) is not None:
                self._settled[each] = None
        while len(self._settled) > SETTLED_MAX:
            del self._settled[next(iter(self._settled))]

    def forget_queued(self) -> None:
        """Forget what was not given out yet: all of it comes again."""
        while self._open and self._open[-1][0] > self.given:
            for each in self._open.pop()[1]:
                del self._unsettled[each]
        if self._open:
            first, identities = self._open[-1]
            kept = max(0, self.given - first + 1)
            for each in identities[kept:]:
                del self._unsettled[each]
            del identities[kept:]
        self._taken = self.given

    @property
    def dealt_with(self) -> list[int]:
        """Identities acknowledged and not settled."""
        return [each for each, number in self._unsettled.items() if number <= self.acknowledged]

    @property
    def unsettled(self) -> list[int]:
        """Identities given out and not settled: what a resume token holds."""
        return [each for each, number in self._unsettled.items() if number <= self.given]
