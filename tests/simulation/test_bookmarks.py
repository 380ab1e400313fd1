"""Bookmarks in fault schedules: never before an answer that was owed by then, and always one in the end."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from p2prdf.peer import PeerConfig
from p2prdf.sim.world import WorldOptions
from p2prdf.wire.messages import Envelope, IndexTriples
from schedules.failures.clients import Publisher
from schedules.failures.options import Failures
from schedules.failures.scenario import Verdict, draw_bad_day, run_bad_day, with_bookmarks
from schedules.failures.world import FailingWorld

SEEDS = range(40, 46)


def run(seed: int) -> Verdict:
    return run_bad_day(with_bookmarks(draw_bad_day(seed), slow=seed % 2 == 0))


def test_bookmarks_are_true_through_all_faults():
    told = 0
    for seed in SEEDS:
        verdict = run(seed)
        assert verdict.good, verdict.report()
        told += verdict.happened["bookmark"]
    assert told > 10 * len(SEEDS)


def test_three_of_ten_schedules_have_bookmarks():
    assert 60 < sum(draw_bad_day(seed).failures.bookmarks for seed in range(300)) < 120


def test_no_bookmark_is_sent_while_others_may_be_cut_off_with_enough_copies():
    """Two may acknowledge publications of which these know nothing (seed 14222), one alone may not."""
    config = PeerConfig(hot_keys=False, replicas=3, copies_min=2, durable=True)
    world = FailingWorld(WorldOptions(peers=4, seed=1, config=config), Failures())
    world.run_for(8.0)
    first, _, third, last = world.nodes
    assert first.peer._messenger.recovery.complete
    world.crash(last)
    exchange = first.peer._messenger
    world.run_until(lambda: len(exchange.cache.contacts()) == 3 and first.peer._messenger.recovery.complete, 12.0)
    world.crash(third)
    world.run_for(15.0)
    assert not first.peer._messenger.recovery.complete
    world.run_for(15.0)
    exchange.now = world.now  # nothing has woken it
    assert first.peer._messenger.recovery.complete


def test_data_from_a_peer_out_of_view_is_compared_before_a_bookmark():
    """It gave its data to the peers in its view, and other replicas may not have it (shared by three, 1184)."""
    config = PeerConfig(hot_keys=False, replicas=3, copies_min=2, durable=True)
    world = FailingWorld(WorldOptions(peers=4, seed=1, config=config), Failures(publisher_crash_probability=0.0))
    world.run_for(8.0)
    first, *_, last = world.nodes
    heard: list[Envelope] = []

    def tap(_: object, envelope: Envelope) -> Envelope:
        if isinstance(envelope.message, IndexTriples):
            heard.append(envelope)
        return envelope

    world.tap = tap
    Publisher(world, "publisher", Random(2)).publish(0.0, [("<urn:a>", "<urn:b>", "<urn:c>")])
    world.run_for(4.0)
    world.crash(last)
    world.run_for(15.0)
    first.peer.wake(now=world.now)
    assert first.peer._messenger.recovery.complete
    effects = first.peer.receive(replace(heard[0], transfer=7), sender=last.contact, now=world.now)
    assert not first.peer._messenger.recovery.complete
    world._carry_out(first, effects)
    world.run_for(4.0)
    assert first.peer._messenger.recovery.complete
