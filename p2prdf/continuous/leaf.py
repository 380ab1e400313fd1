"""Leaves of a standing query at its home: the conjunctive queries it is made of, and what they answer.

The answers of a leaf are kept for as long as they are true, for the operators above may need them at any time, also
at another replica that becomes the primary.  They are a set by identity that grows only: answers are added, may
come again with a later ``oldest`` (one of their triples was published again, which is new to younger
subscriptions), and are withdrawn for good.  So replicas take them in in any order and come to the same.
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
    from p2prdf.continuous.home import Group

__all__ = ["LATE_MS", "Change", "CountedAnswers", "ElementAnswers", "Leaf", "LeafAnswers"]

_NEVER = -1
LATE_MS: Final = 600_000
"""What no report needs for less, in event time, may still come: late, or by way of who has not heard of the reports."""


class Change(NamedTuple):
    """An answer of a leaf that counts for other subscriptions than before.

    It counts for those made up to a stamp: ``after`` now, ``before`` until now; -1: for none.  ``born``: when the last
    of its triples was published, or that of its elements is.
    """

    row: Row
    before: int
    after: int
    born: int = 0

    @property
    def new(self) -> bool:
        """Whether the answer was not known; else it counts for later subscriptions as well, or for none."""
        return self.before == _NEVER

    def weight(self, since: int) -> int:
        """Return what changes for a subscription: 1 if it has the answer now, -1 if it has it no more."""
        return (self.after >= since) - (self.before >= since)


class LeafAnswers:
    """The answers of a leaf, by identity; *ordinals* number them in order of arrival."""

    def __init__(self) -> None:
        self._ordinals: dict[int, int] = {}
        self.identity: list[int] = []
        self.oldest: list[int] = []
        """By ordinal; GONE: withdrawn."""
        self._born: list[int] = []
        self._rows: list[Row | None] = []
        self.version = 0
        """Changes with everything."""
        self.youngest = 0
        """The latest publication that any answer is made of, or that took one back."""
        self.true = 0
        """Answers that are not withdrawn."""

    def __len__(self) -> int:
        return len(self.identity)

    def take(
        self, identity: Sequence[int], oldest: Sequence[int], born: Sequence[int], bindings: Sequence[Sequence[int]]
    ) -> list[Change]:
        """Take answers in, and withdrawals (``oldest`` is GONE); return what that changes."""
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
        """Take withdrawals in, all of them by ``youngest``; return what that changes."""
        return [change for each in identity for change in self._withdraw(each, youngest)]

    def _add(self, identity: int, oldest: int, born: int, row: Row | None) -> None:
        self._ordinals[identity] = len(self.identity)
        self.identity.append(identity)
        self.oldest.append(oldest)
        self._born.append(born)
        self._rows.append(row)
        self._note(born)

    def _note(self, born: int) -> None:
        """Take note of when an answer was born, or taken back."""
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
        """Return the answers that count for a subscription, as a Z-set."""
        pairs = zip(self._rows, self.oldest, strict=True)
        return [(row, 1) for row, oldest in pairs if row is not None and oldest >= since]

    def withdrawn(self, ordinals: Sequence[int]) -> list[int]:
        """Return the identities of those that are withdrawn."""
        return [self.identity[each] for each in ordinals if each < len(self.identity) and self._rows[each] is None]

    def held(self, ordinals: Sequence[int]) -> list[tuple[int, int, int, Row]]:
        """Return identity, oldest, born and row of those that are true."""
        return [
            (self.identity[each], self.oldest[each], self._born[each], row)
            for each in ordinals
            if each < len(self.identity) and (row := self._rows[each]) is not None
        ]


class ElementAnswers(LeafAnswers):
    """The answers of a leaf over elements of a stream: an answer is made of elements, with event times for stamps.

    What no report needs any more is forgotten, and not taken in again: an answer whose oldest element is older than the
    last report by more than the window's range and ``LATE_MS``, and three times the time between reports, for who takes
    over makes the last ones again.  Nothing is forgotten for a landmark window.
    """

    def __init__(self, window: Window, every: int):
        """``every``: the time between reports, in milliseconds."""
        super().__init__()
        self._keep = None if window.range is None else window.range + LATE_MS + 3 * every
        self._earliest = 0
        """Answers with elements from before this event time are forgotten."""

        self._start = window.start

    @property
    def needed(self) -> int:
        """The event time from which on elements count: no answer with an earlier one is taken in, or in a window."""
        return self._start if self._keep is None else self._earliest

    def _note(self, born: int) -> None:
        """Take no note of event times: they are no stamps."""

    def reported(self, upto: int) -> None:
        """Forget what only reports up to an event time needed; an earlier one than before: take that in again."""
        if self._keep is None:
            return
        self._earliest = max(0, upto - self._keep)
        self._forget()

    def _forget(self) -> None:
        """Forget answers with elements from before the earliest time that counts."""
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
        """Take answers in, but those that are forgotten; return what that changes."""
        kept = [at for at, each in enumerate(oldest) if self._counts(each)]
        if len(kept) < len(oldest):
            identity, oldest, born = ([column[at] for at in kept] for column in (identity, oldest, born))
            bindings = [[column[at] for at in kept] for column in bindings]
        return super().take(identity, oldest, born, bindings)

    def timed(self) -> list[tuple[Row, int, int]]:
        """Return the answers, each with the event times of its oldest and its youngest element, in milliseconds."""
        return [
            (row, hlc.element_ms(oldest), hlc.element_ms(born))
            for row, oldest, born in zip(self._rows, self.oldest, self._born, strict=True)
            if row is not None
        ]


class CountedAnswers(ElementAnswers):
    """The elements of a stream that is read through a window by count.

    What the last report that is marked does not need, nor the one before it, is forgotten, and not taken in again.
    """

    def __init__(self, window: CountWindow):
        super().__init__(Window(1, 1), 1)
        self._elements = window.elements + window.step

    def reported(self, upto: int) -> None:
        """Forget what only reports up to an event time needed; an earlier one than before: take that in again."""
        known = {(time, row) for row, time, _ in self.timed() if time < upto}
        self._earliest = 0
        if len(known) > self._elements:
            self._earliest = heapq.nlargest(self._elements, (time for time, _ in known))[-1]
        self._forget()


@dataclass(slots=True, eq=False)
class Leaf:
    """A conjunctive query that is evaluated in the network, as a whole query or as a leaf of one.

    ``plan`` is None while rates are being asked for.  ``answers`` are kept for a standing query; those of a
    conjunctive one go to its subscriptions as they are.
    """

    group: Group
    identity: int
    query: ConjunctiveQuery
    plan: Plan | None = None
    answers: LeafAnswers | None = None
    window: Window | CountWindow | None = None
    """Of a leaf over elements of a stream."""
    slot: int = 0
    """Names it among the leaves and subscriptions of this peer."""
    counts: dict[int, int] = field(default_factory=dict)
    unanswered: int = 0
    """Rates asked for and not told yet."""

    @property
    def per_event(self) -> bool:
        """Whether it is answered per choice of publication events: elements are such."""
        return self.group.per_event or self.window is not None

    def plan_in(self, order: Sequence[int]) -> Plan:
        """Return the plan that joins its patterns in an order."""
        span = self.window.range or 0 if isinstance(self.window, Window) else 0
        return make_plan(self.query, order, self.group.algorithm, per_event=self.per_event, span_ms=span)
