"""Sessions of clients: their requests in, outcomes and solutions out, within credit both ways.

A client speaks on the node's TCP port; its first frame is ClientHello.  It numbers its requests, the
peer numbers those of all clients: the map between them lives here.

*Publications.*  At most ``publications_max`` of one client are under way; beyond that the node stops
reading from it, so a fast publisher waits in its own TCP stack.  A publication is given to the peer
when the peer has room (``peer.busy_reason``) and its client has not used up its quota (:mod:`p2prdf_node.quota`), one
client after the other in turn; what does not get in within ``admission_seconds`` is refused as busy, with the reason
and when to try again.  Nothing is refused after it was given to the peer.

*Solutions.*  The credit runs from end to end.  The home of a subscription keeps a log of what its
client has not acknowledged, and lets ``answers_window`` solutions out at a time; this node passes them
on, and keeps them (as columns of integers) while the client's socket is full.  It acknowledges nothing
by itself: acknowledgements, by identity, are requests of the client to the home, which answers when all its
replicas know.  A subscriber that does not read therefore costs this node one window and one socket buffer,
its home the log's bound, and others nothing.  When the log's bound is reached, the oldest solutions go,
and the subscriber is told how many (``lost``).

A node that is told to stop refuses what is new as *leaving*.  A client that waits for the outcome of something gets
it.  Then (the others at once) it is told that the node leaves, and its connection is closed: it goes on elsewhere.

A client that misbehaves gets a ClientError with request 0 and is closed.  When it is gone its
subscriptions are detached: they live on for their lease and can be attached at any node.
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
    from p2prdf_node.publications import Publications
    from p2prdf_node.rights import RightsTable

__all__ = ["Clients"]

TURN_ROWS: Final = 8192
"""Triples of clients that one turn takes in; each may mean seven rows to index."""
Spawn = Callable[[Coroutine[Any, Any, None], str], object]


class Clients:
    """The client sessions of a node, and the requests they have under way at the peer.

    ``submit`` gives a request to the peer, ``schedule`` asks for a turn (and so for :meth:`admit`),
    ``busy`` tells why the peer wants no publication now, if so, ``refusal`` why nothing new can be taken at all,
    ``status`` makes the text of a status reply, ``listed`` that of a list of subscriptions after a number,
    ``expulsions`` that of the decisions about members, ``introduced`` that of statements that a member introduced,
    ``others`` some nodes for a client to turn to if this one fails.
    ``short`` tells whether nodes are missing, so that nothing would be done, ``merging`` why one-time queries would be
    answered in parts, if so, ``rights`` what clients may do.
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
        rights: Callable[[], RightsTable | None] = lambda: None,
    ):
        self.config, self.own, self.parser = config, own, parser
        self.submit, self.schedule, self.busy, self.status, self.spawn = submit, schedule, busy, status, spawn
        self.refusal, self.others, self.listed, self.short, self.merging = refusal, others, listed, short, merging
        self.expulsions, self.introduced = expulsions, introduced
        self.dictionary = dictionary
        self.terms = TermCheck(dictionary)
        self.accounts = Accounts(rights, config.publisher_key)
        self.sessions: dict[ClientSession, None] = {}
        self.counts: Counter[str] = Counter()
        self.publication_seconds = {level: Histogram() for level in LEVELS}
        """From a publication's arrival to its acknowledgement, by level."""
        self.answer_seconds = Histogram()
        """From writing a solution, the last of its frame, to its acknowledgement by the client."""
        self.stopping = False
        self._admitted_last: Publications | None = None
        self._deliveries: dict[int, ClientSession] = {}
        self._pending: dict[int, Pending] = {}
        # Homes recognise a repeated opening by its number, also that of a node that was restarted.
        self._next_request = secrets.randbits(62)

    def ask(self, pending: Pending, make: Callable[[int], contract.Request]) -> None:
        """Submit a request of a client under a number of its own."""
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
        """Subscriptions that are delivered here, or will be."""
        return len(self._deliveries) + sum(session.subscribing for session in self.sessions)

    @property
    def publications_under_way(self) -> int:
        """Publications that are not yet acknowledged."""
        return sum(session.publications.under_way for session in self.sessions)

    def admit(self, may_go_on: Callable[[], bool] = lambda: True) -> None:
        """Give waiting publications to the peer while it has room, one client after the other.

        One turn takes about ``TURN_ROWS`` triples, or as many as ``may_go_on`` allows; ``schedule`` asks for another.
        """
        now = time.monotonic()
        every = [session.publications for session in self.sessions]
        if self._admitted_last in every:  # the budget may have ended the last turn before all had theirs
            first = every.index(self._admitted_last) + 1
            every = [*every[first:], *every[:first]]
        waiting = [each for each in every if each.waiting and not each.quota_wait(now)]
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

    def sweep(self, now: float) -> None:
        """Do what is due at monotonic time ``now``; called once a second or so."""
        if any(session.publications.waiting for session in self.sessions):
            self.schedule()  # a quota may have room again
        for session in list(self.sessions):
            session.publications.refuse_overdue(now)
            session.cut_off_overdue(now)
        self.accounts.sweep(now)

    def rights_changed(self) -> None:
        """Hold everybody who is here to the rights that are in use now."""
        self.accounts.renew(time.monotonic())
        for session in list(self.sessions):
            session.rights_changed()

    def refuse_new_work(self) -> None:
        """Raise NodeLeaving or Unavailable if no new work is taken."""
        if self.stopping:
            raise NodeLeaving
        if (refusal := self.refusal()) is not None:
            raise Unavailable(refusal)

    def refuse_parts(self) -> None:
        """Raise ClustersMerging if a one-time query would be answered in parts."""
        if (reason := self.merging()) is not None:
            raise ClustersMerging(reason)

    def stop(self) -> None:
        """Take no new requests; what is under way goes on."""
        self.stopping = True

    def part(self) -> bool:
        """Send those away who wait for nothing; return whether these were all."""
        waiting = {pending.session for pending in self._pending.values() if pending.kind != "acknowledge"}
        staying = False
        for session in list(self.sessions):
            if session in waiting or session.waits:
                staying = True
            else:
                session.dismiss(NodeLeaving())
        return not staying

    def close(self, reason: P2PRDFError) -> None:
        """Tell all clients why, and close their connections."""
        for session in list(self.sessions):
            session.dismiss(reason)

    def summary(self) -> dict[str, Any]:
        """Return counts for people and monitoring."""
        return {
            "clients": len(self.sessions),
            "names": len(self.accounts),
            "deliveries": len(self._deliveries),
            "publications_under_way": self.publications_under_way,
            "publications_waiting": sum(session.publications.waiting for session in self.sessions),
            "answers_waiting": sum(session.deliveries.waiting for session in self.sessions),
            "queries_parsing": self.parser.pending,
            "publication_seconds": {level: each.status() for level, each in self.publication_seconds.items()},
            "answer_seconds": self.answer_seconds.status(),
            **self.counts,
        }

    # --- effects of the peer ---------------------------------------------------------------------

    def completed(self, effect: contract.Completed) -> None:
        """Pass the outcome of a request on to whom it belongs."""
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
                # Its number never reached anyone: nobody could attach to it.
                self.end_orphan(outcome.subscription, session)
            elif isinstance(outcome, contract.Attached):
                self.detach_if_unheld(outcome.subscription)
        else:
            session.succeeded(pending, outcome)

    def notify(self, effect: contract.Notify) -> None:
        """Pass solutions on to the client that the subscription belongs to."""
        session = self._deliveries.get(effect.subscription)
        if session is not None:
            session.deliveries.notify(effect)

    def bookmark(self, effect: contract.Bookmark) -> None:
        """Tell the client of a subscription that all has come up to some time."""
        session = self._deliveries.get(effect.subscription)
        if session is not None:
            session.deliveries.bookmark(effect)

    def ended(self, effect: contract.Ended) -> None:
        """Tell the client that it was about that nothing more comes of a subscription."""
        session = self._deliveries.pop(effect.subscription, None)
        if session is not None:
            session.deliveries.ended(effect.subscription, effect.code, effect.text)

    def detach_if_unheld(self, subscription: int) -> None:
        """Let go of a subscription that was attached here, and that no client has."""
        if subscription not in self._deliveries:
            self.submit(contract.Detach(subscription))

    def end_orphan(self, subscription: int, session: ClientSession) -> None:
        """End a subscription that nobody gets the number of."""
        self.ask(Pending(session, 0, "orphan"), lambda number: contract.Unsubscribe(number, subscription))

    def check_holder(self, subscription: int, session: ClientSession) -> None:
        """Raise NotAllowed if a subscription that is delivered here is another client's; of others its home says so.

        Raises Busy if another client is attaching it, and its home has not answered yet.
        """
        holder = self._deliveries.get(subscription)
        if holder is None or not session.account.asks or holder.account.owner in ("", session.account.asks):
            return
        if holder.is_live(subscription):
            raise NotAllowed(f"subscription {subscription:016x} is another client's")
        raise Busy(f"subscription {subscription:016x} is being attached by another client", retry_after=0.2)

    def deliver_to(self, subscription: int, session: ClientSession) -> None:
        """Note that a session takes a subscription over, from another one perhaps."""
        before = self._deliveries.get(subscription)
        if before is not None and before is not session:
            before.deliveries.ended(subscription, Unavailable.code, "it was attached by another client")
        self._deliveries[subscription] = session

    def forget(self, subscription: int, session: ClientSession) -> None:
        """Note that a session has nothing to do with a subscription any more."""
        if self._deliveries.get(subscription) is session:
            del self._deliveries[subscription]
