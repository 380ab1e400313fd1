"""Events for settled delivery: the owner of a pattern tells every publication and deletion that matches it.

Tables hold states: of a triple that was published twice, the later stamp; of one that was deleted twice, the earlier
deletion.  If publications and deletions of a triple overtake each other, the state does not tell the times at which
the triple held.  Settled delivery needs them, so owners tell these leaves each event as it arrives, stored or not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from p2prdf import keys
from p2prdf.columns import Column, as_list
from p2prdf.hlc import GONE
from p2prdf.rdf.compiled import compile_filter
from p2prdf.store.compiled import CompiledStep, compile_step
from p2prdf.store.tables import NEVER, Chosen, Derived, PlanFilters, Tables, identity_of_group
from p2prdf.wire.messages import Groups

if TYPE_CHECKING:
    from p2prdf.peer.network.batches import TripleBatch
    from p2prdf.rdf.dictionary import TermDictionary
    from p2prdf.rdf.query import Plan

__all__ = ["ExactLeaves"]

_Terms = tuple[int, ...]


@dataclass(slots=True)
class _Waiting:
    """The leaves of one plan, by their constants."""

    compiled: CompiledStep
    filters: PlanFilters
    leaves: dict[_Terms, dict[int, tuple[int, int, int]]] = field(default_factory=dict)
    """By constants and identity of a leaf: its ``since_min``, ``since_max`` and lease."""
    constants: dict[int, _Terms] = field(default_factory=dict)
    """By identity of a leaf."""


class ExactLeaves:
    """The leaves with settled delivery that wait here."""

    def __init__(self, tables: Tables, dictionary: TermDictionary, leads: Chosen):
        """``leads`` returns whether this peer joins under keys of an index."""
        self._tables = tables
        self._dictionary = dictionary
        self._leads = leads
        self._plans: dict[Plan, _Waiting] = {}

    @property
    def active(self) -> bool:
        """Whether there are any."""
        return bool(self._plans)

    def tells(self, plan: Plan) -> bool:
        """Return whether events take the place of the rows of a plan."""
        return plan.exact and plan in self._plans

    def add(self, plan: Plan, group: Column) -> None:
        """Tell groups of a plan, by their numbers here, the events from now on; groups that have ended get none."""
        if not plan.exact:
            return
        groups, _ = self._tables.export_groups(plan, group)
        columns = (as_list(each) for each in (groups.ids, groups.since_min, groups.since_max, groups.lease))
        params = zip(*map(as_list, groups.params), strict=True) if groups.params else iter([()] * len(groups))
        for (identity, *times), constants in zip(zip(*columns, strict=True), params, strict=True):
            if times[0] == NEVER:
                continue
            waiting = self._plans.get(plan)
            if waiting is None:
                filters = PlanFilters(plan, self._dictionary, compile_filter)
                waiting = self._plans[plan] = _Waiting(compile_step(plan, 0), filters)
            waiting.constants[identity] = tuple(constants)
            waiting.leaves.setdefault(tuple(constants), {})[identity] = (times[0], times[1], times[2])

    def end_groups(self, ids: list[int]) -> None:
        """Forget ended groups."""
        for plan, waiting in list(self._plans.items()):
            for identity in ids:
                constants = waiting.constants.pop(identity, None)
                if constants is not None:
                    del waiting.leaves[constants][identity]
                    if not waiting.leaves[constants]:
                        del waiting.leaves[constants]
            if not waiting.leaves:
                del self._plans[plan]

    def derive(self, batch: TripleBatch, probed: Column | None) -> Iterator[Derived]:
        """Return the events of triples, under the indexes in which this peer joins them.

        These are the indexes of their message, and others that this peer leads: a triple may be stored there already,
        or be stored there now as its earlier intervals are, and then comes under them no more.
        """
        triples = list(zip(*map(as_list, (batch.s, batch.p, batch.o, batch.time, batch.roles)), strict=True))
        joined = [each[4] for each in triples] if probed is None else as_list(probed)
        for plan, waiting in self._plans.items():
            bit = keys.role_bit(waiting.compiled.step.role, per_event=False)
            found: dict[int, list[tuple[int, ...]]] = {}
            for (*terms, time, roles), bits in zip(triples, joined, strict=True):
                if bits & bit:
                    self._match(waiting, tuple(terms), time, found, named=bool(roles & bit))
            if found:
                yield self._derived(plan, waiting, found)

    def _match(
        self, waiting: _Waiting, terms: _Terms, time: int, found: dict[int, list[tuple[int, ...]]], *, named: bool
    ) -> None:
        """Add the event of a triple to those of each leaf that it matches; ``named``: its message names the index."""
        compiled = waiting.compiled
        constants: dict[int, int] = {}
        for at, slot in enumerate(compiled.step.pattern):
            if slot < 0 and constants.setdefault(~slot, terms[at]) != terms[at]:
                return
        leaves = waiting.leaves.get(tuple(constants[number] for number in range(len(constants))))
        if not leaves or any(terms[first] != terms[second] for first, second in compiled.equal):
            return
        if not named and not self._joins(compiled.step.role, terms):
            return
        if any(self._dictionary.literals[terms[at]] for at in compiled.never_literal):
            return
        for number, sources in compiled.filters:
            if not waiting.filters.passes(number, tuple(terms[at] for _, at in sources)):
                return
        s, p, o = (self._dictionary.hashes[term] for term in terms)
        event = keys.triple_id(s, p, o) ^ keys.fmix(time)
        values = (terms[at] for _, at in compiled.output)
        row = (keys.fmix(event), min(time, GONE), time & (GONE - 1), *values)
        for identity in leaves:
            found.setdefault(identity, []).append(row)

    def _joins(self, role: int, terms: _Terms) -> bool:
        make = self._tables.columns.column
        ring = self._tables.triple_keys(role, *(make([term], "uint32") for term in terms))
        return bool(self._leads(role, ring)[0])

    def _derived(self, plan: Plan, waiting: _Waiting, found: dict[int, list[tuple[int, ...]]]) -> Derived:
        """Return events as rows that have passed all steps of a plan."""
        make, ids = self._tables.columns.column, list(found)
        constants = [waiting.constants[each] for each in ids]
        times = (waiting.leaves[of][each] for of, each in zip(constants, ids, strict=True))
        since_min, since_max, lease = zip(*times, strict=True)
        params = tuple(make(column, "uint32") for column in zip(*constants, strict=True))
        groups = Groups(make(ids), make(since_min), make(since_max), make(lease), params)
        numbers = as_list(self._tables.add_groups(plan, groups))
        rows = [
            (number, identity_of_group(each) ^ row[0], *row[1:])
            for number, each in zip(numbers, ids, strict=True)
            for row in found[each]
        ]
        group, identity, oldest, born, *bindings = zip(*rows, strict=True)
        return Derived(
            plan, 1, make(group, "int64"), make(identity), make(oldest), make(born),
            tuple(make(column, "uint32") for column in bindings),
        )  # fmt: skip
