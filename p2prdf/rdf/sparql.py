"""Parse SPARQL text into conjunctive queries and compiled filters, with rdflib's grammar.

``parse_select`` takes three steps.  The tokenizer bounds the query.  The outline refuses unsupported constructs by
name and reduces the query to a shape.  rdflib's SPARQL 1.1 grammar parses the shape, and the triple patterns are read
off its tree.  Queries are many but shapes are few, and the grammar takes milliseconds, so trees are remembered.

Only the grammar of rdflib is used, not its evaluator.  A filter runs once per candidate solution: compiled closures
take a microsecond, the evaluator tens of them.  The evaluator also departs from the recommendation in ways that a
standing query must not (``&&`` with an error, ``<`` between unlike terms, ``!=`` on unknown datatypes, ill-typed
numbers, regular expressions without a bound).

Paths are rewritten where the bag of solutions stays the same: ``^`` swaps subject and object, ``/`` joins over a
fresh variable that is not projected, as defined in SPARQL 1.1, 18.2.2.4.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final, TypeVar

import rdflib
from pyparsing.exceptions import ParseBaseException
from rdflib.plugins.sparql.parser import parseQuery
from rdflib.plugins.sparql.parserutils import CompValue

from p2prdf.errors import QueryRefused
from p2prdf.rdf import expressions, filters, outline, tokens, values
from p2prdf.rdf.code_points import as_written
from p2prdf.rdf.compiled import CompiledExpression, CompiledFilter
from p2prdf.rdf.expressions import Node
from p2prdf.rdf.fulltext.calls import with_full_text
from p2prdf.rdf.moments import ExpressionError
from p2prdf.rdf.query import ConjunctiveQuery, Filter
from p2prdf.rdf.terms import RDF, XSD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["ALWAYS", "NEVER", "compile_expression", "compile_filter", "parse_select"]

rdflib.NORMALIZE_LITERALS = False

_RECURSION_LIMIT: Final = 20_000
"""Recursion limit of the grammar: 64 nested brackets take some 6,000 frames beyond the caller's."""

_BUILT_IN: Final = tuple(f"<{RDF}{name}>" for name in ("type", "first", "rest", "nil"))
"""Constants that the grammar itself adds; they precede the constants of a shape."""

_Slots = tuple[int, int, int]


_GRAMMAR_LOCK: Final = threading.RLock()
"""Lock around each use of the grammar.

On their first calls, its parse actions determine how many arguments they take.  If two threads do this at once, some
actions stay broken, and every later filter is refused.
"""


@contextlib.contextmanager
def _deep() -> Iterator[None]:
    """Allow the grammar to recurse as deep as the tokenizer lets brackets nest, for one thread at a time."""
    with _GRAMMAR_LOCK:
        before = sys.getrecursionlimit()
        sys.setrecursionlimit(max(before, _RECURSION_LIMIT))
        try:
            yield
        finally:
            sys.setrecursionlimit(before)


# --- queries -------------------------------------------------------------------------------------


@as_written
def parse_select(text: str) -> ConjunctiveQuery:
    """Return the conjunctive query of a SELECT query.

    Raises QueryRefused, with the construct and its position, for a malformed or unsupported query.
    """
    symbols, base = tokens.symbols(text, tokens.scan(text))
    tokens.refuse_reserved(text, symbols)
    symbols = with_full_text(text, symbols)
    made = outline.make_outline(text, symbols)
    try:
        patterns = _patterns(" ".join(piece.text for piece in made.pieces))
    except ParseBaseException:
        at = _fault(made.pieces)
        reason = "no valid triple pattern begins here"
        raise tokens.refusal(text, at, "syntax error", reason) from None
    except RecursionError:
        raise QueryRefused("the query nests too deeply to be parsed", construct="nesting") from None
    if not patterns:
        raise QueryRefused("the query has no triple pattern", construct="empty pattern")
    if len(patterns) > outline.PATTERNS_MAX:
        reason = f"{len(patterns)} triple patterns, more than {outline.PATTERNS_MAX}"
        raise QueryRefused(reason, construct="triple patterns")
    return _Assembly(text, made, patterns).query(base)


def _fault(pieces: list[outline.Piece]) -> int:
    """Return the position of the first invalid statement.

    The grammar reports the position at which it stopped, far behind the error.  So statements are added one by one
    until parsing fails.
    """
    good, closers = 1, ""
    for at, piece in enumerate(pieces):
        if piece.text in _CLOSERS:
            closers = _CLOSERS[piece.text] + closers
        elif closers and piece.text == closers[0]:
            closers = closers[1:]
        if piece.text not in (".", "{", "}", "FILTER(true)") or closers.strip("}"):
            continue
        try:
            _patterns.__wrapped__(" ".join([*(piece.text for piece in pieces[: at + 1]), *closers]))
        except (ParseBaseException, RecursionError):
            break
        good = at + 1
    return pieces[min(good, len(pieces) - 1)].at


_CLOSERS: Final = {"{": "}", "(": ")", "[": "]"}


class _Assembly:
    """Numbers variables and constants by first occurrence in the patterns, and assembles the query."""

    def __init__(self, text: str, made: outline.Outline, patterns: tuple[_Slots, ...]):
        self._text = text
        self._made = made
        constants = (*_BUILT_IN, *made.constants)
        variables: dict[int, int] = {}
        terms: dict[str, int] = {}
        self.patterns = tuple(
            tuple(
                variables.setdefault(slot, len(variables))
                if slot >= 0
                else ~terms.setdefault(constants[~slot], len(terms))
                for slot in pattern
            )
            for pattern in patterns
        )
        self._constants = tuple(terms)
        # The shape numbers named variables first; larger numbers are blank nodes and path steps.
        self._numbers = {
            made.variables[slot]: number for slot, number in variables.items() if slot < len(made.variables)
        }
        self._filter_symbols = 0

    def query(self, base: str | None) -> ConjunctiveQuery:
        """Return the finished query."""
        names = list(self._numbers) if self._made.projection is None else self._projected()
        return ConjunctiveQuery(
            patterns=self.patterns,  # type: ignore[arg-type]  # each made from three slots
            constants=self._constants,
            answer=tuple(self._numbers[name] for name in names),
            names=tuple(names),
            distinct=self._made.distinct,
            filters=tuple(self._filters(base)),
        )

    def _projected(self) -> list[str]:
        for symbol in self._made.projection or ():
            if symbol.value not in self._numbers:
                reason = f"no pattern binds ?{symbol.value}, which is projected"
                raise tokens.refusal(self._text, symbol.at, "unbound variable in SELECT", reason)
        return [symbol.value for symbol in self._made.projection or ()]

    def _filters(self, base: str | None) -> list[Filter]:
        """Return the filters in order, without duplicates and without those that are always true."""
        found: dict[Filter, None] = {}
        for made in self._made.filters:
            scope = {name: number for name, number in self._numbers.items() if name in made.scope}
            prepared = filters.prepare(self._text, made.symbols)
            for part in filters.conjuncts(prepared):
                if not part:
                    raise tokens.refusal(self._text, made.symbols[0].at, "syntax error", "an empty condition")
                found[self._filter(part, scope, base)] = None
        found.pop(ALWAYS, None)
        return [NEVER] if NEVER in found else list(found)

    def _filter(self, part: list[tokens.Symbol], scope: dict[str, int], base: str | None) -> Filter:
        made = Filter(*filters.spell(part, scope, base))
        try:
            self._filter_symbols += filters.abstract(made.text, made.variables).size
            filters.check_size(self._filter_symbols)
            compiled = compile_filter(made)
        except QueryRefused as error:
            wrong = error.construct == "syntax error"
            reason = "no valid condition begins here" if wrong else error.reason
            raise tokens.refusal(self._text, part[0].at, error.construct, reason) from None
        if made.variables:
            return made
        return ALWAYS if compiled(()) else NEVER


ALWAYS: Final = Filter(f'"true"^^<{XSD}boolean>', ())
NEVER: Final = Filter(f'"false"^^<{XSD}boolean>', ())
"""The false condition; a condition without variables becomes this or ``ALWAYS``."""


@functools.lru_cache(maxsize=1024)
def _patterns(shape: str) -> tuple[_Slots, ...]:
    """Parse a shape; return its patterns in written order.

    Slots: named variables have their number in the shape, from 0; other variables are numbered from ``_FRESH``;
    constants are ``~`` their number after ``_BUILT_IN``.
    """
    with _deep():
        return tuple(_Reader().group(parseQuery(shape)[1]["where"]))


_FRESH: Final = 1 << 16


class _Reader:
    """Reads patterns off the grammar's tree."""

    def __init__(self) -> None:
        self._blanks: dict[object, int] = {}
        self._fresh = _FRESH

    def group(self, tree: CompValue) -> Iterator[_Slots]:
        """Yield the patterns of a group and of its nested groups, joined."""
        for part in tree.get("part") if "part" in tree else ():
            if part.name == "TriplesBlock":
                for block in part["triples"]:
                    for at in range(0, len(block), 3):
                        yield from self._path(self._slot(block[at]), block[at + 1], self._slot(block[at + 2]))
            elif part.name == "GroupOrUnionGraphPattern":
                for inner in part["graph"]:
                    yield from self.group(inner)

    def _path(self, s: int, path: Any, o: int) -> Iterator[_Slots]:
        """Yield the patterns that a path between two terms stands for."""
        if not isinstance(path, CompValue):
            yield s, self._slot(path), o
            return
        inner = path["part"]
        if path.name == "PathEltOrInverse":
            yield from self._path(o, inner, s)
        elif path.name == "PathSequence":
            for at, step in enumerate(inner):
                after = o if at == len(inner) - 1 else self._new()
                yield from self._path(s, step, after)
                s = after
        else:  # PathAlternative has one part and PathElt no modifier: the outline has checked this
            yield from self._path(s, inner[0] if isinstance(inner, list) else inner, o)

    def _new(self) -> int:
        self._fresh += 1
        return self._fresh

    def _slot(self, term: Any) -> int:
        if isinstance(term, rdflib.Variable):
            return int(term[1:])
        if isinstance(term, rdflib.BNode):
            if term not in self._blanks:
                self._blanks[term] = self._new()
            return self._blanks[term]
        if isinstance(term, CompValue):  # a literal
            return ~(len(_BUILT_IN) + int(term["string"]))
        bracketed = f"<{term}>"
        if bracketed in _BUILT_IN:
            return ~_BUILT_IN.index(bracketed)
        return ~(len(_BUILT_IN) + int(term.removeprefix("c:")))


# --- filters -------------------------------------------------------------------------------------

FILTERS_MAX: Final = 2048
"""Most compiled filters that are remembered."""


@functools.lru_cache(maxsize=FILTERS_MAX)
def compile_filter(filter: Filter) -> CompiledFilter:  # noqa: A002 - SPARQL's word
    """Return a function that decides whether the filter holds for values of its variables.

    Raises QueryRefused for an invalid filter.  The last ``FILTERS_MAX`` are remembered.
    """
    return CompiledFilter(_compile(filter, expressions.compile_condition))


@functools.lru_cache(maxsize=FILTERS_MAX)
def compile_expression(expression: Filter) -> CompiledExpression:
    """Return a function from values of an expression's variables to its term.

    Raises QueryRefused for an invalid expression.  The last ``FILTERS_MAX`` are remembered.
    """
    return CompiledExpression(_compile(expression, expressions.compile_value))


_Compiled = TypeVar("_Compiled")


def _compile(
    expression: Filter, compiler: Callable[[Node, Sequence[expressions.Constant]], _Compiled]
) -> _Compiled:
    shape = filters.abstract(expression.text, expression.variables)
    constants = [
        tuple(map(values.decode, constant)) if isinstance(constant, tuple) else values.decode(constant)
        for constant in shape.constants
    ]
    try:
        with _deep():
            return compiler(_expression(shape.text), constants)
    except ParseBaseException:
        raise QueryRefused(f"not an expression: {expression.text}", construct="syntax error") from None
    except RecursionError:
        raise QueryRefused("the filter nests too deeply to be parsed", construct="nesting") from None
    except ExpressionError as error:
        raise QueryRefused(str(error), construct="REGEX") from None


@functools.lru_cache(maxsize=1024)
def _expression(shape: str) -> Node:
    """Parse the shape of a filter."""
    with _deep():
        where = parseQuery(f"SELECT * {{ FILTER ( {shape} ) }}")[1]["where"]
        return _node(where["part"][0]["expr"])


def _item(tree: CompValue, name: str) -> Any:
    """Return a part of the tree, None if the tree has no such part (``get`` would return the name)."""
    return OrderedDict.get(tree, name)


_LOGIC: Final = {"ConditionalOrExpression": "or", "ConditionalAndExpression": "and"}
_ARITHMETIC: Final = ("AdditiveExpression", "MultiplicativeExpression")
_UNARY: Final = {"UnaryNot": "not", "UnaryMinus": "negate", "UnaryPlus": "plus"}
_VARIABLES: Final = {"v": "var", "c": "const", "u": "unbound"}
_ARGUMENTS: Final = (
    "arg", "arg1", "arg2", "arg3", "text", "pattern", "replacement", "start", "length", "flags",
)  # fmt: skip
"""The grammar's names for the arguments of functions, in an order that suits every function."""


def _node(tree: Any) -> Node:
    """Convert the grammar's tree of an expression to a Node."""
    while isinstance(tree, CompValue) and tree.name.endswith("Expression") and not _item(tree, "other"):
        if _item(tree, "op") is not None:  # IN with an empty list
            return _relation(tree)
        tree = tree["expr"]
    if not isinstance(tree, CompValue):
        return Node(_VARIABLES[tree[0]], number=int(tree[1:]))
    if tree.name in _LOGIC:
        return Node(_LOGIC[tree.name], _nodes([tree["expr"], *tree["other"]]))
    if tree.name in _ARITHMETIC:
        return Node("arithmetic", _nodes([tree["expr"], *tree["other"]]), name="".join(tree["op"]))
    if tree.name == "RelationalExpression":
        return _relation(tree)
    if tree.name in _UNARY:
        return Node(_UNARY[tree.name], (_node(tree["expr"]),))
    return _call(tree)


def _nodes(trees: Sequence[Any]) -> tuple[Node, ...]:
    return tuple(map(_node, trees))


def _relation(tree: CompValue) -> Node:
    sign = tree["op"]
    if sign not in ("IN", "NOT IN"):
        return Node("compare", _nodes([tree["expr"], tree["other"]]), name=sign)
    node = Node("in", _nodes([tree["expr"], *_listed(_item(tree, "other"))]))
    return node if sign == "IN" else Node("not", (node,))


def _listed(arguments: Any) -> Sequence[Any]:
    """Return the members of an expression list; the grammar represents an empty list as rdf:nil."""
    return () if arguments is None or isinstance(arguments, rdflib.URIRef) else arguments


def _call(tree: CompValue) -> Node:
    if tree.name == "Function":
        name = str(tree["iri"]).removeprefix("f:")
        args = _nodes(_listed(_item(tree, "expr")))
        if name == "ftcontains":
            return Node(name, args)
        if len(args) != (2 if name == "iri" else 1):
            raise QueryRefused("a cast takes one argument", construct=f"function {name}")
        return Node("call", args, "IRI") if name == "iri" else Node("cast", args, XSD + name)
    name = tree.name.removeprefix("Builtin_").upper()
    if name in ("CONCAT", "COALESCE"):
        args = _nodes(_listed(tree["arg"]))
    else:
        args = tuple(_node(found) for key in _ARGUMENTS if (found := _item(tree, key)) is not None)
    if name == "BOUND" and args[0].op == "const":
        raise QueryRefused("BOUND takes a variable", construct="syntax error")
    if name in ("BOUND", "IF", "COALESCE"):
        return Node(name.lower(), args)
    return Node("call", args, name)
