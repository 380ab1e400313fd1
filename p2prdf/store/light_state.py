"""State of the light tables: stored items in dictionaries, and their keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from operator import itemgetter
from typing import Any

from p2prdf import keys
from p2prdf.columns import LISTS, Column, as_list
from p2prdf.hlc import GONE, is_element
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.rdf.query import Filter, Plan
from p2prdf.store.compiled import GROUP, CompiledStep, compile_step
from p2prdf.store.full_text import NO_CONDITION, FullText
from p2prdf.store.horizons import Horizons
from p2prdf.store.intervals import Superseded, ValidityIntervals
from p2prdf.store.light_texts import TextRows
from p2prdf.store.tables import NEVER, Chosen, Derived, Ends, FilterFunction, PlanFilters, Sizes, stride
from p2prdf.wire.messages import Groups

__all__ = [
    "BEGIN", "IDENTITY", "PLAIN", "ROLES", "TERMS", "TIME", "Group", "JoinIndex", "LightState", "PlanTable", "Row",
    "StepTable", "Terms", "Triple",
]  # fmt: skip

Terms = tuple[int, ...]

Triple = list[Any]
"""A validity interval of a triple, or one publication event: ``[terms, time, roles, identity, begin]``.

A bare list because one is made per triple.  A triple's identity is computed when first needed and -1 before.
``begin``: the deletion after which the interval begins (:mod:`p2prdf.store.intervals`), 0 for an event.
"""

TERMS, TIME, ROLES, IDENTITY, BEGIN = range(5)


@dataclass(slots=True)
class Group:
    """A canonical query under one plan."""

    number: int
    identity: int
    since_min: int
    since_max: int
    lease: int
    params: Terms
    first_heard: int
    """The value of ``settled`` (:class:`p2prdf.store.tables.Tables`) when the group first arrived here."""


class Row:
    """A partial result waiting at a step; at step 0, the query itself."""

    __slots__ = ("bindings", "born", "group", "identity", "oldest")

    def __init__(self, group: Group, identity: int, oldest: int, born: int, bindings: Terms):
        self.group = group
        self.identity = identity
        self.oldest = oldest
        self.born = born
        self.bindings = bindings


@dataclass(slots=True, eq=False)
class StepTable:
    """Rows that wait at one step of a plan, by identity."""

    plan: PlanTable
    number: int
    compiled: CompiledStep
    join_index: JoinIndex
    condition: int
    """The full-text condition that files its rows, or NO_CONDITION (:mod:`p2prdf.store.full_text`)."""
    rows: dict[int, Row] = field(default_factory=dict)
    links: set[int] = field(default_factory=set)


class JoinIndex:
    """A join index: triples and waiting rows of one kind, role and mask, by the terms under the mask."""

    __slots__ = ("key_of", "mask", "role", "texts", "triples", "waiting")

    def __init__(self, role: int, mask: int):
        self.role = role
        self.mask = mask
        self.key_of = _KEY_OF[mask]
        self.triples: dict[Any, list[Triple]] = {}
        self.waiting: dict[Any, list[tuple[StepTable, Row]]] = {}
        self.texts: TextRows | None = None
        """Rows that wait for a text; ``waiting`` does not contain them."""


@dataclass(slots=True, eq=False)
class PlanTable:
    """The groups and rows that a peer holds for one plan."""

    plan: Plan
    filters: PlanFilters
    by_id: dict[int, Group] = field(default_factory=dict)
    groups: list[Group] = field(default_factory=list)
    steps: list[StepTable] = field(default_factory=list)


def _key_of(mask: int) -> Callable[[Terms], Any]:
    """Return a function that picks the terms under a mask: one term, a tuple of them, or always the same."""
    places = [at for at, bit in enumerate((keys.S, keys.P, keys.O)) if mask & bit]
    return itemgetter(*places) if places else lambda _: ()


_KEY_OF = [_key_of(mask) for mask in range(8)]

PLAIN = (1 << keys.EVENT_SHIFT) - 1
"""The bits of set semantics in a set of indexes."""


class LightState(Ends):
    """Triples, join indexes, plans with groups and rows, and the ring keys of all these."""

    def __init__(
        self, dictionary: TermDictionary, compile_filter: Callable[[Filter], FilterFunction],
        leads: Chosen | None = None, *, forgets: bool = False,
    ):  # fmt: skip
        """``leads`` returns whether this peer joins under keys; ``forgets``: superseded intervals may be forgotten."""
        self.columns = LISTS
        self.settled = 0
        self._leads = leads
        self.horizons = Horizons(dictionary)
        self._dictionary = dictionary
        self._compile_filter = compile_filter
        self._full_text = FullText(dictionary)
        self._plans: dict[int, PlanTable] = {}
        self._triples: dict[tuple[int, ...], Triple] = {}
        """Validity intervals by terms; those that begin after a deletion by terms and beginning."""
        self._events: dict[int, Triple] = {}
        self._intervals: ValidityIntervals[tuple[int, int, int]] = ValidityIntervals()
        self._superseded: Superseded[tuple[int, int, int]] = Superseded(noted=forgets)
        self.ever_removed = False
        self._join_indexes: tuple[list[list[JoinIndex]], list[list[JoinIndex]]] = (
            [[JoinIndex(role, role)] for role in range(8)],
            [[JoinIndex(role, role)] for role in range(8)],
        )
        """Join indexes per role, of triples and of events; the first of a role has the role as its mask."""
        self._join_indexes_by_roles: dict[int, tuple[JoinIndex, ...]] = {}
        self._owners: dict[int, PlanTable] = {}
        self._sizes = Sizes()
        self._row_count = 0
        self._in_order: tuple[list[Triple], list[Triple]] = ([], [])
        """Triples and events in order of insertion, as far as a caller has needed it."""
        self._skipped = False
        """Whether a join was ever skipped because no subscription was late enough for it."""
        self._widened = False
        self._triple_changes = [0, 0]
        """Changes of triples and of events that their numbers do not show."""
        self._changes = 0
        """Changes of items that the numbers of held items do not show."""
        self._ended: dict[int, None] = {}
        """Groups that have ended, oldest first."""
        self._with_ended: dict[int, PlanTable] = {}
        """Plans, by identity, with ended groups that are not released."""

    # --- plans and join indexes ------------------------------------------------------------------

    def _join_indexes_in(self, roles: int) -> tuple[JoinIndex, ...]:
        """Return the join indexes of a set of roles."""
        join_indexes = self._join_indexes_by_roles.get(roles)
        if join_indexes is None:
            join_indexes = tuple(
                join_index
                for kind, bits in enumerate((roles & PLAIN, roles >> keys.EVENT_SHIFT))
                for role in range(8)
                if bits >> role & 1
                for join_index in self._join_indexes[kind][role]
            )
            self._join_indexes_by_roles[roles] = join_indexes
        return join_indexes

    def _join_index(self, per_event: bool, role: int, mask: int) -> JoinIndex:
        join_indexes = self._join_indexes[per_event][role]
        for join_index in join_indexes:
            if join_index.mask == mask:
                return join_index
        join_index = JoinIndex(role, mask)
        for held in join_indexes[0].triples.values():
            for triple in held:
                join_index.triples.setdefault(join_index.key_of(triple[TERMS]), []).append(triple)
        join_indexes.append(join_index)
        self._join_indexes_by_roles.clear()
        return join_index

    def _plan_table(self, plan: Plan) -> PlanTable:
        table = self._plans.get(plan.identity)
        if table is not None:
            return table
        table = PlanTable(plan, PlanFilters(plan, self._dictionary, self._compile_filter))
        for place, step in enumerate(plan.steps):
            join_index = self._join_index(plan.per_event, step.role, step.mask)
            condition = self._full_text.use(plan, step)
            if condition != NO_CONDITION and join_index.texts is None:
                join_index.texts = TextRows(self._full_text)
            table.steps.append(StepTable(table, place, compile_step(plan, place), join_index, condition))
        self._plans[plan.identity] = table
        return table

    def add_groups(self, plan: Plan, groups: Groups) -> Column:
        """Take in groups, or widen known ones; return this peer's numbers for them."""
        table = self._plan_table(plan)
        numbers = []
        params = list(zip(*groups.params, strict=True)) if groups.params else [()] * len(groups)
        for identity, since_min, since_max, lease, constants in zip(
            groups.ids, groups.since_min, groups.since_max, groups.lease, params, strict=True
        ):
            group = table.by_id.get(identity)
            if group is None:
                group = Group(len(table.groups), identity, since_min, since_max, lease, constants, self.settled)
                table.groups.append(group)
                table.by_id[identity] = group
                if identity in self._ended or since_min == NEVER:  # NEVER: it has ended at its sender
                    group.since_min, group.since_max = NEVER, 0
                    self._with_ended[plan.identity] = table
                else:
                    self._owners[identity] = table
            elif group.since_min != NEVER:
                self._changes += since_min < group.since_min or since_max > group.since_max
                self._widened |= since_max > group.since_max
                group.since_min = min(group.since_min, since_min)
                group.since_max = max(group.since_max, since_max)
                group.lease = max(group.lease, lease)
            numbers.append(group.number)
        return numbers

    def take_widened(self) -> bool:
        """Return whether, since the last call, a group was widened after a join was skipped for it."""
        widened, self._widened = self._widened and self._skipped, False
        return widened

    def extend_leases(self, ids: Sequence[int], leases: Sequence[int]) -> None:
        """Extend the leases of groups to the given stamps."""
        for identity, lease in zip(ids, leases, strict=True):
            table = self._owners.get(identity)
            if table is not None:
                group = table.by_id[identity]
                group.lease = max(group.lease, lease)

    def expired_groups(self, now: int, limit: int) -> list[int]:
        """Return up to ``limit`` identities of groups whose lease ended before stamp ``now``."""
        found = []
        for identity, table in self._owners.items():
            if table.by_id[identity].lease < now:
                found.append(identity)
                if len(found) >= limit:
                    break
        return found

    # --- for messages and routing ----------------------------------------------------------------

    def export_groups(self, plan: Plan, group: Column) -> tuple[Groups, Column]:
        """Return the distinct groups among ``group`` for a message, and each row's place among them."""
        table = self._plan_table(plan)
        places: dict[int, int] = {}
        order = [places.setdefault(number, len(places)) for number in group]
        chosen = [table.groups[number] for number in places]
        columns = zip(*(each.params for each in chosen), strict=True)
        groups = Groups(
            [each.identity for each in chosen],
            [each.since_min for each in chosen],
            [each.since_max for each in chosen],
            [each.lease for each in chosen],
            tuple(list(column) for column in columns),
        )
        return groups, order

    def waiting_rows(self, role: int, key: int) -> list[Derived]:
        """Return all rows, including queries, that wait under a ring key; scans all rows of its index."""
        found = []
        for table in self._plans.values():
            for step in table.steps:
                if step.compiled.step.role == role and step.rows:
                    rows = list(step.rows.values())
                    rows = [row for row, each in zip(rows, self._keys_of_rows(step, rows), strict=True) if each == key]
                    if rows:
                        found.append(self._rows_at(step, rows))
        return found

    @staticmethod
    def _rows_at(step: StepTable, rows: list[Row]) -> Derived:
        """Return held rows as columns."""
        places = range(len(step.compiled.step.bound))
        return Derived(
            step.plan.plan, step.number, [row.group.number for row in rows], [row.identity for row in rows],
            [row.oldest for row in rows], [row.born for row in rows],
            tuple([row.bindings[place] for row in rows] for place in places),
        )  # fmt: skip

    def _identity_of(self, triple: Triple) -> int:
        """Return the identity of a validity interval, computed once, or of a publication event."""
        identity: int = triple[IDENTITY]
        if identity < 0:
            hashes = self._dictionary.hashes
            s, p, o = triple[TERMS]
            identity = keys.triple_id(hashes[s], hashes[p], hashes[o])
            triple[IDENTITY] = identity = keys.item_identity(identity, triple[BEGIN]) if triple[BEGIN] else identity
        return identity

    def group_ids(self, plan: Plan, group: Column) -> Column:
        """Return the identities of groups by this peer's numbers."""
        groups = self._plan_table(plan).groups
        return [groups[number].identity for number in group]

    def row_keys(self, rows: Derived) -> Column:
        """Return the ring key at which each row waits; its step must have a role."""
        table = self._plan_table(rows.plan)
        compiled, groups = table.steps[rows.step].compiled, table.groups
        hashes = self._dictionary.hashes
        bindings: list[Terms] = list(zip(*rows.bindings, strict=True)) if rows.bindings else [()] * len(rows)
        return [
            _route_key(compiled, groups[number].params, bound, hashes)
            for number, bound in zip(rows.group, bindings, strict=True)
        ]

    def _keys_of_rows(self, step: StepTable, rows: list[Row]) -> list[int]:
        """Return the ring keys of held rows."""
        hashes = self._dictionary.hashes
        return [_route_key(step.compiled, row.group.params, row.bindings, hashes) for row in rows]

    @staticmethod
    def _living(step: StepTable, names: list[int]) -> list[Row]:
        """Return the held rows with some identities; rows of ended groups are not held."""
        return [step.rows[name] for name in names if name in step.rows]

    def query_keys(self, plan: Plan, step: int, group: Column) -> Column:
        """Return the ring key of a step's pattern by its own constants, per group."""
        groups = self._plan_table(plan).groups
        at = plan.steps[step]
        hashes = self._dictionary.hashes
        found = []
        for number in group:
            params = groups[number].params
            parts = [hashes[params[~slot]] if slot < 0 else 0 for slot in at.pattern]
            found.append(int(keys.role_key(at.role, *parts)))
        return found

    def triple_keys(self, role: int, s: Column, p: Column, o: Column) -> Column:
        """Return the ring key of each triple under a role."""
        hashes = self._dictionary.hashes
        terms = zip(as_list(s), as_list(p), as_list(o), strict=True)
        if role == keys.ANY:
            return [
                int(keys.bucket_key(keys.triple_id(hashes[a], hashes[b], hashes[c]) % keys.BUCKETS))
                for a, b, c in terms
            ]
        return [int(keys.role_key(role, hashes[a], hashes[b], hashes[c])) for a, b, c in terms]

    def count(self, role: int, s: int, p: int, o: int) -> int:
        """Return the number of triples held in an index under constant parts."""
        join_index = self._join_indexes[0][role][0]
        return len(join_index.triples.get(join_index.key_of((s, p, o)), ()))

    def some_waiting(self, group: int, step: int, most: int) -> tuple[Derived | None, int]:
        """Return at most ``most`` rows of a group at a step, evenly chosen, and the number of all."""
        table = self._owners.get(group)
        if table is None or step >= len(table.steps):
            return None, 0
        held, wanted = table.steps[step], table.by_id[group]
        rows = [row for row in held.rows.values() if row.group is wanted]
        return (self._rows_at(held, rows[:: stride(len(rows), most)]) if rows else None), len(rows)

    def some_triples(
        self, role: int, mask: int, parts: tuple[int, int, int], most: int, *, per_event: bool
    ) -> tuple[tuple[Column, Column, Column, Column], float]:
        """Return valid triples (or events) of an index with the given parts, and the number each stands for."""
        join_index = next((each for each in self._join_indexes[per_event][role] if each.mask == mask), None)
        if join_index is not None:
            found = join_index.triples.get(join_index.key_of(parts), [])
            step = stride(len(found), most)
            looked: Sequence[Triple] = found[::step]
        else:
            held = self._events if per_event else self._triples
            step, key_of = stride(len(held), most), _KEY_OF[mask]
            key = key_of(parts)
            some = islice(held.values(), 0, None, step)
            looked = [each for each in some if each[ROLES] >> role & 1 and key_of(each[TERMS]) == key]
        living = [each for each in looked if 0 < each[TIME] < GONE]
        s, p, o = ([each[TERMS][at] for each in living] for at in range(3))
        return (s, p, o, [each[TIME] for each in living]), float(step)

    def triples_at(
        self, role: int, parts: tuple[int, int, int], most: int
    ) -> tuple[tuple[Column, Column, Column, Column] | None, int]:
        """Return the valid triples under a key of an index, unless there are more, and the stamp of its latest change.
        """
        join_index = self._join_indexes[False][role][0]
        found = join_index.triples.get(join_index.key_of(parts), ())
        latest = max((each[TIME] & ~GONE for each in found), default=0)
        living = [each for each in found if 0 < each[TIME] < GONE]
        if len(living) > most:
            return None, latest
        s, p, o = ([each[TERMS][at] for each in living] for at in range(3))
        return (s, p, o, [each[TIME] for each in living]), latest

    def latest_news(self, subject: int) -> int:
        """Return the stamp of the latest publication or deletion of a subject under the index s; 0: there is none."""
        found = self._join_indexes[False][keys.S][0].triples.get(subject, ())
        return max((max(each[BEGIN], each[TIME] & ~GONE) for each in found), default=0)

    @property
    def held(self) -> int:
        """Number of triples and partial results held."""
        return len(self._triples) + len(self._events) + self._row_count

    def sizes(self) -> Sizes:
        """Return the sizes and loads."""
        sizes = replace(self._sizes)
        sizes.triple_roles = sum(
            len(held) for kind in self._join_indexes for of_role in kind for held in of_role[0].triples.values()
        )
        sizes.processing_load += sizes.triple_roles  # each was checked once when it was stored
        sizes.triples = len(self._triples) + len(self._events)
        sizes.elements = sum(is_element(each[TIME]) for each in self._events.values())
        sizes.groups = len(self._owners)
        sizes.plans = len(self._plans)
        steps = [step for table in self._plans.values() for step in table.steps]
        sizes.queries = sum(
            len(step.links) if step.number else len(step.rows) for step in steps
        )
        sizes.rows = sum(len(step.rows) for step in steps) - sum(len(t.steps[0].rows) for t in self._plans.values())
        return sizes


def _route_key(compiled: CompiledStep, params: Terms, bindings: Terms, hashes: list[int]) -> int:
    """Return the ring key of the pattern that a row waits for."""
    parts = [
        0 if source is None else hashes[(params if source[0] == GROUP else bindings)[source[1]]]
        for source in compiled.route
    ]
    return keys.role_key(compiled.step.role, *parts)
