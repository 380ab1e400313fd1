"""Algebra queries during fault schedules: subscribers hold the true solutions, and each change comes once."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from p2prdf import hlc
from p2prdf.columns import as_list
from p2prdf.peer import PeerConfig
from p2prdf.rdf.query import Algorithm
from p2prdf.rdf.standing.query import parse_query
from p2prdf.sim.world import WorldOptions
from p2prdf.wire.messages import WITHDRAWN, Envelope, KeepAnswers
from schedules.failures.clients import Publisher, SubscriberClient
from schedules.failures.options import Failures
from schedules.failures.scenario import draw_bad_day, run_bad_day, with_removals, with_standing
from schedules.failures.subscriber import ResumingSubscriber
from schedules.failures.world import FailingWorld
from schedules.mutants import MUTANTS, _changed

SEEDS = range(100_044, 100_050)
A_B, A_C = ("<urn:a>", "<urn:p>", "<urn:b>"), ("<urn:a>", "<urn:p>", "<urn:c>")
COUNT = "SELECT (COUNT(*) AS ?n) WHERE { ?a <urn:p> ?b }"
OPTIONAL = "SELECT ?a ?b ?n WHERE { ?a <urn:p> ?b OPTIONAL { ?b <urn:q> ?n } }"
NAMED = ("<urn:b>", "<urn:q>", '"B"')


def _integer(number: int) -> str:
    return f'"{number}"^^<http://www.w3.org/2001/XMLSchema#integer>'


def test_true_solutions_are_held_through_all_faults():
    withdrawn = 0
    for seed in SEEDS:
        verdict = run_bad_day(with_standing(with_removals(draw_bad_day(seed))))
        assert verdict.good, verdict.report()
        withdrawn += verdict.happened.get("withdrawn", 0)
    assert withdrawn > 3 * len(SEEDS)


@pytest.mark.parametrize("seed", [100_007, 100_019, 100_020])
def test_triples_that_are_indexed_under_further_roles_make_no_publication_events(seed):
    """Queries over triples and queries over events may wait in the same network: each event is answered once."""
    verdict = run_bad_day(with_standing(draw_bad_day(seed, "varied")))
    assert verdict.good, verdict.report()


@pytest.mark.parametrize("seed", [100_006, 100_271, 111_201])
def test_coordinators_become_equal_in_leaf_answers_and_delivered_sets(seed):
    """Acknowledged before the answer came; retracted before it came; sent to a former replica."""
    verdict = run_bad_day(with_standing(draw_bad_day(seed, "varied")))
    assert verdict.good, verdict.report()


@pytest.mark.parametrize("seed", [110_006, 110_054])
def test_a_restarted_coordinator_knows_the_incarnations_of_untrue_solutions(seed):
    verdict = run_bad_day(with_standing(draw_bad_day(seed, "varied")))
    assert verdict.good, verdict.report()


@pytest.mark.parametrize("tables", ["lists", "arrays"])
def test_each_change_of_the_solutions_is_reported(tables):
    config = PeerConfig(hot_keys=False, replicas=3, copies_min=2, durable=True)
    options = WorldOptions(peers=4, seed=3, config=config, tables=tables)
    world = FailingWorld(options, Failures(publisher_crash_probability=0.0))
    world.run_for(5.0)
    optional = _subscribed(world, "SELECT ?a ?b ?n WHERE { ?a <urn:p> ?b OPTIONAL { ?b <urn:q> ?n } }")
    count = _subscribed(world, "SELECT (COUNT(*) AS ?n) WHERE { ?a <urn:p> ?b }")
    unnamed = _subscribed(world, "ASK { ?a <urn:p> ?b FILTER NOT EXISTS { ?b <urn:q> ?n } }")
    distinct = _subscribed(world, "SELECT DISTINCT ?a WHERE { ?a <urn:p> ?b }")
    made = _subscribed(world, "CONSTRUCT { ?b <urn:of> ?a } WHERE { ?a <urn:p> ?b }")
    always = _subscribed(world, "ASK {}")
    publisher = Publisher(world, "publisher", Random(2))
    world.run_for(5.0)

    def holds(*expected):
        world.run_for(5.0)
        records = (optional, count, unnamed, distinct, made, always)
        assert [set(record.bag.elements()) for record in records] == [*map(set, expected), {()}]
        assert not any(record.complaints for record in records)

    def of(*objects):
        return [(each, "<urn:of>", "<urn:a>") for each in objects]

    b, c, a = ("<urn:a>", "<urn:b>", ""), ("<urn:a>", "<urn:c>", ""), [("<urn:a>",)]
    b_named = ("<urn:a>", "<urn:b>", '"B"')
    holds([], [(_integer(0),)], [], [], [])
    publisher.publish(0.0, [A_B])
    holds([b], [(_integer(1),)], [()], a, of("<urn:b>"))
    publisher.publish(0.0, [NAMED])
    holds([b_named], [(_integer(1),)], [], a, of("<urn:b>"))
    publisher.publish(0.0, [A_C])
    holds([b_named, c], [(_integer(2),)], [()], a, of("<urn:b>", "<urn:c>"))
    publisher.publish(0.0, [NAMED], removed=True)
    holds([b, c], [(_integer(2),)], [()], a, of("<urn:b>", "<urn:c>"))
    publisher.publish(0.0, [A_B], removed=True)
    holds([c], [(_integer(1),)], [()], a, of("<urn:c>"))
    publisher.publish(0.0, [A_C], removed=True)
    holds([], [(_integer(0),)], [], [], [])
    publisher.publish(0.0, [A_B])
    holds([b], [(_integer(1),)], [()], a, of("<urn:b>"))


def test_subscriptions_of_one_query_count_from_different_times():
    """One of them from the beginning: triples older than the other are joined again, and count for it alone."""
    world = _small_world()
    publisher = Publisher(world, "publisher", Random(2))
    publisher.publish(0.0, [A_B, NAMED])
    world.run_for(5.0)
    late = _subscribed(world, OPTIONAL)
    world.run_for(5.0)
    publisher.publish(0.0, [A_C])
    world.run_for(5.0)
    whole = _Whole("whole", parse_query(OPTIONAL), Algorithm.CSBV, False, 86_400.0, OPTIONAL)
    SubscriberClient(world, whole, Random(4)).connect()

    def hold(*expected):
        world.run_for(5.0)
        assert [set(record.bag.elements()) for record in (late, whole)] == [*map(set, expected)]
        assert not late.complaints + whole.complaints

    b_named, b, c = ("<urn:a>", "<urn:b>", '"B"'), ("<urn:a>", "<urn:b>", ""), ("<urn:a>", "<urn:c>", "")
    hold([c], [b_named, c])
    publisher.publish(0.0, [NAMED], removed=True)
    hold([c], [b, c])
    publisher.publish(0.0, [A_B])
    hold([c, b], [b, c])


class _Whole(ResumingSubscriber):
    """A subscriber that counts triples from the beginning."""

    def opening(self):
        make = super().opening()
        return lambda request: replace(make(request), since=1)


def _taken_over() -> list[ResumingSubscriber]:
    """Let each peer fail while solutions change; return the notified subscribers if all held the truth throughout."""
    world = _small_world()
    publisher = Publisher(world, "publisher", Random(2))
    count, optional = _subscribed(world, COUNT), _subscribed(world, OPTIONAL)
    world.run_for(5.0)
    right = True
    for node in [*world.nodes, *world.nodes]:
        for removed in (False, True):
            publisher.publish(0.0, [A_B, NAMED], removed=removed)
            if removed:
                world.crash(node)
            world.run_for(8.0)
            right &= count.bag == {(_integer(0 if removed else 1),): 1}
            right &= optional.bag == ({} if removed else {("<urn:a>", "<urn:b>", '"B"'): 1})
        world.restart(node)
        world.run_for(8.0)
    return [count, optional] if right else []


def test_a_new_evaluator_goes_on_where_another_ended():
    """A solution that came and went under another is reported when it comes again; an untrue one is retracted."""
    records = _taken_over()
    assert records
    assert not any(record.complaints for record in records)


@pytest.mark.parametrize("name", ["names-taken-for-new", "no-compare-after-takeover"])
def test_a_rule_of_taking_over_that_is_not_kept_is_found(name):
    with _changed(MUTANTS[name].changes()):
        records = _taken_over()
    assert not records or any(record.complaints for record in records)


def test_a_solution_retracted_by_another_replica_is_reported_again_if_it_is_true():
    """Two that take themselves for the primary may know different things: here one has not heard of a triple."""
    world = _small_world()
    record = _subscribed(world, COUNT)
    world.run_for(5.0)
    Publisher(world, "publisher", Random(2)).publish(0.0, [A_B])
    world.run_for(5.0)
    [(identity, row)] = [
        (each, record.rows[at]) for each, at in record.identities.items() if record.rows[at] in record.bag
    ]
    for node in world.living():
        make, (term,) = node.peer._messenger.columns.column, row
        bindings = (make(node.dictionary.intern_all([term]), "uint32"),)
        time = make([hlc.from_seconds(world.now) | hlc.GONE])
        taken_back = KeepAnswers(record.subscription, make([identity ^ WITHDRAWN]), time, bindings, told=True)
        other = next(each for each in world.living() if each is not node)
        world._carry_out(node, node.peer.receive(Envelope(0, 0, taken_back), sender=other.peer.contact, now=world.now))
    world.run_for(5.0)
    assert record.bag == {(_integer(1),): 1}
    assert len(record.rows) == 3
    assert not record.complaints


@pytest.mark.parametrize("name", ["told-before-copies", "staged-not-in-snapshots"])
def test_mutants_of_the_order_of_replication_are_killed(name):
    with _changed(MUTANTS[name].changes()), pytest.raises(AssertionError):
        test_a_snapshot_holds_reports_in_flight_to_other_replicas()


def test_a_mutant_that_ignores_reports_of_other_replicas_is_killed():
    with _changed(MUTANTS["told-elsewhere-ignored"].changes()), pytest.raises(AssertionError):
        test_a_solution_retracted_by_another_replica_is_reported_again_if_it_is_true()


def test_a_snapshot_holds_reports_in_flight_to_other_replicas():
    """It is persisted before the report, and in no log before they have it; a snapshot replaces persisted records."""
    world = _small_world()
    record = _subscribed(world, COUNT)
    world.run_for(5.0)
    publisher = Publisher(world, "publisher", Random(2))
    taken = []

    def tap(_, envelope):
        if isinstance(envelope.message, KeepAnswers) and envelope.message.told:
            taken.append(envelope.message)
            return None
        return envelope

    world.tap = tap
    publisher.publish(0.0, [A_B])
    world.run_for(5.0)
    assert record.bag == {(_integer(0),): 1}
    told = {identity for message in taken for identity in as_list(message.identity)}
    assert len(told) == 2
    snapshots = [list(node.peer.snapshot()) for node in world.living()]
    kept = [
        {identity for message in snapshot if isinstance(message, KeepAnswers) for identity in message.identity}
        for snapshot in snapshots
    ]
    assert [told & each for each in kept].count(told) == 1
    primary = world.living()[[told <= each for each in kept].index(True)]
    world.compact(primary)
    world.run_for(1.0)
    world.tap = None
    world.crash(primary)
    world.restart(primary)
    world.run_for(1.0)
    assert record.bag == {(_integer(1),): 1}
    assert not record.complaints


def test_no_bookmark_is_sent_while_a_query_is_not_evaluated():
    """Its coordinator has no room for its results; solutions published before the bookmark would be missing."""
    world = _small_world(bookmarks=True)
    record = _subscribed(world, COUNT)
    publisher = Publisher(world, "publisher", Random(2))
    world.run_for(5.0)
    publisher.publish(0.0, [A_B, NAMED, ("<urn:c>", "<urn:q>", '"C"')])
    world.run_for(5.0)
    assert record.bag == {(_integer(1),): 1}
    for node in world.living():
        node.dictionary.terms_max = len(node.dictionary)
    publisher.publish(0.0, [A_C])
    full_at = world.now
    world.run_for(10.0)
    assert record.bag == {(_integer(1),): 1}
    assert hlc.seconds(record.bookmarks[-1][0]) < full_at + 1.0
    for node in world.living():
        node.dictionary.terms_max = 1000
    world.run_for(90.0)
    assert record.bag == {(_integer(2),): 1}
    assert hlc.seconds(record.bookmarks[-1][0]) > full_at + 80.0
    assert not record.complaints


def _small_world(**failures):
    config = PeerConfig(hot_keys=False, replicas=3, copies_min=2, durable=True)
    options = WorldOptions(peers=3, seed=3, config=config, tables="lists")
    world = FailingWorld(options, Failures(publisher_crash_probability=0.0, **failures))
    world.run_for(5.0)
    return world


def _subscribed(world: FailingWorld, text: str) -> ResumingSubscriber:
    record = ResumingSubscriber(text, parse_query(text), Algorithm.CSBV, False, 86_400.0, text)
    SubscriberClient(world, record, Random(text)).connect()
    return record
