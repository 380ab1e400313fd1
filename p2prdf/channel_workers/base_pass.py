"""One knowledge base at its channel worker: evaluate its log, publish notifications.

One standing query delivers all input: publications and deletions (:mod:`p2prdf.channels.log`), the rules of the
knowledge base, and the notifications that exist already (:mod:`p2prdf.channels.notification_state`).  A worker that
takes the knowledge base over therefore knows, at the first bookmark, all facts and all notifications.  It publishes
missing notifications, retracts obsolete ones, and keeps both up to date.

A published graph is evaluated on arrival, before a bookmark confirms it.  Tentative notifications are written before
the queries run.  A skipped query runs ``settle_seconds`` later at the latest.

At each bookmark the existing notifications are compared with the correct ones, and graphs that deletions have trimmed
are rewritten.  If the rules have changed, all channels are evaluated again with the new rules.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from p2prdf.channel_workers.engine import BaseEngine
from p2prdf.channel_workers.writer import Writer
from p2prdf.channels.log import Log, LogChange
from p2prdf.channels.notification_state import NotificationState, Writes
from p2prdf.channels.publication import DELETE, GRAPH
from p2prdf.channels.registration import BEGUN, KINDS, ChannelRegistration, notifications_graph
from p2prdf.errors import P2PRDFError, Unavailable
from p2prdf.rdf import terms
from p2prdf.reasoning import Rule, parse_rules
from p2prdf.workers.membership import CurrentTriples
from p2prdf.workers.overlay import Batch, Subscription, Writing
from p2prdf.workers.union import union_text
from p2prdf.workers.worker import first_error

__all__ = ["RULE", "RULES_GRAPH", "BasePass"]

RULES_GRAPH: Final = "<urn:p2prdf:rules>"
RULE: Final = "<urn:p2prdf:rule>"

_LEASE_SECONDS: Final = 30.0
_PAUSE_SECONDS: Final = 2.0
_GOODBYE_SECONDS: Final = 5.0
_BATCHES_WAITING: Final = 64
_REWRITES: Final = 200
"""Maximum number of graphs that are rewritten at one bookmark."""

class BasePass:
    """The channels over one knowledge base."""

    def __init__(
        self, overlay: Writing, base: str, *, settle_seconds: float, holds_lease: Callable[[], bool],
        on_error: Callable[[str], None],
    ):  # fmt: skip
        """``holds_lease``: whether this worker certainly holds its lease, so that it may write."""
        self.base = base
        self.error: str | None = None
        self.as_of: float | None = None
        """All publications up to this time, in seconds, have been evaluated; None: not all are read yet."""
        self.engine: BaseEngine | None = None
        self._overlay = overlay
        self._settle_seconds = settle_seconds
        self._holds_lease = holds_lease
        self._on_error = on_error
        self._wanted: dict[str, ChannelRegistration] = {}
        self._graph = notifications_graph(base)
        self._lock = asyncio.Lock()
        """Held while the engine is used: it runs in a thread."""
        self._batches: asyncio.Queue[Batch | None] = asyncio.Queue(_BATCHES_WAITING)
        self._settle_at: float | None = None
        self._applied = asyncio.Event()
        """Set when the wanted channels are the evaluated ones."""
        self._start()

    def _start(self) -> None:
        self.engine = None
        self._subscription: Subscription | None = None
        self._log = Log()
        self._notifications = NotificationState(self.base)
        self._rules = CurrentTriples((RULE,))
        self._used: frozenset[str] = frozenset()
        """The rule texts that the engine uses, as they are stored."""
        self._bad_rules: dict[str, str] = {}
        self._compacting: asyncio.Task[None] | None = None
        self._settle_at = None
        self._writer = Writer(
            self._overlay, self._graph, self._notifications, holds_lease=self._holds_lease, on_error=self._failed
        )

    # --- interface of the channel worker -------------------------------------------------------

    def set_wanted(self, wanted: Mapping[str, ChannelRegistration]) -> None:
        """Evaluate exactly these channels from now on; all others were dropped."""
        if dict(wanted) != self._wanted:
            self._wanted = dict(wanted)
            self._applied.clear()
            with contextlib.suppress(asyncio.QueueFull):  # the queue holds a batch: channels are compared after it
                self._batches.put_nowait(None)

    async def forget(self) -> None:
        """Drop all channels; return when their notifications are deleted, or after a time limit."""
        self.set_wanted({})
        if self.engine is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_GOODBYE_SECONDS):
                    await self._applied.wait()
                    await self._writer.written()

    async def statistics(self) -> dict[str, dict[str, Any]]:
        """Return the state and the counters of each channel, by name."""
        if self.engine is None:  # building the engine may take long, and holds the lock
            state = {"state": "reading"} if self.error is None else {"state": "failing", "error": self.error}
            return {name: dict(state) for name in self._wanted}
        async with self._lock:
            engine = self.engine
            found = {} if engine is None else engine.statistics()
            refused = {**self._bad_rules, **self._log.refused}
            about: dict[str, Any] = {
                "graphs": self._log.graphs, "deletions": self._log.deletions,
                "facts": 0 if engine is None else engine.facts, "rules": len(self._used),
                "settle_seconds": self._settle_seconds, "refused_publications": len(refused),
                "refused": [{"what": what[:120], "reason": why} for what, why in list(refused.items())[-10:]],
            }  # fmt: skip
            if self.error is not None:
                about["error"] = self.error
            states: dict[str, dict[str, Any]] = {}
            for name in self._wanted:
                if engine is not None and name in engine.refused:
                    states[name] = {"state": "refused", "error": engine.refused[name]}
                elif name in found:
                    states[name] = {"state": "failing" if self.error else "evaluated", **found[name], **about}
                else:
                    states[name] = {"state": "failing" if self.error else "reading", **about}
            return states

    # --- evaluation ----------------------------------------------------------------------------

    async def run(self) -> None:
        """Evaluate until cancelled; start again after a pause whenever the overlay cannot be read."""
        while True:
            try:
                await self._follow()
            except P2PRDFError as error:  # includes unusable rules, and nodes that keep no history
                self._failed(str(error))
            await asyncio.sleep(_PAUSE_SECONDS)
            async with self._lock:
                self._start()
            while not self._batches.empty():
                self._batches.get_nowait()

    def _failed(self, text: str) -> None:
        if text != self.error:
            self._on_error(f"{self.base}: {text}")
        self.error = text

    async def _follow(self) -> None:
        branches = [
            (self.base, (self.base, GRAPH, None)), (self.base, (self.base, DELETE, None)),
            (RULES_GRAPH, (self.base, RULE, None)), (self._graph, (self.base, BEGUN, None)),
            *((self._graph, (None, kind, None)) for kind in KINDS),
        ]  # fmt: skip
        left = await self._overlay.subscribe(
            union_text(branches), since="beginning", bookmarks=True, hurry=True, auto_acknowledge=True,
            lease_seconds=_LEASE_SECONDS,
        )
        self._subscription = left
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._read(left))
                group.create_task(self._writer.run())
                group.create_task(self._evaluate())
        except BaseExceptionGroup as errors:
            raise first_error(errors) from None
        finally:
            if self._compacting is not None:
                self._compacting.cancel()
            with contextlib.suppress(P2PRDFError, TimeoutError):
                async with asyncio.timeout(_GOODBYE_SECONDS):
                    await left.unsubscribe()

    async def _read(self, left: Subscription) -> None:
        async for batch in left.batches():
            if batch.lost:
                raise Unavailable(f"{batch.lost} solutions were dropped at the query's coordinator")
            await self._batches.put(batch)
        raise Unavailable("the query of the knowledge base has ended")

    async def _evaluate(self) -> None:
        """Take batches as they come; run skipped queries when their time has come."""
        while True:
            await self._writer.room()
            batch = None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(self._settle_at):
                    batch = await self._batches.get()
            if batch is not None:
                await self._take(batch)
            await self._settle_if_due()
            await self._apply_wanted()

    async def _settle_if_due(self) -> None:
        engine = self.engine
        if engine is not None and self._settle_at is not None and self._now() >= self._settle_at:
            self._settle_at = None
            await self._run_engine(engine.settle)

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()

    async def _run_engine(self, what: Callable[[], Writes]) -> None:
        """Call the engine in a thread, so that leases are renewed meanwhile; publish its notifications."""
        async with self._lock:
            writes = await asyncio.to_thread(what)
        self._writer.write(writes)
        engine = self.engine
        if engine is None or not engine.behind:
            self._settle_at = None
        elif self._settle_at is None:
            self._settle_at = self._now() + self._settle_seconds

    async def _take(self, batch: Batch) -> None:
        rows = list(zip(zip(*batch.columns, strict=True), batch.stamps, batch.removed, strict=True))
        if self.engine is None and rows:
            async with self._lock:
                await asyncio.to_thread(lambda: [self._record(*row) for row in rows])
        elif rows:
            for row in rows:
                if row[0][1] == DELETE:  # a deletion scans all graphs
                    async with self._lock:
                        change = await asyncio.to_thread(self._record, *row)
                else:
                    change = self._record(*row)
                await self._apply_change(change)
                await self._settle_if_due()
        if batch.bookmark is not None:
            await self._at(batch.bookmark)

    def _record(self, triple: tuple[str, ...], stamp: int, removed: bool) -> LogChange:
        s, p, o = triple
        if p in (GRAPH, DELETE):
            return self._log.take(p, o, stamp, removed=removed)
        if p == RULE:
            self._rules.take((s, p, o), removed=removed)
        else:
            self._notifications.take((s, p, o), stamp, removed=removed)
        return LogChange()

    async def _apply_change(self, change: LogChange) -> None:
        engine = self.engine
        assert engine is not None
        if change.graph:
            await self._run_engine(lambda: engine.publish(change.graph))
            await self._run_engine(engine.evaluate)
        if change.lost:
            await self._run_engine(lambda: engine.delete(change.lost))

    async def _apply_wanted(self) -> None:
        """Create new channels, and drop those that are not wanted any more."""
        engine = self.engine
        if engine is None:
            return
        had = engine.registrations
        dropped = [name for name, each in had.items() if self._wanted.get(name) != each]
        dropped += [name for name in engine.refused if name not in self._wanted]
        if dropped:
            await self._run_engine(lambda: engine.drop(dropped))
        new = {name: each for name, each in self._wanted.items() if name not in had and name not in engine.refused}
        if new:
            await self._run_engine(lambda: engine.take_up(new))
        self._applied.set()

    # --- at bookmarks --------------------------------------------------------------------------

    async def _at(self, bookmark: float) -> None:
        milliseconds = round(bookmark * 1000)
        if self.engine is None:
            if self._subscription is not None and bookmark > self._subscription.opened:
                self._log.settle(milliseconds)
                await self._begin(again=False)
                self.error, self.as_of = None, bookmark
            return
        lost = self._log.settle(milliseconds)
        if lost:
            await self._apply_change(LogChange(lost=lost))
        if frozenset(o for _, _, o in self._rules.of(RULE)) != self._used:
            await self._begin(again=True)
        engine = self.engine
        differences = self._notifications.differences(milliseconds, time.monotonic())
        if differences.removed and engine.behind:
            await self._run_engine(engine.settle)
            differences = self._notifications.differences(milliseconds, time.monotonic())
        self._writer.write(differences)
        self.as_of = bookmark
        if self._compacting is None or self._compacting.done():
            self._compacting = asyncio.create_task(self._compact_log(milliseconds))

    async def _begin(self, *, again: bool) -> None:
        """Evaluate all facts with the current rules; ``again``: an engine with other rules exists."""
        texts = [o for _, _, o in self._rules.of(RULE)]
        wanted = dict(self._wanted)

        def made() -> tuple[BaseEngine, Writes]:
            rules: list[Rule] = []
            self._bad_rules = {}
            for text in texts:
                try:
                    rules += parse_rules(terms.lexical(text))
                except P2PRDFError as error:
                    self._bad_rules[text] = str(error)
            engine = BaseEngine(self._notifications, rules, self._log.content())
            if not again:
                return engine, engine.take_up(wanted)
            former = {} if self.engine is None else self.engine.registrations
            kept = {name: each for name, each in former.items() if wanted.get(name) == each}
            return engine, engine.take_up(kept, again=True)

        async with self._lock:
            engine, writes = await asyncio.to_thread(made)
            self.engine = engine
            self._used = frozenset(texts)
            self._settle_at = None
        self._writer.write(writes)

    async def _compact_log(self, bookmark_ms: int) -> None:
        """Rewrite graphs that deletions trimmed, and retract deletions that have taken effect."""
        rewrites = self._log.rewrites(_REWRITES)
        try:
            await self._writer.sure()
            left = [(self.base, GRAPH, new) for _, new in rewrites if new is not None]
            if left:
                await self._overlay.publish(left, graph=self.base)
            if rewrites:
                await self._writer.sure()
                await self._overlay.retract([(self.base, GRAPH, old) for old, _ in rewrites], graph=self.base)
            done = self._log.applied(bookmark_ms)
            if done:
                await self._overlay.retract([(self.base, DELETE, each) for each in done], graph=self.base)
        except P2PRDFError as error:
            self._log.retry(old for old, _ in rewrites)
            self._failed(str(error))

