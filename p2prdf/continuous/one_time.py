"""Evaluation of a one-time query over triples that were read for it, at the peer that was asked.

:class:`Reading` decides which keys to read: first those of the patterns' constants, then, for a pattern without
constants or with too many triples, the keys that the solutions of the patterns read so far give it.  :func:`evaluated`
then joins all triples in tables of its own, as the peers of the overlay do in theirs, and runs the operators of the
query.

Bounds: ``KEYS_MAX`` keys, ``ROWS_MAX`` rows of every kind.  A query that exceeds them is evaluated in the overlay.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeAlias

from p2prdf import keys
from p2prdf.continuous.dataflow import Dataflow
from p2prdf.continuous.operators.zset import UNBOUND
from p2prdf.continuous.order import evaluation_order
from p2prdf.hlc import FIRST
from p2prdf.rdf import quads
from p2prdf.rdf.algebra import StandingQuery
from p2prdf.rdf.compiled import compile_filter
from p2prdf.rdf.dictionary import UNBOUND_TEXT
from p2prdf.rdf.query import Algorithm, ConjunctiveQuery, make_plan
from p2prdf.store.light import LightTables
from p2prdf.store.tables import NEVER
from p2prdf.wire.messages import Groups

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from p2prdf.continuous.operators.zset import Row
    from p2prdf.rdf.dictionary import TermDictionary
    from p2prdf.rdf.query import Pattern
    from p2prdf.store.tables import Derived
    from p2prdf.wire.messages import Query

__all__ = ["KEYS_MAX", "ROWS_MAX", "Answer", "Key", "Reading", "TooLarge", "evaluated", "is_readable"]

KEYS_MAX: Final = 1024
"""Keys that are read for one query."""
ROWS_MAX: Final = 8192
"""Triples that are read for one query; partial results, solutions and rows of operators."""
_PIECE: Final = 4096
"""Pairs of rows that are joined in one piece of work, some ten milliseconds."""
_STEPS_MAX: Final = 1 << 20
"""Bound on the pairs of rows that the operators of one query may compare."""

Key: TypeAlias = tuple[int, int, int, int]
"""What is read at once: an index, and three terms, of which those in the index count."""
Triple: TypeAlias = tuple[int, int, int]


class TooLarge(Exception):  # not an error: the query is evaluated in the overlay
    """The query exceeds a bound."""


def leaves_of(query: Query) -> tuple[ConjunctiveQuery, ...]:
    """Return the conjunctive queries of a query."""
    return query.leaves if isinstance(query, StandingQuery) else (query,)


def is_readable(query: Query) -> bool:
    """Return whether a query concerns present triples alone: neither rules, windows nor elements of streams."""
    if isinstance(query, StandingQuery) and (query.report is not None or query.is_settled or any(query.windows)):
        return False
    return not any(
        leaf.concludes or any(map(_is_of_elements, leaf.constants)) or not any(map(_mask, leaf.patterns))
        for leaf in leaves_of(query)
    )


def _is_of_elements(constant: str) -> bool:
    return quads.stream_parts_of(constant) is not None or quads.word_parts_of(constant) is not None


def _mask(pattern: Pattern) -> int:
    """Return the index of a pattern's constants; of a pattern without variables, that of two of them."""
    mask = sum(bit for bit, slot in zip((keys.S, keys.P, keys.O), pattern, strict=True) if slot < 0)
    return keys.S | keys.P if mask == keys.SPO else mask


class _LeafReading:
    """The reading of one leaf."""

    def __init__(self, query: ConjunctiveQuery, dictionary: TermDictionary):
        self.query = query
        self._dictionary = dictionary
        self._terms = dictionary.intern_all(query.constants)
        self._keys: dict[int, list[Key]] = {}
        """By position of a pattern the keys that it is read under."""
        for position, pattern in enumerate(query.patterns):
            if mask := _mask(pattern):
                self._keys[position] = [self._key(mask, pattern, {})]

    def _key(self, mask: int, pattern: Pattern, bound: Mapping[int, int]) -> Key:
        parts = [self._terms[0]] * 3 if self._terms else [0] * 3
        for at, (bit, slot) in enumerate(zip((keys.S, keys.P, keys.O), pattern, strict=True)):
            if mask & bit:
                parts[at] = self._terms[~slot] if slot < 0 else bound[slot]
        return mask, parts[0], parts[1], parts[2]

    def counts(self, found: Mapping[Key, int]) -> dict[int, int]:
        """Return the number of triples read for each pattern, by position."""
        return {at: sum(found.get(key, 0) for key in wanted) for at, wanted in self._keys.items()}

    def keys(self, left_out: Iterable[Key]) -> list[Key]:
        """Return the keys to read for the patterns that are not left out."""
        gone = frozenset(left_out)
        return [key for found in self._keys.values() for key in found if key not in gone]

    def bind(self, left_out: frozenset[Key], triples: Mapping[Triple, int]) -> bool:
        """Give further keys to the patterns that have none, or too large ones; return whether all patterns are read."""
        patterns = self.query.patterns
        read = [at for at in range(len(patterns)) if at in self._keys and left_out.isdisjoint(self._keys[at])]
        if len(read) == len(patterns):
            return True
        known = {slot for at in read for slot in patterns[at] if slot >= 0}
        progress = False
        for position in range(len(patterns)):
            shared = tuple(sorted(known.intersection(patterns[position])))
            if position in read or not shared:
                continue
            part = replace(
                self.query, patterns=tuple(patterns[at] for at in read), answer=shared, filters=(), distinct=True
            )
            self._keys[position] = self._bound_keys(position, part, triples)
            if not left_out.isdisjoint(self._keys[position]):
                raise TooLarge  # the values give the same keys
            progress = True
        if not progress:
            raise TooLarge
        return False

    def _bound_keys(self, position: int, part: ConjunctiveQuery, triples: Mapping[Triple, int]) -> list[Key]:
        pattern = self.query.patterns[position]
        mask = sum(
            bit for bit, slot in zip((keys.S, keys.P, keys.O), pattern, strict=True) if slot < 0 or slot in part.answer
        )
        mask = keys.S | keys.P if mask == keys.SPO else mask
        found: dict[Key, None] = {}
        for row, _ in solutions(part, triples, self._dictionary, 0).values():
            found[self._key(mask, pattern, dict(zip(part.answer, row, strict=True)))] = None
            if len(found) > KEYS_MAX:
                raise TooLarge
        return list(found)


class Reading:
    """The keys to read for one query, and the triples read so far."""

    def __init__(self, query: Query, dictionary: TermDictionary):
        """Raises Busy if the dictionary has no room for the constants."""
        self._leaves = [_LeafReading(leaf, dictionary) for leaf in leaves_of(query)]
        self.triples: dict[Triple, int] = {}
        """The stamp of each triple."""
        self._read: dict[Key, int] = {}
        """By key the number of its triples."""
        self._left_out: dict[Key, None] = {}

    def take(self, key: Key, triples: Iterable[tuple[Triple, int]] | None) -> None:
        """Take the triples of a key, each with its stamp; None: there are too many."""
        if triples is None:
            self._read[key] = 0
            self._left_out[key] = None
            return
        found = dict(triples)
        self._read[key] = len(found)
        self.triples.update(found)
        if len(self.triples) > ROWS_MAX:
            raise TooLarge

    @property
    def counts(self) -> list[dict[int, int]]:
        """The number of triples read for each pattern of each leaf, by position."""
        return [leaf.counts(self._read) for leaf in self._leaves]

    def next_keys(self) -> list[Key]:
        """Return the next keys to read; none: everything is read.  Raises TooLarge."""
        while True:
            left_out = frozenset(self._left_out)
            wanted = {key: None for leaf in self._leaves for key in leaf.keys(left_out) if key not in self._read}
            if wanted:
                if len(self._read) + len(wanted) > KEYS_MAX:
                    raise TooLarge
                return list(wanted)
            read = [leaf.bind(left_out, self.triples) for leaf in self._leaves]
            if all(read):
                return []


def solutions(
    query: ConjunctiveQuery, triples: Mapping[Triple, int], dictionary: TermDictionary, group: int
) -> dict[int, tuple[Row, int]]:
    """Return the solutions of a conjunctive query over triples: by identity the row and its stamp; raise TooLarge."""
    found: dict[int, tuple[Row, int]] = {}
    for piece in _pieces(query, {}, triples, dictionary, group):
        found.update(piece)
    return found


def _pieces(
    query: ConjunctiveQuery, counts: Mapping[int, int], triples: Mapping[Triple, int], dictionary: TermDictionary,
    group: int,
) -> Iterator[dict[int, tuple[Row, int]]]:
    plan = make_plan(query, evaluation_order(query, counts), Algorithm.CSBV)
    tables = LightTables(dictionary, compile_filter)
    if triples:
        s, p, o = (list(column) for column in zip(*triples, strict=True))
        count = len(triples)
        tables.add_triples(s, p, o, list(triples.values()), [0] * count, [plan.roles] * count)
    params = tuple([term] for term in dictionary.intern_all(query.constants))
    numbers = tables.add_groups(plan, Groups([group], [FIRST], [FIRST], [NEVER], params))
    size = max(1, _PIECE // (1 + len(triples)))
    waiting: list[Derived] = tables.add_queries(plan, 0, numbers, 0)
    total = 0
    while waiting:
        rows = waiting.pop()
        total += len(rows)
        if total > 2 * ROWS_MAX:
            raise TooLarge
        if rows.step == len(plan.steps):
            bound = zip(*rows.bindings, strict=True) if rows.bindings else [()] * len(rows)
            yield dict(zip(rows.identity, zip(bound, rows.born, strict=True), strict=True))
        else:
            if len(rows) > size:
                waiting.append(_part(rows, size, len(rows)))
                rows = _part(rows, 0, size)
            waiting += tables.add_rows(rows)
            yield {}


def _part(rows: Derived, start: int, stop: int) -> Derived:
    """Return some of the rows."""
    return replace(
        rows, group=rows.group[start:stop], identity=rows.identity[start:stop], oldest=rows.oldest[start:stop],
        born=rows.born[start:stop], bindings=tuple(column[start:stop] for column in rows.bindings),
    )  # fmt: skip


@dataclass(slots=True)
class Answer:
    """The solutions of a query as columns: identities, stamps, and terms by column."""

    identity: list[int]
    born: list[int]
    bindings: tuple[list[int], ...]


def evaluated(query: Query, reading: Reading, dictionary: TermDictionary, number: int) -> Iterator[Answer | None]:
    """Evaluate a query over everything read, in pieces: yield None after each, and the answer at the end.

    ``number`` makes the identities of solutions unique.  Raises TooLarge, Busy.
    """
    found: list[dict[int, tuple[Row, int]]] = []
    for leaf, counts in zip(leaves_of(query), reading.counts, strict=True):
        found.append({})
        for piece in _pieces(leaf, counts, reading.triples, dictionary, keys.fmix(number + len(found))):
            found[-1].update(piece)
            yield None
        if leaf.distinct:
            found[-1] = dict(_first_of_each_row(found[-1]).values())
    if not isinstance(query, StandingQuery):
        rows = [row for row, _ in found[0].values()]
        yield Answer(list(found[0]), [born for _, born in found[0].values()], _columns(rows, len(query.answer)))
        return
    flow = Dataflow(query, dictionary)
    work = 0
    for place, solved in enumerate(found):
        waiting = [(row, 1) for row, _ in solved.values()]
        while waiting:
            size = 1 + _PIECE // (1 + flow.rows_held)
            some, waiting = waiting[:size], waiting[size:]
            work += len(some) * (1 + flow.rows_held)
            flow.apply(place, some)
            if work > _STEPS_MAX or flow.rows_held > 2 * ROWS_MAX:
                raise TooLarge
            yield None
    unbound = dictionary.intern(UNBOUND_TEXT)
    rows = [
        tuple(unbound if term == UNBOUND else term for term in row)
        for row, count in flow.output().items() for _ in range(count)
    ]  # fmt: skip
    latest = max((born for solved in found for _, born in solved.values()), default=0)
    identities = [keys.fmix(number + len(found) + 1 + at) & ~(1 << 63) for at in range(len(rows))]
    yield Answer(identities, [latest] * len(rows), _columns(rows, len(rows[0]) if rows else 0))


def _first_of_each_row(found: Mapping[int, tuple[Row, int]]) -> dict[Row, tuple[int, tuple[Row, int]]]:
    """Return by row the first solution with it, and its identity."""
    first: dict[Row, tuple[int, tuple[Row, int]]] = {}
    for identity, each in found.items():
        first.setdefault(each[0], (identity, each))
    return first


def _columns(rows: list[Row], width: int) -> tuple[list[int], ...]:
    return tuple([row[at] for row in rows] for at in range(width))
