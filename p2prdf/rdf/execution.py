"""NOW, RAND, UUID, STRUUID and BNODE: functions with values of one execution.

Several nodes evaluate parts of a query, some of them again after a failure, and must agree on every value.  So NOW
becomes a literal when the query is parsed.  A call of another function becomes a call of ``VALUE_OF``: a pseudo-random
function of a seed, of the position of the call, and of all variables of its solution.  Different solutions, calls and
executions have different values.  Equal solutions of one bag share a value.

BNODE with an argument has the same node for equal arguments in one solution, so its position does not matter.

A standing query has no single execution, so it has no such values.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from p2prdf.rdf import terms
from p2prdf.rdf.tokens import Symbol, refusal
from p2prdf.rdf.values import Family, Value, number, string

__all__ = [
    "CALLS", "KINDS", "NAMED_NODE", "NO_EXECUTION", "VALUE_OF", "Execution", "value_of", "with_values",
]  # fmt: skip

VALUE_OF: Final = "<urn:p2prdf:value>"
"""The function that computes a value.

Its arguments are the kind, the seed, the text for a blank node if there is one, and the variables of the solution.
"""
NAMED_NODE: Final = "BNODE of"
"""The kind of BNODE with an argument."""


class Execution(NamedTuple):
    """An execution of a query.

    ``now``: the lexical form of an xsd:dateTime.  ``seed``: 1 to 64 of ``A-Z a-z 0-9 . _ -``, part of the names of new
    blank nodes; no other execution has it.
    """

    now: str = "1970-01-01T00:00:00Z"
    seed: str = "execution"


NO_EXECUTION: Final = Execution()
"""Stands for an execution where a query is only checked."""


# --- in the text of a query ----------------------------------------------------------------------


def with_values(
    text: str, symbols: Iterable[Symbol], solution: Sequence[str], execution: Execution
) -> tuple[Symbol, ...]:
    """Return an expression in which values of an execution take the place of calls.

    ``text``: the query, for refusals.  ``solution``: the variables that make up a solution.
    """
    found = list(symbols)
    result: list[Symbol] = []
    depth = 0
    opened: list[int] = []
    at = 0
    while at < len(found):
        symbol = found[at]
        at += 1
        if symbol.is_word(*CALLS):
            empty = [each.value for each in found[at : at + 2]] == ["(", ")"]
            if not empty and (symbol.value != "BNODE" or not (at < len(found) and found[at].is_mark("("))):
                raise refusal(text, symbol.at, symbol.value, f"write {symbol.value}() without an argument")
            if symbol.value == "NOW":
                result.append(Symbol("literal", terms.literal(execution.now, f"{terms.XSD}dateTime"), symbol.at))
                at += 2
                continue
            result += _opening(symbol, execution, empty=empty)
            opened.append(depth)
            depth += 1
            at += 1
            continue
        if symbol.is_mark(",") and opened and opened[-1] == depth - 1:
            raise refusal(text, symbol.at, "BNODE", "it takes one argument at most")
        depth += symbol.is_mark("(") - symbol.is_mark(")")
        if symbol.is_mark(")") and opened and opened[-1] == depth:
            opened.pop()
            for name in solution:
                result += [Symbol("mark", ",", symbol.at), Symbol("var", name, symbol.at)]
        result.append(symbol)
    return tuple(result)


def _opening(call: Symbol, execution: Execution, *, empty: bool) -> Iterator[Symbol]:
    """Yield a call up to its fixed arguments."""
    kind, seed = (call.value, f"{execution.seed} {call.at}") if empty else (NAMED_NODE, execution.seed)
    yield Symbol("iri", VALUE_OF, call.at)
    yield Symbol("mark", "(", call.at)
    yield Symbol("literal", terms.literal(kind), call.at)
    yield Symbol("mark", ",", call.at)
    yield Symbol("literal", terms.literal(seed), call.at)
    if not empty:
        yield Symbol("mark", ",", call.at)


# --- values --------------------------------------------------------------------------------------


def value_of(kind: str, seed: str, parts: Iterable[str | None]) -> Value:
    """Return the value of a call; ``parts``: the terms that determine it."""
    text = "\n".join((seed, *(part or "" for part in parts)))  # canonical terms contain no line break
    return _MAKERS[kind](seed, hashlib.blake2b(text.encode(), digest_size=16).hexdigest())


def _uuid(digits: str) -> str:
    variant = "89ab"[int(digits[16], 16) % 4]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


def _node(seed: str, digits: str) -> Value:
    return Value(Family.BLANK, terms.skolem(seed.partition(" ")[0], digits)[1:-1])


_MAKERS: Final[dict[str, Callable[[str, str], Value]]] = {
    "RAND": lambda _, digits: number((int(digits, 16) >> 75) / (1 << 53), 3),
    "UUID": lambda _, digits: Value(Family.IRI, f"urn:uuid:{_uuid(digits)}"),
    "STRUUID": lambda _, digits: string(_uuid(digits)),
    "BNODE": _node,
    NAMED_NODE: _node,
}
KINDS: Final = frozenset(_MAKERS)
"""Kinds of values."""
CALLS: Final = KINDS - {NAMED_NODE} | {"NOW"}
"""The functions, by name."""
