"""How long elements of streams are kept: for ``stream_retention_seconds`` of event time, and while a query needs them.

The problem.  Streams have no end, and copies of an element, and of what was joined with it, are at many peers.  All of
them are to forget it, at about the same time, and none too early: a query with windows that stands may still need it.

The rule.  At a cut of the clock peers tell with their low marks (:mod:`p2prdf.peer.progress.low_watermark`) what
queries whose homes are here need of each stream (:class:`p2prdf.wire.messages.KeptMark`).  That is the earliest event
time from which on the home takes in answers: the last report that all its replicas were told of, less the window's
range, ten minutes (:data:`p2prdf.continuous.leaf.LATE_MS`) and three times the time between reports; with a landmark
window its start, and while nothing is reported to who wants all from the beginning, 0.  Who has heard from publishers,
or makes reports, concludes from a cut of which all peers of one view have told: *the horizon is the watermark less the
retention, or the least that is needed if that is earlier* (:mod:`p2prdf.store.horizons`).  So an element is forgotten
only if no home would take in an answer that has it.  A window wider than the retention extends it, for as long as it is
subscribed to.

Horizons only grow, the latest that anybody knows of counts, and everybody is told: when one is concluded, when peers
meet, and with each mark.  They are kept on the disk, before the elements: so who comes back does not offer what others
have forgotten.  Nothing is concluded while somebody is missing, as watermarks are not.

New queries.  A horizon that was concluded before a query was left need not respect it.  What is concluded of a cut is
told with the next mark, and nothing is concluded of a cut once a mark was told of one that is L seconds later
(:func:`p2prdf.peer.progress.low_watermark.kept_late_seconds`).  Nobody concludes a cut without the home's
mark, so what does not respect the query is of a cut before it was left, and is told with the mark of a cut within L
seconds after that, at the latest.  So once a later cut is concluded at the home, the horizons that are known there are
all that may have forgotten what it needs.  Only then its first report is chosen: the first whose windows are whole.  A
landmark window that began before the horizon can never be whole, so its subscription is ended, and told why.
(A peer that was away with a horizon that nobody else has heard of may still bring it: that is traced.)

Bounds: a horizon is concluded when it grows by a 32nd of the retention, so each element is looked at some 32 times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from p2prdf import hlc
from p2prdf.columns import as_list
from p2prdf.continuous.home import group_home
from p2prdf.continuous.leaf import ElementAnswers
from p2prdf.continuous.windows import NEVER, next_multiple
from p2prdf.peer.network.component import Component, Handlers, Restorers
from p2prdf.peer.progress.event_watermarks import Sources, Watermarks
from p2prdf.peer.progress.low_watermark import kept_late_seconds
from p2prdf.rdf import quads
from p2prdf.rdf.algebra import CountWindow
from p2prdf.wire.messages import Contact, ElementsForgotten, KeptMark

if TYPE_CHECKING:
    from p2prdf.continuous.home import Home
    from p2prdf.peer.network.messenger import Exchange
    from p2prdf.peer.progress.low_watermark import Known
    from p2prdf.rdf.algebra import Window
    from p2prdf.store.tables import Tables

__all__ = ["Retention", "hash_of_stream", "whole_from"]

_EVERY: Final = 0
"""In place of a stream: somebody keeps all of every one."""
_PARTS: Final = 32
"""A horizon grows by such a part of the retention, at least."""


def hash_of_stream(constants: Iterable[str], term_hash: Callable[[str], int]) -> int | None:
    """Return the hash of the stream that constants of a leaf are qualified by; None if none is."""
    for each in constants:
        parts = quads.stream_parts_of(each)
        if parts is not None:
            return term_hash(parts[1])
    return None


def whole_from(window: Window | CountWindow, every: int, horizon: int) -> int | None:
    """Return from which event time (ms) on reports, of those every so often, have all of a window; None: never.

    With a window by count: from when on there are all elements, so that they can be counted.
    """
    if not horizon or isinstance(window, CountWindow):
        return horizon
    if window.range is None:
        return 0 if window.start >= horizon else None
    return next_multiple(next_multiple(horizon - 1 + window.range, window.step), every)


class Retention(Component):
    """What is kept of streams here, and what is concluded of it."""

    def __init__(
        self, exchange: Exchange, tables: Tables, home: Home, sources: Sources, term_hash: Callable[[str], int]
    ):
        """``sources``: the publishers of streams that are attached to this peer."""
        self._exchange = exchange
        self._tables = tables
        self._home = home
        self._sources = sources
        self._term_hash = term_hash
        self._keep_ms = int(exchange.config.stream_retention_seconds * 1000)
        self._watermarks = Watermarks(exchange.config.stream_idle_seconds)
        self._concluded = 0
        """The last cut, a stamp, of which all was known."""

    @property
    def on(self) -> bool:
        """Whether anything is to be forgotten."""
        return self._keep_ms > 0

    @property
    def streams(self) -> frozenset[int]:
        """The streams of which this peer is to conclude what may be forgotten: their publishers are attached to it."""
        return self._sources.streams if self.on else frozenset()

    # --- what is needed --------------------------------------------------------------------------

    def mark(self, cut: int, view: int) -> KeptMark:
        """Return what is told of a cut."""
        needed = self._needed()
        horizons = self._tables.horizons
        if not self.on:
            needed = {_EVERY: 0}
        streams = list(dict.fromkeys([*needed, *(stream for stream, _ in horizons)]))
        make = self._exchange.columns.column
        least = [needed.get(each, NEVER) for each in streams]
        return KeptMark(cut, view, make(streams), make(least), make([horizons.of(each) for each in streams]))

    def _needed(self) -> dict[int, int]:
        """Return of each stream from when on queries need it whose homes are here."""
        needed: dict[int, int] = {}
        for group in self._home.windowed:
            keepers = self._exchange.replica_set(group_home(group.identity)) if self._exchange.replicated else None
            if keepers is not None and self._exchange.own not in keepers:
                continue  # a home that was here; nobody tells this peer how far it is
            for leaf in group.leaves:
                if isinstance(leaf.answers, ElementAnswers):
                    named = leaf.window.stream if isinstance(leaf.window, CountWindow) else None
                    stream = self._term_hash(named) if named else hash_of_stream(leaf.query.constants, self._term_hash)
                    if stream is not None:
                        needed[stream] = min(leaf.answers.needed, needed.get(stream, NEVER))
        return needed

    # --- what is concluded -----------------------------------------------------------------------

    def learn(self, known: Known, watched: frozenset[int]) -> None:
        """Conclude what may be forgotten from what all peers told of a cut, of the streams that they were asked for."""
        if not self.on or known.kept is None:
            return
        needed: dict[int, int] = {}
        told: dict[int, int] = {}
        for mark in known.kept:
            for stream, since, before in zip(*map(as_list, (mark.streams, mark.needed, mark.forgotten)), strict=True):
                needed[stream] = min(since, needed.get(stream, NEVER))
                told[stream] = max(before, told.get(stream, 0))
        self._take(told)
        self._concluded = max(self._concluded, known.at)
        if _EVERY in needed:
            return
        streams = {each.stream for each in known.sources} & watched
        self._watermarks.learn(known, streams, self._exchange.now)
        found = {}
        for stream in sorted(streams):
            before = min(self._watermarks.upto(stream) + 1 - self._keep_ms, needed.get(stream, NEVER))
            held = self._tables.horizons.of(stream)
            if before >= held + max(1, self._keep_ms // _PARTS) or (before > held and not held):
                found[stream] = before
        if found:
            self._take(found)
            message = self._message(found)
            for contact in self._exchange.cache.contacts():
                if contact.key != self._exchange.own.key:
                    self._exchange.send(contact, message)

    def _message(self, horizons: dict[int, int]) -> ElementsForgotten:
        make = self._exchange.columns.column
        return ElementsForgotten(make(list(horizons)), make(list(horizons.values())))

    def _take(self, horizons: dict[int, int]) -> None:
        """Forget what is from before some horizons, if that is news."""
        later = {stream: before for stream, before in horizons.items() if self._tables.forget(stream, before)}
        if not later:
            return
        self._exchange.persist(self._message(later))
        needed = self._needed() if not self._exchange.restoring else {}
        for stream, before in later.items():
            if before > needed.get(stream, NEVER):
                self._exchange.trace("needed-elements-forgotten", stream=f"{stream:016x}", before_ms=before)

    # --- others ----------------------------------------------------------------------------------

    def told(self, message: ElementsForgotten) -> None:
        """Forget what another has forgotten, or a former life of this peer."""
        self._take(dict(zip(as_list(message.streams), as_list(message.before), strict=True)))

    def met(self, contact: Contact) -> None:
        """Tell a peer that came what is forgotten."""
        for message in self.kept():
            self._exchange.send(contact, message)

    def kept(self) -> Iterator[ElementsForgotten]:
        """Return all horizons."""
        horizons = dict(self._tables.horizons)
        if horizons:
            yield self._message(horizons)

    # --- queries ---------------------------------------------------------------------------------

    @property
    def respected_after(self) -> int:
        """The stamp of a cut: once all is known of one after it, what begins to be needed now is respected.

        That is, what is forgotten of it is forgotten by horizons that are known here then.
        """
        return self._exchange.clock + hlc.from_seconds(kept_late_seconds(self._exchange))

    def respects(self, after: int) -> bool:
        """Return whether that has come about."""
        return not self.on or self._concluded > after

    def whole_from(self, windows: Iterable[tuple[int, Window | CountWindow]], every: int) -> int | None:
        """Return from which event time on all windows of a query, by their streams, are whole; None: never."""
        first = 0
        for stream, window in windows:
            found = whole_from(window, every, self._tables.horizons.of(stream))
            if found is None:
                return None
            first = max(first, found)
        return first

    def handlers(self) -> Handlers:
        """Return the handler of retention watermarks that other peers tell."""
        return {ElementsForgotten: lambda _, message: self.told(message)}

    def restorers(self) -> Restorers:
        """Return the method that takes back retention watermarks."""
        return {ElementsForgotten: self.told}

    def status(self) -> Mapping[str, object]:
        """Return how far streams are forgotten, by their hashes, and how long that is after they might be, seconds."""
        told = {}
        for stream, before in self._tables.horizons:
            upto = self._watermarks.upto(stream)
            lag = None if upto < 0 else max(0, upto + 1 - self._keep_ms - before) / 1000
            told[f"{stream:016x}"] = {"before": before / 1000, "lag": lag}
        return {"stream_horizons": told}
