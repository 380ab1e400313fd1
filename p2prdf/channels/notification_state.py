"""Notifications on the channels of a knowledge base: actual triples in the overlay, and desired ones.

Pure. A binding that holds has one triple, or two: ``tentative`` stays beside ``confirmed``. If it were
retracted, a late copy by a channel worker considered dead would be news to subscribers. As it stays, a repeated
triple is reported once.

A worker's own writes come back through its standing query. At a bookmark it therefore compares actual with
desired triples and repairs all differences, independently of their cause.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from p2prdf.channels.registration import BEGUN, CONFIRMED, INITIAL, KINDS, binding_literal
from p2prdf.errors import DataRefused
from p2prdf.reasoning import Triple

__all__ = ["NotificationState", "Writes"]

_PATIENCE_SECONDS: Final = 5.0
"""Time after which a write has come back, unless it was undone."""


class Writes(NamedTuple):
    """Triples to publish, and triples to retract."""

    added: list[Triple]
    removed: list[Triple]


class NotificationState:
    """Actual and desired notifications of one knowledge base, by channel."""

    def __init__(self, base: str):
        self._base = base
        self._counts: Counter[Triple] = Counter()
        self._there: dict[Triple, int] = {}
        """The actual triples, with the stamps of their publications."""
        self._wanted: dict[str, dict[Triple, None]] = {}
        """The desired triples, by channel (an IRI)."""
        self._written: dict[Triple, float] = {}
        """The times of writes that have not come back yet, by triple."""
        self._forgotten: set[str] = set()
        """Deleted channels."""
        self.too_large = 0
        """Number of bindings too large for a term."""

    def take(self, triple: Triple, stamp: int, *, removed: bool) -> None:
        """Take in a triple that was published or removed, in any order."""
        self._counts[triple] += -1 if removed else 1
        if self._counts[triple] == 0:
            del self._counts[triple]
        if self._counts.get(triple, 0) > 0:
            self._there[triple] = stamp
        else:
            self._there.pop(triple, None)
        self._written.pop(triple, None)

    def __len__(self) -> int:
        return sum(len(wanted) for wanted in self._wanted.values())

    # --- desired triples -----------------------------------------------------------------------

    def take_up(self, channel: str) -> bool:
        """Begin with a channel's actual triples; return whether a worker has begun it before."""
        self._forgotten.discard(channel)
        self._wanted[channel] = {each: None for each in self._there if self._channel(each) == channel}
        return (self._base, BEGUN, channel) in self._there

    def begin(self, channel: str) -> Writes:
        """Note that all initial bindings are reported."""
        return self._want(channel, [(self._base, BEGUN, channel)])

    def tell(self, channel: str, kind: str, bindings: Iterable[tuple[str, ...]]) -> Writes:
        """Report bindings."""
        return self._want(channel, [(channel, kind, each) for each in self._literals(bindings)])

    def equal(self, channel: str, bindings: Iterable[tuple[str, ...]], kind: str = CONFIRMED) -> Writes:
        """Make the reports equal to the bindings that hold; report unconfirmed and missing ones as ``kind``."""
        holding = set(self._literals(bindings))
        wanted = self._wanted[channel]
        lacking = [
            (channel, kind, each) for each in sorted(holding)
            if (channel, INITIAL, each) not in wanted and (channel, CONFIRMED, each) not in wanted
        ]  # fmt: skip
        gone = [each for each in wanted if each[1] in KINDS and each[2] not in holding]
        for each in gone:
            del wanted[each]
        return Writes(self._want(channel, lacking).added, gone)

    def forget(self, channel: str) -> Writes:
        """Note that a channel was deleted: it has no more notifications."""
        self._forgotten.add(channel)
        return Writes([], [*self._wanted.pop(channel, {})])

    def leave(self, channel: str) -> None:
        """Note that another worker has the channel: its notifications stay."""
        self._wanted.pop(channel, None)

    def _literals(self, bindings: Iterable[tuple[str, ...]]) -> Iterator[str]:
        for each in bindings:
            try:
                yield binding_literal(each)
            except DataRefused:
                self.too_large += 1

    def _want(self, channel: str, triples: Iterable[Triple]) -> Writes:
        wanted = self._wanted[channel]
        new = [each for each in dict.fromkeys(triples) if each not in wanted]
        wanted.update(dict.fromkeys(new))
        return Writes(new, [])

    def _channel(self, triple: Triple) -> str:
        return triple[2] if triple[1] == BEGUN else triple[0]

    # --- actual triples ------------------------------------------------------------------------

    def wrote(self, triples: Iterable[Triple], now: float) -> None:
        """Note that triples were written."""
        self._written.update((each, now) for each in triples)

    def differences(self, bookmark_ms: int, now: float) -> Writes:
        """Return the writes that make the actual triples equal to the desired ones, at a bookmark.

        Triples later than the bookmark, and recent writes, are exempt.
        """
        self._written = {each: at for each, at in self._written.items() if now - at < _PATIENCE_SECONDS}

        def settled(triple: Triple) -> bool:
            return triple not in self._written

        added = [
            each for wanted in self._wanted.values() for each in wanted if each not in self._there and settled(each)
        ]
        removed = [
            each for each, stamp in self._there.items()
            if stamp >> 16 < bookmark_ms and settled(each) and self._is_foreign(each)
        ]  # fmt: skip
        return Writes(added, removed)

    def _is_foreign(self, triple: Triple) -> bool:
        channel = self._channel(triple)
        wanted = self._wanted.get(channel)
        return channel in self._forgotten if wanted is None else triple not in wanted
