"""Two peers that cannot see each other for a while: publications at one are owed to subscriptions at the other."""

from __future__ import annotations

import pytest
from peer_pair import HIGH, LOW, QUERY, Pair

from p2prdf.columns import ARRAYS, LISTS, as_list
from p2prdf.rdf.query import Algorithm, ConjunctiveQuery
from p2prdf.wire.contract import (
    Attach,
    Attached,
    ContactLost,
    ContactSeen,
    Detach,
    Published,
    Subscribe,
    Subscribed,
    Unsubscribe,
    Unsubscribed,
)
from p2prdf.wire.messages import EndSubscription, GroupsGone, NamesRequest

JOIN = ConjunctiveQuery(((0, ~0, 1), (1, ~1, 2)), ("<p>", "<q>"), (0, 2), ("s", "o"))
TRIPLES = (("<a>", "<p>", "<b>"), ("<b>", "<q>", "<c>"))


@pytest.fixture(params=[LISTS, ARRAYS], ids=["light", "columnar"])
def pair(request) -> Pair:
    """Two replicas of everything that index only for existing queries."""
    pair = Pair(request.param, replicas=2, copies_min=1, indexes="on-demand")
    pair.compare()
    return pair


def _cut(pair: Pair, *, noticed: bool = True) -> None:
    pair.cut = True
    if noticed:
        pair.submit(LOW, ContactLost(HIGH))
        pair.submit(HIGH, ContactLost(LOW))


def _mend(pair: Pair) -> None:
    pair.cut = False
    pair.submit(LOW, ContactSeen(HIGH))
    pair.submit(HIGH, ContactSeen(LOW))
    pair.pass_time(60.0)


def _look_up_ring(pair: Pair) -> None:
    """Have both do something for which they look up the ring."""
    for request, contact in ((90, LOW), (91, HIGH)):
        pair.submit(contact, Subscribe(request, QUERY, Algorithm.CSBV, lease_seconds=600.0))
    pair.pass_time(5.0)


def test_indexes_that_the_other_part_has_not_heard_of_are_made_up_for(pair: Pair):
    _cut(pair)
    pair.pass_time(25.0)
    pair.subscribe(LOW, JOIN, lease_seconds=600.0)
    request = pair.publish(HIGH, *TRIPLES)
    pair.pass_time(1.0)
    assert isinstance(pair.completed[request], Published)
    assert not pair.notified
    _mend(pair)
    assert len(set(pair.identities())) == 1


def test_triples_published_before_the_cut_was_noticed_are_not_lost_either(pair: Pair):
    _cut(pair, noticed=False)
    pair.submit(LOW, ContactLost(HIGH))
    pair.subscribe(LOW, JOIN, lease_seconds=600.0)
    request = pair.publish(HIGH, *TRIPLES)  # HIGH has not noticed the cut, and knows of no subscription
    pair.pass_time(1.0)
    assert isinstance(pair.completed[request], Published)
    pair.submit(HIGH, ContactLost(LOW))
    _mend(pair)
    assert len(set(pair.identities())) == 1


@pytest.mark.parametrize("noticed", [True, False])
@pytest.mark.parametrize("columns", [LISTS, ARRAYS], ids=["light", "columnar"])
def test_events_are_made_up_for_where_all_indexes_of_triples_are_in_use(columns, noticed):
    """Indexes of publication events are not in use before a query over events waits (seed 8077)."""
    pair = Pair(columns, replicas=2, copies_min=1)
    pair.compare()
    _cut(pair, noticed=noticed)
    pair.submit(LOW, ContactLost(HIGH))
    pair.requests += 1
    subscribe = pair.requests
    pair.submit(LOW, Subscribe(subscribe, JOIN, Algorithm.CSBV, per_event=True, lease_seconds=600.0))
    pair.pass_time(1.0)
    assert isinstance(pair.completed[subscribe], Subscribed)
    pair.publish(HIGH, *TRIPLES)
    pair.pass_time(1.0)
    pair.submit(HIGH, ContactLost(LOW))
    _mend(pair)
    assert len(set(pair.identities())) == 1


def test_of_two_advertisements_the_earlier_counts(pair: Pair):
    _cut(pair, noticed=False)
    pair.submit(LOW, ContactLost(HIGH))
    pair.subscribe(LOW, JOIN, lease_seconds=600.0)
    pair.publish(HIGH, *TRIPLES)
    pair.pass_time(5.0)
    pair.submit(HIGH, ContactLost(LOW))
    pair.subscribe(HIGH, JOIN, lease_seconds=600.0)  # the same indexes, later, where the triples are
    _mend(pair)
    assert len(set(pair.identities())) == 1


def test_a_peer_that_said_goodbye_is_not_missed(pair: Pair):
    low = pair.peers[LOW.key]
    assert low.roles == 0
    pair.cut = True
    pair.submit(LOW, ContactLost(HIGH, left=True))
    assert low.roles == 0
    pair.submit(LOW, ContactSeen(HIGH))
    pair.submit(LOW, ContactLost(HIGH))
    assert low.roles != 0
    pair.pass_time(601.0)
    low.wake(now=pair.now)
    assert low.roles == 0, "whoever is missing for long is taken to be gone"


@pytest.mark.parametrize("last", [LOW, HIGH], ids=["low", "high"])
def test_a_query_joined_in_one_part_goes_on_though_its_last_subscription_ends_in_the_other(pair: Pair, last):
    """There no peer had noticed the partition yet, and the group ended at once (schedule "parted, again" 30)."""
    other = HIGH if last is LOW else LOW
    _look_up_ring(pair)
    first = pair.subscribe(last, JOIN, lease_seconds=600.0).subscription
    _cut(pair, noticed=False)
    pair.submit(other, ContactLost(last))
    second = pair.subscribe(other, JOIN, lease_seconds=600.0).subscription
    pair.submit(last, Unsubscribe(50, first))
    pair.pass_time(1.0)
    pair.submit(last, ContactLost(other))
    pair.pass_time(1.0)
    assert isinstance(pair.completed[50], Unsubscribed)
    _mend(pair)
    assert [each.subscription for each in pair.ended if each.subscription == second] == []
    pair.publish(last, *TRIPLES)
    pair.pass_time(1.0)
    assert second in [each.subscription for each in pair.notified]


@pytest.mark.parametrize("last", [LOW, HIGH], ids=["low", "high"])
def test_answers_for_a_subscription_that_ended_elsewhere_are_owed_to_one_heard_of_later(pair: Pair, last):
    """Its end came first, and the record of its answers went with it (schedule "parted, again" 20022)."""
    other = HIGH if last is LOW else LOW
    _look_up_ring(pair)
    first = pair.subscribe(last, JOIN, lease_seconds=86_400.0).subscription
    _cut(pair)
    second = pair.subscribe(other, JOIN, lease_seconds=86_400.0).subscription
    pair.publish(last, *TRIPLES)
    pair.submit(other, Unsubscribe(50, first))
    pair.pass_time(1.0)
    assert isinstance(pair.completed[50], Unsubscribed)
    assert second not in [each.subscription for each in pair.notified]
    _mend(pair)
    pair.pass_time(60.0)
    told = [as_list(each.identity) for each in pair.notified if each.subscription == second]
    assert len({identity for identities in told for identity in identities}) == 1


def test_a_query_without_subscriptions_ends_when_all_its_replicas_have_confirmed(pair: Pair):
    _look_up_ring(pair)
    number = pair.subscribe(LOW, JOIN, lease_seconds=600.0).subscription
    low, high = pair.listen(LOW), pair.listen(HIGH)
    pair.submit(LOW, Unsubscribe(50, number))
    pair.pass_time(0.1)
    heard = [type(each) for each in (*low, *high)]
    assert heard.count(NamesRequest) == 1
    assert heard.count(EndSubscription) == 2  # of the subscription, and then of its group
    assert GroupsGone in heard


@pytest.mark.parametrize("last", [LOW, HIGH], ids=["low", "high"])
def test_the_holder_in_one_part_hears_of_a_later_attachment_in_the_other(pair: Pair, last):
    """No peer there knew of the subscription; and an abandoned attachment may be carried out late (seed 69130)."""
    other, nothing = HIGH if last is LOW else LOW, pair.columns.column([])
    _cut(pair)
    number = pair.subscribe(last, JOIN, lease_seconds=86_400.0).subscription
    pair.publish(other, ("<x>", "<y>", "<z>"))  # it looks up the ring when it needs it
    _mend(pair)
    _cut(pair)
    pair.pass_time(25.0)
    for request, at in ((50, other), (51, last)):
        pair.submit(at, Attach(request, number, nothing))
        pair.pass_time(1.0)
        assert isinstance(pair.completed[request], Attached)
    pair.submit(last, Detach(number))
    assert not pair.ended
    _mend(pair)
    assert [(each.subscription, each.code) for each in pair.ended] == [(number, "unavailable")]
    pair.submit(other, Attach(52, number, nothing))
    pair.publish(last, *TRIPLES)
    pair.pass_time(60.0)
    assert isinstance(pair.completed[52], Attached)
    assert len(set(pair.identities())) == 1
    assert len(pair.ended) == 1
