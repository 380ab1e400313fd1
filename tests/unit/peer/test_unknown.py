"""Answers and retractions of a group that a replica does not know: kept for a while, and never refused for ever."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from standing_homes import Replica

from p2prdf.columns import ARRAYS, LISTS, as_list
from p2prdf.errors import RemoteProtocolError
from p2prdf.peer.network.config import PeerConfig
from p2prdf.peer.network.recovery import Recovery
from p2prdf.peer.network.signals import Signals
from p2prdf.peer.subscriptions import unresolved as unknown
from p2prdf.peer.subscriptions.delivery import Delivery
from p2prdf.peer.subscriptions.unresolved import ASK_SECONDS, GROUP_SECONDS
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.wire.messages import Contact, KeepRetracted, NamesResponse

OWN, FELLOW = Contact(1, "own", 1), Contact(2, "fellow", 2)
MATERIALS = pytest.mark.parametrize("columns", [LISTS, ARRAYS], ids=["lists", "arrays"])
ASK = "ASK { ?a <urn:p> ?b }"


class Setting:
    """A replica of a coordinator that does not know a group, which another replica knows."""

    def __init__(self, columns=LISTS):
        dictionary = TermDictionary()
        self.other, self.replica = Replica(dictionary, columns), Replica(dictionary, columns)
        self.subscription = self.other.open(ASK, 20)
        self.group = self.subscription.group.identity
        self.persisted, self.changed, self.refused = [], [], 0
        self.rank = 0
        self.messenger = SimpleNamespace(
            own=OWN, columns=columns, now=0.0, restoring=False, persist=self.persisted.append,
            placement=SimpleNamespace(replicated=True, rank=lambda _: self.rank, fellows=lambda _: [FELLOW]),
            recovery=Recovery(),
            send=lambda *_: None, members=SimpleNamespace(copies_missing=False, somebody_missing=False),
            inbox=SimpleNamespace(refuse=self._refuse), trace=lambda *_, **__: None, signals=Signals(),
            obsolete_if=lambda *_: None, config=PeerConfig(),
        )  # fmt: skip
        self.messenger.recovery.caught_up = True
        self.delivery = Delivery(
            self.messenger, None, self.replica.home, SimpleNamespace(chunker=None), dictionary, None,
            orphan=print, late=print, too_large=print,
        )  # fmt: skip
        self.unknown = self.delivery.unknown
        self.delivery.evaluations = SimpleNamespace(changed=lambda _, changes: self.changed.extend(changes))

    def _refuse(self):
        self.refused += 1

    def withdraw(self, *identities, leaf=0):
        message = KeepRetracted(leaf or self.group, 30, self.replica.columns.column(identities))
        self.delivery.withdrawn(message)
        return message

    def learn(self):
        """Take in the record of the group's subscription."""
        self.replica.home.keep(self.other.home.record_of(self.subscription), 0.0)
        self.unknown.learned(self.group, subscription=False)

    def withdrawn(self):
        answers = self.replica.home.leaf(self.group).answers
        return answers.withdrawn(range(len(answers)))

    def others_know_nothing(self):
        """Let the time come at which a group that no replica knows is over."""
        self.messenger.now += GROUP_SECONDS + ASK_SECONDS
        self.unknown.wake()
        make = self.replica.columns.column
        self.unknown.told(FELLOW, NamesResponse(make([self.group]), make([0], "uint32"), make([0], "uint32")))


@MATERIALS
@pytest.mark.parametrize("in_step", [True, False])
def test_a_retraction_for_an_unknown_group_is_acknowledged_and_applied_once_the_group_is_known(columns, in_step):
    setting = Setting(columns)
    setting.messenger.recovery.caught_up = in_step
    message = setting.withdraw(5, 6)
    assert (setting.refused, setting.persisted) == (0, [message])
    assert list(setting.unknown.messages()) == [message], "a snapshot holds it"
    assert setting.unknown.rows == 2
    setting.learn()
    assert setting.withdrawn() == [5, 6]


@pytest.mark.parametrize("rank", [0, 1])
def test_a_retraction_for_a_group_that_no_replica_knows_is_dropped_and_further_ones_are_acknowledged(rank):
    setting = Setting()
    setting.rank = rank
    setting.withdraw(5)
    setting.others_know_nothing()
    assert (len(setting.unknown), setting.unknown.rows) == (0, 0)
    setting.withdraw(6)
    assert (setting.refused, len(setting.unknown), len(setting.persisted)) == (0, 0, 1)


def test_a_retraction_for_an_ended_group_is_acknowledged():
    setting = Setting()
    setting.replica.home.ends.add(setting.group, 40, subscription=False)
    setting.withdraw(5)
    assert (setting.refused, setting.persisted, len(setting.unknown)) == (0, [], 0)


def test_a_retraction_is_held_while_a_former_incarnation_is_restored_though_the_ring_is_not_known():
    setting = Setting()
    setting.messenger.restoring, setting.rank = True, -1
    setting.withdraw(5)
    assert setting.unknown.rows == 1
    setting.learn()
    assert setting.withdrawn() == [5]


def test_a_retraction_that_belongs_to_other_replicas_is_acknowledged_and_not_held():
    setting = Setting()
    setting.rank = -1
    setting.withdraw(5)
    assert (setting.refused, setting.unknown.rows) == (0, 0)


def test_retractions_beyond_the_bound_are_refused_and_come_again(monkeypatch):
    monkeypatch.setattr(unknown, "ROWS_MAX", 2)
    setting = Setting()
    setting.withdraw(5, 6)
    setting.withdraw(7)
    assert (setting.refused, len(setting.persisted)) == (1, 1)


def test_retractions_for_a_leaf_that_a_known_query_does_not_have_are_a_protocol_error():
    setting = Setting()
    setting.learn()
    with pytest.raises(RemoteProtocolError, match="no leaf"):
        setting.withdraw(5, leaf=setting.group + 3)
    assert as_list(setting.withdrawn()) == []
