"""Parse the canonical text of an expression to a tree (SPARQL 1.1, 19.8, rules 110 to 129).

One function reads all binary operators, by their precedence.  The tokenizer bounds the nesting of brackets, and
therefore the recursion.  Comparisons do not associate, and ``!``, ``+`` and ``-`` apply to a primary expression.
"""

from __future__ import annotations

import inspect
from typing import Final, NamedTuple, NoReturn

from p2prdf.errors import QueryRefused
from p2prdf.rdf import filters, tokens
from p2prdf.rdf.execution import KINDS, NAMED_NODE, VALUE_OF
from p2prdf.rdf.fulltext.calls import FULL_TEXT
from p2prdf.rdf.functions import FUNCTIONS
from p2prdf.rdf.tokens import Symbol
from p2prdf.rdf.values import Value, decode_constant

__all__ = ["EXPRESSION_SYMBOLS_MAX", "FILTER_LENGTH_MAX", "Node", "check_size", "parse_expression"]

EXPRESSION_SYMBOLS_MAX: Final = 2048
"""Most symbols in all filters of a query; a list of constants after IN counts as one."""

FILTER_LENGTH_MAX: Final = 256 << 10
"""Longest canonical text of one filter in characters, with prefixes expanded."""


class Node(NamedTuple):
    """One operation.

    ``op``: ``var`` (``number``: its place in the row), ``const`` (``values``: one, or the members of a list after
    IN), ``unbound``, ``or``, ``and``, ``not``, ``compare`` (``name``: the sign), ``in``, ``arithmetic`` (``name``: one
    sign between each two arguments), ``negate``, ``plus``, ``bound``, ``if``, ``coalesce``, ``call``, ``cast``,
    ``execution`` and ``ftcontains``.
    """

    op: str
    args: tuple[Node, ...] = ()
    name: str = ""
    number: int = -1
    values: tuple[Value, ...] = ()


_POWERS: Final = {
    "||": 1, "&&": 2, **dict.fromkeys(("=", "!=", "<", ">", "<=", ">=", "IN", "NOT"), 3),
    **dict.fromkeys("+-", 4), **dict.fromkeys("*/", 5),
}  # fmt: skip
"""How tightly a binary operator binds."""
_COMPARISON: Final = 3
_LOGIC: Final = {"||": "or", "&&": "and"}
_UNARY: Final = {"": "", "!": "not", "-": "negate", "+": "plus"}
_SPECIAL: Final = {"BOUND": (1, 1), "IF": (3, 3), "COALESCE": (0, None)}


def _argument_counts(name: str) -> tuple[int, int | None]:
    """Return the least and the greatest number of a function's arguments; None: any number."""
    if name in _SPECIAL:
        return _SPECIAL[name]
    arguments = inspect.signature(FUNCTIONS[name]).parameters.values()
    if any(each.kind is each.VAR_POSITIONAL for each in arguments):
        return 0, None
    return sum(each.default is each.empty for each in arguments), len(arguments)


_ARGUMENT_COUNTS: Final = {name: _argument_counts(name) for name in (*FUNCTIONS, *_SPECIAL)}


def parse_expression(text: str, variables: tuple[int, ...]) -> tuple[Node, int]:
    """Return the tree of an expression, and its size in symbols.

    ``variables``: the numbers of the variables in a row, in order; all others are unbound.  Raises QueryRefused for
    an invalid text, one of more than FILTER_LENGTH_MAX characters, or one of more than EXPRESSION_SYMBOLS_MAX symbols.
    """
    if len(text) > FILTER_LENGTH_MAX:
        reason = f"the canonical text has {len(text)} characters, more than {FILTER_LENGTH_MAX}"
        raise QueryRefused(reason, construct="filter length")
    symbols, _ = tokens.symbols(text, tokens.scan(text, 4 * FILTER_LENGTH_MAX))
    parser = _Parser(text, filters.prepare(text, symbols), {f"v{number}": at for at, number in enumerate(variables)})
    return parser.whole()


def check_size(size: int) -> None:
    """Raise QueryRefused if the filters of a query have too many symbols."""
    if size > EXPRESSION_SYMBOLS_MAX:
        reason = f"more than {EXPRESSION_SYMBOLS_MAX} symbols in the filters of a query"
        raise QueryRefused(reason, construct="filter length")


class _Parser:
    def __init__(self, text: str, symbols: list[Symbol], places: dict[str, int]):
        self._text = text
        self._symbols = symbols
        self._places = places
        self._at = 0
        self._size = 0

    def whole(self) -> tuple[Node, int]:
        found = self._expression()
        if self._at < len(self._symbols):
            self._fail()
        check_size(self._size)
        return found, self._size

    # --- steps over the symbols --------------------------------------------------------------

    def _fail(self) -> NoReturn:
        raise QueryRefused(f"not an expression: {self._text}", construct="syntax error")

    def _next(self) -> Symbol:
        if self._at == len(self._symbols):
            self._fail()
        self._at += 1
        self._size += 1
        check_size(self._size)
        return self._symbols[self._at - 1]

    def _take(self, *marks: str) -> str:
        """Take one of some marks if it comes next; return it, or an empty text."""
        return self._next().value if self._sees(*marks) else ""

    def _sees(self, *marks: str) -> bool:
        return self._at < len(self._symbols) and self._symbols[self._at].is_mark(*marks)

    # --- operators ---------------------------------------------------------------------------

    def _expression(self, least: int = 1) -> Node:
        """Read operands, and the operators between them that bind at least so tightly."""
        left = self._operand()
        compared = False
        while self._at < len(self._symbols):
            symbol = self._symbols[self._at]
            power = _POWERS.get(symbol.value, 0) if symbol.kind in ("mark", "word") else 0
            if power < least:
                break
            sign = self._next().value
            if power == _COMPARISON:
                if compared:
                    self._fail()
                left, compared = self._comparison(left, sign), True
                continue
            right = self._expression(power + 1)
            if sign in _LOGIC:
                op = _LOGIC[sign]
                left = Node(op, (*(left.args if left.op == op else (left,)), right))
            elif left.op == "arithmetic" and _POWERS[left.name[-1]] == power:
                left = left._replace(args=(*left.args, right), name=left.name + sign)
            else:
                left = Node("arithmetic", (left, right), sign)
        return left

    def _comparison(self, left: Node, sign: str) -> Node:
        """Read the rest of a comparison after its sign, IN or NOT."""
        if sign == "NOT":
            self._next()  # IN, as the preparation has checked
            return Node("not", (self._among(left),))
        return self._among(left) if sign == "IN" else Node("compare", (left, self._expression(_COMPARISON + 1)), sign)

    def _among(self, left: Node) -> Node:
        """Read the list after IN; a list of constants has the size of one."""
        start, end = self._at + 1, self._at + 1
        while end + 1 < len(self._symbols) and self._symbols[end].kind in ("iri", "literal"):
            end += 2
            if not self._symbols[end - 1].is_mark(","):
                break
        if not self._symbols[end - 1].is_mark(")") or end == start or not self._symbols[start - 1].is_mark("("):
            return Node("in", (left, *self._arguments()))
        members = tuple(decode_constant(symbol.value) for symbol in self._symbols[start:end:2])
        self._at = end
        self._size += 3
        return Node("in", (left, Node("const", values=members)))

    # --- operands ----------------------------------------------------------------------------

    def _operand(self) -> Node:
        """Read a primary expression, and the sign before it."""
        unary = _UNARY[self._take("!", "-", "+")]
        symbol = self._next()
        if symbol.kind == "var":
            number = self._places.get(symbol.value, -1)
            found = Node("unbound") if number < 0 else Node("var", number=number)
        elif symbol.is_mark("("):
            found = self._expression()
            if not self._take(")"):
                self._fail()
        elif symbol.kind == "word" or (symbol.kind == "iri" and self._sees("(")):
            found = self._call(symbol)
        elif symbol.kind in ("iri", "literal"):
            found = Node("const", values=(decode_constant(symbol.value),))
        else:
            self._fail()
        return Node(unary, (found,)) if unary else found

    def _call(self, symbol: Symbol) -> Node:
        start = self._at
        args = self._arguments()
        if symbol.value == FULL_TEXT:
            return Node("ftcontains", args)
        if symbol.value == VALUE_OF:
            return self._execution_value(args)
        if symbol.value == filters.IRI_WITH_BASE:
            return Node("call", self._counted(args, 2, 2), "IRI")
        if symbol.kind == "iri":
            if len(args) != 1:
                raise QueryRefused("a cast takes one argument", construct=f"function {symbol.value}")
            return Node("cast", args, symbol.value[1:-1])
        name = symbol.value
        if name not in _ARGUMENT_COUNTS:
            self._fail()
        args = self._counted(args, *_ARGUMENT_COUNTS[name])
        if name == "BOUND" and (args[0].op not in ("var", "unbound") or self._at - start > 3):
            self._fail()
        return Node(name.lower(), args) if name in _SPECIAL else Node("call", args, name)

    def _execution_value(self, args: tuple[Node, ...]) -> Node:
        """Return a call of ``VALUE_OF``; its name is the kind, its first argument the seed."""
        texts = [arg.values[0].lexical for arg in args[:2] if arg.op == "const"]
        named = texts[:1] == [NAMED_NODE]
        solution = [arg for arg in args[2 + named :] if arg.op != "unbound"]
        if len(texts) < 2 or texts[0] not in KINDS or len(args) < 2 + named or any(arg.op != "var" for arg in solution):
            self._fail()
        return Node("execution", (*args[1 : 2 + named], *solution), texts[0])

    def _counted(self, args: tuple[Node, ...], least: int, most: int | None) -> tuple[Node, ...]:
        if len(args) < least or (most is not None and len(args) > most):
            self._fail()
        return args

    def _arguments(self) -> tuple[Node, ...]:
        """Read a list of expressions in brackets."""
        if not self._take("("):
            self._fail()
        found: list[Node] = []
        if self._take(")"):
            return ()
        while True:
            found.append(self._expression())
            if self._take(")"):
                return tuple(found)
            if not self._take(","):
                self._fail()
