"""A target that an interest worker maintains: expected content, actual content, and updates.

A worker stores no state on a disk, and two workers may have the same target for a while. The target's cursor
has all that a worker needs, and changes atomically with the triples::

    17 1763841600200 1203:ab12...

The 17th update left the target at 1763841600.2 s, with 1,203 triples; their hashes sum to ab12...

1. A new worker compares the cursor's digest with that of the expected content. Only if they differ does it read
   the target.
2. Each update names the cursors before and after it. Of two workers, one gets TargetMoved and reads the cursor
   again.
3. A worker never updates from a cursor later than its own knowledge, so a lagging worker never sets the target
   back.
4. Update numbers distinguish cursors of equal content, so a delayed update has no effect.

While a target does not answer or is paused, changes accumulate up to a bound; beyond it the target is read
again later.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Final, NamedTuple

from p2prdf import hlc
from p2prdf.errors import DataRefused, P2PRDFError, TargetRefused, Unavailable
from p2prdf.interest import Triple
from p2prdf.replica.replica import Comparison
from p2prdf.replica.spelling import Variants, by_value
from p2prdf.replica.target import Digest, Target, parts_of

__all__ = ["PENDING_MAX", "Ahead", "Content", "Cursor", "MaintainedTarget"]

PENDING_MAX: Final = 200_000
"""Bound on pending triples; beyond it the target is read again instead."""
_PAUSE_SECONDS: Final = (0.5, 30.0)
"""Pauses before a target is tried again: the first, which doubles, and the longest."""
_CURSOR: Final = re.compile(r"([0-9]{1,18}) ([0-9]{1,18}) ([0-9]{1,18}:[0-9a-f]{64})")


class Ahead(Unavailable):
    """Another worker left the target at a later time than this one knows; this one must catch up."""


class Cursor(NamedTuple):
    """The content of a cursor: number of the update, time in milliseconds, digest of the triples.

    After the last part of a change, no publication acknowledged before ``as_of`` is missing.
    """

    number: int
    as_of: int
    digest: str

    @classmethod
    def parse(cls, text: str) -> Cursor | None:
        """Parse a cursor; None if it belongs to another kind of replica."""
        found = _CURSOR.fullmatch(text)
        return None if found is None else cls(int(found[1]), int(found[2]), found[3])

    def __str__(self) -> str:
        return f"{self.number} {self.as_of} {self.digest}"


class Content(NamedTuple):
    """The expected content of a target, at a time in milliseconds."""

    triples: set[Triple]
    as_of: int


class MaintainedTarget:
    """A target and its interest.  ``error``: the last one, None after a later successful update."""

    def __init__(
        self, target: Target, content: Callable[[], contextlib.AbstractAsyncContextManager[Content]], *,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep, on_error: Callable[[str], None] | None = None,
        slots: asyncio.Semaphore | None = None,
    ):  # fmt: skip
        """``content``: the expected content; :meth:`note` is not called while its context lasts.

        ``slots``: limits how many targets of one host are updated at a time; they share it.
        """
        self._target = target
        self._content = content
        self._pause = pause
        self._on_error = on_error
        self._slots = slots or asyncio.Semaphore()
        self.expected = Digest()
        """Digest of the expected content."""
        self.as_of = 0
        """Time of the expected content, in milliseconds; 0: it is not known yet."""
        self.reached = 0
        """Time that the target's content reflects."""
        self.position: str | None = None
        self.reached_position: str | None = None
        """The dataset's position at that time."""
        self.paused = False
        self.error: str | None = None
        self.updates = 0
        """Number of updates that took effect."""
        self.failures = 0
        """Number of failed updates."""
        self._base: Digest | None = None
        """Digest of the actual content, if known; with the pending changes it gives the expected one."""
        self._pending: dict[Triple, int] = {}
        self._cursor: str | None = None
        self._number = 0
        self._sure = False
        """Whether the cursor is known."""
        self._beginnings = 0
        """How often pending changes were dropped: results of earlier requests are then outdated."""
        self._variants: Variants | None = None
        self._again: dict[Triple, None] = {}
        self._writing = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._noted = asyncio.Event()

    # --- expected content ----------------------------------------------------------------------------------

    def begin(self, expected: Digest) -> None:
        """Set the expected content; the actual content is unknown.  Call :meth:`reach` next."""
        self.expected = expected
        self._forget()

    def note(self, removed: Iterable[Triple], added: Iterable[Triple]) -> None:
        """Note changes of the expected content."""
        removed, added = list(removed), list(added)
        for triples, sign in ((removed, -1), (added, 1)):
            for triple in triples:
                self.expected.add(triple, sign)
                self._pend(triple, sign)
        if self._variants is not None:
            self._variants.add(added)
            self._again.update(dict.fromkeys(self._variants.remove(removed)))
        if len(self._pending) > PENDING_MAX:
            self._forget()

    def reach(self, as_of: int, position: str | None) -> None:
        """Note that the expected content reflects all publications up to a time; update the target."""
        self.as_of, self.position = as_of, position
        if not self._is_due():
            self._arrived()
        elif not self.paused and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._work())
        self._noted.set()

    def pause(self, *, paused: bool) -> None:
        """Stop writing to the target, or continue."""
        if self.paused != paused:
            self.paused = paused
            if self.as_of and not paused:
                self.reach(self.as_of, self.position)

    @property
    def is_begun(self) -> bool:
        """Whether the expected content is known."""
        return self._beginnings > 0

    @property
    def pending(self) -> int:
        """Number of triples that the target is known to be behind."""
        return len(self._pending)

    @property
    def is_current(self) -> bool:
        """Whether the target has its expected content."""
        return self.as_of > 0 and not self._is_due()

    @property
    def requests(self) -> int:
        """Number of requests sent, if the target counts them."""
        return int(getattr(self._target, "requests", 0))

    def _pend(self, triple: Triple, change: int) -> None:
        count = self._pending.get(triple, 0) + change
        if count:
            self._pending[triple] = count
        else:
            self._pending.pop(triple, None)

    def _forget(self) -> None:
        """Drop the pending changes: the target must be read."""
        self._beginnings += 1
        self._pending.clear()
        self._again.clear()
        self._variants = None
        self._base, self._sure = None, False

    def _is_due(self) -> bool:
        return not self._sure or bool(self._pending)

    def _arrived(self) -> None:
        self.reached, self.reached_position, self.error = self.as_of, self.position, None

    # --- updates
    # -----------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        """Update the target, with retries, until it is current."""
        while self._is_due() and not self.paused:
            await self._bring_up()
            async with self._writing:  # a comparison or repair uses the connections
                await self._target.close()  # more changes may arrive meanwhile

    async def _bring_up(self) -> None:
        pause = _PAUSE_SECONDS[0]
        while self._is_due() and not self.paused:
            try:
                async with self._slots, self._writing:
                    await self._bring()
                pause = _PAUSE_SECONDS[0]
                continue
            except Ahead as error:
                self.error = str(error)
                self._noted.clear()
                await self._noted.wait()
                continue
            except P2PRDFError as error:
                self._failed(str(error))
            await self._pause(pause)
            pause = min(2 * pause, _PAUSE_SECONDS[1])

    def _failed(self, text: str) -> None:
        self._sure = False
        self.failures += 1
        if text != self.error and self._on_error is not None:
            self._on_error(text)
        self.error = text

    async def _bring(self) -> None:
        if not self._sure:
            await self._look()
        if self._pending or self._cursor is None:
            await self._send()
        if not self._is_due():
            self._arrived()

    async def _look(self) -> None:
        """Determine the actual content, from the cursor or by reading the target."""
        cursor = await self._target.cursor()
        said = Cursor(0, 0, str(Digest())) if cursor is None else Cursor.parse(cursor)
        if said is None:
            raise DataRefused(f"the target has the cursor {cursor!r} of another kind of replica: repair it")
        if said.as_of > self.as_of and not hlc.is_ahead(said.as_of / 1000, time.time()):
            raise Ahead(f"the target is at {said.as_of / 1000:.3f}, but this worker only at {self.as_of / 1000:.3f}")
        if cursor is None and await _first(self._target.triples()) is not None:
            raise TargetRefused("the target holds triples and no cursor: empty it, or repair it, which deletes them")
        if said.digest == str(self.expected):
            self._base = self.expected.copy()
            self._pending.clear()
            self._again.clear()
        elif self._base is None or said.digest != str(self._base):
            await self._compare()
        self._cursor, self._number, self._sure = cursor, said.number, True

    async def _compare(self) -> Comparison:
        """Read the target; missing and foreign triples become pending."""
        async with self._content() as content:
            self._forget()
            beginnings = self._beginnings
        expected = content.triples
        found = {triple async for triple in self._target.triples()}
        if self._beginnings != beginnings:
            raise Unavailable("the dataset changed too much while the target was read")
        if self._target.respells:
            spelled = {by_value(triple) for triple in found}
            there = {triple for triple in expected if by_value(triple) in spelled}
            known = {by_value(triple) for triple in expected}
            foreign = {triple for triple in found if by_value(triple) not in known}
        else:
            there, foreign = expected & found, found - expected
        lacking = expected - there
        for triple in lacking:
            self._pend(triple, 1)
        for triple in foreign:
            self._pend(triple, -1)
        self._base = Digest(there | foreign)
        return Comparison(len(expected), len(found), not lacking and not foreign, len(lacking), len(foreign))

    async def _send(self) -> None:
        """Send the pending changes in parts; the cursor of each describes the content after it."""
        assert self._base is not None, "it was looked at"
        if self._variants is None and self._target.respells and any(count < 0 for count in self._pending.values()):
            async with self._content() as content:
                self._variants = Variants(content.triples)
                gone = [triple for triple, count in self._pending.items() if count < 0]
                self._again.update(dict.fromkeys(self._variants.remove(gone)))
            if self._base is None:
                return
        removed = [triple for triple, count in self._pending.items() if count < 0]
        added = [triple for triple, count in self._pending.items() if count > 0]
        beginnings, as_of = self._beginnings, self.as_of
        again, self._again = [each for each in self._again if each not in self._pending], {}
        old, new = frozenset(removed), frozenset(added)
        for less, more in parts_of(removed, {*added, *again}, self._target.triples_max) or [([], [])]:
            base = self._base.copy()
            for triple in less:
                base.add(triple, -1)
            for triple in more:
                base.add(triple, 1 if triple in new else 0)
            after = str(Cursor(self._number + 1, as_of, str(base)))
            await self._target.update(less, more, before=self._cursor, after=after)
            self.updates += 1
            if self._beginnings != beginnings:
                return
            self._base, self._cursor, self._number = base, after, self._number + 1
            for triple in less:
                self._pend(triple, 1 if triple in old else 0)
            for triple in more:
                self._pend(triple, -1 if triple in new else 0)

    # --- on request --------------------------------------------------------------------------------------------

    async def verify(self) -> Comparison:
        """Compare the target's content with the expected one; nothing is written meanwhile.

        Pending changes do not count as differences. Raises Unavailable if the dataset or the target is not
        known yet.
        """
        async with self._writing:
            if self.as_of and not self._sure:
                await self._look()
            if not self.as_of or self._base is None:
                raise Unavailable("the dataset has not been read yet")
            async with self._content() as content:
                expected = set(content.triples)
                for triple, count in self._pending.items():
                    (expected.discard if count > 0 else expected.add)(triple)
            found = {triple async for triple in self._target.triples()}
            await self._rest()
            if self._target.respells:
                wanted, there = ({by_value(each) for each in every} for every in (expected, found))
            else:
                wanted, there = expected, found
            lacking, foreign = len(wanted - there), len(there - wanted)
            return Comparison(len(expected), len(found), not lacking and not foreign, lacking, foreign)

    async def repair(self) -> Comparison:
        """Read the target, regardless of its cursor, and repair it; return the state before."""
        async with self._writing:
            if not self.as_of:
                raise Unavailable("the dataset has not been read yet")
            cursor = await self._target.cursor()
            said = None if cursor is None else Cursor.parse(cursor)
            found = await self._compare()
            self._cursor, self._sure = cursor, True
            self._number = 0 if said is None else said.number
            try:
                await self._send()
            except P2PRDFError:
                self._sure = False
                raise
            if not self._is_due():
                self._arrived()
            await self._rest()
            return found

    async def _rest(self) -> None:
        """Close connections that are not needed now."""
        if self._task is None or self._task.done():
            await self._target.close()

    async def close(self) -> None:
        """Stop writing; the cursor tells whether an update in flight has taken effect."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        await self._target.close()


async def _first(triples: AsyncIterator[Triple]) -> Triple | None:
    async for triple in triples:
        return triple
    return None
