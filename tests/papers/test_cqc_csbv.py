"""Continuous queries over a DHT: sentences of seed 004, and the product's behaviour for each.

E. Liarou, S. Idreos, M. Koubarakis: *Continuous RDF Query Processing over DHTs*, ISWC 2007.  Quotations and sections
are those of the notes on the paper.  Section 3.5 numbers its open points and defects, with their resolutions.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from peer_pair import LOW, QUERY, Pair

from p2prdf import keys
from p2prdf.peer import PeerConfig
from p2prdf.rdf.query import Algorithm, make_plan, single_role
from p2prdf.sim.faults import CALM, Faults
from p2prdf.sim.oracle import Oracle
from p2prdf.sim.world import World, WorldOptions
from p2prdf.wire.contract import Subscribe
from p2prdf.wire.messages import Forward, IndexQuery
from p2prdf_lab.workloads.random_queries import conjunctive_query

P, Q = "<urn:p>", "<urn:q>"
PATH = conjunctive_query([("?x", P, "?y"), ("?y", Q, "?z")], ["?x", "?z"])
ONE = conjunctive_query([("?x", P, "?y")], ["?x", "?y"])
UNRELIABLE = Faults(
    delay_min_seconds=0.001, delay_max_seconds=0.2, loss_probability=0.1, duplicate_probability=0.2,
    turn_seconds_max=0.02,
)  # fmt: skip

both_algorithms = pytest.mark.parametrize("algorithm", list(Algorithm), ids=lambda each: each.value)


def iri(name: str) -> str:
    return f"<urn:{name}>"


def triple(s: str, p: str, o: str) -> tuple[str, str, str]:
    return iri(s), p, iri(o)


class Overlay:
    """A small overlay with the indexes of one algorithm, and the messages between its peers."""

    def __init__(
        self, algorithm: Algorithm, peers: int = 48, *, indexes: str = "", faults: Faults = CALM, seed: int = 1
    ):  # fmt: skip
        config = PeerConfig(indexes=indexes or algorithm.value, hot_keys=False, rates_seconds=0.1)
        self.world = World(WorldOptions(peers=peers, seed=seed, tables="arrays", config=config, faults=faults))
        self.algorithm = algorithm
        self.messages: list = []
        self.world.tap = self._tap

    def _tap(self, node, envelope):
        self.messages.append(envelope.message)
        return envelope

    def subscribe(self, query, **options):
        subscriber = self.world.subscribe(0.0, 0, query, self.algorithm, **options)
        self.world.run_until(lambda: subscriber.opened_at is not None)
        return subscriber

    def publish(self, *triples, wait: bool = True):
        publishing = self.world.publish(0.0, len(self.world.nodes) - 1, triples)
        if wait:
            self.rest()
        return publishing

    def rest(self) -> None:
        self.world.run_until_quiet()

    def sent(self, kind) -> list:
        return [message for message in self.messages if isinstance(message, kind)]

    def total(self, key: str) -> int:
        return sum(node.peer.status()[key] for node in self.world.nodes)

    def owed(self, subscriber, *, per_event: bool = False) -> Counter:
        return Oracle(self.world.log()).answers(subscriber.query, subscriber.since, per_event=per_event)


# --- semantics -------------------------------------------------------------------------------------


@both_algorithms
def test_triples_published_before_the_subscription_do_not_count(algorithm: Algorithm) -> None:
    """Section 3.1: "Answers only use triples with pubT(t) >= subscrT(q)"."""
    overlay = Overlay(algorithm)
    overlay.publish(triple("a", P, "b"))
    subscriber = overlay.subscribe(PATH)
    overlay.publish(triple("b", Q, "c"), triple("d", P, "b"))
    assert subscriber.rows == [(iri("d"), iri("c"))]


def test_a_triple_published_at_the_very_moment_of_the_subscription_counts() -> None:
    """Section 3.5, 10: "equality counts as included"."""
    pair = Pair()
    pair.publish(LOW, (iri("a"), "<p>", iri("b")))
    pair.pass_time(1.0)
    stamp = pair.completed[1].time
    pair.submit(LOW, Subscribe(2, QUERY, since=stamp + 1))
    pair.pass_time(2.0)
    assert not pair.notified
    pair.submit(LOW, Subscribe(3, QUERY, since=stamp))
    pair.pass_time(2.0)
    assert len(pair.notified) == 1


@both_algorithms
def test_per_event_each_choice_of_publications_is_an_answer(algorithm: Algorithm) -> None:
    """Section 3.1: "one answer per distinct combination (tid_1..tid_k) of publication instances"."""
    overlay = Overlay(algorithm)
    subscriber = overlay.subscribe(PATH, per_event=True)
    for each in (triple("a", P, "b"), triple("b", Q, "c")):
        overlay.publish(each)
        overlay.publish(each)
    assert subscriber.bag == {(iri("a"), iri("c")): 4} == overlay.owed(subscriber, per_event=True)


@both_algorithms
def test_by_default_a_repeated_triple_changes_nothing(algorithm: Algorithm) -> None:
    """Section 3.1: "DB is called a *set*, yet re-publishing a triple re-triggers"."""
    overlay = Overlay(algorithm)
    subscriber = overlay.subscribe(PATH)
    for each in (triple("a", P, "b"), triple("b", Q, "c")) * 2:
        overlay.publish(each)
    assert subscriber.rows == [(iri("a"), iri("c"))]


@both_algorithms
def test_a_distinct_query_answers_each_projection_once(algorithm: Algorithm) -> None:
    """Section 3.1: "set mode = one answer per distinct projection onto V"."""
    overlay = Overlay(algorithm)
    subscriber = overlay.subscribe(conjunctive_query([("?x", P, "?y")], ["?x"], distinct=True))
    overlay.publish(triple("a", P, "b"), triple("a", P, "c"))
    assert subscriber.rows == [(iri("a"),)]


@both_algorithms
def test_triples_that_are_stored_for_an_older_query_are_not_used_by_a_younger_one(algorithm: Algorithm) -> None:
    """Section 3.5, 11: "TT may hold triples older than the query because another query needed them"."""
    overlay = Overlay(algorithm)
    older = overlay.subscribe(PATH)
    overlay.publish(triple("b", Q, "c"))
    younger = overlay.subscribe(conjunctive_query([("?u", P, "?v"), ("?v", Q, "?w")], ["?w"]))
    overlay.publish(triple("a", P, "b"))
    assert (older.rows, younger.rows) == ([(iri("a"), iri("c"))], [])


# --- placement -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("algorithm", "copies"), [(Algorithm.CQC, 3), (Algorithm.CSBV, 7)])
def test_a_triple_has_three_keys_in_cqc_and_seven_in_csbv(algorithm: Algorithm, copies: int) -> None:
    """Section 3.2: "CQC triple: keys s, p, o (3 messages). CSBV triple: s, p, o, sp, so, po, spo (7 messages)"."""
    overlay = Overlay(algorithm)
    overlay.publish(triple("a", P, "b"))
    assert overlay.total("index_entries") == copies


@pytest.mark.parametrize(
    ("pattern", "role"),
    [((~0, ~1, ~2), keys.S), ((0, ~0, ~1), keys.O), ((~0, ~1, 0), keys.S), ((0, ~0, 1), keys.P)],
)
def test_a_cqc_pattern_is_keyed_by_subject_then_object_then_predicate(pattern, role: int) -> None:
    """Section 3.2: "CQC pattern key: single constant; if several prefer subject, then object, then predicate"."""
    assert single_role(pattern) == role


def test_a_csbv_step_is_keyed_by_all_its_constants_and_bound_variables() -> None:
    """Section 3.2: "CSBV pattern key: concatenation of *all* its constants"."""
    first, second = make_plan(PATH, (0, 1), Algorithm.CSBV).steps
    assert (first.role, second.role) == (keys.P, keys.S | keys.P)


@pytest.mark.parametrize(("algorithm", "steps"), [(Algorithm.CQC, {0, 1}), (Algorithm.CSBV, {0})])
def test_csbv_installs_the_first_pattern_and_cqc_all_patterns(algorithm: Algorithm, steps: set[int]) -> None:
    """Section 3.2: "CSBV query is indexed only at the node of its first pattern; CQC indexes all k patterns"."""
    overlay = Overlay(algorithm, seed=3)
    overlay.subscribe(PATH)
    assert {message.step for message in overlay.sent(IndexQuery)} == steps


@pytest.mark.parametrize(("algorithm", "places"), [(Algorithm.CSBV, 2), (Algorithm.CQC, 1)])
def test_csbv_spreads_values_over_keys_and_cqc_gathers_them_at_one(algorithm: Algorithm, places: int) -> None:
    """Section 9.3: "t1=(s1,p1,s2) goes next to key s2p2, t2=(s1,p1,s3) to s3p2; CQC sends both to key p2"."""
    s1, p1, p2, p3, o3 = map(iri, ("s1", "p1", "p2", "p3", "o3"))
    query = conjunctive_query([(s1, p1, "?x"), ("?x", p2, "?y"), ("?y", p3, o3)], ["?x", "?y"])
    plan = make_plan(query, (0, 1, 2), algorithm)
    hashes = {name: keys.term_hash(iri(name)) for name in ("s2", "s3", "p2")}
    role = plan.steps[1].role
    found = {keys.role_key(role, hashes[value], hashes["p2"], 0) for value in ("s2", "s3")}
    assert len(found) == places
    expected = {keys.role_key(keys.P, 0, hashes["p2"], 0)}
    if algorithm is Algorithm.CSBV:
        expected = {keys.role_key(keys.S | keys.P, hashes[value], hashes["p2"], 0) for value in ("s2", "s3")}
    assert found == expected


# --- handlers --------------------------------------------------------------------------------------


def test_csbv_stores_triples_that_no_query_waits_for() -> None:
    """Section 3.4: "CSBV NewTriple(t, role r): always store in TT(r)"."""
    overlay = Overlay(Algorithm.CSBV)
    overlay.publish(triple("a", P, "b"))
    assert overlay.total("queries") == 0
    assert overlay.total("index_entries") == 7


@both_algorithms
def test_partial_results_for_one_key_travel_in_one_message(algorithm: Algorithm) -> None:
    """Section 3.4: "Group all emissions for one identifier into one message"."""
    overlay = Overlay(algorithm)
    overlay.subscribe(PATH)
    overlay.publish(*(triple(f"a{at}", P, "b") for at in range(20)))
    (message,) = overlay.sent(Forward)
    assert len(message.rows) == 20


@pytest.mark.parametrize("seed", range(3))
@both_algorithms
def test_each_pair_of_a_partial_result_and_a_triple_is_joined_once(algorithm: Algorithm, seed: int) -> None:
    """Section 3.4: "each compatible pair (stored partial result, stored triple) at a node and role is joined by
    whichever arrives second, once"."""
    overlay = Overlay(algorithm, 12, faults=UNRELIABLE, seed=seed)
    subscriber = overlay.subscribe(PATH)
    for at in range(6):
        overlay.publish(triple(f"a{at}", P, f"b{at % 2}"), triple(f"b{at % 2}", Q, f"c{at}"), wait=False)
    overlay.rest()
    assert subscriber.bag == overlay.owed(subscriber)
    assert subscriber.bag.total() == 18
    assert not subscriber.complaints


# --- races and defects -----------------------------------------------------------------------------


@pytest.mark.parametrize("peers", [1, 2, 3, 4])
@both_algorithms
def test_a_peer_that_owns_several_keys_of_a_triple_answers_once(algorithm: Algorithm, peers: int) -> None:
    """Section 3.5, 1: "Role tag in message; QT/TT/IRT partitioned by role ... Test with N=1..4"."""
    overlay = Overlay(algorithm, peers)
    subscriber = overlay.subscribe(PATH)
    overlay.publish(triple("a", P, "a"), triple("a", Q, "a"), triple("b", P, "a"))
    assert subscriber.bag == {(iri("a"), iri("a")): 1, (iri("b"), iri("a")): 1}
    assert not subscriber.complaints


def test_keys_do_not_confuse_terms_with_equal_concatenations() -> None:
    """Section 3.5, 2: "Hash('ab'+'c')=Hash('a'+'bc'); sp of one triple = s of another"."""
    ab, c, a, bc = map(keys.term_hash, ('"ab"', '"c"', '"a"', '"bc"'))
    empty = keys.term_hash('""')
    assert keys.role_key(keys.S | keys.P, ab, c, 0) != keys.role_key(keys.S | keys.P, a, bc, 0)
    assert keys.role_key(keys.S | keys.O, a, 0, empty) != keys.role_key(keys.S, a, 0, 0)


def test_a_term_has_different_keys_as_subject_and_as_object() -> None:
    """Section 3.5, 3: "Typed keys separate s=a from o=a"."""
    term = keys.term_hash(iri("a"))
    assert keys.role_key(keys.S, term, 0, 0) != keys.role_key(keys.O, 0, 0, term)


def test_a_pattern_without_constants_waits_in_wildcard_buckets() -> None:
    """Section 3.5, 4: "wildcard buckets: triple also goes to bucket h(tid) mod B, query to all B buckets"."""
    overlay = Overlay(Algorithm.CSBV, indexes="all")
    subscriber = overlay.subscribe(conjunctive_query([("?s", "?p", "?o")], ["?s", "?p", "?o"]))
    waiting = overlay.total("queries")
    triples = [triple(f"a{at}", P, "b") for at in range(5)]
    overlay.publish(*triples)
    assert sorted(subscriber.rows) == triples
    assert waiting == len({node.key for bucket in range(keys.BUCKETS) for node in overlay.world.owners(
        keys.bucket_key(bucket))})  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
@both_algorithms
def test_triples_that_overtake_the_installation_of_a_query_count(algorithm: Algorithm, seed: int) -> None:
    """Section 3.5, 5 and 6: "Triple published after subscrT arrives at n_j before IndexTriplePattern", and "IR arrives
    before its IndexTriplePattern"."""
    overlay = Overlay(algorithm, 12, faults=UNRELIABLE, seed=10 + seed)
    subscriber = overlay.world.subscribe(0.0, 0, PATH, algorithm)
    for at in range(8):
        overlay.world.publish(0.05 * at, at % 12, [triple(f"a{at}", P, "b"), triple("b", Q, f"c{at}")])
    overlay.rest()
    assert subscriber.bag == overlay.owed(subscriber)
    assert not subscriber.complaints


@both_algorithms
def test_one_triple_that_matches_two_patterns_gives_one_answer(algorithm: Algorithm) -> None:
    """Section 3.5, 8: "(?x p ?y)(?y p ?z) with t=(a p a) ... exactly one answer using t twice"."""
    overlay = Overlay(algorithm)
    subscriber = overlay.subscribe(conjunctive_query([("?x", P, "?y"), ("?y", P, "?z")], ["?x", "?z"]))
    overlay.publish(triple("a", P, "a"))
    assert subscriber.rows == [(iri("a"), iri("a"))]


@both_algorithms
def test_a_transport_that_repeats_messages_repeats_no_answer(algorithm: Algorithm) -> None:
    """Section 3.5, 9: "At-least-once transport ... dedupe on arrival"."""
    overlay = Overlay(algorithm, 12, faults=Faults(duplicate_probability=0.9, delay_min_seconds=0.0))
    subscriber = overlay.subscribe(PATH)
    overlay.publish(triple("a", P, "b"), triple("b", Q, "c"))
    assert overlay.world.counts.duplicated > 10
    assert subscriber.bag == {(iri("a"), iri("c")): 1}
    assert not subscriber.complaints


@both_algorithms
def test_an_ended_query_leaves_no_state_and_gets_no_answer(algorithm: Algorithm) -> None:
    """Section 3.5, 12: "Unsubscription undefined; CSBV state scattered"."""
    overlay = Overlay(algorithm)
    subscriber = overlay.subscribe(PATH)
    overlay.publish(triple("a", P, "b"))
    overlay.world.unsubscribe(0.0, subscriber)
    overlay.rest()
    overlay.world.run_for(2 * PeerConfig().group_lease_seconds)
    overlay.publish(triple("b", Q, "c"))
    assert subscriber.rows == []
    assert overlay.total("groups") == 0
    snapshots = [message for node in overlay.world.nodes for message in node.peer.snapshot()]
    assert not [each for each in snapshots if isinstance(each, IndexQuery | Forward)]


def test_the_pattern_with_the_lowest_rate_is_evaluated_first() -> None:
    """Section 3.5, 14: "getRates to the k candidate keys, sort ascending rate"."""
    overlay = Overlay(Algorithm.CSBV)
    overlay.publish(*(triple(f"a{at}", P, f"b{at}") for at in range(30)), triple("b0", Q, "c"))
    assert overlay.subscribe(PATH).order == (1, 0)


def test_variables_that_nothing_needs_any_more_are_projected_away() -> None:
    """Section 3.5, 16: "may be projected away when in neither V nor the remaining patterns"."""
    patterns = [("?a", P, "?b"), ("?b", P, "?c"), ("?c", P, "?d"), ("?d", P, "?e")]
    plan = make_plan(conjunctive_query(patterns, ["?e"]), range(4), Algorithm.CSBV)
    assert [step.bound for step in plan.steps] == [(), (1,), (2,), (3,)]


@pytest.mark.parametrize(
    "patterns",
    [
        [("?x", P, "?y"), ("?x", P, "?y")],
        [(iri("a"), P, iri("b")), ("?x", Q, "?y")],
        [("?x", P, "?u"), ("?y", Q, "?v")],
    ],
    ids=["twice", "ground", "product"],
)
@both_algorithms
def test_repeated_ground_and_disconnected_patterns_are_allowed(algorithm: Algorithm, patterns) -> None:
    """Section 3.5, 17: "Query with the same pattern twice, ground patterns, cartesian products: Allowed"."""
    overlay = Overlay(algorithm)
    subscriber = overlay.subscribe(conjunctive_query(patterns, ["?x", "?y"]))
    overlay.publish(triple("a", P, "b"), triple("c", Q, "d"), triple("e", Q, "f"))
    assert subscriber.rows
    assert subscriber.bag == overlay.owed(subscriber)


# --- terms -----------------------------------------------------------------------------------------


@both_algorithms
def test_a_partial_result_with_a_literal_as_next_subject_is_dropped(algorithm: Algorithm) -> None:
    """Section 1: "A pattern instantiated with a literal in subject or predicate position is unsatisfiable: drop the
    partial result immediately"."""
    overlay = Overlay(algorithm)
    overlay.subscribe(PATH)
    overlay.publish((iri("a"), P, '"b"'))
    assert overlay.sent(Forward) == []
    overlay.publish(triple("a", P, "b"))
    assert len(overlay.sent(Forward)) == 1


@both_algorithms
def test_a_variable_that_occurs_twice_needs_equal_terms(algorithm: Algorithm) -> None:
    """Section 1: "(?x p ?x) needs s==o as *terms*; literal o never equals IRI s"."""
    overlay = Overlay(algorithm)
    subscriber = overlay.subscribe(conjunctive_query([("?x", P, "?x")], ["?x"]))
    overlay.publish((iri("a"), P, '"urn:a"'), triple("a", P, "b"), triple("c", P, "c"))
    assert subscriber.rows == [(iri("c"),)]


# --- measures --------------------------------------------------------------------------------------


def test_storage_load_counts_patterns_triples_and_partial_results() -> None:
    """Section 3.6: "SL(n) = patterns held + triples stored + IRs stored"."""
    overlay = Overlay(Algorithm.CSBV)
    overlay.subscribe(PATH)
    assert overlay.total("storage_load") == 1
    overlay.publish(triple("a", P, "b"))
    assert overlay.total("storage_load") == 1 + 7 + 1


def test_processing_load_grows_with_every_triple_that_queries_are_compared_with() -> None:
    """Section 3.6: "QPL(n) = triples received to be checked against locally stored queries + IRs received to be
    compared with local triples"."""
    overlay = Overlay(Algorithm.CSBV)
    overlay.subscribe(PATH)
    loads = [overlay.total("processing_load")]
    for each in (triple("a", P, "b"), triple("c", P, "d")):
        overlay.publish(each)
        loads.append(overlay.total("processing_load"))
    first, second = (after - before for before, after in pairwise(loads))
    assert first == second > 0


def test_a_known_owner_is_sent_to_without_a_lookup() -> None:
    """Section 2.3: "after the first send to an identifier remember the owner's address; later sends cost 1 hop"."""
    overlay = Overlay(Algorithm.CSBV)
    overlay.publish(triple("a", P, "b"))
    lookups = overlay.world.counts.lookups
    overlay.publish(triple("a", P, "b"))
    assert lookups == overlay.world.counts.lookups
