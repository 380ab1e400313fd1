"""Keeps effects in order with the disk: what follows a ``Persist`` happens after it is kept.

A peer answers a call with a list of effects.  What the list says to persist becomes a record; the effects
behind it wait, and so do all later lists, in their order.  Meanwhile the peer goes on: it may be ahead of
the disk, the world never sees it.  One commit is under way at a time, in a thread of its own; whatever gathers
while it runs makes the next one (group commit), so a slow disk makes commits larger, not rarer than needed.

::

    lists of the peer      L1: a P b     L2: c     L3: P d e
    commits                |---- P of L1 ----|---- P of L3 ----|
    carried out            a                 b c               d e

*Why the order of whole lists.*  L2 may speak of what L1 took in: an answer computed with it, an acknowledgement of
it.  Only lists that come when nothing waits are free to go, and without a disk (``memory``) all are.
Traces go at once: they tell the log and change nothing.

*When the disk refuses.*  Nothing that waits is carried out; the refusal has a text (:attr:`Journal.refusal`) that
clients are told.  No room: the same records are tried again every second until there is some.  Anything else: the
node ends.  What it had not confirmed it had not promised, and after a failed fsync nobody may read back
what is in the caches and believe it (:mod:`p2prdf_node.storage`).

*Bounds.*  ``queued_bytes_max`` bytes of records and ``WAITING_MAX`` effects wait for the disk.  Beyond, :attr:`full` is
true and the driver makes no further turn; the connections that bring work are held until there is room.

*Compaction.*  When the state has grown to twice what it was after the last one, a snapshot replaces the log
(:meth:`Journal._compact`).  Nothing is lost: the storage ends its log segment *first*; whatever is in the segments
up to this one was returned by the peer before, so the peer holds it when the snapshot is begun afterwards, and what
is committed from then on goes to later segments, which stay.  A message that is in both is taken in twice, harmlessly.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import structlog

from p2prdf.errors import LocalProtocolError
from p2prdf.wire.contract import Persist, Trace
from p2prdf_node.records import joined
from p2prdf_node.storage import DiskRefused

if TYPE_CHECKING:
    from p2prdf.wire.contract import Effect
    from p2prdf.wire.messages import Message
    from p2prdf_node.records import Records
    from p2prdf_node.storage import Storage

__all__ = ["Journal"]

WAITING_MAX: Final = 1 << 16
"""Effects that wait for the disk."""
RETRY_SECONDS: Final = 1.0
"""Between two attempts to write to a full disk."""
ASYNC_SECONDS: Final = 0.1
"""With durability ``async`` records gather for so long before they are committed."""
SEGMENTS_MAX: Final = 256
"""Log segments that call for a compaction, however short: each start makes one."""
LOG_RECORDS: Final = 1 << 13
RECORDS_FACTOR: Final = 10
"""So many records in the log call for one too, or so many for each of the snapshot, whatever is more.  A record of a
publication of one triple takes as long to read back as hundreds of rows of a snapshot: so many are read in a second,
and where all nodes of a machine start at once in as many seconds as nodes share a core.
How much of a node's time goes into snapshots is bounded by the two below."""
SLICE_SECONDS: Final = 0.01
"""A part of a snapshot is taken for so long..."""
PAUSE_SECONDS: Final = 0.02
"""...and then the loop has other work for so long: at most a third of a node's time goes into snapshots."""
COMPACT_AGAIN_SECONDS: Final = 60.0
"""After a compaction that failed."""
PROGRESS_SECONDS: Final = 5.0
FALSE_TERMS_SHOWN: Final = 5
"""Terms with false digests that are logged, each cut to FALSE_TERM_CHARACTERS."""
FALSE_TERM_CHARACTERS: Final = 200

T = TypeVar("T")

log = structlog.get_logger("storage")


class Journal:
    """The order of effects and disk.

    ``durability``: ``fsync``, effects wait for the disk; ``async``, records follow some tenths of a second later;
    ``memory``, nothing is kept (``storage`` is None then, and only then).
    """

    def __init__(
        self,
        storage: Storage | None,
        records: Records,
        *,
        durability: str,
        queued_bytes_max: int,
        compact_bytes_min: int,
        thread: Executor | None = None,
    ):
        assert (storage is None) == (durability == "memory")
        self.durability = durability
        self.refusal: str | None = None
        """Why the disk takes nothing at the moment, for people; None if it does."""
        self.rewrite = False
        """Whether the state differs from what is stored in more than the log says: a snapshot is due."""
        self._storage = storage
        self._records = records
        self._queued_bytes_max = queued_bytes_max
        self._compact_bytes_min = compact_bytes_min
        self._thread = thread or ThreadPoolExecutor(1, "storage")
        self._waiting: deque[Effect | int] = deque()
        """Effects, and the numbers of the commits before which what is behind them must not go out."""
        self._releasing = False
        self._gathered: list[bytes] = []
        self._gathering = 1
        """The number of the commit that what comes now will be part of."""
        self._in_flight: list[bytes] = []
        self._durable = 0
        self._running: asyncio.Future[None] | None = None
        self._commit_timer: asyncio.Handle | None = None
        self._queued_bytes = 0
        self._ended = False
        self._compaction: asyncio.Task[None] | None = None
        self._compact_after = 0.0
        self._figures: dict[str, float] = dict.fromkeys(
            (
                "commits", "records", "bytes", "commit_seconds_max", "compactions", "compaction_seconds",
                "compactions_failed", "unkept",
            ),
            0,
        )  # fmt: skip
        self._restored: dict[str, float] = {}
        self._unclean = False
        """Whether the state holds terms with false digests, which were left out when it was read."""

    def connect(
        self,
        perform: Callable[[Effect], None],
        *,
        resume: Callable[[], None],
        failed: Callable[[], None],
        snapshot: Callable[[], Iterator[Message]],
    ) -> None:
        """Say who carries out effects, goes on when there is room, ends the node, and gives snapshots."""
        self._perform, self._resume, self._failed = perform, resume, failed
        self._snapshot = snapshot

    # --- at start --------------------------------------------------------------------------------

    def restore(self, take_in: Callable[[Iterable[Message]], None]) -> None:
        """Give what is stored to the peer.  Raises LocalProtocolError naming what cannot be taken in."""
        if self._storage is None:
            return
        began = time.monotonic()
        self._restored = {"messages": 0, "bytes": 0, "seconds": 0.0}
        self._records.verified = self._storage.verified
        messages = joined(self._stored(self._storage, began))
        first = next(messages, None)
        if first is not None:
            take_in(_chained(first, messages))
        self._restored["seconds"] = round(time.monotonic() - began, 3)
        log.info("state_restored", **self._restored, damaged=self._storage.damage_count)
        self._note_digests(self._storage)

    def _note_digests(self, storage: Storage) -> None:
        """Report terms that were kept with false digests; a snapshot without them is to replace the state."""
        records = self._records
        if records.false_terms:
            self._unclean = True
            log.error(
                "false_digests_found", terms=len(records.false_terms), rows=records.rows_left_out,
                first=[term[:FALSE_TERM_CHARACTERS] for term in sorted(records.false_terms)[:FALSE_TERMS_SHOWN]],
            )  # fmt: skip
        elif not records.verified:
            storage.mark_verified()
        records.verified = True

    def _stored(self, storage: Storage, began: float) -> Iterator[Message]:
        restored, size = self._restored, storage.size
        told_at = began
        for record in storage.read():
            for message in self._records.decode(record):
                restored["messages"] += 1
                yield message
            restored["bytes"] += len(record)
            now = time.monotonic()
            if now > told_at + PROGRESS_SECONDS:
                told_at = now
                log.info("state_restoring", bytes=restored["bytes"], of=size, seconds=round(now - began, 1))

    # --- effects in, effects out -----------------------------------------------------------------

    @property
    def full(self) -> bool:
        """Whether no further work should be taken in."""
        much = self._queued_bytes > self._queued_bytes_max or len(self._waiting) > WAITING_MAX
        return much or self.refusal is not None

    @property
    def idle(self) -> bool:
        """Whether nothing waits for the disk."""
        return not self._waiting and not self._queued_bytes

    def take(self, effects: list[Effect]) -> None:
        """Carry out a list of effects, each as soon as it may be."""
        if self._ended:
            return  # the node is about to end, and must not say anything any more
        kept = [effect.message for effect in effects if type(effect) is Persist] if self._storage else []
        if kept:
            self._take_with(kept, effects)
            return
        for effect in effects:
            if type(effect) is Trace or not (self._waiting or type(effect) is Persist):
                self._perform(effect)
            elif type(effect) is not Persist:
                self._waiting.append(effect)

    def _take_with(self, kept: list[Message], effects: list[Effect]) -> None:
        """Queue a list with something to persist.  All of it is one commit: none of it goes ahead of the rest."""
        try:
            records = self._records.encode(kept)
        except LocalProtocolError:  # what came in a frame fits one: this is a defect of ours
            self._figures["unkept"] += 1
            log.exception("record_failed", effects_dropped=len(effects))
            return
        marked = self.durability != "fsync"
        for effect in effects:
            if type(effect) is Trace:
                self._perform(effect)
            elif type(effect) is not Persist:
                self._waiting.append(effect)
            elif not marked:
                self._waiting.append(self._gathering)
                marked = True
        self._gathered += records
        self._queued_bytes += sum(map(len, records))
        self._commit_soon()
        self._release()

    def _release(self) -> None:
        """Carry out what waits for nothing any more."""
        if self._releasing:
            return  # an effect led to further ones: they are behind it in the queue
        self._releasing = True
        try:
            while self._waiting and not self._ended:
                first = self._waiting[0]
                if isinstance(first, int):
                    if first > self._durable:
                        break
                    self._waiting.popleft()
                else:
                    self._waiting.popleft()
                    self._perform(first)
        finally:
            self._releasing = False

    # --- commits ---------------------------------------------------------------------------------

    def _commit_soon(self) -> None:
        """Have a commit follow: with what else this turn of the loop, or a tenth of a second, brings."""
        if self._commit_timer is not None or self._in_flight:
            return
        loop = asyncio.get_running_loop()
        if self.durability == "fsync":
            self._commit_timer = loop.call_soon(self._commit)
        else:
            self._commit_timer = loop.call_later(ASYNC_SECONDS, self._commit)

    def _commit(self) -> None:
        """Have what has gathered committed, if no commit is under way."""
        if self._commit_timer is not None:
            self._commit_timer.cancel()
            self._commit_timer = None
        if self._gathered and not self._in_flight and not self._ended:
            self._in_flight, self._gathered = self._gathered, []
            self._gathering += 1
            self._write()

    def _write(self) -> None:
        assert self._storage is not None
        work = partial(self._storage.commit, self._in_flight)
        self._running = asyncio.get_running_loop().run_in_executor(self._thread, work)
        self._running.add_done_callback(partial(self._written, time.monotonic()))

    def _written(self, began: float, done: asyncio.Future[None]) -> None:
        self._running = None
        try:
            done.result()
        except DiskRefused as refusal:
            self._refused(refusal)
            return
        except Exception as error:  # whatever it was, nobody may be told that these records are kept
            log.exception("commit_failed")
            self._end(f"the storage of this node failed: {error}")
            return
        if self.refusal is not None:
            log.warning("disk_has_room", queued_bytes=self._queued_bytes)
        full, self.refusal = self.full, None
        self._count_committed(time.monotonic() - began)
        if self._gathered and self.durability == "fsync":
            self._commit()  # the disk works while effects are carried out
        elif self._gathered:
            self._commit_soon()
        self._release()
        if full and not self.full:
            self._resume()
        self._compact_if_due()

    def _count_committed(self, took: float) -> None:
        figures, size = self._figures, sum(map(len, self._in_flight))
        figures["commits"] += 1
        figures["records"] += len(self._in_flight)
        figures["bytes"] += size
        figures["commit_seconds_max"] = max(figures["commit_seconds_max"], took)
        self._queued_bytes -= size
        self._in_flight = []
        self._durable = self._gathering - 1

    def _refused(self, refusal: DiskRefused) -> None:
        """Say that the disk refuses; try again if it is full, else end."""
        if not refusal.full:
            self._end(str(refusal))
            return
        if self.refusal is None:
            log.error("disk_full", reason=str(refusal), queued_bytes=self._queued_bytes)
        self.refusal = str(refusal)
        asyncio.get_running_loop().call_later(RETRY_SECONDS, self._try_again)

    def _try_again(self) -> None:
        if not self._ended:
            self._write()

    def _end(self, reason: str) -> None:
        """Carry out nothing any more, and have the node end."""
        if not self._ended:
            self._ended = True
            self.refusal = reason
            log.error("disk_failed", reason=reason, queued_bytes=self._queued_bytes)
            self._failed()

    # --- compaction ------------------------------------------------------------------------------

    def _compact_if_due(self) -> None:
        storage = self._storage
        assert storage is not None
        large = storage.size > max(self._compact_bytes_min, 2 * storage.snapshot_bytes)
        many = storage.log_records > max(LOG_RECORDS, RECORDS_FACTOR * storage.snapshot_records)
        due = large or many or storage.segments > SEGMENTS_MAX or self._unclean or self.rewrite
        if due and self._compaction is None and not self._ended and time.monotonic() >= self._compact_after:
            self._compaction = asyncio.get_running_loop().create_task(self._compact(storage), name="compaction")
            self._compaction.add_done_callback(self._compacted)

    async def _compact(self, storage: Storage) -> None:
        """Let a snapshot of the peer's state take the place of what is stored."""
        began, before = time.monotonic(), storage.size
        replacement = await self._blocking(storage.replace)
        complete = False
        try:
            messages = self._snapshot()  # taken after the log's segment was ended: it says all of it, and perhaps more
            while records := self._slice(messages):
                await self._blocking(partial(replacement.append, records))
                await asyncio.sleep(PAUSE_SECONDS)
            await self._blocking(replacement.finish)
            complete = True
            if self._unclean:
                self._unclean = False
                await self._blocking(storage.mark_verified)
        finally:
            if not complete:
                self._thread.submit(replacement.abandon)
        took = time.monotonic() - began
        self.rewrite = False
        self._figures["compactions"] += 1
        self._figures["compaction_seconds"] = round(took, 3)
        log.info("state_compacted", before_bytes=before, snapshot_bytes=storage.snapshot_bytes, seconds=round(took, 3))

    def _slice(self, messages: Iterator[Message]) -> list[bytes]:
        """Return the records of as much of a snapshot as may be taken at once."""
        until = time.monotonic() + SLICE_SECONDS
        records: list[bytes] = []
        for message in messages:
            records += self._records.encode([message])
            if time.monotonic() >= until:
                break
        return records

    def _compacted(self, done: asyncio.Task[None]) -> None:
        self._compaction = None
        if done.cancelled() or (error := done.exception()) is None:
            return
        self._compact_after = time.monotonic() + COMPACT_AGAIN_SECONDS
        if isinstance(error, DiskRefused):
            log.error("compaction_refused", reason=str(error))
            if not error.full:
                self._end(str(error))
        else:
            self._figures["compactions_failed"] += 1
            log.error("compaction_failed", exc_info=error)

    async def _blocking(self, call: Callable[[], T]) -> T:
        """Have the storage do something in its thread."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)

    # --- at the end ------------------------------------------------------------------------------

    async def settle(self) -> None:
        """Wait until all that is queued now is on the disk and carried out, or the disk refuses.

        What comes meanwhile is not waited for: others that leave, too, may give this node things without end.
        """
        last = self._gathering
        while self._queued_bytes and self._durable < last and self.refusal is None:
            self._commit()
            if self._running is not None:
                await asyncio.wait([self._running])
            await asyncio.sleep(0)

    async def close(self) -> None:
        """Commit what is queued, if the disk takes it, and close the storage."""
        await self.settle()
        if self._compaction is not None:
            self._compaction.cancel()
            await asyncio.wait([self._compaction])
        self._ended = True
        if self._storage is not None:
            await self._blocking(self._storage.close)
        self._thread.shutdown()

    def status(self) -> dict[str, Any]:
        """Return figures for people and monitoring."""
        told: dict[str, Any] = {"durability": self.durability}
        if self._storage is not None:
            told |= {
                "bytes": self._storage.size,
                "snapshot_bytes": self._storage.snapshot_bytes,
                "segments": self._storage.segments,
                "log_records": self._storage.log_records,
                "damaged": self._storage.damage_count,
                "false_digests": len(self._records.false_terms),
                "rows_left_out": self._records.rows_left_out,
                "queued_bytes": self._queued_bytes,
                "waiting": len(self._waiting),
                "refusal": self.refusal,
                "compacting": self._compaction is not None,
                "restored": self._restored,
                "written": self._figures,
            }
        return told


def _chained(first: Message, rest: Iterator[Message]) -> Iterator[Message]:
    yield first
    yield from rest
