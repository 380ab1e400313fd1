"""What a peer tells of publications that are traced: where their triples and rows came, and what became of them.

**The idea.**  A publication has a stamp, triples keep it, and a row has the earliest and the latest stamp of its
triples.  So rows that come of a traced publication are known by a number that they have in any case: no table, row or
message has a column more, and what is not traced costs a look at whether anything is.  The stamp of a traced
publication is drawn apart (:meth:`Exchange.tick_apart`), so that no other peer has given out the same one.

**On its way** the trace goes beside: before a message with traced rows goes a :class:`Traced`, which says which stamps
belong to which trace, and in which span it was sent.  A peer that does not hear of it only tells nothing.  It takes
rows of these stamps for traced as long as ``LIVE_SECONDS``, whichever way they came.

**Spans.**  What a peer does with traced rows in one turn is a span: ``index`` (triples stored and joined), ``join``
(rows stored and joined), ``answer`` (taken in by a home), ``deliver`` (handed to the subscriber's connection),
``acknowledge``.  ``publish`` lasts until all owners have the triples; ``take`` and ``send`` are moments.  A span's
parent is the one that led to it.  Where several did, they are its ``links``: it has one parent.

**What it does not follow.**  Of three triples or more that were joined, the one that is neither the oldest nor the
youngest.  Elements of streams beyond their owners: rows have event times for stamps.  What is derived by rules.  What
repair copies, or what is joined again later.

**Bounds.**  ``LIVE_MAX`` traces at a time, of which each makes ``SPANS_MAX`` spans here at most; beyond is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from p2prdf import keys
from p2prdf.columns import Column, as_array, as_list
from p2prdf.wire.contract import Span
from p2prdf.wire.messages import SURE, WITHDRAWN, Answers, Contact, Deliver, Forward, IndexTriples, Message, Traced
from p2prdf.wire.trace_context import TraceContext

if TYPE_CHECKING:
    from p2prdf.peer.network.batches import TripleBatch
    from p2prdf.peer.network.messenger import Exchange
    from p2prdf.store.tables import Derived

__all__ = [
    "ANSWER", "DELIVER", "INDEX", "JOIN", "LIVE_MAX", "LIVE_SECONDS", "SPANS_MAX", "Traces", "Work",
    "roles_told",
]  # fmt: skip

LIVE_MAX: Final = 256
"""Traces that a peer follows at a time."""
LIVE_SECONDS: Final = 30.0
"""For how long it does."""
SPANS_MAX: Final = 64
"""Spans of one trace at one peer."""
ANSWERS_MAX: Final = 4096
"""Traced answers that are known by their identity."""
_MARKS_MAX: Final = 64
"""Traces that are told with one message."""
_LINKS_MAX: Final = 8

INDEX, JOIN, ANSWER, DELIVER = 1, 2, 3, 4
_KINDS: Final[dict[type, int]] = {IndexTriples: INDEX, Forward: JOIN, Answers: ANSWER, Deliver: DELIVER}
_PLAIN: Final = np.uint64(~(WITHDRAWN | SURE) & (1 << 64) - 1)
"""Of a time: without what it says of removals and withdrawals."""

Ints = npt.NDArray[np.uint64]


@dataclass(slots=True)
class _Trace:
    """A trace that this peer follows."""

    trace: int
    until: float
    span: int
    """The last of its spans here, or that of who told of it: the parent of what has no other."""
    left: int = SPANS_MAX
    came: dict[int, list[tuple[int, float]]] = field(default_factory=dict)
    """By kind, what has been told and is not worked off: spans that messages were sent in, and when they came."""


class Work:
    """Traced rows that are worked off together: from :meth:`Traces.work` to :meth:`end`."""

    def __init__(self, traces: Traces, name: str, found: dict[int, int], begun: dict[int, tuple[list[int], float]]):
        self._traces, self._name, self._begun = traces, name, begun
        self.found = found
        """Of each stamp how many rows."""
        self.spans = {stamp: traces.new_span() for stamp in found}
        self._before = traces.current
        self._derived: dict[int, int] = {}

    def derived(self, rows: Derived) -> None:
        """Count rows that came of it."""
        for stamp, count in self._traces.found((rows.born, rows.oldest)).items():
            self._derived[stamp] = self._derived.get(stamp, 0) + count

    def end(self, **fields: object) -> None:
        """Tell what was done."""
        for stamp, span in self.spans.items():
            parents, began = self._begun[stamp]
            more: dict[str, object] = {"rows": self.found[stamp], **fields}
            if self._name in ("index", "join"):
                more["derived"] = self._derived.get(stamp, 0)
            if parents[1:]:
                more["links"] = [f"{each:016x}" for each in parents[1:]]
            self._traces.tell(stamp, self._name, span, parents[0], began, more)
        self._traces.current = self._before


class Traces:
    """The traces that a peer follows."""

    def __init__(self, exchange: Exchange, draw: Callable[[int], int]):
        """``draw`` returns so many random bits."""
        self._exchange = exchange
        self.draw = draw
        self.current: dict[int, int] = {}
        """By stamp, the spans of the work in hand."""
        self._live: dict[int, _Trace] = {}
        self._stamps: Ints | None = None
        """Those of the live ones; None: to be made."""
        self._causes: dict[tuple[int, int, int], int] = {}
        """What led to what was gathered in this turn: by kind, the key of the peer it is for, and stamp."""
        self._answers: dict[int, tuple[int, int]] = {}
        """Stamps of answers and the last span of each, by identity: operators give answers other stamps."""
        self.begun = 0
        """Traces begun here."""
        self.refused = 0
        """Not followed: too many were."""
        self.cut = 0
        """Spans that were too many."""

    def __len__(self) -> int:
        return len(self._live)

    @property
    def active(self) -> bool:
        """Whether anything is traced at all."""
        return bool(self._live)

    def new_span(self) -> int:
        """Draw the number of a span."""
        return self.draw(64) or 1

    # --- what is traced --------------------------------------------------------------------------

    def begin(self, stamp: int, context: TraceContext | None, **fields: object) -> Callable[[], None]:
        """Follow a publication that is made here; return what is to be called when all owners have it.

        ``context``: None for a trace of its own.  Until :meth:`gathered` what is gathered is its.
        """
        if not self._room():
            self.refused += 1
            return _nothing
        context = context or TraceContext(self.draw(64) << 64 | self.new_span())
        began, span = self._exchange.now, self.new_span()
        self._live[stamp] = _Trace(context.trace, began + LIVE_SECONDS, span)
        self._stamps = None
        self.begun += 1
        self.current = {stamp: span}
        self.tell(stamp, "take", self.new_span(), span, began, {"stamp": stamp, **fields}, last=False)

        def done() -> None:
            effect = Span("publish", context.trace, span, context.parent, began, {"stamp": stamp, **fields})
            self._exchange.effects.append(effect)

        return done

    def gathered(self) -> None:
        """Note that what follows is not of the publication in hand any more."""
        self.current = {}

    def told(self, message: Traced) -> None:
        """Take in what another peer says of the message behind."""
        columns = (message.stamps, message.high, message.low, message.parents, message.answers)
        for stamp, high, low, parent, answer in zip(*map(as_list, columns), strict=True):
            trace = self._live.get(stamp)
            if trace is None:
                if not self._room():
                    self.refused += 1
                    continue
                trace = self._live[stamp] = _Trace(high << 64 | low, self._exchange.now + LIVE_SECONDS, parent)
                self._stamps = None
            elif trace.trace != high << 64 | low:
                self.refused += 1
                continue
            came = trace.came.setdefault(message.kind, [])
            if len(came) <= _LINKS_MAX and all(span != parent for span, _ in came):
                came.append((parent, self._exchange.now))
            if answer:
                self._note_answer(answer, stamp, parent)

    def _room(self) -> bool:
        self._forget()
        return len(self._live) < LIVE_MAX

    def _forget(self) -> None:
        """Forget those that have been followed for long: they are in the order of that."""
        now, live = self._exchange.now, self._live
        while live and live[stamp := next(iter(live))].until <= now:
            del live[stamp]
            self._stamps = None
        if not live:
            self._answers.clear()
            self._causes.clear()

    def _note_answer(self, identity: int, stamp: int, span: int) -> None:
        self._answers[identity & ~WITHDRAWN] = stamp, span
        if len(self._answers) > ANSWERS_MAX:
            del self._answers[next(iter(self._answers))]

    # --- which rows are --------------------------------------------------------------------------

    def found(self, times: Sequence[Column]) -> dict[int, int]:
        """Return how many rows are of each live stamp: they have it in one of the columns ``times``."""
        self._forget()
        if not self._live:
            return {}
        if self._stamps is None:
            self._stamps = np.array(list(self._live), np.uint64)
        plain = [as_array(column) & _PLAIN for column in times]
        hits: set[int] = set()
        for column in plain:
            hits.update(column[np.isin(column, self._stamps)].tolist())
        return {stamp: int(np.logical_or.reduce([column == stamp for column in plain]).sum()) for stamp in sorted(hits)}

    def of_triples(self, time: Column, stamp: int) -> dict[int, int]:
        """Return the same of triples; those of a publication of elements have its ``stamp`` beside them.

        So have those that are rolled forward; they are known by their own.
        """
        if stamp:
            self._forget()
            if stamp in self._live:
                return {stamp: len(time)}
        return self.found((time,))

    def of_batches(self, batches: Sequence[TripleBatch]) -> dict[int, int]:
        """Return the same of batches of triples."""
        found: dict[int, int] = {}
        for batch in batches:
            for stamp, rows in self.of_triples(batch.time, batch.stamp).items():
                found[stamp] = found.get(stamp, 0) + rows
        return found

    def _answered(self, identity: Column, born: Column) -> dict[int, list[int]]:
        """Return of each live stamp the answers made of it."""
        found = dict.fromkeys(self.found((born,)), 0)  # it may forget, so it comes first
        if not (found or self._answers):
            return {}
        names, times = as_array(identity) & np.uint64(WITHDRAWN - 1), as_array(born) & _PLAIN
        known = np.isin(names, np.array(list(self._answers), np.uint64))
        hits: dict[int, list[int]] = {}
        for at in np.flatnonzero(known | np.isin(times, np.array(list(found), np.uint64))).tolist():
            name, time = int(names[at]), int(times[at])
            stamp = time if time in found else self._answers[name][0]
            if stamp in self._live:
                hits.setdefault(stamp, []).append(name)
        return hits

    # --- work ------------------------------------------------------------------------------------

    def work(self, name: str, kind: int, found: dict[int, int]) -> Work | None:
        """Begin to work off rows of some stamps; None if there are none."""
        if not found:
            return None
        begun = {stamp: self._came(stamp, kind) for stamp in found}
        work = Work(self, name, found, begun)
        self.current = work.spans
        return work

    def _came(self, stamp: int, kind: int) -> tuple[list[int], float]:
        """Return what led to rows that are here now, and since when they are."""
        now, trace = self._exchange.now, self._live[stamp]
        came = trace.came.pop(kind, [])
        local = self._causes.pop((kind, self._exchange.own.key, stamp), 0)
        spans = [span for span, _ in came] + ([local] if local else [])
        return spans or [trace.span], min((since for _, since in came), default=now)

    def answers(self, identity: Column, born: Column, oldest: Column) -> Work | None:
        """Begin to take in answers at their home."""
        work = self.work("answer", ANSWER, self.found((born, oldest)))
        if work is not None:
            names = as_array(identity)
            columns = [as_array(column) & _PLAIN for column in (born, oldest)]
            for stamp in work.found:
                places = np.flatnonzero((columns[0] == stamp) | (columns[1] == stamp))
                for name in names[places[:_MARKS_MAX]].tolist():
                    self._note_answer(name, stamp, work.spans[stamp])
        return work

    def handed(self, name: str, subscription: int, identity: Column, born: Column | None = None) -> None:
        """Tell that answers were handed to their subscriber's connection, or acknowledged by it."""
        times: Column = [0] * len(identity) if born is None else born
        for stamp, names in self._answered(identity, times).items():
            known = self._answers.get(names[0])
            told = stamp in self._live and DELIVER in self._live[stamp].came
            parents, began = self._came(stamp, DELIVER)
            parent = parents[0] if told or known is None else known[1]
            span = self.new_span()
            fields: dict[str, object] = {"rows": len(names), "subscription": f"{subscription:016x}"}
            for each in names[:_MARKS_MAX]:
                self._note_answer(each, stamp, span)
            self.tell(stamp, name, span, parent, began, fields)

    def tell(
        self, stamp: int, name: str, span: int, parent: int, began: float, fields: dict[str, object],
        *, last: bool = True,
    ) -> None:  # fmt: skip
        """Tell of a span, unless this trace has had enough; ``last``: what follows here may come of it."""
        trace = self._live.get(stamp)
        if trace is None or not trace.left:
            self.cut += 1
            return
        trace.left -= 1
        if last:
            trace.span = span
        self._exchange.effects.append(Span(name, trace.trace, span, parent, began, fields))

    # --- on the way ------------------------------------------------------------------------------

    def routed(self, kind: int, to: int) -> None:
        """Note that the work in hand led to something for a peer (by its key), perhaps this one."""
        for stamp, span in self.current.items():
            self._causes.setdefault((kind, to, stamp), span)

    def later(self, again: Callable[[], None]) -> Callable[[], None]:
        """Return a call that goes on with the work in hand when it is put off."""
        if not self.current:
            return again
        current = self.current

        def resumed() -> None:
            before, self.current = self.current, current
            again()
            self.current = before

        return resumed

    def turn_over(self) -> None:
        """Forget what led to what: all that was gathered is sent."""
        self._causes.clear()

    def before(self, to: Contact, message: Message) -> Traced | None:
        """Return what is to go before a message; None if nothing in it is traced."""
        kind = _KINDS.get(type(message))
        if kind is None:
            return None
        marks: list[tuple[int, int]] = []
        match message:
            case IndexTriples():
                found = self.of_triples(message.time, message.stamp)
            case Forward() | Answers():
                found = self.found((message.rows.born, message.rows.oldest))
            case Deliver():
                answered = self._answered(message.identity, message.born)
                found = {stamp: len(names) for stamp, names in answered.items()}
                marks = [(stamp, name) for stamp, names in answered.items() for name in names]
            case _:
                return None
        spans = {stamp: self._sent(kind, to, message, stamp, rows) for stamp, rows in found.items()}
        marks = [(stamp, name) for stamp, name in marks or [(stamp, 0) for stamp in found] if spans[stamp]]
        return self._message(kind, spans, marks[:_MARKS_MAX]) if marks else None

    def _sent(self, kind: int, to: Contact, message: Message, stamp: int, rows: int) -> int:
        """Tell that rows are sent; return the span, or 0: this trace has had enough."""
        if not self._live[stamp].left:
            self.cut += 1
            return 0
        span = self.new_span()
        parent = self._causes.get((kind, to.key, stamp)) or self.current.get(stamp) or self._live[stamp].span
        fields: dict[str, object] = {"rows": rows, "what": type(message).__name__, "to": f"{to.key:016x}"}
        self.tell(stamp, "send", span, parent, self._exchange.now, fields, last=False)
        return span

    def _message(self, kind: int, spans: dict[int, int], marks: list[tuple[int, int]]) -> Traced:
        make, traces = self._exchange.columns.column, [self._live[stamp].trace for stamp, _ in marks]
        return Traced(
            kind, make(stamp for stamp, _ in marks), make(trace >> 64 for trace in traces),
            make(trace & (1 << 64) - 1 for trace in traces), make(spans[stamp] for stamp, _ in marks),
            make(name for _, name in marks),
        )  # fmt: skip

    def status(self) -> dict[str, int]:
        """Return counts for people and monitoring."""
        return {
            "traces_followed": len(self._live), "traces_begun": self.begun, "traces_refused": self.refused,
            "spans_cut": self.cut,
        }  # fmt: skip


def roles_told(bits: int) -> str:
    """Return the names of the roles that triples are indexed under here."""
    return keys.role_name(bits & (1 << keys.MARK_SHIFT) - 1)


def _nothing() -> None:
    """What is not traced is done."""
