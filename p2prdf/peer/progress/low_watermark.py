"""Low marks: up to which publication time everything that was to follow has followed, wherever it was under way.

The problem.  Answers reach a subscriber in no order, so it cannot know when it has all that came of what was published
up to some time.  A *bookmark* tells.  That takes a *low mark*: a stamp such that no peer has anything under way that
can still lead to an answer born at or before it.  Peers look at what they have under way at different moments,
and what one hands on to another in between is seen by neither.

The idea.  Hybrid logical clocks make a cut: each peer looks at the moment its clock passes the same stamp, before it
handles anything stamped later (K. M. Chandy, L. Lamport 1985; here the marker is the clock).  What is on its way
between two peers then is in its sender's outbox, for that keeps everything until it is acknowledged, and an
acknowledgement leaves after what follows from the message has been put into the outbox of its receiver.  So the least
stamp in all outboxes, or the stamp of the cut if that is less, is a low mark (as in MillWheel: T. Akidau et al., VLDB
2013, without a master).

A peer also counts what it has taken in and not worked off at the cut: all that it puts into its outbox from then to the
end of the turn.  (To look into the outbox again at the end would not do: the budget may have split the turn, and what
the first part sent may be acknowledged by then.)  It tells nothing
(0) while copies may lack something: until all was compared and joined again after peers came or went, and for 20 s
after as many were lost, and are not back, as copies make a publication safe, for they may be cut off and acknowledge
some.  Fewer cannot: how many copies are needed does not shrink with the view.  Not alone, that is: who is not in the
view may have this peer in its own, and this one's copy counts there; what comes so is compared first, too.  And only
marks count that all peers tell of one view of the ring: one that failed is waited for until it is known to be gone.

The same tells that nothing is missing anywhere, which is waited for before old answers are derived again
(:meth:`p2prdf.peer.subscriptions.coordinator.Host.derive_again`).

Nothing of this happens unless somebody wants it: peers with such subscribers ask all others, who remember
that for some seconds.  One message from each to each of them per cut that counts: one a second, for who is in a hurry
(a one-time query) eight; with more than 64 peers so much fewer that a peer tells 64 others, or eight times as many.

Publications that were not acknowledged when the mark was told may be older and follow later.

Elements of streams.  They have event times, not stamps, and so has what follows from them: it counts for no low mark.
Instead a peer tells the earliest event time that it has under way of each stream, and what publishers say of how far
they are.  A publisher says so after its elements are where queries find them, so what a peer has been told of when it
passes a cut lies before the cut everywhere: from that, and from what is under way at the cut, follows up to which event
time all is known that was published (T. Akidau et al., VLDB 2015, call it a watermark).  Whoever wants to know,
:mod:`p2prdf.peer.progress.event_watermarks`, keeps the latest of each publisher.

What was true before the mark.  An answer is born when the last of its triples is published, and of a triple that is
published again and again that is the last time.  So an answer that is true for long may be under way and be younger
than any mark (:mod:`p2prdf.peer.progress.backfill`).  Therefore marks come with the homes to whose queries anything is
under way.
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
    ElementMark,
    Forward,
    IndexQuery,
    IndexTriples,
    KeepAnswers,
    KeepWithdrawn,
    KeptMark,
    LowMark,
    Message,
    Offer,
    SourceMark,
    Want,
    WatchLowMarks,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from p2prdf.columns import Column
    from p2prdf.peer.network.messenger import Exchange

__all__ = ["CUT_SECONDS", "Known", "LowMarks", "Source", "UnderWay", "kept_late_seconds"]

U64 = npt.NDArray[np.uint64]

CUT_SECONDS: Final = 0.125
"""Between cuts; the same at all peers."""
CALM_CUTS: Final = 8
"""One in so many cuts counts for those who are in no hurry."""
PEERS_PER_CUT: Final = 64
"""With so many peers each of these counts, with twice as many each other one, and so on."""
_CUT: Final = hlc.from_seconds(CUT_SECONDS)
_WATCH_SECONDS: Final = 5.0
"""How long a peer is told marks after it asked."""
_CUTS_MAX: Final = 16
"""Cuts of which marks are gathered at a time."""
KEPT_LATE_MAX: Final = 8
"""Marks of what is kept of streams that may be told by when a cut is concluded."""
_NEVER: Final = (1 << 64) - 1
_PLAIN: Final = np.uint64(hlc.GONE - 1)
"""These bits of a time are its stamp (:func:`p2prdf.hlc.plain`)."""
_ELEMENT: Final = np.uint64(hlc.ELEMENT)
_MARK: Final = np.uint64((1 << hlc.COUNTER_BITS) - 1)
_NOTHING: Final[U64] = np.zeros(0, np.uint64)
_FROM_THE_FIRST: Final[U64] = np.zeros(1, np.uint64)
_STREAMS_MAX: Final = 16_384
"""Streams that are asked about in one message."""
_BUSY_MAX: Final = 256
"""Homes that are told with a mark."""
_OLDEST: Final = 1
"""The low mark of a peer that is steady, and has something to derive again, however old."""


class Source(NamedTuple):
    """What a publisher says of its stream: it has published elements from ``began`` on, and all up to ``upto``.

    ``opening`` tells its times on the stream apart.  ``ended``: it closed; without a publisher (0): somebody has.
    """

    stream: int
    publisher: int
    began: int
    upto: int
    opening: int = 0
    ended: bool = False


@dataclass(frozen=True, slots=True)
class Known:
    """A low mark ``upto``, known at the cut ``at``: stamps both.

    ``busy``: the homes to whose queries something was under way then, whatever its stamp; None: too many.
    ``elements``: by the mark of a stream the earliest time of an element under way then; None: it is not known.
    """

    upto: int
    at: int
    busy: frozenset[int] | None = frozenset()
    elements: Mapping[int, int] | None = None
    sources: tuple[Source, ...] = ()
    kept: tuple[KeptMark, ...] | None = None
    """What all peers told of what they keep of streams, of this cut; None: not all have, or of none."""

    def quiet(self, home: int) -> bool:
        """Return whether nothing at all was under way that belongs to a query of a home."""
        return self.busy is not None and home not in self.busy


class LowMarks(Component):
    """What a peer tells others of what it has under way, and what it concludes from what it is told."""

    def __init__(
        self, exchange: Exchange, owes: Callable[[], bool],
        learned: Callable[[Known], None],
        sources: Callable[[Collection[int]], Sequence[Source]] = lambda _: (),
        kept: Callable[[int, int], KeptMark] | None = None,
    ):
        """``learned`` is told low marks.

        ``sources``: what is known here of publishers of some streams.  ``kept`` makes the mark of a cut and view that
        tells what is kept of streams.

        ``owes``: whether this peer waits for all to be steady to derive old answers again; the low mark is 0 then.
        """
        self._exchange = exchange
        exchange.signals.view_changed.connect(self.view_changed)
        self._owes = owes
        self._learned = learned
        self._sources = sources
        self._kept_mark = kept
        self._kept_cut = 0
        """The last cut of which this peer told that."""
        self._kept: dict[int, dict[int, KeptMark]] = {}
        self._watchers: dict[int, tuple[Contact, float]] = {}
        self._hurried: dict[int, float] = {}
        """Until when each of these is in a hurry,"""
        self._with_streams: dict[int, dict[int, float]] = {}
        """and until when each wants to know of which streams."""
        self._asked_at: float | None = None
        self._asked_urgently = False
        self._asked_streams: frozenset[int] = frozenset()
        self._cut = 0
        """The last one passed, or when this peer began to look."""
        self._low: UnderWay | None = None
        """What was under way when a cut that counts was passed, until it is told,"""
        self._said: Sequence[Source] = ()
        """what was known of publishers then,"""
        self._low_cut = 0
        """and this cut."""
        self._told: dict[int, dict[int, LowMark]] = {}
        """Per cut the mark of each peer by its key,"""
        self._elements: dict[int, dict[int, ElementMark]] = {}
        """what came with them of elements,"""
        self._published: dict[int, dict[int, SourceMark]] = {}
        """and of publishers."""
        self.wanted = False
        """Whether somebody here wants bookmarks."""
        self.urgent = False
        """And soon."""
        self.streams: frozenset[int] = frozenset()
        """Of which streams somebody here wants to know how far they are."""

    def handlers(self) -> Handlers:
        """Return the handlers of the marks that other peers tell."""
        return {
            WatchLowMarks: self.watch, LowMark: self.take, ElementMark: self.take_elements,
            SourceMark: self.take_sources, KeptMark: self.take_kept,
        }  # fmt: skip

    # --- cuts ------------------------------------------------------------------------------------

    @property
    def _active(self) -> bool:
        return self.wanted or bool(self.streams or self._watchers)

    def passing(self, remote: int = 0) -> None:
        """Look at what is under way if the clock passes a cut now, by itself or by that of a message (``remote``).

        To be called before anything else is done.
        """
        if not self._active:
            self._cut = 0
            return
        exchange = self._exchange
        seconds = exchange.config.drift_max_seconds  # a clock that is wrong decides nothing
        stamp = hlc.merge(exchange.clock, remote, now=exchange.now, drift_max_seconds=seconds)
        cut = stamp // _CUT
        if not self._cut:  # what the clock passed before nobody looked at
            self._cut = cut
        elif cut > self._cut:
            last, self._cut = self._cut, cut
            exchange.clock = max(exchange.clock, cut * _CUT)
            counts = cut // self._step * self._step
            if counts > last:  # between the two nothing was done here
                self._low, self._low_cut = self._under_way(), counts
                exchange.put_since_cut = []
                streams = self.streams.union(*self._with_streams.values())
                self._said = self._sources(streams) if streams else ()

    @property
    def _stride(self) -> int:
        """One in so many cuts counts for who is in a hurry."""
        return _stride(self._exchange)

    @property
    def _step(self) -> int:
        """One in so many cuts counts here now."""
        hurry = self.urgent or any(until > self._exchange.now for until in self._hurried.values())
        return self._stride * (1 if hurry else CALM_CUTS)

    def _under_way(self) -> UnderWay:
        found = UnderWay()
        found.add(self._exchange.outbox.messages())
        return found

    def wake(self) -> None:
        """Tell the mark of a cut just passed, at the end of a turn; ask others to tell theirs."""
        exchange, now = self._exchange, self._exchange.now
        wanted = self.wanted or bool(self.streams)
        if self._low is not None:
            found, self._low = self._low, None
            found.add(exchange.put_since_cut or ())
            exchange.put_since_cut = None
            low, view = found.low, exchange.view
            if not view or exchange.parked or exchange.members.short_of_peers or not exchange.recovery.complete:
                low = 0
            elif self._owes():
                low = _OLDEST
            self._tell(low, found, wanted=wanted)
        hurries = (self.urgent and not self._asked_urgently) or not self.streams <= self._asked_streams
        if wanted and (self._asked_at is None or hurries or now >= self._asked_at + _WATCH_SECONDS / 2):
            self._asked_at, self._asked_urgently, self._asked_streams = now, self.urgent, self.streams
            for contact in exchange.cache.contacts():
                for message in self._asked() if contact.key != exchange.own.key else ():
                    exchange.send(contact, message)
        elif not wanted:
            self._asked_at = None

    def _tell(self, low: int, found: UnderWay, *, wanted: bool) -> None:
        """Tell the mark of the last cut to whoever watches, the low mark last: when it is there the others are."""
        exchange, now, view = self._exchange, self._exchange.now, self._exchange.view
        elements, mark = self._marks(low, found)
        self._watchers = {key: each for key, each in self._watchers.items() if each[1] > now}
        self._hurried = {key: until for key, until in self._hurried.items() if until > now}
        self._with_streams = {key: self._wanted_by(key) for key in self._with_streams if key in self._watchers}
        for_all = self._low_cut % (self._stride * CALM_CUTS) == 0
        kept = []
        if self._kept_mark is not None and for_all and (self.streams or self._with_streams):
            self._kept_cut = self._low_cut
            kept.append(self._kept_mark(self._low_cut, view))
        for key, (contact, _) in self._watchers.items():
            if for_all or key in self._hurried:
                streams = self._with_streams.get(key)
                before: list[Message] = [*kept, *elements, self._source_mark(streams)] if streams else []
                for message in (*before, mark):
                    exchange.send(contact, message)
        if wanted and (for_all or self.urgent):
            for told in kept:
                self.take_kept(exchange.own, told)
            for message in elements:
                self.take_elements(exchange.own, message)
            self.take_sources(exchange.own, self._source_mark(self.streams))
            self.take(exchange.own, mark)

    def _asked(self) -> list[WatchLowMarks]:
        """Return what others are asked, streams a part at a time."""
        streams, make = sorted(self.streams), self._exchange.columns.column
        parts = [(make(streams[at : at + _STREAMS_MAX]),) for at in range(0, len(streams), _STREAMS_MAX)]
        return [WatchLowMarks(self.urgent, part) for part in parts] or [WatchLowMarks(self.urgent)]

    def _wanted_by(self, key: int) -> dict[int, float]:
        return {stream: until for stream, until in self._with_streams[key].items() if until > self._exchange.now}

    def _marks(self, low: int, found: UnderWay) -> tuple[list[ElementMark], LowMark]:
        """Return what is told of a cut: the elements that are under way, if that is known, and the low mark."""
        make, cut, view = self._exchange.columns.column, self._low_cut, self._exchange.view
        elements = []
        if low > _OLDEST and len(found.elements) <= _BUSY_MAX:
            elements.append(ElementMark(cut, view, make(sorted(found.elements.values()))))
        many = len(found.homes) > _BUSY_MAX
        return elements, LowMark(cut, low, view, make([] if many else sorted(found.homes)), many)

    def _source_mark(self, streams: Collection[int]) -> SourceMark:
        """Return what was known of publishers of some streams at the cut."""
        said = [each for each in self._said if each.stream in streams]
        make = self._exchange.columns.column
        return SourceMark(
            self._low_cut, self._exchange.view, make([each.stream for each in said]),
            make([each.publisher for each in said]), make([each.began for each in said]),
            make([each.upto for each in said]), make([each.opening for each in said]),
            make([int(each.ended) for each in said], "uint32"),
        )  # fmt: skip

    @property
    def deadline(self) -> float | None:
        """When the next cut is passed."""
        if not self._active:
            return None
        if self._low is not None or not self._cut:
            return self._exchange.now
        step = self._step
        return (self._cut // step + 1) * step * CUT_SECONDS

    # --- others ----------------------------------------------------------------------------------

    def watch(self, sender: Contact, message: WatchLowMarks) -> None:
        """Tell another from the next cut on."""
        self._watchers[sender.key] = (sender, self._exchange.now + _WATCH_SECONDS)
        if message.urgent:
            self._hurried[sender.key] = self._exchange.now + _WATCH_SECONDS
        for streams in message.streams:
            until = self._exchange.now + _WATCH_SECONDS
            self._with_streams.setdefault(sender.key, {}).update(dict.fromkeys(as_list(streams), until))

    def take_elements(self, sender: Contact, message: ElementMark) -> None:
        """Note what a peer has under way of streams."""
        if self.streams and message.view and message.view == self._exchange.view:
            self._elements.setdefault(message.cut, {})[sender.key] = message
            _forget_earliest(self._elements)

    def take_sources(self, sender: Contact, message: SourceMark) -> None:
        """Note what a peer was told by publishers."""
        if self.streams and message.view and message.view == self._exchange.view:
            self._published.setdefault(message.cut, {})[sender.key] = message
            _forget_earliest(self._published)

    def take_kept(self, sender: Contact, message: KeptMark) -> None:
        """Note what a peer keeps of streams."""
        if self.streams and message.view and message.view == self._exchange.view:
            self._kept.setdefault(message.cut, {})[sender.key] = message
            _forget_earliest(self._kept)

    def take(self, sender: Contact, message: LowMark) -> None:
        """Note the mark of a peer; conclude if it was the last one to tell."""
        exchange = self._exchange
        if not (self.wanted or self.streams) or not message.view or message.view != exchange.view:
            return
        told = self._told.setdefault(message.cut, {})
        told[sender.key] = message
        _forget_earliest(self._told)
        if len(told) >= exchange.cache.size and all(each.key in told for each in exchange.cache.contacts()):
            self._told = {cut: each for cut, each in self._told.items() if cut > message.cut}
            low = min(message.cut * _CUT, *(each.low for each in told.values()))
            if low:
                busy = frozenset(home for each in told.values() for home in as_list(each.busy))
                many = any(each.many for each in told.values())
                upto = max(0, hlc.floor(low) - 1)
                came = self._elements.pop(message.cut, {})
                published = self._published.pop(message.cut, {})
                whole = came.keys() >= told.keys() <= published.keys()
                elements = _elements_of(came.values()) if whole else None
                sources = _sources_of(published.values())
                kept = self._kept.pop(message.cut, {})
                in_time = CUT_SECONDS * (self._kept_cut - message.cut) < kept_late_seconds(self._exchange)
                all_kept = kept.keys() >= told.keys() and in_time  # others rely on what is concluded being told
                told_of = tuple(kept.values()) if all_kept else None
                around = None if many else busy
                self._learned(Known(upto, message.cut * _CUT, around, elements, sources, told_of))

    def view_changed(self) -> None:
        """Forget marks of another view."""
        for told in (self._told, self._elements, self._published, self._kept):
            told.clear()


def _stride(exchange: Exchange) -> int:
    """Return of how many cuts one counts for peers that want bookmarks soon."""
    return -(-exchange.cache.size // PEERS_PER_CUT)


def kept_late_seconds(exchange: Exchange) -> float:
    """Return for how many seconds after a cut later marks may lead to conclusions about retention at that cut.

    It is shorter than the time for which a coordinator waits for publishers of a stream before its first report.
    """
    marks = max(1, min(KEPT_LATE_MAX, int(exchange.config.stream_idle_seconds) - 2))
    return marks * _stride(exchange) * CALM_CUTS * CUT_SECONDS


class UnderWay:
    """What some messages may lead to: the least stamp, homes, and by the mark of a stream the earliest event time.

    No more homes and marks than are told, and some to show that there are more.
    """

    def __init__(self) -> None:
        self.low = _NEVER
        self.homes: set[int] = set()
        self.elements: dict[int, int] = {}

    def add(self, messages: Iterable[Message]) -> None:
        """Count messages in: their stamps all at once, for there may be very many that have a few each."""
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
    """Return stamps, or event times, before the least of which no answer is born that a message leads to."""
    match message:
        case IndexTriples():
            return as_array(message.time) & _PLAIN
        case Forward() | Answers():
            return as_array(message.rows.born) & _PLAIN
        case KeepAnswers():
            return as_array(message.born) & _PLAIN
        case IndexQuery():
            return as_array([message.refresh] if message.refresh else message.groups.since_min)
        case Offer() | Want():  # who knows what they lead to
            return _FROM_THE_FIRST
    return _NOTHING


def _forget_earliest(told: dict[int, Any]) -> None:
    """Keep no more cuts than may be of use."""
    if len(told) > _CUTS_MAX:
        del told[min(told)]


def _elements_of(marks: Iterable[ElementMark]) -> dict[int, int]:
    """Return by the mark of a stream the earliest time of an element under way anywhere."""
    times = sorted((time for mark in marks for time in as_list(mark.times)), reverse=True)
    return {hlc.stream_mark(time): time for time in times}


def _sources_of(marks: Iterable[SourceMark]) -> tuple[Source, ...]:
    """Return what publishers said anywhere; one may have said it at several peers."""
    return tuple(
        Source(stream, publisher, began, upto, opening, bool(ended))
        for mark in marks
        for stream, publisher, began, upto, opening, ended in zip(*map(as_list, _columns_of(mark)), strict=True)
    )


def _columns_of(mark: SourceMark) -> tuple[Column, ...]:
    """Return what a mark says of each publisher, in the order of a Source."""
    return mark.streams, mark.publishers, mark.began, mark.upto, mark.openings, mark.ended


def _homes(message: Message) -> set[int]:
    """Return the homes of the queries that a message under way belongs to."""
    match message:
        case Forward() | IndexQuery():
            return _group_homes(message.groups.ids)
        case Answers():
            return _group_homes(message.groups)
        case KeepAnswers():
            return {subscription_home(message.subscription)}
        case KeepWithdrawn():
            return {group_home(message.leaf)}
        case _:
            return set()


def _group_homes(groups: Column) -> set[int]:
    return set(as_list(as_array(groups) >> GROUP_BITS << GROUP_BITS))
