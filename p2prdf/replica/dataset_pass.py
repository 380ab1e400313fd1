"""All interests in one dataset that a keeper keeps: read once from the overlay, evaluated in one pass.

One standing query (:mod:`p2prdf.replica.candidates`) tells the triples that may matter to any of the interests, as they
come and go.  At each of its bookmarks what changed is a changeset for the engine
(:class:`p2prdf.interest.Interests`), and each target that changes is told.

When interests are added whose patterns none has yet, another query is left, wider than the first, which goes on
meanwhile.  At the first bookmark at which the second one has told all, and is as far as the first, the engine
gets the new interests, and the difference between what the second tells and what the engine holds as a
changeset: for the others that is next to nothing.  Then the first ends.  The same is done when answers were dropped or
the query's lease ran out; so the engine's state is always that of one query at one of its bookmarks.

The engine works in a thread if there is much to do, so that leases are renewed meanwhile; a lock keeps others from it.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from p2prdf.errors import Busy, InterestOverflow, P2PRDFError, QueryRefused, SubscriptionGone, Unavailable
from p2prdf.interest import Change, Changeset, Interest, Interests, Pattern, Triple, parse_interest
from p2prdf.interest.registration import Registration
from p2prdf.presence.overlay import Left, Overlay
from p2prdf.rdf import terms
from p2prdf.rdf.standing.syntax import is_variable
from p2prdf.replica.candidates import POSITION, branches_of, candidates_text
from p2prdf.replica.changeset_files import position_order
from p2prdf.replica.kept_target import Content, KeptTarget
from p2prdf.replica.replica import START
from p2prdf.replica.target import Digest

__all__ = ["DatasetPass"]

_LEASE_SECONDS: Final = 30.0
_TRIPLES_MAX: Final = 10_000_000
"""Most candidates of one dataset."""
_INLINE_TRIPLES: Final = 500
"""A changeset of so many triples is applied at once, a larger one in a thread."""
_PAUSE_SECONDS: Final = 2.0
_GOODBYE_SECONDS: Final = 5.0
_STEPS_WAITING: Final = 4


@dataclass(eq=False)
class _Reading:
    """One standing query of the dataset, and what it has told up to its last bookmark that was dealt with."""

    left: Left
    wanted: dict[str, Registration]
    """The interests that it was left for."""
    state: Counter[Triple] = field(default_factory=Counter)
    """All candidates; kept only until the engine has them."""
    task: asyncio.Task[None] | None = None


@dataclass(frozen=True, slots=True)
class _Step:
    """What came up to a bookmark, or why nothing comes any more."""

    reading: _Reading
    change: Counter[Triple]
    as_of: float
    error: P2PRDFError | None = None


class DatasetPass:
    """The interests in one dataset."""

    def __init__(self, overlay: Overlay, dataset: str, *, on_refused: Callable[[str, str], None],
                 on_error: Callable[[str], None]):  # fmt: skip
        """``on_refused`` is called with the name of an interest that the engine refuses, and why."""
        self._overlay = overlay
        self.dataset = dataset
        self.as_of = 0
        """Up to when all that was published has been taken account of, in milliseconds; 0: nothing has yet."""
        self.position: str | None = None
        self.error: str | None = None
        self.read = 0
        """Solutions that came from the overlay."""
        self.seconds = 0.0
        """That the engine worked, by the clock."""
        self.steps = 0
        self._interests = Interests()
        self._read_before: dict[str, Interest] = {}
        self._evaluated: dict[str, Registration] = {}
        """The interests that the engine has."""
        self._wanted: dict[str, Registration] = {}
        self._targets: dict[str, KeptTarget] = {}
        self._lock = asyncio.Lock()
        self._on_refused = on_refused
        self._on_error = on_error
        self._steps: asyncio.Queue[_Step | None] = asyncio.Queue(_STEPS_WAITING)
        self._current: _Reading | None = None
        self._next: _Reading | None = None
        self._positions: Counter[str] = Counter()

    # --- interests ---------------------------------------------------------------------------------------------

    def want(self, wanted: Mapping[str, Registration], targets: Mapping[str, KeptTarget]) -> None:
        """Keep these interests from now on, at these targets, and no others."""
        if dict(wanted) != self._wanted:
            self._wanted, self._targets = dict(wanted), dict(targets)
            with contextlib.suppress(asyncio.QueueFull):  # then a step is there, and interests are looked at after it
                self._steps.put_nowait(None)

    @contextlib.asynccontextmanager
    async def content(self, name: str) -> AsyncIterator[Content]:
        """Tell what a target is to hold; it does not change meanwhile."""
        async with self._lock:
            if name not in self._interests:
                raise Unavailable(f"the dataset {self.dataset} has not been read for it yet")
            yield Content(await asyncio.to_thread(lambda: set(self._interests.target(name))), self.as_of)

    async def sizes(self, names: Iterable[str]) -> dict[str, tuple[int, int]]:
        """Return how many triples are in targets, and how many are potentially interesting, where that is known.

        Nothing is while the engine has much to do.
        """
        interests = self._interests
        if self._lock.locked():
            return {}
        async with self._lock:
            known = [name for name in names if name in interests]
            return await asyncio.to_thread(
                lambda: {name: (interests.target_size(name), interests.potential_size(name)) for name in known}
            )

    @property
    def triples(self) -> int:
        """The number of triples that are held for all interests together."""
        return self._interests.triples

    # --- the work ------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Keep targets until cancelled; begin anew, after a pause, whenever the overlay cannot be read."""
        try:
            while True:
                try:
                    await self._follow()
                except InterestOverflow as error:  # the engine is of no use any more
                    self._refuse(error.interest, str(error))
                    self._interests, self._evaluated = Interests(), {}
                except (Unavailable, Busy, SubscriptionGone, QueryRefused) as error:
                    self._failed(str(error))
                await self._end_readings()
                await asyncio.sleep(_PAUSE_SECONDS)
        finally:
            await self._end_readings()

    def _failed(self, text: str) -> None:
        if text != self.error:
            self._on_error(f"{self.dataset}: {text}")
        self.error = text

    async def _follow(self) -> None:
        await self._look_at_wishes()
        while True:
            step = await self._steps.get()
            if step is not None and step.reading is self._current:
                if step.error is not None:
                    raise step.error
                await self._apply(step)
            elif step is not None and step.reading is self._next:
                await self._catch_up(step)
            await self._look_at_wishes()

    async def _look_at_wishes(self) -> None:
        """Forget interests that are not wanted any more, and begin with those that are new."""
        for name in [name for name, each in self._evaluated.items() if self._wanted.get(name) != each]:
            async with self._lock:
                del self._evaluated[name]
                self._interests.remove(name)
        for name in list(self._evaluated):
            if not self._targets[name].is_begun:  # it was given up for a moment, and taken on again
                await self._begin(name)
        if self._next is not None:
            return
        if self._current is not None:
            if self._wanted.keys() != self._evaluated.keys():
                await self._add_known()
            if self._wanted.keys() == self._evaluated.keys():
                return
        if self._wanted:
            self._next = await self._leave()

    async def _add_known(self) -> None:
        """Begin with interests all of whose patterns others have as well: their triples are there."""
        known = {_shape(each) for name in self._interests for each in self._interests.interest(name).patterns}
        new = {
            name: each for name, each in self._wanted.items()
            if name not in self._evaluated and {_shape(one) for one in self._parsed(each).patterns} <= known
        }  # fmt: skip
        async with self._lock:
            begun = await self._added(new)
        for name in begun:
            await self._begin(name)

    async def _begin(self, name: str) -> None:
        """Begin with a target of which the engine knows what it is to hold."""
        async with self._lock:
            digest = await self._digest(name)
            if name in self._targets:
                self._targets[name].begin(digest)
                self._targets[name].reach(self.as_of, self.position)

    async def _leave(self) -> _Reading:
        """Leave a query for all interests that are wanted now."""
        wanted = dict(self._wanted)
        texts = {each.query for each in wanted.values()}
        self._read_before = {text: each for text, each in self._read_before.items() if text in texts}
        patterns = await asyncio.to_thread(
            lambda: frozenset(each for one in wanted.values() for each in self._parsed(one).patterns)
        )
        left = await self._overlay.subscribe(
            candidates_text(self.dataset, branches_of(patterns)), since="beginning", bookmarks=True, hurry=True,
            auto_acknowledge=True, lease_seconds=_LEASE_SECONDS,
        )  # fmt: skip
        reading = _Reading(left, wanted)
        reading.task = asyncio.create_task(self._read(reading))
        return reading

    async def _read(self, reading: _Reading) -> None:
        """Hand on what a query tells, bookmark by bookmark."""
        change: Counter[Triple] = Counter()
        try:
            async for batch in reading.left.batches():
                if batch.lost:
                    raise Unavailable(f"{batch.lost} answers were dropped at the query's home")
                self.read += len(batch)
                for solution in batch:
                    change[solution.terms] += -1 if solution.removed else 1
                if len(change) > _TRIPLES_MAX:
                    raise Unavailable(f"more than {_TRIPLES_MAX:,} triples change at once")
                if batch.bookmark is not None and batch.bookmark > reading.left.opened:
                    await self._steps.put(_Step(reading, change, batch.bookmark))
                    change = Counter()
            error: P2PRDFError = Unavailable("the query of the dataset has ended")
        except P2PRDFError as raised:
            error = raised
        await self._steps.put(_Step(reading, Counter(), 0, error))

    async def _catch_up(self, step: _Step) -> None:
        """Take in what the wider query tells; when it is as far as the other one, it takes its place."""
        reading = step.reading
        if step.error is not None:
            self._next = None
            if self._current is None:
                raise step.error
            self._failed(str(step.error))
            return
        for triple, count in step.change.items():
            reading.state[triple] += count
        if _milliseconds(step.as_of) < self.as_of:
            return
        former, self._current, self._next = self._current, reading, None
        if former is not None:
            await self._end(former)
        await self._exchange(step)

    async def _exchange(self, step: _Step) -> None:
        """Make what a query has told the engine's state, and begin with the interests that it was left for."""
        reading = step.reading
        fresh = {name: each for name, each in reading.wanted.items() if self._wanted.get(name) == each}
        async with self._lock:
            self._positions = Counter()
            state = self._without_positions(reading.state)
            reading.state = Counter()
            new = {name: each for name, each in fresh.items() if name not in self._evaluated}
            begun = await self._added(new)
            changes = await self._worked(lambda: self._difference(state))
            for name in begun:
                digest = await self._digest(name)
                if name in self._targets:
                    self._targets[name].begin(digest)
            self._tell({name: change for name, change in changes.items() if name not in begun}, step.as_of)

    async def _digest(self, name: str) -> Digest:
        return await asyncio.to_thread(lambda: Digest(self._interests.target(name)))

    async def _added(self, new: Mapping[str, Registration]) -> list[str]:
        """Let the engine have interests; return those that it takes."""
        refused: dict[str, str] = {}

        def add() -> None:
            for name, registration in new.items():
                try:
                    self._interests.add(name, self._parsed(registration))
                except InterestOverflow as error:
                    refused[name] = str(error)

        await asyncio.to_thread(add)
        for name, reason in refused.items():
            self._refuse(name, reason)
        added = {name: each for name, each in new.items() if name not in refused}
        self._evaluated.update(added)
        return list(added)

    def _parsed(self, registration: Registration) -> Interest:
        """Return an interest; each is read once, for reading many takes a while."""
        text = registration.query
        found = self._read_before.get(text)
        if found is None:
            found = self._read_before[text] = parse_interest(text)
        return found

    def _difference(self, state: Counter[Triple]) -> Mapping[str, Change]:
        """Apply what is between what the engine holds and what a query has told."""
        there = {triple for triple, count in state.items() if count > 0}
        held = set(self._interests.held())
        return self._interests.apply(Changeset(tuple(held - there), tuple(there - held))).changes

    async def _apply(self, step: _Step) -> None:
        """Take account of what came up to a bookmark."""
        async with self._lock:
            change = self._without_positions(step.change)
            removed = tuple(triple for triple, count in change.items() if count < 0)
            added = tuple(triple for triple, count in change.items() if count > 0)
            changeset = Changeset(removed, added)
            if len(changeset) <= _INLINE_TRIPLES:
                began = time.perf_counter()
                changes = self._applied(changeset) if changeset else {}
                self.seconds += time.perf_counter() - began
            else:
                changes = await self._worked(lambda: self._applied(changeset))
            self._tell(changes, step.as_of)

    def _applied(self, changeset: Changeset) -> Mapping[str, Change]:
        return self._interests.apply(changeset).changes

    async def _worked(self, work: Callable[[], Mapping[str, Change]]) -> Mapping[str, Change]:
        """Return what the engine does in a thread."""
        began = time.perf_counter()
        try:
            return await asyncio.to_thread(work)
        finally:
            self.seconds += time.perf_counter() - began

    def _tell(self, changes: Mapping[str, Change], as_of: float) -> None:
        """Tell targets what changes, all at one moment."""
        self.steps += 1
        self.error = None
        self.as_of = max(self.as_of, _milliseconds(as_of))
        self.position = self._latest()
        for name, change in changes.items():
            if name in self._targets and self._targets[name].is_begun:  # it may be wanted no more
                self._targets[name].note(change.deletions, change.insertions)
        for name in self._interests:
            if name in self._targets and self._targets[name].is_begun:
                self._targets[name].reach(self.as_of, self.position)

    def _without_positions(self, change: Counter[Triple]) -> Counter[Triple]:
        """Take out of a change what it says of the dataset's position."""
        for triple in [each for each in change if each[1] == POSITION]:
            self._positions[triple[2]] += change.pop(triple)
        return change

    def _latest(self) -> str | None:
        known = [terms.lexical(each) for each, count in self._positions.items() if count > 0]
        return max(known, key=lambda each: (each != START, position_order(each)), default=None)

    def _refuse(self, name: str, reason: str) -> None:
        self._wanted.pop(name, None)
        self._on_refused(name, reason)

    # --- ends ------------------------------------------------------------------------------------------------------

    async def _end(self, reading: _Reading) -> None:
        if reading.task is not None:
            reading.task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await reading.task
        with contextlib.suppress(P2PRDFError, TimeoutError):
            async with asyncio.timeout(_GOODBYE_SECONDS):
                await reading.left.unsubscribe()

    async def _end_readings(self) -> None:
        for reading in (self._current, self._next):
            if reading is not None:
                await self._end(reading)
        self._current = self._next = None


def _shape(pattern: Pattern) -> Pattern:
    """Return a pattern with its variables numbered: equal for patterns that take the same triples."""
    numbers: dict[str, str] = {}
    s, p, o = (numbers.setdefault(part, f"?{len(numbers)}") if is_variable(part) else part for part in pattern)
    return s, p, o


def _milliseconds(seconds: float) -> int:
    return int(seconds * 1000)
