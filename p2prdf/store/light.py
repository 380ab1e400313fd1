"""Tables on dictionaries: the readable reference, and the choice for tiny peers and single triples.

Everything is one row at a time.  A lane maps the terms under its mask to the triples and to the
waiting rows that have them; storing one and probing the other are two dictionary look-ups.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any

from p2prdf import keys
from p2prdf.columns import LISTS, Column, as_list
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.rdf.query import Filter, Plan
from p2prdf.store.backlog import part_of
from p2prdf.store.compiled import GROUP, ROW, CompiledStep, compile_step
from p2prdf.store.tables import NEVER, Derived, FilterFunction, PlanFilters, Sizes, identity_of_group
from p2prdf.wire.messages import Groups

__all__ = ["LightTables"]

Terms = tuple[int, ...]


_Triple = list[Any]
"""A stored triple, or one publication event of it: ``[terms, time, roles, identity]``.

A bare list because one is made per triple; the identity of a triple is computed when first needed
and -1 before.
"""

_TERMS, _TIME, _ROLES, _IDENTITY = range(4)


@dataclass(slots=True)
class _Group:
    """A canonical query under one plan."""

    number: int
    identity: int
    since_min: int
    since_max: int
    lease: int
    params: Terms


class _Row:
    """A partial result waiting at a step; at step 0, the query itself."""

    __slots__ = ("bindings", "born", "group", "identity", "oldest")

    def __init__(self, group: _Group, identity: int, oldest: int, born: int, bindings: Terms):
        self.group = group
        self.identity = identity
        self.oldest = oldest
        self.born = born
        self.bindings = bindings


@dataclass(slots=True, eq=False)
class _StepTable:
    plan: _PlanTable
    number: int
    compiled: CompiledStep
    lane: _Lane
    rows: dict[int, _Row] = field(default_factory=dict)
    links: set[int] = field(default_factory=set)


class _Lane:
    """Triples and waiting rows of one kind, role and mask, by the terms under the mask."""

    __slots__ = ("key_of", "mask", "triples", "waiting")

    def __init__(self, mask: int):
        self.mask = mask
        self.key_of = _KEY_OF[mask]
        self.triples: dict[Any, list[_Triple]] = {}
        self.waiting: dict[Any, list[tuple[_StepTable, _Row]]] = {}


@dataclass(slots=True, eq=False)
class _PlanTable:
    plan: Plan
    filters: PlanFilters
    by_id: dict[int, _Group] = field(default_factory=dict)
    groups: list[_Group] = field(default_factory=list)
    steps: list[_StepTable] = field(default_factory=list)


def _key_of(mask: int) -> Callable[[Terms], Any]:
    """Return what picks the terms under a mask: one term, a tuple of them, or always the same."""
    places = [at for at, bit in enumerate((keys.S, keys.P, keys.O)) if mask & bit]
    return itemgetter(*places) if places else lambda _: ()


_KEY_OF = [_key_of(mask) for mask in range(8)]

_Output = dict[tuple[_StepTable, int], list[tuple[int, ...]]]
"""Rows derived so far, by the step they come from and the refresh stamp: group, identity, oldest,
born, bindings."""

_PLAIN = (1 << keys.EVENT_SHIFT) - 1


class LightTables:
    """:class:`p2prdf.store.tables.Tables` on dictionaries."""

    def __init__(self, dictionary: TermDictionary, compile_filter: Callable[[Filter], FilterFunction]):
        self.columns = LISTS
        self._dictionary = dictionary
        self._compile_filter = compile_filter
        self._plans: dict[int, _PlanTable] = {}
        self._triples: dict[tuple[int, int, int], _Triple] = {}
        self._events: dict[int, _Triple] = {}
        self._lanes: tuple[list[list[_Lane]], list[list[_Lane]]] = (
            [[_Lane(role)] for role in range(8)],
            [[_Lane(role)] for role in range(8)],
        )
        """Lanes per role, of triples and of events; the first of a role has the role as its mask."""
        self._lanes_by_roles: dict[int, tuple[_Lane, ...]] = {}
        self._owners: dict[int, _PlanTable] = {}
        self._sizes = Sizes()
        self._row_count = 0

    # --- triples ---------------------------------------------------------------------------------

    def add_triples(
        self, s: Column, p: Column, o: Column, time: Column, event: Column, roles: Column
    ) -> list[Derived]:
        """Store triples under their roles and join them with the rows that wait."""
        out: _Output = {}
        for subject, predicate, object_, at, number, bits in zip(s, p, o, time, event, roles, strict=True):
            self._add_triple((subject, predicate, object_), at, number, bits, out)
        return self._derived(out) if out else []

    def add_triple(self, s: int, p: int, o: int, time: int, event: int, roles: int) -> list[Derived]:
        """Do as :meth:`add_triples` for one triple, without columns."""
        out: _Output = {}
        self._add_triple((s, p, o), time, event, roles, out)
        return self._derived(out) if out else []

    def _add_triple(
        self, terms: tuple[int, int, int], time: int, event: int, bits: int, out: _Output
    ) -> None:
        if bits > _PLAIN:
            self._add_event(terms, time, event, bits >> keys.EVENT_SHIFT, out)
            bits &= _PLAIN
            if not bits:
                return
        if terms in self._triples:
            self._add_again(self._triples[terms], time, bits, out)
            return
        triple: _Triple = [terms, time, bits, -1]
        self._triples[terms] = triple
        for lane in self._lanes_by_roles.get(bits) or self._lanes_in(bits):
            key = lane.key_of(terms)
            if key in lane.triples:
                lane.triples[key].append(triple)
            else:
                lane.triples[key] = [triple]
            if key in lane.waiting:
                for table, row in lane.waiting[key]:
                    self._join(table, row, triple, 0, 0, out)

    def _add_again(self, held: _Triple, time: int, bits: int, out: _Output) -> None:
        """Store a known triple under roles new to it, and join it again if it was published again."""
        prior, before = held[_TIME], held[_ROLES]
        held[_TIME] = max(time, prior)
        held[_ROLES] = before | bits
        if bits & ~before:
            self._store(held, bits & ~before, out)
        if time > prior:
            self._sizes.processing_load += before.bit_count()
            for lane in self._lanes_in(before):
                for table, row in lane.waiting.get(lane.key_of(held[_TERMS]), ()):
                    self._join(table, row, held, prior, 0, out)

    def _add_event(
        self, terms: tuple[int, int, int], time: int, event: int, bits: int, out: _Output
    ) -> None:
        held = self._events.get(event)
        if held is None:
            held = self._events[event] = [terms, time, 0, event]
        fresh = bits & ~held[_ROLES]
        held[_ROLES] |= fresh
        self._store(held, fresh << keys.EVENT_SHIFT, out)

    def _store(self, triple: _Triple, roles: int, out: _Output) -> None:
        """Store a triple in the lanes of roles new to it, then probe what waits there."""
        for lane in self._lanes_in(roles):
            key = lane.key_of(triple[_TERMS])
            lane.triples.setdefault(key, []).append(triple)
            for table, row in lane.waiting.get(key, ()):
                self._join(table, row, triple, 0, 0, out)

    def _lanes_in(self, roles: int) -> tuple[_Lane, ...]:
        """Return the lanes of a set of roles."""
        lanes = self._lanes_by_roles.get(roles)
        if lanes is None:
            lanes = tuple(
                lane
                for kind, bits in enumerate((roles & _PLAIN, roles >> keys.EVENT_SHIFT))
                for role in range(8)
                if bits >> role & 1
                for lane in self._lanes[kind][role]
            )
            self._lanes_by_roles[roles] = lanes
        return lanes

    def _lane(self, per_event: bool, role: int, mask: int) -> _Lane:
        lanes = self._lanes[per_event][role]
        for lane in lanes:
            if lane.mask == mask:
                return lane
        lane = _Lane(mask)
        for held in lanes[0].triples.values():
            for triple in held:
                lane.triples.setdefault(lane.key_of(triple[_TERMS]), []).append(triple)
        lanes.append(lane)
        self._lanes_by_roles.clear()
        return lane

    # --- groups and queries ----------------------------------------------------------------------

    def _plan_table(self, plan: Plan) -> _PlanTable:
        table = self._plans.get(plan.identity)
        if table is not None:
            return table
        table = _PlanTable(plan, PlanFilters(plan, self._dictionary, self._compile_filter))
        for place, step in enumerate(plan.steps):
            lane = self._lane(plan.per_event, step.role, step.mask)
            table.steps.append(_StepTable(table, place, compile_step(plan, place), lane))
        self._plans[plan.identity] = table
        return table

    def add_groups(self, plan: Plan, groups: Groups) -> Column:
        """Take in groups, or widen known ones, and return this peer's numbers for them."""
        table = self._plan_table(plan)
        numbers = []
        params = list(zip(*groups.params, strict=True)) if groups.params else [()] * len(groups)
        for identity, since_min, since_max, lease, constants in zip(
            groups.ids, groups.since_min, groups.since_max, groups.lease, params, strict=True
        ):
            group = table.by_id.get(identity)
            if group is None:
                group = _Group(len(table.groups), identity, since_min, since_max, lease, constants)
                table.groups.append(group)
                table.by_id[identity] = group
                self._owners[identity] = table
            elif group.since_min != NEVER:
                group.since_min = min(group.since_min, since_min)
                group.since_max = max(group.since_max, since_max)
                group.lease = max(group.lease, lease)
            numbers.append(group.number)
        return numbers

    def add_queries(self, plan: Plan, step: int, group: Column, refresh: int) -> list[Derived]:
        """Let groups wait for their first pattern (step 0), or mark what a later link must keep."""
        table = self._plan_table(plan)
        if step > 0:
            table.steps[step].links.update(group)
            return []
        out: _Output = {}
        for number in group:
            each = table.groups[number]
            self._add_row(
                table.steps[0], _Row(each, identity_of_group(each.identity), NEVER, 0, ()), refresh, out
            )
        return self._derived(out)

    def add_rows(self, rows: Derived) -> list[Derived]:
        """Store partial results and join them with the triples held."""
        table = self._plan_table(rows.plan)
        step, groups = table.steps[rows.step], table.groups
        out: _Output = {}
        if len(rows.group) == 1:  # the rule where triples come one at a time
            row = _Row(
                groups[rows.group[0]], rows.identity[0], rows.oldest[0], rows.born[0],
                tuple([column[0] for column in rows.bindings]),
            )  # fmt: skip
            self._add_row(step, row, rows.refresh, out)
            return self._derived(out) if out else []
        bindings: list[Terms] = list(zip(*rows.bindings, strict=True)) if rows.bindings else [()] * len(rows)
        for group, identity, oldest, born, bound in zip(
            rows.group, rows.identity, rows.oldest, rows.born, bindings, strict=True
        ):
            self._add_row(step, _Row(groups[group], identity, oldest, born, bound), rows.refresh, out)
        return self._derived(out)

    def _add_row(self, table: _StepTable, row: _Row, refresh: int, out: _Output) -> None:
        """Store a row, then probe the triples held; a known row is probed for what is new about it."""
        compiled = table.compiled
        parts = [row.group.params[at] if source == GROUP else row.bindings[at] for source, at in compiled.key]
        key = parts[0] if len(parts) == 1 else tuple(parts)
        if table.number:
            self._sizes.processing_load += 1
        known = table.rows.get(row.identity)
        if known is None:
            if row.group.since_min == NEVER:
                return
            table.rows[row.identity] = row
            self._row_count += 1
            table.lane.waiting.setdefault(key, []).append((table, row))
            since = 0
        else:
            since = refresh or NEVER
            if row.oldest > known.oldest:
                if row.group.since_max > known.oldest:
                    since = min(since, known.oldest + 1)
                known.oldest, known.born = row.oldest, max(known.born, row.born)
            if since == NEVER:
                return
            row = known
        for triple in table.lane.triples.get(key, ()):
            if triple[_TIME] >= since:
                self._join(table, row, triple, 0, refresh, out)

    def end_groups(self, ids: Sequence[int]) -> None:
        """Forget groups and what waits for them."""
        for identity in ids:
            table = self._owners.pop(identity, None)
            if table is None:
                continue
            group = table.by_id[identity]  # stays, so that what still arrives for it finds it ended
            group.since_min, group.since_max = NEVER, 0
            for step in table.steps:
                step.links.discard(group.number)
                for identity_of_row in [row.identity for row in step.rows.values() if row.group is group]:
                    del step.rows[identity_of_row]
                    self._row_count -= 1
                for key, waiting in list(step.lane.waiting.items()):
                    left = [entry for entry in waiting if entry[1].group is not group]
                    if not left:
                        del step.lane.waiting[key]
                    elif len(left) < len(waiting):
                        step.lane.waiting[key] = left

    def extend_leases(self, ids: Sequence[int], leases: Sequence[int]) -> None:
        """Let groups live until the stamps given."""
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

    # --- the join --------------------------------------------------------------------------------

    def _join(
        self, table: _StepTable, row: _Row, triple: _Triple, prior: int, refresh: int, out: _Output
    ) -> None:
        """Extend a row by a triple that has the terms of its key, if the pair counts."""
        group, time = row.group, triple[_TIME]
        if time < group.since_min or group.since_max <= prior:
            return
        compiled = table.compiled
        terms = triple[_TERMS]
        for first, second in compiled.equal:
            if terms[first] != terms[second]:
                return
        if compiled.never_literal and self._dictionary.literals[terms[2]]:
            return
        bindings = row.bindings
        for number, sources in compiled.filters:
            if not table.plan.filters.passes(
                number, tuple(bindings[at] if source == ROW else terms[at] for source, at in sources)
            ):
                return
        self._sizes.joined += 1
        identity = triple[_IDENTITY]
        if identity < 0:
            hashes = self._dictionary.hashes
            s, p, o = terms
            identity = triple[_IDENTITY] = keys.triple_id(hashes[s], hashes[p], hashes[o])
        place = (table, refresh)
        derived = out.get(place)
        if derived is None:
            derived = out[place] = []
        derived.append((
            group.number,
            (row.identity + keys.contribution(identity, compiled.step.position)) & NEVER,
            min(row.oldest, time),
            max(row.born, time),
            *[bindings[at] if source == ROW else terms[at] for source, at in compiled.output],
        ))

    @staticmethod
    def _derived(out: _Output) -> list[Derived]:
        derived = []
        for (table, refresh), rows in out.items():
            if len(rows) == 1:
                group, identity, oldest, born, *bindings = [[value] for value in rows[0]]
            else:
                group, identity, oldest, born, *bindings = map(list, zip(*rows, strict=True))
            derived.append(
                Derived(
                    table.plan.plan, table.number + 1, group, identity, oldest, born, tuple(bindings), refresh
                )
            )
        return derived

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
        """Return all rows that wait under a ring key, queries among them; a pass over all that wait under its role."""
        found = []
        for table in self._plans.values():
            for step in table.steps:
                if step.compiled.step.role == role and step.rows:
                    rows = list(step.rows.values())
                    bindings = tuple(map(list, zip(*(row.bindings for row in rows), strict=True)))
                    derived = Derived(
                        table.plan, step.number, [row.group.number for row in rows], [row.identity for row in rows],
                        [row.oldest for row in rows], [row.born for row in rows], bindings,
                    )  # fmt: skip
                    index = [at for at, each in enumerate(self.row_keys(derived)) if each == key]
                    if index:
                        found.append(part_of(derived, index, LISTS))
        return found

    def group_ids(self, plan: Plan, group: Column) -> Column:
        """Return the identities of groups by this peer's numbers."""
        groups = self._plan_table(plan).groups
        return [groups[number].identity for number in group]

    def row_keys(self, rows: Derived) -> Column:
        """Return the ring key at which each row waits; its step must have a role."""
        compiled = compile_step(rows.plan, rows.step)
        groups = self._plan_table(rows.plan).groups
        hashes = self._dictionary.hashes
        found = []
        for at, number in enumerate(rows.group):
            parts = [
                0 if source is None
                else hashes[groups[number].params[source[1]] if source[0] == GROUP else rows.bindings[source[1]][at]]
                for source in compiled.route
            ]  # fmt: skip
            found.append(int(keys.role_key(compiled.step.role, *parts)))
        return found

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
        """Return how many triples the peer holds under a role and constant parts."""
        lane = self._lanes[0][role][0]
        return len(lane.triples.get(lane.key_of((s, p, o)), ()))

    @property
    def held(self) -> int:
        """Triples and partial results held."""
        return len(self._triples) + len(self._events) + self._row_count

    def sizes(self) -> Sizes:
        """Return what is held and has been done."""
        sizes = replace(self._sizes)
        sizes.triple_roles = sum(
            len(held) for kind in self._lanes for lanes in kind for held in lanes[0].triples.values()
        )
        sizes.processing_load += sizes.triple_roles  # each was checked once when it was stored
        sizes.triples = len(self._triples) + len(self._events)
        sizes.groups = len(self._owners)
        sizes.plans = len(self._plans)
        steps = [step for table in self._plans.values() for step in table.steps]
        sizes.queries = sum(
            len(step.links) if step.number else len(step.rows) for step in steps
        )
        sizes.rows = sum(len(step.rows) for step in steps) - sum(len(t.steps[0].rows) for t in self._plans.values())
        return sizes
