"""Measured memory of single peers: a peer's share of the fleet, in tables of its own.

Bytes per triple are not constant: columns and indexes grow in steps, terms differ in length, and a copy in a second
index costs less than the first.  So the triples, rows and answers of one peer are taken from the fleet and put, in
their original batches, into a dictionary, tables and a coordinator like the daemon's.  Arrays are measured by their
sizes, strings and dictionaries by Python's trace of allocations.

Not measured: the process itself, messages under way, logs of subscribers that do not acknowledge.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from p2prdf import keys
from p2prdf.columns import ARRAYS, as_array
from p2prdf.rdf.compiled import compile_filter
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.rdf.query import Plan
from p2prdf.store.columnar import ColumnarTables
from p2prdf.store.result_log import ResultLog
from p2prdf.store.tables import Derived
from p2prdf.wire.messages import Groups

__all__ = ["Footprint", "Share", "measure"]

U64 = npt.NDArray[np.uint64]
U32 = npt.NDArray[np.uint32]
I64 = npt.NDArray[np.int64]

_SAMPLED_MAX: Final = 200_000
"""Most terms, and most answers, that are measured; the bytes of more are extrapolated."""

_FOREVER: Final = (1 << 63) - 1
_AT_ONCE: Final = 1000
"""Terms, and answers, per batch, as of one message."""


@dataclass(slots=True)
class Share:
    """The contents of one peer.

    ``s``, ``p``, ``o``, ``roles``: triples and the indexes in which the peer has them, in order of publication.
    ``waiting``: plans with the numbers of the groups that have patterns waiting at the peer, by step.
    ``rows``: partial results, with group numbers as in the fleet.  ``answers``: answers seen as a coordinator.
    """

    peer: int
    s: U32
    p: U32
    o: U32
    roles: U32
    waiting: list[tuple[Plan, int, I64]]
    rows: list[Derived]
    answers: int
    entered: U32 = field(default_factory=lambda: np.zeros(0, np.uint32))
    """Terms of the triples that are published at this peer: an entry peer keeps them."""

    @property
    def copies(self) -> int:
        """Number of triples, once for each index."""
        return int(sum(np.count_nonzero(self.roles >> np.uint32(role) & np.uint32(1)) for role in keys.ROLES))


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes of one peer by purpose, and counts of its contents."""

    peer: int
    triples: int
    copies: int
    rows: int
    queries: int
    terms: int
    answers: int
    triples_bytes: int
    rows_bytes: int
    queries_bytes: int
    terms_bytes: int
    answers_bytes: int

    @property
    def bytes(self) -> int:
        """The sum."""
        return self.triples_bytes + self.rows_bytes + self.queries_bytes + self.terms_bytes + self.answers_bytes

    def as_dict(self) -> dict[str, int]:
        """Return plain JSON values."""
        return {**{name: getattr(self, name) for name in self.__slots__ if name != "peer"}, "bytes": self.bytes}


def measure(share: Share, terms: TermDictionary, params: dict[Plan, list[U32]], batches: int) -> Footprint:
    """Return the memory of a share that came in ``batches`` batches; ``terms`` and ``params`` are the fleet's."""
    own, ids, terms_bytes = _own_terms(share, terms, params)
    queries_bytes, rows_bytes, all_bytes = (
        _filled(share, own, ids, params, batches, parts).nbytes for parts in ("", "rows", "rows triples")
    )
    return Footprint(
        share.peer, len(share.s), share.copies, sum(len(rows) for rows in share.rows),
        sum(len(group) for _, _, group in share.waiting), len(own), share.answers,
        all_bytes - rows_bytes, rows_bytes - queries_bytes, queries_bytes, terms_bytes, _answers_bytes(share.answers),
    )  # fmt: skip


def _filled(
    share: Share, own: TermDictionary, ids: U32, params: dict[Plan, list[U32]], batches: int, parts: str
) -> ColumnarTables:
    """Return tables that hold the share's queries, and its rows and triples if they are among ``parts``."""
    tables = ColumnarTables(own, compile_filter)
    numbers = _install(share, tables, ids, params)
    renamed = [_renamed(rows, ids, numbers) for rows in share.rows]
    for batch in range(batches):
        if "triples" in parts:
            _add_triples(tables, share, ids, *_cut(len(share.s), batch, batches))
        for rows in renamed if "rows" in parts else ():
            start, end = _cut(len(rows), batch, batches)
            if end > start:
                tables.add_rows(_rows_between(rows, start, end))
    return tables


def _cut(count: int, batch: int, batches: int) -> tuple[int, int]:
    """Return start and end of part ``batch`` of ``batches`` equal parts."""
    return count * batch // batches, count * (batch + 1) // batches


def _add_triples(tables: ColumnarTables, share: Share, ids: U32, start: int, end: int) -> None:
    if end > start:
        s, p, o = (ids[column[start:end]] for column in (share.s, share.p, share.o))
        time = np.arange(start + 2, end + 2, dtype=np.uint64)
        tables.add_triples(s, p, o, time, time, share.roles[start:end])


def _rows_between(rows: Derived, start: int, end: int) -> Derived:
    return Derived(
        rows.plan, rows.step, rows.group[start:end], rows.identity[start:end], rows.oldest[start:end],
        rows.born[start:end], tuple(column[start:end] for column in rows.bindings),
    )  # fmt: skip


def _own_terms(share: Share, terms: TermDictionary, params: dict[Plan, list[U32]]) -> tuple[TermDictionary, U32, int]:
    """Put the terms of a share into a dictionary; return it, its identifiers by the fleet's, and its bytes."""
    used = np.zeros(len(terms), np.bool_)
    used[share.entered] = True
    for column in (share.s, share.p, share.o, *(column for rows in share.rows for column in rows.bindings)):
        used[as_array(column, np.uint32)] = True
    for plan, groups in _groups_of(share).items():
        for column in params[plan]:
            used[column[groups]] = True
    names = np.flatnonzero(used)
    own = TermDictionary()
    ids = np.zeros(len(terms), np.uint32)

    def take(some: I64) -> None:
        for start in range(0, len(some), _AT_ONCE):
            part = some[start : start + _AT_ONCE]
            # New strings, as decoded from a frame.
            ids[part] = own.take([text.encode().decode() for text in terms.texts(part.tolist())])

    counted = min(len(names), _SAMPLED_MAX)
    taken = _allocated(lambda: take(names[:counted]))
    take(names[counted:])
    return own, ids, round(taken * len(names) / max(1, counted))


def _groups_of(share: Share) -> dict[Plan, I64]:
    """Return the numbers of all groups in a share, by plan, ascending."""
    parts: dict[Plan, list[I64]] = {}
    for plan, _, groups in share.waiting:
        parts.setdefault(plan, []).append(groups)
    for rows in share.rows:
        parts.setdefault(rows.plan, []).append(as_array(rows.group, np.int64))
    return {plan: np.unique(np.concatenate(each)) for plan, each in parts.items()}


def _install(
    share: Share, tables: ColumnarTables, ids: U32, params: dict[Plan, list[U32]]
) -> dict[Plan, tuple[I64, I64]]:
    """Install the share's queries; return the fleet's numbers of their groups and the tables', by plan."""
    numbers: dict[Plan, tuple[I64, I64]] = {}
    for plan, groups in _groups_of(share).items():
        count = len(groups)
        since, lease = np.ones(count, np.uint64), np.full(count, _FOREVER, np.uint64)
        names = keys.fmix_array(groups.astype(np.uint64) ^ np.uint64(plan.identity))
        constants = tuple(ids[column[groups]] for column in params[plan])
        taken = tables.add_groups(plan, Groups(names, since, since, lease, constants))
        numbers[plan] = groups, as_array(taken, np.int64)
    for plan, step, groups in share.waiting:
        tables.add_queries(plan, step, _renumbered(numbers[plan], groups), 0)
    return numbers


def _renumbered(numbers: tuple[I64, I64], groups: I64) -> I64:
    return numbers[1][np.searchsorted(numbers[0], groups)]


def _renamed(rows: Derived, ids: U32, numbers: dict[Plan, tuple[I64, I64]]) -> Derived:
    """Return rows with the terms and groups of the share's own tables."""
    group = _renumbered(numbers[rows.plan], as_array(rows.group, np.int64))
    bindings = tuple(ids[as_array(column, np.uint32)] for column in rows.bindings)
    return Derived(rows.plan, rows.step, group, rows.identity, rows.oldest, rows.born, bindings)


def _answers_bytes(count: int) -> int:
    """Return the bytes that a coordinator keeps to recognise repeats of ``count`` acknowledged answers."""
    counted = min(count, _SAMPLED_MAX)
    logs: list[ResultLog] = []

    def take() -> None:
        log = ResultLog(ARRAYS, count + 1)
        logs.append(log)
        for start in range(0, counted, _AT_ONCE):
            end = min(start + _AT_ONCE, counted)
            identities = keys.fmix_array(np.arange(start, end, dtype=np.uint64))
            log.append(identities, identities, ())
            log.acknowledge(identities)

    return round(_allocated(take) * count / max(1, counted))


def _allocated(act: Callable[[], None]) -> int:
    """Return the bytes that a call allocates and that remain after it."""
    tracing = tracemalloc.is_tracing()
    if not tracing:
        tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        act()
        return tracemalloc.get_traced_memory()[0] - before
    finally:
        if not tracing:
            tracemalloc.stop()
