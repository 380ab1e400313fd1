"""A capacity plan against a World of real peers that send real frames: the same loads, messages, bytes and memory."""

from __future__ import annotations

import json
import lzma
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from p2prdf.columns import as_list
from p2prdf.continuous.order import evaluation_order
from p2prdf.errors import LocalProtocolError, QueryRefused
from p2prdf.peer import PeerConfig
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.rdf.query import Algorithm, make_plan
from p2prdf.rdf.standing.conjunctive import parse_select
from p2prdf.sim.events import parse_events
from p2prdf.sim.world import World, WorldOptions
from p2prdf_lab.capacity import plan as plans
from p2prdf_lab.capacity import planner
from p2prdf_lab.capacity.footprint import measure
from p2prdf_lab.capacity.growth import COUNT_MIN, TIMES_MAX, Growth, grown
from p2prdf_lab.capacity.ledger import Kind
from p2prdf_lab.capacity.plan import CapacityPlan, NamedQuery, NodeLimits, PlanOptions
from p2prdf_lab.capacity.planner import plan_capacity
from p2prdf_lab.capacity.traffic import TracedFleet
from p2prdf_lab.capacity.verdict import verdict
from p2prdf_lab.fleets.places import Places, random_positions
from p2prdf_lab.workloads.paths import PathSchema, path_queries, path_triples

DATA = Path(__file__).parents[3] / "shared" / "data" / "conjunctive"
SCHEMA = PathSchema(levels=4, branch=2, instances=3, values=4, domains=2)
MESSAGES = {
    "index": "IndexTriples", "forward": "Forward", "answers": "Answers", "deliver": "Deliver",
    "delivered": "Delivered", "settled": "SettledAnswers", "acknowledge": "Acknowledge",
}  # fmt: skip


def columns(triples):
    return tuple(list(column) for column in zip(*triples, strict=True))


def named(queries):
    return [NamedQuery(f"query {at}", query) for at, query in enumerate(queries)]


def path_workload(triples=1000, queries=50, schema=SCHEMA):
    dictionary = TermDictionary()
    drawn = path_triples(dictionary, triples, schema=schema, seed=5)
    texts = [dictionary.texts(as_list(column)) for column in drawn]
    asked = path_queries(queries, schema=schema, length=4, seed=4)
    return list({(q.patterns, q.constants): q for q in asked}.values()), list(dict.fromkeys(zip(*texts, strict=True)))


class Measured:
    """A calm World in which everyone knows everyone, and its peers' traffic from the first publication on."""

    def __init__(self, peers, algorithm, queries, triples, indexes, batch, overlay="kademlia"):
        self.world = World(
            WorldOptions(
                peers=peers, seed=3, overlay=overlay, through_codec=True, tables="arrays", bucket=max(8, peers),
                config=PeerConfig(indexes=indexes, group_lease_seconds=1e9),
            )
        )  # fmt: skip
        self.nodes = sorted(self.world.nodes, key=lambda node: node.contact.key)
        for at, query in enumerate(queries):
            self.world.subscribe(0.0, at % peers, query, algorithm)
        self.world.run_until_quiet()
        before = Counter(self.world.counts.messages)
        self.bytes = Counter()
        self.world.tap = self._weigh
        for at in range(0, len(triples), batch):
            self.world.publish(0.0, self.nodes[0].index, triples[at : at + batch])
            self.world.run_until_quiet()
        self.messages = self.world.counts.messages - before
        self.status = [node.peer.status() for node in self.nodes]
        assert set(+self.messages) <= set(MESSAGES.values()), "no lookups: all know all"

    def _weigh(self, node, envelope):
        self.bytes[type(envelope.message).__name__] += len(node.codec.encode((envelope,)))
        return envelope


def compare(measured: Measured, plan: CapacityPlan, published: int) -> None:
    for each in plan.traffic:
        kind = MESSAGES[each.kind]
        if each.kind in ("index", "forward", "answers"):
            assert each.messages * published == pytest.approx(measured.messages[kind], rel=0.1, abs=3), each.kind
            assert each.bytes * published == pytest.approx(measured.bytes[kind], rel=0.1, abs=300), each.kind
    messages, size = (sum(getattr(each, name) for each in plan.traffic) for name in ("messages", "bytes"))
    assert messages * published == pytest.approx(sum(measured.messages.values()), rel=0.1)
    assert size * published == pytest.approx(sum(measured.bytes.values()), rel=0.1)  # 25 % was asked for
    assert plan.storage.tolist() == [status["storage_load"] for status in measured.status]


@pytest.fixture
def on_the_worlds_ring(monkeypatch):
    """Let plans lie on the ring of a World, and a ring of twice its size hold it."""

    def place(measured: Measured) -> None:
        own = [node.contact.key for node in measured.nodes]
        monkeypatch.setattr(plans, "random_positions", lambda peers, _: (own + random_positions(peers, 99))[:peers])

    return place


@pytest.mark.parametrize(
    ("algorithm", "indexes", "overlay", "peers"),
    [
        (Algorithm.CSBV, "all", "kademlia", 12),
        (Algorithm.CSBV, "on-demand", "chord", 12),
        (Algorithm.CQC, "all", "kademlia", 12),
        (Algorithm.CSBV, "all", "chord", 40),
    ],
)
def test_a_plan_equals_the_loads_of_real_peers(algorithm, indexes, overlay, peers, on_the_worlds_ring):
    queries, triples = path_workload()
    measured = Measured(peers, algorithm, queries, triples, indexes, 50, overlay)
    on_the_worlds_ring(measured)
    options = PlanOptions(peers, algorithm, indexes, overlay, batch=50, rate=100.0)
    plan = plan_capacity(named(queries), columns(triples), options)
    compare(measured, plan, len(triples))
    assert plan.processing.tolist() == [status["processing_load"] for status in measured.status]
    assert plan.delivered == sum(len(subscriber.rows) for subscriber in measured.world.subscribers) > 400


def test_a_plan_on_real_data_equals_the_loads_of_real_peers(on_the_worlds_ring):
    if not DATA.is_dir():
        pytest.skip("the conjunctive streams are not beside the repository")
    with lzma.open(DATA / "dbpedia-live.tsv.xz") as lines:
        triples = [event.triple for event in parse_events(lines)][:3000]
    queries = {}
    for each in json.loads((DATA / "dbpedia-live.queries.json").read_text()):
        try:
            query = parse_select(each["query"])
        except QueryRefused:
            continue
        if all(step.role for step in make_plan(query, evaluation_order(query, {}), Algorithm.CSBV).steps):
            queries[query.patterns, query.constants, query.answer, query.distinct] = query
    measured = Measured(12, Algorithm.CSBV, list(queries.values()), triples, "all", 500)
    on_the_worlds_ring(measured)
    plan = plan_capacity(named(queries.values()), columns(triples), PlanOptions(12, batch=500))
    compare(measured, plan, len(triples))
    assert len(queries) > 70


@pytest.mark.parametrize("algorithm", list(Algorithm))
def test_the_memory_of_each_peer_is_that_of_a_real_peer(algorithm):
    queries, triples = path_workload()
    measured = Measured(12, algorithm, queries, triples, "all", 50)
    terms = TermDictionary()
    fleet = TracedFleet(terms, [Places([node.contact.key for node in measured.nodes], "kademlia")], algorithm)
    fleet.subscribe(queries)
    ids = [np.array(terms.intern_all(column), np.uint32) for column in columns(triples)]
    for at in range(0, len(triples), 50):
        fleet.publish(*(column[at : at + 50] for column in ids))
    for share, status in zip(fleet.shares(range(12)), measured.status, strict=True):
        held = measure(share, terms, fleet.loaded.plans, -(-len(triples) // 50))
        assert held.triples == status["triples"]
        assert held.copies == status["index_entries"]
        assert held.rows == status["rows"]
        assert held.queries == status["queries"]
        tables = held.triples_bytes + held.rows_bytes + held.queries_bytes
        assert tables == pytest.approx(status["table_bytes"], rel=0.3)
        assert held.terms_bytes >= 60 * held.terms
        assert held.answers_bytes >= 20 * held.answers


def test_twice_the_same_plan_is_the_same_and_another_seed_another():
    queries, triples = path_workload(400, 30)
    first, second, other = (
        plan_capacity(named(queries), columns(triples), PlanOptions(8, batch=50, seed=seed)).as_dict()
        for seed in (1, 1, 2)
    )
    for each in (first, second, other):
        del each["memory"]  # Python's own account of strings may differ by some bytes
    assert first == second != other
    assert json.loads(json.dumps(first)) == first


def test_subscribers_of_one_query_share_its_evaluation():
    queries, triples = path_workload(400, 30)
    once = plan_capacity(named(queries), columns(triples), PlanOptions(8, batch=50))
    thrice = plan_capacity(named(queries * 3), columns(triples), PlanOptions(8, batch=50))
    assert (thrice.queries, thrice.distinct_queries) == (3 * len(queries), len(queries))
    assert thrice.processing.tolist() == once.processing.tolist()
    assert thrice.delivered == 3 * once.delivered > 0
    deliveries = [next(each for each in plan.traffic if each.kind == "deliver") for plan in (once, thrice)]
    assert deliveries[1].rows == pytest.approx(3 * deliveries[0].rows, rel=0.1)


def test_more_entry_peers_share_the_way_in():
    queries, triples = path_workload(600, 30)
    one, four = (
        plan_capacity(named(queries), columns(triples), PlanOptions(8, batch=50, publishers=publishers))
        for publishers in (1, 4)
    )
    assert four.sent_bytes.max() < one.sent_bytes.max()
    assert four.processing.tolist() == one.processing.tolist()


# --- keys, verdicts ------------------------------------------------------------------------------


def a_stream(predicates: int, count: int = 2000):
    return [(f"<urn:s{at}>", f"<urn:p{at * 7919 % predicates}>", f'"{at}"') for at in range(count)]


def test_the_busiest_key_is_named_and_more_peers_do_not_divide_it():
    query = parse_select("SELECT ?s ?o WHERE { ?s <urn:p0> ?o }")
    plan = plan_capacity([NamedQuery("q", query)], columns(a_stream(1)), PlanOptions(20, indexes="on-demand"))
    key, load = plan.busiest_keys[0]
    assert (key.role, key.terms, key.triples, key.rows) == ("p", ("<urn:p0>",), 2000, 0)
    assert load == 2000 == plan.processing.max() == plan.doubled_max
    assert "More peers hardly help: with twice as many the busiest still has 100% of its load" in verdict(plan)
    assert "one key (p of <urn:p0>)" in verdict(plan)


def test_keys_that_nodes_would_split_are_named_by_their_arrivals():
    """The plan leaves keys whole, so it reports the nodes' reaction to keys that bring 10,000 triples in 30 s."""
    query = [NamedQuery("q", parse_select("SELECT ?s ?o WHERE { ?s <urn:p0> ?o }"))]
    plan_fast, plan_slow, plan_alone = (
        plan_capacity(query, columns(a_stream(1)), PlanOptions(peers, indexes="on-demand", rate=rate))
        for peers, rate in ((20, 334.0), (20, 333.0), (1, 1000.0))
    )
    fast, slow, alone = map(verdict, (plan_fast, plan_slow, plan_alone))
    assert "Nodes split a key with 10,000 triples in 30 s" in fast
    assert "this key is split, and peers share up to 100% of the busiest one's load" in fast
    assert "Nodes split a key with 10,000 triples in 30 s" in slow
    assert "this key is not split" in slow
    assert "split" not in alone
    (key,) = plan_fast.hot_keys
    plan_fast.hot_keys = [replace(key, rows=key.triples)]
    assert "this key is not split" in verdict(plan_fast)  # copying its rows would cost as much as its triples bring


def test_the_cost_of_random_places_is_reported():
    queries = [parse_select(f"SELECT ?s ?o WHERE {{ ?s <urn:p{at}> ?o }}") for at in range(500)]
    random, even = (
        plan_capacity(named(queries), columns(a_stream(500)), PlanOptions(50, places=places))
        for places in ("random", "even")
    )
    assert random.even_max == even.processing.max() < 0.7 * random.processing.max()
    assert "At even places" in verdict(random)
    assert even.even_max is None
    assert "At even places" not in verdict(even)


def test_an_overlay_that_only_the_worse_estimate_fills_may_not_carry_the_stream():
    queries, triples = path_workload(800, 40)
    plan = plan_capacity(named(queries), columns(triples), PlanOptions(8, batch=20, hours=10 * len(triples) / 3.6e6))
    low, high = plan.holders["fullest"].after(plan.times)
    assert low < high
    for memory, word in ((low / 2, "does not"), ((low + high) / 2, "may not")):
        plan.options = replace(plan.options, node=NodeLimits(load=1e9, memory_bytes=memory, link_bytes=1e9))
        assert f"This overlay {word} carry the stream: memory is exhausted first" in verdict(plan)


def test_more_peers_are_said_to_help_where_they_do():
    queries = [parse_select(f"SELECT ?s ?o WHERE {{ ?s <urn:p{at}> ?o }}") for at in range(500)]
    plan = plan_capacity(named(queries), columns(a_stream(500)), PlanOptions(16, places="even"))
    assert plan.doubled_max < 0.7 * plan.processing.max()
    assert "More peers help" in verdict(plan)


def test_a_plan_names_the_first_bottleneck_and_the_effect_of_indexing():
    queries, triples = path_workload(400, 30)
    slow = NodeLimits(load=10.0)
    plan = plan_capacity(named(queries), columns(triples), PlanOptions(8, batch=50, node=slow))
    assert plan.roles == ("s", "p", "o", "sp", "so", "po", "spo", "any")
    assert "This overlay does not carry the stream: processing is exhausted first" in verdict(plan)
    assert f"`indexes = on-demand` would make {len(plan.roles_needed)} copies" in verdict(plan)
    small = replace(plan.options, node=NodeLimits(memory_bytes=2.0 * plan.holders["fullest"].footprint.bytes))
    plan.options = small
    soonest, latest = plan.memory_full_after()
    assert 1 < soonest <= latest <= TIMES_MAX
    ends = plan.holders["fullest"].after(soonest)[1], plan.holders["fullest"].after(latest)[0]
    assert ends == pytest.approx([small.node.memory_bytes] * 2, rel=1e-3)
    assert "the scarcest resource is memory" in verdict(plan)


def test_a_plan_for_cqc_reports_the_loads_of_csbv():
    queries, triples = path_workload(800, 30)
    plan = plan_capacity(named(queries), columns(triples), PlanOptions(40, Algorithm.CQC, batch=50))
    csbv = plan_capacity(named(queries), columns(triples), PlanOptions(40, Algorithm.CSBV, batch=50))
    assert plan.csbv_max == csbv.processing.max()
    assert csbv.csbv_max is None
    assert "CSBV would" in verdict(plan)
    assert "CSBV" not in verdict(csbv)


# --- growth --------------------------------------------------------------------------------------


def test_a_power_is_read_off_and_carried_on():
    triples = [100 * at for at in range(1, 41)]
    square = grown("rows", triples, [at * at for at in triples], 3)
    assert square.triples == (1000, 2000, 4000)
    assert square.exponents == pytest.approx((2.0, 2.0))
    assert square.after(4) == pytest.approx((16.0, 16.0))
    bent = Growth("rows", (1000, 2000, 4000), (1000, 2000, 8000), 4)
    assert bent.after(2) == pytest.approx((2.0, 4.0))


def test_few_values_give_a_wide_range_and_no_power_exceeds_the_bound_by_patterns():
    few = Growth("rows", (1000, 2000, 4000), (COUNT_MIN - 1, 100, 200), 3)
    assert few.exponents is None
    assert few.after(2) == pytest.approx((2.0, 8.0))
    assert Growth("copies", (1000, 2000, 4000), (1000, 2000, 6000), 1).after(2) == pytest.approx((2.0, 2.0))
    assert grown("rows", [500], [1000], 2).exponents is None


def test_estimates_end_at_64_times_the_sample():
    linear = Growth("rows", (1000, 2000, 4000), (1000, 2000, 4000), 1)
    assert linear.after(TIMES_MAX) == (TIMES_MAX, TIMES_MAX)
    with pytest.raises(LocalProtocolError, match="estimates reach 64 times"):
        linear.after(TIMES_MAX + 1)
    queries, triples = path_workload(400, 30)
    plan = plan_capacity(named(queries), columns(triples), PlanOptions(8, batch=20, hours=100.0))
    assert plan.times > TIMES_MAX
    assert plan.times_estimated is None is plan.as_dict()["after_hours"]
    assert "estimates reach 64 times" in verdict(plan)


def test_the_growth_predicted_from_a_part_of_the_stream_comes_true():
    schema = PathSchema(levels=4, branch=2, instances=8, values=8, domains=2)
    queries, triples = path_workload(3000, 60, schema)
    count = len(triples) // 4
    options = PlanOptions(8, batch=50, rate=1000.0)
    part = plan_capacity(named(queries), columns(triples[:count]), replace(options, hours=len(triples) / 3.6e6))
    whole = plan_capacity(named(queries), columns(triples), options)
    assert part.times == pytest.approx(4, rel=0.01)
    low, high = part.growth["rows"].after(part.times)
    assert 0.7 * low <= whole.rows / part.rows <= 1.4 * high
    low, high = part.holders["fullest"].after(part.times)
    assert 0.7 * low <= whole.holders["fullest"].footprint.bytes <= 1.4 * high


# --- samples -------------------------------------------------------------------------------------


def test_hours_shorter_than_the_sample_cut_it_and_say_so():
    queries, triples = path_workload(400, 30)
    plan = plan_capacity(named(queries), columns(triples), PlanOptions(8, rate=100.0, hours=1 / 3600, batch=50))
    assert plan.published == 100
    assert plan.offered == len(triples)
    assert "no more come in" in plan.cut


def test_a_sample_that_explodes_is_cut_and_says_so(monkeypatch):
    monkeypatch.setattr(planner, "ROWS_MAX", 200)
    queries, triples = path_workload()
    plan = plan_capacity(named(queries), columns(triples), PlanOptions(8, batch=20))
    assert plan.published < len(triples)
    assert "more than 200 partial results and answers" in plan.cut


def test_a_triple_twice_in_a_publication_is_one():
    query = parse_select("SELECT ?s ?o WHERE { ?s <urn:p0> ?o }")
    triples = a_stream(1, 10)
    plan = plan_capacity([NamedQuery("q", query)], columns(triples * 2), PlanOptions(3, indexes="on-demand"))
    assert plan.processing.sum() == 10
    assert plan.published == 20


@pytest.mark.parametrize("peers", [1, 2])
def test_the_smallest_overlays_have_plans(peers):
    queries, triples = path_workload(200, 20)
    plan = plan_capacity(named(queries), columns(triples), PlanOptions(peers, batch=50))
    assert (sum(each.messages for each in plan.traffic) == 0) == (peers == 1)
    assert "This overlay" in verdict(plan)


@pytest.mark.parametrize(
    ("text", "algorithm", "pattern"),
    [
        ("SELECT * WHERE { ?s ?p ?o }", Algorithm.CSBV, r"\?v0 \?v1 \?v2"),
        ("SELECT * WHERE { ?s <urn:p> ?o . ?o ?q ?r }", Algorithm.CQC, r"\?v\d \?v\d \?v\d"),
    ],
)
def test_patterns_that_nothing_selects_are_refused_by_name(text, algorithm, pattern):
    with pytest.raises(QueryRefused, match=f"pattern {pattern}: fine.rq: .*waits at 8 places"):
        plan_capacity([NamedQuery("fine.rq", parse_select(text))], columns(a_stream(1)), PlanOptions(3, algorithm))


@pytest.mark.parametrize(
    ("options", "named_"),
    [
        ({"peers": 0}, "peers"), ({"publishers": 4}, "publishers"), ({"batch": 0}, "batch"), ({"rate": 0.0}, "rate"),
        ({"hours": -1.0}, "hours"), ({"overlay": "mesh"}, "overlay"), ({"places": "best"}, "places"),
        ({"indexes": "some"}, "indexes"), ({"node": NodeLimits(load=0.0)}, "load"), ({"rate": float("nan")}, "rate"),
        ({"rate": 1e300}, "rate"), ({"rate": 1e-300}, "rate"), ({"hours": 1e300}, "hours"), ({"hours": 0.0}, "hours"),
        ({"hours": float("inf")}, "hours"), ({"node": NodeLimits(memory_bytes=1.0)}, "memory"),
    ],
)  # fmt: skip
def test_options_that_make_no_sense_are_refused_by_name(options, named_):
    with pytest.raises(LocalProtocolError, match=named_):
        PlanOptions(**({"peers": 3} | options)).validate()


def test_nothing_to_plan_with_is_refused():
    query = NamedQuery("q", parse_select("SELECT ?s WHERE { ?s <urn:p> 1 }"))
    with pytest.raises(LocalProtocolError, match="no triple"):
        plan_capacity([query], ([], [], []), PlanOptions(3))
    with pytest.raises(LocalProtocolError, match="no query"):
        plan_capacity([], columns(a_stream(1)), PlanOptions(3))


# --- weighing ------------------------------------------------------------------------------------


def test_bytes_of_all_messages_follow_from_those_of_some():
    kind = Kind.of(3)
    rng = np.random.default_rng(1)
    whole = 0
    for _ in range(40):
        rows = rng.integers(1, 50, size=200)
        source, target = (rng.integers(3, size=200) for _ in range(2))
        due = kind.count(source, target, rows)
        whole += int((100 + 7 * rows).sum())
        for at in due:
            kind.weigh(int(rows[at]), 100 + 7 * int(rows[at]))
    assert kind.messages == 8000
    assert 256 <= len(kind.weighed) < 2000
    assert kind.unit_bytes == pytest.approx((100, 7))
    assert kind.bytes == pytest.approx(whole)
    assert kind.bytes_of(kind.sent).sum() == pytest.approx(kind.bytes_of(kind.received).sum())


def test_more_rows_than_a_message_holds_are_several_messages():
    kind = Kind.of(2)
    kind.count(np.array([0]), np.array([1]), np.array([10_000]))
    assert (kind.messages, kind.rows) == (3, 10_000)
