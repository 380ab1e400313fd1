"""Keeps effects in order with the disk: effects after a ``Persist`` wait until its record is durable.

The peer answers each call with a list of effects.  The ``Persist`` effects of a list become records; the effects
behind them wait, and so do all later lists, in order.  The peer goes on meanwhile: it may be ahead of the disk, but
no other process sees that.  One commit runs at a time, in a separate thread; records that gather meanwhile form the
next one (group commit), so a slow disk makes commits larger.

::

    lists of the peer      L1: a P b     L2: c     L3: P d e
    commits                |---- P of L1 ----|---- P of L3 ----|
    carried out            a                 b c               d e

*Bounds.*  ``queued_bytes_max`` bytes of records and ``WAITING_MAX`` effects may wait.  Beyond, :attr:`full` is true,
the driver makes no turn, and connections that bring work are held.

*Compaction.*  When the state has doubled since the last snapshot, a new one replaces the log
(:meth:`Journal._compact`; docs/explanation/design/storage.md).
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
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
"""Most effects that wait for the disk."""
RETRY_SECONDS: Final = 1.0
"""Interval between attempts to write to a full disk."""
ASYNC_SECONDS: Final = 0.1
"""Time for which records gather before a commit, with durability ``async``."""
SEGMENTS_MAX: Final = 256
"""Log segments that trigger a compaction, however short: each start creates one."""
LOG_RECORDS: Final = 1 << 13
RECORDS_FACTOR: Final = 10
"""Records in the log that trigger a compaction: RECORDS_FACTOR per record of the snapshot, and at least LOG_RECORDS.

A record of a publication with one triple takes as long to read back as hundreds of rows of a snapshot, so this bounds
the time of a restart.  LOG_RECORDS are read in a second; if all nodes of a machine start at once, in as many seconds
as nodes share a core.  SLICE_SECONDS and PAUSE_SECONDS bound the share of a node's time that snapshots take."""
SLICE_SECONDS: Final = 0.01
"""Time that the event loop spends on one part of a snapshot."""
PAUSE_SECONDS: Final = 0.02
"""Time for other work between two parts: snapshots take at most a third of a node's time."""
COMPACT_AGAIN_SECONDS: Final = 60.0
"""Pause after a failed compaction."""
PROGRESS_SECONDS: Final = 5.0
FALSE_TERMS_SHOWN: Final = 5
"""Terms with false digests that a log line shows, each cut to FALSE_TERM_CHARACTERS."""
FALSE_TERM_CHARACTERS: Final = 200

T = TypeVar("T")

log = structlog.get_logger("storage")


class Journal:
    """The order of effects and disk writes.

    ``durability``: ``fsync``: effects wait for the disk; ``async``: records are written within some tenths of a
    second, effects do not wait; ``memory``: nothing is stored (``storage`` is None in this case only).
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
        """Reason why the disk accepts no records at present, for people; None if it does."""
        self.rewrite = False
        """Whether the restored state differs from the stored one beyond the log, so that a snapshot is due."""
        self._storage = storage
        self._records = records
        self._queued_bytes_max = queued_bytes_max
        self._compact_bytes_min = compact_bytes_min
        self._thread = thread or ThreadPoolExecutor(1, "storage")
        self._waiting: deque[Effect | int] = deque()
        """Waiting effects, and between them numbers of commits: effects behind a number wait for that commit."""
        self._releasing = False
        self._gathered: list[bytes] = []
        self._gathering = 1
        """Number of the commit that new records will be part of."""
        self._in_flight: list[bytes] = []
        self._durable = 0
        self._running: Future[None] | None = None
        self._commit_timer: asyncio.Handle | None = None
        self._queued_bytes = 0
        self._ended = False
        self._compaction: asyncio.Task[None] | None = None
        self._compact_after = 0.0
        self._figures: dict[str, float] = dict.fromkeys(
            (
                "commits", "records", "bytes", "commit_seconds_max", "compactions", "compaction_seconds",
                "compactions_failed", "unencodable",
            ),
            0,
        )  # fmt: skip
        self._restored: dict[str, float] = {}
        self._unclean = False
        """Whether the stored state holds terms with false digests, which were left out when it was read."""

    def connect(
        self,
        perform: Callable[[Effect], None],
        *,
        resume: Callable[[], None],
        failed: Callable[[], None],
        snapshot: Callable[[], Iterator[Message]],
    ) -> None:
        """Set the callbacks that carry out effects, resume turns, end the node and take snapshots."""
        self._perform, self._resume, self._failed = perform, resume, failed
        self._snapshot = snapshot

    # --- at start --------------------------------------------------------------------------------

    def restore(self, take_in: Callable[[Iterable[Message]], None]) -> None:
        """Pass the stored messages to the peer.  Raises LocalProtocolError naming a record that cannot be decoded."""
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
        """Report stored terms with false digests; the next snapshot, without them, replaces the state."""
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
        """Whether the node should accept no further work."""
        much = self._queued_bytes > self._queued_bytes_max or len(self._waiting) > WAITING_MAX
        return much or self.refusal is not None

    @property
    def idle(self) -> bool:
        """Whether nothing waits for the disk."""
        return not self._waiting and not self._queued_bytes

    def take(self, effects: list[Effect]) -> None:
        """Carry out a list of effects, each as early as its order allows.

        Whole lists wait: a list may depend on the input of an earlier one, as an answer computed from it or its
        acknowledgement.  A list passes at once only if nothing waits, or without a disk (``memory``).  Traces always
        pass at once: they only feed the log.
        """
        if self._ended:
            return  # the node is about to end, and must send nothing any more
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
        """Queue a list with records.  The list is one commit: no record of it becomes durable without the others."""
        try:
            records = self._records.encode(kept)
        except LocalProtocolError:  # every message came in a frame, so it fits one: this is a defect of p2prdf
            self._figures["unencodable"] += 1
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
        """Carry out the waiting effects whose commits are durable."""
        if self._releasing:
            return  # an effect led to further ones, which are behind it in the queue
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
        """Schedule a commit, which also takes the records of this loop iteration, or of a tenth of a second."""
        if self._commit_timer is not None or self._in_flight:
            return
        loop = asyncio.get_running_loop()
        if self.durability == "fsync":
            self._commit_timer = loop.call_soon(self._commit)
        else:
            self._commit_timer = loop.call_later(ASYNC_SECONDS, self._commit)

    def _commit(self) -> None:
        """Commit the gathered records, unless a commit is running."""
        if self._commit_timer is not None:
            self._commit_timer.cancel()
            self._commit_timer = None
        if self._gathered and not self._in_flight and not self._ended:
            self._in_flight, self._gathered = self._gathered, []
            self._gathering += 1
            self._write()

    def _write(self) -> None:
        assert self._storage is not None
        loop, began = asyncio.get_running_loop(), time.monotonic()

        def tell(done: Future[None]) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._written, began, done)

        # A future of asyncio (run_in_executor) takes the loop twice as much time, and an iteration more.
        self._running = self._thread.submit(partial(self._storage.commit, self._in_flight))
        self._running.add_done_callback(tell)

    def _written(self, began: float, done: Future[None]) -> None:
        self._running = None
        try:
            done.result()
        except DiskRefused as refusal:
            self._refused(refusal)
            return
        except Exception as error:  # after any error these records must not be acknowledged
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
        """Report that the disk refuses; retry if it is full, else end the node.

        Waiting effects are not carried out, and clients receive the reason (:attr:`Journal.refusal`).  A full disk
        gets the same records again every second until there is room.  Any other error ends the node: unacknowledged
        records were not promised, and after a failed fsync the page cache cannot be trusted
        (:mod:`p2prdf_node.storage`).
        """
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
        """Carry out nothing any more, and end the node."""
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
        """Replace the stored state by a snapshot of the peer's state.

        No record is lost: the storage ends its log segment *first*.  The peer has processed all records up to that
        segment, so that the snapshot, begun afterwards, contains them.  Later commits go to later segments, which
        stay.  A message in both is processed twice, which is idempotent.
        """
        began, before = time.monotonic(), storage.size
        replacement = await self._blocking(storage.replace)
        complete = False
        try:
            messages = self._snapshot()  # begun after the end of the log segment, so that it contains that segment
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
        """Return the records of the next part of a snapshot, taken within SLICE_SECONDS."""
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
        """Run a call of the storage in its thread."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)

    # --- at the end ------------------------------------------------------------------------------

    async def settle(self) -> None:
        """Wait until all records queued now are on the disk and their effects carried out, or the disk refuses.

        Records queued meanwhile are not waited for: other leaving nodes may send copies without end.
        """
        last = self._gathering
        while self._queued_bytes and self._durable < last and self.refusal is None:
            self._commit()
            if self._running is not None:
                (written,), _ = await asyncio.wait([asyncio.wrap_future(self._running)])
                written.exception()  # _written reports it
            await asyncio.sleep(0)

    async def close(self) -> None:
        """Commit the queued records, if the disk accepts them, and close the storage."""
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
