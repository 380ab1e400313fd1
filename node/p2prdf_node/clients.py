"""Client sessions: requests in, outcomes and solutions out, with flow control in both directions.

A client connects to the node's TCP port and sends ClientHello first.  It numbers its requests; the peer numbers those
of all clients, and this module maps between the two.

*Publications.*  Each client may have ``publications_max`` under way; beyond that the node stops reading from it, and
TCP slows it down.  A publication enters the peer when the peer has room (``peer.busy_reason``) and the client's quota
allows it (:mod:`p2prdf_node.quota`), clients taking turns.  After ``admission_seconds`` it is refused as busy, with
the reason and when to try again.  Nothing is refused after it has entered the peer.

*Solutions.*  Flow control runs end to end: the coordinator of a subscription has at most ``solutions_window``
unacknowledged solutions in flight.  This node forwards them, and keeps them as columns of integers while the client's
socket is full.  It never acknowledges by itself: clients acknowledge by identity, and the coordinator answers when
all its replicas know.  A subscriber that does not read thus costs this node one window and one socket buffer, its
coordinator the log's bound, and other clients nothing.  A full log drops its oldest solutions, and the subscriber
learns how many (``lost``).
"""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

from p2prdf.errors import Busy, ClustersMerging, NodeLeaving, NotAllowed, P2PRDFError, Unavailable, error_from_code
from p2prdf.monitoring.histogram import Histogram
from p2prdf.wire import contract
from p2prdf.wire.messages import LEVELS
from p2prdf_node.accounts import Accounts
from p2prdf_node.pending import Pending
from p2prdf_node.session import ClientSession
from p2prdf_node.term_check import TermCheck

if TYPE_CHECKING:
    from p2prdf.rdf.dictionary import TermDictionary
    from p2prdf.wire.messages import ClientListIntroduced, Contact
    from p2prdf_node.config import NodeConfig
    from p2prdf_node.parsing import QueryParser
    from p2prdf_node.permissions import PermissionsTable
    from p2prdf_node.publications import Publications

__all__ = ["Clients"]

TURN_ROWS: Final = 8192
"""Triples of clients admitted in one turn; each may mean seven index rows."""
Spawn = Callable[[Coroutine[Any, Any, None], str], object]


class Clients:
    """The client sessions of a node, and their pending requests at the peer.

    ``submit`` gives a request to the peer, ``schedule`` asks for a turn, which calls :meth:`admit`.  ``busy`` returns
    the reason why the peer admits no publication now, ``refusal`` why the node takes no new request at all,
    ``merging`` why one-time queries would get partial answers.  ``status`` returns the JSON text of a status reply,
    ``listed`` of a list of subscriptions after a number, ``expulsions`` of the decisions about members,
    ``introduced`` of the statements that a member introduced.  ``others`` returns nodes for a client to use if this
    one fails, ``short`` whether too few nodes are there to do anything, ``permissions`` the permissions of clients.
    """

    def __init__(
        self,
        config: NodeConfig,
        own: Contact,
        parser: QueryParser,
        dictionary: TermDictionary,
        *,
        submit: Callable[[contract.Request], None],
        schedule: Callable[[], None],
        busy: Callable[[], Busy | None],
        refusal: Callable[[], str | None],
        status: Callable[[], str],
        spawn: Spawn,
        others: Callable[[], tuple[Contact, ...]] = tuple,
        listed: Callable[[int], str] = lambda _after: "{}",
        expulsions: Callable[[], str] = lambda: "{}",
        introduced: Callable[[ClientListIntroduced], str] = lambda _request: "{}",
        short: Callable[[], bool] = lambda: False,
        merging: Callable[[], str | None] = lambda: None,
        permissions: Callable[[], PermissionsTable | None] = lambda: None,
    ):
        self.config, self.own, self.parser = config, own, parser
        self.submit, self.schedule, self.busy, self.status, self.spawn = submit, schedule, busy, status, spawn
        self.refusal, self.others, self.listed, self.short, self.merging = refusal, others, listed, short, merging
        self.expulsions, self.introduced = expulsions, introduced
        self.dictionary = dictionary
        self.terms = TermCheck(dictionary)
        self.accounts = Accounts(permissions, config.publisher_key)
        self.sessions: dict[ClientSession, None] = {}
        self.counts: Counter[str] = Counter()
        self.publication_seconds = {level: Histogram() for level in LEVELS}
        """Seconds from a publication's arrival to its acknowledgement, by level."""
        self.solution_seconds = Histogram()
        """Seconds from the write of a frame's last solution to its acknowledgement by the client."""
        self.stopping = False
        self.publications_wait = False
        """Whether publications had no room at the last admission, or exceed a quota."""
        self._admitted_last: Publications | None = None
        self._deliveries: dict[int, ClientSession] = {}
        self._pending: dict[int, Pending] = {}
        # Coordinators recognise a repeated open request by its number, even one from before a restart.
        self._next_request = secrets.randbits(62)

    def ask(self, pending: Pending, make: Callable[[int], contract.Request]) -> None:
        """Submit a client's request under a fresh number of the node."""
        self._next_request += 1
        number = self._next_request
        self._pending[number] = pending
        try:
            self.submit(make(number))
        except P2PRDFError as error:
            if self._pending.pop(number, None) is not None:
                pending.session.failed(pending, error)

    @property
    def subscriptions(self) -> int:
        """Subscriptions that are delivered here, or being opened."""
        return len(self._deliveries) + sum(session.subscribing for session in self.sessions)

    @property
    def publications_in_flight(self) -> int:
        """Publications that are not yet acknowledged."""
        return sum(session.publications.under_way for session in self.sessions)

    def admit(self, may_go_on: Callable[[], bool] = lambda: True) -> None:
        """Give waiting publications to the peer while it has room, clients taking turns.

        One call takes about ``TURN_ROWS`` triples, or as many as ``may_go_on`` allows, then schedules the next turn.
        """
        now = time.monotonic()
        every = [session.publications for session in self.sessions]
        if self._admitted_last in every:  # the budget may have ended the last turn before all clients had theirs
            first = every.index(self._admitted_last) + 1
            every = [*every[first:], *every[:first]]
        all_waiting = [each for each in every if each.waiting]
        waiting = [each for each in all_waiting if not each.quota_wait(now)]
        rows = 0
        while waiting and not self.busy():
            if rows >= TURN_ROWS:
                self.schedule()
                return
            for each in waiting:
                rows += each.admit_one()
                self._admitted_last = each
                if not may_go_on():
                    self.schedule()
                    return
            waiting = [each for each in waiting if each.waiting and not each.quota_wait(now)]
        self.publications_wait = any(each.waiting for each in all_waiting)

    def sweep(self, now: float) -> None:
        """Enforce deadlines at monotonic time ``now``; called once a second or so."""
        if any(session.publications.waiting for session in self.sessions):
            self.schedule()  # a quota may allow more by now
        for session in list(self.sessions):
            session.publications.refuse_overdue(now)
            session.cut_off_overdue(now)
        self.accounts.sweep(now)

    def permissions_changed(self) -> None:
        """Apply the permissions in use to all open sessions."""
        self.accounts.renew(time.monotonic())
        for session in list(self.sessions):
            session.permissions_changed()

    def refuse_new_work(self) -> None:
        """Raise NodeLeaving or Unavailable if the node takes no new work."""
        if self.stopping:
            raise NodeLeaving
        if (refusal := self.refusal()) is not None:
            raise Unavailable(refusal)

    def refuse_parts(self) -> None:
        """Raise ClustersMerging if a one-time query would get a partial answer."""
        if (reason := self.merging()) is not None:
            raise ClustersMerging(reason)

    def stop(self) -> None:
        """Take no new requests; pending ones go on.

        A stopping node refuses new requests as *leaving*, lets clients wait for pending outcomes, then tells each
        client that it leaves and closes the connection, so that the client continues elsewhere.
        """
        self.stopping = True

    def dismiss_idle(self) -> bool:
        """Dismiss the clients without pending outcomes; return whether none is left."""
        waiting = {pending.session for pending in self._pending.values() if pending.kind != "acknowledge"}
        staying = False
        for session in list(self.sessions):
            if session in waiting or session.waits:
                staying = True
            else:
                session.dismiss(NodeLeaving())
        return not staying

    def close(self, reason: P2PRDFError) -> None:
        """Tell all clients the reason, and close their connections."""
        for session in list(self.sessions):
            session.dismiss(reason)

    def summary(self) -> dict[str, Any]:
        """Return counts for people and monitoring."""
        return {
            "clients": len(self.sessions),
            "names": len(self.accounts),
            "deliveries": len(self._deliveries),
            "publications_in_flight": self.publications_in_flight,
            "publications_waiting": sum(session.publications.waiting for session in self.sessions),
            "solutions_waiting": sum(session.deliveries.waiting for session in self.sessions),
            "queries_parsing": self.parser.pending,
            "publication_seconds": {level: each.status() for level, each in self.publication_seconds.items()},
            "solution_seconds": self.solution_seconds.status(),
            **self.counts,
        }

    # --- effects of the peer ---------------------------------------------------------------------

    def completed(self, effect: contract.Completed) -> None:
        """Pass the outcome of a request to the session that made it."""
        pending = self._pending.pop(effect.request, None)
        if pending is None:
            return
        session, outcome = pending.session, effect.outcome
        if isinstance(outcome, contract.Failed):
            session.failed(pending, error_from_code(outcome.code, outcome.text))
        elif session not in self.sessions:
            if isinstance(outcome, contract.Published):
                session.publications.done(pending)
            elif isinstance(outcome, contract.Subscribed):
                # The client never received the number, so that no client can attach to the subscription.
                self.end_orphan(outcome.subscription, session)
            elif isinstance(outcome, contract.Attached):
                self.detach_if_unheld(outcome.subscription)
            elif isinstance(outcome, contract.ExportBegun):
                export = outcome.export
                self.ask(Pending(session, 0, "orphan"), lambda number: contract.EndExport(number, export))
        else:
            session.succeeded(pending, outcome)

    def notify(self, effect: contract.Notify) -> None:
        """Pass solutions to the client of the subscription."""
        session = self._deliveries.get(effect.subscription)
        if session is not None:
            session.deliveries.notify(effect)

    def bookmark(self, effect: contract.Bookmark) -> None:
        """Pass a bookmark to the client: it has all solutions up to a time."""
        session = self._deliveries.get(effect.subscription)
        if session is not None:
            session.deliveries.bookmark(effect)

    def ended(self, effect: contract.Ended) -> None:
        """Tell the client of a subscription that it has ended."""
        session = self._deliveries.pop(effect.subscription, None)
        if session is not None:
            session.deliveries.ended(effect.subscription, effect.code, effect.text)

    def detach_if_unheld(self, subscription: int) -> None:
        """Detach a subscription that was attached here for a client that is gone."""
        if subscription not in self._deliveries:
            self.submit(contract.Detach(subscription))

    def end_orphan(self, subscription: int, session: ClientSession) -> None:
        """End a subscription whose number no client received."""
        self.ask(Pending(session, 0, "orphan"), lambda number: contract.Unsubscribe(number, subscription))

    def check_holder(self, subscription: int, session: ClientSession) -> None:
        """Raise NotAllowed if another client holds a subscription that is delivered here.

        Raises Busy while another client's attach request is pending at the coordinator.  The coordinator judges all
        other subscriptions.
        """
        holder = self._deliveries.get(subscription)
        if holder is None or not session.account.requester or holder.account.owner in ("", session.account.requester):
            return
        if holder.is_live(subscription):
            raise NotAllowed(f"subscription {subscription:016x} is another client's")
        raise Busy(f"subscription {subscription:016x} is being attached by another client", retry_after=0.2)

    def deliver_to(self, subscription: int, session: ClientSession) -> None:
        """Note that a session receives a subscription; a session that had it before is told of the end."""
        before = self._deliveries.get(subscription)
        if before is not None and before is not session:
            before.deliveries.ended(subscription, Unavailable.code, "another client attached it")
        self._deliveries[subscription] = session

    def forget(self, subscription: int, session: ClientSession) -> None:
        """Note that a session no longer receives a subscription."""
        if self._deliveries.get(subscription) is session:
            del self._deliveries[subscription]
