"""Leaves of a standing query at its coordinator: its conjunctive parts and their solutions.

Solutions of a leaf are kept as long as they hold: the operators above need them at any time, also at a replica that
becomes the primary.  They form a set by identity that only grows.  A solution is added; it may arrive again with a
later ``oldest``, after one of its triples was published again, and is then new to later subscriptions; it is
retracted for good.  Replicas may therefore take the changes in any order and reach the same state.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from p2prdf import hlc
from p2prdf.continuous.operators.zset import Row
from p2prdf.hlc import GONE
from p2prdf.rdf.algebra import CountWindow, Window
from p2prdf.rdf.query import ConjunctiveQuery, Plan, make_plan

if TYPE_CHECKING:
    from p2prdf.continuous.records import Group

__all__ = ["LATE_MS", "Change", "CountedAnswers", "ElementAnswers", "Leaf", "LeafAnswers"]

_NEVER = -1
LATE_MS: Final = 600_000
"""Milliseconds of event time that solutions are kept after the last report that needs them.

They may still arrive: late, or from a peer that has not heard of the reports.
"""


class Change(NamedTuple):
    """A solution of a leaf that counts for other subscriptions than before.

    It counts for the subscriptions whose ``since`` is at or before a stamp: ``before`` until now, ``after`` from now
    on; -1: for none.  ``born``: the stamp of its latest triple, or the event time of its latest element.  For settled
    delivery: the stamp of the change.
    """

    row: Row
    before: int
    after: int
    born: int = 0

    @property
    def new(self) -> bool:
        """Whether the solution is new; otherwise it now counts for later subscriptions as well, or for none."""
        return self.before == _NEVER

    @property
    def opposite(self) -> Change:
        """The change that undoes this one, with the same stamp."""
        return Change(self.row, self.after, self.before, self.born)

    def weight(self, since: int) -> int:
        """Return the change for a subscription: 1 if it gains the solution, -1 if it loses it, else 0."""
        return (self.after >= since) - (self.before >= since)


class LeafAnswers:
    """The solutions of a leaf, by identity; *ordinals* number them in order of arrival."""

    def __init__(self) -> None:
        self._ordinals: dict[int, int] = {}
        self.identity: list[int] = []
        self.oldest: list[int] = []
        """``oldest`` by ordinal; GONE for a retracted solution."""
        self._born: list[int] = []
        self._rows: list[Row | None] = []
        self.version = 0
        """Changes with every change."""
        self.youngest = 0
        """The latest publication that a solution uses, or that retracted one."""
        self.true = 0
        """Number of solutions that are not retracted."""

    def __len__(self) -> int:
        return len(self.identity)

    def take(
        self, identity: Sequence[int], oldest: Sequence[int], born: Sequence[int], bindings: Sequence[Sequence[int]]
    ) -> list[Change]:
        """Take in solutions and retractions (``oldest`` is GONE); return the changes."""
        changes = []
        rows: list[Row] = list(zip(*bindings, strict=True)) if bindings else [()] * len(identity)
        for at, each in enumerate(identity):
            if oldest[at] == GONE:
                changes += self._withdraw(each, born[at])
                continue
            ordinal = self._ordinals.get(each)
            if ordinal is None:
                self._add(each, oldest[at], born[at], rows[at])
                self.true += 1
                changes.append(Change(rows[at], _NEVER, oldest[at], born[at]))
            elif self.oldest[ordinal] < oldest[at]:
                changes.append(Change(rows[at], self.oldest[ordinal], oldest[at]))
                self.oldest[ordinal] = oldest[at]
                self._born[ordinal] = max(self._born[ordinal], born[at])
                self._note(born[at])
        self.version += bool(changes)
        return changes

    def withdraw(self, identity: Sequence[int], youngest: int) -> list[Change]:
        """Take in retractions, all with stamp ``youngest``; return the changes."""
        return [change for each in identity for change in self._withdraw(each, youngest)]

    def _add(self, identity: int, oldest: int, born: int, row: Row | None) -> None:
        self._ordinals[identity] = len(self.identity)
        self.identity.append(identity)
        self.oldest.append(oldest)
        self._born.append(born)
        self._rows.append(row)
        self._note(born)

    def _note(self, born: int) -> None:
        """Record the stamp of a solution or retraction."""
        self.youngest = max(self.youngest, born)

    def _withdraw(self, identity: int, born: int) -> list[Change]:
        ordinal = self._ordinals.get(identity)
        self._note(born)
        if ordinal is None:
            self._add(identity, GONE, born, None)
            self.version += 1
            return []
        row, before = self._rows[ordinal], self.oldest[ordinal]
        if row is None:
            return []
        self.oldest[ordinal], self._rows[ordinal] = GONE, None
        self.true -= 1
        self.version += 1
        return [Change(row, before, _NEVER)]

    def since(self, since: int) -> list[tuple[Row, int]]:
        """Return the solutions that count for a subscription, as a Z-set."""
        pairs = zip(self._rows, self.oldest, strict=True)
        return [(row, 1) for row, oldest in pairs if row is not None and oldest >= since]

    def withdrawn(self, ordinals: Sequence[int]) -> list[int]:
        """Return the identities of the retracted solutions among some ordinals."""
        return [self.identity[each] for each in ordinals if each < len(self.identity) and self._rows[each] is None]

    def held(self, ordinals: Sequence[int]) -> list[tuple[int, int, int, Row]]:
        """Return identity, oldest, born and row of the solutions that hold among some ordinals."""
        return [
            (self.identity[each], self.oldest[each], self._born[each], row)
            for each in ordinals
            if each < len(self.identity) and (row := self._rows[each]) is not None
        ]


class ElementAnswers(LeafAnswers):
    """The solutions of a leaf over the elements of a stream; event times take the place of stamps.

    Solutions that no report needs any more are forgotten and refused afterwards: those with an element earlier
    than the last report by more than the window's range, ``LATE_MS`` and three reporting intervals.  The
    intervals are there for a new primary, which makes the last reports again.  For a landmark window all solutions
    are kept.
    """

    def __init__(self, window: Window, every: int):
        """``every``: the interval between reports, in milliseconds."""
        super().__init__()
        self._keep = None if window.range is None else window.range + LATE_MS + 3 * every
        self._earliest = 0
        """Event time (ms); solutions with earlier elements are forgotten."""

        self._start = window.start

    @property
    def needed(self) -> int:
        """Event time from which elements count: a solution with an earlier element is refused and is in no window."""
        return self._start if self._keep is None else self._earliest

    def _note(self, born: int) -> None:
        """Ignore event times, which are not stamps."""

    def reported(self, upto: int) -> None:
        """Forget the solutions that only reports up to ``upto`` needed.

        An earlier ``upto`` than before reopens the range.
        """
        if self._keep is None:
            return
        self._earliest = max(0, upto - self._keep)
        self._forget()

    def _forget(self) -> None:
        """Forget solutions with elements before the earliest event time that counts."""
        kept = [at for at, each in enumerate(self.oldest) if self._counts(each)]
        if len(kept) == len(self.identity):
            return
        self.identity = [self.identity[at] for at in kept]
        self.oldest = [self.oldest[at] for at in kept]
        self._born = [self._born[at] for at in kept]
        self._rows = [self._rows[at] for at in kept]
        self._ordinals = {each: at for at, each in enumerate(self.identity)}
        self.true = len(kept)
        self.version += 1

    def _counts(self, oldest: int) -> bool:
        return oldest != GONE and hlc.element_ms(oldest) >= self._earliest

    def take(
        self, identity: Sequence[int], oldest: Sequence[int], born: Sequence[int], bindings: Sequence[Sequence[int]]
    ) -> list[Change]:
        """Take in solutions, except those in the forgotten range; return the changes."""
        kept = [at for at, each in enumerate(oldest) if self._counts(each)]
        if len(kept) < len(oldest):
            identity, oldest, born = ([column[at] for at in kept] for column in (identity, oldest, born))
            bindings = [[column[at] for at in kept] for column in bindings]
        return super().take(identity, oldest, born, bindings)

    def timed(self) -> list[tuple[Row, int, int]]:
        """Return the solutions, each with the event times of its earliest and its latest element, in milliseconds."""
        return [
            (row, hlc.element_ms(oldest), hlc.element_ms(born))
            for row, oldest, born in zip(self._rows, self.oldest, self._born, strict=True)
            if row is not None
        ]


class CountedAnswers(ElementAnswers):
    """The elements of a stream that is read through a window by count.

    Elements that neither the last marked report nor the report before it needs are forgotten and refused afterwards.
    """

    def __init__(self, window: CountWindow):
        super().__init__(Window(1, 1), 1)
        self._elements = window.elements + window.step

    def reported(self, upto: int) -> None:
        """Forget the elements that only reports up to ``upto`` needed.

        An earlier ``upto`` than before reopens the range.
        """
        known = {(time, row) for row, time, _ in self.timed() if time < upto}
        self._earliest = 0
        if len(known) > self._elements:
            self._earliest = heapq.nlargest(self._elements, (time for time, _ in known))[-1]
        self._forget()


@dataclass(slots=True, eq=False)
class Leaf:
    """A conjunctive query that the network evaluates: a whole query or a leaf of one.

    ``plan`` is None while rates are requested.  ``answers`` holds the solutions of a standing query's leaf; solutions
    of a conjunctive query go to its subscriptions directly.
    """

    group: Group
    identity: int
    query: ConjunctiveQuery
    plan: Plan | None = None
    answers: LeafAnswers | None = None
    window: Window | CountWindow | None = None
    """The window, for a leaf over the elements of a stream."""
    slot: int = 0
    """Number that identifies it among the leaves and subscriptions of this peer."""
    counts: dict[int, int] = field(default_factory=dict)
    unanswered: int = 0
    """Number of rate requests without a response."""

    @property
    def per_event(self) -> bool:
        """Whether each choice of publication events is a solution of its own, as for stream elements."""
        return self.group.per_event or self.window is not None

    def plan_in(self, order: Sequence[int]) -> Plan:
        """Return the plan that joins its patterns in the given order."""
        span = self.window.range or 0 if isinstance(self.window, Window) else 0
        return make_plan(
            self.query, order, self.group.algorithm, per_event=self.per_event, span_ms=span, exact=self.group.settled
        )
