"""A peer that lost its data, and did not get it again, counts as missing."""

from __future__ import annotations

from random import Random

import pytest

from p2prdf.columns import LISTS
from p2prdf.peer import Peer, PeerConfig
from p2prdf.peer.network.messenger import Messenger
from p2prdf.peer.network.quorum import RecoveryState
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.wire.contract import ContactSeen, OwnersFound, Persist, Send
from p2prdf.wire.messages import BucketDigests, Contact, Envelope, IdentityList, Leaving, MembersKnown

OWN, ONE, OTHER = (Contact(key, f"peer-{key}", 1) for key in (1, 2, 3))


@pytest.fixture
def messenger() -> Messenger:
    """Return the messenger of one of three peers in sync, with two replicas of each key."""
    messenger = Messenger(OWN, PeerConfig(replicas=2, copies_min=2), LISTS)
    messenger.observe(1000.0)
    messenger.members.lacks_less(RecoveryState.COMPLETE)
    messenger.recovery.caught_up = True
    for contact in (OWN, ONE, OTHER):
        messenger.seen(contact)
    messenger.members.count()
    return messenger


def _returns(messenger: Messenger, contact: Contact, lacks: RecoveryState) -> None:
    messenger.give_up(contact)
    messenger.seen(contact)
    messenger.members.note_lacking(contact, lacks)


@pytest.mark.parametrize(("lacks", "copies", "homes"), [
    (RecoveryState.COMPLETE, False, False), (RecoveryState.DATA, True, False),
    (RecoveryState.SUBSCRIPTIONS, True, True),
])  # fmt: skip
def test_a_peer_that_lost_its_data_and_an_absent_one_count_as_two(
    messenger: Messenger, lacks: RecoveryState, copies: bool, homes: bool
) -> None:
    _returns(messenger, ONE, lacks)
    assert not messenger.members.copies_missing
    messenger.give_up(OTHER)
    assert messenger.members.copies_missing == copies
    assert (messenger.members.lost_together_until is not None) == homes
    assert messenger.members.waits_for_peers_until == (1020.0 if homes else None)
    messenger.members.note_lacking(ONE, RecoveryState.COMPLETE)
    assert not messenger.members.copies_missing


def test_a_new_peer_has_lost_nothing(messenger: Messenger) -> None:
    messenger.give_up(OTHER)
    messenger.seen(Contact(4, "newcomer", 1))
    messenger.members.note_lacking(Contact(4, "newcomer", 1), RecoveryState.SUBSCRIPTIONS)
    assert not messenger.members.copies_missing
    assert messenger.members.waits_for_peers_until is None


@pytest.mark.parametrize("lacks", [RecoveryState.COMPLETE, RecoveryState.SUBSCRIPTIONS])
def test_a_restarted_peer_cannot_tell_new_peers_from_known_ones(messenger: Messenger, lacks: RecoveryState) -> None:
    """Even with no data of others: it may hold the only copy of data that they lost, if all began not long ago."""
    messenger.members.restored, messenger.members.lacks = True, lacks
    newcomer = Contact(4, "newcomer", 1)
    messenger.seen(newcomer)
    assert messenger.members.knows_before(newcomer)
    messenger.members.note_lacking(newcomer, RecoveryState.DATA)
    messenger.give_up(OTHER)
    assert messenger.members.copies_missing


def _alone(**config: bool) -> Messenger:
    messenger = Messenger(OWN, PeerConfig(replicas=3, copies_min=2, **config), LISTS)
    messenger.observe(1000.0)
    messenger.seen(OWN)
    return messenger


def test_an_empty_peer_that_sees_nobody_waits_for_its_seeds() -> None:
    messenger = _alone(has_seeds=True)
    assert (messenger.members.first_at, messenger.members.waits_for_peers_until) == (1020.0, 1020.0)
    assert messenger.members.short_of_peers
    messenger.seen(ONE)
    messenger.peers_came()
    messenger.members.note_lacking(ONE, RecoveryState.UNKNOWN)
    assert messenger.members.waits_for_peers_until == 1020.0, "it lost its disk as well, perhaps"
    assert not messenger.members.short_of_peers
    messenger.members.seeds_reached = True
    assert messenger.members.waits_for_peers_until is None, "nobody else is away"


def test_an_empty_peer_that_has_met_others_takes_itself_for_new_after_a_bounded_wait() -> None:
    messenger = _alone(has_seeds=True)
    messenger.observe(1015.0)
    messenger.seen(ONE)
    messenger.peers_came()
    messenger.give_up(ONE)
    messenger.observe(1020.0)
    assert messenger.members.first_at == 1035.0, "it has lost another meanwhile"
    messenger.observe(1035.0)
    assert messenger.members.waits_for_peers_until is None
    for lacks in (RecoveryState.SUBSCRIPTIONS, RecoveryState.DATA, RecoveryState.COMPLETE):
        messenger.members.lacks_less(lacks)
        assert messenger.members.copies_needed == 2, "the cluster has had two members"


def test_time_alone_does_not_make_a_peer_with_seeds_a_cluster() -> None:
    messenger = _alone(has_seeds=True)
    tried: list[bool] = []
    messenger.wait_for_peers(lambda: tried.append(True))
    for now in (1020.0, 1100.0, 90_000.0):
        messenger.observe(now)
        members = messenger.members
        assert (members.copies_needed, members.short_of_peers, members.first_at) == (2, True, now + 20)
    assert not tried
    members.seeds_reached = True  # the operator has declared that there are no others
    messenger.peers_came()
    members.lacks_less(RecoveryState.DATA)
    assert (members.copies_needed, members.first_at, tried) == (1, None, [True])


def test_an_operation_that_waits_for_peers_is_complete_after_it_has_run() -> None:
    messenger = _alone(has_seeds=True)
    done: list[str] = []
    token = messenger.token(lambda: done.append("complete"))
    messenger.wait_for_peers(lambda: done.append("run"), (token,))
    messenger.release((token,))
    assert not done
    messenger.members.seeds_reached = True
    messenger.members.lacks_less(RecoveryState.DATA)
    messenger.peers_came()
    assert done == ["run", "complete"]


def test_a_restored_peer_of_three_does_not_acknowledge_alone() -> None:
    for joins in (True, False):
        messenger = _alone(has_seeds=joins)
        messenger.members.begin_restored()
        messenger.members.restore(MembersKnown(3, 0, False))
        messenger.members.seeds_reached = True
        messenger.observe(2000.0)
        assert messenger.members.short_of_peers


def test_an_empty_peer_does_not_wait_for_ever_while_others_come_and_go() -> None:
    messenger = _alone(has_seeds=True)
    for second in range(1010, 1060, 10):
        messenger.observe(float(second))
        messenger.seen(ONE)
        messenger.peers_came()
        messenger.give_up(ONE)
    assert messenger.members.first_at == 1060.0
    messenger.observe(1060.0)
    assert messenger.members.first_at is None


def test_all_seeds_are_there_until_one_is_lost() -> None:
    messenger = _alone(has_seeds=True)
    for contact in (ONE, OTHER):
        messenger.seen(contact)
    messenger.members.seeds_reached = True
    assert messenger.members.first_at is None
    messenger.give_up(OTHER)
    assert messenger.members.first_at is not None, "it went before it had said anything"


def test_a_question_alone_does_not_complete_the_recovery_of_a_peer() -> None:
    """Only the answer to its own question gives it the number of peers, and tells whether it had been there before."""
    peer = Peer(OWN, PeerConfig(replicas=2, copies_min=2, has_seeds=True), TermDictionary(), LISTS, Random(1))
    peer.submit(OwnersFound(1, (OWN,), complete=True), now=1000.0)
    peer.submit(ContactSeen(ONE), now=1000.0)
    peer.receive(Envelope(1, 0, BucketDigests(1, 18, 5, [0])), sender=ONE, now=1000.1)
    effects = [*peer.wake(now=1000.2), *peer.wake(now=1000.3)]
    assert peer.status()["recovery"] == "unknown"
    asked = [each.envelope.message for each in effects if isinstance(each, Send)]
    (question,) = (each for each in asked if isinstance(each, BucketDigests))
    offer = IdentityList(question.request, question.kind, True, False, [], [], 0, False, 3, True)
    peer.receive(Envelope(2, 0, offer), sender=ONE, now=1000.4)
    peer.wake(now=1000.4)
    assert [peer.status()[each] for each in ("recovery", "members_max")] == ["subscriptions", 3]


def test_a_peer_without_seeds_is_the_first_of_a_network_at_once() -> None:
    messenger = _alone()
    members = messenger.members
    assert (members.first_at, members.waits_for_peers_until, members.copies_needed) == (None, None, 1)


def test_a_complete_peer_misses_known_members_that_it_never_saw() -> None:
    messenger = _alone()
    messenger.members.lacks_less(RecoveryState.COMPLETE)
    assert not messenger.members.somebody_missing
    messenger.members.most = 2
    assert messenger.members.somebody_missing
    messenger.observe(1020.0)
    assert not messenger.members.somebody_missing, "whoever is away for long is gone"


def test_a_returning_peer_hears_how_many_peers_are_gone_for_good() -> None:
    """From a peer that misses nobody: a peer that was away itself may not have met the newcomers."""
    messenger = _alone()
    messenger.members.lacks_less(RecoveryState.COMPLETE)
    messenger.members.most = 5
    messenger.seen(ONE)
    messenger.members.hear(2, known=True)
    messenger.members.hear(0, known=True, complete=True)
    assert messenger.members.expected == 5
    messenger.members.hear(3, known=True, complete=True)
    assert (messenger.members.expected, messenger.members.somebody_missing) == (3, True)
    messenger.seen(OTHER)
    assert not messenger.members.somebody_missing
    assert messenger.members.most == 5


@pytest.mark.parametrize("restored", [True, False])
def test_a_newcomer_does_not_replace_a_missing_peer_in_the_count_of_a_restarted_one(restored: bool) -> None:
    messenger = _alone()
    messenger.members.lacks_less(RecoveryState.COMPLETE)
    messenger.members.restored, messenger.members.most = restored, 2
    messenger.seen(ONE)
    messenger.members.note_lacking(ONE, RecoveryState.SUBSCRIPTIONS)
    assert messenger.members.somebody_missing == restored
    messenger.members.note_lacking(ONE, RecoveryState.COMPLETE)
    assert messenger.members.somebody_missing == restored
    messenger.observe(1020.0)
    assert not messenger.members.somebody_missing


def test_a_peer_that_lost_its_own_disk_waits_for_one_fewer(messenger: Messenger) -> None:
    messenger.members.lacks = RecoveryState.SUBSCRIPTIONS
    messenger.members.hear(4, known=False)
    assert messenger.members.waits_for_peers_until is None, "it may be new"
    messenger.members.hear(4, known=True)
    assert messenger.members.waits_for_peers_until == 1020.0
    messenger.members.lacks_less(RecoveryState.DATA)
    assert messenger.members.waits_for_peers_until is None
    messenger.members.hear(9, known=True)
    assert messenger.members.most == 4, "who was told all counts for itself"


@pytest.mark.parametrize(("replicas", "copies_min"), [(3, 2), (5, 3), (2, 2)])
def test_a_peer_that_lost_its_disk_waits_for_the_only_other_peer_with_any_number_of_replicas(
    replicas: int, copies_min: int
) -> None:
    messenger = Messenger(OWN, PeerConfig(replicas=replicas, copies_min=copies_min), LISTS)
    messenger.observe(1000.0)
    messenger.members.lacks = RecoveryState.SUBSCRIPTIONS
    for contact in (OWN, ONE):
        messenger.seen(contact)
    messenger.members.count()
    messenger.members.hear(2, known=True)
    assert messenger.members.waits_for_peers_until is None
    messenger.give_up(ONE)
    assert messenger.members.waits_for_peers_until == messenger.members.lost_together_until == 1020.0
    assert messenger.members.copies_missing
    messenger.seen(ONE)
    messenger.members.note_lacking(ONE, RecoveryState.DATA)
    assert not messenger.members.copies_missing, "both are here"


def test_a_peer_with_its_data_serves_while_the_only_other_peer_is_missing() -> None:
    messenger = Messenger(OWN, PeerConfig(replicas=3, copies_min=2), LISTS)
    messenger.observe(1000.0)
    messenger.members.lacks_less(RecoveryState.COMPLETE)
    for contact in (OWN, ONE):
        messenger.seen(contact)
    messenger.members.count()
    messenger.give_up(ONE)
    assert messenger.members.waits_for_peers_until is None
    assert not messenger.members.copies_missing


def test_a_returning_peer_hears_the_present_number_of_peers(messenger: Messenger) -> None:
    messenger.recovery.caught_up = False
    messenger.members.hear(5, known=False)
    assert messenger.members.waits_for_peers_until == 1020.0


def test_two_empty_peers_complete_nothing_for_each_other(messenger: Messenger) -> None:
    messenger.members.lacks = RecoveryState.SUBSCRIPTIONS
    for contact in (ONE, OTHER):
        messenger.members.note_lacking(contact, RecoveryState.SUBSCRIPTIONS)
    assert (messenger.members.told_by_others, messenger.members.alone_until) == (False, 1005.0)
    messenger.members.note_lacking(OTHER, RecoveryState.DATA)
    assert (messenger.members.told_by_others, messenger.members.alone_until) == (True, None)
    messenger.members.note_lacking(OTHER, RecoveryState.SUBSCRIPTIONS)
    messenger.observe(1005.0)
    assert messenger.members.told_by_others, "nobody who knows more has come for long"


def test_a_peer_missing_for_long_is_not_waited_for_again_when_another_goes(messenger: Messenger) -> None:
    messenger.give_up(OTHER)
    assert messenger.members.expected == 3
    messenger.observe(1030.0)
    assert messenger.members.expected == 2
    messenger.seen(Contact(4, "newcomer", 1))
    messenger.give_up(Contact(4, "newcomer", 1))
    assert messenger.members.expected == 3, "the newcomer alone is missing"
    messenger.seen(OTHER)
    messenger.seen(Contact(4, "newcomer", 1))
    messenger.members.count()
    messenger.give_up(OTHER)
    assert messenger.members.expected == 4, "it had come back"


def test_the_first_record_says_that_the_peer_began_empty() -> None:
    messenger = Messenger(OWN, PeerConfig(replicas=2, copies_min=2, durable=True), LISTS)
    messenger.persist(Leaving())
    messenger.persist(Leaving())
    kept = [each.message for each in messenger.effects if isinstance(each, Persist)]
    assert kept == [MembersKnown(1, RecoveryState.SUBSCRIPTIONS), Leaving(), Leaving()]


def test_the_time_to_read_the_disk_does_not_count_as_waiting(messenger: Messenger) -> None:
    messenger.give_up(OTHER)
    messenger.give_up(ONE)
    assert messenger.members.waits_for_peers_until == 1020.0
    messenger.members.begin_anew()
    messenger.observe(1100.0)
    assert messenger.members.waits_for_peers_until == 1120.0


def test_the_status_has_the_same_keys_with_one_copy_and_with_several() -> None:
    """Components for replicas have counterparts, and metrics are read from the status of both."""
    one, several = (Peer(OWN, PeerConfig(replicas=count), TermDictionary()).status() for count in (1, 3))
    assert one.keys() == several.keys()
