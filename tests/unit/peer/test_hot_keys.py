"""Hot keys, peer by peer: every case of storing or passing on a triple, the order of a split, and its repair."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from p2prdf import hlc, keys
from p2prdf.columns import ARRAYS, LISTS, as_list
from p2prdf.errors import LocalProtocolError
from p2prdf.peer import Peer, PeerConfig
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.rdf.query import Algorithm, ConjunctiveQuery, make_plan
from p2prdf.wire.contract import ContactLost, ContactSeen, OwnersFound, Publish, Send
from p2prdf.wire.messages import (
    Acknowledge,
    Contact,
    Envelope,
    Forward,
    Groups,
    GroupsGone,
    HoldSubKeys,
    IndexQuery,
    IndexTriples,
    KeepGroups,
    KeyDepth,
    LoadRequest,
    LoadResponse,
    RatesRequest,
    RatesResponse,
    Rows,
)

PEERS = tuple(Contact(at << 61, f"peer-{at}", 1) for at in range(8))
P = keys.P
PREDICATE = "<p>"
KEY = keys.role_key(P, 0, keys.term_hash(PREDICATE), 0)
SUB = keys.sub_key(KEY, 1)
OWNER, HOLDER = (min(PEERS, key=lambda each, key=key: each.key ^ key) for key in (KEY, SUB))
OTHER, SENDER = [each for each in PEERS if each not in (OWNER, HOLDER)][:2]
MARK = 1 << P | 1 << P + keys.MARK_SHIFT
PLAN = make_plan(ConjunctiveQuery(((0, ~0, 1),), (PREDICATE,), (0, 1), ("s", "o")), (0,), Algorithm.CSBV)
SINCE = hlc.from_seconds(1.0)


class Bench:
    """One peer that knows the ring (or, if not ``whole``, knows its peers but not that they are all)."""

    def __init__(self, contact: Contact, columns, *, whole: bool = True, **config: Any):
        self.columns = columns
        self.now = 1000.0
        self.dictionary = TermDictionary()
        self.peer = Peer(contact, PeerConfig(**config), self.dictionary, columns)
        self.sent: list[tuple[Contact, Any]] = []
        self.unacknowledged: list[tuple[Contact, int]] = []
        self.events = count()
        for other in PEERS:
            self.submit(ContactSeen(other))
        if whole:
            self.submit(OwnersFound(contact.key, PEERS, complete=True))

    @property
    def view(self) -> int:
        """The number of the peer's view of the ring."""
        return self.peer._messenger.view

    def _carry_out(self, effects) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                self.sent.append((effect.to, effect.envelope.message))
                if effect.envelope.transfer:
                    self.unacknowledged.append((effect.to, effect.envelope.transfer))

    def submit(self, request) -> None:
        """Hand in a request."""
        self._carry_out(self.peer.submit(request, now=self.now))

    def take(self, sender: Contact, message) -> None:
        """Hand in a message and let the peer work it off."""
        self._carry_out(self.peer.receive(Envelope(0, 0, message), sender=sender, now=self.now))
        self.wake()

    def wake(self) -> None:
        """Let the peer do all work that is due."""
        while self.peer.deadline is not None and self.peer.deadline <= self.now:
            self._carry_out(self.peer.wake(now=self.now))

    def pass_interval(self) -> None:
        """Let an interval end: the next arrival makes the peer draw conclusions."""
        self.now += self.peer.config.hot_interval_seconds

    def acknowledge(self) -> None:
        """Have all that was sent acknowledged."""
        waiting, self.unacknowledged = self.unacknowledged, []
        for contact, number in waiting:
            self.take(contact, Acknowledge(self.columns.column([number])))

    def to_send(self, *kinds: type) -> list[tuple[Contact, Any]]:
        """Return the messages of some types sent since the last call."""
        found = [(to, message) for to, message in self.sent if isinstance(message, kinds)]
        self.sent.clear()
        return found

    def triples(self, index: int, many: int = 1, **fields: Any) -> IndexTriples:
        """Make a message of new triples that belong to sub-key ``index`` of two under the predicate."""
        texts = []
        while len(texts) < many:
            triple = (f"<s{next(self.events)}>", PREDICATE, "<o>")
            if keys.role_key(keys.SPO, *map(keys.term_hash, triple)) & 1 == index:
                texts.append(triple)
        make = self.columns.column
        s, p, o = (make(self.dictionary.intern_all(column), "uint32") for column in zip(*texts, strict=True))
        events = make([keys.event_id(1, next(self.events)) for _ in texts])
        roles = self.columns.full(many, fields.pop("roles", 1 << P), "uint32")
        return IndexTriples(s, p, o, self.columns.full(many, SINCE + 1), events, roles, **fields)

    def query(self, identity: int = 1 << 32, **fields: Any) -> IndexQuery:
        """Make a query that waits under the predicate."""
        make = self.columns.column
        stamp = make([SINCE])
        params = (make(self.dictionary.intern_all([PREDICATE]), "uint32"),)
        return IndexQuery(PLAN, 0, Groups(make([identity]), stamp, stamp, make([1 << 62]), params), **fields)

    @property
    def held(self) -> int:
        """Triples held."""
        return int(str(self.peer.status()["triples"]))


@pytest.fixture(params=[LISTS, ARRAYS], ids=["light", "columnar"])
def columns(request):
    """Either kind of tables."""
    return request.param


@pytest.fixture(params=[True, False], ids=["same view", "own view"])
def agreed(request):
    """Whether sender and receiver have the same view of the ring."""
    return request.param


def split_owner(columns, **config: Any) -> Bench:
    """Return the owner of the key, which is split in two, with all acknowledged."""
    bench = Bench(OWNER, columns, hot_sample=1, **config)
    bench.take(SENDER, KeyDepth(P, KEY, 1))
    bench.acknowledge()
    bench.to_send()
    return bench


# --- storing or passing on a triple ----------------------------------------------------------------


def deliver(bench: Bench, message: IndexTriples, *, agreed: bool) -> None:
    bench.take(SENDER, replace(message, view=bench.view if agreed else 0))


def check_passed_on(bench: Bench, to: Contact) -> None:
    """One message of one triple went on, for the key itself; nothing was kept."""
    assert bench.held == 0
    ((receiver, message),) = [each for each in bench.sent if isinstance(each[1], IndexTriples)]
    assert receiver == to
    assert as_list(message.roles) == [1 << P]
    assert message.hops == 1


@pytest.mark.parametrize("index", [0, 1])
def test_the_owner_stores_unmarked_triples(columns, agreed, index):
    bench = Bench(OWNER, columns, hot_sample=1)
    deliver(bench, bench.triples(index), agreed=agreed)
    assert bench.held == 1
    assert bench.to_send(KeyDepth, IndexTriples) == []


def test_the_owner_corrects_a_sender_to_the_wrong_place_once_per_interval(columns, agreed):
    bench = split_owner(columns)
    deliver(bench, bench.triples(0), agreed=agreed)
    assert bench.to_send(KeyDepth) == []
    deliver(bench, bench.triples(1), agreed=agreed)
    deliver(bench, bench.triples(1), agreed=agreed)
    assert bench.held == 3
    assert bench.to_send(KeyDepth) == [(SENDER, KeyDepth(P, KEY, 1))]
    bench.pass_interval()
    deliver(bench, bench.triples(1), agreed=agreed)
    assert bench.to_send(KeyDepth) == [(SENDER, KeyDepth(P, KEY, 1))]


def test_a_holder_passes_on_unmarked_triples(columns):
    bench = Bench(HOLDER, columns)
    bench.take(OWNER, HoldSubKeys(P, KEY, 1))
    deliver(bench, bench.triples(1), agreed=False)
    check_passed_on(bench, OWNER)


def test_the_owner_stores_marked_triples(columns, agreed):
    for bench in (Bench(OWNER, columns), split_owner(columns)):
        deliver(bench, bench.triples(1, roles=MARK), agreed=agreed)
        assert bench.held == 1
        assert bench.to_send(IndexTriples, KeyDepth) == []


def test_a_holder_stores_marked_triples_and_reminds_the_owner(columns, agreed):
    bench = Bench(HOLDER, columns)
    bench.take(OWNER, HoldSubKeys(P, KEY, 1))
    for _ in range(3):
        deliver(bench, bench.triples(1, roles=MARK), agreed=agreed)
    assert bench.held == 3
    assert bench.to_send(KeyDepth, IndexTriples) == [(OWNER, KeyDepth(P, KEY, 1))]
    assert bench.peer.status()["sub_keys_held"] == 1


def test_the_owner_of_a_sub_key_that_was_not_asked_swallows_nothing(columns, agreed):
    """The owner is new, or came back without its tables: it has no rows that the triple could meet."""
    bench = Bench(HOLDER, columns)
    deliver(bench, bench.triples(1, roles=MARK), agreed=agreed)
    check_passed_on(bench, OWNER)
    assert bench.to_send(KeyDepth) == [(OWNER, KeyDepth(P, KEY, 0))]


def test_a_holder_asked_by_a_former_owner_passes_on_and_tells_the_owner_the_depth(columns, agreed):
    """The key has a new owner, which may not know that it is split."""
    bench = Bench(HOLDER, columns)
    bench.take(OTHER, HoldSubKeys(P, KEY, 3))
    deliver(bench, bench.triples(1, roles=MARK), agreed=agreed)
    check_passed_on(bench, OWNER)
    assert bench.to_send(KeyDepth) == [(OWNER, KeyDepth(P, KEY, 3))]


@pytest.mark.parametrize("asked", [False, True])
def test_a_peer_that_owns_neither_key_nor_sub_key_passes_on(columns, asked):
    """So does a peer that was asked but owns no sub-key by its own view: later rows may not come to it."""
    bench = Bench(OTHER, columns)
    if asked:
        bench.take(OWNER, HoldSubKeys(P, KEY, 1))
    deliver(bench, bench.triples(1, roles=MARK), agreed=False)
    check_passed_on(bench, OWNER)


def test_one_message_may_hold_all_cases(columns, agreed):
    """Marked under one index, unmarked under another, split and not: each part goes its own way."""
    bench = Bench(HOLDER, columns)
    bench.take(OWNER, HoldSubKeys(P, KEY, 1))
    marked, other = bench.triples(1, roles=MARK), bench.triples(1, roles=MARK)
    strange = bench.columns.column(bench.dictionary.intern_all(["<q>"]), "uint32")
    concat = bench.columns.concat
    names = ("s", "p", "o", "time", "event", "roles")
    parts = [concat([getattr(marked, name), getattr(replace(other, p=strange), name)]) for name in names]
    deliver(bench, IndexTriples(*parts), agreed=agreed)
    stranger = keys.role_key(P, 0, keys.term_hash("<q>"), 0)
    its_owner = min(PEERS, key=lambda each: each.key ^ stranger)
    assert bench.held == 1 + (its_owner == HOLDER)
    assert [to for to, _ in bench.to_send(IndexTriples)] == [its_owner] * (its_owner != HOLDER)


def test_a_triple_that_was_passed_on_too_often_stays_and_is_stored_as_any(columns):
    bench = Bench(OTHER, columns)
    deliver(bench, bench.triples(1, roles=MARK, hops=8), agreed=False)
    assert bench.held == 1
    assert bench.to_send(IndexTriples) == []


# --- senders --------------------------------------------------------------------------------------


def publish(bench: Bench, index: int, many: int = 1) -> list[tuple[Contact, list[int]]]:
    """Publish triples; return their receivers, with the marks of their triples under index p alone."""
    message = bench.triples(index, many)
    bench.to_send()
    bench.submit(Publish(next(bench.events), 1, next(bench.events), message.s, message.p, message.o))
    bench.wake()
    found = []
    for to, part in bench.to_send(IndexTriples):
        marks = [bits >> keys.MARK_SHIFT for bits in as_list(part.roles) if bits >> P & 1]
        found += [(to, marks)] if marks else []
    return found


def test_a_sender_spreads_by_the_depth_reported_to_it(columns):
    bench = Bench(SENDER, columns)
    assert publish(bench, 1) == [(OWNER, [0])]
    bench.take(OWNER, KeyDepth(P, KEY, 1))
    assert publish(bench, 1) == [(HOLDER, [1 << P])]
    assert publish(bench, 0) == [(OWNER, [0])]
    bench.take(OWNER, KeyDepth(P, KEY, 0))
    assert publish(bench, 1, many=10) == [(HOLDER, [1 << P] * 10)]


def test_a_marked_triple_goes_straight_even_where_others_find_their_own_way(columns):
    """A peer on the way would take it for a triple of the key itself; so the owner is looked up."""
    bench = Bench(SENDER, columns, whole=False, multisend="recursive")
    assert publish(bench, 1) == [(OWNER, [0])]
    parked = bench.peer.status()["batches_waiting"]
    bench.take(OWNER, KeyDepth(P, KEY, 1))
    assert publish(bench, 1) == []
    assert bench.peer.status()["batches_waiting"] == parked + 1
    bench.submit(OwnersFound(SUB, PEERS, complete=True))
    bench.wake()
    sent = [(to, part) for to, part in bench.to_send(IndexTriples) if as_list(part.roles)[0] >> keys.MARK_SHIFT]
    assert [to for to, _ in sent] == [HOLDER]


def test_a_sender_that_owns_the_sub_key_keeps_the_triple_only_if_it_was_asked_to_hold(columns):
    bench = Bench(HOLDER, columns)
    bench.take(OWNER, KeyDepth(P, KEY, 1))
    assert publish(bench, 1, many=5) == [(OWNER, [0] * 5)]
    bench.take(OWNER, HoldSubKeys(P, KEY, 1))
    assert publish(bench, 1) == []


def test_triples_on_their_way_to_a_lost_holder_are_placed_again(columns):
    bench = Bench(SENDER, columns)
    bench.take(OWNER, KeyDepth(P, KEY, 1))
    publish(bench, 1)
    bench.submit(ContactLost(HOLDER))
    bench.wake()
    heir = min((each for each in PEERS if each != HOLDER), key=lambda each: each.key ^ SUB)
    sent = [(to, as_list(part.roles)) for to, part in bench.to_send(IndexTriples)]
    assert (heir, [MARK]) in [(to, [bits & MARK for bits in roles]) for to, roles in sent]


# --- splitting ------------------------------------------------------------------------------------


def test_a_split_copies_rows_then_asks_to_hold_and_informs_senders_when_all_is_acknowledged(columns):
    bench = Bench(OWNER, columns, hot_sample=1)
    bench.take(OTHER, bench.query(1 << 32))
    bench.to_send()
    bench.take(SENDER, KeyDepth(P, KEY, 1))
    (first, copied), (second, asked) = bench.to_send(Forward, HoldSubKeys)
    assert first == second == HOLDER
    assert copied.copied
    assert as_list(copied.groups.ids) == [1 << 32]
    assert asked == HoldSubKeys(P, KEY, 1)
    bench.take(SENDER, bench.triples(1))
    bench.take(OTHER, bench.query(2 << 32))  # between the copies and their acknowledgement
    ((receiver, later),) = bench.to_send(Forward, KeyDepth)
    assert receiver == HOLDER
    assert as_list(later.groups.ids) == [2 << 32]
    bench.acknowledge()
    bench.take(SENDER, bench.triples(1))
    assert bench.to_send(KeyDepth) == [(SENDER, KeyDepth(P, KEY, 1))]
    status = bench.peer.status()
    assert (status["keys_split"], status["depth_max"]) == (1, 1)


def test_a_holder_joins_copies_with_triples_in_either_order_and_copies_them_no_further(columns):
    """So does a holder that has split the key itself while it was the owner."""
    owner = split_owner(columns)
    owner.take(OTHER, owner.query())
    ((_, copied),) = owner.to_send(Forward)
    for triple_first in (False, True):
        bench = Bench(HOLDER, columns)
        bench.dictionary.intern_all([PREDICATE])
        bench.take(OWNER, HoldSubKeys(P, KEY, 1))
        bench.peer._engine.hot.split(P, KEY, 2)
        bench.to_send()
        term = bench.columns.column(bench.dictionary.intern_all([PREDICATE]), "uint32")
        rows = replace(copied, groups=replace(copied.groups, params=(term,)))
        arrivals = [(OWNER, rows), (SENDER, bench.triples(1, roles=MARK))]
        for sender, message in reversed(arrivals) if triple_first else arrivals:
            bench.take(sender, message)
        assert bench.peer.status()["pairs_joined"] == 1
        assert bench.to_send(Forward) == []


def test_a_query_that_another_subscription_joins_is_probed_again_at_the_holder(columns):
    """The copy carries the stamp from which stored triples are to be probed again, and the group's wider bounds."""
    bench = split_owner(columns)
    bench.take(OTHER, bench.query())
    bench.to_send()
    again = bench.query(refresh=SINCE + 5)
    bench.take(OTHER, replace(again, groups=replace(again.groups, since_max=bench.columns.column([SINCE + 5]))))
    ((receiver, copied),) = bench.to_send(Forward)
    assert receiver == HOLDER
    assert copied.refresh == SINCE + 5
    assert as_list(copied.groups.since_max) == [SINCE + 5]


def test_a_group_that_ended_ends_at_the_holders_once(columns):
    bench = split_owner(columns)
    bench.take(OTHER, bench.query(1 << 32))
    bench.take(OTHER, bench.query(2 << 32))
    bench.to_send()
    gone = GroupsGone(bench.columns.column([1 << 32, 7 << 32]))
    bench.take(OTHER, gone)
    ((receiver, told),) = bench.to_send(GroupsGone)
    assert receiver == HOLDER
    assert as_list(told.groups) == [1 << 32]
    bench.take(HOLDER, gone)
    assert bench.to_send(GroupsGone) == []
    assert bench.peer.waiting(P, KEY)[0][0] == 2 << 32


def test_a_holder_asks_the_coordinator_whether_a_copied_query_is_still_live(columns):
    """A peer that holds nothing but copies has leases to watch as well."""
    bench = Bench(HOLDER, columns, group_lease_seconds=10.0)
    query = bench.query(OTHER.key | 1)
    make = bench.columns.column
    groups = replace(query.groups, lease=make([hlc.from_seconds(bench.now + 10)]))
    rows = Rows(make([0], "uint32"), make([7]), make([(1 << 64) - 1]), make([0]), ())
    bench.take(OWNER, Forward(PLAN, 0, groups, rows, copied=True))
    for _ in range(4):
        bench.now += 5.0
        bench.wake()
    assert [(to, as_list(asked.groups)) for to, asked in bench.to_send(KeepGroups)][:1] == [(OTHER, [OTHER.key | 1])]
    bench.take(OTHER, GroupsGone(make([OTHER.key | 1])))
    assert bench.peer.waiting(P, KEY) == []


def test_rates_count_all_sub_keys(columns):
    bench = split_owner(columns)
    bench.take(SENDER, bench.triples(0, many=3))
    term, role, position = (bench.columns.column([each], "uint32") for each in (0, P, 0))
    predicate = bench.columns.column(bench.dictionary.intern_all([PREDICATE]), "uint32")
    bench.now += 5.0  # by then it is stable and knows the indexes in use
    bench.take(OTHER, RatesRequest(1, OTHER, position, role, term, predicate, term))
    ((_, rates),) = bench.to_send(RatesResponse)
    assert as_list(rates.counts) == [3 * 2 + 1]


# --- how it heals ---------------------------------------------------------------------------------


def test_a_holder_that_has_forgotten_is_given_all_rows_again(columns):
    bench = split_owner(columns)
    bench.take(OTHER, bench.query())
    bench.to_send()
    bench.take(HOLDER, KeyDepth(P, KEY, 1))
    assert bench.to_send(Forward, HoldSubKeys) == []
    bench.take(HOLDER, KeyDepth(P, KEY, 0))
    assert [(to, type(message)) for to, message in bench.to_send(Forward, HoldSubKeys)] == [
        (HOLDER, Forward), (HOLDER, HoldSubKeys),
    ]  # fmt: skip


def test_the_heir_of_a_lost_holder_is_supplied_when_the_interval_ends(columns):
    bench = split_owner(columns)
    bench.take(OTHER, bench.query())
    bench.submit(ContactLost(HOLDER))
    bench.wake()
    bench.to_send()
    bench.take(OTHER, bench.query(2 << 32))
    assert bench.to_send(Forward) == []  # nobody holds, so nobody keeps
    bench.pass_interval()
    bench.take(SENDER, bench.triples(0))
    heir = min((each for each in PEERS if each != HOLDER), key=lambda each: each.key ^ SUB)
    ((receiver, copied), (asked, _)) = bench.to_send(Forward, HoldSubKeys)
    assert receiver == asked == heir
    assert sorted(as_list(copied.groups.ids)) == [1 << 32, 2 << 32]


def test_a_holder_that_was_away_is_supplied_when_it_is_there_again(columns):
    """The end of an interval is not waited for: without further arrivals it might not come for long."""
    bench = split_owner(columns)
    bench.take(OTHER, bench.query())
    bench.submit(ContactLost(HOLDER))
    bench.wake()
    bench.take(OTHER, bench.query(2 << 32))
    bench.to_send()
    bench.submit(ContactSeen(HOLDER))
    bench.wake()
    ((receiver, copied), (asked, _)) = bench.to_send(Forward, HoldSubKeys)
    assert receiver == asked == HOLDER
    assert sorted(as_list(copied.groups.ids)) == [1 << 32, 2 << 32]


def test_a_peer_that_owns_no_sub_key_is_not_supplied(columns):
    bench = split_owner(columns)
    bench.take(OTHER, bench.query())
    bench.to_send()
    bench.take(OTHER, KeyDepth(P, KEY, 0))
    assert bench.to_send(Forward, HoldSubKeys) == []


def test_a_depth_reported_under_another_index_changes_nothing(columns):
    """No key has two indexes: the sender is wrong, and copies are found by index and key."""
    bench = split_owner(columns)
    bench.to_send()
    for depth in (0, 1, 8):
        bench.take(HOLDER, KeyDepth(keys.S, KEY, depth))
    assert bench.to_send(Forward, HoldSubKeys) == []
    assert bench.peer.split_keys == {(P, KEY): 1}


def test_copies_on_their_way_to_a_lost_holder_are_not_sent_elsewhere(columns):
    bench = split_owner(columns)
    bench.take(OTHER, bench.query())
    bench.to_send()
    bench.submit(ContactLost(HOLDER))
    bench.wake()
    assert bench.to_send(Forward) == []
    assert len(bench.peer.waiting(P, KEY)) == 1


def test_a_former_owner_tells_the_new_one_the_depth_and_copies_no_more(columns):
    bench = split_owner(columns)
    bench.take(SENDER, bench.triples(0))
    heir = Contact(KEY, "heir", 1)
    bench.submit(ContactSeen(heir))
    bench.to_send()
    bench.pass_interval()
    bench.take(SENDER, bench.triples(0))
    assert (heir, KeyDepth(P, KEY, 1)) in bench.to_send(KeyDepth)
    assert bench.peer.split_keys == {}


def test_a_new_owner_goes_along_with_the_depth_that_holders_remember_even_if_it_splits_nothing_itself(columns):
    bench = Bench(OWNER, columns, hot_keys=False)
    bench.take(OTHER, bench.query())
    bench.to_send()
    bench.take(HOLDER, KeyDepth(P, KEY, 1))
    assert [to for to, _ in bench.to_send(Forward)] == [HOLDER]
    assert bench.peer.split_keys == {(P, KEY): 1}


def test_a_holder_does_not_trust_its_sub_keys_of_an_owner_that_was_away(columns):
    bench = Bench(HOLDER, columns)
    bench.take(OWNER, HoldSubKeys(P, KEY, 1))
    bench.submit(ContactLost(OWNER))
    bench.submit(ContactSeen(OWNER))
    bench.to_send()
    deliver(bench, bench.triples(1, roles=MARK), agreed=True)
    check_passed_on(bench, OWNER)


# --- detection of hot keys --------------------------------------------------------------------------

HOT = {"hot_sample": 1, "hot_rate_min": 30, "hot_interval_seconds": 10.0}


def busy(columns, many: int = 100, **config: Any) -> Bench:
    """Return the owner of the key at the end of an interval in which triples came under it."""
    bench = Bench(OWNER, columns, **(HOT | config))
    bench.wake()
    bench.take(SENDER, bench.triples(0, many=many // 2))
    bench.take(SENDER, bench.triples(1, many=many // 2))
    bench.pass_interval()
    bench.to_send()
    bench.take(SENDER, bench.triples(0))
    return bench


def answer(bench: Bench, arrivals: int) -> None:
    """Let all peers asked give the same answer."""
    for to, message in bench.to_send(LoadRequest):
        bench.take(to, LoadResponse(message.request, arrivals, 10.0))


def test_a_key_is_split_when_it_carries_more_than_a_share_of_the_mean(columns):
    """100 arrivals here, 20 at each of the other seven: the mean is 30, half of that 15, so 8 sub-keys."""
    bench = busy(columns)
    assert len(bench.sent) == 7
    answer(bench, 20)
    assert bench.peer.split_keys == {(P, KEY): 3}
    assert {message.depth for _, message in bench.to_send(HoldSubKeys)} == {3}


def test_a_key_is_not_split_when_all_are_as_busy(columns):
    bench = busy(columns)
    answer(bench, 300)
    assert bench.peer.split_keys == {}


def test_a_key_below_the_floor_is_nobodys_concern(columns):
    bench = busy(columns, many=20)
    assert bench.to_send(LoadRequest) == []


def test_with_hot_keys_off_a_peer_reports_its_load_but_asks_nobody(columns):
    bench = busy(columns, hot_keys=False)
    assert bench.to_send(LoadRequest) == []
    bench.take(OTHER, LoadRequest(1))
    assert bench.to_send(LoadResponse) == [(OTHER, LoadResponse(1, 100, 10.0))]


def test_the_next_depth_follows_from_the_rate_of_sub_key_0(columns):
    """Triples that come here only because a sender does not know the depth yet are not counted."""
    bench = busy(columns)
    answer(bench, 75)  # the mean is 78: two sub-keys are too hot, four are not
    assert bench.peer.split_keys == {(P, KEY): 2}
    bench.acknowledge()
    hot = bench.peer._engine.hot
    bench.pass_interval()
    bench.take(SENDER, bench.triples(0))
    bench.to_send()
    bench.take(SENDER, bench.triples(1, many=100))
    bench.pass_interval()
    bench.take(SENDER, bench.triples(0))
    answer(bench, 75)
    assert hot.depth(P, KEY) == 2


def test_answers_that_nobody_asked_for_change_nothing(columns):
    bench = busy(columns)
    asked = bench.to_send(LoadRequest)
    request = asked[0][1].request
    for to, _ in asked[1:]:
        bench.take(to, LoadResponse(request, 20, 10.0))
        bench.take(to, LoadResponse(request, 20, 10.0))
    bench.take(asked[0][0], LoadResponse(request + 1, 20, 10.0))
    assert bench.peer.split_keys == {}
    bench.take(asked[0][0], LoadResponse(request, 20, 0.0))  # it has just started and can report nothing
    assert bench.peer.split_keys == {(P, KEY): 3}


def test_the_answers_that_came_are_enough_after_an_interval(columns):
    bench = busy(columns)
    to, message = bench.to_send(LoadRequest)[0]
    bench.take(to, LoadResponse(message.request, 20, 10.0))
    assert bench.peer.split_keys == {}
    bench.pass_interval()
    bench.take(SENDER, bench.triples(0))
    assert bench.peer.split_keys == {(P, KEY): 3}


def test_a_key_is_split_no_further_than_its_rows_make_worth_while(columns):
    """100 triples and 30 rows came: copying the rows to two places costs 60, to four more than the triples."""
    bench = Bench(OWNER, columns, **HOT)
    bench.wake()
    for identity in range(30):
        bench.take(OTHER, bench.query((identity + 1) << 32))
    bench.take(SENDER, bench.triples(0, many=100))
    bench.pass_interval()
    bench.to_send()
    bench.take(SENDER, bench.triples(0))
    answer(bench, 20)
    assert bench.peer.split_keys == {(P, KEY): 1}


def test_a_peer_reports_the_arrivals_of_its_last_interval(columns):
    bench = busy(columns, many=40)
    bench.take(OTHER, LoadRequest(9))
    ((receiver, told),) = bench.to_send(LoadResponse)
    assert receiver == OTHER
    assert (told.request, told.arrivals, told.seconds) == (9, 40, 10.0)
    bench.now += 100.0
    bench.take(OTHER, LoadRequest(10))
    assert bench.to_send(LoadResponse) == [(OTHER, LoadResponse(10, 1, 100.0))]


@pytest.mark.parametrize(
    "wrong", [{"hot_sample": 0}, {"hot_interval_seconds": 0}, {"hot_share": -1.0}, {"hot_depth_max": 9}]
)
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(LocalProtocolError, match=next(iter(wrong))):
        PeerConfig(**wrong)
