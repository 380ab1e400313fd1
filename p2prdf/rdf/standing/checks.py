"""Check operators received from outside beyond the types of their fields.

The checks raise ValueError for operators that no query lowers to, and QueryRefused or DataRefused for invalid
expressions or terms.
"""

from __future__ import annotations

from collections.abc import Iterable

from p2prdf.rdf import algebra, quads, terms
from p2prdf.rdf.algebra import (
    LANDMARK_MS_MAX,
    WINDOW_ELEMENTS_MAX,
    WINDOW_MS_MAX,
    Expression,
    InferenceRule,
    Operator,
    Shared,
)
from p2prdf.rdf.compiled import compile_expression
from p2prdf.rdf.layouts import inputs_of
from p2prdf.rdf.query import FILTERS_BYTES_MAX, FILTERS_MAX, PATTERNS_MAX, ConjunctiveQuery, filter_bytes
from p2prdf.rdf.standing import leaves
from p2prdf.rdf.standing.inference import canonical_rules, check_rules
from p2prdf.rdf.standing.selects import SLICE_MAX, TEMPLATE_MAX
from p2prdf.rdf.standing.syntax import is_variable

__all__ = ["check_operator", "check_settled", "check_windows"]


def check_operator(operator: Operator, layouts: list[tuple[bool, ...]]) -> None:
    """Check one operator; ``layouts``: the layouts of all operators."""
    match operator:
        case algebra.Leaf(query):
            _check_leaf(query)
            _check_place(operator)
        case algebra.Table(width, rows):
            _require(all(len(row) == width for row in rows), "a row of a table is not as wide as the table")
            _check_terms(cell for row in rows for cell in row if cell is not None)
        case algebra.Project(_, columns):
            _require(all(at >= -1 for at in columns), "a column is negative")
        case algebra.Filter(_, expression) | algebra.Extend(_, expression):
            _check_expressions((expression,))
        case algebra.Union(inputs):
            _require(len(inputs) > 1, "a union of one")
        case algebra.Join(shared=shared) | algebra.Exists(shared=shared):
            _check_shared(shared)
        case algebra.LeftJoin(_, _, shared, conditions):
            _check_shared(shared)
            _check_expressions(conditions)
        case algebra.Minus(_, _, keys, shared):
            _check_shared(keys + shared)
            _require(bool(shared), "a difference without a common variable")
        case algebra.Group(_, _, aggregates):
            for each in aggregates:
                _check_aggregate(each)
        case algebra.Slice(offset=offset, limit=limit) | algebra.Slices(offset=offset, limit=limit):
            _require(0 <= offset <= SLICE_MAX and (limit is None or 0 <= limit <= SLICE_MAX), "a slice out of range")
            _require(offset > 0 or limit is not None, "a slice without offset and limit")
        case algebra.Closure(_, seeds, _, reflexive):
            _require(seeds is not None or not reflexive, "a reflexive closure without seeds")
        case algebra.Construct() | algebra.Inferred():
            _check_triple_source(operator, len(layouts[operator.input]))


def _check_triple_source(operator: algebra.Construct | algebra.Inferred, width: int) -> None:
    if isinstance(operator, algebra.Inferred):
        _check_rules(operator.rules)
        return
    template, constants = operator.template, operator.constants
    _require(len(template) <= TEMPLATE_MAX, "a template of too many triples")
    top = width + 3 * TEMPLATE_MAX
    _require(all(-len(constants) <= slot < top for triple in template for slot in triple), "no such slot")
    _check_terms(constants)


def _check_rules(rules: tuple[InferenceRule, ...]) -> None:
    check_rules(rules)
    _require(bool(rules) and canonical_rules(rules) == rules, "the rules are not canonical")
    atoms = [atom for head, body in rules for atom in (head, *body)]
    _check_terms(part for atom in atoms for part in atom if not is_variable(part))
    _require(all(terms.kind(p) is terms.Kind.IRI for _, p, _ in atoms), "a predicate is no IRI")


def check_windows(operators: tuple[Operator, ...]) -> None:
    """Check that windows are below a report, the report is the root, and triples of a window count once."""
    root = operators[-1]
    counted = sum(isinstance(each, algebra.Counted) for each in operators)
    least, most = (0, 0) if counted else (1, WINDOW_MS_MAX)
    _require(not isinstance(root, algebra.Report) or least <= root.every <= most, "reports are too many or too few")
    _require(not any(isinstance(each, algebra.Report) for each in operators[:-1]), "a report is not the root")
    of_windows = (algebra.Windowed, algebra.Counted)
    windowed = {number for number, each in enumerate(operators) if isinstance(each, of_windows)}
    reports = isinstance(root, algebra.Report)
    _require(bool(windowed) is reports, "windows without a report, or a report without windows")
    _require(not counted or len(windowed) == 1, "a window by count with another window")
    for operator in operators:
        distinct = isinstance(operator, algebra.Distinct) or windowed.isdisjoint(inputs_of(operator))
        _require(distinct, "triples of a window are counted by element")


def check_settled(operators: tuple[Operator, ...]) -> None:
    """Check that settled delivery is of the whole query, without windows, and that its leaves have one pattern."""
    settled = [isinstance(each, algebra.Settled) for each in operators]
    _require(not any(settled[:-1]), "settled delivery of a part of a query")
    leaves = [each for each in operators if isinstance(each, algebra.Leaf)] if settled[-1] else []
    _require(all(type(leaf) is algebra.Leaf for leaf in leaves), "settled delivery over windows")
    queries = [leaf.query for leaf in leaves]
    whole = all(len(query.patterns) == 1 and len(query.answer) == query.variable_count for query in queries)
    _require(whole, "a leaf with settled delivery does not tell single triples")


def _require(truth: bool, reason: str) -> None:
    if not truth:
        raise ValueError(reason)


def _check_terms(found: Iterable[str]) -> None:
    for term in found:
        _require(terms.parse_term(term) == term, f"{term!r:.40} is not canonical")


def _check_shared(shared: Shared) -> None:
    for side in zip(*shared, strict=True):
        _require(len(set(side)) == len(side), "a column is shared twice")


def _check_expressions(expressions: Iterable[Expression]) -> None:
    for expression in expressions:
        ascending = sorted(set(expression.variables))
        _require(list(expression.variables) == ascending, "the variables of an expression are not ascending")
        compile_expression(expression)


def _check_aggregate(aggregate: algebra.Aggregate) -> None:
    counts = aggregate.function is algebra.Function.COUNT
    _require(len(aggregate.columns) == 1 or (counts and (aggregate.distinct or not aggregate.columns)), "an aggregate")
    _require(aggregate.function is algebra.Function.GROUP_CONCAT or aggregate.separator == " ", "a separator")


def _check_leaf(query: ConjunctiveQuery) -> None:
    """Check that variables and constants are numbered by first occurrence, and filters use only these."""
    _require(0 < len(query.patterns) <= PATTERNS_MAX, "a leaf has too many patterns, or none")
    slots = [slot for pattern in query.patterns for slot in pattern]
    variables = list(dict.fromkeys(slot for slot in slots if slot >= 0))
    constants = list(dict.fromkeys(~slot for slot in slots if slot < 0))
    numbered = variables == list(range(len(variables))) and constants == list(range(len(query.constants)))
    _require(numbered, "the variables and constants of a leaf are not numbered by first occurrence")
    _check_terms(query.constants)
    read = [*query.answer, *(number for each in query.filters for number in each.variables)]
    bound = set(read) <= set(variables) and len(set(query.answer)) == len(query.answer)
    _require(bound, "a leaf reads a variable that it does not bind, or returns one twice")
    _require(len(query.filters) <= FILTERS_MAX, "a leaf has too many filters")
    size = sum(filter_bytes(each.text, each.variables) for each in query.filters)
    _require(size <= FILTERS_BYTES_MAX, "the filters of a leaf are too long")
    _check_expressions(query.filters)


def _check_place(leaf: algebra.Leaf) -> None:
    """Check that a leaf reads the elements of a window, or no stream at all."""
    if isinstance(leaf, algebra.Windowed):
        _check_window(leaf.window)
        _check_streamed(leaf.query)
    elif isinstance(leaf, algebra.Counted):
        _check_count_window(leaf.window)
        whole = leaf.query == leaves.whole_stream(leaf.window.stream)
        _require(whole, "a window by count does not read its whole stream")
    else:
        streamed = any(quads.stream_parts_of(each) is not None for each in leaf.query.constants)
        _require(not streamed, "a stream is read without a window")


def _check_window(window: algebra.Window) -> None:
    lengths = (window.step,) if window.range is None else (window.step, window.range)
    _require(all(1 <= length <= WINDOW_MS_MAX for length in lengths), "a window is out of range")
    _require(0 <= window.start <= (LANDMARK_MS_MAX if window.range is None else 0), "a window starts out of range")


def _check_count_window(window: algebra.CountWindow) -> None:
    _require(all(1 <= each <= WINDOW_ELEMENTS_MAX for each in (window.elements, window.step)), "a window is too large")
    stream = window.stream
    _require(terms.parse_term(stream) == stream and stream.startswith("<"), f"{stream!r:.40} is no canonical IRI")


def _check_streamed(query: ConjunctiveQuery) -> None:
    """Check that a leaf reads one stream, with constant predicates, and returns all its variables."""
    _require(query.answer == tuple(range(query.variable_count)), "a window's leaf leaves variables out")
    streams = set()
    for _, p, _ in query.patterns:
        parts = quads.stream_parts_of(query.constants[~p]) if p < 0 else None
        _require(parts is not None, "a predicate in a window is not qualified by a stream")
        assert parts is not None, "just checked"
        streams.add(parts[1])
        for part in parts:
            _require(terms.parse_term(part) == part and part.startswith("<"), f"{part!r:.40} is no canonical IRI")
    _require(len(streams) == 1, "a window's leaf reads several streams")
    ends = [query.constants[~slot] for s, _, o in query.patterns for slot in (s, o) if slot < 0]
    _require(not any(map(quads.is_reserved, ends)), "a subject or object is a reserved term")
