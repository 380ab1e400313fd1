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

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from p2prdf import hlc, keys
from p2prdf.columns import as_array
from p2prdf.errors import DataRefused
from p2prdf.hlc import ELEMENT, GONE
from p2prdf.overlay.replicas import ReplicaMap
from p2prdf.peer.network.by_key import ByKey
from p2prdf.peer.network.component import Component, Handlers
from p2prdf.rdf import quads
from p2prdf.wire.limits import TERM_BYTES_MAX
from p2prdf.wire.messages import Contact, DropExport, ExportKept, ExportPart, KeepExport, ReadExport

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

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
"""Approximate number of rows that are merged at a time, some ten milliseconds of work."""
PIECE_ROWS: Final = 131_072
"""Rows whose keys are computed and sorted in one turn, some twenty milliseconds of work."""
WAITING_MAX: Final = 256
"""Questions that wait for rows to be sorted; later ones take the place of the oldest, which are asked again."""
LINE_CHARACTERS_MAX: Final = 1 << 20
"""Characters of the lines of one message, unless the first line alone has more."""
_GONE: Final = np.uint64(GONE)
_ELEMENT: Final = np.uint64(ELEMENT)
_ONE: Final = np.uint64(1)

U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]
_Columns: TypeAlias = list[npt.NDArray[Any]]
"""Places, ring keys, times, and the three columns of terms."""
_DTYPES: Final = (np.uint64, np.uint64, np.uint64, np.uint32, np.uint32, np.uint32)


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
        self._rows = 0
        self._pieces: list[_Columns] = [[np.empty(0, dtype) for dtype in _DTYPES]]
        """Rows with keys and places, each piece in order of its places."""
        self._slice: tuple[int, int, _Columns] | None = None
        """The last slice: the place before it, its last place, and its statements in order of their places."""
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
        """Return a place, and the places and texts of all lines after ``after`` up to that place, in order.

        There are at most ``most``, and at least one if any is left.  Lines are those of which this peer is the first
        replica that is not ``absent``, or ``all_held``.  Raises DataRefused if a message cannot have the first line.
        """
        upto, columns = self._slice_after(after)
        places, ring = columns[:2]
        chosen = places > np.uint64(after)
        if not all_held:
            chosen &= self.replica_map.first_present(ring, absent) == self._own
        rows = np.flatnonzero(chosen)
        if len(rows) > max(1, most):
            rows = rows[: max(1, most)]
            upto = int(places[rows[-1]])
        lines: list[str] = []
        characters = 0
        for line in self._lines([each[rows] for each in columns]):
            characters += len(line)
            if characters > LINE_CHARACTERS_MAX:
                if lines:
                    rows = rows[: len(lines)]
                    upto = int(places[rows[-1]])
                    break
                _check_length(line)
            lines.append(line)
        return upto, places[rows].tolist(), lines

    @property
    def behind(self) -> bool:
        """Whether :meth:`take_in` has work to do."""
        return bool(self._arrived)

    def take_in(self) -> None:
        """Compute keys and places of some rows that have arrived, and sort them."""
        (s, p, o), time = self._arrived.pop()
        hashes = self._dictionary.hash_array()
        ring = keys.role_keys(keys.SPO, hashes[s], hashes[p], hashes[o])
        places = keys.item_identities(ring, time if self.stream else np.zeros(len(ring), np.uint64))
        order = np.argsort(places)
        self._pieces.append([each[order] for each in (places, ring, time, s, p, o)])
        self._rows += len(order)
        self._slice = None

    def _slice_after(self, after: int) -> tuple[int, _Columns]:
        """Return the last place of a slice that begins at or before a place, and its statements in order."""
        assert not self.behind, "all arrivals are taken in before a reader is answered"
        if self._slice is not None and self._slice[0] <= after < self._slice[1]:
            return self._slice[1:]
        upto = min(LAST_PLACE, after + max(1, LAST_PLACE * SLICE_ROWS // max(1, self._rows)))
        bounds = np.array([after, upto], np.uint64)
        parts = []
        for piece in self._pieces:
            first, end = piece[0].searchsorted(bounds, side="right")
            parts.append([each[first:end] for each in piece])
        self._slice = (after, upto, self._last_events([np.concatenate(each) for each in zip(*parts, strict=True)]))
        return self._slice[1:]

    def _last_events(self, columns: _Columns) -> _Columns:
        """Return the statements among some events, in order of their places: the last event of each decides."""
        places, _, time, *_ = columns
        over = time >= _GONE
        order = np.lexsort(((time & ~_GONE) << _ONE | over, places))  # a deletion is later than a publication
        places, ring, time, *terms = (each[order] for each in columns)
        last = np.ones(len(places), np.bool_)
        last[:-1] = np.any([each[1:] != each[:-1] for each in (places, *terms)], axis=0)
        distinct, which = np.unique(terms[1], return_inverse=True)
        for each in distinct.tolist():
            if each not in self._spelled:
                self._spelled[each] = _spelled(self._dictionary.text(each), element=bool(self.stream))
        spelled = np.array([self._spelled[each] is not None for each in distinct.tolist()], np.bool_)
        return [each[last & (time < _GONE) & spelled[which]] for each in (places, ring, time, *terms)]

    def _lines(self, columns: _Columns) -> Iterator[str]:
        """Yield the lines of some statements."""
        time, s, predicates, o = (each.tolist() for each in columns[2:])
        subjects, objects = self._dictionary.texts(s), self._dictionary.texts(o)
        for subject, predicate, object_, at in zip(subjects, predicates, objects, time, strict=True):
            spelled = self._spelled[predicate]
            assert spelled is not None, "slices have statements alone"
            line = f"{subject} {spelled[0]} {object_}{spelled[1]} ."
            if self.stream:
                seconds, milliseconds = divmod(hlc.element_ms(at), 1000)
                line = f"{seconds}.{milliseconds:03d}\t{line}"
            yield line


def _check_length(line: str) -> None:
    if len(line.encode()) > TERM_BYTES_MAX:
        raise DataRefused(f"a line of an export has more than {TERM_BYTES_MAX} bytes: {line[:60]}...")


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
        self._by_key = ByKey(messenger)
        self.held: dict[int, KeptExport] = {}
        self._waiting: deque[tuple[Contact, ReadExport]] = deque(maxlen=WAITING_MAX)
        """Questions about exports with rows that are not sorted yet, and their senders."""

    def handlers(self) -> Handlers:
        """Return the handlers of requests of entry peers."""
        return {
            KeepExport: lambda sender, message: self._by_key.reply(
                sender, ExportKept(message.export, self._keep(message))
            ),
            ReadExport: self._asked,
            DropExport: self._drop,
        }

    def _keep(self, message: KeepExport) -> str:
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

    def _asked(self, sender: Contact, message: ReadExport) -> None:
        """Answer a question, or have it wait until the rows of the export are sorted."""
        kept = self.held.get(message.export)
        if kept is not None and kept.behind:
            self._waiting.append((sender, message))
        else:
            self._by_key.reply(sender, self._read(message))

    def _read(self, message: ReadExport) -> ExportPart:
        """Return lines of an export."""
        make = self._messenger.columns.column
        kept = self.held.get(message.export)
        if kept is None:
            return ExportPart(message.request, False, 0, make([]), ())
        self._renew(kept)
        absent: Sequence[int] = as_array(message.absent).tolist()
        all_held = not self._messenger.placement.replicated
        try:
            upto, places, lines = kept.lines(message.after, message.lines_max, absent, all_held=all_held)
        except DataRefused as error:
            return ExportPart(message.request, True, 0, make([]), (), str(error))
        return ExportPart(message.request, True, upto, make(places), tuple(lines))

    def _drop(self, _: Contact, message: DropExport) -> None:
        """Forget an export."""
        self.held.pop(message.export, None)

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

    def _forget_unread(self, left_seconds: float = 0.0) -> None:
        """Forget exports with a lease that is over within some seconds."""
        now = self._messenger.now + left_seconds
        self.held = {export: kept for export, kept in self.held.items() if kept.kept_until > now}

    def wake(self) -> None:
        """Forget exports without a reader; then sort some rows, or answer one question that waited for that."""
        self._forget_unread()
        for kept in self.held.values():
            if kept.behind:
                kept.take_in()
                return
        if self._waiting:
            sender, message = self._waiting.popleft()
            self._by_key.reply(sender, self._read(message))

    @property
    def deadline(self) -> float | None:
        """When an export is forgotten; now if there is work to do."""
        if self._waiting or any(kept.behind for kept in self.held.values()):
            return self._messenger.now
        return min((kept.kept_until for kept in self.held.values()), default=None)

    def status(self) -> Mapping[str, Any]:
        """Return the number of exports."""
        return {"exports": len(self.held)}


