"""One of any number of equal processes that share the work that is registered in an overlay.

Each member reads the same registry by one standing query, works out by itself what of it is its own, and does that.
Nobody is asked, and nobody leads.

Whether a member lives is told by the overlay's own leases.  A member leaves a query that nothing answers, whose
subscription is its name, and takes it up for a moment every quarter of its lease; the others look whether it is there.
That leaves no removed triples in the overlay, as a heartbeat would, and it needs the member itself to be at work: one
that hangs loses its lease as one that was killed does.  Whoever finds a lease gone removes the member's triple and
takes over what is now its own.

A member that was taken for gone and is not notices when it renews its lease, and comes again under another name.
Until then two do the same work, which must be harmless.  (:meth:`Member.is_sure` tells whether that may be so now.)
"""

from __future__ import annotations

import abc
import asyncio
import contextlib
import json
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, Protocol

from p2prdf.errors import Busy, LocalProtocolError, NotAllowed, P2PRDFError, SubscriptionGone, Unavailable
from p2prdf.presence.group import Group
from p2prdf.presence.overlay import Connect, Writing
from p2prdf.presence.roll import Roll, Triple
from p2prdf.rdf import terms

__all__ = ["Known", "Member", "check_times", "ended", "first_error"]

_PAUSE_SECONDS: Final = 2.0
_GATHER_SECONDS: Final = 0.1
"""So much of what is registered at about the same time is dealt with together."""
_GOODBYE_SECONDS: Final = 5.0


class Known(Protocol):
    """What a member knows of the registry."""

    roll: Roll

    def take(self, triple: Triple, *, removed: bool) -> None:
        """Take account of a triple that came or went."""
        ...


def check_times(group: Group, lease_seconds: float, check_seconds: float) -> None:
    """Raise LocalProtocolError for times that are none."""
    if not (0 < lease_seconds < float("inf") and 0 < check_seconds < float("inf")):
        raise LocalProtocolError(
            f"a {group.word}'s lease and the pause between two looks are positive numbers of seconds"
        )


class Member(abc.ABC):
    """Does what is its own until cancelled.  Subclasses say what that is."""

    def __init__(
        self, connect: Connect, group: Group, registry: str, *, lease_seconds: float, check_seconds: float,
        tell: Callable[[str, Mapping[str, object]], None],
    ):  # fmt: skip
        """``registry``: the standing query for what is registered, who is there, and what is asked.

        ``lease_seconds``: so long after its last sign of life a member is taken for gone, at the latest;
        ``check_seconds``: how often others are looked at.  ``tell`` is called with events.
        """
        check_times(group, lease_seconds, check_seconds)
        self.name = ""
        """The IRI of this member; it has another one after it was taken for gone."""
        self.known: Known = self._unknowing()
        self._connect = connect
        self._group = group
        self._text = registry
        self._lease_seconds = lease_seconds
        self._check_seconds = check_seconds
        self._tell = tell
        self._lease = (
            f"SELECT ?o {{ GRAPH {group.graph} {{ <urn:p2prdf:nobody> {group.predicate} ?o }} }}"  # the same for all
        )
        self._number = 0
        self._renewed_at = -float("inf")
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self.disconnections = 0
        """How often the overlay could not be reached for long, and all was begun anew."""
        self.lapses = 0
        """How often this member was taken for gone and was not."""
        self.began = time.monotonic()
        self._ready = asyncio.Event()
        """Set when all that is registered has been read, and other members were looked at."""

    # --- what subclasses say -----------------------------------------------------------------------------------

    @abc.abstractmethod
    def _unknowing(self) -> Known:
        """Return a registry of which nothing is known."""

    @abc.abstractmethod
    def _said(self) -> Mapping[str, object]:
        """Return what others are to know of this member."""

    @abc.abstractmethod
    async def _share(self, overlay: Writing) -> None:
        """Do what is this member's own now, and nothing else; called whenever something has changed."""

    @abc.abstractmethod
    async def _answer(self, overlay: Writing, request: Triple) -> None:
        """Answer what somebody asks."""

    @abc.abstractmethod
    async def _put_down(self) -> None:
        """Stop all work."""

    @abc.abstractmethod
    async def _was_taken_for_gone(self) -> None:
        """Do what has to be done before this member takes another name: others may have done its work meanwhile."""

    # --- the life of a member ----------------------------------------------------------------------------------

    async def run(self, *, wait: bool = False) -> None:
        """Do what is this member's own.  Begins anew when the overlay cannot be reached for long.

        ``wait``: try again, too, if no node answers at first; each new reason is the event ``waiting``.

        Raises Unavailable if the overlay cannot be reached at first, QueryRefused if its nodes keep no history.
        """
        first, waits_for = True, ""
        while True:
            try:
                async with self._connect(reconnect_seconds=20.0) as overlay:
                    await self._serve(overlay)
            except (Unavailable, Busy, SubscriptionGone) as error:
                if first and not self.name and not wait:
                    raise
                if self.name:
                    self.disconnections += 1
                    self._tell("disconnected", {"error": str(error)})
                elif waits_for != str(error):
                    waits_for = str(error)
                    self._tell("waiting", {"error": waits_for})
            first = False
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _serve(self, overlay: Writing) -> None:
        self.known = self._unknowing()
        self._ready.clear()
        try:
            await self._introduce(overlay)
            async with asyncio.TaskGroup() as group:
                for work in (self._renew, self._look_after_others, self._read, self._assign):
                    group.create_task(work(overlay))
        except BaseExceptionGroup as errors:
            raise first_error(errors) from None
        finally:
            self._ready.clear()
            await self._leave(overlay)

    async def _introduce(self, overlay: Writing) -> None:
        """Take a name, and say what others are to know."""
        at = time.monotonic()
        async with self._connect(reconnect_seconds=0) as passing:  # on a connection that ends: what renews is _renew
            lease = await passing.subscribe(
                self._lease, since="now", bookmarks=False, hurry=False, auto_acknowledge=True,
                lease_seconds=self._lease_seconds,
            )  # fmt: skip
        self._number, self.name, self._renewed_at = lease.id, self._group.subject(lease.id), at
        await overlay.publish([self._sign()], graph=self._group.graph)
        self._tell("ready", {self._group.word: self.name[1:-1]})

    def _sign(self) -> Triple:
        return self.name, self._group.predicate, terms.literal(json.dumps(self._said()))

    @property
    def is_ready(self) -> bool:
        """Whether all that is registered has been read, so that this member knows what is its own."""
        return self._ready.is_set()

    def is_sure(self) -> bool:
        """Tell whether nobody can have taken this member for gone: its lease was renewed lately."""
        return time.monotonic() - self._renewed_at < self._lease_seconds

    async def _renew(self, overlay: Writing) -> None:
        """Renew the lease, as long as this process is at work; take another name when it ran out all the same."""
        while True:
            await asyncio.sleep(self._lease_seconds / 4)
            at = time.monotonic()
            try:
                async with asyncio.timeout(self._lease_seconds), self._connect(reconnect_seconds=0) as passing:
                    await passing.attach(self._number, bookmarks=False, auto_acknowledge=True)
                self._renewed_at = at
            except SubscriptionGone:
                self.lapses += 1
                former = self._sign()
                await self._was_taken_for_gone()
                await self._introduce(overlay)
                await overlay.retract([former], graph=self._group.graph)
                self._changed.set()
            except (Unavailable, Busy, TimeoutError) as error:
                self._tell("lease", {"error": str(error) or "no answer"})

    async def _leave(self, overlay: Writing) -> None:
        """Stop working, and say so: others take over at once."""
        await self._put_down()
        for task in list(self._tasks):
            task.cancel()
        with contextlib.suppress(P2PRDFError, TimeoutError):
            async with asyncio.timeout(_GOODBYE_SECONDS):
                await overlay.retract([self._sign()], graph=self._group.graph)
                await overlay.unsubscribe(self._number)

    async def _look_after_others(self, overlay: Writing) -> None:
        """Find out which members are gone, and take over what is one's own then."""
        while True:
            await self._ready.wait()
            await asyncio.sleep(self._check_seconds)
            for subject in await self._look(overlay):
                await overlay.retract(self.known.roll.signs(subject), graph=self._group.graph)

    async def _look(self, overlay: Writing) -> list[str]:
        """Return the members that are found to be gone now."""
        found = []
        for subject in self.known.roll.members():
            number = self._group.number(subject)
            if number is None or subject == self.name:
                continue
            try:
                await overlay.explain(number)
            except SubscriptionGone:
                found.append(subject)
                self.known.roll.gone.add(subject)
                self._tell("gone", {self._group.word: subject[1:-1]})
                self._changed.set()
            except (Unavailable, Busy):
                continue  # nothing is known of it, so it is taken to be there
            except NotAllowed:
                # It is there, and another client's; unless this member may have nothing explained at all.
                await self._check_may_explain(overlay)
        return found

    async def _check_may_explain(self, overlay: Writing) -> None:
        """Raise NotAllowed if this member may not even have its own lease explained."""
        own = self._group.number(self.name)
        if own is not None:
            with contextlib.suppress(SubscriptionGone, Unavailable, Busy):
                await overlay.explain(own)

    # --- what is registered ------------------------------------------------------------------------------------

    async def _read(self, overlay: Writing) -> None:
        """Read what is registered, and what is asked."""
        left = await overlay.subscribe(
            self._text, since="beginning", bookmarks=True, hurry=True, auto_acknowledge=True, lease_seconds=60.0
        )
        async for batch in left.batches():
            if batch.lost:
                raise Unavailable("parts of the registry were dropped at its query's home")
            for solution in batch:
                self.known.take(solution.terms, removed=solution.removed)
                asks = solution.terms[1] == self._group.asks
                if asks and not solution.removed and solution.born > left.opened:
                    self._spawn(self._answer(overlay, solution.terms))
            if len(batch):
                self._changed.set()
            if batch.bookmark is not None and batch.bookmark > left.opened and not self._ready.is_set():
                await self._look(overlay)
                self._changed.set()
                self._ready.set()
        raise Unavailable("the query of the registry has ended")

    async def _assign(self, overlay: Writing) -> None:
        await self._ready.wait()
        while True:
            await self._changed.wait()
            self._changed.clear()
            await self._share(overlay)
            await asyncio.sleep(_GATHER_SECONDS)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


async def ended(task: asyncio.Task[None]) -> None:
    """Cancel a task and wait for its end."""
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def first_error(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first error of a group; the others were cancelled because of it."""
    first: BaseException = errors
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return first
