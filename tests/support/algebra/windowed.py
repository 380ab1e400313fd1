"""Random queries with windows over random streams, compared with another engine at every report.

Leaves are answered by hand here: a leaf on a window lists all choices of elements once, each with the times of
its oldest and youngest element. At a report, a choice counts if its oldest element is in the window and its
youngest is not after the window's end.  So the comparison covers the translation of the text to operators, and
the semantics of the operators: from choices of elements, of which a triple has as many as it has elements, they
must make the answer that SPARQL gives for sets of triples.

The elements of a window by count come in an order drawn at random, as the watermark goes on: there the
comparison also covers the choice of the elements in the window at each report.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from quads_as_triples import as_triples
from windows_oracle import CountExtent, Element, Extent, Rows, WindowsOracle

from algebra.compare import same_values
from algebra.leaves import Terms, answers, choices
from algebra.queries import (
    DEPTH,
    NODES,
    NUMBER,
    NUMBERS,
    PREDICATES,
    STRINGS,
    TEXT,
    QueryWriter,
    draw_statements,
    for_engine,
    for_us,
)
from algebra.queries import GRAPHS as STATIC_GRAPHS
from p2prdf.continuous.counts import CountQueue
from p2prdf.continuous.dataflow import Dataflow
from p2prdf.errors import QueryRefused
from p2prdf.rdf.algebra import Counted, Leaf, StandingQuery, Window, Windowed
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.rdf.quads import DEFAULT, streamed
from p2prdf.rdf.standing import form
from p2prdf.rdf.standing.query import parse_query

STREAMS = ("<urn:s>", "<urn:t>")
NAMES = ("<urn:w>", "<urn:v>")
SECONDS = 12
"""Seconds during which elements come."""
_NAMED = re.compile(r"WINDOW (<[^>]*>)")
_NO_STEP = re.compile(r"[>)][*?]")


class WindowWriter(QueryWriter):
    """Writes queries with patterns on windows.

    ``dense``: all nodes are in all windows at all times.  Otherwise there are no paths that may have no step:
    the engine knows none from a constant that is no node.
    """

    def __init__(self, rng: random.Random, *, dense: bool, names: Sequence[str] = NAMES):
        super().__init__(rng)
        self._dense = dense
        self._names = names
        self._place = ""
        """The keyword of the innermost open braces."""
        self._deepest = DEPTH

    def query(self) -> str:
        """Return a query that is about one window at least, without its declaration."""
        while True:
            self._place = ""
            self._deepest = self._rng.choice((1, 1, 2, DEPTH))  # deep nesting seldom has answers
            text = super().query()
            if _NAMED.search(text):
                return text

    def _group(self, depth: int) -> tuple[list[str], str]:
        return super()._group(min(depth, self._deepest))

    def _part(self, names: dict[str, bool], depth: int) -> str:
        if not self._place and self._one_in(2):
            return self._in_graph(names, depth)
        return super()._part(names, depth)

    def _in_graph(self, names: dict[str, bool], depth: int) -> str:
        if self._place:
            return self._nested("", names, depth)
        if self._one_in(5):
            self._place = "GRAPH"
            while True:
                found = dict(names)
                text = super()._in_graph(found, depth)
                if not text.startswith("GRAPH ?"):  # to the engine windows would be among them
                    break
            names.update(found)
        else:
            self._place = "WINDOW"
            text = self._nested(f"WINDOW {self._rng.choice(self._names)} ", names, depth)
        self._place = ""
        return text

    def _inside(self, names: list[str], depth: int) -> str:
        if self._place or not self._one_in(2):
            return super()._inside(names, depth)
        self._place = "WINDOW"
        text = super()._inside(names, depth)
        self._place = ""
        return f"{{ WINDOW {self._rng.choice(self._names)} {text} }}"

    def _triples(self, names: dict[str, bool]) -> str:
        while True:
            found = dict(names)
            text = super()._triples(found)
            if self._place != "WINDOW" or all(part.split()[1][0] != "?" for part in text.split(" .") if part):
                names.update(found)
                return text

    def _path(self, names: dict[str, bool]) -> str:
        while True:
            found = dict(names)
            text = super()._path(found)
            if self._place != "WINDOW" or ("!" not in text and (self._dense or not _NO_STEP.search(text))):
                names.update(found)
                return text


# --- data ----------------------------------------------------------------------------------------


def draw_elements(rng: random.Random, *, dense: bool) -> list[Element]:
    """Return elements of all streams in a random order; some repeat a triple, at another time or the same."""
    found: list[Element] = []
    for _ in range(rng.choice((20, 40, 60))):
        p = rng.choice((*PREDICATES, *PREDICATES, NUMBER, TEXT))
        objects = {NUMBER: NUMBERS, TEXT: STRINGS}.get(p, (*NODES, *NODES, *NODES, *NUMBERS[:2]))
        time = rng.randrange(2 * SECONDS) * 500 + rng.choice((0, 0, 1, 499))
        element = Element(time, rng.choice((*STREAMS, STREAMS[0])), (rng.choice(NODES), p, rng.choice(objects)))
        found += [element] * rng.choice((1, 1, 1, 2))
        if rng.random() < 0.4:
            found.append(Element(time + rng.choice((1, 500, 1000, 2500)), element.stream, element.triple))
    if dense:
        always = [(stream, (node, "<urn:always>", node)) for node in NODES for stream in STREAMS]
        found += [Element(1000 * second, *each) for second in range(2 * SECONDS) for each in always]
    rng.shuffle(found)
    return found


def draw_extent(rng: random.Random, *, dense: bool) -> Extent:
    """Return a window on one of the streams."""
    unit = 1000 if dense else 500
    step, stream = unit * rng.choice((1, 1, 2, 3)), rng.choice((*STREAMS, STREAMS[0]))
    if rng.random() < 0.15:
        return Extent(stream, None, step, 0 if dense else rng.choice((0, 3000, 5500)))
    return Extent(stream, unit * rng.choice((1, 3, 5, 8, 12)), step)


def draw_count(rng: random.Random) -> CountExtent:
    """Return a window by count on one of the streams."""
    return CountExtent(rng.choice((*STREAMS, STREAMS[0])), rng.choice((1, 2, 5, 10, 30)), rng.choice((1, 2, 3, 7)))


def declared(text: str, extents: Mapping[str, Extent | CountExtent], rng: random.Random) -> str:
    """Return a query with declarations of the windows it names, in one spelling or another."""
    clauses, counted = [], False
    for name, extent in extents.items():
        if isinstance(extent, CountExtent):
            counted, word = True, rng.choice(("TRIPLES", "ELEMENTS", "ITEM", "ROWS"))
            count = f"{word} {extent.elements} STEP {extent.step}"
            clauses.append(f"FROM NAMED WINDOW {name} ON {extent.stream} [{count}] ")
            continue
        if extent.range is None:
            moment = f"1970-01-01T00:00:{extent.start / 1000:06.3f}Z"
            length = f'FROM "{moment}"^^<http://www.w3.org/2001/XMLSchema#dateTime>'
        else:
            length = f"RANGE {_spelled(extent.range, rng)}"
        clauses.append(f"FROM NAMED WINDOW {name} ON {extent.stream} [{length} STEP {_spelled(extent.step, rng)}] ")
    form = text.split(maxsplit=1)[0]
    before = len(form) + 1 if form == "ASK" else text.index("WHERE")
    every = f"REGISTER QUERY q COMPUTED EVERY {rng.choice((700, 1500, 2000))}ms AS " if rng.random() < 0.2 else ""
    every = "" if counted else every
    return every + text[:before] + "".join(clauses) + text[before:]


def _spelled(milliseconds: int, rng: random.Random) -> str:
    seconds = f"{milliseconds / 1000:g}"
    return rng.choice((f"PT{seconds}S", f"{milliseconds}ms", f"{seconds}s", f"{seconds} s"))


# --- the leaves by hand ----------------------------------------------------------------------------


class Reports:
    """A dataflow: its leaves on windows answer by choices of elements, report by report."""

    def __init__(
        self, query: StandingQuery, static: Iterable[tuple[str, str, str, str]], elements: Sequence[Element]
    ):  # fmt: skip
        self._query = query
        self._dictionary = TermDictionary()
        self._flow = Dataflow(query, self._dictionary)
        triples, directory = as_triples(static)
        on_streams = [
            (each.time, (s, streamed(p, each.stream), o)) for each in elements for s, p, o in (each.triple,)
        ]
        self._leaves = [operator for operator in query.operators if isinstance(operator, Leaf)]
        self._choices = {
            number: choices(leaf.query, on_streams)
            for number, leaf in enumerate(self._leaves)
            if isinstance(leaf, Windowed)
        }
        self._held = [Counter[tuple[str, ...]]() for _ in self._leaves]
        self._feed({
            number: answers(leaf.query, [*triples, *directory])
            for number, leaf in enumerate(self._leaves)
            if number not in self._choices and not isinstance(leaf, Counted)
        })  # fmt: skip

    def rows(self, now: int) -> Rows:
        """Return the bag of rows at a report."""
        current = {}
        for number, found in self._choices.items():
            leaf = self._leaves[number]
            assert isinstance(leaf, Windowed)
            current[number] = Counter(row for row, *times in found if _counts(leaf.window, *times, now=now))
        self._feed(current)
        return self._output()

    def _output(self) -> Rows:
        rows: Rows = Counter()
        for row, count in self._flow.output().items():
            rows[tuple(self._dictionary.text(cell) if cell >= 0 else None for cell in row)] += count
        return rows

    def _feed(self, current: dict[int, Counter[tuple[str, ...]]]) -> None:
        changes = {}
        for number, now in current.items():
            changed = {row: now[row] - self._held[number][row] for row in {*now, *self._held[number]}}
            changes[number] = [(tuple(self._dictionary.intern_all(row)), more) for row, more in changed.items() if more]
            self._held[number] = now
        self._flow.apply_all(changes)


def _counts(window: Window, oldest: int, youngest: int, *, now: int) -> bool:
    """Tell whether a choice of elements is in a window at a time."""
    end = now // window.step * window.step
    return youngest <= end and (oldest > end - window.range if window.range is not None else oldest >= window.start)


class CountedReports(Reports):
    """The same with a window by count: elements come in some order, and are counted up to a watermark."""

    def __init__(
        self, query: StandingQuery, static: Iterable[tuple[str, str, str, str]], elements: Sequence[Element],
        rng: random.Random,
    ):  # fmt: skip
        """``rng`` draws the order."""
        super().__init__(query, static, elements)
        self._rng = rng
        (self._number,) = (number for number, leaf in enumerate(self._leaves) if isinstance(leaf, Counted))
        leaf = self._leaves[self._number]
        assert isinstance(leaf, Counted)
        self._queue = CountQueue(leaf.window, self._dictionary.text)
        self._left = [
            (each.time, tuple(self._dictionary.intern_all((s, streamed(p, each.stream), o))))
            for each in elements
            for s, p, o in (each.triple,)
            if each.stream == leaf.window.stream
        ]
        self._upto = 0

    def rows(self, now: int) -> Rows:
        """Return the bag of rows at the report of a number."""
        while self._queue.due < now:
            self._upto += self._rng.choice((1, 500, 2000))
            ahead = self._upto + self._rng.choice((0, 500, 5000))
            self._rng.shuffle(self._left)
            left = []
            for time, row in self._left:
                if time <= self._upto or (time <= ahead and self._rng.random() < 0.5):
                    self._queue.add(row, time, time)
                else:
                    left.append((time, row))
            self._left = left
            self._queue.known_upto(self._upto)
        self._flow.apply_all({self._number: self._queue.at(now)})
        return self._output()


# --- compared ------------------------------------------------------------------------------------


@dataclass
class Tally:
    """Counts of a comparison."""

    queries: int = 0
    reports: int = 0
    answers: int = 0
    answered: int = 0
    """Queries that had other solutions at one report than at another."""
    changed: int = 0
    """Reports with other solutions than the report before."""
    by_count: int = 0
    """Queries with a window by count."""
    too_many: int = 0
    """Queries with more choices of elements than are listed."""
    refused: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def _reports(every: int, counts: Sequence[CountExtent], elements: Sequence[Element]) -> Sequence[int]:
    """Return the reports that are compared: their times, or their numbers."""
    if counts:
        return list(counts[0].reports(elements, 1000 * (2 * SECONDS + 6)))
    return range(0, 1000 * (SECONDS + 6), every)[:: 1 if every >= 1000 else 2]


def play(seed: int, tally: Tally, query: str | None = None) -> None:
    """Draw a query and streams, and compare at every report; add to the tally."""
    rng = random.Random(seed)
    by_count = random.Random(f"count {seed}").random() < 1 / 3 and (query is None or "<urn:v>" not in query)
    dense = rng.random() < 0.5
    names = NAMES[:1] if by_count else NAMES
    drawn = WindowWriter(rng, dense=dense and not by_count, names=names).query() if query is None else query
    extents: dict[str, Extent | CountExtent] = {
        name: draw_count(rng) if by_count else draw_extent(rng, dense=dense)
        for name in dict.fromkeys(_NAMED.findall(drawn))
    }
    always = [(node, "<urn:always>", node, graph) for node in NODES for graph in STATIC_GRAPHS]
    static = [*always, *draw_statements(rng, 20)]
    elements = draw_elements(rng, dense=dense)
    text = declared(for_us(drawn), extents, rng)
    try:
        standing = parse_query(text)
    except QueryRefused as refused:
        tally.refused[refused.construct] += 1
        return
    assert form.decode(form.encode(standing)) == standing
    report = standing.report
    assert report is not None, "a query with windows reports"
    tally.queries += 1
    oracle = WindowsOracle(declared(for_engine(drawn), extents, rng), extents, static, elements)
    background = [(s, p, o, g or DEFAULT) for s, p, o, g in static]
    counts = [extent for extent in extents.values() if isinstance(extent, CountExtent)]
    try:
        flow = (
            CountedReports(standing, background, elements, rng) if counts else Reports(standing, background, elements)
        )
    except OverflowError:
        tally.too_many += 1
        return
    before: Rows = Counter()
    changed = tally.changed
    tally.by_count += bool(counts)
    for now in _reports(report.every, counts, elements):
        names, expected = oracle.solutions(now)
        order = [names.index(name) if name in names else -1 for name in standing.names]
        laid_out = Counter[Terms]()
        for row, count in expected.items():
            laid_out[tuple(row[at] if at >= 0 else None for at in order)] += count
        more = same_values(flow.rows(now))
        more.subtract(same_values(laid_out))
        if any(more.values()):
            rows = [(row, count) for row, count in more.items() if count]
            tally.wrong.append(f"seed {seed}, report at {now}: {text}\n  {len(rows)} rows differ: {rows[:3]}")
            return
        tally.reports += 1
        tally.changed += laid_out != before
        tally.answers += laid_out.total()
        before = laid_out
    tally.answered += tally.changed > changed + 1
