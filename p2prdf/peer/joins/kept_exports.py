"""Exports that this peer keeps: its part of all statements as of a stamp, or of the elements of a stream.

An export has a stamp in the future.  Each member copies its statements before its clock reaches the stamp, and adds
the arrivals with an earlier stamp.  When a low watermark has passed the stamp, the copies are complete.  Of a
statement's publications and deletions up to the stamp the last one decides.

Every replica of a key has a copy.  Of those that a reader does not name as absent, the first sends the lines under
the key.  Lines have *places*, hashes that all members give alike: a reader continues after a place, at any members.

Bounds: ``EXPORTS_MAX`` exports, some 40 bytes for each statement, ``LEASE_SECONDS`` after the last read.

Design: docs/explanation/design/exports.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from p2prdf import hlc, keys
from p2prdf.columns import as_array
from p2prdf.grow import GrowingColumn
from p2prdf.hlc import ELEMENT, GONE
from p2prdf.overlay.replicas import ReplicaMap
from p2prdf.peer.network.component import Component, Handlers
from p2prdf.rdf import quads
from p2prdf.wire.messages import DropExport, ExportKept, ExportPart, KeepExport, ReadExport

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from p2prdf.columns import Column
    from p2prdf.peer.network.batches import TripleBatch
    from p2prdf.peer.network.messenger import Messenger
    from p2prdf.rdf.dictionary import TermDictionary
    from p2prdf.store.tables import Tables

__all__ = ["EXPORTS_MAX", "LAST_PLACE", "KeptExport", "KeptExports"]

EXPORTS_MAX: Final = 4
"""Exports that a peer keeps at a time."""
LEASE_SECONDS: Final = 3600.0
"""Seconds for which an export is kept without a reader."""
LAST_PLACE: Final = (1 << 64) - 1
"""A reader that is up to this place has all lines."""
UNREAD_SECONDS: Final = 60.0
"""Seconds without a reader after which an export may give way to a new one."""
SLICE_ROWS: Final = 32_768
"""Approximate number of rows that are sorted at a time, some ten milliseconds of work."""
PIECE_ROWS: Final = 131_072
"""Rows whose keys are computed in one turn, some twenty milliseconds of work."""
LINE_CHARACTERS_MAX: Final = 1 << 20
"""Characters of the lines of one message, unless the first line alone has more."""
_GONE: Final = np.uint64(GONE)
_ELEMENT: Final = np.uint64(ELEMENT)
_ONE: Final = np.uint64(1)

U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]


class KeptExport:
    """This peer's part of one export."""

    def __init__(self, message: KeepExport, own: int, metric: str, replicas: int, dictionary: TermDictionary):
        self.export, self.stamp, self.stream = message.export, message.stamp, message.stream
        self.members = message.members
        self.kept_until = 0.0
        self.absent: set[int] = set()
        """Members, by position, that do not keep the export any more."""
        ranked = zip((each.key for each in message.members), range(len(message.members)), message.zones, strict=True)
        self.replica_map = ReplicaMap(list(ranked), metric, replicas)
        self._own = next((place for place, each in enumerate(message.members) if each.key == own), -1)
        self._dictionary = dictionary
        self._role = np.uint32(keys.role_bit(keys.SPO, per_event=bool(self.stream)))
        self._arrived: list[tuple[list[U32], U64]] = []
        """Rows, as terms and times, without keys and places yet."""
        self._terms = [GrowingColumn(np.uint32) for _ in range(3)]
        self._time, self._ring, self._place = (GrowingColumn(np.uint64) for _ in range(3))
        self._slice: tuple[int, int, npt.NDArray[np.int64]] | None = None
        """The last slice: the place before it, its last place, and its rows in order of their places."""
        self._spelled: dict[int, tuple[str, str] | None] = {}
        """By predicate the texts before and after the object; None: its triples are no statements."""

    def add(self, s: Column, p: Column, o: Column, time: Column, roles: Column, stamp: int = 0) -> None:
        """Add publications and deletions; ``stamp``: publication stamp of elements, 0 if it is unknown."""
        terms, times = [as_array(each, np.uint32) for each in (s, p, o)], as_array(time)
        chosen = (as_array(roles, np.uint32) & self._role) != 0
        if self.stream:
            if stamp > self.stamp:
                return
            chosen &= (times >= _ELEMENT) & (times < _GONE)
        else:
            chosen &= (times & ~_GONE) <= np.uint64(self.stamp)
        rows = np.flatnonzero(chosen)
        for start in range(0, len(rows), PIECE_ROWS):
            piece = rows[start : start + PIECE_ROWS]
            self._arrived.append(([each[piece] for each in terms], times[piece]))

    def lines(
        self, after: int, most: int, absent: Collection[int], *, all_held: bool
    ) -> tuple[int, list[int], list[str]]:
        """Return a place, and the places and texts of all lines after ``after`` up to that place.

        Lines are those of which this peer is the first replica that is not ``absent``, or ``all_held``.
        """
        while self.behind:
            self.take_in()
        upto, rows = self._slice_after(after)
        rows = rows[self._place.values[rows] > np.uint64(after)]
        if not all_held:
            rows = rows[self.replica_map.first_present(self._ring.values[rows], absent) == self._own]
        places: list[int] = []
        lines: list[str] = []
        characters = 0
        for row in rows.tolist():
            line = self._line(row)
            if line is None:
                continue
            if lines and (len(lines) >= most or characters + len(line) > LINE_CHARACTERS_MAX):
                return places[-1], places, lines
            places.append(int(self._place.values[row]))
            lines.append(line)
            characters += len(line)
        return upto, places, lines

    @property
    def behind(self) -> bool:
        """Whether :meth:`take_in` has work to do."""
        return bool(self._arrived)

    def take_in(self) -> None:
        """Compute keys and places of some rows that have arrived."""
        terms, time = self._arrived.pop()
        self._slice = None
        hashes = self._dictionary.hash_array()
        ring = keys.role_keys(keys.SPO, *(hashes[each] for each in terms))
        self._ring.append(ring)
        self._place.append(keys.item_identities(ring, time if self.stream else np.zeros(len(ring), np.uint64)))
        self._time.append(time)
        for column, values in zip(self._terms, terms, strict=True):
            column.append(values)

    def _slice_after(self, after: int) -> tuple[int, npt.NDArray[np.int64]]:
        """Return the last place of a slice that begins at or before a place, and its valid rows in order."""
        if self._slice is not None and self._slice[0] <= after < self._slice[1]:
            return self._slice[1:]
        places: U64 = self._place.values
        upto = min(LAST_PLACE, after + max(1, LAST_PLACE * SLICE_ROWS // max(1, len(places))))
        rows = np.flatnonzero((places > np.uint64(after)) & (places <= np.uint64(upto)))
        time, places = self._time.values[rows], places[rows]
        over = time >= _GONE
        order = np.lexsort(((time & ~_GONE) << _ONE | over, places))  # a deletion is later than a publication
        rows, over = rows[order], over[order]
        columns = [places[order], *(each.values[rows] for each in self._terms)]
        last = np.ones(len(rows), np.bool_)
        last[:-1] = np.any([each[1:] != each[:-1] for each in columns], axis=0)
        self._slice = (after, upto, rows[last & ~over])
        return self._slice[1:]

    def _line(self, row: int) -> str | None:
        s, p, o, time = (int(column.values[row]) for column in (*self._terms, self._time))
        if p not in self._spelled:
            self._spelled[p] = _spelled(self._dictionary.text(p), element=bool(self.stream))
        spelled = self._spelled[p]
        if spelled is None:
            return None
        subject, object_ = self._dictionary.texts((s, o))
        line = f"{subject} {spelled[0]} {object_}{spelled[1]} ."
        if not self.stream:
            return line
        seconds, milliseconds = divmod(hlc.element_ms(time), 1000)
        return f"{seconds}.{milliseconds:03d}\t{line}"


def _spelled(predicate: str, *, element: bool) -> tuple[str, str] | None:
    """Return the texts of a statement before and after its object; None: the triple is no statement."""
    if element:
        parts = quads.stream_parts_of(predicate)
        return None if parts is None else (parts[0], "")
    if not quads.is_reserved(predicate):
        return predicate, ""
    parts = quads.parts_of(predicate)
    return None if parts is None else (parts[0], f" {parts[1]}")


class KeptExports(Component):
    """The exports that one peer keeps."""

    def __init__(self, messenger: Messenger, tables: Tables, dictionary: TermDictionary):
        self._messenger, self._tables, self._dictionary = messenger, tables, dictionary
        self.held: dict[int, KeptExport] = {}

    def handlers(self) -> Handlers:
        """Return the handlers of requests of entry peers."""
        return {
            KeepExport: lambda sender, message: self._messenger.send(
                sender, ExportKept(message.export, self.keep(message))
            ),
            ReadExport: lambda sender, message: self._messenger.send(sender, self.read(message)),
            DropExport: lambda _, message: self.drop(message.export),
        }

    def keep(self, message: KeepExport) -> str:
        """Begin to keep an export; return the reason of a refusal, or nothing."""
        messenger = self._messenger
        if message.export in self.held:
            return ""
        self._forget_unread()
        if len(self.held) >= EXPORTS_MAX:
            self._forget_unread(LEASE_SECONDS - UNREAD_SECONDS)
        if len(self.held) >= EXPORTS_MAX:
            return f"{messenger.own} keeps {EXPORTS_MAX} exports already"
        if not messenger.config.fixed_roles >> keys.SPO & 1:
            return f"{messenger.own} does not keep all statements (setting indexes)"
        if max(messenger.clock, messenger.present) >= message.stamp:
            return f"the clock of {messenger.own} has passed the stamp"
        if not messenger.recovery.complete:
            return f"{messenger.own} is not in sync"
        config = messenger.config
        kept = KeptExport(message, messenger.own.key, config.overlay, config.replicas, self._dictionary)
        self.held[message.export] = kept
        s, p, o, time, _, roles = self._tables.triples_since(0)
        self._add(kept, s, p, o, time, roles)
        self._renew(kept)
        return ""

    def read(self, message: ReadExport) -> ExportPart:
        """Return lines of an export."""
        make = self._messenger.columns.column
        kept = self.held.get(message.export)
        if kept is None:
            return ExportPart(message.request, False, 0, make([]), ())
        self._renew(kept)
        absent: Sequence[int] = as_array(message.absent).tolist()
        all_held = not self._messenger.placement.replicated
        upto, places, lines = kept.lines(message.after, message.lines_max, absent, all_held=all_held)
        return ExportPart(message.request, True, upto, make(places), tuple(lines))

    def drop(self, export: int) -> None:
        """Forget an export."""
        self.held.pop(export, None)
        self.dirty = True

    def stored(self, batch: TripleBatch) -> None:
        """Note triples that this peer stores."""
        for kept in self.held.values():
            self._add(kept, batch.s, batch.p, batch.o, batch.time, batch.roles, batch.stamp)
            self.dirty |= kept.behind

    def _add(
        self, kept: KeptExport, s: Column, p: Column, o: Column, time: Column, roles: Column, stamp: int = 0
    ) -> None:
        if kept.stream:
            stream_of = self._tables.horizons.stream_of
            distinct, which = np.unique(as_array(p, np.uint32), return_inverse=True)
            named = np.array([stream_of((each,)) == kept.stream for each in distinct.tolist()], np.bool_)
            roles = np.where(named[which], as_array(roles, np.uint32), np.uint32(0))
        kept.add(s, p, o, time, roles, stamp)

    # --- leases ----------------------------------------------------------------------------------

    def _renew(self, kept: KeptExport) -> None:
        kept.kept_until = self._messenger.now + LEASE_SECONDS
        self.dirty = True

    def _forget_unread(self, left_seconds: float = 0.0) -> None:
        """Forget exports with a lease that is over within some seconds."""
        now = self._messenger.now + left_seconds
        self.held = {export: kept for export, kept in self.held.items() if kept.kept_until > now}

    def wake(self) -> None:
        """Forget exports that have no reader, and prepare the others."""
        self._forget_unread()
        for kept in self.held.values():
            if kept.behind:
                kept.take_in()
                return

    @property
    def deadline(self) -> float | None:
        """When an export is forgotten; now if there is work to do."""
        if any(kept.behind for kept in self.held.values()):
            return self._messenger.now
        return min((kept.kept_until for kept in self.held.values()), default=None)

    def status(self) -> Mapping[str, Any]:
        """Return the number of exports."""
        return {"exports": len(self.held)}


