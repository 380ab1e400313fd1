"""The interests of one worker in one dataset: read once from the overlay, evaluated in one pass.

A standing query (:mod:`p2prdf.replica.candidates`) reports new and deleted candidates for all interests. At
each bookmark the changes form a changeset for the engine (:class:`p2prdf.interest.Interests`), which computes
the change of each target.

New interests may need a wider query, which runs beside the first. When its backfill is complete and it has
caught up, the engine gets the new interests and the difference between the query's triples and its own. Then
the first query ends. The same happens after dropped solutions or an expired lease, so the engine's state is
always that of one query at one of its bookmarks.

With a bound on potentially interesting triples, targets may lack triples with evicted partners until the
dataset is read again: for a new interest, or by :meth:`DatasetPass.read_anew`. Large changes run in a thread,
so that leases are renewed meanwhile; a lock protects the engine.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Final, NamedTuple

from p2prdf import hlc
from p2prdf.errors import Busy, InterestOverflow, P2PRDFError, QueryRefused, SubscriptionGone, Unavailable
from p2prdf.interest import Change, Changeset, Interest, Interests, Pattern, Triple, parse_interest
from p2prdf.interest.registration import Registration
from p2prdf.monitoring.histogram import Histogram
from p2prdf.rdf import terms
from p2prdf.rdf.standing.syntax import is_variable
from p2prdf.replica.candidates import POSITION, branches_of, candidates_text
from p2prdf.replica.changeset_files import position_order
from p2prdf.replica.dataset_reading import Reading, Step
from p2prdf.replica.maintained_target import Content, MaintainedTarget
from p2prdf.replica.replica import START
from p2prdf.replica.target import Digest
from p2prdf.workers.overlay import Overlay

__all__ = ["DatasetPass", "Sizes"]

_LEASE_SECONDS: Final = 30.0
_INLINE_TRIPLES: Final = 500
"""A changeset of up to this many triples is applied inline, a larger one in a thread."""
_PAUSE_SECONDS: Final = 2.0
_STEPS_WAITING: Final = 4


class Sizes(NamedTuple):
    """Numbers of an interest's target triples, potentially interesting triples and evicted triples."""

    target: int
    potential: int
    given_up: int


class DatasetPass:
    """The interests in one dataset."""

    def __init__(self, overlay: Overlay, dataset: str, *, on_refused: Callable[[str, str], None],
                 on_error: Callable[[str], None], potential_max: int | None = None):  # fmt: skip
        """``on_refused`` is called with the name of an interest that the engine refuses and the reason.

        ``potential_max``: bound on the triples kept between bookmarks without being in any target; None: no
        bound.
        """
        self._overlay = overlay
        self.dataset = dataset
        self.as_of = 0
        """Time, in milliseconds, up to which all publications are processed; 0: none is."""
        self.position: str | None = None
        self.error: str | None = None
        self.read = 0
        """Number of solutions received from the overlay."""
        self.seconds = 0.0
        """Total time of the engine's work, by the wall clock."""
        self.steps = 0
        """Number of bookmarks processed."""
        self.changesets = 0
        """Number of bookmarks with changes."""
        self.readings = 0
        """Number of complete readings of the dataset."""
        self.passes = Histogram()
        """Time that the engine took for each changeset and reading."""
        self.whole_as_of: int | None = None
        """Time, in milliseconds, up to which all targets are complete despite evictions; None: no evictions."""
        self._potential_max = potential_max
        self._interests = Interests(potential_max=potential_max)
        self._read_before: dict[str, Interest] = {}
        self._evaluated: dict[str, Registration] = {}
        """The interests that the engine evaluates."""
        self._wanted: dict[str, Registration] = {}
        self._targets: dict[str, MaintainedTarget] = {}
        self._lock = asyncio.Lock()
        self._on_refused = on_refused
        self._on_error = on_error
        self._steps: asyncio.Queue[Step | None] = asyncio.Queue(_STEPS_WAITING)
        self._current: Reading | None = None
        self._next: Reading | None = None
        self._positions: Counter[str] = Counter()
        self._readers: list[asyncio.Future[None]] = []
        """Callers that wait for a new reading of the dataset."""

    # --- interests ---------------------------------------------------------------------------------------------

    def want(self, wanted: Mapping[str, Registration], targets: Mapping[str, MaintainedTarget]) -> None:
        """Maintain exactly these interests, at these targets, from now on."""
        if dict(wanted) != self._wanted:
            self._wanted, self._targets = dict(wanted), dict(targets)
            self._nudge()

    def _nudge(self) -> None:
        """Wake the worker to compare the wanted interests with the evaluated ones."""
        with contextlib.suppress(asyncio.QueueFull):  # a step is queued, and the comparison follows it
            self._steps.put_nowait(None)

    async def read_anew(self) -> None:
        """Read the dataset again; return when targets have been told their missing triples.

        Raises Unavailable if the pass ends before.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._readers.append(done)
        self._nudge()
        await done

    @contextlib.asynccontextmanager
    async def content(self, name: str) -> AsyncIterator[Content]:
        """Yield the expected content of a target, which does not change while the context lasts."""
        async with self._lock:
            if name not in self._interests:
                raise Unavailable(f"the dataset {self.dataset} has not been read for this interest yet")
            yield Content(await asyncio.to_thread(lambda: set(self._interests.target(name))), self.as_of)

    async def sizes(self, names: Iterable[str]) -> dict[str, Sizes]:
        """Return the known sizes of interests; none while the engine is busy."""
        interests = self._interests
        if self._lock.locked():
            return {}
        async with self._lock:
            known = [name for name in names if name in interests]
            return await asyncio.to_thread(
                lambda: {
                    name: Sizes(
                        interests.target_size(name), interests.potential_size(name), interests.given_up_of(name)
                    )
                    for name in known
                }
            )

    async def given_up_of(self, name: str) -> int:
        """Return the number of triples evicted for an interest since the last complete reading."""
        async with self._lock:
            return self._interests.given_up_of(name) if name in self._interests else 0

    @property
    def triples(self) -> int:
        """The number of triples held for all interests together."""
        return self._interests.triples

    @property
    def given_up(self) -> int:
        """Potentially interesting triples evicted since the last complete reading."""
        return self._interests.given_up

    # --- the work ------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Maintain targets until cancelled; start again, after a pause, when the overlay cannot be read."""
        try:
            while True:
                try:
                    await self._follow()
                except InterestOverflow as error:  # the engine's state is unusable now
                    self._refuse(error.interest, str(error))
                    self._interests, self._evaluated = Interests(potential_max=self._potential_max), {}
                except (Unavailable, Busy, SubscriptionGone, QueryRefused) as error:
                    self._failed(str(error))
                await self._end_readings()
                await asyncio.sleep(_PAUSE_SECONDS)
        finally:
            self._end_waiting(Unavailable(f"the dataset {self.dataset} is no longer read here"))
            await self._end_readings()

    def _end_waiting(self, error: P2PRDFError | None) -> None:
        readers, self._readers = self._readers, []
        for each in readers:
            if each.done():  # the waiting task was cancelled
                continue
            if error is None:
                each.set_result(None)
            else:
                each.set_exception(error)

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
        """Drop interests that are no longer wanted, and start with new ones."""
        for name in [name for name, each in self._evaluated.items() if self._wanted.get(name) != each]:
            async with self._lock:
                del self._evaluated[name]
                self._interests.remove(name)
                self._interests.trim()  # triples of its target alone are only potentially interesting now
                self._note_given_up()
        for name in list(self._evaluated):
            if not self._targets[name].is_begun:  # it was unwanted for a moment, and is wanted again
                await self._begin(name)
        if self._next is not None:
            return
        if self._current is not None:
            if self._wanted.keys() != self._evaluated.keys():
                await self._add_known()
            if self._wanted.keys() == self._evaluated.keys() and not self._readers:
                return
        if self._wanted:
            self._next = await self._leave()

    async def _add_known(self) -> None:
        """Start interests with patterns that others have, too: their triples are known if none was evicted."""
        if self.given_up:
            return
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
        """Start a target of an interest that the engine evaluates."""
        async with self._lock:
            digest = await self._digest(name)
            if name in self._targets:
                self._targets[name].begin(digest)
                self._targets[name].reach(self.as_of, self.position)

    async def _leave(self) -> Reading:
        """Register a query for all interests that are wanted now."""
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
        return Reading(left, wanted, self._steps, on_read=self._count_solutions)

    def _count_solutions(self, count: int) -> None:
        self.read += count

    async def _catch_up(self, step: Step) -> None:
        """Process the wider query; it replaces the other one when it has caught up."""
        reading = step.reading
        if step.error is not None:
            self._next = None
            if self._current is None:
                raise step.error
            self._failed(str(step.error))
            return
        for triple, count in step.change.items():
            reading.state[triple] += count
        if _milliseconds(step.as_of) < self.as_of and not hlc.is_ahead(self.as_of / 1000, time.time()):
            return
        former, self._current, self._next = self._current, reading, None
        if former is not None:
            await former.end()
        await self._exchange(step)

    async def _exchange(self, step: Step) -> None:
        """Make the triples of a query the engine's state, and start the interests that the query serves."""
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
            self.readings += 1
            self.whole_as_of = None
            self._tell({name: change for name, change in changes.items() if name not in begun}, step.as_of)
        self._end_waiting(None)

    async def _digest(self, name: str) -> Digest:
        return await asyncio.to_thread(lambda: Digest(self._interests.target(name)))

    async def _added(self, new: Mapping[str, Registration]) -> list[str]:
        """Add interests to the engine; return those that it accepts."""
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
        """Return an interest; each text is parsed once, since parsing many takes time."""
        text = registration.query
        found = self._read_before.get(text)
        if found is None:
            found = self._read_before[text] = parse_interest(text)
        return found

    def _difference(self, state: Counter[Triple]) -> Mapping[str, Change]:
        """Apply the difference between the engine's triples and those of a query."""
        self._interests.trim()  # later evictions during apply would be missed
        held = dict.fromkeys(self._interests.held())
        removed = tuple(triple for triple in held if state.get(triple, 0) <= 0)
        added = tuple(triple for triple, count in state.items() if count > 0 and triple not in held)
        self._interests.note_whole()  # evictions on the way exceed the bound after all
        changes = self._interests.apply(Changeset(removed, added)).changes
        self._interests.trim()
        return changes

    async def _apply(self, step: Step) -> None:
        """Process the changes up to a bookmark."""
        async with self._lock:
            change = self._without_positions(step.change)
            removed = tuple(triple for triple, count in change.items() if count < 0)
            added = tuple(triple for triple, count in change.items() if count > 0)
            changeset = Changeset(removed, added)
            changes: Mapping[str, Change] = {}
            if changeset:
                self.changesets += 1
                changes = await self._worked(
                    lambda: self._applied(changeset), inline=len(changeset) <= _INLINE_TRIPLES
                )
            self._tell(changes, step.as_of)

    def _applied(self, changeset: Changeset) -> Mapping[str, Change]:
        changes = self._interests.apply(changeset).changes
        self._interests.trim()
        return changes

    async def _worked(
        self, work: Callable[[], Mapping[str, Change]], *, inline: bool = False
    ) -> Mapping[str, Change]:
        """Return the result of the engine's work, done in a thread unless ``inline``."""
        began = time.perf_counter()
        try:
            return work() if inline else await asyncio.to_thread(work)
        finally:
            seconds = time.perf_counter() - began
            self.seconds += seconds
            self.passes.observe(seconds)

    def _tell(self, changes: Mapping[str, Change], as_of: float) -> None:
        """Report changes to targets, all at one time."""
        self.steps += 1
        self.error = None
        former = 0 if hlc.is_ahead(self.as_of / 1000, time.time()) else self.as_of  # clocks of nodes were ahead
        self.as_of = max(former, _milliseconds(as_of))
        self.position = self._latest()
        self._note_given_up()
        for name, change in changes.items():
            if name in self._targets and self._targets[name].is_begun:  # it may be unwanted now
                self._targets[name].note(change.deletions, change.insertions)
        for name in self._interests:
            if name in self._targets and self._targets[name].is_begun:
                self._targets[name].reach(self.as_of, self.position)

    def _note_given_up(self) -> None:
        """Note the time up to which targets are complete, if triples were evicted now."""
        if not self.given_up:
            self.whole_as_of = None
        elif self.whole_as_of is None:
            self.whole_as_of = self.as_of

    def _without_positions(self, change: Counter[Triple]) -> Counter[Triple]:
        """Remove the dataset's positions from a change and count them."""
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

    async def _end_readings(self) -> None:
        for reading in (self._current, self._next):
            if reading is not None:
                await reading.end()
        self._current = self._next = None


def _shape(pattern: Pattern) -> Pattern:
    """Return a pattern with numbered variables: equal for patterns that match the same triples."""
    numbers: dict[str, str] = {}
    s, p, o = (numbers.setdefault(part, f"?{len(numbers)}") if is_variable(part) else part for part in pattern)
    return s, p, o


def _milliseconds(seconds: float) -> int:
    return int(seconds * 1000)
