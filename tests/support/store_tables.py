"""Tables with everything at one peer, and the slow, obvious evaluation to compare them with."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import product

from p2prdf import keys
from p2prdf.columns import as_list
from p2prdf.hlc import GONE
from p2prdf.rdf import compiled, terms
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.rdf.fulltext import FULL_TEXT
from p2prdf.rdf.query import Algorithm, ConjunctiveQuery, Filter, make_plan
from p2prdf.store.backlog import Backlog
from p2prdf.store.columnar import ColumnarTables
from p2prdf.store.light import LightTables
from p2prdf.store.tables import Derived, Tables
from p2prdf.wire.messages import Groups

__all__ = [
    "BOTH_KINDS", "EVERY_ROLE", "TERMS", "TEXTS", "Harness", "bindings", "brute_force", "canonical", "full_text",
    "new_tables", "path",
]  # fmt: skip

TERMS = ("<a>", "<b>", "<c>", '"a"', '""')
TEXTS = (
    '"a b"', '"B, a c"', '"c"@en', '"a a"@en-gb', '"ab b a"', '"a"^^<urn:t>', '"games b"@en', '"b of the game"@en-gb',
    '"b and the gaming b"@fr',
)  # fmt: skip
"""Known to dictionaries behind ``TERMS``."""
EVERY_ROLE = keys.CSBV_ROLES | 1 << keys.ANY
BOTH_KINDS = EVERY_ROLE | EVERY_ROLE << keys.EVENT_SHIFT


def compile_filter(each: Filter):
    """Filters of these tests: ``?v0 != ?v1`` by text, ``false``, or any text with a full-text condition in it."""
    if FULL_TEXT in each.text:
        return compiled.compile_filter(each)
    return lambda terms: each.text != "false" and (len(terms) < 2 or terms[0] != terms[1])


def new_tables(kind: str, *, forgets: bool = False) -> tuple[Tables, TermDictionary]:
    """Return empty tables and a dictionary of the test's terms; ``forgets``: they forget superseded intervals."""
    dictionary = TermDictionary()
    dictionary.intern_all(TERMS + TEXTS)
    made = LightTables if kind == "light" else ColumnarTables
    return made(dictionary, compile_filter, forgets=forgets), dictionary


@dataclass
class Harness:
    """Tables with everything at one peer: derived rows come back in until only answers are left."""

    tables: Tables

    def follow(self, derived: list[Derived]) -> Counter[tuple[int, ...]]:
        """Return the answers of derived rows: identity, ``min_ts``, ``max_ts``, bindings."""
        answers: Counter[tuple[int, ...]] = Counter()
        backlog = Backlog(self.tables.columns)
        while True:
            for rows in derived:
                if rows.step < len(rows.plan.steps):
                    backlog.add(rows)
                    continue
                columns = [as_list(c) for c in (rows.identity, rows.oldest, rows.born, *rows.bindings)]
                answers.update(zip(*columns, strict=True))
            if not backlog:
                return answers
            derived = self.tables.add_rows(backlog.take())

    def triples(self, triples, time: int, roles: int = EVERY_ROLE, first_event: int = 0, probed=None):
        """Publish triples, and return the answers; ``probed``: the indexes under which all of them are joined."""
        make = self.tables.columns
        s, p, o = (make.column(list(column), "uint32") for column in zip(*triples, strict=True))
        count = len(triples)
        events = make.column([keys.event_id(1, first_event + at) for at in range(count)])
        return self.follow(
            self.tables.add_triples(
                s, p, o, make.full(count, time), events, make.full(count, roles, "uint32"),
                None if probed is None else make.column([probed] * count, "uint32"),
            )
        )  # fmt: skip

    def rejoin(self, chosen, pairs_max: int = 50_000):
        """Join the rows waiting under chosen keys again, and return the answers."""
        return sum((self.follow(piece) for piece in self.tables.rejoin(chosen, pairs_max)), Counter())

    def query(
        self, query, dictionary, since: int, algorithm=Algorithm.CSBV, *, per_event=False, order=None, span_ms=0
    ):
        """Let a query wait, and return the answers."""
        order = order or range(len(query.patterns))
        plan = make_plan(query, order, algorithm, per_event=per_event, span_ms=span_ms)
        make = self.tables.columns
        params = tuple(make.column([term], "uint32") for term in dictionary.intern_all(query.constants))
        identity, stamp, lease = (make.column([each]) for each in (plan.identity >> 1, since, 1 << 60))
        groups = Groups(identity, stamp, stamp, lease, params)
        group = self.tables.add_groups(plan, groups)
        return plan, self.follow(self.tables.add_queries(plan, 0, group, 0))


def path(*constants: str) -> ConjunctiveQuery:
    """(?0 c0 ?1)(?1 c1 ?2)... ."""
    patterns = tuple((at, ~at, at + 1) for at in range(len(constants)))
    answer = tuple(range(len(constants) + 1))
    return ConjunctiveQuery(patterns, constants, answer, tuple(f"v{each}" for each in answer))


def bindings(answers) -> Counter[tuple[int, ...]]:
    """Drop identity and stamps."""
    return Counter(row[3:] for row in answers.elements())


def full_text(variable: int, condition: str) -> str:
    """Return a full-text condition on a variable as it stands in a filter."""
    return f"{FULL_TEXT} ( ?v{variable} , {terms.literal(condition)} )"


def canonical(raw, filtered: bool, conditions=()) -> ConjunctiveQuery:
    """Number variables and constants by first occurrence; with filters, perhaps.

    ``conditions``: which variable, and the alternatives of a full-text condition on it.
    """
    variables: dict[int, int] = {}
    constants: dict[int, int] = {}
    numbered = tuple(
        tuple(
            variables.setdefault(slot, len(variables)) if slot >= 0 else ~constants.setdefault(~slot, len(constants))
            for slot in pattern
        )
        for pattern in raw
    )
    answer = tuple(variables.values())
    filters = (Filter("differ", answer[:2]),) if filtered and answer else ()
    for number, alternatives in conditions if answer else ():
        variable = answer[number % len(answer)]
        filters += (Filter(" || ".join(full_text(variable, each) for each in alternatives), (variable,)),)
    names = tuple(f"v{each}" for each in answer)
    return ConjunctiveQuery(numbered, tuple(TERMS[each] for each in constants), answer, names, filters=filters)


def brute_force(query, dictionary, log, since: int, per_event: bool) -> Counter[tuple[int, ...]]:
    """Return the bag of solutions over a log of (time, triple), with GONE in the times of removals."""
    removed: dict[tuple[int, int, int], int] = {}
    for time, triple in log:
        if time >= GONE and not per_event:
            removed[triple] = max(time - GONE, removed.get(triple, 0))
    counted = [triple for time, triple in log if since <= time < GONE and time > removed.get(triple, 0)]
    if not per_event:
        counted = list(dict.fromkeys(counted))
    found: Counter[tuple[int, ...]] = Counter()
    for combination in product(counted, repeat=len(query.patterns)):
        bound: dict[int, int] = {}
        for pattern, triple in zip(query.patterns, combination, strict=True):
            for slot, term in zip(pattern, triple, strict=True):
                wanted = dictionary.intern(query.constants[~slot]) if slot < 0 else bound.setdefault(slot, term)
                if wanted != term:
                    break
            else:
                continue
            break
        else:
            if all(compile_filter(f)(dictionary.texts([bound[v] for v in f.variables])) for f in query.filters):
                found[tuple(bound[variable] for variable in query.answer)] += 1
    return found
