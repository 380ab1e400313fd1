"""Queries with windows that this peer evaluates: the streams that they read, and their due reports.

The coordinator requests low watermarks for them (:mod:`p2prdf.peer.progress.low_watermark`), computes the watermarks
of their streams (:mod:`p2prdf.peer.progress.event_watermarks`), and advances each query with all its streams.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Final, NamedTuple

from p2prdf import keys
from p2prdf.continuous.home import Home, Subscription
from p2prdf.peer.network.messenger import Messenger
from p2prdf.peer.progress.event_watermarks import Watermarks
from p2prdf.peer.progress.low_watermark import Known
from p2prdf.peer.progress.retention import Retention, hash_of_stream
from p2prdf.peer.subscriptions.evaluation import Evaluations
from p2prdf.rdf import quads
from p2prdf.rdf.algebra import CountWindow, StandingQuery, Window

__all__ = ["FORGOTTEN", "Windows", "streams_of", "windows_of"]

FORGOTTEN: Final = (
    "elements of its streams from after the beginning of a window are forgotten, so it would never be whole"
    " (setting stream_retention_seconds)"
)
_URGENT_MS: Final = 2000
"""Queries with more frequent reports (milliseconds) get a low watermark at each cut."""


@lru_cache(maxsize=4096)
def _stream_hash(stream: str) -> int:
    return keys.term_hash(stream)


def streams_of(query: StandingQuery) -> frozenset[int]:
    """Return the hashes of the streams that a query reads."""
    constants = {
        constant
        for leaf, window in zip(query.leaves, query.windows, strict=True)
        if window is not None
        for constant in leaf.constants
    }
    named = {parts[1] for each in constants if (parts := quads.stream_parts_of(each)) is not None}
    named.update(window.stream for window in query.windows if isinstance(window, CountWindow))
    return frozenset(map(_stream_hash, named))


def windows_of(query: StandingQuery) -> tuple[tuple[int, Window | CountWindow], ...]:
    """Return the windows of a query, each by the hash of its stream."""
    found: list[tuple[int, Window | CountWindow]] = []
    for leaf, window in zip(query.leaves, query.windows, strict=True):
        if isinstance(window, CountWindow):
            found.append((_stream_hash(window.stream), window))
        elif window is not None and (stream := hash_of_stream(leaf.constants, _stream_hash)) is not None:
            found.append((stream, window))
    return tuple(found)


class _Read(NamedTuple):
    """The streams of a query and the interval of its reports (milliseconds; 0: at each element)."""

    streams: frozenset[int]
    every: int
    windows: tuple[tuple[int, Window | CountWindow], ...]
    """Each window with the hash of its stream."""
    after: int
    """The retention of the streams must be known at a cut after this stamp."""


class Windows:
    """The queries with windows that this peer evaluates."""

    def __init__(
        self, messenger: Messenger, home: Home, evaluations: Evaluations, retention: Retention,
        never_whole: Callable[[Subscription, str], None],
    ):  # fmt: skip
        """``never_whole`` ends a subscription with windows that can never be complete, with the reason."""
        self._never_whole = never_whole
        self._messenger = messenger
        self._home = home
        self._evaluations = evaluations
        self._retention = retention
        self._watermarks = Watermarks(messenger.config.stream_idle_seconds)
        self._read: dict[int, _Read] = {}
        """By subscription, the streams that its query reads."""
        self.streams: frozenset[int] = frozenset()
        """The streams of all these queries."""
        self._fresh: dict[int, int] = {}
        """Subscriptions that began here recently, with the stamp of their begin.

        Earlier elements may be in flight to them, and it is not known yet which elements are forgotten.
        """
        self.urgent = False
        """Whether a query makes reports more often than every ``_URGENT_MS``."""

    def _note(self, read: dict[int, _Read]) -> None:
        """Store the streams that queries read, and derive the totals."""
        self._read = read
        self.streams = frozenset[int]().union(*(each.streams for each in read.values()))
        self.urgent = any(each.every <= _URGENT_MS for each in read.values())

    def begin(self, subscription: Subscription) -> None:
        """Make the reports of a subscription from now on, if its query has windows."""
        query = subscription.group.query
        if isinstance(query, StandingQuery) and query.report is not None:
            read = _Read(streams_of(query), query.report.every, windows_of(query), self._retention.respected_after)
            self._read[subscription.number] = read
            self.streams |= read.streams
            self.urgent = self.urgent or read.every <= _URGENT_MS
            self._fresh[subscription.number] = self._messenger.clock

    def learn(self, known: Known) -> None:
        """Take the reports of all peers at a cut."""
        if not self._read:
            return
        held = [each for number in self._read if (each := self._home.subscriptions.get(number)) is not None]
        delivered = {each.number: each for each in held if each.delivered}
        self._note({number: each for number, each in self._read.items() if number in delivered})
        self._fresh = {number: at for number, at in self._fresh.items() if number in delivered}
        if self._watermarks.learn(known, self.streams, self._messenger.now):
            others = (each for each in delivered.values() if each.number not in self._fresh)
            self._advance(others, self._watermarks.upto)
        if known.elements is not None:
            fresh = [delivered[number] for number, at in self._fresh.items() if at < known.at]
            self._advance((each for each in fresh if not each.opening), self._watermarks.upto_at_cut)

    def _advance(self, subscriptions: Iterable[Subscription], how_far: Callable[[int], int]) -> None:
        """Advance queries to the watermarks of their streams, after which a recent query is no longer recent."""
        for subscription in subscriptions:
            streams, every, windows, after = self._read[subscription.number]
            if not self._retention.respects(after):
                continue  # the retention of its streams is not known yet
            upto = min(map(how_far, streams), default=-1)
            if -1 < upto == min(map(self._watermarks.upto, streams), default=-1):
                self._fresh.pop(subscription.number, None)
            began = [each for each in map(self._watermarks.began, streams) if each is not None]
            if upto < 0 or not began:
                continue
            whole = self._retention.whole_from(windows, every)
            if whole is None:
                self._never_whole(subscription, FORGOTTEN)
            else:
                self._evaluations.known_upto(subscription, upto, min(began), whole)
