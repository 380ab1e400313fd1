"""Compile filter expressions from a syntax tree to Python functions.

Compiling a tree (:mod:`p2prdf.rdf.expression_parser`) yields nested closures of two kinds: one returns a
:class:`~p2prdf.rdf.values.Value`, the other the effective boolean value as a Python bool, which suffices in most
places.

SPARQL's errors are ExpressionError.  ``&&`` and ``||`` have three-valued logic (SPARQL 1.1, 17.2): false or true on
one side outweighs an error on the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from p2prdf.errors import QueryRefused
from p2prdf.rdf import arithmetic, functions, regex
from p2prdf.rdf.execution import NAMED_NODE, value_of
from p2prdf.rdf.expression_parser import Node
from p2prdf.rdf.fulltext.evaluation import condition_holds, recent_text_of
from p2prdf.rdf.fulltext.syntax import parse_condition
from p2prdf.rdf.moments import ExpressionError
from p2prdf.rdf.values import Family, Value, boolean, compare, decode, ebv, encode, equal

__all__ = ["Row", "compile_condition", "compile_value"]

Row = Sequence[str | None]
"""Canonical terms of an expression's variables, in order; None is unbound."""

Evaluate = Callable[[Row], Value]
Test = Callable[[Row], bool]


_COMPARISONS: Final[dict[str, Callable[[int], bool]]] = {
    "<": lambda order: order < 0,
    "<=": lambda order: order <= 0,
    ">": lambda order: order > 0,
    ">=": lambda order: order >= 0,
}
_TRUTHS: Final = frozenset({"or", "and", "not", "compare", "in", "bound", "ftcontains"})
"""Operations with a boolean value: they are compiled as tests."""


# --- truth ---------------------------------------------------------------------------------------


def compile_condition(node: Node) -> Test:
    """Return a function that computes the effective boolean value, or raises ExpressionError.

    Raises ExpressionError at once for a constant regular expression that cannot be compiled.
    """
    match node.op:
        case "or":
            return _any([compile_condition(arg) for arg in node.args])
        case "and":
            return _all([compile_condition(arg) for arg in node.args])
        case "not":
            inner = compile_condition(node.args[0])
            return lambda row: not inner(row)
        case "compare":
            return _compare(node)
        case "in":
            return _in(node)
        case "bound":
            return _bound(node.args[0])
        case "ftcontains":
            return _full_text(node)
    value = compile_value(node)
    return lambda row: ebv(value(row))


def _compare(node: Node) -> Test:
    left, right = (compile_value(arg) for arg in node.args)
    if node.name == "=":
        return lambda row: equal(left(row), right(row))
    if node.name == "!=":
        return lambda row: not equal(left(row), right(row))
    holds = _COMPARISONS[node.name]

    def ordered(row: Row) -> bool:
        order = compare(left(row), right(row))
        return order is not None and holds(order)  # None: NaN is neither less nor greater

    return ordered


def _full_text(node: Node) -> Test:
    """Compile a condition on the text of a variable; a term that is no text has no truth value."""
    if [arg.op for arg in node.args[1:]] != ["const"] or node.args[0].op not in ("var", "unbound"):
        raise QueryRefused("it takes a variable and a condition", construct="ftcontains")
    condition = parse_condition(node.args[1].values[0].lexical)
    number = node.args[0].number if node.args[0].op == "var" else -1

    def holds(row: Row) -> bool:
        text = recent_text_of(row[number] or "") if number >= 0 else None
        if text is None:
            raise ExpressionError("not a text")
        return condition_holds(condition, text)

    return holds


def _in(node: Node) -> Test:
    value = compile_value(node.args[0])
    members: list[Evaluate] = []
    fixed: list[Value] = []
    for arg in node.args[1:]:
        if arg.op == "const":
            fixed += arg.values
        else:
            members.append(compile_value(arg))
    if not members and all(member.family is Family.IRI for member in fixed):
        iris = frozenset(member.lexical for member in fixed)
        return lambda row: (found := value(row)).family is Family.IRI and found.lexical in iris
    members += map(_always, fixed)

    def among(row: Row) -> bool:
        found = value(row)
        failed: ExpressionError | None = None
        for member in members:
            try:
                if equal(found, member(row)):
                    return True
            except ExpressionError as error:
                failed = error
        if failed is not None:
            raise failed
        return False

    return among


# --- values --------------------------------------------------------------------------------------


def compile_value(node: Node) -> Evaluate:
    """Return a function that evaluates the expression, or raises ExpressionError."""
    if node.op in _TRUTHS:
        test = compile_condition(node)
        return lambda row: boolean(test(row))
    match node.op:
        case "var":
            return _variable(node.number)
        case "const":
            return _always(node.values[0])
        case "unbound":
            return _unbound
        case "if":
            return _if(node)
        case "coalesce":
            return _first([compile_value(arg) for arg in node.args])
        case "arithmetic":
            return _arithmetic(node)
        case "execution":
            return _execution(node)
        case "negate":
            inner = compile_value(node.args[0])
            return lambda row: arithmetic.negate(inner(row))
        case "plus":
            inner = compile_value(node.args[0])
            return lambda row: arithmetic.itself(inner(row))
    return _call(node)


def _if(node: Node) -> Evaluate:
    condition = compile_condition(node.args[0])
    yes, no = (compile_value(arg) for arg in node.args[1:])
    return lambda row: yes(row) if condition(row) else no(row)


def _arithmetic(node: Node) -> Evaluate:
    first = compile_value(node.args[0])
    steps = [(_ARITHMETIC[sign], compile_value(arg)) for sign, arg in zip(node.name, node.args[1:], strict=True)]

    def compute(row: Row) -> Value:
        result = first(row)
        for operate, operand in steps:
            result = operate(result, operand(row))
        return result

    return compute


def _execution(node: Node) -> Evaluate:
    """Compile a value of an execution: a function of the terms of a solution, and of the text that names a node."""
    kind, seed = node.name, node.args[0].values[0].lexical
    named = kind == NAMED_NODE
    text = compile_value(node.args[1]) if named else None
    columns = [arg.number for arg in node.args[1 + named :]]

    def value(row: Row) -> Value:
        parts = [row[number] for number in columns]
        if text is not None:
            found = text(row)
            if found.family is not Family.STRING:
                raise ExpressionError("a blank node is named by a simple literal")
            parts.append(encode(found))
        return value_of(kind, seed, parts)

    return value


def _call(node: Node) -> Evaluate:
    args = [compile_value(arg) for arg in node.args]
    function = (arithmetic.CASTS if node.op == "cast" else functions.FUNCTIONS)[node.name]
    if node.name in ("REGEX", "REPLACE"):
        _check_regex(node)
    if len(args) == 1:
        only = args[0]
        return lambda row: function(only(row))
    return lambda row: function(*[arg(row) for arg in args])


def _check_regex(node: Node) -> None:
    """Refuse a constant regular expression that would fail on every solution."""
    flags_at = 2 if node.name == "REGEX" else 3
    asked = [node.args[1], *node.args[flags_at:]]
    if all(arg.op == "const" for arg in asked):
        regex.compile_regex(*(arg.values[0].lexical for arg in asked))


_ARITHMETIC: Final = {
    "+": arithmetic.add, "-": arithmetic.subtract, "*": arithmetic.multiply, "/": arithmetic.divide,
}  # fmt: skip


_T = TypeVar("_T")


def _always(found: _T) -> Callable[[Row], _T]:
    return lambda _row: found


def _variable(number: int) -> Evaluate:
    def value(row: Row) -> Value:
        term = row[number]
        if term is None:
            raise ExpressionError("an unbound variable")
        return decode(term)

    return value


def _bound(variable: Node) -> Test:
    if variable.op != "var":
        return _always(False)
    number = variable.number
    return lambda row: row[number] is not None


def _unbound(_row: Row) -> Value:
    raise ExpressionError("an unbound variable")


def _first(options: list[Evaluate]) -> Evaluate:
    def coalesce(row: Row) -> Value:
        for option in options:
            try:
                return option(row)
            except ExpressionError:
                continue
        raise ExpressionError("COALESCE found no value")

    return coalesce


def _any(tests: list[Test]) -> Test:
    return _decided_by(tests, decisive=True)


def _all(tests: list[Test]) -> Test:
    return _decided_by(tests, decisive=False)


def _decided_by(tests: list[Test], *, decisive: bool) -> Test:
    """Return a test that is ``decisive`` if one test is; else it fails if one fails; else the opposite."""

    def decide(row: Row) -> bool:
        failed: ExpressionError | None = None
        for test in tests:
            try:
                if test(row) is decisive:
                    return decisive
            except ExpressionError as error:
                failed = error
        if failed is not None:
            raise failed
        return not decisive

    return decide
