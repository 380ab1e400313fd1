"""All interests in one dataset that a keeper keeps: read once from the overlay, evaluated in one pass.

One standing query (:mod:`p2prdf.replica.candidates`) tells the triples that may matter to any of the interests, as they
come and go.  At each of its bookmarks what changed is a changeset for the engine
(:class:`p2prdf.interest.Interests`), and each target that changes is told.

When interests are added whose patterns none has yet, another query is left, wider than the first, which goes on
meanwhile.  At the first bookmark at which the second one has told all, and is as far as the first, the engine
gets the new interests, and the difference between what the second tells and what the engine holds as a
changeset: for the others that is next to nothing.  Then the first ends.  The same is done when answers were dropped or
the query's lease ran out; so the engine's state is always that of one query at one of its bookmarks.

With a bound on what is kept of potentially interesting triples, targets are exact when the dataset has been read, and
may lack what would be made of triples that were given up since.  It is read again for an interest that is added then,
and when that is asked for (:meth:`DatasetPass.read_anew`).

The engine works in a thread if there is much to do, so that leases are renewed meanwhile; a lock keeps others from it.
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
from p2prdf.presence.overlay import Overlay
from p2prdf.rdf import terms
from p2prdf.rdf.standing.syntax import is_variable
from p2prdf.replica.candidates import POSITION, branches_of, candidates_text
from p2prdf.replica.changeset_files import position_order
from p2prdf.replica.dataset_reading import Reading, Step
from p2prdf.replica.kept_target import Content, KeptTarget
from p2prdf.replica.replica import START
from p2prdf.replica.target import Digest

__all__ = ["DatasetPass", "Sizes"]

_LEASE_SECONDS: Final = 30.0
_INLINE_TRIPLES: Final = 500
"""A changeset of so many triples is applied at once, a larger one in a thread."""
_PAUSE_SECONDS: Final = 2.0
_STEPS_WAITING: Final = 4


class Sizes(NamedTuple):
    """How many triples an interest's target is to hold, are potentially interesting, and were given up of these."""

    target: int
    potential: int
    given_up: int


class DatasetPass:
    """The interests in one dataset."""

    def __init__(self, overlay: Overlay, dataset: str, *, on_refused: Callable[[str, str], None],
                 on_error: Callable[[str], None], potential_max: int | None = None):  # fmt: skip
        """``on_refused`` is called with the name of an interest that the engine refuses, and why.

        ``potential_max``: most triples that are kept between bookmarks without being in any target; None: all.
        """
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
        """Bookmarks that were reached."""
        self.changesets = 0
        """Those at which something had changed."""
        self.readings = 0
        """How often the dataset was read as a whole."""
        self.passes = Histogram()
        """How long the engine took for each changeset and reading."""
        self.whole_as_of: int | None = None
        """Up to when, in milliseconds, no target lacks anything for what was given up; None: nothing was given up."""
        self._potential_max = potential_max
        self._interests = Interests(potential_max=potential_max)
        self._read_before: dict[str, Interest] = {}
        self._evaluated: dict[str, Registration] = {}
        """The interests that the engine has."""
        self._wanted: dict[str, Registration] = {}
        self._targets: dict[str, KeptTarget] = {}
        self._lock = asyncio.Lock()
        self._on_refused = on_refused
        self._on_error = on_error
        self._steps: asyncio.Queue[Step | None] = asyncio.Queue(_STEPS_WAITING)
        self._current: Reading | None = None
        self._next: Reading | None = None
        self._positions: Counter[str] = Counter()
        self._readers: list[asyncio.Future[None]] = []
        """Who waits until the dataset has been read anew."""

    # --- interests ---------------------------------------------------------------------------------------------

    def want(self, wanted: Mapping[str, Registration], targets: Mapping[str, KeptTarget]) -> None:
        """Keep these interests from now on, at these targets, and no others."""
        if dict(wanted) != self._wanted:
            self._wanted, self._targets = dict(wanted), dict(targets)
            self._nudge()

    def _nudge(self) -> None:
        """Have it looked at what is wished for."""
        with contextlib.suppress(asyncio.QueueFull):  # then a step is there, and wishes are looked at after it
            self._steps.put_nowait(None)

    async def read_anew(self) -> None:
        """Have the dataset read once more; return when targets have been told what they lacked.

        Raises Unavailable if the pass ends before.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._readers.append(done)
        self._nudge()
        await done

    @contextlib.asynccontextmanager
    async def content(self, name: str) -> AsyncIterator[Content]:
        """Tell what a target is to hold; it does not change meanwhile."""
        async with self._lock:
            if name not in self._interests:
                raise Unavailable(f"the dataset {self.dataset} has not been read for it yet")
            yield Content(await asyncio.to_thread(lambda: set(self._interests.target(name))), self.as_of)

    async def sizes(self, names: Iterable[str]) -> dict[str, Sizes]:
        """Return how many triples interests have, where that is known.

        Nothing is while the engine has much to do.
        """
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
        """Return how many triples of an interest's patterns were given up since the dataset was read as a whole."""
        async with self._lock:
            return self._interests.given_up_of(name) if name in self._interests else 0

    @property
    def triples(self) -> int:
        """The number of triples that are held for all interests together."""
        return self._interests.triples

    @property
    def given_up(self) -> int:
        """Potentially interesting triples that were given up since the dataset was read as a whole."""
        return self._interests.given_up

    # --- the work ------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Keep targets until cancelled; begin anew, after a pause, whenever the overlay cannot be read."""
        try:
            while True:
                try:
                    await self._follow()
                except InterestOverflow as error:  # the engine is of no use any more
                    self._refuse(error.interest, str(error))
                    self._interests, self._evaluated = Interests(potential_max=self._potential_max), {}
                except (Unavailable, Busy, SubscriptionGone, QueryRefused) as error:
                    self._failed(str(error))
                await self._end_readings()
                await asyncio.sleep(_PAUSE_SECONDS)
        finally:
            self._end_waiting(Unavailable(f"the dataset {self.dataset} is not read here any more"))
            await self._end_readings()

    def _end_waiting(self, error: P2PRDFError | None) -> None:
        readers, self._readers = self._readers, []
        for each in readers:
            if each.done():  # who waited was cancelled
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
        """Forget interests that are not wanted any more, and begin with those that are new."""
        for name in [name for name, each in self._evaluated.items() if self._wanted.get(name) != each]:
            async with self._lock:
                del self._evaluated[name]
                self._interests.remove(name)
                self._interests.trim()  # what was in its target alone is potentially interesting now
                self._note_given_up()
        for name in list(self._evaluated):
            if not self._targets[name].is_begun:  # it was given up for a moment, and taken on again
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
        """Begin with interests all of whose patterns others have as well: their triples are there, if all were kept."""
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
        """Begin with a target of which the engine knows what it is to hold."""
        async with self._lock:
            digest = await self._digest(name)
            if name in self._targets:
                self._targets[name].begin(digest)
                self._targets[name].reach(self.as_of, self.position)

    async def _leave(self) -> Reading:
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
        return Reading(left, wanted, self._steps, on_read=self._count_solutions)

    def _count_solutions(self, count: int) -> None:
        self.read += count

    async def _catch_up(self, step: Step) -> None:
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
        if _milliseconds(step.as_of) < self.as_of and not hlc.is_ahead(self.as_of / 1000, time.time()):
            return
        former, self._current, self._next = self._current, reading, None
        if former is not None:
            await former.end()
        await self._exchange(step)

    async def _exchange(self, step: Step) -> None:
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
            self.readings += 1
            self.whole_as_of = None
            self._tell({name: change for name, change in changes.items() if name not in begun}, step.as_of)
        self._end_waiting(None)

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
        self._interests.trim()  # what goes when changes are applied would be missed
        held = dict.fromkeys(self._interests.held())
        removed = tuple(triple for triple in held if state.get(triple, 0) <= 0)
        added = tuple(triple for triple, count in state.items() if count > 0 and triple not in held)
        self._interests.note_whole()  # what is given up on the way is over the bound after all
        changes = self._interests.apply(Changeset(removed, added)).changes
        self._interests.trim()
        return changes

    async def _apply(self, step: Step) -> None:
        """Take account of what came up to a bookmark."""
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
        """Return what the engine does, in a thread unless it is little."""
        began = time.perf_counter()
        try:
            return work() if inline else await asyncio.to_thread(work)
        finally:
            seconds = time.perf_counter() - began
            self.seconds += seconds
            self.passes.observe(seconds)

    def _tell(self, changes: Mapping[str, Change], as_of: float) -> None:
        """Tell targets what changes, all at one moment."""
        self.steps += 1
        self.error = None
        former = 0 if hlc.is_ahead(self.as_of / 1000, time.time()) else self.as_of  # nodes whose clocks were ahead
        self.as_of = max(former, _milliseconds(as_of))
        self.position = self._latest()
        self._note_given_up()
        for name, change in changes.items():
            if name in self._targets and self._targets[name].is_begun:  # it may be wanted no more
                self._targets[name].note(change.deletions, change.insertions)
        for name in self._interests:
            if name in self._targets and self._targets[name].is_begun:
                self._targets[name].reach(self.as_of, self.position)

    def _note_given_up(self) -> None:
        """Note up to when targets lack nothing, if something was given up now."""
        if not self.given_up:
            self.whole_as_of = None
        elif self.whole_as_of is None:
            self.whole_as_of = self.as_of

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

    async def _end_readings(self) -> None:
        for reading in (self._current, self._next):
            if reading is not None:
                await reading.end()
        self._current = self._next = None


def _shape(pattern: Pattern) -> Pattern:
    """Return a pattern with its variables numbered: equal for patterns that take the same triples."""
    numbers: dict[str, str] = {}
    s, p, o = (numbers.setdefault(part, f"?{len(numbers)}") if is_variable(part) else part for part in pattern)
    return s, p, o


def _milliseconds(seconds: float) -> int:
    return int(seconds * 1000)
