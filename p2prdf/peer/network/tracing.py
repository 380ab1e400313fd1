"""The spans of traced publications: the origin of their triples and rows, and the work of each peer.

Triples carry the stamp of their publication, and a row carries the earliest and latest stamp of its triples.  These
stamps identify the rows of a trace, so no table or message needs another column.  A traced publication draws its stamp
at random (:meth:`Messenger.tick_apart`), so that no other peer issues it too.

A :class:`Traced` message precedes a message with traced rows: it maps stamps to traces and names the sending span.  A
peer that misses it reports no spans.

Spans: ``index``, ``join``, ``answer`` (at the coordinator), ``deliver``, ``acknowledge``, ``publish`` (until all owners
have the triples), and the moments ``take`` and ``send``.  A span has one parent; further causes are ``links``.

Not traced: of three or more joined triples, those neither oldest nor latest; stream elements beyond their owners;
derived facts; anti-entropy; recomputation.

Bounds: ``LIVE_MAX`` traces, ``SPANS_MAX`` spans of each.  Reference: docs/how-to/trace-a-publication.md.
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
    from p2prdf.peer.network.messenger import Messenger
    from p2prdf.store.tables import Derived

__all__ = [
    "ANSWER", "DELIVER", "INDEX", "JOIN", "LIVE_MAX", "LIVE_SECONDS", "SPANS_MAX", "Traces", "Work",
    "roles_told",
]  # fmt: skip

LIVE_MAX: Final = 256
"""Number of traces that a peer follows at a time."""
LIVE_SECONDS: Final = 30.0
"""How many seconds a peer follows a trace."""
SPANS_MAX: Final = 64
"""Bound on the spans of one trace at one peer."""
ANSWERS_MAX: Final = 4096
"""Bound on the traced solutions that a peer recognises by identity."""
_MARKS_MAX: Final = 64
"""Bound on the traces in one message."""
_LINKS_MAX: Final = 8

INDEX, JOIN, ANSWER, DELIVER = 1, 2, 3, 4
_KINDS: Final[dict[type, int]] = {IndexTriples: INDEX, Forward: JOIN, Answers: ANSWER, Deliver: DELIVER}
_PLAIN: Final = np.uint64(~(WITHDRAWN | SURE) & (1 << 64) - 1)
"""Masks the flags of deletion and retraction in a time."""

Ints = npt.NDArray[np.uint64]


@dataclass(slots=True)
class _Trace:
    """A trace that this peer follows."""

    trace: int
    until: float
    span: int
    """Its last span here, or the span of the peer that reported it: the default parent."""
    left: int = SPANS_MAX
    came: dict[int, list[tuple[int, float]]] = field(default_factory=dict)
    """By kind of message: the spans of unprocessed messages and their times of arrival."""


class Work:
    """Traced rows that are processed together, from :meth:`Traces.work` to :meth:`end`."""

    def __init__(self, traces: Traces, name: str, found: dict[int, int], begun: dict[int, tuple[list[int], float]]):
        self._traces, self._name, self._begun = traces, name, begun
        self.found = found
        """Number of rows by stamp."""
        self.spans = {stamp: traces.new_span() for stamp in found}
        self._before = traces.current
        self._derived: dict[int, int] = {}

    def derived(self, rows: Derived) -> None:
        """Count rows that result from this work."""
        for stamp, count in self._traces.found((rows.born, rows.oldest)).items():
            self._derived[stamp] = self._derived.get(stamp, 0) + count

    def end(self, **fields: object) -> None:
        """Emit the spans."""
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

    def __init__(self, messenger: Messenger, draw: Callable[[int], int]):
        """``draw`` returns the given number of random bits."""
        self._messenger = messenger
        self.draw = draw
        self.current: dict[int, int] = {}
        """By stamp, the span of the current work."""
        self.live: dict[int, _Trace] = {}
        """The traces that are followed now."""
        self._stamps: Ints | None = None
        """The stamps of live traces; None: to be computed."""
        self._causes: dict[tuple[int, int, int], int] = {}
        """The spans that caused the messages of this turn, by kind, key of the receiver, and stamp."""
        self._answers: dict[int, tuple[int, int]] = {}
        """Stamp and last span of solutions, by identity: operators give solutions other stamps."""
        self.begun = 0
        """Traces begun here."""
        self.refused = 0
        """Traces not followed because of the bound."""
        self.cut = 0
        """Spans not emitted because of the bound."""

    def __len__(self) -> int:
        return len(self.live)

    def new_span(self) -> int:
        """Draw the number of a span."""
        return self.draw(64) or 1

    # --- traces ----------------------------------------------------------------------------------

    def begin(self, stamp: int, context: TraceContext | None, **fields: object) -> Callable[[], None]:
        """Follow a publication made here; return the call for the time when all owners have it.

        ``context``: None for a new trace.  Messages buffered until :meth:`gathered` belong to the publication.
        """
        if not self._room():
            self.refused += 1
            return _nothing
        context = context or TraceContext(self.draw(64) << 64 | self.new_span())
        began, span = self._messenger.now, self.new_span()
        self.live[stamp] = _Trace(context.trace, began + LIVE_SECONDS, span)
        self._stamps = None
        self.begun += 1
        self.current = {stamp: span}
        self.tell(stamp, "take", self.new_span(), span, began, {"stamp": stamp, **fields}, last=False)

        def done() -> None:
            effect = Span("publish", context.trace, span, context.parent, began, {"stamp": stamp, **fields})
            self._messenger.effects.append(effect)

        return done

    def gathered(self) -> None:
        """End the assignment of buffered messages to the current publication."""
        self.current = {}

    def told(self, message: Traced) -> None:
        """Handle another peer's report about the message that follows."""
        columns = (message.stamps, message.high, message.low, message.parents, message.answers)
        for stamp, high, low, parent, answer in zip(*map(as_list, columns), strict=True):
            trace = self.live.get(stamp)
            if trace is None:
                if not self._room():
                    self.refused += 1
                    continue
                trace = self.live[stamp] = _Trace(high << 64 | low, self._messenger.now + LIVE_SECONDS, parent)
                self._stamps = None
            elif trace.trace != high << 64 | low:
                self.refused += 1
                continue
            came = trace.came.setdefault(message.kind, [])
            if len(came) <= _LINKS_MAX and all(span != parent for span, _ in came):
                came.append((parent, self._messenger.now))
            if answer:
                self._note_answer(answer, stamp, parent)

    def _room(self) -> bool:
        self._forget()
        return len(self.live) < LIVE_MAX

    def _forget(self) -> None:
        """Forget expired traces; the oldest comes first."""
        now, live = self._messenger.now, self.live
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

    # --- traced rows -----------------------------------------------------------------------------

    def found(self, times: Sequence[Column]) -> dict[int, int]:
        """Return the number of rows per live stamp, which is in one of the columns ``times``."""
        self._forget()
        if not self.live:
            return {}
        if self._stamps is None:
            self._stamps = np.array(list(self.live), np.uint64)
        plain = [as_array(column) & _PLAIN for column in times]
        hits: set[int] = set()
        for column in plain:
            hits.update(column[np.isin(column, self._stamps)].tolist())
        return {stamp: int(np.logical_or.reduce([column == stamp for column in plain]).sum()) for stamp in sorted(hits)}

    def of_triples(self, time: Column, stamp: int) -> dict[int, int]:
        """Return the number of triples per live stamp.

        Elements of streams have event times, so their publication's ``stamp`` stands beside them.  Redelivered triples
        have such a stamp too, and are found by their own.
        """
        if stamp:
            self._forget()
            if stamp in self.live:
                return {stamp: len(time)}
        return self.found((time,))

    def of_batches(self, batches: Sequence[TripleBatch]) -> dict[int, int]:
        """Return the number of triples per live stamp in some batches."""
        found: dict[int, int] = {}
        for batch in batches:
            for stamp, rows in self.of_triples(batch.time, batch.stamp).items():
                found[stamp] = found.get(stamp, 0) + rows
        return found

    def _answered(self, identity: Column, born: Column) -> dict[int, list[int]]:
        """Return the identities of solutions by live stamp."""
        found = dict.fromkeys(self.found((born,)), 0)  # first, because this call may forget traces
        if not (found or self._answers):
            return {}
        names, times = as_array(identity) & np.uint64(WITHDRAWN - 1), as_array(born) & _PLAIN
        known = np.isin(names, np.array(list(self._answers), np.uint64))
        hits: dict[int, list[int]] = {}
        for at in np.flatnonzero(known | np.isin(times, np.array(list(found), np.uint64))).tolist():
            name, time = int(names[at]), int(times[at])
            stamp = time if time in found else self._answers[name][0]
            if stamp in self.live:
                hits.setdefault(stamp, []).append(name)
        return hits

    # --- work ------------------------------------------------------------------------------------

    def work(self, name: str, kind: int, found: dict[int, int]) -> Work | None:
        """Begin the processing of rows with some stamps; None if there are none."""
        if not found:
            return None
        begun = {stamp: self._came(stamp, kind) for stamp in found}
        work = Work(self, name, found, begun)
        self.current = work.spans
        return work

    def _came(self, stamp: int, kind: int) -> tuple[list[int], float]:
        """Return the spans that caused rows present now, and the time of their arrival."""
        now, trace = self._messenger.now, self.live[stamp]
        came = trace.came.pop(kind, [])
        local = self._causes.pop((kind, self._messenger.own.key, stamp), 0)
        spans = [span for span, _ in came] + ([local] if local else [])
        return spans or [trace.span], min((since for _, since in came), default=now)

    def answers(self, identity: Column, born: Column, oldest: Column) -> Work | None:
        """Begin the processing of solutions at their coordinator."""
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
        """Emit spans of solutions that were passed to the subscriber's connection, or acknowledged by it."""
        times: Column = [0] * len(identity) if born is None else born
        for stamp, names in self._answered(identity, times).items():
            known = self._answers.get(names[0])
            told = stamp in self.live and DELIVER in self.live[stamp].came
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
        """Emit a span within the bound; ``last``: it may cause later spans here."""
        trace = self.live.get(stamp)
        if trace is None or not trace.left:
            self.cut += 1
            return
        trace.left -= 1
        if last:
            trace.span = span
        self._messenger.effects.append(Span(name, trace.trace, span, parent, began, fields))

    # --- messages --------------------------------------------------------------------------------

    def routed(self, kind: int, to: int) -> None:
        """Note that the current work caused a message to a peer (by its key), perhaps this one."""
        for stamp, span in self.current.items():
            self._causes.setdefault((kind, to, stamp), span)

    def later(self, again: Callable[[], None]) -> Callable[[], None]:
        """Return a call that resumes the current work after a delay."""
        if not self.current:
            return again
        current = self.current

        def resumed() -> None:
            before, self.current = self.current, current
            again()
            self.current = before

        return resumed

    def turn_over(self) -> None:
        """Forget the causes of the turn: all messages are sent."""
        self._causes.clear()

    def before(self, to: Contact, message: Message) -> Traced | None:
        """Return the message that must precede a traced message; None for an untraced one."""
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
        """Emit the span of a sent message; return it, or 0 beyond the bound."""
        if not self.live[stamp].left:
            self.cut += 1
            return 0
        span = self.new_span()
        parent = self._causes.get((kind, to.key, stamp)) or self.current.get(stamp) or self.live[stamp].span
        fields: dict[str, object] = {"rows": rows, "what": type(message).__name__, "to": f"{to.key:016x}"}
        self.tell(stamp, "send", span, parent, self._messenger.now, fields, last=False)
        return span

    def _message(self, kind: int, spans: dict[int, int], marks: list[tuple[int, int]]) -> Traced:
        make, traces = self._messenger.columns.column, [self.live[stamp].trace for stamp, _ in marks]
        return Traced(
            kind, make(stamp for stamp, _ in marks), make(trace >> 64 for trace in traces),
            make(trace & (1 << 64) - 1 for trace in traces), make(spans[stamp] for stamp, _ in marks),
            make(name for _, name in marks),
        )  # fmt: skip

    def status(self) -> dict[str, int]:
        """Return counters for monitoring."""
        return {
            "traces_active": len(self.live), "traces_started": self.begun, "traces_refused": self.refused,
            "spans_dropped": self.cut,
        }  # fmt: skip


def roles_told(bits: int) -> str:
    """Return the names of the indexes under which triples are stored here."""
    return keys.role_name(bits & (1 << keys.MARK_SHIFT) - 1)


def _nothing() -> None:
    """Do nothing: the completion call of an untraced publication."""
