"""Records that replicas of a coordinator exchange about one subscription, and their effect on its evaluation."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from standing_homes import Replica

from p2prdf.columns import ARRAYS, LISTS, as_list
from p2prdf.peer.subscriptions.replication import RecordReplication
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.store.result_log import EARLY_MAX
from p2prdf.wire.messages import WITHDRAWN, Contact, KeepAcknowledged, KeepAnswers

OWN, FELLOW = Contact(1, "own", 1), Contact(2, "fellow", 2)
MATERIALS = pytest.mark.parametrize("columns", [LISTS, ARRAYS], ids=["lists", "arrays"])


class Setting:
    """The records of a coordinator with one subscription, and their effects."""

    def __init__(self, columns=LISTS, text="ASK { ?a <urn:p> ?b }"):
        self.replica = Replica(TermDictionary(), columns)
        self.subscription = self.replica.open(text, 20)
        self.sent, self.persisted, self.told_elsewhere = [], [], []
        messenger = SimpleNamespace(
            own=OWN, columns=columns, now=0.0, persist=self.persisted.append,
            members=SimpleNamespace(short_of_peers=False),
            placement=SimpleNamespace(rank=lambda _: 0, fellows=lambda _: [FELLOW]),
            send=lambda _, message, __=(): self.sent.append(message),
        )  # fmt: skip
        self.records = RecordReplication(
            messenger, None, self.replica.home, kept=print, changed=lambda _: None, learned=print, orphan=print,
            late=print, told_elsewhere=self.told_elsewhere.append,
        )  # fmt: skip

    def acknowledged(self, identities, *, lost=False):
        return KeepAcknowledged(self.subscription.number, self.replica.columns.column(identities), lost)

    def told(self, identity):
        make = self.replica.columns.column
        return KeepAnswers(self.subscription.number, make([identity]), make([30]), ())


@MATERIALS
@pytest.mark.parametrize("lost", [False, True])
def test_an_acknowledged_or_lost_answer_unknown_here_was_reported_elsewhere(columns, lost):
    """The answer itself may come later, and is no news then: the evaluator has to compare at once."""
    setting = Setting(columns)
    setting.records.take_answers(setting.told(5))
    setting.told_elsewhere.clear()
    setting.records.take_acknowledged(setting.acknowledged([5], lost=lost))
    assert setting.told_elsewhere == []
    setting.records.take_acknowledged(setting.acknowledged([5 ^ WITHDRAWN], lost=lost))
    assert setting.told_elsewhere == [setting.subscription]
    setting.records.take_acknowledged(setting.acknowledged([5 ^ WITHDRAWN], lost=lost))
    assert setting.told_elsewhere == [setting.subscription]


@MATERIALS
def test_an_acknowledgement_of_an_answer_unknown_here_shows_a_report_elsewhere(columns):
    setting = Setting(columns)
    setting.records.acknowledge(setting.subscription, columns.column([5]))
    assert setting.told_elsewhere == [setting.subscription]


@MATERIALS
def test_all_acknowledgements_known_to_another_replica_are_taken(columns):
    """A subscription may have had any number of answers before this replica came, or before its snapshot."""
    setting = Setting(columns)
    for start in range(0, EARLY_MAX + 10_000, 10_000):
        setting.records.take_acknowledged(setting.acknowledged(range(start, start + 10_000)))
    assert setting.subscription.log.known == start + 10_000


@MATERIALS
def test_only_remembered_acknowledgements_are_sent_to_others(columns):
    """Otherwise a client that acknowledges answers it never got would fill their memories."""
    setting = Setting(columns)
    log = setting.subscription.log
    log.early_max = 3
    setting.records.take_answers(setting.told(50))
    for start in (0, 10, 20):
        setting.records.acknowledge(setting.subscription, columns.column([start + 1, start + 2]))
    setting.records.acknowledge(setting.subscription, columns.column([99, 50]))
    assert [as_list(message.identity) for message in setting.sent] == [[1, 2], [11, 12], [50]]
    assert [as_list(message.identity) for message in setting.persisted[1:]] == [[1, 2], [11, 12], [50]]


def test_a_record_counts_as_kept_by_others_when_there_are_others():
    setting = Setting()
    messenger, waiting = setting.records._messenger, []
    messenger.members.short_of_peers = True
    messenger.wait_for_peers = lambda again, tokens: waiting.append((again, tokens))
    setting.records.tell_subscription(setting.subscription, (77,))
    assert setting.persisted
    assert setting.sent == []
    ((again, held),) = waiting
    assert held == (77,)
    messenger.members.short_of_peers = False
    again()
    assert setting.sent == setting.persisted
