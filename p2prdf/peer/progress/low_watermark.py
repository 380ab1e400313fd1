"""Low watermarks: stamps below which no work in flight anywhere can still produce a solution.

A subscriber needs a *bookmark*, the statement that it has all solutions up to a stamp.  Hybrid logical clocks give a
consistent cut (K. M. Chandy, L. Lamport 1985): each peer inspects its outbox when its clock passes the stamp of the
cut, before it handles later messages.  The outbox keeps a message until it is acknowledged, and a receiver
acknowledges after the results are in its own outbox.  So the least stamp in all outboxes, or that of the cut, is a
low watermark (as in MillWheel: T. Akidau et al., VLDB 2013, without a master).  A peer adds messages that it puts
into its outbox until the end of the turn of the cut.  Publications that wait for the staging of an earlier one are in
no outbox, but may be acknowledged already, so they count as well.

A peer reports 0 while it may lack data: before copies are compared and joined after a change of the view, and for 20
s while as many peers are missing as keep a publication safe.  Only reports of one view count together.  Publications
that are not acknowledged at the cut may be older and follow later.

For streams, peers report the earliest event time in flight and the heartbeats of publishers
(:mod:`p2prdf.peer.progress.event_watermarks`), and the coordinators that have any work in flight
(:mod:`p2prdf.peer.progress.backfill`).

Cuts are reported on demand: a peer that wants watermarks asks all others, which report for some seconds, once a
second or eight times a second (urgent); with more than ``PEERS_PER_CUT`` peers less often.  A peer with a new reader
in a hurry also names four early cuts, the first one some milliseconds ahead: a peer whose clock has passed a cut
before it hears of the cut does not report it.
docs/explanation/design/coordinators.md and streams.md give the reasons.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from p2prdf import hlc
from p2prdf.columns import as_array, as_list
from p2prdf.continuous.home import GROUP_BITS, group_home, subscription_home
from p2prdf.peer.network.component import Component, Handlers
from p2prdf.wire.messages import (
    Answers,
    Contact,
    Fetch,
    Forward,
    IdentityList,
    IndexQuery,
    IndexTriples,
    KeepAnswers,
    KeepRetracted,
    LowWatermark,
    Message,
    PublisherReport,
    RetentionReport,
    StreamReport,
    WatchWatermarks,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from p2prdf.columns import Column
    from p2prdf.peer.network.messenger import Messenger

__all__ = [
    "CUT_SECONDS", "EARLY_CUTS", "Inspection", "Known", "LowWatermarks", "Source", "UnderWay", "kept_late_seconds",
]  # fmt: skip

U64 = npt.NDArray[np.uint64]

CUT_SECONDS: Final = 0.005
"""Seconds between possible cuts; equal at all peers.  Most are not inspected."""
CALM_CUTS: Final = 200
"""One in this number of cuts is reported to all peers that ask."""
URGENT_CUTS: Final = 25
"""One in this number of cuts is reported to urgent peers."""
EARLY_CUTS: Final = (2, 4, 8, 16)
"""The early cuts, counted from the cut that the clock of the asking peer has passed last."""
PEERS_PER_CUT: Final = 64
"""Up to this number of peers every such cut is reported, up to twice the number every second one, and so on."""
_CUT: Final = hlc.from_seconds(CUT_SECONDS)
_AFTER_SECONDS: Final = 0.000_5
"""Seconds after a cut at which a peer wakes, so that its clock of milliseconds has passed the cut."""
_EARLY_MAX: Final = 256
"""How many cuts ahead an early one may be; also the bound on those that are known."""
_WATCH_SECONDS: Final = 5.0
"""Seconds for which a peer gets reports after a request."""
_CUTS_MAX: Final = 16
"""Cuts of which reports are collected at a time."""
KEPT_LATE_MAX: Final = 8
"""Later retention reports that a peer may send before a cut is concluded."""
_NEVER: Final = (1 << 64) - 1
_PLAIN: Final = np.uint64(hlc.GONE - 1)
"""The bits of a time that are its stamp (:func:`p2prdf.hlc.plain`)."""
_ELEMENT: Final = np.uint64(hlc.ELEMENT)
_MARK: Final = np.uint64((1 << hlc.COUNTER_BITS) - 1)
_NOTHING: Final[U64] = np.zeros(0, np.uint64)
_FROM_THE_FIRST: Final[U64] = np.zeros(1, np.uint64)
_STREAMS_MAX: Final = 16_384
"""Streams per request."""
_BUSY_MAX: Final = 256
"""Coordinators, and stream marks, per report."""
_OLDEST: Final = 1
"""The low watermark of a peer that lacks nothing and has old solutions to derive again."""


class Source(NamedTuple):
    """The report of a publisher: it has published elements from ``began`` on, and all up to ``upto``.

    ``opening`` identifies the publisher session.  ``ended``: it has closed; publisher 0: one of the publishers has.
    """

    stream: int
    publisher: int
    began: int
    upto: int
    opening: int = 0
    ended: bool = False


@dataclass(frozen=True, slots=True)
class Known:
    """A low watermark ``upto``, known at the cut ``at``; both are stamps.

    ``busy``: the coordinators of queries with work in flight at the cut, of any stamp; None: too many.
    ``elements``: by the mark of a stream, the earliest event time in flight at the cut; None: unknown.
    """

    upto: int
    at: int
    busy: frozenset[int] | None = frozenset()
    elements: Mapping[int, int] | None = None
    sources: tuple[Source, ...] = ()
    kept: tuple[RetentionReport, ...] | None = None
    """The retention reports of all peers for this cut; None if some are missing."""
    whole: bool = False
    """Whether no peer misses a member."""

    def quiet(self, home: int) -> bool:
        """Return whether no work of a coordinator's queries was in flight."""
        return self.busy is not None and home not in self.busy


class LowWatermarks(Component):
    """The cuts of one peer: its reports to other peers, and the watermarks that follow from theirs."""

    def __init__(
        self, messenger: Messenger, owes: Callable[[], bool],
        learned: Callable[[Known], None],
        sources: Callable[[Collection[int]], Sequence[Source]] = lambda _: (),
        kept: Callable[[int, int], RetentionReport] | None = None,
        queued: Callable[[], Iterable[Message]] = lambda: (),
        whole: Callable[[], bool] = lambda: False,
    ):
        """``learned`` is called with each low watermark.

        ``queued`` returns the publications that wait to be indexed, ``sources`` the known reports of publishers of
        some streams, ``kept`` the retention report for a cut and view.  ``owes``: whether this peer has old solutions
        to derive again once no peer lacks data.  ``whole``: whether it misses no member.
        """
        self._messenger = messenger
        messenger.signals.view_changed.connect(self.view_changed)
        self._owes = owes
        self._learned = learned
        self._sources = sources
        self._queued = queued
        self._kept_mark = kept
        self._whole = whole
        self._kept_cut = 0
        """The last cut of which this peer sent a retention report."""
        self._kept: dict[int, dict[int, RetentionReport]] = {}
        self._watchers: dict[int, tuple[Contact, float]] = {}
        self._hurried: dict[int, float] = {}
        """By key of a peer, the time until which its requests are urgent."""
        self._with_streams: dict[int, dict[int, float]] = {}
        """By key of a peer, the streams that it asks about, each with the time until which it does."""
        self._asked_at: float | None = None
        self._asked_urgently = False
        self._asked_streams: frozenset[int] = frozenset()
        self._cut = 0
        """The last cut that the clock has passed since this peer is active; 0 before."""
        self._early: dict[int, dict[int, Contact]] = {}
        """By early cut that the clock has not passed the peers that asked for it, by key."""
        self._hurries = self._hurries_served = 0
        self._asked_early = 0
        """The last early cut that this peer has asked for."""
        self._inspected: list[Inspection] = []
        """The inspections of this turn."""
        self._told: dict[int, dict[int, LowWatermark]] = {}
        """By cut and key of a peer, its low watermark."""
        self._elements: dict[int, dict[int, StreamReport]] = {}
        """By cut and key of a peer, its elements in flight."""
        self._published: dict[int, dict[int, PublisherReport]] = {}
        """By cut and key of a peer, its reports of publishers."""
        self.active = False
        """Whether this peer, or another one that has asked it, wants low watermarks."""
        self.wanted = False
        """Whether a subscriber of this peer, or a coordinator here, wants low watermarks."""
        self.urgent = False
        """Whether it wants them soon."""
        self.streams: frozenset[int] = frozenset()
        """The streams of which this peer wants watermarks."""

    def handlers(self) -> Handlers:
        """Return the handlers of the reports of other peers."""
        return {
            WatchWatermarks: self.watch, LowWatermark: self.take, StreamReport: self.take_elements,
            PublisherReport: self.take_sources, RetentionReport: self.take_kept,
        }  # fmt: skip

    # --- cuts ------------------------------------------------------------------------------------

    def _see_whether_active(self) -> None:
        self.active = self.wanted or bool(self.streams or self._watchers)
        if not self.active:
            self._cut = 0
            self._early.clear()

    def passing(self, remote: int = 0) -> None:
        """Inspect the outbox if the clock passes a cut now, by itself or by the clock of a message (``remote``).

        The peer calls it before any other work while :attr:`active`.
        """
        messenger = self._messenger
        if remote > messenger.stamp_bound:  # a wrong clock decides nothing
            remote = 0
        cut = max(messenger.clock, messenger.present, remote) // _CUT
        if not self._cut:  # earlier cuts were not inspected
            self._cut, self.dirty = cut, True
        elif cut > self._cut:
            last, self._cut = self._cut, cut
            messenger.clock = max(messenger.clock, cut * _CUT)
            self._inspect(last, cut)

    def _inspect(self, last: int, cut: int) -> None:
        """Inspect the outbox if a cut to report is among those after ``last`` up to ``cut``.

        No work was done here between them, so the same work was in flight at all of them.
        """
        regular = cut // self._step * self._step
        early = {each: self._early.pop(each) for each in sorted(self._early) if each <= cut}
        if regular <= last and not early:
            return
        self.dirty = True
        if not self._inspected:
            self._messenger.put_since_cut = []
        streams = self.streams.union(*self._with_streams.values())
        said = self._sources(streams) if streams else ()
        self._inspected.append(Inspection(self._under_way(), regular if regular > last else 0, early, said))

    @property
    def _stride(self) -> int:
        """One in this number of cuts is reported to urgent peers."""
        return _stride(self._messenger)

    @property
    def _step(self) -> int:
        """One in this number of cuts is inspected now."""
        now, hurry = self._messenger.now, self.urgent
        if not hurry and self._hurried:
            hurry = any(until > now for until in self._hurried.values())
        return self._stride * (URGENT_CUTS if hurry else CALM_CUTS)

    def _under_way(self) -> UnderWay:
        found = UnderWay()
        found.add(self._messenger.outbox.messages())
        found.add(self._queued())
        return found

    def want(self, *, wanted: bool, urgent: bool, streams: frozenset[int], hurries: int = 0) -> None:
        """Set the low watermarks that a subscriber of this peer, or a coordinator here, wants.

        ``hurries``: the number of times that a reader was in a hurry; when it grows, early cuts are wanted.
        """
        self.wanted, self.urgent, self.streams, self._hurries = wanted, urgent, streams, hurries
        if not (wanted or streams):
            self.view_changed()  # reports of incomplete cuts are not needed any more
        self._see_whether_active()
        if wanted or streams or self._asked_at is not None:
            self.dirty = True

    def wake(self) -> None:
        """Report the cut that was just passed, at the end of its turn; request reports of other peers."""
        messenger, now = self._messenger, self._messenger.now
        wanted = self.wanted or bool(self.streams)
        inspected, self._inspected = self._inspected, []
        if inspected:
            self._forget_watchers()
            put, messenger.put_since_cut = messenger.put_since_cut or (), None
            put = [*put, *self._queued()]
            for each in inspected:
                each.found.add(put)
                self._tell(each, wanted=wanted)
        hurries = (self.urgent and not self._asked_urgently) or not self.streams <= self._asked_streams
        if wanted and (self._asked_at is None or hurries or now >= self._asked_at + _WATCH_SECONDS / 2):
            self._asked_at, self._asked_urgently, self._asked_streams = now, self.urgent, self.streams
            for contact in messenger.cache.contacts():
                for message in self._asked() if contact.key != messenger.own.key else ():
                    messenger.send(contact, message)
        elif not wanted:
            self._asked_at = None
        if self._hurries > self._hurries_served and self._may_ask_early:
            self._ask_early()

    @property
    def _may_ask_early(self) -> bool:
        """Whether early cuts may be asked for: not again before the former ones have passed, and only in few peers."""
        return self._cut >= self._asked_early and self._stride == 1

    def _ask_early(self) -> None:
        """Name the next early cuts to all peers."""
        messenger = self._messenger
        self._hurries_served = self._hurries
        self._begin_cuts()
        self._asked_early = self._cut + EARLY_CUTS[-1]
        self._report_early(messenger.own, self._cut)
        message = WatchWatermarks(urgent=True, early=self._cut)
        for contact in messenger.cache.contacts():
            if contact.key != messenger.own.key:
                messenger.send(contact, message)

    def _report_early(self, contact: Contact, after: int) -> None:
        """Report the early cuts after a cut to a peer, those that the clock has not passed yet."""
        for cut in (after + each for each in EARLY_CUTS):
            if self._cut < cut <= self._cut + _EARLY_MAX:
                self._early.setdefault(cut, {})[contact.key] = contact

    def _begin_cuts(self) -> None:
        """Note the present cut, if no cut was passed since this peer is active."""
        messenger = self._messenger
        self._cut = self._cut or max(messenger.clock, hlc.from_seconds(messenger.now)) // _CUT

    def _forget_watchers(self) -> None:
        """Forget the peers that have not asked for some seconds."""
        now = self._messenger.now
        self._watchers = {key: each for key, each in self._watchers.items() if each[1] > now}
        self._see_whether_active()
        self._hurried = {key: until for key, until in self._hurried.items() if until > now}
        self._with_streams = {key: self._wanted_by(key) for key in self._with_streams if key in self._watchers}

    def _low(self, found: UnderWay) -> int:
        """Return the low watermark of this peer alone; 0: it may lack data."""
        messenger = self._messenger
        recovered = messenger.recovery.complete and not messenger.parked
        if not messenger.view or not recovered or messenger.members.short_of_peers:
            return 0
        return _OLDEST if self._owes() else found.low

    def _tell(self, inspected: Inspection, *, wanted: bool) -> None:
        """Send the reports of some cuts to the peers that asked; a low watermark goes last and completes the others."""
        messenger, low = self._messenger, self._low(inspected.found)
        for cut, asked in inspected.early.items():
            mark = self._mark(cut, low, inspected.found)
            for contact in asked.values():
                if contact.key != messenger.own.key:
                    messenger.send(contact, mark)
                elif wanted:
                    self.take(contact, mark)
        if inspected.cut:
            self._tell_regular(inspected, low, wanted=wanted)

    def _tell_regular(self, inspected: Inspection, low: int, *, wanted: bool) -> None:
        messenger, cut = self._messenger, inspected.cut
        elements, mark = self._elements_at(inspected, low), self._mark(cut, low, inspected.found)
        for_all = cut % (self._stride * CALM_CUTS) == 0
        kept = []
        if self._kept_mark is not None and for_all and (self.streams or self._with_streams):
            self._kept_cut = cut
            kept.append(self._kept_mark(cut, messenger.view))
        for key, (contact, _) in self._watchers.items():
            if for_all or key in self._hurried:
                streams = self._with_streams.get(key)
                before: list[Message] = [*kept, *elements, self._source_mark(inspected, streams)] if streams else []
                for message in (*before, mark):
                    messenger.send(contact, message)
        if wanted and (for_all or self.urgent):
            for told in kept:
                self.take_kept(messenger.own, told)
            for message in elements:
                self.take_elements(messenger.own, message)
            self.take_sources(messenger.own, self._source_mark(inspected, self.streams))
            self.take(messenger.own, mark)

    def _asked(self) -> list[WatchWatermarks]:
        """Return the requests to other peers, streams in parts."""
        streams, make = sorted(self.streams), self._messenger.columns.column
        parts = [(make(streams[at : at + _STREAMS_MAX]),) for at in range(0, len(streams), _STREAMS_MAX)]
        return [WatchWatermarks(self.urgent, part) for part in parts] or [WatchWatermarks(self.urgent)]

    def _wanted_by(self, key: int) -> dict[int, float]:
        return {stream: until for stream, until in self._with_streams[key].items() if until > self._messenger.now}

    def _mark(self, cut: int, low: int, found: UnderWay) -> LowWatermark:
        """Return the low watermark of this peer at a cut."""
        many, make = len(found.homes) > _BUSY_MAX, self._messenger.columns.column
        homes = make([] if many else sorted(found.homes))
        return LowWatermark(cut, low, self._messenger.view, homes, many, self._whole())

    def _elements_at(self, inspected: Inspection, low: int) -> list[StreamReport]:
        """Return the report of the elements in flight at a cut, if they are known."""
        found, make = inspected.found, self._messenger.columns.column
        if low > _OLDEST and len(found.elements) <= _BUSY_MAX:
            return [StreamReport(inspected.cut, self._messenger.view, make(sorted(found.elements.values())))]
        return []

    def _source_mark(self, inspected: Inspection, streams: Collection[int]) -> PublisherReport:
        """Return the report of publishers of some streams at a cut."""
        said = [each for each in inspected.said if each.stream in streams]
        make = self._messenger.columns.column
        return PublisherReport(
            inspected.cut, self._messenger.view, make([each.stream for each in said]),
            make([each.publisher for each in said]), make([each.began for each in said]),
            make([each.upto for each in said]), make([each.opening for each in said]),
            make([int(each.ended) for each in said], "uint32"),
        )  # fmt: skip

    @property
    def deadline(self) -> float | None:
        """The time of the next cut."""
        if not self.active:
            return None
        if self._inspected or not self._cut:
            return self._messenger.now
        step = self._step
        cut = min((self._cut // step + 1) * step, *self._early) if self._early else (self._cut // step + 1) * step
        return cut * CUT_SECONDS + _AFTER_SECONDS

    # --- others ----------------------------------------------------------------------------------

    def watch(self, sender: Contact, message: WatchWatermarks) -> None:
        """Report to another peer from the next cut on."""
        self._watchers[sender.key] = (sender, self._messenger.now + _WATCH_SECONDS)
        self.active = True
        if message.urgent:
            self._hurried[sender.key] = self._messenger.now + _WATCH_SECONDS
        if message.early:
            self._begin_cuts()
            self._report_early(sender, message.early)
        for streams in message.streams:
            until = self._messenger.now + _WATCH_SECONDS
            self._with_streams.setdefault(sender.key, {}).update(dict.fromkeys(as_list(streams), until))

    def take_elements(self, sender: Contact, message: StreamReport) -> None:
        """Take the elements in flight of a peer."""
        if self.streams and message.view and message.view == self._messenger.view:
            self._elements.setdefault(message.cut, {})[sender.key] = message
            _forget_earliest(self._elements)

    def take_sources(self, sender: Contact, message: PublisherReport) -> None:
        """Take the reports of publishers of a peer."""
        if self.streams and message.view and message.view == self._messenger.view:
            self._published.setdefault(message.cut, {})[sender.key] = message
            _forget_earliest(self._published)

    def take_kept(self, sender: Contact, message: RetentionReport) -> None:
        """Take the retention report of a peer."""
        if self.streams and message.view and message.view == self._messenger.view:
            self._kept.setdefault(message.cut, {})[sender.key] = message
            _forget_earliest(self._kept)

    def take(self, sender: Contact, message: LowWatermark) -> None:
        """Take the low watermark of a peer; conclude the cut after the last one."""
        messenger = self._messenger
        if not (self.wanted or self.streams) or not message.view or message.view != messenger.view:
            return
        told = self._told.setdefault(message.cut, {})
        told[sender.key] = message
        _forget_earliest(self._told)
        if len(told) >= messenger.cache.size and all(each.key in told for each in messenger.cache.contacts()):
            self._told = {cut: each for cut, each in self._told.items() if cut > message.cut}
            low = min(message.cut * _CUT, *(each.low for each in told.values()))
            if low:
                busy = frozenset(home for each in told.values() for home in as_list(each.busy))
                many = any(each.many for each in told.values())
                upto = max(0, hlc.floor(low) - 1)
                came = self._elements.pop(message.cut, {})
                published = self._published.pop(message.cut, {})
                complete = came.keys() >= told.keys() <= published.keys()
                elements = _elements_of(came.values()) if complete else None
                sources = _sources_of(published.values())
                kept = self._kept.pop(message.cut, {})
                in_time = CUT_SECONDS * (self._kept_cut - message.cut) < kept_late_seconds(self._messenger)
                all_kept = kept.keys() >= told.keys() and in_time  # other peers rely on timely conclusions
                told_of = tuple(kept.values()) if all_kept else None
                around = None if many else busy
                whole = all(each.whole for each in told.values())
                self._learned(Known(upto, message.cut * _CUT, around, elements, sources, told_of, whole))

    def view_changed(self) -> None:
        """Forget the reports of another view."""
        for told in (self._told, self._elements, self._published, self._kept):
            told.clear()


def _stride(messenger: Messenger) -> int:
    """Return the number of cuts of which one is reported to urgent peers."""
    return -(-messenger.cache.size // PEERS_PER_CUT)


def kept_late_seconds(messenger: Messenger) -> float:
    """Return the seconds after a cut in which later reports may lead to conclusions about retention at that cut.

    It is shorter than the time for which a coordinator waits for publishers of a stream before its first report.
    """
    marks = max(1, min(KEPT_LATE_MAX, int(messenger.config.stream_idle_seconds) - 2))
    return marks * _stride(messenger) * CALM_CUTS * CUT_SECONDS


@dataclass(frozen=True, slots=True)
class Inspection:
    """The work in flight at some cuts.

    ``cut``: the regular one; 0: none.  ``early``: the early ones, each with the peers that asked for it by key.
    ``said``: the reports of publishers known then.
    """

    found: UnderWay
    cut: int
    early: dict[int, dict[int, Contact]]
    said: Sequence[Source]


class UnderWay:
    """Work in flight: the least stamp, the coordinators, and the earliest event time by the mark of a stream.

    It has a few more coordinators and marks than a report, to show that there are too many.
    """

    def __init__(self) -> None:
        self.low = _NEVER
        self.homes: set[int] = set()
        self.elements: dict[int, int] = {}

    def add(self, messages: Iterable[Message]) -> None:
        """Add messages, all stamps at once: there may be very many messages with a few stamps each."""
        parts: list[U64] = []
        for message in messages:
            stamps = _stamps(message)
            if len(stamps):
                parts.append(stamps)
            if len(self.homes) <= _BUSY_MAX:
                self.homes |= _homes(message)
        if parts:
            stamps = np.concatenate(parts)
            events = stamps >= _ELEMENT
            if events.any():
                self._add_elements(stamps[events])
                stamps = stamps[~events]
            self.low = min(self.low, int(stamps.min(initial=_NEVER)))

    def _add_elements(self, times: U64) -> None:
        times = np.sort(times)
        marks, first = np.unique(times & _MARK, return_index=True)
        for mark, time in zip(marks.tolist(), times[first].tolist(), strict=True):
            if mark in self.elements:
                self.elements[mark] = min(self.elements[mark], time)
            elif len(self.elements) <= _BUSY_MAX:
                self.elements[mark] = time


def _stamps(message: Message) -> U64:
    """Return stamps, or event times: no solution that follows from the message is older than the least of them."""
    match message:
        case IndexTriples():
            return as_array(message.time) & _PLAIN
        case Forward() | Answers():
            return as_array(message.rows.born) & _PLAIN
        case KeepAnswers():
            return as_array(message.born) & _PLAIN
        case IndexQuery():
            return as_array([message.refresh] if message.refresh else message.groups.since_min)
        case IdentityList() | Fetch():  # they may lead to anything
            return _FROM_THE_FIRST
    return _NOTHING


def _forget_earliest(told: dict[int, Any]) -> None:
    """Drop cuts beyond the bound, the earliest first."""
    if len(told) > _CUTS_MAX:
        del told[min(told)]


def _elements_of(marks: Iterable[StreamReport]) -> dict[int, int]:
    """Return by the mark of a stream the earliest event time in flight at any peer."""
    times = sorted((time for mark in marks for time in as_list(mark.times)), reverse=True)
    return {hlc.stream_mark(time): time for time in times}


def _sources_of(marks: Iterable[PublisherReport]) -> tuple[Source, ...]:
    """Return the reports of publishers at all peers; a publisher may have reported at several."""
    return tuple(
        Source(stream, publisher, began, upto, opening, bool(ended))
        for mark in marks
        for stream, publisher, began, upto, opening, ended in zip(*map(as_list, _columns_of(mark)), strict=True)
    )


def _columns_of(mark: PublisherReport) -> tuple[Column, ...]:
    """Return the columns of a report in the order of the fields of Source."""
    return mark.streams, mark.publishers, mark.began, mark.upto, mark.openings, mark.ended


def _homes(message: Message) -> set[int]:
    """Return the coordinators of the queries of a message in flight."""
    match message:
        case Forward() | IndexQuery():
            return _group_homes(message.groups.ids)
        case Answers():
            return _group_homes(message.groups)
        case KeepAnswers():
            return {subscription_home(message.subscription)}
        case KeepRetracted():
            return {group_home(message.leaf)}
        case _:
            return set()


def _group_homes(groups: Column) -> set[int]:
    return set(as_list(as_array(groups) >> GROUP_BITS << GROUP_BITS))
