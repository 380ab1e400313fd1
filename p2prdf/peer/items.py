"""The kinds of items that peers keep, as repair and snapshots see them: keys, identities, and messages to make of them.

Sixteen kinds are triples under a role, eight for triples and eight for publication events; one is all rows that
wait, queries among them; one is the later links of CQC chains, that say which triples to keep.  Records of
subscriptions are a kind of their own, kept by the home.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from p2prdf import keys
from p2prdf.columns import Index, as_array
from p2prdf.peer.repair import Items
from p2prdf.store.tables import Tables
from p2prdf.wire.messages import IndexQuery, IndexTriples, Message

if TYPE_CHECKING:
    from p2prdf.peer.engine import Engine
    from p2prdf.peer.repair import Kind
    from p2prdf.rdf.query import Plan

__all__ = ["HOME", "table_kinds"]

ROWS: Final = 16
LINKS: Final = 17
HOME: Final = 18

_BUCKET_KEYS: Final = np.array([keys.bucket_key(bucket) for bucket in range(keys.BUCKETS)], np.uint64)


def table_kinds(tables: Tables, engine: Engine) -> list[Kind]:
    """Return the kinds that the tables hold: what is waited for first."""
    triples = [_Triples(tables, engine, role, per_event) for per_event in (False, True) for role in range(8)]
    return [_Rows(tables, engine), _Links(tables), *triples]


def _index(tables: Tables, places: npt.NDArray[np.int64]) -> Index:
    return tables.columns.column(places.tolist(), "int64")


class _Triples:
    """Triples, or publication events, under one role."""

    def __init__(self, tables: Tables, engine: Engine, role: int, per_event: bool):
        self.number = role + (keys.EVENT_SHIFT if per_event else 0)
        self._tables, self._engine, self._role, self._per_event = tables, engine, role, per_event

    @property
    def version(self) -> int:
        """What changes when anything held does."""
        return self._tables.version

    def items(self) -> Items:
        """Return all triples under the role."""
        held = self._tables.triple_items(self._role, self._per_event)
        return Items(as_array(held.keys), as_array(held.identities), as_array(held.index, np.int64))

    def messages(self, places: npt.NDArray[np.int64]) -> Iterator[Message]:
        """Return triples, as they are indexed."""
        if not len(places):
            return
        columns = self._tables.export_triples(self._role, self._per_event, _index(self._tables, places))
        for start, stop in self._engine.cutter.slices(len(places), columns[:3]):
            yield IndexTriples(*(column[start:stop] for column in columns))


class _Parts:
    """Items that come in parts, each of a plan and step; a place counts through all of them."""

    def __init__(self) -> None:
        self._parts: list[tuple[int, Plan, int, Any]] = []

    def gather(self, parts: Iterator[tuple[Plan, int, Any, Any, Any]]) -> Items:
        """Take in (plan, step, index, ring keys, identities) of all parts."""
        self._parts = []
        found_keys, found_ids, places = [np.zeros(0, np.uint64)], [np.zeros(0, np.uint64)], [np.zeros(0, np.int64)]
        first = 0
        for plan, step, index, ring, identities in parts:
            count = len(identities)
            at = np.arange(first, first + count, dtype=np.int64)
            self._parts.append((first, plan, step, as_array(index, np.int64)))
            first += count
            if plan.steps[step].role == keys.ANY:  # it waits at all buckets
                found_keys.append(np.repeat(_BUCKET_KEYS, count))
                found_ids.append(np.tile(as_array(identities), keys.BUCKETS))
                places.append(np.tile(at, keys.BUCKETS))
            else:
                found_keys.append(as_array(ring))
                found_ids.append(as_array(identities))
                places.append(at)
        return Items(np.concatenate(found_keys), np.concatenate(found_ids), np.concatenate(places))

    def chosen(self, places: npt.NDArray[np.int64]) -> Iterator[tuple[Plan, int, npt.NDArray[np.int64]]]:
        """Yield plan, step and index of what is at some places, a part at a time."""
        places = np.unique(places)
        parts = list(self._parts)
        for first, plan, step, index in parts:
            here = places[(places >= first) & (places < first + len(index))] - first
            if len(here):
                yield plan, step, index[here]


class _Rows:
    """Rows that wait, queries among them."""

    number = ROWS

    def __init__(self, tables: Tables, engine: Engine):
        self._tables, self._engine = tables, engine
        self._parts = _Parts()

    @property
    def version(self) -> int:
        """What changes when anything held does."""
        return self._tables.version

    def items(self) -> Items:
        """Return all rows of groups that live."""
        return self._parts.gather(self._tables.row_items())

    def messages(self, places: npt.NDArray[np.int64]) -> Iterator[Message]:
        """Return rows, as they are forwarded."""
        exported = [
            self._tables.export_rows(plan, step, _index(self._tables, index))
            for plan, step, index in self._parts.chosen(places)
        ]
        for rows in exported:
            yield from self._engine.forwards(rows)


class _Links:
    """What later links of CQC chains wait for."""

    number = LINKS

    def __init__(self, tables: Tables):
        self._tables = tables
        self._parts = _Parts()

    @property
    def version(self) -> int:
        """What changes when anything held does."""
        return self._tables.version

    def items(self) -> Items:
        """Return all links of groups that live."""
        return self._parts.gather(self._tables.link_items())

    def messages(self, places: npt.NDArray[np.int64]) -> Iterator[Message]:
        """Return links, as they are installed."""
        for plan, step, index in self._parts.chosen(places):
            groups, _ = self._tables.export_groups(plan, _index(self._tables, index))
            yield IndexQuery(plan, step, groups)
