"""Drives one peer in real time: passes it requests, envelopes and the time, and carries out its effects.

Work is batched.  Received envelopes wait in the inbox (:mod:`p2prdf_node.inbox`).  A turn admits publications of
clients, takes envelopes from the inbox and lets the peer process both (``wake``); outgoing messages leave as one frame
per destination.  An idle driver starts a turn at once.  After a turn of many rows the next turn waits as long as that
turn took, at most ``LINGER_SECONDS``: more arrives meanwhile, so that batches grow under load, and with them the rows
processed per CPU second.

Acknowledgements need no turn: the peer gets them on arrival.  They only free waiting messages and complete requests,
and each publication leads to several of them.

Effects go through the journal (:mod:`p2prdf_node.journal`), which delays effects until the records they depend on are
on the disk.  While too much waits for the disk, no turn runs: received envelopes stay in the inbox, deadlines pass
late, as on a slow machine, and clients are refused as busy.

The peer has one deadline, the driver one timer.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, assert_never

import structlog

from p2prdf import hlc
from p2prdf.monitoring.histogram import Histogram
from p2prdf.wire import contract
from p2prdf.wire.messages import Acknowledge
from p2prdf_node.inbox import Inbox
from p2prdf_node.logs import LineLimit, log_span, trace_level
from p2prdf_node.transport import Links

if TYPE_CHECKING:
    from p2prdf.peer import Peer
    from p2prdf.wire.contract import Effect, Request
    from p2prdf.wire.messages import ClientListIntroduced, Contact, Envelope
    from p2prdf_node.clients import Clients
    from p2prdf_node.connection import Connection
    from p2prdf_node.journal import Journal
    from p2prdf_node.members import Members

__all__ = ["Clock", "Driver"]

ADMISSION_SHARE: Final = 0.25
"""Share of a turn's budget for publications of clients."""
RECEIVE_SHARE: Final = 0.5
"""Share of a turn's budget for envelopes of other nodes."""
LINGER_ROWS: Final = 500
"""Rows of a turn after which the next turn waits for more input."""
LINGER_SECONDS: Final = 0.005
LOG_LINES_PER_SECOND: Final = 20

Spawn = Callable[[Coroutine[Any, Any, None], str], object]

log = structlog.get_logger("peer")


class Clock:
    """Seconds since the epoch that never go backwards: the wall clock read once, then the monotonic one."""

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def __call__(self) -> float:
        """Return the time in seconds since 1970."""
        return self._offset + time.monotonic()


class Driver:
    """One peer and its environment; call ``connect`` before anything else."""

    def __init__(self, peer: Peer, clock: Clock, spawn: Spawn, journal: Journal):
        self.peer = peer
        self.journal = journal
        self.counts: Counter[str] = Counter()
        self.turn_seconds_max = 0.0
        """Duration of the longest turn, during which nothing else ran."""
        self.turn_longest_component = ""
        """Component with the most processor time in the longest turn."""
        self.turn_component_seconds_max: dict[str, float] = {}
        """Most processor time of each component in one turn."""
        self.turn_seconds = Histogram()
        self._pace = peer.pace
        self._inbox = Inbox()
        self._clock = clock
        self._spawn = spawn
        self._lines = LineLimit(LOG_LINES_PER_SECOND)
        self._turn_due = False
        self._flush_due = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = float("inf")
        self._turn_rows = 0
        self._linger = 0.0
        self._stopped = False
        self.on_span: Callable[[contract.Span, float], None] = log_span
        """Called with each traced span and the time of its end (seconds since 1970)."""
        self.left = self.handed_off = False
        """``left``: the peer has finished leaving; ``handed_off``: other nodes have all its copies (:meth:`leave`)."""

    def connect(
        self, links: Links, clients: Clients, membership: Members[Any], *, disk_failed: Callable[[], None]
    ) -> None:
        """Set the components that carry out effects, and the callback for a disk that fails for good."""
        self._loop = asyncio.get_running_loop()
        self._links, self._clients, self._membership = links, clients, membership
        self.journal.connect(
            self._carry_out, resume=self.schedule, failed=disk_failed, snapshot=lambda: self.peer.snapshot()
        )

    def restore(self, downtime_seconds: float = 0.0) -> None:
        """Restore the peer from its storage, before anything else.  Raises LocalProtocolError.

        ``downtime_seconds``: upper bound of the downtime since the process that wrote the state ended.
        """
        self.journal.restore(
            lambda messages: self.peer.restore(messages, now=self._clock(), away_seconds=downtime_seconds)
        )
        # Rewrite corrected stamps: at the next start they may no longer lie in the future and would be taken as stored.
        self.journal.rewrite = self.peer.stamps_corrected > 0

    # --- into the peer ---------------------------------------------------------------------------

    def stamp(self) -> int:
        """Return the peer's current stamp, which precedes the stamp of any later publication at this node."""
        return max(self.peer.clock, hlc.from_seconds(self._clock()))

    def listed(self, after: int) -> str:
        """Return the peer's list of subscriptions after a number, as JSON text."""
        return json.dumps(self.peer.subscriptions(now=self._clock(), after=after))

    def expulsions(self) -> str:
        """Return the decisions about members known to the peer, as JSON text."""
        return json.dumps({"members": self.peer.expulsions()})

    def introduced(self, request: ClientListIntroduced) -> str:
        """Return the statements that a member introduced at this peer, as JSON text."""
        return json.dumps(self.peer.introduced(request))

    def submit(self, request: Request) -> None:
        """Pass a request to the peer."""
        if isinstance(request, contract.Publish):
            self._turn_rows += len(request.s)
        self.journal.take(self.peer.submit(request, now=self._clock()))
        self._arm()

    def receive(self, envelope: Envelope, sender: Contact, connection: Connection) -> None:
        """Queue an envelope for one of the next turns, and hold the connection if too much waits.

        An acknowledgement is passed to the peer at once.
        """
        if self._stopped:
            return  # the envelope stays unacknowledged, so the sender gives it to others
        if type(envelope.message) is Acknowledge:
            self.journal.take(self.peer.receive(envelope, sender=sender, now=self._clock()))
            if self._clients.publications_wait:
                self.schedule()  # there may be room for them now
            else:
                self._arm()
            return
        self._inbox.put(envelope, sender, connection)
        self.schedule()

    def leave(self) -> None:
        """Let the peer hand off its copies to other nodes; ``left`` turns true when that is over."""
        self.submit(contract.Leave(0))

    def _turn(self) -> None:
        """Run one turn within its budget of processor time.

        A turn has a budget of processor time (``turn_budget_seconds``): a quarter for admission, half for envelopes,
        and the peer works until its own budget is spent.  The rest waits for the next turn.  In between the event
        loop reads sockets, so that the failure detector's datagrams are answered after at most one turn
        (docs/explanation/design/turns.md).
        """
        self._turn_due = False
        if self._stopped:
            return
        if self.journal.full:
            self.counts["turns_put_off"] += 1
            self._flush()
            return  # the journal schedules a turn when it has room
        rows, self._turn_rows = self._turn_rows, 0
        self.counts["turns"] += 1
        began, pace = time.monotonic(), self._pace
        pace.by_component.clear()
        pace.begin()
        if not self.peer.turn_open:
            pace.enter("admission")
            self._clients.admit(lambda: not pace.over_share(ADMISSION_SHARE))
            pace.enter("receive")
            rows += self._take_in()
        self.journal.take(self.peer.wake(now=self._clock()))
        pace.enter("send")
        self._flush()
        self._inbox.release()
        pace.enter("")
        more = bool(self._inbox) or self.peer.turn_open
        self._linger = 0.0
        if more:
            self.counts["turns_split"] += 1
            self.schedule()
        else:
            self._arm()
        self._note_turn(time.monotonic() - began)
        if not more and rows >= LINGER_ROWS:
            self._linger = min(time.monotonic() - began, LINGER_SECONDS)

    def _take_in(self) -> int:
        """Pass envelopes to the peer until their share of the turn is spent; return the number of their rows."""
        rows = 0
        while (taken := self._inbox.take()) is not None:
            envelope, sender, count = taken
            self.journal.take(self.peer.receive(envelope, sender=sender, now=self._clock()))
            rows += count
            if self._pace.over_share(RECEIVE_SHARE):
                break
        return rows

    def _note_turn(self, took: float) -> None:
        parts, most = self._pace.by_component, self.turn_component_seconds_max
        for component, seconds in parts.items():
            if seconds > most.get(component, 0.0):
                most[component] = seconds
        if took > self.turn_seconds_max:
            self.turn_seconds_max = took
            self.turn_longest_component = max(parts, key=lambda each: parts[each], default="")
        self.turn_seconds.observe(took)

    def turn_status(self) -> dict[str, Any]:
        """Return the durations of turns, for people and monitoring."""
        most = sorted(self.turn_component_seconds_max.items())
        return {
            "turn_seconds": self.turn_seconds.status(),
            "turn_seconds_max": round(self.turn_seconds_max, 4),
            "turn_longest_component": self.turn_longest_component,
            "turn_component_seconds_max": {component: round(seconds, 4) for component, seconds in most},
            "inbox": len(self._inbox),
        }

    # --- time ------------------------------------------------------------------------------------

    def schedule(self) -> None:
        """Schedule a turn soon."""
        if self._turn_due:
            return
        self._turn_due = True
        if self._linger:
            self._loop.call_later(self._linger, self._turn)
        else:
            self._loop.call_soon(self._turn)

    def _flush_soon(self) -> None:
        """Send waiting envelopes after the other effects of this loop iteration, or with the turn that is due."""
        if not (self._flush_due or self._turn_due):
            self._flush_due = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_due = False
        self._links.flush()

    def _arm(self) -> None:
        if self._turn_due or (deadline := self.peer.deadline) is None:
            return
        wait = deadline - self._clock()
        if wait <= 0:
            self.schedule()
        elif deadline < self._timer_at or self._timer is None:
            if self._timer is not None:
                self._timer.cancel()
            self._timer_at = deadline
            self._timer = self._loop.call_later(wait, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._timer_at = float("inf")
        self.schedule()

    def stop(self) -> None:
        """Make no further turn and accept nothing more; the journal still carries out delayed effects."""
        self._stopped = True
        self._inbox.clear()
        if self._timer is not None:
            self._timer.cancel()

    # --- out of the peer -------------------------------------------------------------------------

    def _carry_out(self, effect: Effect) -> None:
        try:
            self._do(effect)
        except Exception:  # one failed effect must not prevent the others
            self.counts["effects_failed"] += 1
            log.exception("effect_failed", effect=type(effect).__name__)

    def _do(self, effect: Effect) -> None:
        match effect:
            case contract.Send(to, envelope):
                self._links.post(to, envelope)
                self._flush_soon()
            case contract.Notify():
                self._clients.notify(effect)
            case contract.Bookmark():
                self._clients.bookmark(effect)
            case contract.Ended():
                self._clients.ended(effect)
            case contract.Completed(outcome=contract.Left(handed_over)):
                self.left, self.handed_off = True, handed_over
            case contract.Completed():
                self._clients.completed(effect)
            case contract.FindOwner(key):
                self._spawn(self._find_owner(key), "find_owner")
            case contract.Trace(event, fields):
                self._trace(event, fields)
            case contract.Span():
                self.on_span(effect, self._clock())
            case contract.Persist():
                raise AssertionError("the journal keeps what is to persist")
            case _:
                assert_never(effect)

    async def _find_owner(self, key: int) -> None:
        try:
            found = await self._membership.find_owners(key)
        except Exception:  # the peer must learn the end of every lookup
            log.exception("lookup_failed", key=f"{key:016x}")
            found = contract.OwnersFound(key, (), complete=False)
        self.submit(found)

    def _trace(self, event: str, fields: dict[str, object]) -> None:
        self.counts[event] += 1
        level = trace_level(event)
        if level == "debug" or self._lines.allow(time.monotonic()):
            getattr(log, level)(event, **fields)
