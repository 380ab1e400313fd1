"""What was told on the channels of a knowledge base, as the overlay has it, and as it should be: pure.

A binding that holds has one triple, or two: ``tentative`` stays beside ``confirmed``, for if it were retracted, one
that is written late, by a host that was taken for gone, would be news to subscribers.  As they stand, what is written
twice is told once.

What is written comes back by the standing query of who writes it.  So who evaluates can tell, at a bookmark, what is
there and should not be, or is not there and should, whoever is to blame, and puts it right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from p2prdf.channels.registration import BEGUN, CONFIRMED, INITIAL, KINDS, binding_literal
from p2prdf.errors import DataRefused
from p2prdf.reasoning import Triple

__all__ = ["Told", "Writes"]

_PATIENCE_SECONDS: Final = 5.0
"""What was written so long ago has come back, if nobody has undone it."""


class Writes(NamedTuple):
    """Triples to be published, and others to be retracted."""

    added: list[Triple]
    removed: list[Triple]


class Told:
    """Of one knowledge base, by channel."""

    def __init__(self, base: str):
        self._base = base
        self._counts: Counter[Triple] = Counter()
        self._there: dict[Triple, int] = {}
        """What is there, with the stamp of its publication."""
        self._wanted: dict[str, dict[Triple, None]] = {}
        """By channel (an IRI), what should be."""
        self._written: dict[Triple, float] = {}
        """When something was written about a triple that has not come back yet."""
        self._forgotten: set[str] = set()
        """Channels that were dropped."""
        self.too_large = 0
        """Bindings that no node takes as a term."""

    def take(self, triple: Triple, stamp: int, *, removed: bool) -> None:
        """Take account of a triple that came or went, in any order."""
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

    # --- what should be there ------------------------------------------------------------------

    def take_up(self, channel: str) -> bool:
        """Begin with a channel at what is there; return whether somebody has begun with it before."""
        self._forgotten.discard(channel)
        self._wanted[channel] = {each: None for each in self._there if self._channel(each) == channel}
        return (self._base, BEGUN, channel) in self._there

    def begin(self, channel: str) -> Writes:
        """Note that all that held at the beginning is told."""
        return self._want(channel, [(self._base, BEGUN, channel)])

    def tell(self, channel: str, kind: str, bindings: Iterable[tuple[str, ...]]) -> Writes:
        """Tell bindings."""
        return self._want(channel, [(channel, kind, each) for each in self._literals(bindings)])

    def equal(self, channel: str, bindings: Iterable[tuple[str, ...]], kind: str = CONFIRMED) -> Writes:
        """Make what is told equal to what holds: what is only tentative or not told is told as ``kind``."""
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
        """Note that a channel was dropped: nothing is told of it any more."""
        self._forgotten.add(channel)
        return Writes([], [*self._wanted.pop(channel, {})])

    def leave(self, channel: str) -> None:
        """Note that a channel is somebody else's: what was told stays."""
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

    # --- what is there -------------------------------------------------------------------------

    def wrote(self, triples: Iterable[Triple], now: float) -> None:
        """Take note that triples were written."""
        self._written.update((each, now) for each in triples)

    def differences(self, bookmark_ms: int, now: float) -> Writes:
        """Return what is to be written so that at a bookmark what is there is what should be.

        What came after the bookmark is not judged, nor what was written a moment ago.
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
