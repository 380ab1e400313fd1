"""Tables on dictionaries: the readable reference, and the implementation for tiny peers and single triples.

All operations take one row at a time.  A join index maps the terms of its join key to the triples and the waiting
rows that have them; storing one and probing the other are two dictionary look-ups.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from p2prdf import keys
from p2prdf.columns import Column
from p2prdf.hlc import COUNTER_BITS, ELEMENT, GONE
from p2prdf.rdf.query import Plan
from p2prdf.store.compiled import ROW
from p2prdf.store.full_text import NO_CONDITION
from p2prdf.store.intervals import LATE, later_time
from p2prdf.store.light_ending import LightEnding
from p2prdf.store.light_state import (
    IDENTITY,
    PLAIN,
    ROLES,
    TERMS,
    TIME,
    JoinIndex,
    Row,
    StepTable,
    Terms,
    Triple,
)
from p2prdf.store.light_texts import TextRows
from p2prdf.store.rejoin import in_pieces, part_max
from p2prdf.store.tables import NEVER, REJOIN_PAIRS_MAX, Chosen, Derived, identity_of_group

__all__ = ["LightTables"]

_Output = dict[tuple[StepTable, int], list[tuple[int, ...]]]
"""Rows derived so far, by step and backfill stamp.  Each is a list of group, identity, oldest, born and bindings."""

_ALL = (1 << 2 * keys.EVENT_SHIFT) - 1
"""The set of all indexes of both kinds."""


class LightTables(LightEnding):
    """:class:`p2prdf.store.tables.Tables` on dictionaries."""

    # --- triples ---------------------------------------------------------------------------------

    def add_triples(
        self, s: Column, p: Column, o: Column, time: Column, event: Column, roles: Column,
        probed: Column | None = None,
    ) -> list[Derived]:  # fmt: skip
        """Store triples under their indexes and join them with the waiting rows in ``probed`` indexes."""
        out: _Output = {}
        if probed is not None:
            for *terms, at, number, bits, joined in zip(s, p, o, time, event, roles, probed, strict=True):
                self._add_partly(tuple(terms), at, number, bits, joined, out)
            return self._derived(out)
        for subject, predicate, object_, at, number, bits in zip(s, p, o, time, event, roles, strict=True):
            self._add_triple((subject, predicate, object_), at, number, bits, out)
        return self._derived(out) if out else []

    def add_triple(self, s: int, p: int, o: int, time: int, event: int, roles: int) -> list[Derived]:
        """Add one triple without columns, see :meth:`add_triples`."""
        out: _Output = {}
        self._add_triple((s, p, o), time, event, roles, out)
        return self._derived(out) if out else []

    def _add_triple(
        self, terms: tuple[int, int, int], time: int, event: int, bits: int, out: _Output
    ) -> None:
        if bits > PLAIN:
            if time < GONE:
                self._add_event(terms, time, event, bits, _ALL, out)
            bits &= PLAIN
            if not bits:
                return
        held = self._triples.get(terms)
        if time >= GONE or (held is not None and held[TIME] >= GONE):
            self._add_intervals(terms, time, bits, _ALL, out)
            return
        if held is not None:
            self._add_again(held, time, bits, _ALL, out)
            return
        triple: Triple = [terms, time, bits, -1, 0]
        self._triples[terms] = triple
        for join_index in self._join_indexes_by_roles.get(bits) or self._join_indexes_in(bits):
            key = join_index.key_of(terms)
            if key in join_index.triples:
                join_index.triples[key].append(triple)
            else:
                join_index.triples[key] = [triple]
            if key in join_index.waiting:
                for table, row in join_index.waiting[key]:
                    if row.oldest != GONE or row.born >= self._met_from(time + 1, join_index):
                        self._join(table, row, triple, 0, 0, out)
            if join_index.texts is not None:
                self._join_texts(join_index.texts, key, triple, 0, self._met_from(time + 1, join_index), out)

    def _met_from(self, stamp: int, join_index: JoinIndex) -> int:
        """Return the end stamp from which on ended rows or triples of a join index are joined.

        It is at least ``stamp`` if this peer alone joins there.  Rows that wait for a pattern without constants wait
        at all peers, and several peers join them.
        """
        floor = self._ended_from
        return max(floor, stamp) if self.settled and join_index.role != keys.ANY else floor

    def _add_partly(
        self, terms: tuple[int, int, int], time: int, event: int, bits: int, probed: int, out: _Output
    ) -> None:
        """Add a triple that is joined only in the ``probed`` indexes, see :meth:`_add_triple`."""
        if bits > PLAIN and time < GONE:
            self._add_event(terms, time, event, bits, probed, out)
        if bits & PLAIN:
            self._add_intervals(terms, time, bits & PLAIN, probed & PLAIN, out)

    def _add_intervals(self, terms: tuple[int, int, int], time: int, bits: int, probed: int, out: _Output) -> None:
        """Take in a publication or a deletion, and its effect on the validity intervals of its triple."""

        def lacks(begin: int) -> bool:
            return bool(bits & ~self._roles_of(terms, begin))

        def time_of(begin: int) -> int:
            return self._time_of(terms, begin)

        if time >= GONE:
            self.ever_removed = True
            intervals = self._intervals.remove(terms, time - GONE, time_of, lacks)
        else:
            intervals = self._intervals.publish(terms, time, time_of, lacks)
        for begin, at, source in intervals:
            had = 0 if source is None else self._roles_of(terms, source)
            self._add_again(self._interval(terms, begin), at, bits, probed, out, had)
        self._superseded.changed(terms, divided=self._intervals.divides(terms))

    def _interval(self, terms: tuple[int, int, int], begin: int) -> Triple:
        """Return a validity interval; a new one has no time."""
        if not begin:
            return self._triples.setdefault(terms, [terms, 0, 0, -1, begin])
        return self._triples.setdefault((*terms, begin), [terms, 0, 0, -1, begin])

    def _time_of(self, terms: tuple[int, int, int], begin: int) -> int:
        held = self._triples.get((*terms, begin) if begin else terms)
        return held[TIME] if held else 0

    def _roles_of(self, terms: tuple[int, int, int], begin: int) -> int:
        held = self._triples.get((*terms, begin) if begin else terms)
        return held[ROLES] if held else 0

    def _heard(self, terms: tuple[int, int, int]) -> int:
        return self._intervals.heard(terms, lambda begin: self._time_of(terms, begin))

    def _add_again(
        self, held: Triple, time: int, named: int, probed: int, out: _Output, had: int = 0
    ) -> None:
        """Store a known interval in new indexes, and join it again if it was published again or has ended.

        ``named``: the indexes of the message; ``had``: those of the interval that this one came from.
        """
        prior, before, bits = held[TIME], held[ROLES], named | had
        now = held[TIME] = later_time(prior, time)
        others = (bits & ~before | (before if now > prior else 0)) & probed & ~named
        probed &= ~self._led_elsewhere(held[TERMS], others)
        held[ROLES] = before | bits
        self._triple_changes[False] += now != prior
        if now >= GONE and (now != prior or bits & ~before):
            self._note_ends(now - GONE, now - GONE)
        if bits & ~before:
            self._triple_changes[False] += 1
            fresh = not prior and not before and now < GONE
            self._store(held, bits & ~before, probed, now + 1 if fresh else 0, out)
        if now > prior and before:
            met = 0
            if 0 < prior < GONE:
                met = NEVER  # an ended row was joined when this triple came, or when the row ended
            elif not prior and now < GONE:
                met = now + 1
            self._join_again(held, 0 if now >= GONE else prior, before & probed, met, out)

    def _led_elsewhere(self, terms: tuple[int, int, int], bits: int) -> int:
        """Return those indexes of ``bits`` in which other peers join a triple."""
        if self._leads is None or not bits:
            return 0
        columns = [[term] for term in terms]
        roles = [role for role in range(8) if bits >> role & 1]
        return sum(1 << role for role in roles if not self._leads(role, self.triple_keys(role, *columns))[0])

    def _join_again(self, held: Triple, prior: int, roles: int, met: int, out: _Output) -> None:
        """Join, in some indexes, a triple republished after ``prior``; ``met`` as in :meth:`_met_from`."""
        self._sizes.processing_load += roles.bit_count()
        for join_index in self._join_indexes_in(roles):
            key, ended_from = join_index.key_of(held[TERMS]), self._met_from(met, join_index)
            for table, row in join_index.waiting.get(key, ()):
                if row.oldest != GONE or row.born >= ended_from:
                    self._join(table, row, held, prior, 0, out)
            if join_index.texts is not None:
                self._join_texts(join_index.texts, key, held, prior, ended_from, out)

    def _add_event(
        self, terms: tuple[int, int, int], time: int, event: int, bits: int, probed: int, out: _Output
    ) -> None:
        if time >= ELEMENT and self.horizons.is_old(time, terms[1:2]):
            self._sizes.elements_late += 1
            return
        held = self._events.get(event)
        if held is None:
            held = self._events[event] = [terms, time, 0, event, 0]
        prior, before = held[TIME], held[ROLES]
        fresh = bits >> keys.EVENT_SHIFT & ~before
        self._triple_changes[True] += fresh != 0 or time > prior
        held[TIME] = max(time, prior)  # a repeated publication may carry its last stamp
        held[ROLES] = before | fresh
        self._store(held, fresh << keys.EVENT_SHIFT, probed, 0, out)
        if time > prior and before:
            others = before & probed >> keys.EVENT_SHIFT & ~(bits >> keys.EVENT_SHIFT)
            probed &= ~(self._led_elsewhere(terms, others) << keys.EVENT_SHIFT)
            self._join_again(held, prior, before << keys.EVENT_SHIFT & probed, 0, out)

    def _store(self, triple: Triple, roles: int, probed: int, met: int, out: _Output) -> None:
        """Store a triple in the join indexes of new indexes, then probe the waiting rows if the index is ``probed``."""
        if roles & ~probed:
            # sizes() counts a check for each index that holds it
            self._sizes.processing_load -= (roles & ~probed).bit_count()
            for join_index in self._join_indexes_in(roles & ~probed):
                join_index.triples.setdefault(join_index.key_of(triple[TERMS]), []).append(triple)
        for join_index in self._join_indexes_in(roles & probed):
            key, ended_from = join_index.key_of(triple[TERMS]), self._met_from(met, join_index)
            join_index.triples.setdefault(key, []).append(triple)
            for table, row in join_index.waiting.get(key, ()):
                if row.oldest != GONE or row.born >= ended_from:
                    self._join(table, row, triple, 0, 0, out)
            if join_index.texts is not None:
                self._join_texts(join_index.texts, key, triple, 0, ended_from, out)

    def _join_texts(self, texts: TextRows, key: Any, triple: Triple, prior: int, met: int, out: _Output) -> None:
        """Join a triple with the rows under its key that wait for a text like that of its object."""
        for table, row in texts.met_by(key, triple[TERMS][2]):
            if row.oldest != GONE or row.born >= met:
                self._join(table, row, triple, prior, 0, out)

    # --- queries and rows ------------------------------------------------------------------------

    def add_queries(
        self, plan: Plan, step: int, group: Column, refresh: int, probed: Column | None = None
    ) -> list[Derived]:
        """Let groups wait for their first pattern (step 0), or mark the triples that a later link must keep."""
        table = self._plan_table(plan)
        if step > 0:
            links = table.steps[step].links
            before = len(links)
            links.update(number for number in group if table.groups[number].since_min != NEVER)
            self._changes += len(links) - before
            return []
        out: _Output = {}
        for number, joined in zip(group, [1] * len(group) if probed is None else probed, strict=True):
            each = table.groups[number]
            row = Row(each, identity_of_group(each.identity), NEVER, 0, ())
            self._add_row(table.steps[0], row, refresh, out, probe=bool(joined))
        return self._derived(out)

    def add_rows(self, rows: Derived, probed: Column | None = None) -> list[Derived]:
        """Store partial results and join them, or the ``probed`` ones, with the triples held."""
        table = self._plan_table(rows.plan)
        step, groups = table.steps[rows.step], table.groups
        out: _Output = {}
        if len(rows.group) == 1:  # the usual case where triples come one at a time
            row = Row(
                groups[rows.group[0]], rows.identity[0], rows.oldest[0], rows.born[0],
                tuple([column[0] for column in rows.bindings]),
            )  # fmt: skip
            self._add_row(step, row, rows.refresh, out, probe=probed is None or bool(probed[0]))
            return self._derived(out) if out else []
        bindings: list[Terms] = list(zip(*rows.bindings, strict=True)) if rows.bindings else [()] * len(rows)
        every = [1] * len(rows) if probed is None else probed
        for group, identity, oldest, born, bound, joined in zip(
            rows.group, rows.identity, rows.oldest, rows.born, bindings, every, strict=True
        ):
            row = Row(groups[group], identity, oldest, born, bound)
            self._add_row(step, row, rows.refresh, out, probe=bool(joined))
        return self._derived(out)

    def _add_row(self, table: StepTable, row: Row, refresh: int, out: _Output, *, probe: bool) -> None:
        """Store a row, then probe the triples held; a known row is probed only for its change."""
        if self.horizons and self.horizons.is_old(row.oldest, row.group.params):
            return
        key = self._join_key(table, row)
        if table.number and probe:
            self._sizes.processing_load += 1
        known = table.rows.get(row.identity)
        met = self._ended_from
        if known is None:
            if row.group.since_min == NEVER:
                return
            if row.oldest == GONE:
                self._note_ends(row.born, row.born)
            table.rows[row.identity] = row
            self._row_count += 1
            if table.condition == NO_CONDITION:
                table.join_index.waiting.setdefault(key, []).append((table, row))
            else:
                assert table.join_index.texts is not None, "it was made with the step"
                table.join_index.texts.add(key, table, row)
            since = 0
            begin = 0 if row.oldest == GONE else row.born
            met = self._met_from(max(row.group.first_heard, begin) + 1, table.join_index)
        else:
            since = refresh or NEVER
            if not refresh:
                # An ended triple was joined when this row came, or when the triple ended.
                met = self._met_from(GONE, table.join_index)
            if row.oldest > known.oldest:
                self._changes += 1
                if row.oldest == GONE:
                    since = 0
                    self._note_ends(row.born, row.born)
                elif row.group.since_max > known.oldest:
                    since = min(since, known.oldest + 1)
                else:
                    self._skipped = True
                known.oldest, known.born = row.oldest, max(known.born, row.born)
            row = known
        if since == NEVER or not probe:
            return
        for triple in table.join_index.triples.get(key, ()):
            if triple[TIME] >= since and not GONE <= triple[TIME] < GONE + met:
                self._join(table, row, triple, 0, refresh, out)

    # --- the join --------------------------------------------------------------------------------

    def _join(
        self, table: StepTable, row: Row, triple: Triple, prior: int, refresh: int, out: _Output
    ) -> None:
        """Extend a row by a triple with the terms of its key, if the pair counts; the result has ended if either has.
        """
        group, time, oldest = row.group, triple[TIME], row.oldest
        if time >= GONE:
            time, oldest = time - GONE, GONE
            if time + LATE < group.since_min and self._heard(triple[TERMS]) < group.since_min:
                return
        elif time < group.since_min:
            return
        if group.since_max <= prior:
            self._skipped = True
            return
        compiled = table.compiled
        terms = triple[TERMS]
        for first, second in compiled.equal:
            if terms[first] != terms[second]:
                return
        for at in compiled.never_literal:
            if self._dictionary.literals[terms[at]]:
                return
        if compiled.span_ms and _apart_ms(row, time) >= compiled.span_ms:
            self._sizes.too_wide += 1
            return
        bindings = row.bindings
        for number, sources in compiled.filters:
            if not table.plan.filters.passes(
                number, tuple(bindings[at] if source == ROW else terms[at] for source, at in sources)
            ):
                return
        self._sizes.joined += 1
        identity = triple[IDENTITY]
        if identity < 0:
            identity = self._identity_of(triple)
        place = (table, refresh)
        derived = out.get(place)
        if derived is None:
            derived = out[place] = []
        derived.append((
            group.number,
            (row.identity + keys.contribution(identity, compiled.step.position)) & NEVER,
            oldest if oldest == GONE else min(oldest, time),
            max(row.born, time),
            *[bindings[at] if source == ROW else terms[at] for source, at in compiled.output],
        ))

    def rejoin(self, chosen: Chosen, pairs_max: int = REJOIN_PAIRS_MAX) -> Iterator[list[Derived]]:
        """Join all rows that wait under chosen ring keys with all triples held, in pieces of bounded work."""
        return in_pieces(self._rejoin_parts(chosen, part_max(pairs_max)), pairs_max)

    def _rejoin_parts(self, chosen: Chosen, size: int) -> Iterator[tuple[int, list[Derived]]]:
        for plan in list(self._plans.values()):
            for step in plan.steps:
                role = step.compiled.step.role
                if not step.join_index.triples or (role == keys.ANY and not any(chosen(role, list(keys.BUCKET_KEYS)))):
                    continue
                names = list(step.rows)
                for start in range(0, len(names), size):
                    rows = self._living(step, names[start : start + size])
                    if role != keys.ANY:
                        picked = chosen(role, self._keys_of_rows(step, rows))
                        rows = [row for row, wanted in zip(rows, picked, strict=True) if wanted]
                    yield min(size, len(names)), []
                    for row in rows:
                        yield from self._rejoin_row(step, row, size)

    def _rejoin_row(self, step: StepTable, row: Row, size: int) -> Iterator[tuple[int, list[Derived]]]:
        """Join a row with all triples held; its group may end at any pause."""
        if row.oldest == GONE and row.born < self.stable_before:
            return
        triples = step.join_index.triples.get(self._join_key(step, row), [])
        for start in range(0, len(triples), size):
            part = triples[start : start + size]
            out: _Output = {}
            for triple in part:
                if not GONE <= triple[TIME] < GONE + self.stable_before:
                    self._join(step, row, triple, 0, 0, out)
            yield len(part), self._derived(out)

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


def _apart_ms(row: Row, time: int) -> int:
    """Return the distance (ms) between the earliest and the latest element of a row and one more element."""
    oldest = min(row.oldest, time)
    return (max(row.born, time) >> COUNTER_BITS) - (oldest >> COUNTER_BITS) if oldest >= ELEMENT else 0
