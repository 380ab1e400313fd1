"""Audit: replicas check by samples that the primaries of their keys deliver the results of publications.

The problem.  Of the replicas of a key only the primary joins.  One that acknowledges triples and derives nothing
keeps solutions from everybody, though the other replicas hold all that they follow from, and nothing fails.

The idea.  Each replica remembers a few ring keys per second under which triples or partial results came that another
peer joins.  ``audit_seconds`` later it joins the content of these keys itself, as after a failover
(:mod:`p2prdf.store.rejoin`), and sends the results of triples of that time to the peers that the primary should have
sent them to, with the key of the primary (``suspect``).  Results have the same identity at every replica, so a receiver
drops those that it has.  A receiver that lacks some takes them, so subscribers get them, and reports the primary: to
the log (``solutions-withheld``), the status and the metrics.

Not audited are elements of streams, deletions, patterns without any constant, and groups that came to this peer after
the publication: their primary may be busy with older triples.  Nothing is audited within ``audit_seconds`` of a
change of the view.  A slow primary is reported like a silent one.  A member that lies can accuse an honest one, so a
report names the replica that sent the missing solutions, too.

Cost: ``SAMPLES_PER_SECOND`` keys per role and second, and pieces of ``PAIRS_MAX`` pairs, one per turn.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from p2prdf import hlc, keys
from p2prdf.columns import Column, as_array, as_list
from p2prdf.peer.network.component import Component
from p2prdf.store.backlog import part_of
from p2prdf.store.tables import Derived, Tables

if TYPE_CHECKING:
    from p2prdf.peer.network.batches import TripleBatch
    from p2prdf.peer.network.messenger import Messenger
    from p2prdf.wire.messages import Contact

__all__ = ["FRESH_MAX", "Audit", "NoAudit"]

SAMPLES_PER_SECOND: Final = 32
"""Triples, and partial results, that an audit may sample."""
WINDOW_SECONDS: Final = 5.0
"""Keys of so many seconds are audited together."""
WINDOWS_MAX: Final = 16
"""Windows that wait to be audited; further ones are left out."""
PAIRS_MAX: Final = 5_000
"""Pairs of a row and a triple per turn."""
PIECES_MAX: Final = 2_000
"""Pieces of one audit; then it ends without the rest."""
FRESH_MAX: Final = 16_384
"""Remembered groups that came lately; if half of them are too young to be forgotten then, nothing is audited."""
SUSPECTS_MAX: Final = 1_024
"""Peers with a count of missing solutions."""

Sampled = dict[int, set[int]]
"""Ring keys by role."""


class NoAudit(Component):
    """No audit: with one copy, the peer that joins data is the only one that has it."""

    def sample_triples(self, batch: TripleBatch) -> None:
        """Remember keys of triples that this peer stores and another peer joins."""

    def sample_rows(self, rows: Derived) -> None:
        """Remember keys of partial results that this peer stores and another peer joins."""

    def groups_came(self, groups: Column) -> None:
        """Note groups that came now."""

    def found(self, suspect: int, missing: int, sender: Contact) -> None:
        """Report that rows were missing here which a replica sent in place of the primary ``suspect``."""

    def status(self) -> Mapping[str, object]:
        """Return that nothing was checked, and nothing was missing."""
        return {"audited": 0, "withheld": {}}


class Audit(NoAudit):
    """The samples of one peer, their check, and the rows found missing by primary."""

    def __init__(
        self, messenger: Messenger, tables: Tables, send: Callable[[Derived, int], None], idle: Callable[[], bool]
    ):
        """``send`` takes rows or solutions, and the key of the peer that should have sent them.

        ``idle`` tells whether the engine has nothing to work off.
        """
        self._idle = idle
        self._messenger = messenger
        self._tables = tables
        self._send = send
        self._open: Sampled = {}
        self._sampled: list[tuple[Column, ...]] = []
        """Columns of sampled triples of the open window: subject, predicate, object, indexes."""
        self._open_since = 0.0
        self._open_view = 0
        self._room = 0.0
        self._room_at = 0.0
        self._ripening: deque[tuple[float, int, Sampled]] = deque()
        self._to_check: deque[tuple[int, Sampled]] = deque()
        self._running: Iterator[list[Derived]] | None = None
        self._pieces = 0
        self._suspect = 0
        self._fresh: dict[int, float] = {}
        self._not_before = 0.0
        """Nothing is audited until then: too many groups came to remember them."""
        self._view = 0
        self._same_view_since = 0.0
        self.withheld: Counter[int] = Counter()
        """Partial results and solutions that were missing here, by the key of the primary that owed them."""
        self.audited = 0
        """Rows that this peer derived to check others."""

    @property
    def active(self) -> bool:
        """Whether this peer audits."""
        return self._messenger.config.audit_seconds > 0

    # --- sampling --------------------------------------------------------------------------------

    def _samples(self, count: int) -> list[int]:
        """Return the places of some of so many rows, evenly spread, as there is room for in this second."""
        now = self._messenger.now
        self._room = min(SAMPLES_PER_SECOND, self._room + (now - self._room_at) * SAMPLES_PER_SECOND)
        self._room_at = now
        taken = min(count, int(self._room))
        if taken < 1:
            return []
        self._room -= taken
        return [place * count // taken for place in range(taken)]

    def sample_triples(self, batch: TripleBatch) -> None:
        """Remember triples that this peer stores and another peer joins."""
        count = len(batch.s)
        places = self._samples(count) if self.active else []
        if not places:
            return
        columns: tuple[Column, ...] = (batch.s, batch.p, batch.o, batch.roles)
        if len(places) < count:
            index = self._tables.columns.column(places, "int64")
            columns = tuple(self._tables.columns.take(column, index) for column in columns)
        if _joined_elsewhere(as_array(columns[-1])).any():
            self._begin_window()
            self._sampled.append(columns)

    def _remember_sampled(self) -> None:
        """Remember the keys of the sampled triples under the indexes that another peer joins."""
        sampled, self._sampled = self._sampled, []
        if sampled:
            concat = self._tables.columns.concat
            s, p, o, roles = (concat(list(parts)) for parts in zip(*sampled, strict=True))
            elsewhere = _joined_elsewhere(as_array(roles))
            for role in range(8):
                chosen = np.flatnonzero(elsewhere >> np.uint32(role) & np.uint32(1))
                if len(chosen):
                    self._remember(role, as_array(self._tables.triple_keys(role, s, p, o))[chosen])

    def sample_rows(self, rows: Derived) -> None:
        """Remember keys of partial results that this peer stores and another peer joins."""
        role = rows.plan.steps[rows.step].role
        places = self._samples(len(rows)) if self.active and role != keys.ANY else []
        if places:
            part = part_of(rows, self._tables.columns.column(places, "int64"), self._tables.columns)
            self._remember(role, as_array(self._tables.row_keys(part)))

    def _begin_window(self) -> None:
        if not (self._open or self._sampled):
            self._open_since, self._open_view = self._messenger.now, self._messenger.view
            self.dirty = True

    def _remember(self, role: int, ring: npt.NDArray[np.uint64]) -> None:
        self._begin_window()
        self._open.setdefault(role, set()).update(ring.tolist())

    def groups_came(self, groups: Column) -> None:
        """Note groups that came now: results of the past may still be under way to them."""
        if self.active:
            self._fresh.update(dict.fromkeys(as_list(groups), self._messenger.now))
            if len(self._fresh) > FRESH_MAX:
                self._forget_groups()

    def _forget_groups(self) -> None:
        """Forget groups that came long ago; if too many remain, forget all and audit nothing for so long."""
        now = self._messenger.now
        self._fresh = {each: at for each, at in self._fresh.items() if at > now - self._back_seconds}
        if len(self._fresh) > FRESH_MAX // 2:  # half, so that the cost is a constant per group
            self._fresh = {}
            self._not_before = now + self._back_seconds
            self._to_check.clear()
            self._running = None

    # --- checking --------------------------------------------------------------------------------

    @property
    def deadline(self) -> float | None:
        """When there is something to do; None if nothing is remembered."""
        if self._running is not None or self._to_check:
            return self._messenger.now
        due = [self._open_since + WINDOW_SECONDS] if self._open or self._sampled else []
        if self._ripening:
            due.append(self._ripening[0][0])
        return min(due, default=None)

    def wake(self) -> None:
        """Do the next piece of work: samples are checked only while this peer lacks nothing."""
        messenger, now = self._messenger, self._messenger.now
        if messenger.view != self._view:
            self._view, self._same_view_since = messenger.view, now
        if (self._open or self._sampled) and now >= self._open_since + WINDOW_SECONDS:
            self._remember_sampled()
            if len(self._ripening) < WINDOWS_MAX:
                self._ripening.append((now + messenger.config.audit_seconds, self._open_view, self._open))
            self._open = {}
        if self._ripening and now >= self._ripening[0][0] and not self._to_check and self._running is None:
            _, view, sampled = self._ripening.popleft()
            self._forget_groups()
            steady = messenger.recovery.complete and self._idle() and self._settled and now >= self._not_before
            if steady and view == messenger.view:
                self._to_check.extend(self._by_primary(sampled))
        self._check_some()

    @property
    def _settled(self) -> bool:
        return self._messenger.now >= self._same_view_since + self._messenger.config.audit_seconds

    @property
    def _back_seconds(self) -> float:
        """How old a triple may be that is audited."""
        return self._messenger.config.audit_seconds + 3 * WINDOW_SECONDS

    def _by_primary(self, sampled: Sampled) -> list[tuple[int, Sampled]]:
        """Return the keys by the contact number of their primary."""
        found = self._messenger.placement.replica_map
        by_primary: dict[int, Sampled] = {}
        if found is None:
            return []
        for role, ring in sampled.items():
            for key, ranks in zip(ring, found.list(ring), strict=True):
                if ranks[0] > 0:
                    by_primary.setdefault(ranks[0], {}).setdefault(role, set()).add(key)
        return list(by_primary.items())

    def _check_some(self) -> None:
        if self._running is None:
            if not self._to_check:
                return
            number, sampled = self._to_check.popleft()
            self._suspect, self._pieces = self._messenger.contact(number).key, 0
            chosen = {role: np.array(sorted(ring), np.uint64) for role, ring in sampled.items()}
            self._running = self._tables.rejoin(partial(_is_chosen, chosen), PAIRS_MAX)
        piece = next(self._running, None)
        self._pieces += 1
        if piece is None or self._pieces > PIECES_MAX or self._messenger.view != self._view:
            self._running = None
        for rows in piece or ():
            part = self._due(rows)
            if part is not None:
                self.audited += len(part)
                self._send(part, self._suspect)

    def _due(self, rows: Derived) -> Derived | None:
        """Return the rows that must have been derived by now; None if there is none."""
        now, seconds = self._messenger.now, self._messenger.config.audit_seconds
        born, oldest = as_array(rows.born), as_array(rows.oldest)
        first, last = (hlc.from_seconds(max(0.0, now - ago)) for ago in (self._back_seconds, seconds))
        due = (born >= np.uint64(first)) & (born <= np.uint64(last)) & (oldest < np.uint64(hlc.ELEMENT))
        if self._fresh and due.any():
            groups = as_list(self._tables.group_ids(rows.plan, rows.group))
            came = [hlc.from_seconds(self._fresh.get(each, 0.0)) for each in groups]
            due &= born > np.array(came, np.uint64)
        if not due.any():
            return None
        index = self._tables.columns.column(np.flatnonzero(due).tolist(), "int64")
        return part_of(rows, index, self._tables.columns)

    # --- finding ---------------------------------------------------------------------------------

    def found(self, suspect: int, missing: int, sender: Contact) -> None:
        """Report that rows were missing here which a replica sent in place of the primary ``suspect``."""
        if missing <= 0 or (suspect not in self.withheld and len(self.withheld) >= SUSPECTS_MAX):
            return
        self.withheld[suspect] += missing
        self._messenger.trace("solutions-withheld", peer=f"{suspect:016x}", rows=missing, reporter=f"{sender.key:016x}")

    def status(self) -> Mapping[str, object]:
        """Return the rows derived to check others, and the rows that were missing here, by the key of the primary."""
        withheld = {f"{key:016x}": count for key, count in self.withheld.items()}
        return {"audited": self.audited, "withheld": withheld}


def _is_chosen(chosen: dict[int, npt.NDArray[np.uint64]], role: int, ring: Column) -> npt.NDArray[np.bool_]:
    """Return which ring keys under a role are audited."""
    asked = as_array(ring)
    found: npt.NDArray[np.bool_] = np.isin(asked, chosen.get(role, np.zeros(0, np.uint64)))
    return found


def _joined_elsewhere(roles: npt.NDArray[Any]) -> npt.NDArray[np.uint32]:
    """Return per triple the indexes under which another peer joins it, except that of all triples."""
    every = roles.astype(np.uint32)
    stored = (every | every >> np.uint32(keys.EVENT_SHIFT)) & np.uint32(0xFF & ~(1 << keys.ANY))
    elsewhere: npt.NDArray[np.uint32] = stored & ~(every >> np.uint32(keys.PRIMARY_SHIFT))
    return elsewhere
