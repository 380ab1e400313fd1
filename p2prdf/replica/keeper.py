"""A keeper: one of any number of equal processes that keep the targets of interests that are registered in an overlay.

Each keeper reads the same registry (:mod:`p2prdf.interest.registration`) by one standing query, works out by itself
which interests are its own, and keeps these, dataset by dataset (:mod:`p2prdf.replica.dataset_pass`).  Nobody
is asked, and nobody leads.

Whether a keeper lives is told by the overlay's own leases.  A keeper leaves a query that nothing answers, whose
subscription is its name, and takes it up for a moment every quarter of its lease; the others look whether it is there.
That leaves no removed triples in the overlay, as a heartbeat would, and it needs the keeper itself to be at work: one
that hangs loses its lease as one that was killed does.  Whoever finds a lease gone removes the keeper's triple and
takes over what is now its own.

A keeper that was taken for gone and is not notices when it renews its lease, and comes again under another name.
Until then two keep the same targets, which is harmless (:mod:`p2prdf.replica.kept_target`).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Final

from p2prdf.errors import Busy, LocalProtocolError, P2PRDFError, SubscriptionGone, Unavailable
from p2prdf.interest import Triple
from p2prdf.interest.registration import (
    ASKS,
    KEEPERS_GRAPH,
    KEEPS,
    Registration,
    checked_url,
    host_entry,
    keeper_subject,
    read_keeper,
)
from p2prdf.rdf import terms
from p2prdf.replica.answers import answer
from p2prdf.replica.dataset_pass import DatasetPass
from p2prdf.replica.kept_target import Content, KeptTarget
from p2prdf.replica.overlay import Connect, Writing
from p2prdf.replica.registry import REGISTRY, Refusal, Registry
from p2prdf.replica.target import Target

__all__ = ["Keeper", "KeeperConfig", "Kept"]

_LEASE: Final = f"SELECT ?o {{ GRAPH {KEEPERS_GRAPH} {{ <urn:p2prdf:nobody> {KEEPS} ?o }} }}"
"""Answered by nothing, and the same for all keepers."""
_PAUSE_SECONDS: Final = 2.0
_GATHER_SECONDS: Final = 0.1
"""So much of what is registered at about the same time is dealt with together."""
_GOODBYE_SECONDS: Final = 5.0
_HOST_TARGETS: Final = 8
"""Targets at one host that are brought up at a time: what one that does not answer delays are others there alone."""


@dataclass(frozen=True, slots=True)
class KeeperConfig:
    """``hosts``: which the operator allows, as :attr:`p2prdf.replica.hosts.Hosts.entries` has them.

    ``lease_seconds``: so long after its last sign of life a keeper is taken for gone, at the latest;
    ``check_seconds``: how often others are looked at.
    """

    hosts: tuple[str, ...]
    lease_seconds: float = 8.0
    check_seconds: float = 2.0

    def validate(self) -> None:
        """Raise LocalProtocolError for times that are none."""
        if not (0 < self.lease_seconds < float("inf") and 0 < self.check_seconds < float("inf")):
            raise LocalProtocolError("a keeper's lease and the pause between two looks are positive numbers of seconds")


@dataclass(frozen=True, slots=True)
class Kept:
    """An interest that a keeper keeps."""

    registration: Registration
    target: KeptTarget


class Keeper:
    """Keeps what is its own until cancelled."""

    def __init__(
        self, connect: Connect, open_target: Callable[[Registration], Target], config: KeeperConfig, *,
        tell: Callable[[str, Mapping[str, object]], None] = lambda _event, _what: None,
        now: Callable[[], float] = time.time,
    ):  # fmt: skip
        """``open_target``: raises TargetRefused for one that must not be touched.  ``tell`` is called with events."""
        config.validate()
        self.config = config
        self.name = ""
        """The IRI of this keeper; it has another one after it was taken for gone."""
        self.passes: dict[str, DatasetPass] = {}
        """By dataset."""
        self.kept: dict[str, Kept] = {}
        self.refused: dict[str, Refusal] = {}
        self.registry = Registry()
        self.now = now
        self._connect = connect
        self._open_target = open_target
        self._tell = tell
        self._number = 0
        self._turned_down: dict[str, Refusal] = {}
        """Interests that the engine or the way to the target refused, as long as they are registered so."""
        self._doors: dict[str, asyncio.Semaphore] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._ready = asyncio.Event()
        """Set when all that is registered has been read, and other keepers were looked at."""

    async def run(self) -> None:
        """Keep targets.  Begins anew when the overlay cannot be reached for long.

        Raises Unavailable if it cannot be reached at first, QueryRefused if its nodes keep no history.
        """
        first = True
        while True:
            try:
                async with self._connect(reconnect_seconds=20.0) as overlay:
                    await self._serve(overlay)
            except (Unavailable, Busy, SubscriptionGone) as error:
                if first and not self.name:
                    raise
                self._tell("disconnected", {"error": str(error)})
            first = False
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _serve(self, overlay: Writing) -> None:
        self.registry = Registry()
        self._ready.clear()
        try:
            await self._introduce(overlay)
            async with asyncio.TaskGroup() as group:
                for work in (self._renew, self._look_after_others, self._read, self._assign):
                    group.create_task(work(overlay))
        except BaseExceptionGroup as errors:
            raise _first(errors) from None
        finally:
            await self._leave(overlay)

    # --- being there -----------------------------------------------------------------------------------------

    async def _introduce(self, overlay: Writing) -> None:
        """Take a name, and say what is allowed."""
        async with self._connect(reconnect_seconds=0) as passing:  # on a connection that ends: what renews is _renew
            lease = await passing.subscribe(
                _LEASE, since="now", bookmarks=False, hurry=False, auto_acknowledge=True,
                lease_seconds=self.config.lease_seconds,
            )  # fmt: skip
        self._number, self.name = lease.id, keeper_subject(lease.id)
        await overlay.publish([self._sign()], graph=KEEPERS_GRAPH)
        self._tell("ready", {"keeper": self.name[1:-1]})

    def _sign(self) -> Triple:
        return self.name, KEEPS, terms.literal(json.dumps({"hosts": list(self.config.hosts)}))

    async def _renew(self, overlay: Writing) -> None:
        """Renew the lease, as long as this process is at work; take another name when it ran out all the same."""
        while True:
            await asyncio.sleep(self.config.lease_seconds / 4)
            try:
                async with asyncio.timeout(self.config.lease_seconds), self._connect(reconnect_seconds=0) as passing:
                    await passing.attach(self._number, bookmarks=False, auto_acknowledge=True)
            except SubscriptionGone:
                former = self._sign()
                await self._introduce(overlay)
                await overlay.retract([former], graph=KEEPERS_GRAPH)
            except (Unavailable, Busy, TimeoutError) as error:
                self._tell("lease", {"error": str(error) or "no answer"})

    async def _leave(self, overlay: Writing) -> None:
        """Stop writing, and say so: others take over at once."""
        await asyncio.gather(*(self._stop(dataset) for dataset in list(self.passes)))
        kept, self.kept = self.kept, {}
        await asyncio.gather(*(each.target.close() for each in kept.values()))
        for task in list(self._tasks):
            task.cancel()
        with contextlib.suppress(P2PRDFError, TimeoutError):
            async with asyncio.timeout(_GOODBYE_SECONDS):
                await overlay.retract([self._sign()], graph=KEEPERS_GRAPH)
                await overlay.unsubscribe(self._number)

    async def _look_after_others(self, overlay: Writing) -> None:
        """Find out which keepers are gone, and take over what is one's own then."""
        while True:
            await self._ready.wait()
            await asyncio.sleep(self.config.check_seconds)
            for subject in await self._look(overlay):
                await overlay.retract(self.registry.signs(subject), graph=KEEPERS_GRAPH)

    async def _look(self, overlay: Writing) -> list[str]:
        """Return the keepers that are found to be gone now."""
        found = []
        for subject in self.registry.keepers():
            number = read_keeper(subject)
            if number is None or subject == self.name:
                continue
            try:
                await overlay.explain(number)
            except SubscriptionGone:
                found.append(subject)
                self.registry.gone.add(subject)
                self._tell("gone", {"keeper": subject[1:-1]})
                self._changed.set()
            except (Unavailable, Busy):
                continue  # nothing is known of it, so it is taken to be there
        return found

    # --- what is registered ------------------------------------------------------------------------------------

    async def _read(self, overlay: Writing) -> None:
        """Read what is registered, and what is asked."""
        left = await overlay.subscribe(
            REGISTRY, since="beginning", bookmarks=True, hurry=True, auto_acknowledge=True, lease_seconds=60.0
        )
        async for batch in left.batches():
            if batch.lost:
                raise Unavailable("parts of the registry were dropped at its query's home")
            for solution in batch:
                self.registry.take(solution.terms, removed=solution.removed)
                if solution.terms[1] == ASKS and not solution.removed and solution.born > left.opened:
                    self._spawn(answer(self, overlay, solution.terms))
            if len(batch):
                self._changed.set()
            if batch.bookmark is not None and batch.bookmark > left.opened and not self._ready.is_set():
                await self._look(overlay)
                self._changed.set()
                self._ready.set()
        raise Unavailable("the query of the registry has ended")

    async def _assign(self, overlay: Writing) -> None:
        """Keep what is this keeper's own and nothing else, whenever something has changed."""
        await self._ready.wait()
        while True:
            await self._changed.wait()
            self._changed.clear()
            # In a thread, for reading very many interests for the first time takes longer than a lease.
            own, refused = await asyncio.to_thread(self.registry.share, self.name, self.config.hosts)
            self._turned_down = {
                name: each for name, each in self._turned_down.items() if own.get(name) == each.registration
            }
            self._keep(overlay, {name: each for name, each in own.items() if name not in self._turned_down})
            self.refused = {**refused, **self._turned_down}
            await asyncio.sleep(_GATHER_SECONDS)

    def _keep(self, overlay: Writing, own: Mapping[str, Registration]) -> None:
        """Keep these interests and no others."""
        for name in [name for name, kept in self.kept.items() if own.get(name) != kept.registration]:
            self._spawn(self.kept.pop(name).target.close())
        paused = self.registry.paused()
        by_dataset: dict[str, dict[str, Registration]] = {}
        for name, registration in own.items():
            if name not in self.kept:
                try:
                    target = self._open_target(registration)
                except P2PRDFError as error:
                    self._turn_down(name, registration, str(error))
                    continue
                self.kept[name] = Kept(registration, self._target(registration, target))
            self.kept[name].target.pause(paused=registration.triple[0] in paused)
            by_dataset.setdefault(registration.dataset, {})[name] = registration
        for dataset in [each for each in self.passes if each not in by_dataset]:
            self._tell("left", {"dataset": dataset[1:-1]})
            self._spawn(self._stop(dataset))
        for dataset, wanted in by_dataset.items():
            self._take_up(overlay, dataset).want(wanted, {name: self.kept[name].target for name in wanted})

    def _target(self, registration: Registration, target: Target) -> KeptTarget:
        name = registration.name
        place = host_entry(*checked_url(registration.target))
        return KeptTarget(
            target, lambda: self._content(registration),
            on_error=lambda text: self._tell("error", {"interest": name, "error": text}),
            door=self._doors.setdefault(place, asyncio.Semaphore(_HOST_TARGETS)),
        )  # fmt: skip

    @contextlib.asynccontextmanager
    async def _content(self, registration: Registration) -> AsyncIterator[Content]:
        """Tell what a target is to hold, if its dataset is still read here."""
        found = self.passes.get(registration.dataset)
        if found is None:
            raise Unavailable(f"the dataset {registration.dataset} is not read here any more")
        async with found.content(registration.name) as content:
            yield content

    def _take_up(self, overlay: Writing, dataset: str) -> DatasetPass:
        found = self.passes.get(dataset)
        if found is None:
            found = self.passes[dataset] = DatasetPass(
                overlay, dataset, on_refused=self._refuse, on_error=lambda text: self._tell("error", {"error": text})
            )
            self._running[dataset] = asyncio.create_task(found.run())
            self._tell("took", {"dataset": dataset[1:-1]})
        return found

    def _refuse(self, name: str, reason: str) -> None:
        """Note that the engine does not take an interest."""
        kept = self.kept.pop(name, None)
        if kept is not None:
            self._spawn(kept.target.close())
            self._turn_down(name, kept.registration, reason)
            self.refused = {**self.refused, **self._turned_down}

    def _turn_down(self, name: str, registration: Registration, reason: str) -> None:
        self._turned_down[name] = Refusal(registration, reason)
        self._tell("refused", {"interest": name, "error": reason})

    def _stop(self, dataset: str) -> Coroutine[Any, Any, None]:
        """End a pass; it is none from now on, and what is returned waits for its end."""
        del self.passes[dataset]
        return _ended(self._running.pop(dataset))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first error of a group; the others were cancelled because of it."""
    first: BaseException = errors
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return first
