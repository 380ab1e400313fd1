"""Read REGISTER, windows on streams and report intervals from the symbols of a query.

Two dialects are supported, RSP-QL [1] and C-SPARQL [2]::

    REGISTER RSTREAM <name> AS                      REGISTER QUERY name COMPUTED EVERY 1s AS
    SELECT ... FROM NAMED WINDOW <w> ON <stream>    SELECT ... FROM STREAM <stream> [RANGE 10s STEP 1s]
      [RANGE PT10S STEP PT1S]                       WHERE { ... }
    WHERE { WINDOW <w> { ... } ... }

In C-SPARQL, patterns without a block of their own match the merge of all streams and of the graphs that FROM names.
In both, FROM precedes the patterns, so a window is known when its block is read.  Neither has a syntax for landmark
windows; that of SNEEql, ``[FROM instant TO NOW STEP duration]``, is used.  A window by count is ``[TRIPLES count STEP
count]``; the keywords of other dialects for it are synonyms here, and RANGE may precede them.

[1] D. Dell'Aglio, J.-P. Calbimonte, E. Della Valle, O. Corcho: Towards a Unified Language for RDF Stream Query
    Processing (ESWC 2015 Satellite Events).
[2] D. F. Barbieri, D. Braga, S. Ceri, E. Della Valle, M. Grossniklaus: Querying RDF Streams with C-SPARQL (SIGMOD
    Record 39(1), 2010).
"""

from __future__ import annotations

import dataclasses
import math
import re
from decimal import Decimal
from typing import Final

from p2prdf.rdf import terms
from p2prdf.rdf.algebra import (
    LANDMARK_MS_MAX,
    WINDOW_ELEMENTS_MAX,
    WINDOW_MS_MAX,
    CountWindow,
    Form,
    Reported,
    Window,
)
from p2prdf.rdf.moments import parse_duration, parse_moment
from p2prdf.rdf.standing.cursor import Cursor
from p2prdf.rdf.standing.syntax import Continuous, Dataset, StreamWindow, WindowMerge
from p2prdf.rdf.terms import XSD
from p2prdf.rdf.tokens import Symbol

__all__ = ["WindowReader"]

_STREAMS: Final = {"RSTREAM": Reported.RSTREAM, "ISTREAM": Reported.ISTREAM, "DSTREAM": Reported.DSTREAM}
_BY_COUNT: Final = ("TRIPLES", "ELEMENTS", "ELEMENT", "ITEMS", "ITEM", "ROWS")
_UNITS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
"""Milliseconds of each unit in C-SPARQL's abbreviations."""
_DURATION: Final = re.compile(r"(?P<iso>P[A-Z0-9.]*+)|(?P<count>[0-9]++(?:\.[0-9]++)?)[ \t\r\n]*+(?P<unit>[A-Za-z]*+)")
_DURATION_CHARACTERS_MAX: Final = 40
_SHOWN_AS: Final = "a duration is written as PT10S, P1DT2H, 500ms, 10s, 1m, 2h or 1d"


@dataclasses.dataclass(slots=True)
class _Registration:
    """REGISTER: its position, whether it declares a stream, and its interval in milliseconds."""

    at: int
    streams: bool
    every: int | None


class WindowReader:
    """Reads the clauses about streams, and holds the declared windows by name."""

    def __init__(self, cursor: Cursor):
        self._cursor = cursor
        self._windows: dict[str, StreamWindow] = {}
        self._used: set[str] = set()
        self._registration: _Registration | None = None
        self._reported: tuple[Reported, Symbol] | None = None
        self._with: str | None = None
        self._default: dict[str, None] = {}
        self._named: dict[str, None] = {}

    # --- before the form ---------------------------------------------------------------------

    def registration(self) -> None:
        """Read ``REGISTER ... AS``, if present."""
        cursor = self._cursor
        if not cursor.sees_word("REGISTER"):
            return
        at = cursor.next().at
        kind = cursor.next()
        if kind.is_word(*_STREAMS):
            self._set_reported(kind)
        elif not kind.is_word("STREAM", "QUERY"):
            raise cursor.misplaced(kind)
        name = cursor.next()
        if name.is_word("AS"):
            raise cursor.refusal(name.at, "REGISTER", "a name must precede AS")
        if name.kind not in ("iri", "word"):
            raise cursor.misplaced(name)
        every = None
        if cursor.sees_word("COMPUTE", "COMPUTED"):
            cursor.next()
            cursor.expect_word("EVERY")
            every = self._duration("COMPUTE EVERY")
        cursor.expect_word("AS")
        self._registration = _Registration(at, kind.is_word("STREAM"), every)

    def report_kind(self) -> None:
        """Read RSTREAM, ISTREAM or DSTREAM, which may follow the keyword of the form."""
        if self._cursor.sees_word(*_STREAMS):
            self._set_reported(self._cursor.next())

    def _set_reported(self, symbol: Symbol) -> None:
        if self._reported is not None:
            reason = f"the contents of reports are set already, by {self._reported[1].value.upper()}"
            raise self._cursor.refusal(symbol.at, symbol.value.upper(), reason)
        self._reported = _STREAMS[symbol.value.upper()], symbol

    # --- between form and pattern ------------------------------------------------------------

    def sources(self) -> None:
        """Read all FROM clauses: those of streams, and those of plain SPARQL for graphs."""
        cursor = self._cursor
        while cursor.sees_word("FROM"):
            begins = cursor.next()
            named = cursor.take_word("NAMED")
            if named and cursor.take_word("WINDOW"):
                name = self._iri()
                extent = self._extent("") if cursor.sees_mark("[") else None  # as the first drafts of RSP-QL had it
                cursor.expect_word("ON")
                cursor.take_word("STREAM")
                self._declare(name, self._iri().value, "FROM NAMED WINDOW", begins.at, extent)
            elif cursor.take_word("STREAM"):
                name = self._iri()
                self._declare(name, name.value, "FROM NAMED STREAM" if named else "FROM STREAM", begins.at)
            else:
                graph = cursor.next()
                if graph.kind != "iri":
                    raise cursor.misplaced(graph)
                if self._with is not None:
                    raise cursor.refusal(begins.at, "FROM", "WITH chooses the default graph already: use one of both")
                (self._named if named else self._default)[graph.value] = None

    def default_graph(self) -> None:
        """Read ``WITH <graph>`` before the form: the default graph, beside all named graphs."""
        if self._cursor.take_word("WITH"):
            graph = self._cursor.next()
            if graph.kind != "iri":
                raise self._cursor.misplaced(graph)
            self._with = graph.value

    @property
    def dataset(self) -> Dataset | None:
        """The graphs that the query chooses, after its clauses were read; None: the default graph and all others."""
        if self._with is not None:
            return Dataset((self._with,), None)
        return Dataset(tuple(self._default), tuple(self._named)) if self._default or self._named else None

    def _iri(self) -> Symbol:
        symbol = self._cursor.next()
        if symbol.kind == "var":
            reason = f"?{symbol.value} is a variable; windows and streams are named by IRIs"
            raise self._cursor.refusal(symbol.at, "WINDOW", reason)
        if symbol.kind != "iri":
            raise self._cursor.misplaced(symbol)
        return symbol

    def _declare(
        self, name: Symbol, stream: str, declared: str, at: int, extent: Window | CountWindow | None = None
    ) -> None:
        if name.value in self._windows:
            reason = f"a window {name.value} is declared already"
            if declared != "FROM NAMED WINDOW":
                reason += "; FROM NAMED WINDOW gives each of several windows on one stream a name"
            raise self._cursor.refusal(name.at, declared, reason)
        found = self._extent(stream) if extent is None else extent
        if isinstance(found, CountWindow):
            found = dataclasses.replace(found, stream=stream)
        self._windows[name.value] = StreamWindow(name.value, stream, found, declared, at)

    # --- extents -----------------------------------------------------------------------------

    def _extent(self, stream: str) -> Window | CountWindow:
        """Read ``[ ... ]``."""
        cursor = self._cursor
        cursor.expect_mark("[")
        first = cursor.next()
        found: Window | CountWindow
        if first.is_word(*_BY_COUNT):
            found = self._by_count(stream)
        elif first.is_word("FROM"):
            found = self._landmark(first)
        elif first.is_word("RANGE") and cursor.sees_word(*_BY_COUNT):
            cursor.next()  # [RANGE TRIPLES 10] of C-SPARQL
            found = self._by_count(stream)
        elif first.is_word("RANGE"):
            length = step = self._duration("RANGE")
            if self._sees_step():
                step = self._duration("STEP")
            found = Window(length, step)
        else:
            raise cursor.misplaced(first)
        cursor.expect_mark("]")
        return found

    def _sees_step(self) -> bool:
        """Read TUMBLING, or the word before a step; tell whether a step follows."""
        cursor = self._cursor
        if cursor.take_mark(",") and not cursor.sees_word("STEP", "SLIDE"):
            raise cursor.misplaced(cursor.next())
        return not cursor.take_word("TUMBLING") and (cursor.take_word("STEP") or cursor.take_word("SLIDE"))

    def _by_count(self, stream: str) -> CountWindow:
        """Read the numbers after TRIPLES or a synonym; without STEP, windows are tumbling."""
        elements = step = self._count()
        if self._sees_step():
            step = self._count()
        return CountWindow(elements, step, stream)

    def _count(self) -> int:
        """Read a number of elements."""
        symbol = self._cursor.next()
        lexical, datatype, _ = terms.literal_parts(symbol.value) if symbol.kind == "literal" else ("", "", None)
        if datatype != XSD + "integer" or not lexical.isdecimal() or symbol.signed:
            reason = f"{symbol.value:.60} is no number of elements"
            raise self._cursor.refusal(symbol.at, "window by count", reason)
        number = int(lexical) if len(lexical) <= len(str(WINDOW_ELEMENTS_MAX)) else WINDOW_ELEMENTS_MAX + 1
        if not 1 <= number <= WINDOW_ELEMENTS_MAX:
            reason = f"a window and its step have at least one element and at most {WINDOW_ELEMENTS_MAX:,}"
            raise self._cursor.refusal(symbol.at, "window by count", reason)
        return number

    def _landmark(self, first: Symbol) -> Window:
        cursor = self._cursor
        if cursor.sees_word("NOW"):
            reason = "write [RANGE duration STEP duration] for a start before now; no window ends before now"
            raise cursor.refusal(first.at, "window FROM NOW", reason)
        start = self._instant()
        if cursor.take_word("TO") and not cursor.take_word("NOW"):
            raise cursor.refusal(first.at, "window FROM", "it can end TO NOW only")
        if not cursor.take_word("STEP"):
            raise cursor.refusal(first.at, "window FROM", "a landmark window needs a STEP, its interval")
        return Window(None, self._duration("STEP"), start)

    def _instant(self) -> int:
        """Read an xsd:dateTime; return it in milliseconds since 1970."""
        cursor = self._cursor
        symbol = cursor.next()
        if symbol.kind != "literal":
            raise cursor.misplaced(symbol)
        lexical, datatype, _ = terms.literal_parts(symbol.value)
        moment = parse_moment(lexical, "dateTime") if datatype == XSD + "dateTime" else None
        if moment is None or moment.zone is None:
            reason = f"{symbol.value:.60} is no xsd:dateTime with a time zone"
            raise cursor.refusal(symbol.at, "window FROM", reason)
        milliseconds = moment.seconds * 1000
        if not 0 <= milliseconds <= LANDMARK_MS_MAX or milliseconds != int(milliseconds):
            reason = f"{lexical:.60} is not a whole number of milliseconds from 1970 to 9999"
            raise cursor.refusal(symbol.at, "window FROM", reason)
        return int(milliseconds)

    def _duration(self, construct: str) -> int:
        """Read a duration; return it in milliseconds."""
        cursor = self._cursor
        symbol = cursor.next()
        at = symbol.at
        milliseconds = self._literal(symbol) if symbol.kind == "literal" and cursor.text[at] in "\"'" else None
        if milliseconds is None:
            match = _DURATION.match(cursor.text, at)
            if match is None or match.end() - at > _DURATION_CHARACTERS_MAX:
                raise cursor.refusal(at, construct, _SHOWN_AS)
            while (following := cursor.peek()) is not None and following.at < match.end():
                cursor.next()
            milliseconds = _days_to_seconds(match["iso"]) if match["iso"] else _with_unit(match["count"], match["unit"])
        if milliseconds is None:
            raise cursor.refusal(at, construct, f"{_SHOWN_AS}; months and years have no fixed length")
        if milliseconds != int(milliseconds) or not 1 <= milliseconds <= WINDOW_MS_MAX:
            reason = "a duration is a whole number of milliseconds, at least one and at most a year (366 days)"
            raise cursor.refusal(at, construct, reason)
        return int(milliseconds)

    def _literal(self, symbol: Symbol) -> Decimal | None:
        lexical, datatype, _ = terms.literal_parts(symbol.value)
        known = datatype in (XSD + "dayTimeDuration", XSD + "duration") and len(lexical) <= _DURATION_CHARACTERS_MAX
        return _days_to_seconds(lexical) if known else None

    # --- in the pattern ----------------------------------------------------------------------

    def each(self, word: Symbol) -> tuple[StreamWindow, ...]:
        """Return all declared windows, for a variable after WINDOW or STREAM."""
        if not self._windows:
            reason = "no window is declared, as by FROM NAMED WINDOW <name> ON <stream> [RANGE 10s STEP 1s]"
            raise self._cursor.refusal(word.at, word.value.upper(), reason)
        self._used.update(self._windows)
        return tuple(self._windows.values())

    def named(self, word: Symbol) -> StreamWindow:
        """Read the name after WINDOW or STREAM, and return its window."""
        name = self._iri()
        found = self._windows.get(name.value)
        if found is None:
            reason = f"{name.value} is not declared, as by FROM NAMED WINDOW <name> ON <stream> [RANGE 10s STEP 1s]"
            raise self._cursor.refusal(name.at, word.value.upper(), reason)
        self._used.add(name.value)
        return found

    def stream_as_graph(self, name: str) -> StreamWindow | None:
        """Return the window on a stream that ``GRAPH`` means in C-SPARQL; None if it means a graph."""
        found = self._windows.get(name)
        if found is None or found.declared == "FROM NAMED WINDOW":
            return None
        self._used.add(name)
        return found

    # --- the whole query ---------------------------------------------------------------------

    def continuous(self, form: Form) -> Continuous | None:
        """Return the requested reports, after the whole text was read; None if it has no windows."""
        registration = self._registration
        if not self._windows:
            self._refuse_reports()
            return None
        reported, at = Reported.CHANGES, 0
        if self._reported is not None:
            reported, at = self._reported[0], self._reported[1].at
            self._check_reported(form, self._reported[1])
        elif form is Form.SELECT and registration is not None and registration.streams and self._of_streams():
            reported, at = Reported.RSTREAM, registration.at  # a registered stream of C-SPARQL
        about_all = self._about_all()
        return Continuous(reported, at, self._every(), about_all)

    def _every(self) -> int:
        """Return the milliseconds between reports; 0: a window by count triggers them.

        A window by count must be the only window: its reports occur at elements, and no time window could be made to
        end there.
        """
        every = None if self._registration is None else self._registration.every
        steps = []
        for declared in self._windows.values():
            if isinstance(declared.window, Window):
                steps.append(declared.window.step)
            elif len(self._windows) > 1:
                reason = "a window by count must be the only window of its query: its elements trigger reports"
                raise self._cursor.refusal(declared.at, declared.declared, reason)
            elif every is not None:
                assert self._registration is not None
                reason = "a window by count reports at its elements: set their number with STEP"
                raise self._cursor.refusal(self._registration.at, "COMPUTE EVERY", reason)
        return 0 if not steps else math.gcd(*steps) if every is None else every

    def _refuse_reports(self) -> None:
        """Refuse clauses about reports in a query without windows."""
        reason = "the query has no window, so it has no reports"
        if self._registration is not None:
            raise self._cursor.refusal(self._registration.at, "REGISTER", reason)
        if self._reported is not None:
            raise self._cursor.refusal(self._reported[1].at, self._reported[1].value.upper(), reason)

    def _check_reported(self, form: Form, word: Symbol) -> None:
        if form is not Form.SELECT:
            reason = f"{form.name} has no column for the time of a report; leave the word out to get changes"
            raise self._cursor.refusal(word.at, f"{word.value.upper()} of {form.name}", reason)

    def _of_streams(self) -> bool:
        return any(each.declared != "FROM NAMED WINDOW" for each in self._windows.values())

    def _about_all(self) -> StreamWindow | WindowMerge | None:
        """Return the window, or merge of windows, of all patterns outside the blocks of windows and graphs.

        C-SPARQL does not separate patterns on streams from others: without blocks, all patterns match the merge of
        all windows and of the graphs that FROM names.  With a block, the patterns outside of blocks are static.
        """
        unused = [each for name, each in self._windows.items() if name not in self._used]
        if not unused:
            return None
        first = unused[0]
        plain = all(each.declared == "FROM STREAM" for each in unused)
        if not self._used and (plain or len(unused) == 1) and first.declared != "FROM NAMED STREAM":
            return first if len(unused) == 1 and not self._default else WindowMerge(tuple(unused))
        if first.declared == "FROM STREAM":
            reason = f"name its patterns as those of the others: write STREAM {first.name} {{ patterns }}"
        else:
            word = first.declared.rpartition(" ")[2]
            reason = f"no {word} {first.name} {{ patterns }} uses it"
        raise self._cursor.refusal(first.at, first.declared, reason)


def _days_to_seconds(lexical: str) -> Decimal | None:
    """Return a duration of days to seconds in milliseconds; None if it is invalid."""
    found = parse_duration(lexical, "dayTimeDuration")
    return None if found is None else found.seconds * 1000


def _with_unit(count: str, unit: str) -> Decimal | None:
    length = _UNITS.get(unit.lower())
    return None if length is None else Decimal(count) * length
