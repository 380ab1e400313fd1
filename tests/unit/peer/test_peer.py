"""A peer against its contract: late, repeated, lost and malicious messages, and peers that come and go."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from peer_pair import HIGH, LOW, QUERY, Pair

from p2prdf import hlc, keys
from p2prdf.columns import ARRAYS, LISTS, as_list
from p2prdf.errors import LocalProtocolError
from p2prdf.peer import Peer, PeerConfig
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.rdf.query import Algorithm, ConjunctiveQuery
from p2prdf.wire.contract import (
    AcknowledgeAnswers,
    Attach,
    Attached,
    Completed,
    ContactLost,
    ContactSeen,
    Detach,
    Ended,
    Failed,
    FindOwner,
    Leave,
    Left,
    Notify,
    OwnersFound,
    Published,
    Send,
    Settled,
    Subscribe,
    Unsubscribe,
    Unsubscribed,
)
from p2prdf.wire.messages import (
    Acknowledge,
    Answers,
    AttachSubscription,
    CloseSubscription,
    Contact,
    Deliver,
    EndSubscription,
    Envelope,
    Fetch,
    HoldSubKeys,
    IdentityList,
    IndexTriples,
    KeyDepth,
    LoadRequest,
    LoadResponse,
    NotOwner,
    RatesRequest,
    RenewSubscriptions,
    Rows,
    SubscriptionClosed,
    SubscriptionOpened,
    SubscriptionRefused,
)


@pytest.fixture(params=[LISTS, ARRAYS], ids=["light", "columnar"])
def pair(request):
    """Two peers on either kind of tables."""
    return Pair(request.param)


@pytest.fixture(params=[LISTS, ARRAYS], ids=["light", "columnar"])
def pair_of_small_messages(request):
    """Two peers with messages of at most 500 characters of terms."""
    return Pair(request.param, message_bytes_max=500)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"overlay": "can"}, "setting overlay: 'can' is none of kademlia, chord"),
        ({"multisend": "iterative"}, "setting multisend: 'iterative' is none of direct, recursive"),
        ({"indexes": "none"}, "setting indexes: 'none' is none of all, on-demand, csbv, cqc"),
        ({"lookups_max": 0}, "setting lookups_max: 0 is not a positive number"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict, reason: str):
    with pytest.raises(LocalProtocolError, match=reason):
        PeerConfig(**settings)


def some(count: int, first: int = 0):
    """Different triples that match the query."""
    return [(f"<s{at}>", "<p>", f'"{at}"') for at in range(first, first + count)]


def replicas() -> Pair:
    """Two peers that both keep everything, and are in sync."""
    pair = Pair(replicas=2, copies_min=1)
    pair.publish(HIGH, ("<x>", "<y>", "<z>"))
    pair.pass_time(30.0)
    return pair


def test_a_publication_at_one_peer_notifies_a_subscriber_at_the_other(pair):
    """The smallest round: subscribe, publish, one notification."""
    pair.subscribe(LOW)
    request = pair.publish(HIGH, *some(3), *some(3))
    assert isinstance(pair.completed[request], Published)
    assert pair.sequences() == [1, 2, 3]
    assert all(each.quiet for each in pair.peers.values())


def test_a_returning_subscriber_gets_its_unacknowledged_answers(pair):
    """It returns at any peer, numbered from 1 in a new epoch; the answers that it claims to have are acknowledged."""
    outcome = pair.subscribe(LOW)
    pair.publish(HIGH, *some(10))
    told = pair.identities()
    assert len(told) == 10
    make = pair.columns.column
    pair.submit(LOW, AcknowledgeAnswers(40, outcome.subscription, make(told[:6])))
    assert pair.completed[40] == Settled(outcome.subscription)
    pair.submit(LOW, Detach(outcome.subscription))
    before = {each.epoch for each in pair.notified}
    pair.notified.clear()
    pair.submit(HIGH, Attach(50, outcome.subscription, make(told[4:8])))
    assert pair.sequences() == [1, 2]
    assert sorted(pair.identities()) == sorted(told[8:])
    assert before.isdisjoint(each.epoch for each in pair.notified)
    pair.publish(LOW, *some(1, first=10))
    assert pair.sequences() == [1, 2, 3]


def test_acknowledging_again_or_too_early_is_harmless(pair):
    """An answer acknowledged before it was derived is not delivered when it is."""
    outcome = pair.subscribe(LOW)
    pair.publish(HIGH, *some(2))
    told = pair.identities()
    make = pair.columns.column
    for request in (40, 41):
        pair.submit(LOW, AcknowledgeAnswers(request, outcome.subscription, make(told)))
        assert pair.completed[request] == Settled(outcome.subscription)
    pair.submit(LOW, AcknowledgeAnswers(42, outcome.subscription + 1, make(told)))
    assert pair.completed[42] == Settled(outcome.subscription + 1), "of what is gone nothing comes either"


def test_the_former_holder_of_a_subscription_is_told_of_its_new_holder(pair):
    outcome = pair.subscribe(LOW)
    pair.submit(HIGH, Attach(50, outcome.subscription, pair.columns.column([])))
    assert [(each.subscription, each.code) for each in pair.ended] == [(outcome.subscription, "unavailable")]
    pair.submit(LOW, Attach(51, outcome.subscription, pair.columns.column([])))
    assert len(pair.ended) == 2
    pair.publish(LOW, *some(3))
    assert pair.sequences() == [1, 2, 3]


def test_a_holder_overtaken_by_its_own_abandoned_attempt_is_told(pair):
    """Abandoned attempts may arrive later than the last one, and so may their answers (seed 373)."""
    number = pair.subscribe(LOW).subscription
    home = next(c for c in (LOW, HIGH) if pair.peers[c.key].status()["subscriptions_coordinated"])
    entry = HIGH if home is LOW else LOW
    nothing = pair.columns.column([])
    if entry is HIGH:
        pair.submit(LOW, Detach(number))
    pair.submit(entry, Attach(52, number, nothing))
    assert isinstance(pair.completed[52], Attached)
    pair.ended.clear()
    peer = pair.peers[home.key]
    for transfer, request, subscriber in ((1, 50, entry), (2, 51, home)):
        late = Envelope(1 << 40 | transfer, 0, AttachSubscription(request, number, subscriber, nothing))
        pair._carry_out(peer, peer.receive(late, sender=entry, now=pair.now))
    assert [(each.subscription, each.code) for each in pair.ended] == [(number, "unavailable")]
    pair.submit(entry, Attach(53, number, nothing))
    pair.pass_time(60.0)
    assert len(pair.ended) == 1
    pair.publish(LOW, *some(2))
    assert pair.sequences() == [1, 2]


def test_a_premature_notice_of_another_holder_is_checked_once_attached(pair):
    """Messages overtake each other: it may have been attached there before, and elsewhere since (seed 1307546)."""
    number = pair.subscribe(LOW).subscription
    home = next(c for c in (LOW, HIGH) if pair.peers[c.key].status()["subscriptions_coordinated"])
    entry, nothing = HIGH if home is LOW else LOW, pair.columns.column([])
    peer = pair.peers[entry.key]
    (wanted,) = peer.submit(Attach(50, number, nothing), now=pair.now)
    assert isinstance(wanted, FindOwner)
    peer.submit(OwnersFound(wanted.key, (home, entry), complete=True), now=pair.now)
    asked = []
    opened = SubscriptionOpened(50, number, 0, 60.0, ("s", "o"), (0,), 1)
    for transfer, told in enumerate((SubscriptionClosed(49, number, elsewhere=True), opened, opened), 1):
        effects = peer.receive(Envelope(1 << 40 | transfer, 0, told), sender=home, now=pair.now)
        envelopes = [each.envelope.message for each in effects if isinstance(each, Send)]
        asked.append([list(each.requests) for each in envelopes if isinstance(each, RenewSubscriptions)])
        attached = any(isinstance(each, Completed) and isinstance(each.outcome, Attached) for each in effects)
        assert attached == (transfer == 2)
    assert asked == [[], [[50]], []]


def test_an_attempt_to_attach_ends_with_its_subscriber(pair):
    """Repeated by the peer, it would take the subscription from its present holder."""
    number = pair.subscribe(LOW).subscription
    home = next(c for c in (LOW, HIGH) if pair.peers[c.key].status()["subscriptions_coordinated"])
    entry, nothing = HIGH if home is LOW else LOW, pair.columns.column([])
    pair.cut = True
    pair.submit(entry, Attach(50, number, nothing))
    pair.submit(entry, Attach(51, number, nothing))
    assert isinstance(pair.completed[50], Failed)
    pair.submit(entry, Detach(number))
    assert isinstance(pair.completed[51], Failed)
    assert pair.peers[entry.key].status()["subscriptions_local"] == 0


@pytest.mark.parametrize(("copies_min", "enough"), [(1, True), (2, False)])
def test_a_leaving_peer_reports_whether_enough_replicas_stay(copies_min, enough):
    """Its disk may be thrown away only with enough copies elsewhere: two of two must not become one of one."""
    pair = Pair(replicas=2, copies_min=copies_min)
    pair.pass_time(1.0)
    pair.publish(LOW, *some(3))
    pair.pass_time(5.0)
    pair.submit(LOW, Leave(70))
    pair.pass_time(5.0)
    assert pair.completed[70] == Left(enough)


def test_a_leaving_peer_offers_everything_once_more_after_late_answers_to_the_first_offer(pair):
    """Otherwise the data that it took in meanwhile would be lost with it (seed 7201)."""
    pair = Pair(pair.columns, replicas=2, copies_min=1)
    pair.pass_time(1.0)
    pair.publish(LOW, *some(3))
    pair.pass_time(5.0)
    peer = pair.peers[LOW.key]

    def offers(effects):
        envelopes = [each.envelope.message for each in effects if isinstance(each, Send)]
        return [each for each in envelopes if isinstance(each, IdentityList) and not each.asked]

    first = offers(peer.submit(Leave(70), now=pair.now))
    assert first
    effects = []
    for transfer, each in enumerate([*first, first[0]], 1):
        nothing = Envelope(1 << 40 | transfer, 0, Fetch(each.request, each.kind, False, pair.columns.column([])))
        effects += peer.receive(nothing, sender=HIGH, now=pair.now)
    effects += peer.wake(now=pair.now)
    assert not any(isinstance(each, Completed) for each in effects)
    assert sorted(each.kind for each in offers(effects)) == sorted(each.kind for each in first)


def test_a_leaving_peer_repeats_an_unanswered_offer(pair):
    """The other took it for lost for a moment, and dropped its answer (seed 10616)."""
    pair = Pair(pair.columns, replicas=2, copies_min=1)
    pair.pass_time(1.0)
    pair.publish(LOW, *some(3))
    pair.pass_time(5.0)
    pair.cut = True
    pair.submit(LOW, Leave(70))
    for contact in (LOW, HIGH):  # no message in flight between them is ever sent again
        pair.peers[contact.key]._messenger.outbox.lost(HIGH if contact is LOW else LOW)
    pair.cut = False
    pair.pass_time(3.0)
    assert 70 not in pair.completed
    pair.pass_time(10.0)
    assert pair.completed[70] == Left(True)


def test_a_leaving_peer_waits_longer_after_each_unanswered_offer(pair):
    """Of peers that leave at once with very much data, none answers soon; with too many requests, none ever does."""
    pair = Pair(pair.columns, replicas=2, copies_min=1)
    pair.pass_time(1.0)
    pair.publish(LOW, *some(3))
    pair.pass_time(5.0)
    peer = pair.peers[LOW.key]

    def last(effects):
        envelopes = [each.envelope.message for each in effects if isinstance(each, Send)]
        return max((each.request for each in envelopes if isinstance(each, IdentityList)), default=0)

    newest, rounds = last(peer.submit(Leave(70), now=pair.now)), []
    for seconds in range(1, 60):
        if (request := last(peer.wake(now=pair.now + seconds))) > newest:
            newest = request
            rounds.append(seconds)
    assert rounds == [5, 15, 35]


def test_an_attempt_that_another_has_overtaken_is_not_repeated(pair):
    number = pair.subscribe(LOW).subscription
    home = next(c for c in (LOW, HIGH) if pair.peers[c.key].status()["subscriptions_coordinated"])
    entry = HIGH if home is LOW else LOW
    pair.cut = True
    pair.submit(entry, Attach(50, number, pair.columns.column([])))
    peer = pair.peers[entry.key]
    told = Envelope(1 << 40, 0, SubscriptionClosed(50, number, elsewhere=True))
    pair._carry_out(peer, peer.receive(told, sender=home, now=pair.now))
    assert isinstance(pair.completed[50], Failed)
    assert pair.peers[entry.key].status()["subscriptions_local"] == 0


@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize("at", [LOW, HIGH], ids=["at the same peer", "at another"])
def test_a_subscriber_hears_at_once_that_another_client_ended_its_subscription(at, copies):
    """For any length of its lease: otherwise it would wait for nothing until the renewal."""
    pair = Pair() if copies == 1 else replicas()
    number = pair.subscribe(LOW, lease_seconds=86_400.0).subscription
    pair.submit(at, Unsubscribe(50, number))
    assert pair.completed[50] == Unsubscribed(number)
    assert [(each.subscription, each.code) for each in pair.ended] == [(number, "subscription-gone")]
    assert all(each.quiet and not each.status()["subscriptions_local"] for each in pair.peers.values())


def test_a_client_that_ends_its_own_subscription_is_told_of_its_success_first():
    """By then it does not wait for solutions any more: it needs no notice of the end."""
    pair = replicas()
    number = pair.subscribe(LOW).subscription
    heard = []
    carry_out = pair._carry_out

    def listening(peer, effects):
        for step in ("receive", "wake"):
            for each in pair.peers.values():
                original = getattr(type(each), step).__get__(each)
                setattr(each, step, lambda *given, original=original, **more: kept(original(*given, **more)))
        carry_out(peer, kept(effects))

    def kept(effects):
        heard.extend(each for each in effects if isinstance(each, Completed | Ended))
        return effects

    pair._carry_out = listening
    pair.submit(LOW, Unsubscribe(50, number))
    assert [type(each) for each in heard] == [Completed, Ended]


def test_all_clients_that_end_a_subscription_here_hear_of_it_before_its_holder(pair):
    number = pair.subscribe(LOW).subscription
    home = next(c for c in (LOW, HIGH) if pair.peers[c.key].status()["subscriptions_coordinated"])
    entry = HIGH if home is LOW else LOW
    pair.submit(entry, Attach(50, number, pair.columns.column([])))
    pair.ended.clear()
    pair.cut = True
    for request in (51, 52):
        pair.submit(entry, Unsubscribe(request, number))
    peer = pair.peers[entry.key]
    for transfer, request in enumerate((51, 52), 1):
        assert pair.ended == []
        told = Envelope(1 << 40 | transfer, 0, SubscriptionClosed(request, number))
        pair._carry_out(peer, peer.receive(told, sender=home, now=pair.now))
        assert pair.completed[request] == Unsubscribed(number)
    assert len(pair.ended) == 1


def test_a_renewing_subscriber_is_not_told_of_an_end_with_too_few_copies(pair):
    """The only peer that knew of the end lost its disk, and the subscription lived on (schedule 2223 of three)."""
    pair = Pair(pair.columns, replicas=2, copies_min=2)
    pair.publish(LOW, *some(1))  # so that it looks up the replicas
    pair.publish(HIGH, *some(1))
    pair.pass_time(30.0)
    pair.submit(LOW, Subscribe(49, QUERY, Algorithm.CSBV, lease_seconds=600.0))
    pair.pass_time(10.0)
    number = pair.completed[49].subscription
    pair.cut = True
    pair.submit(LOW, ContactLost(HIGH))
    pair.submit(HIGH, ContactLost(LOW))
    pair.pass_time(25.0)
    for request in (50, 51):
        pair.submit(LOW, Unsubscribe(request, number))
        pair.pass_time(0.5)
    assert not pair.peers[LOW.key]._coordinator.home.subscriptions
    assert not any(isinstance(each, Unsubscribed) for each in pair.completed.values())
    pair.cut = False
    pair.submit(LOW, ContactSeen(HIGH))
    pair.submit(HIGH, ContactSeen(LOW))
    pair.pass_time(5.0)
    assert pair.completed[50] == pair.completed[51] == Unsubscribed(number)
    assert not pair.peers[HIGH.key]._coordinator.home.subscriptions


def test_a_refused_unsubscribe_does_not_delay_the_news_of_anothers_unsubscribe():
    """News of the end wait for the answer to the own request; if that is a refusal, the coordinator is asked."""
    pair = replicas()
    number = pair.subscribe(LOW, lease_seconds=86_400.0).subscription
    home = next(c for c in (LOW, HIGH) if pair.peers[c.key]._coordinator.home.subscriptions[number].delivered)
    entry = HIGH if home is LOW else LOW
    pair.submit(entry, Attach(50, number, pair.columns.column([])))
    pair.pass_time(3.0)
    pair.ended.clear()
    pair.cut = True
    pair.submit(entry, Unsubscribe(51, number))
    peer, pair.cut = pair.peers[entry.key], False
    refused = SubscriptionRefused(51, "not-allowed", "another client's")
    effects = peer.receive(Envelope(1 << 40, 0, refused), sender=home, now=pair.now)
    assert any(isinstance(each, Send) and isinstance(each.envelope.message, RenewSubscriptions) for each in effects)
    assert pair.completed.get(51) is None


def test_a_subscriber_without_a_notice_of_an_end_hears_of_it_soon_after():
    """A failing coordinator may have told the replicas alone; the end is valid with them."""
    pair = replicas()
    number = pair.subscribe(LOW, lease_seconds=86_400.0).subscription
    make = pair.columns.column
    ended = Envelope(1 << 40, 0, EndSubscription(make([number]), make([0]), make([hlc.from_seconds(pair.now)])))
    for contact, other in ((LOW, HIGH), (HIGH, LOW)):
        peer = pair.peers[contact.key]
        pair._carry_out(peer, peer.receive(ended, sender=other, now=pair.now))
    assert pair.ended == []
    pair.pass_time(31.0)
    assert [(each.subscription, each.code) for each in pair.ended] == [(number, "subscription-gone")]


def test_leases_are_renewed_together_and_kept_while_a_subscriber_is_there():
    pair = replicas()
    leases = (12.0, 40.0, 90.0, 3600.0, 86_400.0)
    numbers = {pair.subscribe(each, lease_seconds=lease).subscription for lease in leases for each in (LOW, HIGH)}
    heard = {contact: pair.listen(contact) for contact in (LOW, HIGH)}
    pair.pass_time(500.0)
    renewals = [each for every in heard.values() for each in every if isinstance(each, RenewSubscriptions)]
    told = [number for each in renewals for number in as_list(each.subscriptions)]
    assert set(told) <= numbers
    assert len(renewals) < 0.9 * len(told)
    assert pair.ended == []
    assert {*pair.peers[LOW.key]._coordinator.home.subscriptions} == numbers


def test_without_replicas_a_subscription_survives_a_short_absence_of_its_coordinator(pair):
    """Another peer, asked in its place, would report no such subscription, which ends it for its subscriber."""
    number = pair.subscribe(LOW, lease_seconds=86_400.0).subscription
    home = next(c for c in (LOW, HIGH) if pair.peers[c.key].status()["subscriptions_coordinated"])
    entry = HIGH if home is LOW else LOW
    pair.submit(entry, Attach(50, number, pair.columns.column([])))
    pair.ended.clear()
    pair.submit(entry, ContactLost(home))
    pair.pass_time(100.0)
    pair.submit(entry, ContactSeen(home))
    pair.publish(LOW, *some(1))
    assert pair.ended == []
    assert pair.sequences() == [1]


@pytest.mark.parametrize("told", [False, True], ids=["before its answer", "with the end of who ends it"])
def test_attaching_a_subscription_that_ends_meanwhile_is_refused_in_any_order_of_answers(pair, told):
    """After a confirmed attachment the client would wait for ever."""
    number = pair.subscribe(LOW).subscription
    home = next(c for c in (LOW, HIGH) if pair.peers[c.key].status()["subscriptions_coordinated"])
    entry, nothing = HIGH if home is LOW else LOW, pair.columns.column([])
    peer = pair.peers[entry.key]
    pair.cut = True
    pair.submit(entry, Attach(50, number, nothing))
    if told:
        pair.submit(entry, Unsubscribe(51, number))
    answers = SubscriptionClosed(51 * told, number), SubscriptionOpened(50, number, 0, 60.0, ("s", "o"), (0,), 1)
    for transfer, answer in enumerate(answers, 1):
        pair._carry_out(peer, peer.receive(Envelope(1 << 40 | transfer, 0, answer), sender=home, now=pair.now))
    assert isinstance(pair.completed[50], Failed)
    assert pair.completed[50].code == "subscription-gone"
    assert pair.completed.get(51) == (Unsubscribed(number) if told else None)
    assert pair.ended == []
    assert peer.status()["subscriptions_local"] == 0


def test_news_of_an_end_from_others_wait_for_the_answer_to_the_own_request(pair):
    """The end may not be safe yet, and the client that asked for it is to hear of it before any other."""
    number = pair.subscribe(LOW).subscription
    home = next(c for c in (LOW, HIGH) if pair.peers[c.key].status()["subscriptions_coordinated"])
    entry = HIGH if home is LOW else LOW
    pair.submit(entry, Attach(50, number, pair.columns.column([])))
    peer = pair.peers[entry.key]
    pair.ended.clear()
    pair.cut = True
    pair.submit(entry, Unsubscribe(51, number))
    for transfer, request in enumerate((0, 51), 1):
        assert (51 in pair.completed, len(pair.ended)) == (False, 0)
        told = Envelope(1 << 40 | transfer, 0, SubscriptionClosed(request, number))
        pair._carry_out(peer, peer.receive(told, sender=home, now=pair.now))
    assert pair.completed[51] == Unsubscribed(number)
    assert len(pair.ended) == 1


def test_an_attachment_is_not_confirmed_when_it_was_ended_before_all_replicas_knew_of_it():
    pair = replicas()
    number = pair.subscribe(LOW).subscription
    home = next(c for c in (LOW, HIGH) if pair.peers[c.key].status()["subscriptions_coordinated"])
    peer, other = pair.peers[home.key], HIGH if home is LOW else LOW
    nothing = pair.columns.column([])
    sent = []
    for transfer, asked in enumerate((
        AttachSubscription(50, number, other, nothing), CloseSubscription(51, number, home),
    ), 1):  # fmt: skip
        sent += peer.receive(Envelope(1 << 40 | transfer, 0, asked), sender=other, now=pair.now)
    pair.ended.clear()
    heard = pair.listen(other)
    pair._carry_out(peer, sent)
    opened = [each for each in heard if isinstance(each, SubscriptionOpened)]
    refused = [each.code for each in heard if isinstance(each, SubscriptionRefused)]
    assert (opened, refused) == ([], ["subscription-gone"])


@pytest.mark.parametrize("lease", [3.0, 600.0])
def test_attaching_keeps_the_lease_that_was_asked_for(pair, lease):
    """A short lease is renewed in time, a long one stays long after the subscriber left again."""
    outcome = pair.subscribe(LOW, lease_seconds=lease)
    pair.submit(HIGH, Attach(50, outcome.subscription, pair.columns.column([])))
    pair.pass_time(100.0)
    pair.publish(LOW, *some(1))
    assert pair.sequences() == [1]
    pair.submit(HIGH, Detach(outcome.subscription))
    pair.pass_time(lease * 0.6)
    assert sum(int(each.status()["subscriptions_coordinated"]) for each in pair.peers.values()) == 1
    pair.pass_time(lease * 2)
    assert sum(int(each.status()["subscriptions_coordinated"]) for each in pair.peers.values()) == 0


def test_answers_expired_during_an_absence_are_reported_as_lost():
    """Delivered or not; a quiet subscriber hears of it before the next answer."""
    pair = Pair(retention_seconds=10.0)
    outcome = pair.subscribe(LOW, lease_seconds=600.0)
    pair.publish(LOW, *some(3))
    pair.submit(LOW, Detach(outcome.subscription))
    pair.publish(LOW, *some(4, 10))
    assert pair.sequences() == [1, 2, 3]
    pair.pass_time(30.0)
    assert sum(int(each.status()["solutions_dropped"]) for each in pair.peers.values()) == 7
    assert sum(int(each.status()["solutions_held"]) for each in pair.peers.values()) == 0
    pair.notified.clear()
    pair.submit(HIGH, Attach(50, outcome.subscription, pair.columns.column([])))
    assert [(each.first, each.lost, len(each.identity)) for each in pair.notified] == [(8, 7, 0)]
    pair.publish(LOW, *some(2, 20))
    assert pair.sequences() == [8, 9]


def test_text_beyond_the_bound_is_reported_as_lost():
    pair = Pair(retention_bytes=3000)
    outcome = pair.subscribe(LOW, lease_seconds=600.0)
    pair.submit(LOW, Detach(outcome.subscription))
    for number in range(20):
        pair.publish(LOW, (f"<s{number}>", "<p>", '"' + "x" * 500 + f'{number}"'))
    pair.submit(LOW, Attach(50, outcome.subscription, pair.columns.column([])))
    (lost,) = {each.lost for each in pair.notified} - {0}
    assert 10 < lost < 20
    assert pair.sequences() == list(range(lost + 1, 21))


def test_attaching_to_nothing_leaves_nothing_behind(pair):
    """Clients that guess numbers cost no memory."""
    for number in range(20):
        pair.submit(LOW, Attach(100 + number, number << 40, pair.columns.column([])))
    assert all(isinstance(pair.completed[100 + number], Failed) for number in range(20))
    assert pair.peers[LOW.key].status()["subscriptions_local"] == 0


def test_an_acknowledgement_from_another_peer_closes_nothing(pair):
    """Neither a stranger's nor a former incarnation's acknowledgement loses a message."""
    pair.subscribe(LOW)
    pair.cut = True
    request = pair.publish(LOW, *some(4))
    peer = pair.peers[LOW.key]
    numbers = pair.columns.column(range(1, 2000))
    stranger = Contact(77, "x", 1)
    pair._carry_out(peer, peer.receive(Envelope(0, 0, Acknowledge(numbers)), sender=stranger, now=pair.now))
    pair._carry_out(peer, peer.receive(Envelope(0, 0, Acknowledge(numbers)), sender=HIGH, now=pair.now))
    assert request not in pair.completed
    pair.cut = False
    pair.pass_time(30.0)
    assert isinstance(pair.completed[request], Published)
    assert sorted(pair.sequences()) == [1, 2, 3, 4]


def test_a_peer_that_was_away_receives_the_missed_messages(pair):
    """Messages in flight to a lost peer are sent anew when it is seen again."""
    outcome = pair.subscribe(LOW)
    home = next(c for c in (LOW, HIGH) if pair.peers[c.key].status()["subscriptions_coordinated"])
    entry = HIGH if home is LOW else LOW
    pair.submit(entry, Attach(50, outcome.subscription, pair.columns.column([])))
    pair.cut = True
    pair.submit(home, ContactLost(entry))
    pair.publish(home, *some(5))
    pair.pass_time(5.0)
    assert pair.sequences() == []
    pair.cut = False
    pair.submit(home, ContactSeen(entry))
    pair.pass_time(30.0)
    assert sorted(pair.sequences()) == [1, 2, 3, 4, 5]
    assert all(each.quiet for each in pair.peers.values())


def test_a_lost_peer_takes_nothing_along_that_is_under_way(pair):
    """Triples on their way to a lost peer go to the present owners of their keys; the publication completes."""
    pair.cut = True
    request = pair.publish(LOW, *some(10))
    assert request not in pair.completed
    pair.submit(LOW, ContactLost(HIGH))
    pair.pass_time(1.0)
    assert isinstance(pair.completed[request], Published)
    assert pair.peers[LOW.key].status()["triples"] == 10
    assert pair.peers[LOW.key].quiet


@pytest.mark.parametrize("columns", [LISTS, ARRAYS], ids=["light", "columnar"])
def test_answers_for_several_coordinators_are_passed_on_without_an_address_cache(columns):
    """Each lookup resolves one key and is forgotten: no message may wait for two at once."""
    peer = Peer(LOW, PeerConfig(address_cache=False), TermDictionary(), columns)
    peer.submit(ContactSeen(HIGH), now=1.0)
    groups = [(1 << 64) - (at << 40) >> 20 << 20 for at in (1, 2)]
    column, stamps = columns.column, columns.column([5, 5])
    rows = Rows(column([0, 1], "uint32"), column([8, 9]), stamps, stamps, ())
    effects = peer.receive(Envelope(1, 0, Answers(column(groups), rows)), sender=HIGH, now=1.0)
    wanted = [each.key for each in effects if isinstance(each, FindOwner)]
    assert wanted == groups
    for key in wanted:
        effects = peer.submit(OwnersFound(key, (HIGH, LOW), complete=True), now=1.0)
        ((group,),) = [
            as_list(each.envelope.message.groups)
            for each in effects
            if isinstance(each, Send) and isinstance(each.envelope.message, Answers)
        ]
        assert group == key


def test_an_answer_that_fits_no_message_is_left_out_and_the_others_come(pair_of_small_messages):
    """All attempts to send it would fail; nothing may wait for it."""
    pair = pair_of_small_messages
    star = ConjunctiveQuery(((0, ~0, 1), (0, ~1, 2)), ("<p>", "<q>"), (1, 2), ("a", "b"))
    pair.subscribe(LOW, star)
    long = '"' + "x" * 300 + '"'
    pair.publish(HIGH, ("<s1>", "<p>", long), ("<s2>", "<p>", '"short"'))
    pair.publish(LOW, ("<s1>", "<q>", long), ("<s2>", "<q>", '"short"'), ("<s1>", "<q>", '"short"'))
    pair.pass_time(20.0)
    assert sorted(len(each.identity) for each in pair.notified) in ([1, 1], [2])
    assert "answer-too-large" in [each.event for each in pair.traces]
    assert all(each.quiet for each in pair.peers.values())
    refused = pair.publish(LOW, (f"<{'s' * 300}>", "<p>", long))
    assert pair.completed[refused] == Failed("data-refused", "a triple of more than 500 characters")


@pytest.mark.parametrize("roles", [[], [9], [1, 2]])
def test_a_bad_message_is_refused_and_nothing_else(pair, roles):
    """The message raises nothing, changes nothing, and is traced."""
    peer = pair.peers[LOW.key]
    make = pair.columns.column
    some_term = [pair.dictionary.intern("<p>")] * len(roles)
    message = RatesRequest(1, HIGH, *(make(each, "uint32") for each in ([0] * len(roles), roles, *[some_term] * 3)))
    pair._carry_out(peer, peer.receive(Envelope(0, 0, message), sender=HIGH, now=pair.now))
    assert [each.event for each in pair.traces] == ["message-refused"]
    assert peer.status()["refused"] == 1


_KEY = st.integers(0, (1 << 64) - 1) | st.sampled_from([LOW.key, HIGH.key, 2, 3])
_PLACE = (st.sampled_from(keys.SPLIT_ROLES), _KEY, st.integers(0, keys.DEPTH_MAX))
_CONTACT = st.builds(Contact, _KEY, st.just("somewhere"), st.just(1))
_ANYTHING = st.one_of(
    st.builds(LoadRequest, st.integers(0, 9)),
    st.builds(LoadResponse, st.integers(0, 9), st.integers(0, (1 << 64) - 1), st.floats()),
    st.builds(HoldSubKeys, *_PLACE),
    st.builds(KeyDepth, *_PLACE),
    st.lists(_CONTACT, max_size=3).map(tuple).map(NotOwner),
    st.lists(_CONTACT, max_size=3).map(tuple).map(lambda each: NotOwner(each, each[::-1])),
    st.lists(st.integers(0, 300), max_size=3).map(Acknowledge),
    st.tuples(st.integers(0, (1 << 24) - 1), st.integers(0, 255), st.integers(0, 9)),  # indexes, hops, view
)


@settings(max_examples=150, deadline=None)
@given(st.lists(_ANYTHING, max_size=12), st.sampled_from([LISTS, ARRAYS]), st.sampled_from(["direct", "recursive"]))
def test_no_message_about_loads_depths_and_owners_raises_or_loses_a_triple(said, columns, multisend):
    """All messages that pass validation, in any order, during a subscription and publications."""
    pair = Pair(columns, multisend=multisend, hot_sample=1, hot_rate_min=1, hot_interval_seconds=0.5)
    pair.subscribe(LOW)
    low, term = pair.peers[LOW.key], pair.dictionary.intern("<x>")
    for each in said:
        if isinstance(each, tuple):
            roles, hops, view = each
            one = (columns.full(1, term, "uint32"),) * 3
            stamp = columns.full(1, hlc.from_seconds(1.0))
            message = IndexTriples(*one, stamp, stamp, columns.full(1, roles, "uint32"), hops, view)
        else:
            message = Acknowledge(columns.column(each.transfers)) if isinstance(each, Acknowledge) else each
        pair._carry_out(low, low.receive(Envelope(0, 0, message), sender=HIGH, now=pair.now))
        pair.pass_time(0.3)
    assert not [each for each in pair.traces if each.event == "message-refused"]
    if not any(isinstance(each, NotOwner) for each in said):  # a peer that never existed cannot be reached
        request = pair.publish(HIGH, *some(3))
        pair.pass_time(20.0)
        assert isinstance(pair.completed[request], Published)
        assert sum(len(each.identity) for each in pair.notified) == 3


@pytest.mark.parametrize("kind", [HoldSubKeys, KeyDepth])
def test_a_flood_of_keys_fills_no_table_beyond_its_bound(pair, kind):
    low = pair.peers[LOW.key]
    near = HIGH.key if kind is KeyDepth else 0  # a sender hears the depth of another peer's keys
    for at in range(4200):
        low.receive(Envelope(0, 0, kind(keys.P, near ^ at, 1)), sender=HIGH, now=pair.now)
    hot = low._engine.hot
    assert max(len(hot._known), len(hot._held)) == 4096
    assert not hot._splits


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_solutions_are_handed_on_in_order_and_once_however_they_were_cut(data):
    """Chunks of two epochs, cut in several ways, repeated and shuffled: each epoch is delivered for itself."""
    peer = Peer(LOW, PeerConfig(), TermDictionary(), LISTS)
    effects = peer.submit(ContactSeen(HIGH), now=1.0)
    effects += peer.submit(OwnersFound(0, (LOW, HIGH), complete=True), now=1.0)
    subscription = HIGH.key >> 20 << 20 | 5
    peer.submit(Subscribe(1, QUERY), now=1.0)
    opened = SubscriptionOpened(1, subscription, 1, 60.0, ("s", "o"), (0,))
    peer.receive(Envelope(0, 0, opened), sender=HIGH, now=1.0)
    last = data.draw(st.integers(1, 25))
    chunks = []
    for epoch in [5, 6, *data.draw(st.lists(st.sampled_from([5, 6]), max_size=3))]:
        start = 1
        while start <= last:
            size = data.draw(st.integers(1, 8))
            numbers = list(range(start, min(start + size, last + 1)))
            chunks.append(Deliver(subscription, start, 0, numbers, numbers, (numbers, numbers), epoch))
            start += size
    told: dict[int, list[int]] = {5: [], 6: []}
    for chunk in data.draw(st.permutations(chunks)):
        for effect in peer.receive(Envelope(0, 0, chunk), sender=HIGH, now=1.0):
            if isinstance(effect, Notify):
                assert effect.first == len(told[effect.epoch]) + 1
                told[effect.epoch].extend(as_list(effect.identity))
    assert told == {5: list(range(1, last + 1)), 6: list(range(1, last + 1))}
