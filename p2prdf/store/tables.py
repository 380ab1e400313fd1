"""The tables of one peer: what is stored, what waits, and how they are joined.

A peer holds, split by role (which constant parts routed them here):

* the **triple table**: triples indexed under a role this peer owns a key of;
* the **query table** and the **intermediate results**: rows that wait for a pattern.  A query
  waiting for its first pattern is a row with no bindings, so both are one thing.

The one invariant (seed 004, section 3.4): *each compatible pair of a waiting row and a triple is
joined by whichever of the two comes second*.  Both ways in first store, then probe, without
anything in between, so nothing is missed, and a known identity is not stored again, so nothing
is joined twice.

Set semantics: a triple has one row and the stamp of its latest publication.  It counts for a
subscription if that stamp is not before ``since``.  Published again, it is joined again only
with rows of groups to which a subscription was added after the stamp it had (``since_max``
above the prior stamp); the results carry the same identities and a later ``oldest``, and the
home delivers them to just those subscriptions.  Per event, every publication event is a row of
its own.  The two kinds live in separate tables, with separate bits in a set of roles.

Removals: a triple whose time is from ``GONE`` on is removed, at the stamp that is the rest of it.  What is held is
a row per *stay* of a triple (:mod:`p2prdf.store.stays`); one that is over has such a time, and a row that is over has
``GONE`` as its ``oldest``.  That is later than all stamps, so both are joined again, with everything they meet, and
what comes of it is over, too: whoever made it while it was true, here or elsewhere, it is taken back.  Publication
events are not removed.

Elements of streams are events whose time is their own (:func:`p2prdf.hlc.element`).  Those from before the horizon of
their stream are forgotten (:mod:`p2prdf.store.horizons`), with all rows that have one: whatever brings them again.

Inside a peer rows and triples are joined on the *mask*, all constant and bound parts.  In CSBV
that is the role itself; in CQC the role is one constant part, and one role may serve several
masks.  A (kind, role, mask) is a *lane*.

Where an item has several copies only one of its holders joins it.  The others are told to store it
without probing (``probed``).  A peer that becomes the one to join *rejoins* what it holds
(:mod:`p2prdf.store.rejoin`).

Two implementations keep this contract: :mod:`p2prdf.store.light` (dictionaries, the readable
reference) and :mod:`p2prdf.store.columnar` (numpy, for batches).  One suite tests both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy.typing as npt

from p2prdf import keys
from p2prdf.columns import Column, Columns
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.rdf.query import Filter, Plan
from p2prdf.store.horizons import Horizons
from p2prdf.store.items import LinkItems, RowItems, Seen, TripleColumns, TripleItems
from p2prdf.wire.messages import Groups

__all__ = [
    "NEVER",
    "REJOIN_PAIRS_MAX",
    "Chosen",
    "Derived",
    "FilterFunction",
    "PlanFilters",
    "Sizes",
    "Tables",
    "identity_of_group",
    "stride",
]

NEVER = (1 << 64) - 1
"""A stamp after all others: ``since_min`` of a group that has ended, ``oldest`` of an empty row."""

REJOIN_PAIRS_MAX = 50_000
"""Pairs per piece of a rejoin: some tens of milliseconds."""

FilterFunction = Callable[[Sequence[str]], bool]

Chosen: TypeAlias = "Callable[[int, Column], Sequence[bool] | npt.NDArray[Any]]"
"""Tells of ring keys under a role which are chosen."""


@dataclass(slots=True)
class Derived:
    """New rows, waiting at ``step`` of ``plan``; at ``len(plan.steps)`` they are answers.

    ``group`` holds this peer's numbers for the groups of ``plan``; the other columns are as in
    :class:`p2prdf.wire.messages.Rows`.  ``refresh`` as in Forward.
    """

    plan: Plan
    step: int
    group: Column
    identity: Column
    oldest: Column
    born: Column
    bindings: tuple[Column, ...]
    refresh: int = 0

    def __len__(self) -> int:
        return len(self.group)


@dataclass(slots=True)
class Sizes:
    """What a peer holds and has done.  Loads are those of seed 004 (section 3.6 of its notes).

    ``processing_load``: triples received to be checked against waiting rows, once per role, plus
    partial results received to be checked against triples; not what is only stored.  ``storage_load``: patterns
    held, triples stored (once per role) and intermediate results.  ``too_wide``: pairs that were not joined, for
    no window holds both.
    """

    triples: int = 0
    triple_roles: int = 0
    queries: int = 0
    rows: int = 0
    groups: int = 0
    plans: int = 0
    processing_load: int = 0
    joined: int = 0
    too_wide: int = 0
    bytes: int = 0
    elements: int = 0
    """Elements of streams among the triples;"""
    elements_forgotten: int = 0
    """those that were held and are forgotten,"""
    elements_late: int = 0
    """those that were forgotten before they came, counted once per message that brought them,"""
    rows_forgotten: int = 0
    """and partial results that were held and had one of them."""

    @property
    def storage_load(self) -> int:
        """Patterns, triples per role and intermediate results held."""
        return self.triple_roles + self.queries + self.rows


class Tables(Protocol):
    """What a peer asks of its tables."""

    columns: Columns
    horizons: Horizons
    """Before which event times elements of streams are forgotten; grown by :meth:`forget` alone."""
    over_before: int
    """What is over since before this stamp is not met by what comes; 0, as at first: it always is.

    Whoever joins under a key all the time has met a newcomer in time to know that it was never joined with what was
    over.  What ends now, or is heard of only now, takes back what was made of it, however old it is; so does a rejoin.
    """
    settled: int
    """The stamp of now while this peer alone joins under its keys, and holds all that lies there; 0 otherwise.

    While it is set, a row and a triple are not joined if one has ended, both were never alive here together, and their
    stamps say that they never overlapped: no peer can have made a solution of the two, so there is none to take back.
    Three comparisons are exact.  A triple begins with its first publication here, and a row has ended by its ``born``.
    A triple that ended before the group of a row came here (``first_heard``) ended before the row began.  A row that
    comes here alive has a triple as young as its ``born``.

    Of two that were alive here together, whichever ended first was joined with the other then.  So if the other ends,
    too, they are not joined once more.  A rejoin, and a refresh, join everything, and so does a pattern without any
    constant, whose rows wait, and are joined, at several peers.
    """

    def add_triples(
        self, s: Column, p: Column, o: Column, time: Column, event: Column, roles: Column,
        probed: Column | None = None,
    ) -> list[Derived]:  # fmt: skip
        """Store triples under their roles and join them with the rows that wait.

        ``probed`` (default: all): per triple the roles under which it is joined, laid out as
        ``roles``; under the others it is only stored.  Under a role it is held under it is joined
        again if it was published again since, and only then.

        A triple has one time for all its roles.  So a later publication is joined under *all* roles
        of ``probed`` that it is held under, also those that ``roles`` does not name: if its roles
        come in several messages, those after the first bring nothing new.  Whoever wants no answer
        missed sets the bits outside ``roles``, too; whoever wants nothing joined sets none.
        """
        ...

    def add_groups(self, plan: Plan, groups: Groups) -> Column:
        """Take in groups, or widen known ones, and return this peer's numbers for them."""
        ...

    @property
    def ever_removed(self) -> bool:
        """Whether a removal of a triple was ever heard of; cheap to ask."""
        ...

    def take_widened(self) -> bool:
        """Return whether a group is wider than when something was left out for it, since the last call.

        What is published again is joined again for groups alone that have a subscription younger than the last time
        (``since_max``).  If this peer hears of that subscription late, something is missing: see :meth:`rejoin`.
        """
        ...

    def add_queries(
        self, plan: Plan, step: int, group: Column, refresh: int, probed: Column | None = None
    ) -> list[Derived]:
        """Let groups wait for their first pattern (step 0), or mark what a later link must keep.

        ``probed`` as in :meth:`add_rows`, per group.
        """
        ...

    def add_rows(self, rows: Derived, probed: Column | None = None) -> list[Derived]:
        """Store partial results and join them with the triples held.

        ``probed`` (default: all): per row whether it is joined (true, 1) or only stored.  A row that is held is
        joined again with what is new about it alone: a later ``oldest``, or a refresh.
        """
        ...

    def rejoin(self, chosen: Chosen, pairs_max: int = REJOIN_PAIRS_MAX) -> Iterator[list[Derived]]:
        """Join all rows that wait under chosen ring keys with all triples held, in pieces of bounded work.

        ``chosen`` is asked with a role and a column of ring keys, and answers with a column of bools.
        Rows that wait for a pattern without constants wait under the keys of all buckets: they are
        rejoined if one of those is chosen.  Between pieces the tables may be changed in any way.
        For a piece at most ``pairs_max`` pairs are joined and rows looked at; it may be empty.
        """
        ...

    def export_groups(self, plan: Plan, group: Column) -> tuple[Groups, Column]:
        """Return the distinct groups among ``group`` for a message, and each row's place among them."""
        ...

    def waiting_rows(self, role: int, key: int) -> list[Derived]:
        """Return all rows that wait under a ring key, queries among them; a pass over all that wait under its role."""
        ...

    def row_keys(self, rows: Derived) -> Column:
        """Return the ring key at which each row waits; its step must have a role."""
        ...

    def query_keys(self, plan: Plan, step: int, group: Column) -> Column:
        """Return the ring key of a step's pattern by its own constants, per group."""
        ...

    def triple_keys(self, role: int, s: Column, p: Column, o: Column) -> Column:
        """Return the ring key of each triple under a role."""
        ...

    def group_ids(self, plan: Plan, group: Column) -> Column:
        """Return the identities of groups by this peer's numbers."""
        ...

    def count(self, role: int, s: int, p: int, o: int) -> int:
        """Return how many triples the peer holds under a role and constant parts."""
        ...

    def some_waiting(self, group: int, step: int, most: int) -> tuple[Derived | None, int]:
        """Return rows of a group that wait at a step, at most ``most`` and evenly chosen; how many there are.

        ``group``: its identity.  Those that are over are among them.  None if there are none.
        A pass over what waits at that step of its plan.
        """
        ...

    def some_triples(
        self, role: int, mask: int, parts: tuple[int, int, int], most: int, *, per_event: bool
    ) -> tuple[tuple[Column, Column, Column, Column], float]:
        """Return triples (or events) held under a role that have the parts a mask names: s, p, o, time.

        Not what is over.  Beside them how many each stands for: at most ``most`` are looked at, evenly chosen.
        """
        ...

    def end_groups(self, ids: Sequence[int]) -> None:
        """Forget groups and what waits for them, for good: also of a group that comes only later.

        Of groups unknown here ``ENDED_MAX`` are remembered (:mod:`p2prdf.store.items`).
        """
        ...

    def extend_leases(self, ids: Sequence[int], leases: Sequence[int]) -> None:
        """Let groups live until the stamps given."""
        ...

    def expired_groups(self, now: int, limit: int) -> list[int]:
        """Return up to ``limit`` identities of groups whose lease ended before stamp ``now``."""
        ...

    def forget(self, stream: int, before: int) -> bool:
        """Forget elements of a stream (named by its hash) from before an event time (ms), and what was made of them.

        Whether that is news is returned.  From now on none is taken in; those that are held stay until
        :meth:`forget_some` has come to them.
        """
        ...

    @property
    def forgetting(self) -> bool:
        """Whether :meth:`forget_some` has something to do."""
        ...

    def forget_some(self) -> None:
        """Go on for some milliseconds: drop what is forgotten, and give memory back once it is much."""
        ...

    def triple_items(self, role: int, per_event: bool, handle: Column | None = None) -> TripleItems:
        """Return all triples (or publication events) held under a role, or of some those, as items.

        The identity of an item is made of the triple's (or the event's) and of its time.  Handles are numbers of
        triples, from 0 without gaps in order of arrival, the same under all roles.
        """
        ...

    def changed_triples(self, per_event: bool, seen: Seen) -> tuple[Column | None, Seen]:
        """Return the handles of triples (or events) that came or changed since somebody looked, and how far that is.

        None in place of the handles: all are to be looked at again.
        """
        ...

    def export_triples(self, role: int, per_event: bool, handle: Column) -> TripleColumns:
        """Return triples by handle (some of those of :meth:`triple_items`), with the bit of that role alone."""
        ...

    def triples_since(self, stamp: int) -> TripleColumns:
        """Return all triples and publication events with a time from ``stamp`` on, with all their roles."""
        ...

    def row_items(self) -> Iterator[RowItems]:
        """Yield all rows that wait (queries at step 0), of groups that live, at most a step of a plan at a time.

        The identity of an item is made of the row's and its ``oldest``; at step 0 also of the group's
        ``since_min`` and ``since_max``.  Rows that wait under the keys of all buckets come once for each.
        In between the tables may be changed in any way.
        """
        ...

    def export_rows(self, plan: Plan, step: int, handle: Column) -> Derived:
        """Return rows by handle (some of those of :meth:`row_items`); those that have ended are left out."""
        ...

    def link_items(self) -> Iterator[LinkItems]:
        """Yield all later links held (:meth:`add_queries` with a step above 0), as :meth:`row_items` does rows."""
        ...

    def ended_groups(self) -> list[int]:
        """Return the identities of groups known to have ended; whatever arrives for them does not bring them back."""
        ...

    def ended_among(self, plan: Plan, group: Column) -> list[int]:
        """Return the identities of those of some groups of a plan, by number, that have ended; each once."""
        ...

    def triple_version(self, per_event: bool) -> int:
        """Return a number that grows whenever a triple (or an event) is an item it was not; cheap to ask."""
        ...

    @property
    def waiting_version(self) -> int:
        """A number that grows whenever a row or link is added, changed or ended; cheap to ask."""
        ...

    @property
    def held(self) -> int:
        """Triples and partial results held; cheap to ask."""
        ...

    def sizes(self) -> Sizes:
        """Return what is held and has been done."""
        ...


class PlanFilters:
    """The filters of one plan, each decided once per distinct combination of terms.

    A plan's filter sees only bound terms, so its value is a function of them.  Results are kept
    up to ``memo_max`` combinations per filter, then the memory is started afresh.
    """

    def __init__(
        self, plan: Plan, dictionary: TermDictionary, compile_filter: Callable[[Filter], FilterFunction],
        memo_max: int = 65_536,
    ):  # fmt: skip
        self._dictionary = dictionary
        self._functions = [compile_filter(each) for each in plan.filters]
        self._memo: list[dict[tuple[int, ...], bool]] = [{} for _ in plan.filters]
        self._memo_max = memo_max

    def passes(self, number: int, terms: tuple[int, ...]) -> bool:
        """Return whether filter ``number`` holds for the terms of its variables."""
        memo = self._memo[number]
        known = memo.get(terms)
        if known is None:
            if len(memo) >= self._memo_max:
                memo.clear()
            known = memo[terms] = bool(self._functions[number](self._dictionary.texts(terms)))
        return known


def identity_of_group(group_id: int) -> int:
    """Return the identity of the empty row of a group: results of different groups never coincide."""
    return keys.fmix(group_id)


def stride(count: int, most: int) -> int:
    """Return of how many one is to be looked at, so that of ``count`` no more than ``most`` are."""
    return max(1, -(-count // most))
