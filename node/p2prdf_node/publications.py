"""Publications of one client: waiting for admission, or in progress at the peer, within bounds.

:mod:`p2prdf_node.clients` explains the flow control.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from p2prdf import hlc
from p2prdf.columns import as_list
from p2prdf.errors import (
    Busy,
    DataRefused,
    LocalProtocolError,
    NotAllowed,
    P2PRDFError,
    RemoteProtocolError,
    TransactionTooLarge,
)
from p2prdf.keys import term_hash
from p2prdf.rdf import terms
from p2prdf.wire import contract, messages
from p2prdf.wire.trace_context import TraceContext, parse_traceparent
from p2prdf_node.pending import Pending
from p2prdf_node.quota import Bucket

if TYPE_CHECKING:
    from p2prdf_node.clients import Clients
    from p2prdf_node.session import ClientSession

__all__ = ["Publications"]

EVENTS_MAX: Final = (1 << 63) - 1
"""Largest event number of a publication."""


@dataclass(frozen=True, slots=True)
class _Held:
    """A publication that waits for admission."""

    began: float
    """Arrival, in monotonic seconds."""
    message: messages.ClientPublish
    trace: TraceContext | None
    size: int
    """Size in bytes."""


class Publications:
    """The publications of one session."""

    def __init__(self, clients: Clients, session: ClientSession, now: float):
        self._clients = clients
        self._session = session
        self._config = clients.config
        self._held: deque[_Held] = deque()
        self._under_way = 0
        self._traces: dict[int, TraceContext | None] = {}
        """Trace contexts by request, for publications that follow."""
        self._triples = Bucket(clients.config.publish_triples_per_second, now)
        self._bytes = Bucket(clients.config.publish_bytes_per_second, now)
        self._received = session.connection.received

    @property
    def waiting(self) -> int:
        """Publications that wait for admission."""
        return len(self._held)

    @property
    def under_way(self) -> int:
        """Publications at the peer that are not acknowledged."""
        return self._under_way

    @property
    def open(self) -> int:
        """Publications that wait or are under way."""
        return len(self._held) + self._under_way

    # --- accepting -----------------------------------------------------------------------------------

    def publish(self, message: messages.ClientPublish) -> None:
        """Validate a publication and let it wait for admission.  Raises the reason of a refusal."""
        trace = self._traces.pop(message.request, None)
        self._clients.refuse_new_work()
        if self.open >= 2 * self._config.publications_max:
            raise RemoteProtocolError(f"more publications than the credit of {self._config.publications_max}")
        self._clients.terms.check(message.s, message.p, message.o, *message.graph)
        if len(message) == 0:
            raise DataRefused("a publication without triples")
        if message.level not in messages.LEVELS:
            raise LocalProtocolError(f"level {message.level!r} is neither {' nor '.join(messages.LEVELS)}")
        if message.first_event > EVENTS_MAX:
            raise DataRefused(f"event number {message.first_event} is more than {EVENTS_MAX}")
        if message.times and message.by_content:
            raise DataRefused("elements of a stream are numbered: the same triple may be there at several times")
        _check_transaction(message)
        self._check_rows(message)
        connection = self._session.connection
        size = connection.frame_bytes
        self._session.account.begin_publication(size)
        self._bytes.take(connection.received - self._received)
        self._received = connection.received
        self._held.append(_Held(time.monotonic(), message, trace, size))
        self._clients.schedule()
        self._credit()

    def trace(self, message: messages.ClientTrace) -> None:
        """Note the trace context of the publication with the same request number, which follows."""
        if len(self._traces) >= 2 * self._config.publications_max:
            raise RemoteProtocolError(f"{len(self._traces)} traces of publications that did not follow")
        try:
            self._traces[message.request] = parse_traceparent(message.traceparent)
        except LocalProtocolError as error:
            raise RemoteProtocolError(str(error)) from None

    def heartbeat(self, message: messages.ClientHeartbeat) -> None:
        """Pass a publisher's watermark on, also while the node stops."""
        account = self._session.account
        _check_stream(message.stream)
        account.permissions.check_stream(message.stream)
        stream, publisher = term_hash(message.stream), account.publisher(message.publisher)
        said = contract.Heartbeat(stream, publisher, message.began, message.upto, message.opening)
        self._clients.submit(said)

    def end_stream(self, message: messages.ClientEndStream) -> None:
        """Pass the end of a publisher's stream on."""
        self._clients.refuse_new_work()
        account = self._session.account
        _check_stream(message.stream)
        account.permissions.check_stream(message.stream)
        stream, publisher = term_hash(message.stream), account.publisher(message.publisher)
        self._clients.ask(
            Pending(self._session, message.request, "end-stream"),
            lambda number: contract.EndStream(
                number, stream, publisher, message.began, message.upto, message.opening
            ),
        )

    def _check_rows(self, message: messages.ClientPublish) -> None:
        """Raise NotAllowed for a statement that the client may not publish, or delete."""
        m, permissions = message, self._session.account.permissions
        deletions = len(m) if m.removed else m.deletions
        for removed, part in ((True, slice(deletions)), (False, slice(deletions, None))):
            s, p, o, *graph = (column[part] for column in (m.s, m.p, m.o, *m.graph))
            if len(s):
                of = graph[0] if graph else None
                permissions.check_rows(self._clients.dictionary, s, p, o, of, removed=removed)

    def _credit(self) -> None:
        """Read from the client while it has fewer than ``publications_max`` open publications."""
        if self.open >= self._config.publications_max:
            self._session.connection.hold("credit")
        else:
            self._session.connection.release("credit")

    # --- admission -----------------------------------------------------------------------------------

    def admit_one(self) -> int:
        """Give the first waiting publication to the peer; return its number of triples."""
        held = self._held.popleft()
        m, account = held.message, self._session.account
        self._triples.take(len(m))
        account.take_triples(len(m))
        publisher = account.publisher(m.publisher)
        self._under_way += 1
        self._clients.counts["publications"] += 1
        self._clients.counts["triples"] += len(m)
        self._clients.ask(
            Pending(self._session, m.request, "publish", size=held.size, began=held.began, level=m.level),
            lambda number: contract.Publish(
                number, publisher, m.first_event, m.s, m.p, m.o, m.level, m.removed, m.after, m.graph, m.by_content,
                m.times, held.trace, m.deletions, m.atomic, m.versions, m.attempt,
            ),
        )
        return len(m)

    def quota_wait(self, now: float) -> float:
        """Return the seconds until this client may publish again; 0: now."""
        return max(self._triples.wait(now), self._bytes.wait(now), self._session.account.wait(now))

    def done(self, pending: Pending) -> None:
        """Note the end of a publication at the peer, acknowledged or failed."""
        self._under_way -= 1
        self._session.account.end_publication(pending.size)
        if self._session in self._clients.sessions:
            self._credit()

    # --- refusing --------------------------------------------------------------------------------

    def _give_up(self, held: _Held, error: P2PRDFError) -> None:
        self._session.account.end_publication(held.size)
        self._session.error(held.message.request, error)

    def refuse_overdue(self, now: float) -> None:
        """Refuse the publications that have waited too long at monotonic time ``now``."""
        while self._held and self._held[0].began < now - self._config.admission_seconds:
            held = self._held.popleft()
            busy = self._why_held(now)
            self._give_up(held, busy)
            self._credit()

    def _why_held(self, now: float) -> Busy:
        if (refusal := self._clients.refusal()) is not None:
            return Busy(refusal)
        if (busy := self._clients.busy()) is not None:
            return busy
        account = self._session.account
        if (wait := account.wait(now)) > 0:
            reason = f"{account.permissions.who} has used up its quota (triples_per_second in its permissions)"
            return Busy(reason, retry_after=round(wait, 3))
        if (wait := self.quota_wait(now)) > 0:
            return Busy("this client has used up its quota (publish_..._per_second)", retry_after=round(wait, 3))
        return Busy("the node has no room for publications now")

    def permissions_changed(self) -> None:
        """Refuse the waiting publications that are no longer permitted."""
        for _ in range(len(self._held)):
            held = self._held.popleft()
            try:
                self._check_rows(held.message)
            except NotAllowed as error:
                self._give_up(held, error)
            else:
                self._held.append(held)
        self._credit()

    def forget(self) -> None:
        """Drop the waiting publications of a client that is gone."""
        self._session.account.end_publication(sum(held.size for held in self._held))
        self._held.clear()


def _check_transaction(message: messages.ClientPublish) -> None:
    """Raise LocalProtocolError for fields that contradict each other, DataRefused for too many statements."""
    if message.deletions > len(message) or (message.deletions and not message.atomic):
        raise LocalProtocolError(f"{message.deletions} deletions among the {len(message)} triples of a publication")
    if message.atomic and (message.removed or message.times):
        raise LocalProtocolError("a transaction counts its deletions, and has no elements of streams")
    if message.atomic and len(message) > messages.TRANSACTION_STATEMENTS_MAX:
        raise TransactionTooLarge(
            f"a transaction of {len(message):,} statements; {messages.TRANSACTION_STATEMENTS_MAX:,} are the most"
        )
    if message.versions:
        _check_condition(message)


def _check_condition(message: messages.ClientPublish) -> None:
    """Raise LocalProtocolError for a condition that no transaction can have, TransactionTooLarge for too many subjects.
    """
    versions = as_list(message.versions[0])
    if not message.atomic or max(versions, default=0) >= hlc.ELEMENT:
        raise LocalProtocolError("a condition belongs to a transaction, and names stamps")
    subjects = {subject for subject, version in zip(as_list(message.s), versions, strict=True) if version}
    if len(subjects) > messages.CONDITIONS_MAX:
        raise TransactionTooLarge(
            f"a transaction that depends on {len(subjects):,} subjects; {messages.CONDITIONS_MAX} are the most"
        )


def _check_stream(stream: str) -> None:
    """Raise DataRefused unless ``stream`` is a canonical IRI."""
    terms.check_all([stream])
    if not stream.startswith("<"):
        raise DataRefused(f"stream {stream[:100]!r} is no IRI; write an absolute IRI in <>, as N-Triples has it")
