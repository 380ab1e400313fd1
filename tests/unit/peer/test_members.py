"""A peer that lost its data, and did not get it again, counts as missing."""

from __future__ import annotations

from random import Random

import pytest

from p2prdf.columns import LISTS
from p2prdf.peer import Peer, PeerConfig
from p2prdf.peer.network.messenger import Exchange
from p2prdf.peer.network.quorum import Lacks
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.wire.contract import ContactSeen, OwnersFound, Persist, Send
from p2prdf.wire.messages import Contact, Leaving, MembersKnown, Offer, Parcel, Summary

OWN, ONE, OTHER = (Contact(key, f"peer-{key}", 1) for key in (1, 2, 3))


@pytest.fixture
def exchange() -> Exchange:
    """Return the messenger of one of three peers in sync, with two replicas of each key."""
    exchange = Exchange(OWN, PeerConfig(replicas=2, copies_min=2), LISTS)
    exchange.observe(1000.0)
    exchange.members.lacks_less(Lacks.NOTHING)
    exchange.recovery.caught_up = True
    for contact in (OWN, ONE, OTHER):
        exchange.seen(contact)
    exchange.members.count()
    return exchange


def _returns(exchange: Exchange, contact: Contact, lacks: Lacks) -> None:
    exchange.give_up(contact)
    exchange.seen(contact)
    exchange.members.note_lacking(contact, lacks)


@pytest.mark.parametrize(("lacks", "copies", "homes"), [
    (Lacks.NOTHING, False, False), (Lacks.COPIES, True, False), (Lacks.HOMES, True, True),
])  # fmt: skip
def test_a_peer_that_lost_its_data_and_an_absent_one_count_as_two(
    exchange: Exchange, lacks: Lacks, copies: bool, homes: bool
) -> None:
    _returns(exchange, ONE, lacks)
    assert not exchange.members.copies_missing
    exchange.give_up(OTHER)
    assert exchange.members.copies_missing == copies
    assert (exchange.members.lost_together_until is not None) == homes
    assert exchange.members.waits_for_peers_until == (1020.0 if homes else None)
    exchange.members.note_lacking(ONE, Lacks.NOTHING)
    assert not exchange.members.copies_missing


def test_a_new_peer_has_lost_nothing(exchange: Exchange) -> None:
    exchange.give_up(OTHER)
    exchange.seen(Contact(4, "newcomer", 1))
    exchange.members.note_lacking(Contact(4, "newcomer", 1), Lacks.HOMES)
    assert not exchange.members.copies_missing
    assert exchange.members.waits_for_peers_until is None


@pytest.mark.parametrize("lacks", [Lacks.NOTHING, Lacks.HOMES])
def test_a_restarted_peer_cannot_tell_new_peers_from_known_ones(exchange: Exchange, lacks: Lacks) -> None:
    """Even with no data of others: it may hold the only copy of data that they lost, if all began not long ago."""
    exchange.members.restored, exchange.members.lacks = True, lacks
    newcomer = Contact(4, "newcomer", 1)
    exchange.seen(newcomer)
    assert exchange.members.knows_before(newcomer)
    exchange.members.note_lacking(newcomer, Lacks.COPIES)
    exchange.give_up(OTHER)
    assert exchange.members.copies_missing


def _alone(**config: bool) -> Exchange:
    exchange = Exchange(OWN, PeerConfig(replicas=3, copies_min=2, **config), LISTS)
    exchange.observe(1000.0)
    exchange.seen(OWN)
    return exchange


def test_an_empty_peer_that_sees_nobody_waits_for_its_seeds() -> None:
    exchange = _alone(joins=True)
    assert (exchange.members.first_at, exchange.members.waits_for_peers_until) == (1020.0, 1020.0)
    assert exchange.members.short_of_peers
    exchange.seen(ONE)
    exchange.peers_came()
    exchange.members.note_lacking(ONE, Lacks.OTHERS)
    assert exchange.members.waits_for_peers_until == 1020.0, "it lost its disk as well, perhaps"
    assert not exchange.members.short_of_peers
    exchange.members.doors_met = True
    assert exchange.members.waits_for_peers_until is None, "nobody else is away"


def test_an_empty_peer_that_has_met_others_takes_itself_for_new_after_a_bounded_wait() -> None:
    exchange = _alone(joins=True)
    exchange.observe(1015.0)
    exchange.seen(ONE)
    exchange.peers_came()
    exchange.give_up(ONE)
    exchange.observe(1020.0)
    assert exchange.members.first_at == 1035.0, "it has lost another meanwhile"
    exchange.observe(1035.0)
    assert exchange.members.waits_for_peers_until is None
    for lacks in (Lacks.HOMES, Lacks.COPIES, Lacks.NOTHING):
        exchange.members.lacks_less(lacks)
        assert exchange.members.copies_needed == 2, "the cluster has had two members"


def test_time_alone_does_not_make_a_peer_with_seeds_a_cluster() -> None:
    exchange = _alone(joins=True)
    tried: list[bool] = []
    exchange.wait_for_peers(lambda: tried.append(True))
    for now in (1020.0, 1100.0, 90_000.0):
        exchange.observe(now)
        members = exchange.members
        assert (members.copies_needed, members.short_of_peers, members.first_at) == (2, True, now + 20)
    assert not tried
    members.doors_met = True  # the operator has declared that there are no others
    exchange.peers_came()
    members.lacks_less(Lacks.COPIES)
    assert (members.copies_needed, members.first_at, tried) == (1, None, [True])


def test_a_restored_peer_of_three_does_not_acknowledge_alone() -> None:
    for joins in (True, False):
        exchange = _alone(joins=joins)
        exchange.members.begin_restored()
        exchange.members.restore(MembersKnown(3, 0, False))
        exchange.members.doors_met = True
        exchange.observe(2000.0)
        assert exchange.members.short_of_peers


def test_an_empty_peer_does_not_wait_for_ever_while_others_come_and_go() -> None:
    exchange = _alone(joins=True)
    for second in range(1010, 1060, 10):
        exchange.observe(float(second))
        exchange.seen(ONE)
        exchange.peers_came()
        exchange.give_up(ONE)
    assert exchange.members.first_at == 1060.0
    exchange.observe(1060.0)
    assert exchange.members.first_at is None


def test_all_seeds_are_there_until_one_is_lost() -> None:
    exchange = _alone(joins=True)
    for contact in (ONE, OTHER):
        exchange.seen(contact)
    exchange.members.doors_met = True
    assert exchange.members.first_at is None
    exchange.give_up(OTHER)
    assert exchange.members.first_at is not None, "it went before it had said anything"


def test_a_question_alone_does_not_complete_the_recovery_of_a_peer() -> None:
    """Only the answer to its own question gives it the number of peers, and tells whether it had been there before."""
    peer = Peer(OWN, PeerConfig(replicas=2, copies_min=2, joins=True), TermDictionary(), LISTS, Random(1))
    peer.submit(OwnersFound(1, (OWN,), complete=True), now=1000.0)
    peer.submit(ContactSeen(ONE), now=1000.0)
    peer.receive(Parcel(1, 0, Summary(1, 18, 5, [0])), sender=ONE, now=1000.1)
    effects = [*peer.wake(now=1000.2), *peer.wake(now=1000.3)]
    assert peer.status()["lacks"] == "others"
    asked = [each.parcel.message for each in effects if isinstance(each, Send)]
    (question,) = (each for each in asked if isinstance(each, Summary))
    offer = Offer(question.request, question.kind, True, False, [], [], 0, False, 3, True)
    peer.receive(Parcel(2, 0, offer), sender=ONE, now=1000.4)
    peer.wake(now=1000.4)
    assert [peer.status()[each] for each in ("lacks", "members_max")] == ["homes", 3]


def test_a_peer_without_seeds_is_the_first_of_a_network_at_once() -> None:
    exchange = _alone()
    members = exchange.members
    assert (members.first_at, members.waits_for_peers_until, members.copies_needed) == (None, None, 1)


def test_a_complete_peer_misses_known_members_that_it_never_saw() -> None:
    exchange = _alone()
    exchange.members.lacks_less(Lacks.NOTHING)
    assert not exchange.members.somebody_missing
    exchange.members.most = 2
    assert exchange.members.somebody_missing
    exchange.observe(1020.0)
    assert not exchange.members.somebody_missing, "whoever is away for long is gone"


def test_a_returning_peer_hears_how_many_peers_are_gone_for_good() -> None:
    """From a peer that misses nobody: a peer that was away itself may not have met the newcomers."""
    exchange = _alone()
    exchange.members.lacks_less(Lacks.NOTHING)
    exchange.members.most = 5
    exchange.seen(ONE)
    exchange.members.hear(2, known=True)
    exchange.members.hear(0, known=True, complete=True)
    assert exchange.members.expected == 5
    exchange.members.hear(3, known=True, complete=True)
    assert (exchange.members.expected, exchange.members.somebody_missing) == (3, True)
    exchange.seen(OTHER)
    assert not exchange.members.somebody_missing
    assert exchange.members.most == 5


@pytest.mark.parametrize("restored", [True, False])
def test_a_newcomer_does_not_replace_a_missing_peer_in_the_count_of_a_restarted_one(restored: bool) -> None:
    exchange = _alone()
    exchange.members.lacks_less(Lacks.NOTHING)
    exchange.members.restored, exchange.members.most = restored, 2
    exchange.seen(ONE)
    exchange.members.note_lacking(ONE, Lacks.HOMES)
    assert exchange.members.somebody_missing == restored
    exchange.members.note_lacking(ONE, Lacks.NOTHING)
    assert exchange.members.somebody_missing == restored
    exchange.observe(1020.0)
    assert not exchange.members.somebody_missing


def test_a_peer_that_lost_its_own_disk_waits_for_one_fewer(exchange: Exchange) -> None:
    exchange.members.lacks = Lacks.HOMES
    exchange.members.hear(4, known=False)
    assert exchange.members.waits_for_peers_until is None, "it may be new"
    exchange.members.hear(4, known=True)
    assert exchange.members.waits_for_peers_until == 1020.0
    exchange.members.lacks_less(Lacks.COPIES)
    assert exchange.members.waits_for_peers_until is None
    exchange.members.hear(9, known=True)
    assert exchange.members.most == 4, "who was told all counts for itself"


def test_a_returning_peer_hears_the_present_number_of_peers(exchange: Exchange) -> None:
    exchange.recovery.caught_up = False
    exchange.members.hear(5, known=False)
    assert exchange.members.waits_for_peers_until == 1020.0


def test_two_empty_peers_complete_nothing_for_each_other(exchange: Exchange) -> None:
    exchange.members.lacks = Lacks.HOMES
    for contact in (ONE, OTHER):
        exchange.members.note_lacking(contact, Lacks.HOMES)
    assert (exchange.members.told_by_others, exchange.members.alone_until) == (False, 1005.0)
    exchange.members.note_lacking(OTHER, Lacks.COPIES)
    assert (exchange.members.told_by_others, exchange.members.alone_until) == (True, None)
    exchange.members.note_lacking(OTHER, Lacks.HOMES)
    exchange.observe(1005.0)
    assert exchange.members.told_by_others, "nobody who knows more has come for long"


def test_a_peer_missing_for_long_is_not_waited_for_again_when_another_goes(exchange: Exchange) -> None:
    exchange.give_up(OTHER)
    assert exchange.members.expected == 3
    exchange.observe(1030.0)
    assert exchange.members.expected == 2
    exchange.seen(Contact(4, "newcomer", 1))
    exchange.give_up(Contact(4, "newcomer", 1))
    assert exchange.members.expected == 3, "the newcomer alone is missing"
    exchange.seen(OTHER)
    exchange.seen(Contact(4, "newcomer", 1))
    exchange.members.count()
    exchange.give_up(OTHER)
    assert exchange.members.expected == 4, "it had come back"


def test_the_first_record_says_that_the_peer_began_empty() -> None:
    exchange = Exchange(OWN, PeerConfig(replicas=2, copies_min=2, durable=True), LISTS)
    exchange.persist(Leaving())
    exchange.persist(Leaving())
    kept = [each.message for each in exchange.effects if isinstance(each, Persist)]
    assert kept == [MembersKnown(1, Lacks.HOMES), Leaving(), Leaving()]


def test_the_time_to_read_the_disk_does_not_count_as_waiting(exchange: Exchange) -> None:
    exchange.give_up(OTHER)
    exchange.give_up(ONE)
    assert exchange.members.waits_for_peers_until == 1020.0
    exchange.members.begin_anew()
    exchange.observe(1100.0)
    assert exchange.members.waits_for_peers_until == 1120.0
