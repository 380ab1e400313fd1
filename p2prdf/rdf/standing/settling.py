"""Queries with settled delivery: each pattern is a leaf of its own, and the coordinator joins the leaves.

The answer as of a stamp consists of the solutions of which all triples held at that stamp.  A solution that peers
joined does not tell that exactly: it has the stamp of the latest publication of its latest triple, and a retracted one
that of any of its deletions.  A single triple tells it: its interval begins once and ends once.
docs/explanation/design/settled.md gives the reasons.

A *cohort* is several queries with one settled subscription: the disjoint union of their solutions is one query.  The
last column of its rows tells the member.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final

from p2prdf.errors import QueryRefused
from p2prdf.rdf import algebra, quads
from p2prdf.rdf.algebra import LEAVES_MAX, Form, Operator, StandingQuery
from p2prdf.rdf.filters import spell
from p2prdf.rdf.layouts import inputs_of, with_inputs
from p2prdf.rdf.query import ConjunctiveQuery, Filter, Pattern
from p2prdf.rdf.standing.assembly import Assembly, canonical
from p2prdf.rdf.standing.form import FORM_BYTES_MAX, encode
from p2prdf.rdf.tokens import scan, symbols

__all__ = ["COHORT_MAX", "cohort_names", "cohort_query", "default_delivery", "settled_query"]

COHORT_MAX: Final = 32
"""Most queries of a cohort."""
_INTEGER: Final = "^^<http://www.w3.org/2001/XMLSchema#integer>"


_MONOTONE: Final = (
    algebra.Leaf, algebra.Table, algebra.Project, algebra.Filter, algebra.Extend, algebra.Fix, algebra.Union,
    algebra.Join, algebra.Distinct, algebra.Closure, algebra.Construct, algebra.Inferred,
)  # fmt: skip
"""Operators whose rows only grow with the rows of their inputs."""


def default_delivery(query: StandingQuery | ConjunctiveQuery) -> StandingQuery | ConjunctiveQuery:
    """Return a query in the form of its default delivery: settled, unless it is monotone.

    A solution of a monotone query stays true when further triples are published, so immediate delivery tells no
    solution that a delayed triple takes back.  A query without settled delivery is returned as it is.
    """
    if isinstance(query, ConjunctiveQuery) or all(_is_monotone(each) for each in query.operators):
        return query
    try:
        return settled_query(query)
    except QueryRefused:
        return query


def _is_monotone(operator: Operator) -> bool:
    if isinstance(operator, algebra.Exists):
        return operator.existence is algebra.Existence.SOME
    return isinstance(operator, _MONOTONE)


def settled_query(query: StandingQuery | ConjunctiveQuery) -> StandingQuery:
    """Return a query in the form in which it is delivered settled.

    Raises QueryRefused for rules, for windows, and for a query of more than LEAVES_MAX patterns.
    """
    standing = _standing(query) if isinstance(query, ConjunctiveQuery) else query
    assembly = Assembly()
    try:
        root = assembly.add(algebra.Settled(_by_patterns(standing, assembly)))
    except QueryRefused as error:
        raise _too_large(error) from None
    return StandingQuery(standing.form, standing.names, canonical(assembly.operators, root))


def cohort_query(members: Sequence[StandingQuery | ConjunctiveQuery]) -> StandingQuery:
    """Return the query that delivers several queries settled, at one mark after the other.

    A row has the columns of its member, unbound ones up to the widest member, and the number of the member from 0 on.
    The name of a column lists ``member:name`` for each member that has it (:func:`cohort_names`).  Raises QueryRefused
    as :func:`settled_query` does, also for too many or too large members together.
    """
    if not 0 < len(members) <= COHORT_MAX:
        raise QueryRefused(f"a cohort of {len(members)} queries: it has 1 to {COHORT_MAX}", construct="query size")
    queries = [_standing(each) if isinstance(each, ConjunctiveQuery) else each for each in members]
    width = max(len(each.names) for each in queries)
    assembly, roots = Assembly(), list[int]()
    try:
        for number, each in enumerate(queries):
            count = len(each.names)
            columns = (*range(count), *[-1] * (width - count))
            padded = assembly.add(algebra.Project(_by_patterns(each, assembly), columns))
            roots.append(assembly.add(algebra.Extend(padded, Filter(f'"{number}"{_INTEGER}', ()))))
        union = assembly.add(algebra.Union(tuple(roots))) if len(roots) > 1 else roots[0]
        root = assembly.add(algebra.Settled(union))
    except QueryRefused as error:
        raise _too_large(error) from None
    names = (*(_column_name(queries, at) for at in range(width)), " ".join(each.form.value for each in queries))
    query = StandingQuery(Form.SELECT, names, canonical(assembly.operators, root))
    size = len(encode(query))
    if size > FORM_BYTES_MAX:
        reason = f"expanded, the cohort has {size} bytes, more than {FORM_BYTES_MAX}"
        raise QueryRefused(reason, construct="query size")
    return query


def _column_name(queries: Sequence[StandingQuery], at: int) -> str:
    return " ".join(f"{number}:{each.names[at]}" for number, each in enumerate(queries) if at < len(each.names))


def cohort_names(names: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the names of each member's columns, from the names of a cohort's columns.

    Raises QueryRefused if they are those of another query.
    """
    forms = names[-1].split() if names else []
    if not forms or not {form.value for form in Form}.issuperset(forms):
        raise QueryRefused("the subscription is not one of a cohort")
    found: list[list[str]] = [[] for _ in forms]
    for column in names[:-1]:
        for each in column.split(" "):
            number, _, name = each.partition(":")
            if not (number.isdigit() and int(number) < len(found)):
                raise QueryRefused("the subscription is not one of a cohort")
            found[int(number)].append(name)
    return [tuple(each) for each in found]


def _by_patterns(standing: StandingQuery, assembly: Assembly) -> int:
    """Add the operators of a query, with a leaf for each pattern; return the number of the last one."""
    if any(type(each) in (algebra.Windowed, algebra.Counted) for each in standing.operators):
        reason = "it is delivered in reports already: each report is a state of its windows"
        raise QueryRefused(f"a query over windows has no settled delivery: {reason}", construct="WINDOW")
    numbers: list[int] = []
    for operator in standing.operators:
        if isinstance(operator, algebra.Leaf):
            numbers.append(_by_pattern(operator.query, assembly))
        else:
            inputs = tuple(numbers[number] for number in inputs_of(operator))
            numbers.append(assembly.add(with_inputs(operator, inputs)))
    return numbers[-1]


def _too_large(error: QueryRefused) -> QueryRefused:
    """Return the refusal of a query that has too many parts when it is divided; other refusals as they are."""
    if error.construct != "query size":
        return error
    reason = f"more than {LEAVES_MAX} different triple patterns, or too many operators, for settled delivery"
    return QueryRefused(reason, construct="query size")


def _standing(query: ConjunctiveQuery) -> StandingQuery:
    if query.concludes:
        raise QueryRefused("a rule has no settled delivery", construct="rule")
    names = tuple(map(str, range(len(query.answer))))
    operators: list[Operator] = [algebra.Leaf(dataclasses.replace(query, names=names, distinct=False))]
    if query.distinct:
        operators.append(algebra.Distinct(0))
    return StandingQuery(Form.SELECT, query.names, tuple(operators))


def _by_pattern(query: ConjunctiveQuery, assembly: Assembly) -> int:
    """Add the joins of the patterns of a conjunctive query; return the number of the last operator.

    A leaf has all variables of its pattern, so its rows stand for triples.
    """
    order = _connected(query.patterns)
    columns: list[int] = []
    root = -1
    for position in order:
        pattern = query.patterns[position]
        variables = list(dict.fromkeys(slot for slot in pattern if slot >= 0))
        leaf = assembly.add(algebra.Leaf(_leaf(query, pattern, variables)))
        if root < 0:
            root, columns = leaf, variables
            continue
        shared = tuple((columns.index(each), variables.index(each)) for each in variables if each in columns)
        root = assembly.add(algebra.Join(root, leaf, tuple(sorted(shared))))
        columns = columns + [each for each in variables if each not in columns]
    in_order = tuple(columns.index(variable) for variable in range(len(columns)))
    if in_order != tuple(range(len(columns))):  # a filter reads ?v3 from column 3
        root = assembly.add(algebra.Project(root, in_order))
    for each in query.filters:
        if not any(_reads_only(each, pattern) for pattern in query.patterns):
            root = assembly.add(algebra.Filter(root, each))
    if query.answer != tuple(range(len(columns))):
        root = assembly.add(algebra.Project(root, query.answer))
    return root


def _connected(patterns: tuple[Pattern, ...]) -> list[int]:
    """Return an order in which each pattern shares a variable with an earlier one where possible."""
    left = list(range(len(patterns)))
    order: list[int] = []
    bound: set[int] = set()
    while left:
        position = next((at for at in left if bound.intersection(patterns[at])), left[0])
        left.remove(position)
        order.append(position)
        bound.update(slot for slot in patterns[position] if slot >= 0)
    return order


def _reads_only(each: Filter, pattern: Pattern) -> bool:
    return bool(each.variables) and set(each.variables).issubset(pattern)


def _leaf(query: ConjunctiveQuery, pattern: Pattern, variables: list[int]) -> ConjunctiveQuery:
    """Return the query for one pattern, with the filters that read only its variables."""
    numbers = {variable: number for number, variable in enumerate(variables)}
    constants = list(dict.fromkeys(query.constants[~slot] for slot in pattern if slot < 0))
    s, p, o = (numbers[slot] if slot >= 0 else ~constants.index(query.constants[~slot]) for slot in pattern)
    filters = tuple(_renumbered(each, numbers) for each in query.filters if _reads_only(each, pattern))
    filters += tuple(Filter(text, (p,)) for text in _graph_conditions(query, pattern, p))
    answer = tuple(range(len(variables)))
    return ConjunctiveQuery(((s, p, o),), tuple(constants), answer, tuple(map(str, answer)), False, filters)


def _graph_conditions(query: ConjunctiveQuery, pattern: Pattern, variable: int) -> tuple[str, ...]:
    """Return the conditions by which one of the patterns made for ``GRAPH`` reads the same graph as with the others.

    Without the others, the variable in its predicate position would read the default graph.  The conditions name the
    graph, if it is known, so that only its triples are sent, and permissions can be checked (:mod:`p2prdf.rdf.reach`).
    """
    def constant(slot: int) -> str:
        return query.constants[~slot] if slot < 0 else ""

    listed = {s: constant(o) for s, p, o in query.patterns if constant(p) == quads.OF}
    directory = {
        s: (p, o) for s, p, o in query.patterns if p in listed or quads.predicate_of(constant(p)) is not None
    }
    if pattern[1] in directory:
        term, graph = directory[pattern[1]]
        predicate = quads.predicate_of(constant(term)) or listed.get(term, "")
        return quads.graph_conditions(variable, predicate, constant(graph))
    return (quads.of_directory(variable),) if pattern[1] in listed else ()


def _renumbered(each: Filter, numbers: dict[int, int]) -> Filter:
    read, _ = symbols(each.text, scan(each.text))
    return Filter(*spell(read, {f"v{variable}": number for variable, number in numbers.items()}, None))
