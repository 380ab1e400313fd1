"""An interest worker: one of several equal processes that maintain targets of interests.

It is a member of a worker group (:mod:`p2prdf.workers.worker`). It maintains its share of the registered
interests (:mod:`p2prdf.interest.registration`), dataset by dataset (:mod:`p2prdf.replica.dataset_pass`). Two
workers at the same target are harmless (:mod:`p2prdf.replica.maintained_target`).
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from p2prdf.errors import LocalProtocolError, P2PRDFError, Unavailable
from p2prdf.interest import Triple
from p2prdf.interest.registration import INTEREST_WORKERS, Registration, checked_url, host_entry
from p2prdf.replica.answers import answer
from p2prdf.replica.dataset_pass import DatasetPass
from p2prdf.replica.maintained_target import Content, MaintainedTarget
from p2prdf.replica.registry import REGISTRY, Refusal, Registry
from p2prdf.replica.target import Target
from p2prdf.workers.overlay import Connect, Writing
from p2prdf.workers.worker import Worker, check_times, ended

__all__ = ["InterestWorker", "InterestWorkerConfig", "Maintained"]

_HOST_TARGETS: Final = 8
"""Targets of one host updated at a time: a host that does not answer delays only its own targets."""


@dataclass(frozen=True, slots=True)
class InterestWorkerConfig:
    """Configuration of an interest worker.

    ``hosts``: permitted by the operator, as in :attr:`p2prdf.replica.hosts.Hosts.entries`. ``lease_seconds``:
    latest time after its last sign of life at which a worker is considered gone; ``check_seconds``: interval of
    checking others. ``potential_max``: bound on the potentially interesting triples, by dataset (its canonical
    IRI), with None for others; no bound without an entry.
    """

    hosts: tuple[str, ...]
    lease_seconds: float = 8.0
    check_seconds: float = 2.0
    potential_max: Mapping[str | None, int] = field(default_factory=dict)

    def validate(self) -> None:
        """Raise LocalProtocolError for values out of bounds."""
        check_times(self.lease_seconds, self.check_seconds)
        for dataset, bound in self.potential_max.items():
            if bound < 0:
                of = "" if dataset is None else f" of {dataset}"
                raise LocalProtocolError(f"the bound on potentially interesting triples{of} is negative: {bound}")

    def bound_of(self, dataset: str) -> int | None:
        """Return the bound on the potentially interesting triples of a dataset; None: no bound."""
        return self.potential_max.get(dataset, self.potential_max.get(None))


@dataclass(frozen=True, slots=True)
class Maintained:
    """An interest that the worker maintains."""

    registration: Registration
    target: MaintainedTarget


class InterestWorker(Worker):
    """Maintains its share of the interests until cancelled."""

    def __init__(
        self, connect: Connect, open_target: Callable[[Registration], Target], config: InterestWorkerConfig, *,
        tell: Callable[[str, Mapping[str, object]], None] = lambda _event, _what: None,
        now: Callable[[], float] = time.time,
    ):  # fmt: skip
        """``open_target``: raises TargetRefused for a forbidden target.  ``tell`` is called with events."""
        config.validate()
        super().__init__(
            connect, INTEREST_WORKERS, REGISTRY, lease_seconds=config.lease_seconds, check_seconds=config.check_seconds,
            tell=tell,
        )  # fmt: skip
        self.config = config
        self.passes: dict[str, DatasetPass] = {}
        """By dataset."""
        self.kept: dict[str, Maintained] = {}
        self.refused: dict[str, Refusal] = {}
        self.now = now
        self._open_target = open_target
        self._turned_down: dict[str, Refusal] = {}
        """Interests that the engine or the target refused, while their registration is unchanged."""
        self._host_slots: dict[str, asyncio.Semaphore] = {}
        self._running: dict[str, asyncio.Task[None]] = {}

    def _new_registry(self) -> Registry:
        self.registry = Registry()
        return self.registry

    def _properties(self) -> Mapping[str, object]:
        return {"hosts": list(self.config.hosts)}

    async def _answer(self, overlay: Writing, request: Triple) -> None:
        await answer(self, overlay, request)

    async def _lease_expired(self) -> None:
        """Continue: each update of a target requires the cursor that the worker knows."""

    async def _stop_work(self) -> None:
        await asyncio.gather(*(self._stop(dataset) for dataset in list(self.passes)))
        kept, self.kept = self.kept, {}
        await asyncio.gather(*(each.target.close() for each in kept.values()))

    async def _share(self, overlay: Writing) -> None:
        # In a thread: parsing many interests for the first time takes longer than a lease.
        own, refused = await asyncio.to_thread(self.registry.share, self.name, self.config.hosts)
        self._turned_down = {
            name: each for name, each in self._turned_down.items() if own.get(name) == each.registration
        }
        self._keep(overlay, {name: each for name, each in own.items() if name not in self._turned_down})
        self.refused = {**refused, **self._turned_down}

    def _keep(self, overlay: Writing, own: Mapping[str, Registration]) -> None:
        """Maintain exactly these interests."""
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
                self.kept[name] = Maintained(registration, self._target(registration, target))
            self.kept[name].target.pause(paused=registration.triple[0] in paused)
            by_dataset.setdefault(registration.dataset, {})[name] = registration
        for dataset in [each for each in self.passes if each not in by_dataset]:
            self._tell("left", {"dataset": dataset[1:-1]})
            self._spawn(self._stop(dataset))
        for dataset, wanted in by_dataset.items():
            self._take_up(overlay, dataset).want(wanted, {name: self.kept[name].target for name in wanted})

    def _target(self, registration: Registration, target: Target) -> MaintainedTarget:
        name = registration.name
        place = host_entry(*checked_url(registration.target))
        return MaintainedTarget(
            target, lambda: self._content(registration),
            on_error=lambda text: self._tell("error", {"interest": name, "error": text}),
            slots=self._host_slots.setdefault(place, asyncio.Semaphore(_HOST_TARGETS)),
        )  # fmt: skip

    @contextlib.asynccontextmanager
    async def _content(self, registration: Registration) -> AsyncIterator[Content]:
        """Yield the expected content of a target, if its dataset is still read here."""
        found = self.passes.get(registration.dataset)
        if found is None:
            raise Unavailable(f"the dataset {registration.dataset} is no longer read here")
        async with found.content(registration.name) as content:
            yield content

    def _take_up(self, overlay: Writing, dataset: str) -> DatasetPass:
        found = self.passes.get(dataset)
        if found is None:
            found = self.passes[dataset] = DatasetPass(
                overlay, dataset, on_refused=self._refuse, on_error=lambda text: self._tell("error", {"error": text}),
                potential_max=self.config.bound_of(dataset),
            )  # fmt: skip
            self._running[dataset] = asyncio.create_task(found.run())
            self._tell("took", {"dataset": dataset[1:-1]})
        return found

    def _refuse(self, name: str, reason: str) -> None:
        """Note that the engine refuses an interest."""
        kept = self.kept.pop(name, None)
        if kept is not None:
            self._spawn(kept.target.close())
            self._turn_down(name, kept.registration, reason)
            self.refused = {**self.refused, **self._turned_down}

    def _turn_down(self, name: str, registration: Registration, reason: str) -> None:
        self._turned_down[name] = Refusal(registration, reason)
        self._tell("refused", {"interest": name, "error": reason})

    def _stop(self, dataset: str) -> Coroutine[Any, Any, None]:
        """Remove a pass; the returned coroutine waits for its end."""
        del self.passes[dataset]
        return ended(self._running.pop(dataset))
