"""Retention of streams: peers forget elements after ``stream_retention_seconds`` of event time, unless a query needs
them.

At each cut peers report (:class:`p2prdf.wire.messages.RetentionReport`) the earliest event time that the queries they
coordinate need of each stream: the last replicated report less the range of the window, ten minutes
(:data:`p2prdf.continuous.leaf.LATE_MS`) and three report intervals; the start of a landmark window; 0 before the
first report of a query over the whole stream.  From the reports of all peers of one view follows the *retention
watermark*: the watermark of the stream less the retention, or the least time that is needed, whichever is earlier
(:mod:`p2prdf.store.horizons`).  An element is forgotten only if no coordinator would accept a solution with it.

Retention watermarks only grow; the greatest known one counts.  They are stored on disk before the elements, and told
to peers when they are concluded, when peers meet, and with each report.

A query that is new may not be respected by watermarks of earlier cuts.  Such a watermark is reported within
:func:`~p2prdf.peer.progress.low_watermark.kept_late_seconds`, so the coordinator chooses the first report only after
a later cut is concluded, and begins with the first report with complete windows.  docs/explanation/retention.md gives
the reasons.

Bound: a watermark is concluded when it grows by a 32nd of the retention, so each element is examined some 32 times.
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
from p2prdf.wire.messages import Contact, ElementsForgotten, RetentionReport

if TYPE_CHECKING:
    from p2prdf.continuous.home import Home
    from p2prdf.peer.network.messenger import Messenger
    from p2prdf.peer.progress.low_watermark import Known
    from p2prdf.rdf.algebra import Window
    from p2prdf.store.tables import Tables

__all__ = ["Retention", "hash_of_stream", "whole_from"]

_EVERY: Final = 0
"""In place of a stream: a peer keeps all elements of all streams."""
_PARTS: Final = 32
"""A retention watermark grows by at least this part of the retention."""


def hash_of_stream(constants: Iterable[str], term_hash: Callable[[str], int]) -> int | None:
    """Return the hash of the stream that qualifies constants of a leaf, or None."""
    for each in constants:
        parts = quads.stream_parts_of(each)
        if parts is not None:
            return term_hash(parts[1])
    return None


def whole_from(window: Window | CountWindow, every: int, horizon: int) -> int | None:
    """Return the event time (ms) of the first report with a complete window, or None if there is none.

    For a window by count it is the time from which on all elements are there to be counted.
    """
    if not horizon or isinstance(window, CountWindow):
        return horizon
    if window.range is None:
        return 0 if window.start >= horizon else None
    return next_multiple(next_multiple(horizon - 1 + window.range, window.step), every)


class Retention(Component):
    """The retention watermarks of one peer."""

    def __init__(
        self, messenger: Messenger, tables: Tables, home: Home, sources: Sources, term_hash: Callable[[str], int]
    ):
        """``sources``: the publishers of streams that are attached to this peer."""
        self._messenger = messenger
        self._tables = tables
        self._home = home
        self._sources = sources
        self._term_hash = term_hash
        self._keep_ms = int(messenger.config.stream_retention_seconds * 1000)
        self._watermarks = Watermarks(messenger.config.stream_idle_seconds)
        self._concluded = 0
        """The last concluded cut, a stamp."""

    @property
    def on(self) -> bool:
        """Whether elements are forgotten at all."""
        return self._keep_ms > 0

    @property
    def streams(self) -> frozenset[int]:
        """The streams with publishers at this peer: it concludes their retention watermarks."""
        return self._sources.streams if self.on else frozenset()

    # --- reports ---------------------------------------------------------------------------------

    def mark(self, cut: int, view: int) -> RetentionReport:
        """Return the retention report of a cut."""
        needed = self._needed()
        horizons = self._tables.horizons
        if not self.on:
            needed = {_EVERY: 0}
        streams = list(dict.fromkeys([*needed, *(stream for stream, _ in horizons)]))
        make = self._messenger.columns.column
        least = [needed.get(each, NEVER) for each in streams]
        return RetentionReport(cut, view, make(streams), make(least), make([horizons.of(each) for each in streams]))

    def _needed(self) -> dict[int, int]:
        """Return by stream the earliest event time that the queries coordinated here need."""
        needed: dict[int, int] = {}
        for group in self._home.windowed:
            if not self._messenger.placement.may_keep(group_home(group.identity)):
                continue  # a former coordinator: it does not hear of reports
            for leaf in group.leaves:
                if isinstance(leaf.answers, ElementAnswers):
                    named = leaf.window.stream if isinstance(leaf.window, CountWindow) else None
                    stream = self._term_hash(named) if named else hash_of_stream(leaf.query.constants, self._term_hash)
                    if stream is not None:
                        needed[stream] = min(leaf.answers.needed, needed.get(stream, NEVER))
        return needed

    # --- conclusions -----------------------------------------------------------------------------

    def learn(self, known: Known, watched: frozenset[int]) -> None:
        """Conclude retention watermarks from the reports of all peers at a cut, for the streams in ``watched``."""
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
        self._watermarks.learn(known, streams, self._messenger.now)
        found = {}
        for stream in sorted(streams):
            before = min(self._watermarks.upto(stream) + 1 - self._keep_ms, needed.get(stream, NEVER))
            held = self._tables.horizons.of(stream)
            if before >= held + max(1, self._keep_ms // _PARTS) or (before > held and not held):
                found[stream] = before
        if found:
            self._take(found)
            message = self._message(found)
            for contact in self._messenger.cache.contacts():
                if contact.key != self._messenger.own.key:
                    self._messenger.send(contact, message)

    def _message(self, horizons: dict[int, int]) -> ElementsForgotten:
        make = self._messenger.columns.column
        return ElementsForgotten(make(list(horizons)), make(list(horizons.values())))

    def _take(self, horizons: dict[int, int]) -> None:
        """Forget elements before some retention watermarks, if these are new."""
        later = {stream: before for stream, before in horizons.items() if self._tables.forget(stream, before)}
        if not later:
            return
        self._messenger.persist(self._message(later))
        needed = self._needed() if not self._messenger.restoring else {}
        for stream, before in later.items():
            if before > needed.get(stream, NEVER):
                self._messenger.trace("needed-elements-forgotten", stream=f"{stream:016x}", before_ms=before)

    # --- others ----------------------------------------------------------------------------------

    def told(self, message: ElementsForgotten) -> None:
        """Take the retention watermarks of another peer or of the earlier incarnation."""
        self._take(dict(zip(as_list(message.streams), as_list(message.before), strict=True)))

    def met(self, contact: Contact) -> None:
        """Tell a peer that came the retention watermarks."""
        for message in self.kept():
            self._messenger.send(contact, message)

    def kept(self) -> Iterator[ElementsForgotten]:
        """Return all retention watermarks."""
        horizons = dict(self._tables.horizons)
        if horizons:
            yield self._message(horizons)

    # --- queries ---------------------------------------------------------------------------------

    @property
    def respected_after(self) -> int:
        """The stamp of a cut: after a later cut is concluded, needs that begin now are respected.

        Elements forgotten before that are forgotten by retention watermarks that this peer knows by then.
        """
        return self._messenger.clock + hlc.from_seconds(kept_late_seconds(self._messenger))

    def respects(self, after: int) -> bool:
        """Return whether a cut after ``after`` has been concluded."""
        return not self.on or self._concluded > after

    def whole_from(self, windows: Iterable[tuple[int, Window | CountWindow]], every: int) -> int | None:
        """Return the event time from which on all windows of a query are complete, or None if they never are."""
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
        """Return by hash of a stream its retention watermark and its lag, in seconds."""
        told = {}
        for stream, before in self._tables.horizons:
            upto = self._watermarks.upto(stream)
            lag = None if upto < 0 else max(0, upto + 1 - self._keep_ms - before) / 1000
            told[f"{stream:016x}"] = {"before": before / 1000, "lag": lag}
        return {"stream_retention": told}
