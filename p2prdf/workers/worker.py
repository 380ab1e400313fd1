"""A worker: one of any number of equal processes that share the work registered in an overlay.

Each worker reads the same registry by one standing query, computes its own share, and does it.  There is no leader and
no negotiation.

The overlay's leases decide whether a worker is alive.  Each worker opens a subscription that no data matches, takes the
subscription's number as its name, and attaches to it briefly every quarter of the lease.  The other workers ask whether
the subscription exists.  Unlike a heartbeat, this leaves no deleted triples in the overlay.  A worker renews its lease
in its event loop, so a hanging worker loses it like a killed one.  Workers that find an expired lease delete the triple
of that worker and share its work.

If the lease of a live worker expires, the worker notices that at the next renewal and takes another name.  Until then
two workers do the same work, which must therefore be harmless.  :meth:`Worker.holds_lease` excludes that case.
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
from p2prdf.rdf import terms
from p2prdf.workers.group import WorkerGroup
from p2prdf.workers.membership import Membership, Triple
from p2prdf.workers.overlay import Connect, Writing

__all__ = ["Known", "Worker", "check_times", "ended", "first_error"]

_PAUSE_SECONDS: Final = 2.0
_GATHER_SECONDS: Final = 0.1
"""How long changes of the registry are gathered before the share is computed again."""
_GOODBYE_SECONDS: Final = 5.0


class Known(Protocol):
    """The registry as a worker has read it."""

    membership: Membership

    def take(self, triple: Triple, *, removed: bool) -> None:
        """Count an addition or a removal of a triple."""
        ...


def check_times(lease_seconds: float, check_seconds: float) -> None:
    """Raise LocalProtocolError unless both times are positive and finite."""
    if not (0 < lease_seconds < float("inf") and 0 < check_seconds < float("inf")):
        raise LocalProtocolError("lease and check interval of a worker must be positive numbers of seconds")


class Worker(abc.ABC):
    """Does its share of the registered work until cancelled; subclasses implement the work."""

    def __init__(
        self, connect: Connect, group: WorkerGroup, registry: str, *, lease_seconds: float, check_seconds: float,
        tell: Callable[[str, Mapping[str, object]], None],
    ):  # fmt: skip
        """``registry``: the standing query for registered work, workers and requests.

        ``lease_seconds``: the time after its last renewal at which a worker counts as dead, at the latest;
        ``check_seconds``: the pause between two checks of the other workers' leases.  ``tell`` is called with events.
        """
        check_times(lease_seconds, check_seconds)
        self.name = ""
        """The IRI of this worker.  It changes when the lease expires."""
        self.known: Known = self._new_registry()
        self._connect = connect
        self._group = group
        self._text = registry
        self._lease_seconds = lease_seconds
        self._check_seconds = check_seconds
        self._tell = tell
        self._lease = (
            f"SELECT ?o {{ GRAPH {group.graph} {{ <urn:p2prdf:nobody> {group.predicate} ?o }} }}"  # same for all
        )
        self._number = 0
        self._renewed_at = -float("inf")
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self.disconnections = 0
        """Number of restarts of all work because no node could be reached."""
        self.lapses = 0
        """Number of expiries of this worker's lease while it was running."""
        self.began = time.monotonic()
        self._ready = asyncio.Event()
        """Set when the whole registry has been read and the leases of the other workers were checked once."""

    # --- for subclasses ----------------------------------------------------------------------------------------

    @abc.abstractmethod
    def _new_registry(self) -> Known:
        """Return an empty registry."""

    @abc.abstractmethod
    def _properties(self) -> Mapping[str, object]:
        """Return the properties of this worker that its triple announces."""

    @abc.abstractmethod
    async def _share(self, overlay: Writing) -> None:
        """Do exactly this worker's share; called after each change of the registry or of the membership."""

    @abc.abstractmethod
    async def _answer(self, overlay: Writing, request: Triple) -> None:
        """Answer a request."""

    @abc.abstractmethod
    async def _stop_work(self) -> None:
        """Stop all work."""

    @abc.abstractmethod
    async def _lease_expired(self) -> None:
        """Clean up before this worker takes another name: other workers may have done its work meanwhile."""

    # --- leases ------------------------------------------------------------------------------------------------

    async def run(self, *, wait: bool = False) -> None:
        """Do this worker's share.  Starts again when no node could be reached for 20 s.

        ``wait``: also keep trying if no node answers at first; each new reason is reported as the event ``waiting``.

        Raises Unavailable if no node can be reached at first, QueryRefused if the nodes keep no history.
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
        self.known = self._new_registry()
        self._ready.clear()
        try:
            await self._announce(overlay)
            async with asyncio.TaskGroup() as group:
                for work in (self._renew, self._watch_others, self._read, self._assign):
                    group.create_task(work(overlay))
        except BaseExceptionGroup as errors:
            raise first_error(errors) from None
        finally:
            self._ready.clear()
            await self._leave(overlay)

    async def _announce(self, overlay: Writing) -> None:
        """Open the subscription that is this worker's lease, take its number as the name, and announce the worker."""
        at = time.monotonic()
        async with self._connect(reconnect_seconds=0) as passing:  # short-lived: only _renew keeps the lease alive
            lease = await passing.subscribe(
                self._lease, since="now", bookmarks=False, hurry=False, auto_acknowledge=True,
                lease_seconds=self._lease_seconds,
            )  # fmt: skip
        self._number, self.name, self._renewed_at = lease.id, self._group.subject(lease.id), at
        await overlay.publish([self._announcement()], graph=self._group.graph)
        self._tell("ready", {"worker": self.name[1:-1]})

    def _announcement(self) -> Triple:
        return self.name, self._group.predicate, terms.literal(json.dumps(self._properties()))

    @property
    def is_ready(self) -> bool:
        """Whether the whole registry has been read, so that this worker knows its share."""
        return self._ready.is_set()

    def holds_lease(self) -> bool:
        """Return whether this worker certainly holds its lease: it was renewed less than a lease ago."""
        return time.monotonic() - self._renewed_at < self._lease_seconds

    async def _renew(self, overlay: Writing) -> None:
        """Renew the lease while this process is running; take another name if the lease has expired."""
        while True:
            await asyncio.sleep(self._lease_seconds / 4)
            at = time.monotonic()
            try:
                async with asyncio.timeout(self._lease_seconds), self._connect(reconnect_seconds=0) as passing:
                    await passing.attach(self._number, bookmarks=False, auto_acknowledge=True)
                self._renewed_at = at
            except SubscriptionGone:
                self.lapses += 1
                former = self._announcement()
                await self._lease_expired()
                await self._announce(overlay)
                await overlay.retract([former], graph=self._group.graph)
                self._changed.set()
            except (Unavailable, Busy, TimeoutError) as error:
                self._tell("lease", {"error": str(error) or "no answer"})

    async def _leave(self, overlay: Writing) -> None:
        """Stop working and delete this worker's triple, so that the others take over at once."""
        await self._stop_work()
        for task in list(self._tasks):
            task.cancel()
        with contextlib.suppress(P2PRDFError, TimeoutError):
            async with asyncio.timeout(_GOODBYE_SECONDS):
                await overlay.retract([self._announcement()], graph=self._group.graph)
                await overlay.unsubscribe(self._number)

    async def _watch_others(self, overlay: Writing) -> None:
        """Delete the triples of workers with an expired lease; a new share of their work follows."""
        while True:
            await self._ready.wait()
            await asyncio.sleep(self._check_seconds)
            for subject in await self._find_expired(overlay):
                await overlay.retract(self.known.membership.announcements(subject), graph=self._group.graph)

    async def _find_expired(self, overlay: Writing) -> list[str]:
        """Return the workers that are found to have no lease any more."""
        found = []
        for subject in self.known.membership.workers():
            number = self._group.number(subject)
            if number is None or subject == self.name:
                continue
            try:
                await overlay.explain(number)
            except SubscriptionGone:
                found.append(subject)
                self.known.membership.expired.add(subject)
                self._tell("gone", {"worker": subject[1:-1]})
                self._changed.set()
            except (Unavailable, Busy):
                continue  # the worker's state is unknown: it counts as alive
            except NotAllowed:
                # The worker is alive and belongs to another client, unless this worker may not explain anything.
                await self._check_may_explain(overlay)
        return found

    async def _check_may_explain(self, overlay: Writing) -> None:
        """Raise NotAllowed if this worker may not even have its own lease explained."""
        own = self._group.number(self.name)
        if own is not None:
            with contextlib.suppress(SubscriptionGone, Unavailable, Busy):
                await overlay.explain(own)

    # --- the registry ------------------------------------------------------------------------------------------

    async def _read(self, overlay: Writing) -> None:
        """Read the registry and the requests until the query ends."""
        left = await overlay.subscribe(
            self._text, since="beginning", bookmarks=True, hurry=True, auto_acknowledge=True, lease_seconds=60.0
        )
        async for batch in left.batches():
            if batch.lost:
                raise Unavailable("solutions of the registry were dropped at its coordinator")
            for solution in batch:
                self.known.take(solution.terms, removed=solution.removed)
                asks = solution.terms[1] == self._group.asks
                if asks and not solution.removed and solution.born > left.opened:
                    self._spawn(self._answer(overlay, solution.terms))
            if len(batch):
                self._changed.set()
            if batch.bookmark is not None and batch.bookmark > left.opened and not self._ready.is_set():
                await self._find_expired(overlay)
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
    """Return the first error of a group; the others are cancellations caused by it."""
    first: BaseException = errors
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return first
