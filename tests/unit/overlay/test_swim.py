"""Members of a view, one by one: member states and their order, gossip, clocks, refutation, and admission."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from p2prdf.errors import LocalProtocolError
from p2prdf.overlay.membership import Broken, Create, Introduce, Leave, Post
from p2prdf.overlay.swim import Swim
from p2prdf.overlay.swim_clock import Clocks
from p2prdf.overlay.swim_config import SwimConfig
from p2prdf.overlay.swim_messages import (
    BUCKETS,
    GOSSIP_BYTES_MAX,
    LIFE_SHIFT,
    Answer,
    Gossip,
    Packet,
    Probe,
    ProbeReport,
    ProbeRequest,
    PushPull,
    Record,
    Refused,
    State,
    SyncStates,
    TcpProbe,
)
from p2prdf.overlay.swim_table import GossipQueue, Table, pages
from p2prdf.overlay.timers import Timers
from p2prdf.wire.contract import ContactLost, ContactSeen
from p2prdf.wire.messages import Contact
from schedules.swim_world import SwimOptions, SwimWorld, grow

NOW = 1_000_000_000.0


def contact(number: int, port: int = 7400) -> Contact:
    return Contact(number * 0x9E3779B97F4A7C15 % (1 << 64), f"10.0.0.{number}", port)


def record(number: int, incarnation: int = 5 << LIFE_SHIFT, state: State = State.ALIVE) -> Record:
    return Record(contact(number), "", incarnation, state)


def member(number: int = 1, **named) -> Swim:
    swim = Swim(contact(number), now=NOW, entropy=Random(number), **named)
    swim.submit(Create(), now=NOW)
    return swim


def said(by: Record, message, *gossip: Record, clock: float = NOW) -> Packet:
    return Packet(by, int(clock * 1e6), message, gossip)


def posts(effects, kind) -> list[Post]:
    return [each for each in effects if isinstance(each, Post) and isinstance(each.packet.message, kind)]


def run(swim: Swim, until: float) -> list:
    """Wake a machine whenever it wants until a time; return all effects."""
    effects = []
    while swim.deadline is not None and swim.deadline <= until:
        effects += swim.wake(now=swim.deadline)
    return effects


# --- beliefs -------------------------------------------------------------------------------------

beliefs = st.builds(record, st.integers(1, 4), st.integers(1, 3), st.sampled_from(State))


@settings(deadline=None)
@given(st.lists(beliefs, max_size=20), st.randoms(use_true_random=False), st.data())
def test_members_that_received_equal_states_agree_in_any_order_and_repetition(heard, random, data):
    again = heard + data.draw(st.lists(st.sampled_from(heard), max_size=5)) if heard else []
    random.shuffle(again)
    tables = []
    for order in (heard, again):
        table = Table(SwimConfig())
        for each in order:
            if table.better(each):
                assert table.put(each, NOW)
        tables.append(table)
    one, other = tables
    assert one.living == other.living
    assert {each.contact.key: each for each in one.gone} == {each.contact.key: each for each in other.gone}
    assert one.digests(None) == other.digests(None)


def test_of_one_incarnation_later_states_win_and_a_higher_incarnation_wins_over_all():
    order = [record(2, 1, state) for state in State] + [record(2, 2)]
    assert [each.rank for each in order] == sorted(each.rank for each in order)


def test_tables_are_bounded_and_the_longest_gone_is_forgotten_first():
    table = Table(SwimConfig(view_max=4, gone_max=2, gone_seconds=10))
    assert [table.put(record(number), NOW) for number in range(2, 6)] == [True, True, True, False]
    assert table.refused == 1
    assert table.put(record(2, 9 << LIFE_SHIFT), NOW), "who is known already may change"
    for number in (2, 3, 4):
        table.put(record(number, 10 << LIFE_SHIFT, State.DEAD), NOW + number)
    assert [each.contact for each in table.gone] == [contact(3), contact(4)]
    table.forget(NOW + 13.5)
    assert [each.contact for each in table.gone] == [contact(4)]


def test_digests_cover_members_and_incarnations_but_neither_suspicion_nor_the_gone():
    table = Table(SwimConfig())
    empty = table.digests(None)
    assert len(empty) == BUCKETS
    table.put(record(2), NOW)
    one = table.digests(None)
    assert one != empty
    table.put(record(2, state=State.SUSPECT), NOW)
    assert table.digests(None) == one
    table.put(record(2, 6 << LIFE_SHIFT), NOW)
    assert table.digests(None) != one
    table.put(record(2, 6 << LIFE_SHIFT, State.DEAD), NOW)
    assert table.digests(None) == empty
    assert table.digests(record(2)) == one


def test_gossip_is_sent_a_bounded_number_of_times_the_least_sent_first():
    gossip = GossipQueue(SwimConfig(gossip_factor=1.0))
    gossip.add(record(2))
    assert gossip.take(GOSSIP_BYTES_MAX, 7) == (record(2),)
    gossip.add(record(3))
    assert gossip.take(record(3).bytes, 7) == (record(3),), "only one fits"
    told = [gossip.take(GOSSIP_BYTES_MAX, 7) for _ in range(3)]
    assert told == [(record(2), record(3)), (record(2), record(3)), ()]
    assert len(gossip) == 0


def test_newer_gossip_replaces_older_and_suspicions_of_the_receiver_come_first():
    gossip = GossipQueue(SwimConfig())
    gossip.add(record(2))
    gossip.add(record(3))
    gossip.add(record(2, state=State.SUSPECT))
    ill = record(2, state=State.SUSPECT)
    assert gossip.take(GOSSIP_BYTES_MAX, 7, ill) == (ill, record(3))


def test_pages_fit_into_packets_and_leave_nobody_out():
    everyone = [replace(record(number), zone="z" * 63) for number in range(200)]
    cut = list(pages(everyone))
    assert [each for page in cut for each in page] == everyone
    assert all(sum(each.bytes for each in page) <= GOSSIP_BYTES_MAX for page in cut)


# --- timers and clocks ---------------------------------------------------------------------------


def test_timers_run_in_order_and_a_late_wake_begins_a_time_of_grace():
    timers, made = Timers(), []
    for when, name in ((2.0, "b"), (1.0, "a"), (2.0, "c"), (5.0, "d")):
        timers.at(when, lambda name=name: made.append(name))
    timers.at(1.5, lambda: timers.at(1.0, lambda: made.append("later")))
    assert timers.deadline == 1.0
    assert not timers.run(1.05)
    assert timers.run(2.2)
    assert made == ["a", "b", "c"]
    assert timers.deadline == 1.0
    assert timers.grace_until == pytest.approx(2.2 + 0.5), "at most half a second"
    timers.run(2.3)
    assert made == ["a", "b", "c", "later"]


@pytest.mark.parametrize(
    ("offsets", "suspect"),
    [
        ([], False),
        ([0.39], False),
        ([0.5], True),
        ([-0.5], True),
        ([0.5, 0.0], False),
        ([0.5, 0.5], True),
        ([0.5, 0.5, 0.0, 0.0], False),
        ([0.5, -0.5, 0.6, 0.0], True),
    ],
)
def test_a_clock_is_suspect_while_more_than_half_of_the_others_disagree(offsets, suspect):
    clocks = Clocks(SwimConfig())
    for key, offset in enumerate(offsets):
        clocks.measure(key, NOW + 0.01 + offset, NOW, NOW + 0.02)
    assert clocks.judge(NOW + 1, len(offsets)) is suspect
    assert clocks.suspect is suspect
    assert not clocks.judge(NOW + 1, len(offsets)), "told once"


def test_the_first_answers_do_not_make_a_clock_suspect():
    clocks = Clocks(SwimConfig())
    for key in (1, 2):
        clocks.measure(key, NOW + 0.7, NOW, NOW + 0.02)
        assert not clocks.judge(NOW + 1, 9)
    clocks.measure(3, NOW + 0.7, NOW, NOW + 0.02)
    assert clocks.judge(NOW + 1, 9)
    assert clocks.suspect


def test_a_slow_answer_measures_nothing_for_certain_and_old_measurements_do_not_count():
    clocks = Clocks(SwimConfig())
    clocks.measure(1, NOW + 2.0, NOW, NOW + 2.0)
    assert clocks.offset(1) == pytest.approx(1.0)
    assert not clocks.judge(NOW + 2, 1), "half of the round trip is uncertain"
    clocks.measure(1, NOW + 2.5, NOW + 2, NOW + 2.02)
    assert clocks.judge(NOW + 3, 1)
    clocks.measure(1, NOW + 6, NOW + 3, NOW + 6)
    assert clocks.offset(1) == pytest.approx(0.49), "the more certain one stays"
    assert clocks.judge(NOW + 100, 1)
    assert not clocks.suspect


def test_a_clock_is_suspect_while_a_stranger_sees_as_many_members():
    clocks = Clocks(SwimConfig())
    stranger = Contact(9, "192.0.2.9", 7400)
    clocks.meet_stranger(stranger, 3600.0, 2, NOW)
    assert not clocks.judge(NOW + 1, 2)
    assert clocks.judge(NOW + 1, 1), "a tie: nobody can tell which of two is wrong"
    assert "3600 s ahead of this node's, and it sees 2 nodes of its time, this node 2" in clocks.reason
    clocks.meet_stranger(Contact(8, "192.0.2.8", 7400), -60.0, 1, NOW + 2)
    assert not clocks.judge(NOW + 3, 1)
    clocks.meet_stranger(stranger, 3600.0, 1, NOW + 4)
    assert clocks.judge(NOW + 5, 1), "it has lost the other"
    assert not clocks.suspect
    clocks.meet_stranger(stranger, 3600.0, 5, NOW + 6)
    assert clocks.judge(NOW + 7, 1)
    assert not clocks.judge(NOW + 66, 1), "it counts for a minute"
    assert clocks.judge(NOW + 67, 1)
    assert clocks.strangers == {}


def test_a_stranger_that_has_become_a_member_is_no_stranger_and_of_many_the_latest_count():
    clocks = Clocks(SwimConfig())
    for key in range(40):
        clocks.meet_stranger(Contact(key, "192.0.2.9", 7400), 3600.0, key, NOW)
    assert list(clocks.strangers) == list(range(24, 40))
    assert clocks.judge(NOW, 30)
    for key in range(30, 40):
        clocks.meet(key)
    assert clocks.judge(NOW, 30)
    assert not clocks.suspect


# --- one member ----------------------------------------------------------------------------------


def test_a_probe_is_answered_at_once_with_the_clock():
    swim = member()
    (post,) = posts(swim.receive(said(record(2), Probe(7)), now=NOW + 1.5), Answer)
    assert (post.to, post.packet.message) == (contact(2), Answer(7))
    assert post.packet.clock == int((NOW + 1.5) * 1e6)
    assert post.packet.sender == swim.record


def test_a_member_is_seen_when_it_speaks_and_lost_when_it_says_goodbye():
    swim = member()
    effects = swim.receive(said(replace(record(2), zone="east"), Gossip()), now=NOW)
    assert ContactSeen(contact(2), "east") in effects
    effects = swim.receive(said(record(2, state=State.LEFT), Gossip()), now=NOW)
    assert ContactLost(contact(2), left=True) in effects
    assert swim.contacts() == []


def test_a_suspected_member_that_lives_refutes():
    swim = member()
    before = swim.record
    swim.receive(said(record(2), Gossip(), replace(swim.record, state=State.SUSPECT)), now=NOW)
    assert swim.record.incarnation == before.incarnation + 1
    assert swim.record.life == before.life
    swim.receive(said(record(2), Gossip(), replace(before, state=State.DEAD)), now=NOW)
    assert swim.record.incarnation == before.incarnation + 1, "that is answered already"


@pytest.mark.parametrize(("refused_after", "gone_after"), [(0.001, 0.1), (0.04, 0.1), (0.06, 0.2), (0.16, 0.3)])
def test_a_refused_connection_and_no_answer_since_are_death(refused_after: float, gone_after: float):
    swim = member()
    swim.receive(said(record(2), Gossip()), now=NOW)
    effects = swim.submit(Broken(contact(2).key), now=NOW)
    assert TcpProbe(contact(2)) in effects
    effects += run(swim, NOW + refused_after)
    effects += swim.submit(Refused(contact(2)), now=NOW + refused_after)
    effects += run(swim, NOW + gone_after - 0.01)
    assert ContactLost(contact(2)) not in effects
    assert ContactLost(contact(2)) in run(swim, NOW + gone_after + 0.01)


def test_a_member_that_answers_after_a_refused_connection_is_alive():
    swim = member()
    swim.receive(said(record(2), Gossip()), now=NOW)
    effects = swim.submit(Broken(contact(2).key), now=NOW)
    effects += swim.submit(Refused(contact(2)), now=NOW + 0.001)
    (probe,) = posts(effects, Probe)
    swim.receive(said(record(2), Answer(probe.packet.message.request)), now=NOW + 0.09)
    assert ContactLost(contact(2)) not in run(swim, NOW + 1.0)


def test_a_broken_connection_alone_is_suspicion_and_an_answer_ends_that():
    swim = member()
    swim.receive(said(record(2), Gossip()), now=NOW)
    swim.submit(Broken(contact(2).key), now=NOW)
    assert not any(isinstance(each, ContactLost) for each in run(swim, NOW + 1))
    assert swim.living[contact(2).key].state is State.SUSPECT
    swim.receive(said(record(2, (5 << LIFE_SHIFT) + 1), Gossip()), now=NOW + 1)
    assert swim.living[contact(2).key].state is State.ALIVE


@pytest.mark.parametrize(("linked", "lost_after"), [(False, 1.5), (True, 6.0)])
def test_silence_becomes_death_after_the_suspicion_time_which_is_longer_for_linked_members(linked, lost_after):
    swim = member(linked=lambda _: linked)
    swim.receive(said(record(2), Gossip()), now=NOW)
    swim.receive(said(record(3), Gossip(), record(2, state=State.SUSPECT)), now=NOW)
    effects = []
    while ContactLost(contact(2)) not in effects:
        effects += swim.wake(now=swim.deadline)
        swim.receive(said(record(3), Gossip()), now=swim.now)
    assert swim.now == pytest.approx(NOW + lost_after)


def test_a_member_with_a_late_loop_gives_suspects_longer_to_refute():
    swim = member()
    swim.receive(said(record(2), Gossip()), now=NOW)
    swim.wake(now=swim.deadline + 1)
    assert swim.status()["health"] == 1
    began = swim.now
    swim.receive(said(record(3), Gossip(), record(2, state=State.SUSPECT)), now=began)
    effects = []
    while ContactLost(contact(2)) not in effects:
        effects += swim.wake(now=swim.deadline)
        swim.receive(said(record(3), Gossip()), now=swim.now)
    assert swim.now >= began + 2 * swim.config.suspicion_seconds


def test_a_member_that_wakes_late_judges_nobody_before_it_has_read_its_socket():
    swim = member()
    swim.receive(said(record(2), Gossip()), now=NOW)
    swim.submit(Broken(contact(2).key), now=NOW)
    effects = swim.submit(Refused(contact(2)), now=NOW)
    for _ in range(20):
        effects += swim.wake(now=NOW + 0.6)  # the answers lie unread in the socket
    assert ContactLost(contact(2)) not in effects
    number = posts(effects, Probe)[-1].packet.message.request
    swim.receive(said(record(2), Answer(number)), now=NOW + 0.7)
    assert ContactLost(contact(2)) not in run(swim, NOW + 1.0)


def test_a_gossiped_death_counts_at_once_and_a_synced_one_is_a_suspicion():
    dead = record(2, state=State.DEAD)
    for message, state in ((Gossip(), State.DEAD), (SyncStates(), State.SUSPECT)):
        swim = member()
        swim.receive(said(record(2), Gossip()), now=NOW)
        effects = swim.receive(said(record(3), message, dead), now=NOW)
        assert (ContactLost(contact(2)) in effects) is (state is State.DEAD)
        assert swim._table.get(contact(2).key).state is state


def test_a_member_that_does_not_know_its_reported_state_is_told():
    swim = member()
    dead = record(2, state=State.DEAD)
    swim.receive(said(record(3), Gossip(), dead), now=NOW)
    (post,) = posts(swim.receive(said(record(2), Gossip()), now=NOW), Gossip)
    assert (post.to, post.packet.gossip[0]) == (contact(2), dead)
    (answer,) = posts(swim.receive(said(record(2), Probe(1)), now=NOW), Answer)
    assert answer.packet.gossip[0] == dead


def test_help_is_given_and_reported_either_way():
    swim = member()
    for number in (2, 3):
        swim.receive(said(record(number), Gossip()), now=NOW)
    run(swim, NOW)
    effects = swim.receive(said(record(2), ProbeRequest(7, contact(3))), now=NOW)
    (probe,) = posts(effects, Probe)
    assert probe.to == contact(3)
    effects = swim.receive(said(record(3), Answer(probe.packet.message.request)), now=NOW)
    (report,) = posts(effects, ProbeReport)
    assert (report.to, report.packet.message) == (contact(2), ProbeReport(7, heard=True))
    swim.receive(said(record(2), ProbeRequest(8, contact(3))), now=NOW)
    reports = posts(run(swim, NOW + 0.25), ProbeReport)
    assert [post.packet.message for post in reports] == [ProbeReport(8, heard=False)]


def test_another_life_at_the_same_address_is_one_lost_and_one_seen():
    swim = member()
    swim.receive(said(record(2), Gossip()), now=NOW)
    effects = swim.receive(said(record(2, 6 << LIFE_SHIFT), Gossip()), now=NOW)
    assert [each for each in effects if isinstance(each, ContactLost | ContactSeen)] == [
        ContactLost(contact(2)), ContactSeen(contact(2)),
    ]  # fmt: skip
    effects = swim.receive(said(record(2, (6 << LIFE_SHIFT) + 1), Gossip()), now=NOW)
    assert not [each for each in effects if isinstance(each, ContactLost | ContactSeen)]


def test_a_full_view_refuses_says_so_and_is_not_complete_any_more():
    swim = member(config=SwimConfig(view_max=3))
    for number in (2, 3):
        swim.receive(said(record(number), Gossip()), now=NOW)
    assert swim.complete
    effects = swim.receive(said(record(4), Gossip()), now=NOW)
    assert not swim.complete
    assert len(swim.contacts()) == 2
    assert [each.event for each in effects if hasattr(each, "event")] == ["view_full"]


def test_a_newcomer_is_no_member_before_its_view_equals_a_members():
    swim = Swim(contact(1), now=NOW, entropy=Random(1))
    (post, *_) = posts(swim.submit(Introduce(contact(2)), now=NOW), PushPull)
    assert post.to == contact(2)
    assert post.packet.sender.incarnation == 0
    other = Table(SwimConfig())
    other.put(record(3), NOW)
    reply = PushPull(other.digests(record(2)), reply=True)
    swim.receive(said(record(2), reply), now=NOW)
    assert not swim.member
    swim.receive(said(record(2), Gossip(), record(3)), now=NOW)
    effects = swim.receive(said(record(2), reply), now=NOW)
    assert swim.member
    assert swim.complete
    assert {post.to for post in posts(effects, Gossip)} == {contact(2), contact(3)}, "it tells of itself"


def test_a_newcomer_with_a_clock_set_back_begins_above_its_former_incarnation():
    world = SwimWorld(3)
    grow(world, 3)
    victim = world.living[1]
    world.kill(victim)
    again = world.join(victim.contact, clock_ahead=-1000.0)
    world.settle()
    assert again.swim.record.life > victim.swim.record.life


def test_a_newcomer_with_a_key_in_use_stays_out_until_the_key_is_free():
    world = SwimWorld(4)
    grow(world, 3)
    first = world.living[1]
    twin = world.start(world.moved(first.contact))
    world._introduce(twin)
    world.run_for(10.0)
    assert not twin.swim.member
    assert world.counts["position_taken"]
    for node in world.living:
        if node not in (first, twin):
            assert node.seen[first.contact.key] == first.contact
    world.kill(first)
    world.settle()
    assert twin.swim.member


def test_of_two_members_with_one_key_the_one_with_the_lower_address_stays():
    world = SwimWorld(5, SwimOptions(connected=False))
    one = world.start()
    other = world.start(world.moved(one.contact))
    third = world.start()
    for node in (one, other):
        world.submit(node, Create())
    world.submit(third, Introduce(one.contact))
    world.run_for(2.0)
    world.submit(other, Introduce(third.contact))
    world.run_for(20.0)
    assert (one.swim.member, other.swim.member) == (True, False)
    assert third.seen[one.contact.key] == one.contact


def test_after_a_goodbye_nothing_is_said_or_heard():
    swim = member()
    swim.receive(said(record(2), Gossip()), now=NOW)
    (post,) = posts(swim.submit(Leave(), now=NOW), Gossip)
    assert post.packet.sender.state is State.LEFT
    assert swim.deadline is None
    assert swim.receive(said(record(2), Probe(1)), now=NOW) == []


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_nothing_a_member_can_say_makes_the_machine_raise_or_grow_without_bound(data):
    swim = member(config=SwimConfig(view_max=5, gone_max=5))
    numbers = st.integers(0, 1 << 62)
    contacts = st.builds(contact, st.integers(1, 30), st.integers(1, 3))
    records = st.builds(Record, contacts, st.sampled_from(["", "a"]), numbers, st.sampled_from(State))
    messages = st.one_of(
        st.builds(Probe, numbers), st.builds(Answer, numbers), st.builds(ProbeRequest, numbers, contacts),
        st.builds(ProbeReport, numbers, st.booleans()), st.just(Gossip()), st.just(SyncStates()),
        st.builds(PushPull, st.tuples(*[st.integers(0, 3)] * BUCKETS), st.booleans()),
    )  # fmt: skip
    packets = st.builds(Packet, records, numbers, messages, st.lists(records, max_size=5).map(tuple))
    for packet in data.draw(st.lists(packets, max_size=30)):
        swim.receive(packet, now=swim.now + data.draw(st.sampled_from([0.0, 0.1, 3.0])))
        if swim.deadline is not None and data.draw(st.booleans()):
            swim.wake(now=max(swim.now, swim.deadline))
    assert len(swim.living) <= 4
    assert len(swim._table.gone) <= 5


def test_settings_that_make_no_sense_are_refused():
    for wrong in ({"probe_seconds": 0.0}, {"view_max": 2000}, {"helpers": -1}):
        with pytest.raises(LocalProtocolError, match=next(iter(wrong))):
            SwimConfig(**wrong)
