"""Explanations: how a query would be evaluated, or how a subscription is, and where evaluation stops.

The coordinator of a subscription has its plan and solutions, so it explains the subscription, and the entry peer
forwards the explanation.  The entry peer itself explains a query without a subscription.  It asks for rates as a
coordinator does (:mod:`p2prdf.peer.subscriptions.opening`) and plans the query, but creates no group, advertises no
index and installs no rows.

The explaining peer then asks all known peers for the number of rows that wait at each step and the number of triples
that match each pattern (:mod:`p2prdf.peer.joins.counts`), and adds them up.  Counts come from slightly different
moments.

Bounds: a peer that has not answered after ``COUNT_SECONDS`` is listed as missing, and a coordinator has
``HOME_SECONDS``. Questions are repeated once, halfway.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from p2prdf import hlc, keys
from p2prdf.columns import as_list
from p2prdf.continuous.home import Group, Subscription, home_key, subscription_home
from p2prdf.continuous.leaf import Leaf
from p2prdf.continuous.order import evaluation_order
from p2prdf.errors import Busy, NotAllowed, QueryRefused, RemoteProtocolError, SubscriptionGone, Unavailable
from p2prdf.peer.explain.explanation import STEPS_MAX, Sheet, StepCounts, address
from p2prdf.peer.joins.counts import Counts
from p2prdf.peer.network.component import Component, Handlers
from p2prdf.peer.subscriptions.delivery import another_clients
from p2prdf.peer.subscriptions.opening import rates_wanted
from p2prdf.rdf.algebra import StandingQuery
from p2prdf.rdf.dictionary import UNBOUND_TEXT
from p2prdf.rdf.query import Step, constant_mask
from p2prdf.wire.contract import Completed, Explain, Explained, Failed
from p2prdf.wire.messages import (
    EVENTS_COUNTED,
    NOT_COUNTED,
    Contact,
    CountsRequest,
    CountsResponse,
    ExplainSubscription,
    Explanation,
    RatesResponse,
)

if TYPE_CHECKING:
    from p2prdf.peer.joins.index_advertisements import IndexAdvertisements
    from p2prdf.peer.network.messenger import Messenger
    from p2prdf.peer.subscriptions.coordinator import Coordinator
    from p2prdf.rdf.dictionary import TermDictionary
    from p2prdf.store.tables import Tables

__all__ = ["CASES_MAX", "COUNT_SECONDS", "HOME_SECONDS", "Explanations"]

CASES_MAX: Final = 16
"""Explanations that one peer works on at a time; it asks coordinators for as many more."""
COUNT_SECONDS: Final = 2.0
"""How many seconds peers have to count; silent ones are asked again halfway."""
HOME_SECONDS: Final = 8.0
"""How many seconds a coordinator has; to find out whether an unknown subscription is gone takes some."""
_MISSING_NAMED_MAX: Final = 32

Outcome = Callable[[Explained | Failed], None]


@dataclass(slots=True, eq=False)
class _Case:
    """An explanation in progress.  ``due``: when to continue without the missing answers."""

    number: int
    group: Group
    subscription: Subscription | None
    done: Outcome
    due: float
    steps: list[StepCounts] = field(default_factory=list)
    question: CountsRequest | None = None
    """None while rates are being collected."""
    unheard: dict[int, Contact] = field(default_factory=dict)
    asked: int = 0
    again_at: float | None = None


class Explanations(Component):
    """The explanations requested here, and those of the subscriptions that this peer coordinates."""

    def __init__(
        self, messenger: Messenger, tables: Tables, dictionary: TermDictionary, coordinator: Coordinator,
        indexes: IndexAdvertisements,
    ):  # fmt: skip
        self._messenger = messenger
        self._columns = messenger.columns
        self._dictionary = dictionary
        self._coordinator = coordinator
        self._indexes = indexes
        self._counts = Counts(messenger, tables)
        self._cases: dict[int, _Case] = {}
        self._at_homes: dict[int, float] = {}
        """Requests that wait for a coordinator, and until when."""

    def handlers(self) -> Handlers:
        """Return the handlers of explanations, counts and rates."""
        return {
            ExplainSubscription: self.asked,
            Explanation: lambda _, message: self.explained(message),
            CountsRequest: self.count,
            CountsResponse: self.counted,
            RatesResponse: self._rates,
        }

    def requests(self) -> Mapping[type[Any], Callable[[Any], None]]:
        """Return the handler of requests for explanations."""
        return {Explain: self.submit}

    def _rates(self, _: Contact, message: RatesResponse) -> None:
        if not self.rates(message):
            self._coordinator.rates(message)

    # --- requests --------------------------------------------------------------------------------

    def submit(self, request: Explain) -> None:
        """Explain a subscription or a query."""

        def done(outcome: Explained | Failed) -> None:
            self._messenger.effects.append(Completed(request.request, outcome))

        if request.query is None:
            if len(self._at_homes) >= CASES_MAX:
                done(_busy())
                return
            self._at_homes[request.request] = self._messenger.now + HOME_SECONDS
            self.dirty = True
            message = ExplainSubscription(
                request.request, self._messenger.own, request.subscription, owner=request.owner
            )
            self._coordinator.to_owner(subscription_home(request.subscription), message)
            return
        query = request.query
        if request.per_event and isinstance(query, StandingQuery):
            done(Failed(QueryRefused.code, "per event only conjunctive queries are answered"))
            return
        key = home_key(query, request.algorithm, per_event=request.per_event)
        group = Group(key, 0, query, request.algorithm, request.per_event)
        for leaf in query.leaves if isinstance(query, StandingQuery) else (query,):
            group.leaves.append(Leaf(group, 0, leaf))
        case = self._begin(group, None, done)
        if case is not None:
            self._ask_rates(case)

    def explained(self, message: Explanation) -> None:
        """Forward a coordinator's explanation."""
        if self._at_homes.pop(message.request, None) is not None:
            outcome = Failed(message.code, message.text) if message.code else Explained(message.json)
            self._messenger.effects.append(Completed(message.request, outcome))

    # --- at the coordinator ----------------------------------------------------------------------

    def asked(self, sender: Contact, message: ExplainSubscription) -> None:
        """Explain a subscription that this peer coordinates to the asking peer.

        An explanation also covers a coordinator that delivers nothing because it still compares its records.  The peer
        reports an unknown subscription only when that is certain.
        """
        number, key = message.subscription, subscription_home(message.subscription)
        if not self._coordinator.at_owner(key, message, sender):
            return
        subscription = self._coordinator.home.subscriptions.get(number)
        if subscription is None and not self._messenger.placement.speaks_for(key):
            self._coordinator.unknown.wait(message)
            return
        if subscription is None and not self._coordinator.unknown.is_gone(number, subscription=True):
            self._coordinator.unknown.hold_request(number, message)
            return

        def done(outcome: Explained | Failed) -> None:
            if isinstance(outcome, Failed):
                self._coordinator.reply(message.asker, Explanation(message.request, "", outcome.code, outcome.text))
            else:
                self._coordinator.reply(message.asker, Explanation(message.request, outcome.json))

        if subscription is None:
            done(_gone(number))
            return
        if not subscription.may(message.owner):
            done(Failed(NotAllowed.code, another_clients(number)))
            return
        case = self._begin(subscription.group, subscription, done)
        if case is not None:
            self._ask_counts(case)

    # --- rates -----------------------------------------------------------------------------------

    def _begin(self, group: Group, subscription: Subscription | None, done: Outcome) -> _Case | None:
        """Start an explanation; refuse it if there are too many, or no room for the query's terms."""
        if len(self._cases) >= CASES_MAX:
            done(_busy())
            return None
        try:
            self._dictionary.intern(UNBOUND_TEXT)
            for leaf in group.leaves:
                self._dictionary.intern_all(leaf.query.constants)
        except Busy as error:
            done(Failed(error.code, str(error)))
            return None
        number = self._messenger.draw(64)
        case = self._cases[number] = _Case(number, group, subscription, done, self._messenger.now + COUNT_SECONDS)
        self.dirty = True
        return case

    def _ask_rates(self, case: _Case) -> None:
        case.due = self._messenger.now + self._messenger.config.rates_seconds
        for at, leaf in enumerate(case.group.leaves):
            questions = rates_wanted(
                leaf.query, self._dictionary, self._columns, _rates_request(case.number, at), self._messenger.own
            )
            leaf.unanswered = len(questions)
            for key, question in questions:
                self._coordinator.to_owner(key, question)
        self._plan_if_known(case)

    def rates(self, message: RatesResponse) -> bool:
        """Note an owner's rates if an explanation has asked for them; return whether one has."""
        for case in self._cases.values():
            at = (message.request - case.number) % (1 << 64)
            if case.question is None and at < len(case.group.leaves):
                leaf = case.group.leaves[at]
                for position, count in zip(as_list(message.position), as_list(message.counts), strict=True):
                    leaf.unanswered -= 1
                    if count and position < len(leaf.query.patterns):
                        leaf.counts[position] = count - 1
                self._plan_if_known(case)
                return True
        return False

    def _plan_if_known(self, case: _Case) -> None:
        if all(leaf.unanswered <= 0 for leaf in case.group.leaves):
            self._plan(case)

    def _plan(self, case: _Case) -> None:
        group = case.group
        for leaf in group.leaves:
            order = evaluation_order(leaf.query, leaf.counts)
            leaf.plan = leaf.plan_in(order)
        case.due = self._messenger.now + COUNT_SECONDS
        self._ask_counts(case)

    # --- counts ----------------------------------------------------------------------------------

    def _ask_counts(self, case: _Case) -> None:
        """Count here, and ask all other peers to count."""
        messenger = self._messenger
        case.question = self._question(case)
        self._add(case, self._counts.take(case.question))
        if case.steps:  # a query may have no patterns
            case.unheard = {each.key: each for each in messenger.cache.contacts() if each.key != messenger.own.key}
        case.asked = len(case.unheard)
        case.again_at = messenger.now + COUNT_SECONDS / 2
        self.dirty = True
        self._ask_unheard(case)

    def _ask_unheard(self, case: _Case) -> None:
        assert case.question is not None
        for contact in case.unheard.values():
            self._messenger.send(contact, case.question)
        if not case.unheard:
            self._finish(case)

    def _question(self, case: _Case) -> CountsRequest:
        nothing = self._dictionary.intern(UNBOUND_TEXT)
        rows: list[tuple[int, ...]] = []
        for at, leaf, step, number in _steps(case.group):
            constants = self._dictionary.intern_all(leaf.query.constants)
            under = self._counted_under(step, per_event=leaf.per_event)
            case.steps.append(StepCounts(at, number, under))
            triple = [constants[~slot] if slot < 0 else nothing for slot in step.pattern]
            rows.append((leaf.identity, number, under, constant_mask(step.pattern), *triple))
        make = self._columns.column
        leaves, *columns = map(list, zip(*rows, strict=True)) if rows else ([] for _ in range(7))
        since = 0 if case.subscription is None or case.group.windowed else case.subscription.since
        return CountsRequest(case.number, since, make(leaves), *(make(column, "uint32") for column in columns))

    def _counted_under(self, step: Step, *, per_event: bool) -> int:
        """Return the index with the best count of a pattern's triples: of its constants, its own, or any."""
        bits, events = self._indexes.counted, 0
        if per_event:
            bits, events = bits >> keys.EVENT_SHIFT, EVENTS_COUNTED
        for role in (constant_mask(step.pattern), step.role, *keys.ROLES):
            if bits >> role & 1:
                return role | events
        return NOT_COUNTED

    def count(self, sender: Contact, message: CountsRequest) -> None:
        """Send this peer's counts to another peer."""
        self._coordinator.reply(sender, self._counts.take(message))

    def counted(self, sender: Contact, message: CountsResponse) -> None:
        """Add the counts of another peer; finish after the last one."""
        case = self._cases.get(message.request)
        if case is None or case.unheard.pop(sender.key, None) is None:
            return
        if len(message) != len(case.steps):
            raise RemoteProtocolError(f"counts of {len(message)} steps; {len(case.steps)} were asked for")
        self._add(case, message)
        if not case.unheard:
            self._finish(case)

    @staticmethod
    def _add(case: _Case, told: CountsResponse) -> None:
        columns = map(as_list, (told.waiting, told.over, told.triples, told.young, told.estimated))
        for step, waiting, over, triples, young, estimated in zip(case.steps, *columns, strict=True):
            step.waiting += waiting
            step.over += over
            step.triples += triples
            step.young += young
            step.estimated |= estimated

    # --- the answer ------------------------------------------------------------------------------

    def _finish(self, case: _Case) -> None:
        del self._cases[case.number]
        subscription = case.subscription
        if subscription is not None and subscription.number not in self._coordinator.home.subscriptions:
            case.done(_gone(subscription.number))
            return
        hashes, intern = self._dictionary.hashes, self._dictionary.intern
        sheet = Sheet(case.group, subscription, case.steps, self._nodes, lambda term: hashes[intern(term)])
        missing = [address(each) for each in case.unheard.values()]
        complete = self._messenger.cache.gap() is None
        said = sheet.told(
            list(self._problems(case, missing, complete=complete)), now=self._messenger.now,
            clock=hlc.seconds_ms(self._messenger.clock),
        )
        said["asked"] = {
            "nodes": case.asked + 1,
            "missing": missing[:_MISSING_NAMED_MAX],
            "missing_total": len(missing),
            "all_nodes_known": complete,
        }
        case.done(Explained(json.dumps(said)))

    def _nodes(self, key: int) -> list[str]:
        """Return the replicas of a key that this peer knows, the primary first."""
        messenger = self._messenger
        (keepers,) = messenger.placement.keepers([key])
        return [address(messenger.contact(number)) for number in keepers]

    def _problems(self, case: _Case, missing: list[str], *, complete: bool) -> Iterator[str]:
        """Name obstacles to solutions other than the patterns, and the peers that are not counted."""
        if case.subscription is not None:
            yield from self._problems_at_home(case.subscription)
        if missing:
            more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
            yield f"what some nodes hold is not counted, for they did not answer: {', '.join(missing[:3])}{more}"
        if not complete:
            yield f"not all nodes are known here: only {case.asked + 1} were asked"

    def _problems_at_home(self, subscription: Subscription) -> Iterator[str]:
        messenger = self._messenger
        members = messenger.members
        if members.short_of_peers:
            yield f"only {members.copies} of the {members.copies_needed} nodes are there that copies are needed at"
        if subscription.opening:
            yield "it is not live yet: its query is being installed"
        elif subscription.cut_off:
            where = address(subscription.subscriber)
            yield f"its node {where} is gone: answers wait until it is back, or the subscription is attached elsewhere"
        elif not subscription.delivered or not messenger.placement.speaks_for(subscription_home(subscription.number)):
            yield "its home still compares what it keeps with other nodes: answers may wait for that"
        elif subscription.log.sent and not subscription.log.handed_out:
            yield "its subscriber does not acknowledge what it was told: no more answers are handed out before"

    # --- time ------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Continue without answers that are overdue."""
        now = self._messenger.now
        for case in list(self._cases.values()):
            if case.due <= now:
                if case.question is None:
                    self._plan(case)
                else:
                    self._finish(case)
            elif case.again_at is not None and case.again_at <= now:
                case.again_at = None
                self._ask_unheard(case)
        for request, due in list(self._at_homes.items()):
            if due <= now:
                del self._at_homes[request]
                failed = Failed(Unavailable.code, "the home of the subscription did not answer in time")
                self._messenger.effects.append(Completed(request, failed))

    @property
    def deadline(self) -> float | None:
        """When the next action is due."""
        cases = [case.due if case.again_at is None else min(case.due, case.again_at) for case in self._cases.values()]
        return min([*self._at_homes.values(), *cases], default=None)


def _steps(group: Group) -> Iterator[tuple[int, Leaf, Step, int]]:
    """Yield the steps of all leaves in order of evaluation with the numbers of leaf and step.

    At most ``STEPS_MAX`` steps.
    """
    left = STEPS_MAX
    for at, leaf in enumerate(group.leaves):
        assert leaf.plan is not None, "whatever is explained is planned"
        for number, step in enumerate(leaf.plan.steps[:left]):
            left -= 1
            yield at, leaf, step, number


def _rates_request(number: int, leaf: int) -> int:
    return (number + leaf) % (1 << 64)


def _busy() -> Failed:
    busy = Busy(f"this node works on {CASES_MAX} explanations")
    return Failed(busy.code, str(busy))


def _gone(number: int) -> Failed:
    return Failed(
        SubscriptionGone.code, f"no subscription {number:016x}: it was ended, or its lease ran out"
    )


