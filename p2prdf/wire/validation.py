"""Checks of received values and messages.

All functions take values that msgpack has built (numbers, strings, byte strings, tuples), or messages made of them.
They raise RemoteProtocolError with the value and the reason.  :mod:`p2prdf.wire.codec` calls them; later code need not
check again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence, Sized
from itertools import islice
from typing import Any, Final

import numpy as np

from p2prdf import keys
from p2prdf.columns import Column
from p2prdf.errors import RemoteProtocolError
from p2prdf.rdf.algebra import WINDOW_MS_MAX
from p2prdf.rdf.dictionary import UNBOUND_TEXT, TermDictionary, TermNames
from p2prdf.rdf.quads import is_reserved
from p2prdf.rdf.query import (
    FILTERS_BYTES_MAX,
    Algorithm,
    Concludes,
    ConjunctiveQuery,
    Filter,
    Pattern,
    Plan,
    filter_bytes,
)

__all__ = [
    "CONTACTS_MAX", "COUNTS_MAX", "KEYS_READ_MAX", "KINDS_MAX", "KNOWN_MAX", "LACKS_MAX", "MEMBERS_MAX", "ORDER_MAX",
    "PATTERNS_MAX", "U32_MAX", "U64_MAX", "algorithm", "at_most", "below", "check_lengths", "check_term", "check_terms",
    "check_texts", "exactly", "flag", "host", "indexable", "integer", "lease", "permutation", "plan_of", "query_of",
    "seconds", "shown", "split_role", "stream", "strings", "text", "tuple_of",
]  # fmt: skip

U32_MAX: Final = (1 << 32) - 1
U64_MAX: Final = (1 << 64) - 1
CONTACTS_MAX: Final = 1024
"""Maximum number of contacts in one message."""
COUNTS_MAX: Final = 256
"""Maximum number of steps that one peer counts for another at a time."""
KEYS_READ_MAX: Final = 1024
"""Maximum number of keys that one peer reads for another at a time."""
KINDS_MAX: Final = 32
"""Maximum number of item types that replicas compare."""
LACKS_MAX: Final = 3
"""The largest recovery state (:class:`p2prdf.peer.network.quorum.RecoveryState`)."""
MEMBERS_MAX: Final = 1 << 20
"""Maximum number of members that another peer may report."""
KNOWN_MAX: Final = 4
"""The largest state of a group or subscription (:class:`p2prdf.continuous.home.Known`)."""
PATTERNS_MAX: Final = 256
"""Maximum number of patterns of one conjunctive query; a parser's bound is lower."""
ORDER_MAX: Final = 1024
"""Maximum number of patterns in all leaves of a standing query; a parser's bound is lower."""

LEASE_SECONDS_MIN: Final = 0.01
"""The shortest lease between peers; a smaller summand would not change the time of day."""

_HOST_CHARACTERS_MAX: Final = 255
_STREAM_CHARACTERS_MAX: Final = 1 << 20
_FEW: Final = 32  # rows for which a loop is faster than a numpy call
_ALGORITHMS: Final = {algorithm.value: algorithm for algorithm in Algorithm}


# --- values --------------------------------------------------------------------------------------


def shown(value: object) -> str:
    """Return a value from outside as text of bounded size, for an error message."""
    if isinstance(value, str | bytes):
        return repr(value[:40]) + ("..." if len(value) > 40 else "")
    return repr(value) if value is None or isinstance(value, int | float) else f"a {type(value).__name__}"


def tuple_of(value: Any, what: str) -> tuple[Any, ...]:
    """Return a sequence of anything."""
    if type(value) is not tuple:
        raise RemoteProtocolError(f"{what}: {shown(value)} is not a sequence")
    return value


def exactly(value: Any, count: int, what: str) -> tuple[Any, ...]:
    """Return a sequence of ``count`` parts."""
    if len(tuple_of(value, what)) != count:
        raise RemoteProtocolError(f"{what} has {count} parts, not {len(value)}")
    return value  # type: ignore[no-any-return]  # a tuple, as was just seen


def integer(value: Any, top: int = U64_MAX) -> int:
    """Return an integer from 0 to ``top``."""
    if type(value) is not int or not 0 <= value <= top:
        raise RemoteProtocolError(f"{shown(value)} is not an integer from 0 to {top}")
    return value


def flag(value: Any) -> bool:
    """Return a truth value."""
    if type(value) is not bool:
        raise RemoteProtocolError(f"{shown(value)} is not true or false")
    return value


def text(value: Any) -> str:
    """Return a string."""
    if type(value) is not str:
        raise RemoteProtocolError(f"{shown(value)} is not a string")
    return value


def strings(value: Any) -> tuple[str, ...]:
    """Return a sequence of strings."""
    return tuple(map(text, tuple_of(value, "strings")))


def seconds(value: Any) -> float:
    """Return a finite duration, not below zero."""
    if type(value) not in (int, float) or not 0 <= value < 1 << 53:  # NaN is not
        raise RemoteProtocolError(f"{shown(value)} is not a number of seconds")
    return float(value)


def permutation(value: Any, count: int | None = None) -> tuple[int, ...]:
    """Return a permutation of the numbers from 0 to ``count`` - 1 (None: as many as there are)."""
    numbers = tuple_of(value, "an order")
    if count is None:
        count = len(numbers)
    if count > ORDER_MAX or sorted(integer(number, ORDER_MAX) for number in numbers) != list(range(count)):
        raise RemoteProtocolError(f"not an order of {count} patterns")
    return numbers


def check_term(term: Any) -> None:
    """Check that a term has the outer shape of an N-Triples IRI or literal."""
    if text(term)[:1] == "<":
        well_formed = term[-1] == ">" and len(term) > 2
    else:
        well_formed = term[:1] == '"' and term.rfind('"') > 0
    if not well_formed:
        raise RemoteProtocolError(f"{shown(term)} is not a term in N-Triples form")


_TERMS_AT_ONCE: Final = 4096
_WELL_FORMED: Final = re.compile(r'(?:(?:<[^\n]+>|"[^"\n]*"[^\n]*)?\n)*')


def check_terms(terms: Iterable[Any]) -> None:
    """Check many terms as :func:`check_term` does: some thousand at once, one by one if that fails.

    The empty text is accepted, too: it stands for an unbound value.
    """
    remaining = iter(terms)
    while some := list(islice(remaining, _TERMS_AT_ONCE)):
        try:
            joined = "\n".join(some)
        except TypeError:
            joined = ""
        if joined.count("\n") != len(some) - 1 or not _WELL_FORMED.fullmatch(joined + "\n"):
            for term in some:
                if term != UNBOUND_TEXT:
                    check_term(term)


def check_texts(terms: Iterable[Any]) -> None:
    """Check that terms are texts; the receiver of their message checks the rest."""
    for term in terms:
        text(term)


def host(value: Any) -> str:
    """Return the name or address of a host."""
    if len(text(value)) > _HOST_CHARACTERS_MAX:
        raise RemoteProtocolError(f"a host name of {len(value)} characters; {_HOST_CHARACTERS_MAX} are allowed")
    return value  # type: ignore[no-any-return]  # a string, as was just seen


def lease(value: Any) -> float:
    """Return the duration of a lease."""
    if (found := seconds(value)) < LEASE_SECONDS_MIN:
        raise RemoteProtocolError(f"a lease of {found} s is less than {LEASE_SECONDS_MIN} s")
    return found


def algorithm(value: Any) -> str:
    """Return the name of an algorithm."""
    if text(value) not in _ALGORITHMS:
        raise RemoteProtocolError(f"unknown algorithm {shown(value)}")
    return value  # type: ignore[no-any-return]  # a string, as was just seen


def stream(value: Any) -> str:
    """Return a stream's IRI; the node checks its form."""
    if len(text(value)) > _STREAM_CHARACTERS_MAX:
        raise RemoteProtocolError(f"a stream's IRI of {len(value)} characters; {_STREAM_CHARACTERS_MAX} are allowed")
    return value  # type: ignore[no-any-return]  # a string, as was just seen


def split_role(value: Any) -> int:
    """Return an index of which hot keys have sub-keys."""
    if integer(value) not in keys.SPLIT_ROLES:
        raise RemoteProtocolError(f"sub-keys under role {value}, which has none")
    return value  # type: ignore[no-any-return]  # an integer, as was just seen


def at_most(parts: Sized, top: int, what: str) -> Any:
    """Return something of at most ``top`` parts."""
    if len(parts) > top:
        raise RemoteProtocolError(f"{len(parts)} {what}; {top} are allowed")
    return parts


# --- plans and queries ---------------------------------------------------------------------------


def plan_of(value: Any) -> Plan:
    """Return a plan from its parts, in the order of its fields."""
    exact = isinstance(value, (list, tuple)) and len(value) == 11  # the last part was added later
    parts = exactly(value, 10 + exact, "a plan")
    name, per_event, distinct, patterns, order, answer, filters, constants, concludes, span = parts[:10]
    patterns, variables = _patterns(patterns, integer(constants, 3 * PATTERNS_MAX))
    order = permutation(order, len(patterns))
    rule = _concludes(concludes, patterns, answer, plain=not (flag(per_event) or flag(distinct)))
    if rule and order[-1] != len(order) - 1:
        raise RemoteProtocolError("what a rule concludes is not the last step of its plan")
    exact = exact and flag(parts[10])
    if exact and len(order) != 1:
        raise RemoteProtocolError("a plan for settled delivery has one pattern")
    return Plan(
        _ALGORITHMS[algorithm(name)], flag(per_event), flag(distinct), patterns, order,
        _variables(answer, variables), _filters(filters, variables), constants, Concludes(concludes),
        integer(span, WINDOW_MS_MAX), exact,
    )  # fmt: skip


def query_of(value: Any) -> ConjunctiveQuery:
    """Return a query from its parts, in the order of its fields."""
    patterns, constants, answer, names, distinct, filters, concludes = exactly(value, 7, "a query")
    constants = strings(constants)
    for constant in constants:
        check_term(constant)
    patterns, variables = _patterns(patterns, len(constants))
    answer, names = _variables(answer, variables), strings(names)
    if len(names) != len(answer):
        raise RemoteProtocolError(f"{len(names)} names for an answer of {len(answer)} variables")
    _concludes(concludes, patterns, answer, plain=not flag(distinct))
    found = _filters(filters, variables)
    return ConjunctiveQuery(patterns, constants, answer, names, distinct, found, Concludes(concludes))


def _concludes(value: Any, patterns: Sequence[Pattern], answer: Sequence[int], *, plain: bool) -> bool:
    """Return whether the last pattern is a conclusion.  Raises RemoteProtocolError if it cannot be one."""
    if not integer(value, len(Concludes) - 1):
        return False
    bound = {slot for pattern in patterns[:-1] for slot in pattern}
    s, p, o = patterns[-1]
    if len(patterns) < 2 or len(answer) or not plain or p >= 0 or not bound.issuperset(v for v in (s, o) if v >= 0):
        raise RemoteProtocolError("a rule has a body that binds its conclusion, with a predicate, and no answer")
    return True


def _patterns(value: Any, constant_count: int) -> tuple[tuple[Pattern, ...], set[int]]:
    """Return patterns and the variables in them."""
    patterns = tuple_of(value, "patterns")
    if not 0 < len(patterns) <= PATTERNS_MAX:
        raise RemoteProtocolError(f"{len(patterns)} patterns; 1 to {PATTERNS_MAX} are allowed")
    top = 3 * len(patterns)
    variables = set()
    for pattern in patterns:
        for slot in exactly(pattern, 3, "a pattern"):
            if type(slot) is not int or not -constant_count <= slot < top:
                raise RemoteProtocolError(f"slot {shown(slot)} is no variable and none of {constant_count} constants")
            if slot >= 0:
                variables.add(slot)
    return patterns, variables


def _variables(value: Any, known: set[int]) -> tuple[int, ...]:
    variables = tuple_of(value, "variables")
    for variable in variables:
        if type(variable) is not int or variable not in known:
            raise RemoteProtocolError(f"{shown(variable)} is no variable of the patterns")
    return variables


def _filters(value: Any, known: set[int]) -> tuple[Filter, ...]:
    filters = []
    size = 0
    for part in tuple_of(value, "filters"):
        expression, variables = exactly(part, 2, "a filter")
        variables = _variables(variables, known)
        if list(variables) != sorted(set(variables)):
            raise RemoteProtocolError("the variables of a filter are not ascending")
        filters.append(Filter(text(expression), variables))
        size += filter_bytes(expression, variables)
    if size > FILTERS_BYTES_MAX:
        raise RemoteProtocolError(f"filters of {size} bytes; {FILTERS_BYTES_MAX} are allowed")
    return tuple(filters)


# --- messages ------------------------------------------------------------------------------------


def check_lengths(columns: Sequence[Column], what: str) -> None:
    """Check that the columns of one message are equally long."""
    if columns:
        count = len(columns[0])
        for column in columns:
            if len(column) != count:
                raise RemoteProtocolError(f"{what}: columns of {count} and of {len(column)} rows")


def below(column: Column, bound: int, what: str) -> None:
    """Check that all values of a column are below a bound."""
    if len(column):
        top = max(column) if isinstance(column, list) else int(column.max())
        if top >= bound:
            raise RemoteProtocolError(f"{what} {top}; the bound is {bound}")


def indexable(column: Column, dictionary: TermDictionary | TermNames, what: str) -> None:
    """Accept no literals except those by which named graphs are indexed (:mod:`p2prdf.rdf.quads`)."""
    if isinstance(column, list) or len(column) <= _FEW or isinstance(dictionary, TermNames):
        column, literals = column if isinstance(column, list) else column.tolist(), dictionary.literals
        if not any(map(literals.__getitem__, column)):
            return
        found = [term for term in set(column) if literals[term]]
    else:
        numbers = column.astype(np.intp)
        literal = dictionary.literal_array().take(numbers)
        found = np.unique(numbers[literal]).tolist() if literal.any() else []
    if found and not all(map(is_reserved, dictionary.texts(found))):
        raise RemoteProtocolError(f"a literal as {what} of a triple")
