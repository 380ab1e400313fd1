"""The tables of one peer: stored triples, waiting queries and partial results, and their join.

For each index (role: the constant parts that routed an item here) a peer holds the **triple table** and the **rows**
that wait for a pattern: the query table and the intermediate results of seed 004.  A query that waits for its first
pattern is a row without bindings.

The invariant (seed 004, section 3.4): *the later of a compatible row and triple joins the pair*.  Both first store,
then probe, without interruption, so no pair is missed.  A known identity is not stored again, so no pair is joined
twice.

Set semantics: a triple has one row and the stamp of its latest publication, and counts for a subscription with
``since`` at or before that stamp.  A republished triple is joined again only with rows of groups that gained a
subscription after its previous stamp (``since_max``).  The solutions have the same identities and a later ``oldest``.
Per event, each publication is a row of its own, in separate tables with separate bits in a set of indexes.

Deletions: a time from ``GONE`` on is a tombstone, with the stamp of the deletion in the other bits.  The table holds
a row per validity interval of a triple (:mod:`p2prdf.store.intervals`).  An ended row has ``GONE`` as its ``oldest``,
so it is joined again and the derived solutions end too.  Publication events are not deleted.

Stream elements are events with their event time as stamp (:func:`p2prdf.hlc.element`); those before their stream's
retention watermark are forgotten (:mod:`p2prdf.store.horizons`).

Rows and triples meet in a *join index*, one per kind, index and join key (``mask``: all constant and bound
parts).  In CSBV the join key is the index's; in CQC one index may serve several.  Of several copies only one peer's
are ``probed``; a peer that becomes that one recomputes (:mod:`p2prdf.store.rejoin`).

:mod:`p2prdf.store.light` (dictionaries, the reference) and :mod:`p2prdf.store.columnar` (numpy, for batches)
implement this contract; one suite tests both.
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
    "Ends",
    "FilterFunction",
    "PlanFilters",
    "Sizes",
    "Tables",
    "identity_of_group",
    "stride",
]

NEVER = (1 << 64) - 1
"""A stamp later than all others: ``since_min`` of an ended group, ``oldest`` of an empty row."""

REJOIN_PAIRS_MAX = 50_000
"""Bound on the pairs per piece of a recomputation: some tens of milliseconds."""

FilterFunction = Callable[[Sequence[str]], bool]

Chosen: TypeAlias = "Callable[[int, Column], Sequence[bool] | npt.NDArray[Any]]"
"""Selects ring keys of an index: takes the role and a column of ring keys, returns a column of bools."""


@dataclass(slots=True)
class Derived:
    """New rows that wait at ``step`` of ``plan``; at ``len(plan.steps)`` they are solutions.

    ``group`` holds this peer's numbers for the groups of ``plan``; the other columns are as in
    :class:`p2prdf.wire.messages.Rows`.  ``refresh`` (the backfill stamp) is as in Forward.
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
    """Sizes and loads of a peer's tables.  Loads are those of seed 004 (section 3.6 of its notes).

    ``processing_load``: triples received and checked against waiting rows, once per index, plus partial results
    received and checked against triples; items that are only stored do not count.  ``storage_load``: patterns held,
    triples stored (once per index) and intermediate results.  ``too_wide``: pairs that were not joined because no
    window holds both.
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
    """Number of stream elements among the triples."""
    elements_forgotten: int = 0
    """Number of elements that were held and are forgotten."""
    elements_late: int = 0
    """Number of elements that were forgotten before they arrived, counted once per message that brought them."""
    rows_forgotten: int = 0
    """Number of partial results that were held and contained a forgotten element."""
    intervals_forgotten: int = 0
    """Number of validity intervals that were held and are forgotten."""

    @property
    def storage_load(self) -> int:
        """Number of patterns, triples per index and intermediate results held."""
        return self.triple_roles + self.queries + self.rows


class Tables(Protocol):
    """The interface between a peer and its tables."""

    columns: Columns
    horizons: Horizons
    """Event times before which stream elements are forgotten; only :meth:`forget` raises them."""
    over_before: int
    """New items are not joined with tombstones from before this stamp; 0, the initial value, joins them with all.

    A peer that has joined under a key all the time knows that a new item was never joined with older tombstones.  An
    item that ends now, or whose end arrives only now, retracts everything derived from it, however old it is; so does
    a recomputation.
    """
    stable_before: int
    """Deletions with a stamp below this one are stable; 0: none.  The peer raises it, late ends lower it.

    Every peer that may join knows a stable deletion, and all retractions that follow from it have been delivered
    (docs/explanation/design/deletions.md).  An item that ended before this stamp is therefore joined with no other one,
    in recomputations and backfills neither, except when its end arrives.
    """
    latest_end: int
    """The latest stamp of an end that was ever stored; 0: none."""
    superseded_before: int
    """The last stamp that :meth:`forget_superseded` was called with; late ends lower it."""
    settled: int
    """The current stamp while this peer alone joins under its keys and holds everything under them; otherwise 0.

    While it is set, a row and a triple are not joined if one has ended, both were never valid here together, and
    their stamps exclude an overlap: no peer can have derived a solution from the pair, so there is none to retract.
    Three comparisons are exact.  A triple begins with its first publication here, and a row has ended by its
    ``born``.  A triple that ended before the group of a row arrived (``first_heard``) ended before the row began.  A
    row that is valid at its arrival has a triple as late as its ``born``.

    If both were valid here together, the first that ended was joined with the other then.  When the other ends too,
    they are not joined once more.

    A recomputation and a backfill join everything.  So does a pattern without any constant: its rows wait, and are
    joined, at several peers.
    """

    def add_triples(
        self, s: Column, p: Column, o: Column, time: Column, event: Column, roles: Column,
        probed: Column | None = None,
    ) -> list[Derived]:  # fmt: skip
        """Store triples under their indexes and join them with the waiting rows.

        ``probed`` (default: all): per triple the indexes in which it is joined, laid out as ``roles``; in the others
        it is only stored.  In an index that holds the triple already, it is joined again only if it was published
        again since.

        A triple has one time for all its indexes.  A later publication is therefore joined in *all* indexes of
        ``probed`` that hold it, even if ``roles`` does not name them: if its indexes arrive in several messages,
        those after the first bring nothing new.  A caller that must not miss solutions sets the bits outside
        ``roles`` too; a caller that wants no join sets none.

        Outside ``roles`` it is joined only under the keys that this peer leads (a function of index and keys, given to
        the constructor): a peer that was a replica still holds rows, and does not receive their ends any more.
        """
        ...

    def add_groups(self, plan: Plan, groups: Groups) -> Column:
        """Take in groups, or widen known ones; return this peer's numbers for them."""
        ...

    @property
    def ever_removed(self) -> bool:
        """Whether a deletion of a triple was ever received; cheap."""
        ...

    def take_earliest_end(self) -> int:
        """Return the earliest stamp of an end that was stored since the last call; NEVER: none was."""
        ...

    def take_widened(self) -> bool:
        """Return whether, since the last call, a group was widened after a join was skipped for it.

        A republished triple is joined again only for groups with a subscription after the triple's previous stamp
        (``since_max``).  If this peer learns of that subscription late, solutions are missing: see :meth:`rejoin`.
        """
        ...

    def add_queries(
        self, plan: Plan, step: int, group: Column, refresh: int, probed: Column | None = None
    ) -> list[Derived]:
        """Let groups wait for their first pattern (step 0), or mark the triples that a later link must keep.

        ``probed`` as in :meth:`add_rows`, per group.
        """
        ...

    def add_rows(self, rows: Derived, probed: Column | None = None) -> list[Derived]:
        """Store partial results and join them with the triples held.

        ``probed`` (default: all): per row whether it is joined (true, 1) or only stored.  A row that is held already
        is joined again only with its change: a later ``oldest``, or a backfill.
        """
        ...

    def rejoin(self, chosen: Chosen, pairs_max: int = REJOIN_PAIRS_MAX) -> Iterator[list[Derived]]:
        """Join all rows that wait under chosen ring keys with all triples held, in pieces of bounded work.

        ``chosen`` takes a role and a column of ring keys and returns a column of bools.  Rows that wait for a pattern
        without constants wait under the keys of all buckets; they are joined if one of those is chosen.  Items that
        ended before ``stable_before`` are left out.  The tables may change in any way between pieces.  A piece joins at
        most ``pairs_max`` pairs and rows looked at; it may be empty.
        """
        ...

    def export_groups(self, plan: Plan, group: Column) -> tuple[Groups, Column]:
        """Return the distinct groups among ``group`` for a message, and each row's place among them."""
        ...

    def waiting_rows(self, role: int, key: int) -> list[Derived]:
        """Return all rows, including queries, that wait under a ring key; scans all rows of its index."""
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
        """Return the number of triples held in an index under constant parts."""
        ...

    def some_waiting(self, group: int, step: int, most: int) -> tuple[Derived | None, int]:
        """Return at most ``most`` rows of a group at a step, evenly chosen, and the number of all; None without rows.

        ``group``: its identity.  Ended rows are included.  Scans the rows at that step of the group's plan.
        """
        ...

    def some_triples(
        self, role: int, mask: int, parts: tuple[int, int, int], most: int, *, per_event: bool
    ) -> tuple[tuple[Column, Column, Column, Column], float]:
        """Return valid triples (or events) of an index with the given parts, as s, p, o, time, and a weight.

        ``mask`` names the parts.  At most ``most`` triples are looked at, evenly chosen; the weight is the number of
        triples that each stands for.
        """
        ...

    def latest_news(self, subject: int) -> int:
        """Return the stamp of the latest publication or deletion of a subject under the index s; 0: there is none.

        Elements of streams do not count.
        """
        ...

    def triples_at(
        self, role: int, parts: tuple[int, int, int], most: int
    ) -> tuple[tuple[Column, Column, Column, Column] | None, int]:
        """Return the valid triples under a key of an index as s, p, o, time, and the stamp of the key's latest change.

        ``role``: neither without parts nor of all three.  ``parts``: terms; those outside the index hold any term.
        None in place of the triples: there are more than ``most``.  Stamp 0: nothing was ever stored under the key.
        """
        ...

    def end_groups(self, ids: Sequence[int]) -> None:
        """End groups for good, also groups that arrive only later; their rows are joined no more.

        The identities of the last ``ENDED_MAX`` ended groups are remembered (:mod:`p2prdf.store.items`).
        """
        ...

    @property
    def has_ended(self) -> bool:
        """Whether plans with ended groups wait for :meth:`release_ended`; cheap."""
        ...

    def release_ended(self) -> None:
        """Release plans without live groups, and ended groups with their rows where these outnumber the live ones.

        Numbers of groups change: the caller must hold none, nor rows (:class:`Derived`) with such numbers.
        """
        ...

    def extend_leases(self, ids: Sequence[int], leases: Sequence[int]) -> None:
        """Extend the leases of groups to the given stamps."""
        ...

    def expired_groups(self, now: int, limit: int) -> list[int]:
        """Return up to ``limit`` identities of groups whose lease ended before stamp ``now``."""
        ...

    def forget(self, stream: int, before: int) -> bool:
        """Forget elements of a stream (named by its hash) before an event time (ms), and the rows that contain them.

        Returns whether the event time is later than before.  Such elements are refused from now on; those that are
        held remain until :meth:`forget_some` has reached them.
        """
        ...

    @property
    def superseded(self) -> bool:
        """Whether triples may have several validity intervals."""
        ...

    def forget_superseded(self, before: int) -> None:
        """Forget the validity intervals that ended before a stamp and are not the first of their triple; 0: none.

        These are the present ones; they remain until :meth:`forget_some` has reached them.  Publications and deletions
        of them that arrive later are credited to the first interval, which has ended after them all.
        """
        ...

    @property
    def forgetting(self) -> bool:
        """Whether :meth:`forget_some` has work to do."""
        ...

    def forget_some(self) -> None:
        """Continue to forget for some milliseconds: drop forgotten items, and return memory once there is enough."""
        ...

    def triple_items(self, role: int, per_event: bool, handle: Column | None = None) -> TripleItems:
        """Return all triples (or publication events) held in an index, or those among some handles, as items.

        An item's identity combines the identity of the triple (or event) with its time.  Handles number the triples
        from 0 without gaps in order of arrival; they are the same in all indexes.
        """
        ...

    def changed_triples(self, per_event: bool, seen: Seen) -> tuple[Column | None, Seen]:
        """Return the handles of triples (or events) that came or changed after ``seen``, and the new position.

        None in place of the handles: all must be looked at again.
        """
        ...

    def export_triples(self, role: int, per_event: bool, handle: Column) -> TripleColumns:
        """Return triples by handle (some of those of :meth:`triple_items`), with the bit of that index alone."""
        ...

    def triples_since(self, stamp: int) -> TripleColumns:
        """Return all triples and publication events with a time from ``stamp`` on, with all their indexes."""
        ...

    def row_items(self) -> Iterator[RowItems]:
        """Yield all waiting rows of live groups (queries at step 0), at most one step of a plan at a time.

        An item's identity combines the row's identity with its ``oldest``, and at step 0 with the group's
        ``since_min`` and ``since_max``.  Rows that wait under the keys of all buckets appear once for each.  The
        tables may change in any way between two values.
        """
        ...

    def export_rows(self, plan: Plan, step: int, handle: Column) -> Derived:
        """Return rows by handle (some of those of :meth:`row_items`), without those that have ended."""
        ...

    def link_items(self) -> Iterator[LinkItems]:
        """Yield all later links held (:meth:`add_queries` with a step above 0), as :meth:`row_items` yields rows."""
        ...

    def export_links(self, plan: Plan, handle: Column) -> Groups:
        """Return groups by handle (some of those of :meth:`link_items`), without those that have ended."""
        ...

    def ended_groups(self) -> list[int]:
        """Return the identities of groups known to have ended; later arrivals do not restore them."""
        ...

    def ended_among(self, plan: Plan, group: Column) -> list[int]:
        """Return the identities of the ended groups among some groups of a plan, given by number; each once."""
        ...

    def triple_version(self, per_event: bool) -> int:
        """Return a number that grows whenever a triple (or event) becomes a new item; cheap."""
        ...

    @property
    def waiting_version(self) -> int:
        """A number that grows whenever a row or link is added, changed or ended; cheap."""
        ...

    @property
    def held(self) -> int:
        """Number of triples and partial results held; cheap."""
        ...

    def sizes(self) -> Sizes:
        """Return the sizes and loads."""
        ...


class Ends:
    """The ends of items as they are stored, and the stamp before which they are stable (:class:`Tables`)."""

    over_before = 0
    stable_before = 0
    superseded_before = 0
    latest_end = 0
    _earliest_end = NEVER

    @property
    def _ended_from(self) -> int:
        """The stamp from which on ended items are joined with others."""
        return max(self.over_before, self.stable_before)

    def _note_ends(self, earliest: int, latest: int) -> None:
        """Note the ends of items that were not stored before; a late one shows that it was not stable."""
        self.stable_before = min(self.stable_before, earliest)
        self.superseded_before = min(self.superseded_before, earliest)
        self._earliest_end = min(self._earliest_end, earliest)
        self.latest_end = max(self.latest_end, latest)

    def take_earliest_end(self) -> int:
        """Return the earliest stamp of an end that was stored since the last call; NEVER: none was."""
        earliest, self._earliest_end = self._earliest_end, NEVER
        return earliest


class PlanFilters:
    """The filters of one plan, each evaluated once per distinct combination of terms.

    A plan's filter sees only bound terms, so its value is a function of them.  Up to ``memo_max`` combinations are
    cached per filter; then the cache is cleared.
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
    """Return the identity of a group's empty row: solutions of different groups never coincide."""
    return keys.fmix(group_id)


def stride(count: int, most: int) -> int:
    """Return the step width with which at most ``most`` of ``count`` items are looked at."""
    return max(1, -(-count // most))
