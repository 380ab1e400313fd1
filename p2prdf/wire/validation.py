"""Checks of received values and messages.

All functions take values that msgpack has built (numbers, strings, byte strings, tuples), or messages made of them.
They raise RemoteProtocolError with the value and the reason.  :mod:`p2prdf.wire.codec` calls them; later code need not
check again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, Final

import numpy as np

from p2prdf import hlc, keys
from p2prdf.columns import Column, as_list
from p2prdf.errors import RemoteProtocolError
from p2prdf.rdf.algebra import WINDOW_MS_MAX
from p2prdf.rdf.dictionary import UNBOUND_TEXT, TermDictionary, TermNames
from p2prdf.rdf.quads import is_reserved, word_parts_of
from p2prdf.rdf.query import Algorithm, Concludes, ConjunctiveQuery, Filter, Pattern, Plan
from p2prdf.wire import messages as m

__all__ = [
    "CONTACTS_MAX", "COUNTS_MAX", "KINDS_MAX", "KNOWN_MAX", "LACKS_MAX", "MEMBERS_MAX", "ORDER_MAX", "PATTERNS_MAX",
    "U32_MAX", "U64_MAX", "check_lengths", "check_message", "check_term", "check_terms", "check_texts", "contact_of",
    "contacts_of", "exactly", "flag", "integer", "permutation", "plan_of", "query_of", "seconds", "shown",
    "strings", "text", "tuple_of",
]  # fmt: skip

U32_MAX: Final = (1 << 32) - 1
U64_MAX: Final = (1 << 64) - 1
CONTACTS_MAX: Final = 1024
"""Maximum number of contacts in one message."""
COUNTS_MAX: Final = 256
"""Maximum number of steps that one peer counts for another at a time."""
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
_TRACED_KINDS: Final = 4
_TRACED_MAX: Final = 64
_ROLES_MAX: Final = (1 << keys.MARK_SHIFT) - 1
_MARKED_ROLES_MAX: Final = (1 << keys.PRIMARY_SHIFT + 8) - 1
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


def contact_of(value: Any) -> m.Contact:
    """Return a contact."""
    key, host, port = exactly(value, 3, "a contact")
    if len(text(host)) > _HOST_CHARACTERS_MAX:
        raise RemoteProtocolError(f"a host name of {len(host)} characters; {_HOST_CHARACTERS_MAX} are allowed")
    return m.Contact(integer(key), host, integer(port, 65_535))


def contacts_of(value: Any) -> tuple[m.Contact, ...]:
    """Return a sequence of contacts."""
    contacts = tuple_of(value, "contacts")
    if len(contacts) > CONTACTS_MAX:
        raise RemoteProtocolError(f"{len(contacts)} contacts; {CONTACTS_MAX} are allowed")
    return tuple(map(contact_of, contacts))


# --- plans and queries ---------------------------------------------------------------------------


def plan_of(value: Any) -> Plan:
    """Return a plan from its parts, in the order of its fields."""
    parts = exactly(value, 10, "a plan")
    algorithm, per_event, distinct, patterns, order, answer, filters, constants, concludes, span = parts
    patterns, variables = _patterns(patterns, integer(constants, 3 * PATTERNS_MAX))
    order = permutation(order, len(patterns))
    rule = _concludes(concludes, patterns, answer, plain=not (flag(per_event) or flag(distinct)))
    if rule and order[-1] != len(order) - 1:
        raise RemoteProtocolError("what a rule concludes is not the last step of its plan")
    return Plan(
        _ALGORITHMS[_algorithm(algorithm)], flag(per_event), flag(distinct), patterns, order,
        _variables(answer, variables), _filters(filters, variables), constants, Concludes(concludes),
        integer(span, WINDOW_MS_MAX),
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


def _algorithm(value: Any) -> str:
    if text(value) not in _ALGORITHMS:
        raise RemoteProtocolError(f"unknown algorithm {shown(value)}")
    return value  # type: ignore[no-any-return]  # a string, as was just seen


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
    for part in tuple_of(value, "filters"):
        expression, variables = exactly(part, 2, "a filter")
        variables = _variables(variables, known)
        if list(variables) != sorted(set(variables)):
            raise RemoteProtocolError("the variables of a filter are not ascending")
        filters.append(Filter(text(expression), variables))
    return tuple(filters)


# --- messages ------------------------------------------------------------------------------------


def check_lengths(columns: Sequence[Column], what: str) -> None:
    """Check that the columns of one message are equally long."""
    if columns:
        count = len(columns[0])
        for column in columns:
            if len(column) != count:
                raise RemoteProtocolError(f"{what}: columns of {count} and of {len(column)} rows")


def check_message(message: Any, dictionary: TermDictionary | TermNames) -> None:
    """Check the consistency of a message's parts."""
    check = _CHECKS.get(type(message))
    if check is not None:
        check(message, dictionary)


def _below(column: Column, bound: int, what: str) -> None:
    if len(column):
        top = max(column) if isinstance(column, list) else int(column.max())
        if top >= bound:
            raise RemoteProtocolError(f"{what} {top}; the bound is {bound}")


def _no_literals(column: Column, dictionary: TermDictionary | TermNames, what: str) -> None:
    if isinstance(column, list) or len(column) <= _FEW or isinstance(dictionary, TermNames):
        found = any(dictionary.literals[term] for term in as_list(column))
    else:
        found = bool(dictionary.literal_array().take(column.astype(np.intp)).any())
    if found:
        raise RemoteProtocolError(f"a literal as {what} of a triple")


def _literals_of_ours(column: Column, dictionary: TermDictionary | TermNames, what: str) -> None:
    """Accept no literals except those by which named graphs are indexed (:mod:`p2prdf.rdf.quads`)."""
    if isinstance(column, list) or len(column) <= _FEW or isinstance(dictionary, TermNames):
        found = [term for term in set(as_list(column)) if dictionary.literals[term]]
    else:
        numbers = column.astype(np.intp)
        literal = dictionary.literal_array().take(numbers)
        found = np.unique(numbers[literal]).tolist() if literal.any() else []
    if not all(map(is_reserved, dictionary.texts(found))):
        raise RemoteProtocolError(f"a literal as {what} of a triple")


def _check_publish(message: m.ClientPublish, dictionary: TermDictionary | TermNames) -> None:  # noqa: ARG001
    if len(message.graph) > 1:
        raise RemoteProtocolError(f"{len(message.graph)} columns of graphs; a triple is in one")
    if message.by_content and message.first_event:
        raise RemoteProtocolError(f"first event {message.first_event} of events that have no numbers")
    if len(message.times) > 1:
        raise RemoteProtocolError(f"{len(message.times)} columns of times; an element has one")


def _check_heartbeat(
    message: m.ClientHeartbeat | m.ClientEndStream, dictionary: TermDictionary | TermNames  # noqa: ARG001
) -> None:
    if len(message.stream) > _STREAM_CHARACTERS_MAX:  # what it is, the node checks
        raise RemoteProtocolError(f"a stream's IRI of {len(message.stream)} characters")
    for what, time in (("began", message.began), ("upto", message.upto)):
        if time > hlc.ELEMENT_MS_MAX:
            raise RemoteProtocolError(f"{what} {time} ms since 1970; {hlc.ELEMENT_MS_MAX} is the last event time")


def _check_traced(message: m.Traced, dictionary: TermDictionary | TermNames) -> None:  # noqa: ARG001
    if not 1 <= message.kind <= _TRACED_KINDS or len(message) > _TRACED_MAX:
        raise RemoteProtocolError(f"{len(message)} traces of messages of kind {message.kind}")


def _check_watch(message: m.WatchWatermarks, dictionary: TermDictionary | TermNames) -> None:  # noqa: ARG001
    if len(message.streams) > 1:
        raise RemoteProtocolError(f"{len(message.streams)} columns of streams; there is one")


def _check_ends(message: m.KeepEnds, dictionary: TermDictionary | TermNames) -> None:  # noqa: ARG001
    _below(message.began, hlc.ELEMENT_MS_MAX + 1, "an event time of")
    _below(message.upto, hlc.ELEMENT_MS_MAX + 1, "an event time of")


def _check_index_triples(message: m.IndexTriples, dictionary: TermDictionary | TermNames) -> None:
    _literals_of_ours(message.s, dictionary, "subject")
    _literals_of_ours(message.p, dictionary, "predicate")
    _below(message.roles, _MARKED_ROLES_MAX + 1, "a set of roles")
    integer(message.published, _ROLES_MAX)


def _check_step(message: m.IndexQuery | m.Forward, dictionary: TermDictionary | TermNames) -> None:  # noqa: ARG001
    plan = message.plan
    if message.step >= len(plan.order):
        raise RemoteProtocolError(f"step {message.step} of a plan of {len(plan.order)}")
    if len(message.groups.params) != plan.constant_count:
        raise RemoteProtocolError(f"{len(message.groups.params)} constants for a plan of {plan.constant_count}")


def _check_index_query(message: m.IndexQuery, dictionary: TermDictionary | TermNames) -> None:
    _check_step(message, dictionary)
    step = message.plan.steps[message.step]
    if any(slot >= 0 and step.role & bit for bit, slot in zip((keys.S, keys.P, keys.O), step.pattern, strict=True)):
        raise RemoteProtocolError(f"step {message.step} waits under values that only rows have")


def _check_forward(message: m.Forward, dictionary: TermDictionary | TermNames) -> None:
    _check_step(message, dictionary)
    bound = message.plan.steps[message.step].bound
    if len(message.rows.bindings) != len(bound):
        raise RemoteProtocolError(f"{len(message.rows.bindings)} bindings for a step that carries {len(bound)}")
    _below(message.rows.group, len(message.groups), "a row of group")


def _check_answers(message: m.Answers, dictionary: TermDictionary | TermNames) -> None:  # noqa: ARG001
    _below(message.rows.group, len(message.groups), "a row of group")


def _check_get_rates(message: m.RatesRequest, dictionary: TermDictionary | TermNames) -> None:  # noqa: ARG001
    _below(message.position, PATTERNS_MAX, "a pattern at position")
    _below(message.roles, _ROLES_MAX + 1, "a role")


def _check_rates(message: m.RatesResponse, dictionary: TermDictionary | TermNames) -> None:  # noqa: ARG001
    _below(message.position, PATTERNS_MAX, "a pattern at position")


def _check_roles(message: m.AdvertiseIndexes | m.IndexesResponse, dictionary: TermDictionary | TermNames) -> None:  # noqa: ARG001
    integer(message.roles, _ROLES_MAX)


def _check_words(message: m.AdvertiseKeywords, dictionary: TermDictionary | TermNames) -> None:
    for each in dictionary.texts(as_list(message.predicates)):
        if word_parts_of(each) is None:
            raise RemoteProtocolError(f"{each!r:.60} is no predicate of texts with words")


def _check_not_owner(message: m.NotOwner, dictionary: TermDictionary | TermNames) -> None:  # noqa: ARG001
    if message.before and len(message.before) != len(message.contacts):
        raise RemoteProtocolError(f"{len(message.before)} peers before {len(message.contacts)} others")


def _check_depth(message: m.HoldSubKeys | m.KeyDepth, dictionary: TermDictionary | TermNames) -> None:  # noqa: ARG001
    if message.role not in keys.SPLIT_ROLES:
        raise RemoteProtocolError(f"sub-keys under role {message.role}, which has none")
    integer(message.depth, keys.DEPTH_MAX)


def _check_kind(message: m.BucketDigests | m.IdentityList | m.Fetch | m.FetchDone,
    dictionary: TermDictionary | TermNames) -> None:  # noqa: ARG001
    integer(message.kind, KINDS_MAX - 1)
    if isinstance(message, m.BucketDigests | m.IdentityList):
        integer(message.lacks, LACKS_MAX)
    if isinstance(message, m.IdentityList):
        integer(message.members, MEMBERS_MAX)
    if isinstance(message, m.BucketDigests) and (not len(message.sums) or len(message.sums) & len(message.sums) - 1):
        raise RemoteProtocolError(f"{len(message.sums)} sums; a power of two is needed")


def _check_members(message: m.MembersKnown, dictionary: TermDictionary | TermNames) -> None:  # noqa: ARG001
    integer(message.lacks, LACKS_MAX)


def _check_cluster(message: m.ClusterKnown, dictionary: TermDictionary | TermNames) -> None:  # noqa: ARG001
    integer(message.members, MEMBERS_MAX)
    if len(message.former) > m.FORMER_MAX:
        raise RemoteProtocolError(f"{len(message.former)} former clusters; there are at most {m.FORMER_MAX}")


def _check_kinds(message: m.RootDigests | m.DigestDiff, dictionary: TermDictionary | TermNames) -> None:  # noqa: ARG001
    _below(message.kinds, KINDS_MAX, "a kind")
    if len(message.kinds) > KINDS_MAX:
        raise RemoteProtocolError(f"{len(message.kinds)} kinds; there are at most {KINDS_MAX}")


def _check_lease(
    message: m.OpenSubscription | m.SubscriptionOpened | m.KeepSubscription,
    dictionary: TermDictionary | TermNames,  # noqa: ARG001
) -> None:
    if message.lease_seconds < LEASE_SECONDS_MIN:
        raise RemoteProtocolError(f"a lease of {message.lease_seconds} s is less than {LEASE_SECONDS_MIN} s")


def _check_open(message: m.OpenSubscription, dictionary: TermDictionary | TermNames) -> None:
    _algorithm(message.algorithm)
    _check_lease(message, dictionary)


def _check_keep_subscription(message: m.KeepSubscription, dictionary: TermDictionary | TermNames) -> None:
    _algorithm(message.algorithm)
    _check_lease(message, dictionary)
    query, first = message.query, 0
    leaves = (query,) if isinstance(query, ConjunctiveQuery) else query.leaves
    for leaf in leaves:
        part = message.order[first : first + len(leaf.patterns)]
        permutation(tuple(position - first for position in part), len(leaf.patterns))
        first += len(leaf.patterns)
    if first != len(message.order):
        raise RemoteProtocolError(f"an order of {len(message.order)} patterns for a query of {first}")


def _check_tell_known(message: m.NamesResponse, dictionary: TermDictionary | TermNames) -> None:  # noqa: ARG001
    _below(message.known, KNOWN_MAX + 1, "a knowledge of")
    _below(message.kinds, 2, "a kind of name")


def _check_ask_known(message: m.NamesRequest, dictionary: TermDictionary | TermNames) -> None:  # noqa: ARG001
    _below(message.kinds, 2, "a kind of name")


def _check_ask_counts(message: m.CountsRequest, dictionary: TermDictionary | TermNames) -> None:  # noqa: ARG001
    _below(message.under, m.EVENTS_COUNTED + m.NOT_COUNTED, "a role")
    _below(message.masks, keys.SPO + 1, "a mask")
    if len(message) > COUNTS_MAX:
        raise RemoteProtocolError(f"counts of {len(message)} steps; {COUNTS_MAX} are told at a time")


def _check_introduced(message: m.ClientListIntroduced, dictionary: TermDictionary | TermNames) -> None:  # noqa: ARG001
    if len(message.statements) % 3:
        raise RemoteProtocolError(f"{len(message.statements)} texts of statements; each has three")


def _check_algorithm(
    message: m.ClientSubscribe | m.ClientExplain, dictionary: TermDictionary | TermNames  # noqa: ARG001
) -> None:
    _algorithm(message.algorithm)


_CHECKS: Final[dict[type, Callable[[Any, TermDictionary | TermNames], None]]] = {
    m.IndexTriples: _check_index_triples, m.ClientPublish: _check_publish,
    m.ClientHeartbeat: _check_heartbeat, m.ClientEndStream: _check_heartbeat, m.IndexQuery: _check_index_query,
    m.Traced: _check_traced, m.WatchWatermarks: _check_watch, m.KeepEnds: _check_ends,
    m.Forward: _check_forward, m.Answers: _check_answers, m.RatesRequest: _check_get_rates,
    m.RatesResponse: _check_rates, m.NotOwner: _check_not_owner, m.AdvertiseIndexes: _check_roles,
    m.IndexesResponse: _check_roles,
    m.AdvertiseKeywords: _check_words,
    m.HoldSubKeys: _check_depth, m.KeyDepth: _check_depth,
    m.BucketDigests: _check_kind, m.IdentityList: _check_kind, m.Fetch: _check_kind, m.FetchDone: _check_kind,
    m.MembersKnown: _check_members, m.ClusterKnown: _check_cluster, m.RootDigests: _check_kinds,
    m.DigestDiff: _check_kinds,
    m.OpenSubscription: _check_open, m.SubscriptionOpened: _check_lease, m.ClientSubscribe: _check_algorithm,
    m.KeepSubscription: _check_keep_subscription, m.NamesResponse: _check_tell_known,
    m.NamesRequest: _check_ask_known, m.CountsRequest: _check_ask_counts, m.ClientExplain: _check_algorithm,
    m.ClientListIntroduced: _check_introduced,
}  # fmt: skip
