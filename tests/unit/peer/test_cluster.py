"""Peers agree on the identity of their cluster, and two clusters that meet become one."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2prdf.columns import LISTS
from p2prdf.peer import PeerConfig
from p2prdf.peer.network.cluster import STEADY_SECONDS, Cluster
from p2prdf.peer.network.messenger import Messenger
from p2prdf.wire.contract import Persist, Send, Trace
from p2prdf.wire.messages import FORMER_MAX, ClusterKnown, Contact


class Network:
    """Clusters as some peers know them, and the messages between them."""

    def __init__(self, count: int, seed: int = 0):
        self.random = Random(seed)
        self.contacts = [Contact(key, f"peer-{key}", 1) for key in range(1, count + 1)]
        self.now = 1000.0
        self.settled = True
        self.exchanges: dict[int, Messenger] = {}
        self.clusters: dict[int, Cluster] = {}
        self.kept: dict[int, list[ClusterKnown]] = {}
        self.traces: dict[int, list[Trace]] = {}
        self.under_way: list[tuple[Contact, Contact, ClusterKnown]] = []
        for contact in self.contacts:
            self.start(contact)

    def start(self, contact: Contact) -> Cluster:
        """Begin an incarnation of a peer, with the records that the former one kept."""
        config = PeerConfig(replicas=3, copies_min=2, durable=True)
        messenger = Messenger(contact, config, LISTS, draw=self.random.getrandbits)
        messenger.observe(self.now)
        messenger.recovery.caught_up = True
        cluster = Cluster(messenger, settled=lambda: self.settled)
        for record in self.kept.get(contact.key, [])[-1:]:
            cluster.restore(record)
        self.exchanges[contact.key], self.clusters[contact.key] = messenger, cluster
        self.traces[contact.key] = []
        self.kept.setdefault(contact.key, [])
        return cluster

    def meet(self, *keys: int) -> None:
        """Let some peers come to know each other."""
        for one in keys:
            self.clusters[one].enter()
            for other in keys:
                if other != one:
                    self.exchanges[one].seen(self.contacts[other - 1])
                    self.clusters[one].met(self.contacts[other - 1])

    def run(self, seconds: float = 0.0) -> None:
        """Deliver all messages in some order, then let time pass."""
        self.now += seconds
        while True:
            for contact in self.contacts:
                self.exchanges[contact.key].observe(self.now)
                self.clusters[contact.key].wake()
                self._take_effects(contact)
            if not self.under_way:
                return
            place = self.random.randrange(len(self.under_way))
            sender, receiver, message = self.under_way.pop(place)
            if receiver.key in self.clusters:
                self.clusters[receiver.key].known(sender, message)
                self._take_effects(receiver)

    def _take_effects(self, contact: Contact) -> None:
        effects, self.exchanges[contact.key].effects = self.exchanges[contact.key].effects, []
        for effect in effects:
            match effect:
                case Send(to, envelope) if isinstance(envelope.message, ClusterKnown):
                    self.under_way.append((contact, to, envelope.message))
                case Persist(message) if isinstance(message, ClusterKnown):
                    self.kept[contact.key].append(message)
                case Trace():
                    self.traces[contact.key].append(effect)

    @property
    def identities(self) -> set[int]:
        return {cluster.identity for cluster in self.clusters.values()}


def two_clusters(seed: int = 0) -> Network:
    """Return the peers 1 to 3 and the peers 4 and 5, which have begun a cluster each."""
    network = Network(5, seed)
    network.meet(1, 2, 3)
    network.meet(4, 5)
    network.run()
    assert len(network.identities) == 2
    return network


def test_the_first_peer_in_sync_names_the_cluster_and_the_others_adopt_the_name() -> None:
    network = Network(3)
    for messenger in network.exchanges.values():
        messenger.recovery.caught_up = False
    network.meet(1, 2, 3)
    network.run(60.0)
    assert network.identities == {0}
    for messenger in network.exchanges.values():
        messenger.recovery.caught_up = True
    network.run()
    (identity,) = network.identities
    assert identity
    assert all(network.kept[contact.key][-1].identity == identity for contact in network.contacts)
    assert all(cluster.merging is None and not cluster.merges for cluster in network.clusters.values())


def test_a_peer_that_has_not_entered_a_cluster_names_none_and_reports_nothing() -> None:
    network = Network(2)
    for contact, other in (network.contacts, network.contacts[::-1]):
        network.clusters[contact.key].met(other)
    network.run(60.0)
    assert network.identities == {0}


def test_a_restarted_peer_keeps_the_identity_and_one_without_a_disk_adopts_it() -> None:
    network = Network(3)
    network.meet(1, 2, 3)
    network.run()
    before = network.identities
    network.kept[2] = []
    for key in (1, 2):
        network.start(network.contacts[key - 1])
        network.meet(1, 2, 3)
    network.run()
    assert network.identities == before
    assert not any(cluster.merges for cluster in network.clusters.values())


def test_a_restart_that_others_do_not_notice_leaves_no_identity_unknown() -> None:
    network = Network(2)
    network.meet(1, 2)
    network.run()
    network.kept[1] = []
    again = network.start(network.contacts[0])
    again.met(network.contacts[1])
    again.enter()
    network.run()
    assert len(network.identities - {0}) == len(network.identities) == 1


@given(st.integers(0, 1 << 16))
def test_two_clusters_that_meet_become_one_under_the_lower_identity(seed: int) -> None:
    network = two_clusters(seed)
    lower, other = sorted(network.identities)
    network.meet(*network.random.sample([1, 2, 3], 2), *network.random.sample([4, 5], 1))
    network.run()
    network.meet(1, 2, 3, 4, 5)
    network.run()
    for contact in network.contacts:
        cluster = network.clusters[contact.key]
        assert (cluster.identity, cluster.former) == (lower, (other,))
        assert f"{lower:016x}" in str(cluster.merging)
        (met,) = [trace for trace in network.traces[contact.key] if trace.event == "clusters-met"]
        assert met.fields["cluster"] == f"{lower:016x}"
        assert network.kept[contact.key][-1].identity == lower


def test_a_merge_lasts_until_the_data_is_in_place_and_all_report_the_same_identity() -> None:
    network = two_clusters()
    network.settled = False
    network.meet(1, 2, 3, 4, 5)
    network.run(60.0)
    assert all(cluster.merging for cluster in network.clusters.values())
    network.settled = True
    newcomer = Contact(9, "peer-9", 1)
    network.clusters[1].met(newcomer)
    network.run(STEADY_SECONDS)
    assert network.clusters[1].merging, "the newcomer has not told its cluster"
    assert network.clusters[2].merging is None
    network.clusters[1].known(newcomer, ClusterKnown(network.clusters[1].identity, 6, []))
    network.run(STEADY_SECONDS)
    assert network.clusters[1].merging is None
    assert [trace.event for trace in network.traces[1]][-1] == "cluster-merged"


def test_a_member_that_was_away_during_a_merge_adopts_the_present_identity() -> None:
    network = two_clusters()
    away = 5 if network.clusters[5].identity > network.clusters[1].identity else 3
    others = [key for key in (1, 2, 3, 4, 5) if key != away]
    for key in others:
        network.clusters[key].lost(network.contacts[away - 1])
    network.meet(*others)
    network.run()
    network.run(STEADY_SECONDS)
    network.start(network.contacts[away - 1])
    network.meet(1, 2, 3, 4, 5)
    network.run()
    assert len(network.identities) == 1
    assert all(network.clusters[key].merges == 1 and network.clusters[key].merging is None for key in others)
    assert network.clusters[away].merging, "it holds data that the others may not have"


def test_former_identities_are_bounded_and_all_peers_keep_the_same() -> None:
    network = Network(2)
    network.meet(1, 2)
    network.run()
    strangers = [Contact(key, f"peer-{key}", 1) for key in range(10, 100)]
    for number, stranger in enumerate(strangers, 2):
        network.clusters[1 + number % 2].known(stranger, ClusterKnown(number, 1, []))
    network.run()
    assert network.identities == {2}
    assert len({cluster.former for cluster in network.clusters.values()}) == 1
    assert len(network.clusters[1].former) == FORMER_MAX


@pytest.mark.parametrize("identity", [0, 7])
def test_a_repeated_cluster_message_is_answered_only_on_request(identity: int) -> None:
    network = Network(1)
    stranger = Contact(9, "peer-9", 1)
    network.exchanges[1].seen(stranger)
    network.clusters[1].enter()
    network.clusters[1].known(stranger, ClusterKnown(identity, 1, []))
    network.exchanges[1].effects.clear()
    for asks, answers in ((False, 0), (True, 1)):
        network.clusters[1].known(stranger, ClusterKnown(identity, 1, [], asks))
        sent = [effect for effect in network.exchanges[1].effects if isinstance(effect, Send)]
        assert len(sent) == answers
