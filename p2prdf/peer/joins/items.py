"""Types of replicated items in the tables: their keys, identities and messages, for anti-entropy and snapshots.

Sixteen types are triples under an index: eight for triples and eight for publication events.  One type is all waiting
rows, queries included.  One is the later links of CQC chains, which say which triples to keep.  Coordinators keep the
records of subscriptions, which are a type of their own (:mod:`p2prdf.peer.subscriptions.items`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Container, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from p2prdf import keys
from p2prdf.columns import ARRAYS, Column, as_array, as_list
from p2prdf.peer.replication.digests import Changes, Items
from p2prdf.store.items import NOT_SEEN, LinkItems, RowItems
from p2prdf.store.tables import Tables
from p2prdf.wire.messages import IndexQuery, IndexTriples, Message

if TYPE_CHECKING:
    from p2prdf.peer.joins.engine import Engine
    from p2prdf.peer.replication.anti_entropy import Kind
    from p2prdf.rdf.query import Plan

__all__ = ["HOME", "TRIPLES", "Links", "Rows", "all_triples", "table_kinds"]

TRIPLES: Final = range(16)
ROWS: Final = 16
LINKS: Final = 17
HOME: Final = 18


def table_kinds(tables: Tables, engine: Engine) -> list[Kind]:
    """Return the item types of the tables, waiting rows first."""
    triples = [_Triples(tables, engine, role, per_event) for per_event in (False, True) for role in range(8)]
    return [Rows(tables, engine), Links(tables), *triples]


def _handles(tables: Tables, handles: npt.NDArray[Any]) -> Column:
    return handles if tables.columns is ARRAYS else handles.tolist()


class _Triples:
    """Triples, or publication events, under one index.  The place of an item is the row id of the triple."""

    dense = True

    def __init__(self, tables: Tables, engine: Engine, role: int, per_event: bool):
        self.number = role + (keys.EVENT_SHIFT if per_event else 0)
        self._tables, self._engine, self._role, self._per_event = tables, engine, role, per_event
        self._seen = NOT_SEEN
        self.counter = "events" if per_event else "triples"

    @property
    def version(self) -> int:
        """A number that changes with every change of the items."""
        return self._tables.triple_version(self._per_event)

    def changes(self) -> Changes:
        """Return the triples under the index that were added, changed or forgotten since the last call."""
        handles, self._seen = self._tables.changed_triples(self._per_event, self._seen)
        items = self._items(handles)
        if handles is None or len(items) == len(handles):
            return Changes(handles is None, items)
        return Changes(False, items, np.setdiff1d(as_array(handles, np.int64), items.places))

    def items(self) -> Items:
        """Return all triples under the index."""
        return self._items(None)

    def _items(self, handles: Column | None) -> Items:
        held = self._tables.triple_items(self._role, self._per_event, handles)
        return Items(as_array(held.ring_keys), as_array(held.identities), as_array(held.handle, np.int64))

    def everything(self) -> Iterator[Message]:
        """Return all triples under the index as index messages."""
        return self.messages(self.items().places)

    def messages(self, places: npt.NDArray[np.int64]) -> Iterator[Message]:
        """Return triples as index messages."""
        if not len(places):
            return
        index = _handles(self._tables, places)
        columns = self._tables.export_triples(self._role, self._per_event, index)
        for start, stop in self._engine.chunker.slices(len(columns.s), columns[:3]):
            s, p, o, time, event, roles = (column[start:stop] for column in columns)
            yield IndexTriples(s, p, o, time, event, roles)


def all_triples(tables: Tables, engine: Engine) -> Iterator[IndexTriples]:
    """Return all triples and events for a snapshot, each once with all its indexes."""
    columns = tables.triples_since(0)
    for start, stop in engine.chunker.slices(len(columns[0]), columns[:3]):
        s, p, o, time, event, roles = (column[start:stop] for column in columns)
        yield IndexTriples(s, p, o, time, event, roles)


class _Parts:
    """Items in parts, one for each plan and step; places number the items of all parts."""

    def __init__(self, parts: Iterable[RowItems | LinkItems] = ()) -> None:
        self._parts: list[tuple[int, Plan, int, npt.NDArray[Any]]] = []
        found_keys, found_ids, count = [np.zeros(0, np.uint64)], [np.zeros(0, np.uint64)], 0
        for plan, step, handles, ring, identities in parts:
            held = np.array(handles, np.uint64) if isinstance(handles, list) else handles  # never floats
            self._parts.append((count, plan, step, held))
            found_keys.append(as_array(ring))
            found_ids.append(as_array(identities))
            count += len(identities)
        self.items = Items(np.concatenate(found_keys), np.concatenate(found_ids), np.arange(count, dtype=np.int64))

    def chosen(self, places: npt.NDArray[np.int64]) -> list[tuple[Plan, int, npt.NDArray[Any]]]:
        """Return plan, step and row ids of the items at some places, part by part.

        A row that waits under several keys has several places and is returned once.
        """
        found = []
        for first, plan, step, handles in self._parts:
            here = places[(places >= first) & (places < first + len(handles))] - first
            if len(here):
                found.append((plan, step, np.unique(handles[here])))
        return found


class _Waiting(ABC):
    """Waiting items: all of them are listed again after each change."""

    dense = False
    counter = "waiting"

    def __init__(self, tables: Tables):
        self._tables = tables
        self._parts = _Parts()

    @property
    def version(self) -> int:
        """A number that changes with every change of the items."""
        return self._tables.waiting_version

    @abstractmethod
    def _listed(self) -> Iterator[RowItems | LinkItems]:
        """Yield the items of live groups, part by part."""

    @abstractmethod
    def _messages(self, parts: _Parts, places: npt.NDArray[np.int64]) -> Iterator[Message]:
        """Return the items at some places of some parts as messages."""

    def changes(self) -> Changes:
        """Return the items of live groups; :meth:`messages` takes places of this listing."""
        self._parts = _Parts(self._listed())
        return Changes(True, self._parts.items)

    def items(self) -> Items:
        """Return the items of live groups."""
        return _Parts(self._listed()).items

    def messages(self, places: npt.NDArray[np.int64]) -> Iterator[Message]:
        """Return items as messages; ``places`` are those of the last :meth:`changes`."""
        return self._messages(self._parts, places)

    def everything(self) -> Iterator[Message]:
        """Return all items as messages."""
        parts = _Parts(self._listed())
        return self._messages(parts, parts.items.places)


class Rows(_Waiting):
    """Waiting rows, queries included."""

    number = ROWS

    def __init__(self, tables: Tables, engine: Engine):
        super().__init__(tables)
        self._engine = engine

    def _listed(self) -> Iterator[RowItems | LinkItems]:
        return self._tables.row_items()

    def _messages(self, parts: _Parts, places: npt.NDArray[np.int64]) -> Iterator[Message]:
        """Return rows as join messages."""
        for plan, step, handles in parts.chosen(places):
            rows = self._tables.export_rows(plan, step, _handles(self._tables, handles))
            yield from self._engine.forwards(rows)

    def of_groups(self, groups: Container[int]) -> dict[int, None]:
        """Return the identities of the items of some groups."""
        found: dict[int, None] = {}
        for plan, step, handles, _, identities in self._tables.row_items():
            for handle, identity in zip(as_list(handles), as_list(identities), strict=True):
                rows = self._tables.export_rows(plan, step, self._tables.columns.column([handle]))
                if as_list(self._tables.group_ids(plan, rows.group))[0] in groups:
                    found[identity] = None
        return found


class Links(_Waiting):
    """Later links of CQC chains."""

    number = LINKS

    def _listed(self) -> Iterator[RowItems | LinkItems]:
        return self._tables.link_items()

    def _messages(self, parts: _Parts, places: npt.NDArray[np.int64]) -> Iterator[Message]:
        """Return links as query messages."""
        for plan, step, handles in parts.chosen(places):
            groups = self._tables.export_links(plan, _handles(self._tables, handles))
            if len(groups):
                yield IndexQuery(plan, step, groups)

    def of_groups(self, groups: Container[int]) -> dict[int, None]:
        """Return the identities of the items of some groups."""
        found: dict[int, None] = {}
        for _, _, handles, _, identities in self._tables.link_items():
            listed = zip(as_list(handles), as_list(identities), strict=True)
            found.update({each: None for group, each in listed if group in groups})
        return found
