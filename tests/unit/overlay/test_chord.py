"""One peer of a Chord ring, message by message; whole rings are in tests/simulation/test_chord_churn.py."""

from __future__ import annotations

import pytest

from p2prdf.errors import LocalProtocolError
from p2prdf.overlay.chord import Chord, ChordConfig
from p2prdf.overlay.chord_lookup import between, successor_list
from p2prdf.overlay.membership import Broken, Create, Introduce, Leave, Packet, Post
from p2prdf.overlay.routed_messages import (
    Changed,
    FindOwners,
    GetRing,
    Leaving,
    Names,
    Notify,
    NotMember,
    Ping,
    Pong,
    Ring,
    RingBusy,
)
from p2prdf.wire.contract import ContactLost, ContactSeen, FindOwner, OwnersFound, Trace
from p2prdf.wire.messages import Contact
from schedules.chord_world import ChordOptions, ChordWorld

RING = 1 << 64
CONFIG = ChordConfig(successors=3, timeout_seconds=1.0, silences=2, tend_seconds=100.0)


def peer(key: int, port: int = 0) -> Contact:
    return Contact(key % RING, "peer.example", port or 1000 + key)


A, B, C, D, E = (peer(key) for key in (10, 20, 30, 40, 50))


class Table:
    """A peer without a network: the test sees all its messages and makes up all answers."""

    def __init__(self, own: Contact = A, config: ChordConfig = CONFIG, **options: object):
        self.chord = Chord(own, config, **options)
        self.now = 0.0
        self.posts: list[Post] = []
        self.told: list[object] = []

    def _take(self, effects):
        self.posts += [effect for effect in effects if isinstance(effect, Post)]
        self.told += [effect for effect in effects if not isinstance(effect, Post)]
        return self

    def submit(self, request):
        return self._take(self.chord.submit(request, now=self.now))

    def receive(self, message, sender):
        return self._take(self.chord.receive(Packet(sender, message), now=self.now))

    def wait(self, seconds=0.0):
        """Let time pass, waking the peer whenever it wants."""
        end = self.now + seconds
        for _ in range(1000):
            deadline = self.chord.deadline
            if deadline is None or deadline > end:
                self.now = end
                return self
            self.now = max(self.now, deadline)
            self._take(self.chord.wake(now=self.now))
        raise AssertionError("it never rests")

    def sent(self, kind, to=None):
        """Return the messages of a kind sent since the last call, oldest first, and forget them."""
        found = [post for post in self.posts if isinstance(post.message, kind) and to in (None, post.to)]
        self.posts = [post for post in self.posts if post not in found]
        return found

    def asked(self, kind, to):
        """Return the number of the one question of a kind that was just put to a peer."""
        (post,) = self.sent(kind, to)
        return post.message.request

    def answer(self, kind, to, make):
        """Answer the question of a kind that was just put to a peer."""
        return self.receive(make(self.asked(kind, to)), to)

    def events(self):
        return [effect.event for effect in self.told if isinstance(effect, Trace)]


def joined(own=A, predecessor=None, successors=(B, C, D), **options):
    """A member with these pointers, at rest: its first stabilisation is over and everyone has answered a ping."""
    table = Table(own, **options)
    rest = (peer(own.key - 1, 99),) if len(successors) == 3 else ()
    table.submit(Introduce(successors[-1]))
    table.answer(FindOwners, successors[-1], lambda number: Names(number, (*successors, successors[-1])))
    table.answer(GetRing, successors[-1], lambda number: Ring(number, None, successors))
    table.wait()
    table.answer(GetRing, successors[0], lambda number: Ring(number, None, (*successors[1:], *rest)))
    if predecessor is not None:
        table.receive(Notify(), predecessor)
    for post in table.sent(Ping):
        table.receive(Pong(post.message.request, member=True), post.to)
    assert table.chord.member
    assert table.chord.successors == successors
    assert table.chord.predecessor == predecessor
    table.posts.clear()
    table.told.clear()
    return table


def stabilising(table):
    """Let the peer begin to stabilise."""
    while not any(isinstance(post.message, GetRing) for post in table.posts):
        table.wait(table.chord.deadline - table.now)
    return table


# --- pure parts --------------------------------------------------------------------------------------


def test_between_goes_round_zero_and_from_a_position_to_itself():
    assert between(10, 11, 12)
    assert not between(10, 10, 12)
    assert not between(10, 12, 12)
    assert between(RING - 1, 0, 1)
    assert between(RING - 1, 5, RING - 1)
    assert not between(7, 7, 7)
    assert between(20, 5, 10)
    assert not between(20, 15, 10)


@pytest.mark.parametrize(
    ("first", "rest", "expected"),
    [
        (B, (C, D, E), (B, C, D)),
        (B, (), (B,)),
        (B, (A,), (B, A)),
        (B, (C, A, B), (B, C, A)),
        (B, (C, B, C), (B, C)),  # B does not know of A yet, so its list has come round to itself
        (C, (D, B, C), (C, D)),  # and D's list has passed A
        (B, (peer(A.key, 2), C), (B, A)),
    ],
)
def test_a_list_is_the_first_successor_and_its_list_as_far_as_the_ring_goes_once(first, rest, expected):
    assert successor_list(A, first, rest, 3) == expected


def test_settings_that_make_no_sense_are_refused():
    ChordConfig(contacts_max=0)
    for wrong in ({"successors": 0}, {"successors": 17}, {"timeout_seconds": 0.0}, {"lookups_max": -1}):
        with pytest.raises(LocalProtocolError, match=next(iter(wrong))):
            ChordConfig(**wrong)


# --- joining -----------------------------------------------------------------------------------------


def test_a_ring_of_one_is_its_own_successor_and_owns_everything():
    table = Table().submit(Create()).submit(FindOwner(7))
    assert table.chord.successors == (A,)
    assert OwnersFound(7, (A,), complete=True, before=A) in table.told
    table.wait(10.0)
    assert table.posts == []


def test_a_joining_peer_adopts_the_list_of_its_predecessor():
    table = Table().submit(Introduce(D))
    table.answer(FindOwners, D, lambda number: Names(number, (E,)))
    table.answer(FindOwners, E, lambda number: Names(number, (B, C)))
    assert not table.chord.member
    table.answer(GetRing, E, lambda number: Ring(number, D, (B, C, D)))
    assert table.chord.member
    assert table.chord.successors == (B, C, D)
    assert table.chord.predecessor is None
    assert table.sent(Ping, E), "the predecessor gets to know of it at once"


def test_a_place_that_was_taken_in_between_is_looked_for_again():
    table = Table().submit(Introduce(E))
    table.answer(FindOwners, E, lambda number: Names(number, (B, C)))
    table.answer(GetRing, E, lambda number: Ring(number, D, (peer(5), B, C)))
    assert not table.chord.member
    table.wait(0.1)
    assert table.sent(FindOwners, E)


def test_a_busy_predecessor_is_read_again_and_a_silent_one_looked_for_again():
    table = Table().submit(Introduce(E))
    table.answer(FindOwners, E, lambda number: Names(number, (B, C)))
    for _ in range(3):
        table.answer(GetRing, E, RingBusy).wait(0.3)
    table.asked(GetRing, E)
    table.wait(2.1)
    assert "join_put_off" in table.events()
    assert table.sent(FindOwners, E)


def test_a_newcomer_introduced_to_no_member_waits_for_the_next_introduction():
    table = Table().submit(Introduce(B))
    table.answer(FindOwners, B, NotMember)
    table.wait(60.0)
    assert not table.chord.member
    assert table.posts == []
    table.submit(Introduce(C))
    assert table.sent(FindOwners, C)


def test_before_it_is_a_member_a_peer_answers_nothing():
    table = Table().receive(Ping(1), B).receive(GetRing(2), B).receive(FindOwners(3, 7), B).receive(Notify(), B)
    assert [post.message for post in table.posts if post.to == B] == [
        Pong(1, member=False),
        Ping(1),
        NotMember(2),
        NotMember(3),
    ]
    assert table.chord.predecessor is None


def test_a_position_that_is_taken_is_not_taken_twice():
    rival = peer(A.key, 2)
    table = Table().submit(Introduce(E))
    table.answer(FindOwners, E, lambda number: Names(number, (rival, B)))
    table.answer(GetRing, E, lambda number: Ring(number, D, (rival, B, C)))
    table.answer(Ping, rival, lambda number: Pong(number, member=True))
    assert "position_taken" in table.events()
    table.wait(5.0)
    assert not table.chord.member


@pytest.mark.parametrize("silent", [True, False])
def test_the_own_former_life_at_another_address_does_not_count(silent):
    former = peer(A.key, 2)
    table = Table().submit(Introduce(E))
    table.answer(FindOwners, E, lambda number: Names(number, (former, B)))
    table.answer(GetRing, E, lambda number: Ring(number, D, (former, B, C)))
    if silent:
        table.wait(2.1)
    else:
        table.answer(Ping, former, lambda number: Pong(number, member=False))
    table.answer(GetRing, E, lambda number: Ring(number, D, (former, B, C)))
    assert table.chord.successors == (B, C)


def test_another_peer_at_the_own_position_learns_only_that_it_is_taken():
    rival = peer(A.key, 2)
    table = joined()
    table.receive(Ping(5), rival).receive(GetRing(6), rival).receive(Notify(), rival)
    table.receive(FindOwners(7, 7), rival).receive(Leaving((rival,)), rival)
    assert [post.message for post in table.posts] == [Pong(5, member=True)]
    assert table.events() == ["position_taken"] * 4
    assert table.chord.predecessor is None
    table.receive(Ping(5), A)
    assert len(table.posts) == 1, "what comes from itself is not answered"


# --- stabilising -------------------------------------------------------------------------------------


def test_stabilising_adopts_the_successors_list_and_ends_with_a_notification():
    table = stabilising(joined())
    table.answer(GetRing, B, lambda number: Ring(number, A, (D, E, A)))
    assert table.chord.successors == (B, D, E)
    assert [post.to for post in table.sent(Notify)] == [B]


def test_a_dead_successor_gives_way_to_the_next():
    table = stabilising(joined())
    table.asked(GetRing, B)
    table.wait(2.1)
    assert ContactLost(B) in table.told
    assert table.chord.successors == (C, D)
    table.answer(GetRing, C, lambda number: Ring(number, B, (D, E, A)))
    assert [post.to for post in table.posts if isinstance(post.message, GetRing)] == [B], "it was asked twice, before"
    assert table.chord.successors == (C, D, E)
    assert [post.to for post in table.sent(Notify)] == [C]


def test_a_successor_that_is_no_member_any_more_is_as_good_as_dead():
    table = stabilising(joined())
    table.answer(GetRing, B, NotMember)
    assert table.chord.successors == (C, D)
    assert ContactLost(B) in table.told
    assert table.sent(GetRing, C)


def test_the_successors_predecessor_is_adopted_only_after_it_was_read():
    closer = peer(15)
    table = stabilising(joined())
    table.answer(GetRing, B, lambda number: Ring(number, closer, (C, D, E)))
    assert table.chord.successors == (B, C, D)
    assert not table.sent(Notify)
    table.answer(GetRing, closer, lambda number: Ring(number, None, (B, D, E)))
    assert table.chord.successors == (closer, B, D)
    assert [post.to for post in table.sent(Notify)] == [closer]


def test_a_dead_predecessor_of_the_successor_is_never_adopted():
    closer = peer(15)
    table = stabilising(joined())
    table.answer(GetRing, B, lambda number: Ring(number, closer, (C, D, E)))
    table.wait(2.1)
    assert table.chord.successors == (B, C, D)
    assert [post.to for post in table.sent(Notify)] == [B]


@pytest.mark.parametrize("told", [A, B, C, D])
def test_a_peer_not_between_own_position_and_successor_is_not_read(told):
    table = stabilising(joined())
    table.answer(GetRing, B, lambda number: Ring(number, told, (C, D, E)))
    assert not table.sent(GetRing)
    assert [post.to for post in table.sent(Notify)] == [B]


def test_while_it_waits_for_an_answer_a_peer_reports_only_that_it_is_alive():
    table = stabilising(joined())
    number = table.asked(GetRing, B)
    table.receive(GetRing(5), E).receive(Ping(6), E).receive(FindOwners(7, 15), E)
    replies = [post.message for post in table.posts if post.to == E and not isinstance(post.message, Ping)]
    assert replies == [RingBusy(5), Pong(6, member=True), Names(7, (B, C, D))]
    table.receive(Ring(number, A, (C, D, E)), B)
    table.posts.clear()
    table.receive(GetRing(8), E)
    assert [post.message for post in table.sent(Ring)] == [Ring(8, None, (B, C, D))]


def test_a_busy_successor_is_left_alone_for_a_moment_and_others_may_read_meanwhile():
    table = stabilising(joined())
    table.answer(GetRing, B, RingBusy)
    table.receive(GetRing(5), E)
    assert table.sent(Ring, E)
    assert not table.sent(Notify)
    table.wait(0.1)
    assert table.sent(GetRing, B)


def test_news_goes_back_along_the_ring_at_once():
    """A peer with changed pointers notifies its predecessor, which reads them then."""
    table = stabilising(joined(predecessor=E))
    table.answer(GetRing, B, lambda number: Ring(number, A, (C, D)))
    assert not table.sent(Changed), "nothing is new"
    stabilising(table).answer(GetRing, B, lambda number: Ring(number, A, (D, E)))
    assert table.sent(Changed, E)
    table.receive(Notify(), peer(5))
    table.answer(Ping, E, lambda number: Pong(number, member=True))
    assert table.sent(Changed, E), "somebody has come in between"
    table.receive(Changed(), C).wait()
    assert not table.sent(GetRing)
    table.receive(Changed(), B).wait(CONFIG.retry_seconds)
    assert table.sent(GetRing, B)


def test_a_late_answer_changes_nothing():
    table = stabilising(joined())
    number = table.asked(GetRing, B)
    table.wait(2.1)
    table.answer(GetRing, C, lambda number: Ring(number, None, (D, E)))
    table.receive(Ring(number, None, (E,)), B)
    assert table.chord.successors == (C, D, E)


def test_an_answer_to_a_former_incarnation_or_from_another_peer_changes_nothing():
    old, new = stabilising(joined(first_request=1000)), stabilising(joined(first_request=2000))
    number = old.asked(GetRing, B)
    new.receive(Ring(number, None, (E,)), B)
    new.receive(Ring(new.asked(GetRing, B), None, (E,)), C)
    assert new.chord.successors == (B, C, D)


def test_an_answer_of_the_wrong_kind_is_as_good_as_none():
    table = stabilising(joined())
    table.answer(GetRing, B, lambda number: Names(number, (C,)))
    assert "answer_malformed" in table.events()
    assert table.chord.successors == (C, D)


def test_a_timeout_found_much_too_late_proves_nothing():
    """The process was held up; the answer may lie unread."""
    table = stabilising(joined())
    table.asked(GetRing, B)
    for _ in range(5):
        table.now += 10.0
        table._take(table.chord.wake(now=table.now))
    assert table.chord.successors == (B, C, D)
    table.wait(2.1)
    assert table.chord.successors == (C, D)


def test_a_peer_that_deserves_patience_gets_it():
    table = stabilising(joined(patience=lambda contact: 5 if contact == B else 2))
    table.wait(4.5)
    assert B in table.chord.successors
    table.wait(1.0)
    assert B not in table.chord.successors


def test_a_peer_without_live_successors_goes_on_from_another_live_peer():
    table = joined(predecessor=E, successors=(B,))
    stabilising(table).asked(GetRing, B)
    table.wait(2.1)
    assert table.chord.successors == (A,)
    assert "successors_lost" in table.events()
    table.answer(GetRing, E, lambda number: Ring(number, D, (A,)))
    assert table.chord.successors == (E, A)


def test_a_live_peer_that_speaks_and_lies_before_the_successor_is_read_at_once():
    closer = peer(15)
    table = joined()
    table.receive(FindOwners(1, 7), closer)
    table.answer(Ping, closer, lambda number: Pong(number, member=True)).wait(CONFIG.retry_seconds)
    table.answer(GetRing, B, lambda number: Ring(number, A, (C, D)))
    table.answer(GetRing, closer, lambda number: Ring(number, None, (B, C, D)))
    assert table.chord.successors == (closer, B, C)
    assert ContactSeen(closer) in table.told


# --- rectifying --------------------------------------------------------------------------------------


def test_without_a_predecessor_any_notifier_will_do():
    table = joined().receive(Notify(), D)
    assert table.chord.predecessor == D


def test_a_closer_notifier_becomes_predecessor_once_the_former_was_pinged():
    table = joined(predecessor=D).receive(Notify(), E)
    assert table.chord.predecessor == D
    table.receive(GetRing(5), C)
    assert table.sent(RingBusy, C), "the predecessor is about to change"
    table.answer(Ping, D, lambda number: Pong(number, member=True))
    assert table.chord.predecessor == E


def test_a_notifier_further_away_becomes_predecessor_only_after_a_dead_one():
    table = joined(predecessor=E).receive(Notify(), D)
    table.answer(Ping, E, lambda number: Pong(number, member=True))
    assert table.chord.predecessor == E
    assert table.sent(Changed, D), "it does not know of E"
    table.posts.clear()
    table.receive(Notify(), D)
    table.asked(Ping, E)
    table.wait(2.1)
    assert table.chord.predecessor == D
    assert ContactLost(E) in table.told


def test_notifications_during_a_query_wait_and_the_closest_wins():
    table = stabilising(joined(predecessor=D))
    number = table.asked(GetRing, B)
    for notifier in (D, peer(-5), E):
        table.receive(Notify(), notifier)
    assert table.chord.predecessor == D
    table.posts = [post for post in table.posts if post.to == D]
    table.receive(Ring(number, A, (C, D, E)), B)
    table.answer(Ping, D, lambda number: Pong(number, member=True))
    assert table.chord.predecessor == peer(-5)


def test_the_predecessor_may_leave_while_it_is_pinged():
    table = joined(predecessor=E).receive(Notify(), D)
    table.asked(Ping, E)
    table.receive(Leaving((A,)), E)
    assert table.chord.predecessor == D
    table.receive(GetRing(5), C)
    assert table.sent(Ring, C), "nothing is waited for any more"


def test_a_ring_of_one_takes_the_first_that_joins_for_successor_too():
    table = Table().submit(Create()).receive(Notify(), C).wait(CONFIG.retry_seconds)
    table.answer(GetRing, C, lambda number: Ring(number, None, (A,)))
    assert table.chord.successors == (C, A)
    assert table.chord.predecessor == C


# --- leaving -----------------------------------------------------------------------------------------


def test_leaving_is_announced_to_all_known_peers_and_answered_like_no_member():
    table = joined(predecessor=E)
    table.submit(FindOwner(45)).submit(Leave())
    farewells = table.sent(Leaving)
    assert {post.to for post in farewells} == {B, C, D, E}
    assert farewells[0].message == Leaving((B, C, D))
    assert table.chord.deadline is None
    table.posts.clear()
    table.receive(GetRing(5), E).submit(FindOwner(3)).submit(Create()).submit(Introduce(B))
    assert [post.message for post in table.posts] == [NotMember(5)]
    assert OwnersFound(3, (), complete=False) in table.told
    assert not table.chord.member


def test_a_leaving_peer_names_its_successors():
    table = joined(successors=(B,)).receive(Leaving((C, D)), B)
    assert table.chord.successors == (A,)
    assert ContactLost(B) in table.told
    table.wait(CONFIG.retry_seconds)
    table.answer(GetRing, C, lambda number: Ring(number, B, (D, A)))
    assert table.chord.successors == (C, D, A)


def test_a_farewell_during_a_query_ends_the_query():
    table = stabilising(joined())
    table.asked(GetRing, B)
    table.receive(Leaving(()), B)
    assert table.chord.successors == (C, D)
    assert table.sent(GetRing, C)


# --- contacts that are there ---------------------------------------------------------------------------


def test_every_peer_pointed_to_is_pinged_and_reported_when_it_answers():
    table = stabilising(joined())
    table.answer(GetRing, B, lambda number: Ring(number, A, (D, E)))
    assert ContactSeen(E) not in table.told
    table.answer(Ping, E, lambda number: Pong(number, member=True))
    assert ContactSeen(E) in table.told
    assert E in table.chord.contacts()


def test_silent_peers_are_lost_wherever_they_are_pointed_to():
    table = joined(predecessor=E, config=ChordConfig(successors=3, timeout_seconds=1.0, tend_seconds=5.0))
    for _ in range(40):
        table.wait(0.2)
        for post in table.sent((Ping, GetRing)):
            number = post.message.request
            if post.to not in (C, E):
                ring = Ring(number, A, (C, D))
                table.receive(Pong(number, member=True) if isinstance(post.message, Ping) else ring, post.to)
    assert ContactLost(C) in table.told
    assert ContactLost(E) in table.told
    assert table.chord.predecessor is None
    assert set(table.chord.contacts()) == {B, D}


def test_a_moved_peer_replaces_its_former_self_once_that_is_silent():
    moved = peer(C.key, 2)
    table = joined().receive(Ping(1), moved)
    table.answer(Ping, moved, lambda number: Pong(number, member=True))
    assert table.told == []
    table.asked(Ping, C)
    table.wait(2.1)
    assert ContactLost(C) in table.told
    assert C not in table.chord.successors
    table.answer(Ping, moved, lambda number: Pong(number, member=True))
    assert ContactSeen(moved) in table.told


def test_of_two_peers_at_one_position_the_first_that_lives_is_kept():
    twin = peer(C.key, 2)
    table = joined().receive(Ping(1), twin)
    table.answer(Ping, twin, lambda number: Pong(number, member=True))
    table.answer(Ping, C, lambda number: Pong(number, member=True))
    assert table.events() == ["position_taken"]
    assert C in table.chord.contacts()
    assert twin not in table.chord.contacts()


def test_another_peer_at_an_address_means_that_the_former_one_is_gone():
    heir = Contact(35, C.host, C.port)
    table = joined().receive(Ping(1), heir)
    table.answer(Ping, heir, lambda number: Pong(number, member=True))
    assert Trace("peer_gone", {"peer": str(C), "reason": "replaced"}) in table.told
    assert table.chord.successors == (B, D)
    assert ContactSeen(heir) in table.told


def test_a_peer_that_joined_at_a_contested_position_joins_again():
    """Its successor has the first of the two as its predecessor."""
    twin = peer(A.key, 2)
    table = stabilising(joined())
    table.answer(GetRing, B, lambda number: Ring(number, twin, (C, D)))
    table.answer(Ping, twin, lambda number: Pong(number, member=True))
    assert not table.chord.member
    assert "position_taken" in table.events()
    table.wait(2.0)
    assert table.sent(FindOwners, B), "it tries to join again, in case the other goes"


def test_the_own_former_incarnation_is_not_taken_for_another_peer():
    former = peer(A.key, 2)
    table = stabilising(joined())
    table.answer(GetRing, B, lambda number: Ring(number, former, (C, D)))
    table.asked(Ping, former)
    table.wait(2.1)
    assert table.chord.member
    assert table.sent(Notify, B)


def test_a_successor_that_says_the_same_again_and_again_is_read_ever_less():
    table = stabilising(joined(config=ChordConfig(successors=3, timeout_seconds=1.0, tend_seconds=100.0)))
    reads = 0
    for _ in range(1000):
        for post in table.sent(GetRing):
            table.receive(Ring(post.message.request, A, (C, D)), B)
            table.receive(Changed(), B)
            reads += 1
        table.wait(0.01)
    assert 10 <= reads <= 25


def test_strangers_are_pinged_in_bounded_numbers_and_kept_in_bounded_numbers():
    config = ChordConfig(successors=3, timeout_seconds=1.0, tend_seconds=100.0, meetings_max=5, contacts_max=6)
    table = joined(config=config)
    strangers = [peer(1000 + number) for number in range(30)]
    for stranger in strangers:
        table.receive(Ping(1), stranger)
    pings = table.sent(Ping)
    assert len(pings) == 5
    for post in pings:
        table.receive(Pong(post.message.request, member=True), post.to)
    assert len(table.chord.contacts()) == 6
    for stranger in strangers:
        table.receive(Ping(1), stranger)
    assert not table.sent(Ping)


def test_a_suspected_peer_is_pinged_at_once():
    table = joined().submit(Broken(C.key)).submit(Broken(12345))
    table.asked(Ping, C)
    table.wait(2.1)
    assert ContactLost(C) in table.told


# --- lookups -----------------------------------------------------------------------------------------


def test_lookups_wait_until_the_peer_is_a_member():
    table = Table().submit(FindOwner(7))
    assert table.told == []
    table.submit(Create())
    assert OwnersFound(7, (A,), complete=True, before=A) in table.told


def test_thousands_of_lookups_that_end_at_once_do_not_nest():
    config = ChordConfig(lookups_waiting_max=3000)
    table = Table(config=config)
    for key in range(3001):
        table.submit(FindOwner(key))
    assert table.told == [OwnersFound(3000, (), complete=False)]
    table.submit(Create())
    assert len([effect for effect in table.told if isinstance(effect, OwnersFound)]) == 3001


def test_dead_peers_are_left_out():
    table = joined().submit(FindOwner(45))
    table.answer(FindOwners, D, lambda number: Names(number, (E, peer(60), peer(70))))
    table.asked(Ping, E)
    for contact in (peer(60), peer(70)):
        table.answer(Ping, contact, lambda number: Pong(number, member=True))
    assert not [effect for effect in table.told if isinstance(effect, OwnersFound)]
    table.wait(2.1)
    assert OwnersFound(45, (peer(60), peer(70)), complete=False, before=D) in table.told


def test_a_peer_that_answered_the_lookup_itself_is_not_pinged_again():
    table = joined(predecessor=E)
    table.now += 0.5
    table.submit(FindOwner(45))
    table.answer(FindOwners, D, lambda number: Names(number, (E, A, B, D)))
    assert [post.to for post in table.posts] == [E, B]
    for contact in (E, B):
        table.answer(Ping, contact, lambda number: Pong(number, member=True))
    assert OwnersFound(45, (E, A, B), complete=False, before=D) in table.told


def test_when_nobody_answers_the_outcome_is_empty_but_for_the_own_peer_if_it_owns_the_key():
    table = joined().submit(FindOwner(45)).wait(20.0)
    assert OwnersFound(45, (A,), complete=True, before=A) in table.told


# --- small rings, by themselves ----------------------------------------------------------------------


@pytest.fixture
def world():
    return ChordWorld(1, ChordOptions(successors=3))


def ring_of(world, *contacts):
    """Start these peers; the first makes a ring, the others join it, all at once."""
    nodes = [world.start(contact) for contact in contacts]
    world.submit(nodes[0], Create())
    for node in nodes[1:]:
        world.introduce(node)
    return nodes


def spread(*keys):
    return [peer(key, port) for port, key in enumerate(keys, 1)]


@pytest.mark.parametrize(
    "keys",
    [(5,), (5, 3), (0, RING - 1), (RING - 1, 0, 1), (7, 5, 6), (7, 6, 5), (1 << 63, 0, 1 << 62, 3 << 62, 9)],
)
def test_rings_grow_from_one_in_any_order_of_joins(world, keys):
    nodes = ring_of(world, *spread(*keys))
    world.run_until(lambda: len(world.members) == len(nodes) and not world.not_ideal(), 30.0)


def test_peers_that_each_made_a_ring_of_their_own_find_together(world):
    nodes = [world.start(contact) for contact in spread(10, 30, 20, 40)]
    for node in nodes:
        world.submit(node, Create())
    world.run_for(3.0)
    for node, door in zip(nodes, [*nodes[1:], nodes[0]], strict=True):
        world.submit(node, Introduce(door.chord.own))
    world.run_until(lambda: not world.not_ideal(), 30.0)


@pytest.mark.parametrize("both_ways", [False, True])
def test_two_rings_become_one_after_an_introduction(world, both_ways):
    odd = ring_of(world, *spread(10, 30, 50, 70, 90))
    world.run_until(lambda: not world.not_ideal(), 30.0)
    even = [world.start(peer(key, 10 + key)) for key in (20, 40, 60, 80)]
    world.submit(even[0], Create())
    for node in even[1:]:
        world.submit(node, Introduce(even[0].chord.own))
    world.run_for(20.0)
    assert world.not_ideal()
    world.submit(even[2], Introduce(odd[1].chord.own))
    if both_ways:
        world.submit(odd[3], Introduce(even[0].chord.own))
    world.run_until(lambda: not world.not_ideal(), 60.0)


def test_a_peer_that_restarts_at_once_at_its_address_joins_again(world):
    nodes = ring_of(world, *spread(10, 20, 30, 40, 50))
    world.run_until(lambda: len(world.members) == 5 and not world.not_ideal(), 30.0)
    world.fail(nodes[2])
    world.introduce(world.start(nodes[2].chord.own))
    world.run_until(lambda: len(world.members) == 5 and not world.not_ideal(), 30.0)
