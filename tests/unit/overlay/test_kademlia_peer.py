"""A Kademlia peer without a view: joining, full buckets, lookups, and peers that fall silent or leave."""

from __future__ import annotations

import heapq
from random import Random

import pytest

from p2prdf.overlay.kademlia_peer import BUCKET_PEERS, Kademlia
from p2prdf.overlay.membership import Broken, Create, Introduce, Leave, Packet, Post
from p2prdf.overlay.routed_config import RoutedConfig
from p2prdf.overlay.routed_messages import FindOwners, GetRing, Leaving, Names, NotMember, Ping, Pong
from p2prdf.wire.contract import ContactLost, ContactSeen, FindOwner, OwnersFound
from p2prdf.wire.messages import Contact


class Buckets:
    """A routing table that takes some peers per leading bit of their distance."""

    def __init__(self, own, size=BUCKET_PEERS):
        self.own, self.size = own, size
        self.peers = {}

    def has_room(self, contact):
        bucket = (contact.key ^ self.own.key).bit_length()
        return sum((key ^ self.own.key).bit_length() == bucket for key in self.peers) < self.size

    def add(self, contact):
        assert self.has_room(contact)
        self.peers[contact.key] = contact

    def remove(self, contact):
        if self.peers.get(contact.key) == contact:
            del self.peers[contact.key]


class World:
    """Peers in virtual time; a message takes some milliseconds."""

    def __init__(self, count, *, bucket=BUCKET_PEERS, seed=1):
        self.random = Random(seed)
        self.now = 0.0
        self.queue = []
        self.events = []
        self.found = []
        self.peers = {}
        for number in range(count):
            own = Contact(self.random.getrandbits(64), "10.0.0.1", 1 + number)
            config = RoutedConfig(contacts_max=0, tend_seconds=1.0, timeout_seconds=0.25, silences=2)
            self.peers[own] = Kademlia(own, Buckets(own, bucket), config)

    @property
    def keys(self):
        return {own.key for own in self.peers}

    def submit(self, own, request):
        self.carry_out(own, self.peers[own].submit(request, now=self.now))

    def carry_out(self, own, effects):
        for effect in effects:
            match effect:
                case Post(to, packet):
                    delay = self.random.uniform(0.001, 0.02)
                    heapq.heappush(self.queue, (self.now + delay, len(self.queue), self.random.random(), to, packet))
                case ContactSeen() | ContactLost():
                    self.events.append((own, effect))
                case OwnersFound():
                    self.found.append(effect)

    def run(self, seconds):
        end = self.now + seconds
        while True:
            due = [(peer.deadline, own.key, own) for own, peer in self.peers.items() if peer.deadline is not None]
            timer = min(due, default=(end + 1,))
            if self.queue and self.queue[0][0] <= min(timer[0], end):
                self.now, _, _, to, packet = heapq.heappop(self.queue)
                if to in self.peers:
                    self.carry_out(to, self.peers[to].receive(packet, now=self.now))
            elif timer[0] <= end:
                self.now = max(self.now, timer[0])
                self.carry_out(timer[2], self.peers[timer[2]].wake(now=self.now))
            else:
                self.now = end
                return

    def joined(self):
        """Join all peers through the first one, all at once."""
        first, *others = self.peers
        self.submit(first, Create())
        for own in others:
            self.submit(own, Introduce(first))
        self.run(3.0)
        return self


def test_peers_that_join_through_one_at_once_all_know_each_other():
    world = World(15).joined()
    for own, peer in world.peers.items():
        assert peer.member
        assert {contact.key for contact in peer.contacts()} == world.keys - {own.key}
    seen = [(own, effect.contact) for own, effect in world.events]
    assert len(seen) == len(set(seen)) == 15 * 14, "each is reported once"


def test_a_peer_without_a_member_stays_outside_and_answers_so():
    one, other = World(2).peers.items()
    assert one[1].submit(Introduce(other[0]), now=0.0)[0].message == Ping(1)
    replies = other[1].receive(Packet(one[0], Ping(1)), now=0.0)
    assert [post.message for post in replies if isinstance(post.message, Pong)] == [Pong(1, member=False)]
    one[1].receive(Packet(other[0], Pong(1, member=False)), now=0.1)
    assert not one[1].member
    assert one[1].contacts() == []
    (reply, *_) = one[1].receive(Packet(other[0], FindOwners(9, 7)), now=0.1)
    assert reply.message == NotMember(9)


@pytest.mark.parametrize("count", [2, 15, 30])
def test_lookups_name_the_closest_live_peers(count):
    world = World(count, seed=count).joined()
    peers = list(world.peers)
    for number in range(10):
        key = world.random.getrandbits(64)
        world.submit(peers[number % count], FindOwner(key))
        world.run(1.0)
        found = world.found.pop()
        nearest = sorted(peers, key=lambda contact: contact.key ^ key)
        assert found.key == key
        assert list(found.contacts) == nearest[: len(found.contacts)]
        assert len(found.contacts) >= min(count, 8)
        assert found.complete == (count < BUCKET_PEERS)


def test_a_lookup_of_a_peer_outside_waits_until_it_is_a_member():
    world = World(2)
    second = list(world.peers)[1]
    world.submit(second, FindOwner(7))
    world.run(1.0)
    assert world.found == []
    world.joined()
    assert [found.key for found in world.found] == [7]
    assert {contact.key for contact in world.found[0].contacts} == world.keys


def test_a_full_bucket_takes_no_further_peer_until_one_is_gone():
    world = World(30, bucket=2).joined()
    for own, peer in world.peers.items():
        for bit in range(64):
            bucket = [contact for contact in peer.contacts() if (contact.key ^ own.key).bit_length() == bit + 1]
            assert len(bucket) <= 2
    own, peer = next(iter(world.peers.items()))
    lost = max(peer.contacts(), key=lambda contact: contact.key ^ own.key)
    before = {contact.key for contact in peer.contacts()}
    del world.peers[lost]
    world.run(10.0)
    after = {contact.key for contact in peer.contacts()}
    assert lost.key not in after
    assert len(after) >= len(before), "another peer has taken its place"


def test_a_silent_peer_is_lost_by_all_and_a_goodbye_is_heard_at_once():
    world = World(5).joined()
    dead, leaver, *live = list(world.peers)
    del world.peers[dead]
    world.events.clear()
    world.run(3.0)
    assert {own for own, effect in world.events if effect == ContactLost(dead)} == {leaver, *live}
    assert world.peers[live[0]].fell_silent(dead)
    world.submit(leaver, Leave())
    world.run(0.1)
    assert {own for own, effect in world.events if effect == ContactLost(leaver)} == set(live)
    assert not world.peers[live[0]].fell_silent(leaver)
    assert world.peers[leaver].submit(FindOwner(1), now=world.now) == [OwnersFound(1, (), complete=False)]
    world.submit(leaver, Create())
    assert not world.peers[leaver].member


def test_a_broken_connection_is_checked_before_the_next_round():
    world = World(3).joined()
    own, other, _ = world.peers
    world.run(0.2)
    effects = world.peers[own].submit(Broken(other.key), now=world.now)
    assert [effect.to for effect in effects if isinstance(effect, Post) and isinstance(effect.message, Ping)] in (
        [other], [],
    ), "one ping, unless one is under way"  # fmt: skip
    assert world.peers[own].submit(Broken(12345), now=world.now) == []


def test_strangers_are_pinged_in_bounded_numbers_and_other_messages_are_ignored():
    own = Contact(1 << 63, "10.0.0.1", 1)
    peer = Kademlia(own, Buckets(own), RoutedConfig(contacts_max=0))
    peer.submit(Create(), now=0.0)
    pinged = 0
    for number in range(1000):
        sender = Contact(number, "10.0.0.2", 9)
        messages = (Ping(number), FindOwners(number, 7), GetRing(number), Leaving(()), Names(number, (own,)))
        effects = peer.receive(Packet(sender, messages[number % 5]), now=0.1)
        pinged += sum(isinstance(effect.message, Ping) for effect in effects if isinstance(effect, Post))
    assert pinged == peer.config.meetings_max
    assert peer.contacts() == []
    assert peer.receive(Packet(own, Ping(1)), now=0.1) == []
    assert peer.status()["questions"] == pinged
