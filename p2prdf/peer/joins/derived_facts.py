"""Derived facts: the owner of a fact publishes it when a rule derives it, and deletes it when no derivation is left.

The body of a rule is joined like a query; its rows, *derivations*, wait under all parts of the fact that they
conclude. So the owner of a fact has the fact and all its derivations.  It compares the two, and publishes or deletes
the fact when they disagree.  Both are replicated items, so another peer can take over.

Circles.  A fact holds if one derivation rests on base facts alone (``Concludes.FROM_GIVEN``).  Otherwise the
remaining derivations may rest on the fact itself.  *As soon as a held fact loses one derivation, it is deleted*, and
with it the facts that rest on it; if derivations remain after that, it is published again, each time after twice the
wait.  This is Delete and Rederive without a barrier between its phases.

At rest all held facts are well founded.  Assume some are not, and take the one that was published first.  It had a
derivation from facts that were published before, valid in their intervals of that time.  If all these intervals last,
those facts are well founded, and so is this one.  If one has ended, the derivation was lost while the fact was held,
and the fact was deleted.

A peer that takes over does not know which derivations were lost before.  It deletes a fact unless one derivation is
from base facts, or it has heard of the fact from the beginning.  It decides nothing before copies have been compared.
docs/explanation/design/rules-and-text.md gives the rejected alternatives.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from p2prdf import keys
from p2prdf.columns import Column, Index, as_list
from p2prdf.hlc import GONE
from p2prdf.peer.network.batches import TripleBatch
from p2prdf.peer.network.component import Component
from p2prdf.peer.network.messenger import Messenger
from p2prdf.rdf import quads
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.rdf.query import Concludes
from p2prdf.rdf.terms import is_object_only
from p2prdf.store.tables import NEVER, Derived, Tables

if TYPE_CHECKING:
    from p2prdf.peer.joins.index_advertisements import IndexAdvertisements
    from p2prdf.peer.replication.redelivery import Publications

__all__ = ["FIRST_SECONDS", "DerivedFacts"]

FIRST_SECONDS: Final = 0.25
"""First wait, in seconds, before a deleted fact is published again if its derivations may rest on it."""
LEFT_SECONDS: Final = 5.0
"""Seconds for which a replica leaves the deletion of an underived fact to each replica before it."""
LONGEST_SECONDS: Final = 16.0
"""Longest wait in seconds; it doubles each time."""
FORGET_SECONDS: Final = 60.0
"""Seconds after which a held fact begins with the first wait again."""
AT_ONCE: Final = 4096
"""Facts decided per turn."""

_PLAIN: Final = (1 << keys.EVENT_SHIFT) - 1

_ALL_STAYS: Final = 1 << 30
_LOST: Final = 0
"""In place of the group of a derivation: it was lost."""
_NEVER: Final = -1
"""It was lost before it was known here: another peer joined a fact with one that had ended."""

Fact: TypeAlias = tuple[int, int, int]


class _Gate:
    """The state of one fact."""

    __slots__ = ("at", "derivations", "held", "last", "lost", "own", "taken_over", "tries", "witnessed")

    def __init__(self, *, witnessed: bool):
        self.derivations: dict[int, int] = {}
        """By identity of a derivation, its group, or that it was lost."""
        self.held: int | None = None
        """The stamp of its latest publication, 0 if it is not held, None if it is to be looked up."""
        self.own = 0
        """The stamp with which this peer published it or took it over."""
        self.taken_over = False
        """Whether another peer published it."""
        self.lost = False
        """Whether it has lost a derivation since then."""
        self.witnessed = witnessed
        """Whether this peer has heard of it from the beginning."""
        self.at: float | None = None
        """The time at which it may be published again."""
        self.tries = 0
        self.last = 0.0
        """The time at which it was published again."""


class DerivedFacts(Component):
    """The facts of which this peer keeps derivations.

    ``route`` sends triples to the replicas of the keys of their indexes.
    """

    def __init__(
        self, messenger: Messenger, tables: Tables, dictionary: TermDictionary, redelivery: Publications,
        indexes: IndexAdvertisements, route: Callable[[TripleBatch], None],
    ):  # fmt: skip
        self._messenger = messenger
        self._tables = tables
        self._dictionary = dictionary
        self._redelivery = redelivery
        self._route = route
        self._indexes = indexes
        messenger.signals.view_changed.connect(self.view_changed)
        self._derived_facts: dict[Fact, _Gate] = {}
        self._predicates: set[int] = set()
        self._listed: set[int] = set()
        """Predicates that this incarnation has added to the directory of graphs."""
        self._from_given: dict[int, bool] = {}
        """By group of derivations, whether it rests on base facts alone."""
        self._due: dict[Fact, None] = {}
        self._later: list[tuple[float, Fact]] = []
        self._rows_open = 0
        self.published = 0
        self.removed = 0
        self.repeated = 0
        """Facts published again after a deletion."""

    # --- arrivals --------------------------------------------------------------------------------

    @property
    def active(self) -> bool:
        """Whether any derivation has arrived here."""
        return bool(self._predicates)

    def take_rows(self, rows: Derived) -> None:
        """Note stored derivations."""
        ids = as_list(self._tables.group_ids(rows.plan, rows.group))
        witnessed = not self._messenger.restoring and self._messenger.recovery.compared
        from_given = rows.plan.concludes is Concludes.FROM_GIVEN
        facts, since = self._facts(rows)
        for fact, identity, oldest, group, since_min in zip(
            facts, as_list(rows.identity), as_list(rows.oldest), ids, since, strict=True
        ):
            if since_min == NEVER:
                continue  # the rule has ended
            gate = self._derived_facts.get(fact)
            if gate is None:
                if is_object_only(self._dictionary.text(fact[0])):
                    continue  # it cannot be a subject
                gate = self._derived_facts[fact] = _Gate(witnessed=witnessed)
                self._predicates.add(fact[1])
            self._from_given[group] = from_given
            known = gate.derivations.get(identity)
            if oldest == GONE:
                if known is not None and known <= _LOST:
                    continue
                gate.derivations[identity] = _NEVER if known is None else _LOST
                gate.lost |= known is not None or gate.taken_over  # its publisher may have known more derivations
            elif known is None:
                gate.derivations[identity] = group
                if gate.held and gate.own == gate.held:
                    continue  # a further derivation of a held fact decides nothing
            else:
                continue
            self._due[fact] = None
            self.dirty = True

    def _facts(self, rows: Derived) -> tuple[list[Fact], list[int]]:
        """Return the facts of rows, and for each the stamp from which on its group counts (NEVER: it has ended)."""
        step = rows.plan.steps[-1]
        groups, place = self._tables.export_groups(rows.plan, rows.group)
        params = [as_list(column) for column in groups.params]
        places = as_list(place)
        columns = [
            [params[~slot][at] for at in places] if slot < 0 else as_list(rows.bindings[step.bound.index(slot)])
            for slot in step.pattern
        ]
        since = as_list(groups.since_min)
        return list(zip(*columns, strict=True)), [since[at] for at in places]

    def take_triples(self, s: Column, p: Column, o: Column) -> None:
        """Note stored triples: some may be facts with derivations."""
        concluded, take = self._predicates, self._tables.columns.take
        chosen: Index
        if isinstance(p, list):
            chosen = [at for at, predicate in enumerate(p) if predicate in concluded]
        else:
            chosen = np.flatnonzero(np.isin(p, list(concluded)))
        if not len(chosen):
            return
        for fact in zip(*(as_list(take(column, chosen)) for column in (s, p, o)), strict=True):
            if (gate := self._derived_facts.get(fact)) is not None:
                gate.held = None
                self._due[fact] = None
                self.dirty = True

    def end_groups(self, ids: Sequence[int]) -> None:
        """Drop the derivations of ended rules."""
        gone = {each for each in ids if self._from_given.pop(each, None) is not None}
        if not gone:
            return
        for fact, gate in self._derived_facts.items():
            for identity, group in gate.derivations.items():
                if group in gone:
                    gate.derivations[identity] = _LOST
                    gate.lost = True
                    self._due[fact] = None
                    self.dirty = True

    def view_changed(self) -> None:
        """Check all facts again: this peer may be the primary of more of them now."""
        self._due.update(dict.fromkeys(self._derived_facts))
        self.dirty = True

    def status(self) -> Mapping[str, object]:
        """Return how many facts have derivations here, and how many were published and removed."""
        return {
            "facts_derived": self.facts, "facts_published": self.published, "facts_removed": self.removed,
            "facts_published_again": self.repeated,
        }  # fmt: skip

    # --- decisions -------------------------------------------------------------------------------

    @property
    def restless(self) -> bool:
        """Whether a fact is to be decided, now or later."""
        return bool(self._due or self._later)

    @property
    def deadline(self) -> float | None:
        """The time of the next decision; facts wait while copies are being compared."""
        if self._due and self._may_decide():
            return self._messenger.now
        return self._later[0][0] if self._later else None

    def _may_decide(self) -> bool:
        messenger = self._messenger
        return (
            self._messenger.recovery.compared and not messenger.members.short_of_peers
            and self._rows_open <= messenger.config.rows_in_flight_max
            and messenger.placement.known
        )  # fmt: skip

    def wake(self) -> None:
        """Publish and delete the facts that are due."""
        self._work()
        self.dirty = bool(self._due)

    def _work(self) -> None:
        now = self._messenger.now
        while self._later and self._later[0][0] <= now:
            self._due[heapq.heappop(self._later)[1]] = None
        if not self._due or not self._may_decide():
            return
        first: list[Fact] = []
        again: list[Fact] = []
        gone: list[Fact] = []
        for fact in list(islice(self._due, AT_ONCE)):
            del self._due[fact]
            gate = self._derived_facts[fact]
            rank = self._rank(fact)
            if rank == 0:
                self._decide(fact, gate, first, again, gone)
            else:
                gate.own = 0
                self._see_to(fact, gate, rank, gone)
        if gone or again:
            self._send([*gone, *again], removed=True)
        if first or again:
            stamp = self._send([*first, *again], removed=False)
            for fact in (*first, *again):
                gate = self._derived_facts[fact]
                gate.own, gate.lost, gate.taken_over, gate.at, gate.last = stamp, False, False, None, now
        self.published += len(first) + len(again)
        self.repeated += len(again)
        self.removed += len(gone)

    def _rank(self, fact: Fact) -> int:
        """Return the rank of this peer among the replicas of a fact: 0 for the primary, -1 for none."""
        hashes = self._dictionary.hashes
        return self._messenger.placement.rank(keys.role_key(keys.SPO, *(hashes[term] for term in fact)))

    def _see_to(self, fact: Fact, gate: _Gate, rank: int, gone: list[Fact]) -> None:
        """Delete a fact without derivations if the replicas before this one do not.

        They may not know of it: derivations of ended rules are not handed to peers that come later.
        """
        if rank < 0 or any(each > _LOST for each in gate.derivations.values()):
            gate.at = None
            return
        if gate.held is None:
            gate.held = self._look_up(fact)
        if not gate.held:
            gate.at = None
        elif gate.at is None:
            gate.at = self._messenger.now + LEFT_SECONDS * rank
            heapq.heappush(self._later, (gate.at, fact))
        elif gate.at <= self._messenger.now:
            gate.at = None
            gone.append(fact)

    def _decide(self, fact: Fact, gate: _Gate, first: list[Fact], again: list[Fact], gone: list[Fact]) -> None:
        if gate.held is None:
            gate.held = self._look_up(fact)
        groups = [each for each in gate.derivations.values() if each > _LOST]
        holds = any(self._from_given.get(each) for each in groups)
        if gate.held:
            if not groups:
                gone.append(fact)
            elif not holds:
                if gate.own != gate.held:  # another peer published it
                    gate.lost = not gate.witnessed or len(groups) < len(gate.derivations)
                    gate.own, gate.taken_over = gate.held, True
                if gate.lost:
                    gone.append(fact)
        elif not groups:
            gate.at = None
        else:
            now = self._messenger.now
            if holds or (gate.witnessed and _LOST not in gate.derivations.values()):
                first.append(fact)
            elif gate.at is not None and gate.at <= now:
                again.append(fact)
            else:
                if gate.at is None:
                    gate.tries = gate.tries + 1 if now - gate.last < FORGET_SECONDS else 0
                    gate.at = now + min(FIRST_SECONDS * 2**gate.tries, LONGEST_SECONDS)
                heapq.heappush(self._later, (gate.at, fact))

    def _look_up(self, fact: Fact) -> int:
        """Return the stamp of the latest publication of a fact that is held; 0 if it is not."""
        (_, _, _, time), _ = self._tables.some_triples(keys.SPO, keys.SPO, fact, _ALL_STAYS, per_event=False)
        return max(as_list(time), default=0)

    # --- publishing ------------------------------------------------------------------------------

    def _send(self, facts: list[Fact], *, removed: bool) -> int:
        """Publish facts, or remove them; return the stamp."""
        messenger, columns = self._messenger, self._tables.columns
        triples = facts if removed else [*facts, *self._directory(facts)]
        stamp, count = messenger.tick(), len(triples)
        self._redelivery.begin(stamp)
        self._rows_open += count

        def done() -> None:
            self._redelivery.end(stamp)
            self._rows_open -= count

        token = messenger.token(done, sparing=True)
        roles = self._indexes.used & _PLAIN | 1 << keys.SPO
        s, p, o = (columns.column(list(column), "uint32") for column in zip(*triples, strict=True))
        batch = TripleBatch(
            s, p, o, columns.full(count, stamp | GONE if removed else stamp), columns.full(count, 0),
            columns.full(count, roles, "uint32"), 0, (token,), None,
            messenger.own.key, roles, self._redelivery.began, 0, 0,
        )  # fmt: skip
        self._route(batch)
        messenger.release((token,))
        return stamp

    def _directory(self, facts: list[Fact]) -> list[Fact]:
        """Return the directory entries for the predicates of facts in named graphs that were not published yet."""
        found: list[Fact] = []
        take = self._dictionary.intern
        for predicate in dict.fromkeys(fact[1] for fact in facts):
            parts = quads.parts_of(self._dictionary.text(predicate))
            if predicate in self._listed or parts is None:
                continue
            self._listed.add(predicate)
            listed = take(quads.directory_term(parts[0]))
            found += [(predicate, listed, take(parts[1])), (listed, take(quads.OF), take(parts[0]))]
        return found

    @property
    def facts(self) -> int:
        """Facts of which derivations are kept here."""
        return len(self._derived_facts)
