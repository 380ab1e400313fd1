"""A traced publication can be followed from peer to peer; an untraced one leaves nothing."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pytest

from p2prdf import hlc
from p2prdf.columns import ARRAYS
from p2prdf.peer import PeerConfig
from p2prdf.peer.network.messenger import Messenger
from p2prdf.peer.network.tracing import LIVE_MAX, LIVE_SECONDS, SPANS_MAX
from p2prdf.rdf.query import Algorithm
from p2prdf.rdf.standing.query import parse_query
from p2prdf.sim.subscriber import Subscriber
from p2prdf.sim.world import World, WorldOptions
from p2prdf.wire.contract import Span
from p2prdf.wire.messages import Contact, Traced
from p2prdf.wire.trace_context import TraceContext
from p2prdf_lab.workloads.random_queries import conjunctive_query
from schedules.failures.clients import Publisher, SubscriberClient
from schedules.failures.options import Failures
from schedules.failures.subscriber import ResumingSubscriber
from schedules.failures.world import FailingWorld

P, Q = "<urn:p>", "<urn:q>"
PATH = conjunctive_query([("?x", P, "?y"), ("?y", Q, "?z")], ["?x", "?z"])
TRACE = TraceContext(0xABC << 64 | 0xDEF, 0x123)
FIRST, SECOND = ("<urn:x>", P, "<urn:y>"), ("<urn:y>", Q, '"z"')


def _config(replicas: int = 1, **more) -> PeerConfig:
    return PeerConfig(hot_keys=False, replicas=replicas, copies_min=min(2, replicas), **more)


def _world(trace_every: int = 0, **options) -> World:
    return World(WorldOptions(peers=9, seed=5, config=_config(trace_every=trace_every), **options))


def _subscribed(world: World, query) -> Subscriber:
    subscriber = world.subscribe(0.0, 8, query)
    world.run_until(lambda: subscriber.opened_at is not None)
    return subscriber


def _replicated(text: str, **options) -> tuple[FailingWorld, Publisher]:
    """Return peers that keep three copies and trace all publications, a subscription, and a publisher."""
    config = _config(3, trace_every=1)
    world = FailingWorld(
        WorldOptions(peers=9, seed=5, config=config, **options), Failures(publisher_crash_probability=0.0)
    )
    world.run_for(5.0)
    record = ResumingSubscriber(text, parse_query(text), Algorithm.CSBV, False, 86_400.0, text)
    SubscriberClient(world, record, Random(text)).connect()
    world.run_for(5.0)
    return world, Publisher(world, "publisher", Random(2))


def _spans(world: World) -> list[Span]:
    return [span for _, _, span in world.spans]


def _tree(spans: list[Span], context: TraceContext = TRACE) -> dict[int, Span]:
    """Return spans by number; each except the publication's is a child of another of them."""
    by_number = {span.span: span for span in spans}
    assert len(by_number) == len(spans)
    for span in spans:
        assert span.trace == context.trace
        if span.name == "publish":
            assert span.parent == context.parent
        else:
            assert span.parent in by_number, span
    return by_number


def _way(span: Span, by_number: dict[int, Span]) -> list[str]:
    names = [span.name]
    while span.parent in by_number:
        span = by_number[span.parent]
        names.append(span.name)
    return names[::-1]


def _check_ends(world: World, by_number: dict[int, Span]) -> None:
    """Each span ends after it began, and after its parent began; the receiver of a send is the next peer."""
    keys = {span.span: key for key, _, span in world.spans}
    for key, ended, span in world.spans:
        parent = by_number.get(span.parent)
        assert ended >= span.began
        if parent is not None:
            assert span.began >= parent.began - 1e-6
            assert parent.name != "send" or parent.fields["to"] == f"{key:016x}"
            assert parent.name == "send" or keys[parent.span] == key


@pytest.mark.parametrize("tables", ["lists", "arrays"])
@pytest.mark.parametrize("through_codec", [False, True], ids=["by reference", "through codec"])
def test_one_trace_goes_from_the_publication_to_the_subscriber(tables, through_codec):
    world = _world(tables=tables, through_codec=through_codec)
    _subscribed(world, PATH)
    world.publish(0.0, 0, [SECOND])
    world.run_for(5.0)
    assert not world.spans
    world.publish(0.0, 3, [FIRST], TRACE)
    world.run_for(5.0)
    spans = _spans(world)
    by_number = _tree(spans)
    names = Counter(span.name for span in spans)
    assert names.pop("send") == names.pop("index") + 3 - 1  # one owner is where it was published
    assert names == {"publish": 1, "take": 1, "join": 1, "answer": 1, "deliver": 1, "acknowledge": 1}
    (deliver,) = (span for span in spans if span.name == "deliver")
    way = [name for name in _way(deliver, by_number) if name != "send"]
    assert way == ["publish", "index", "join", "answer", "deliver"]
    _check_ends(world, by_number)


@pytest.mark.parametrize("text", [
    "SELECT ?x ?n WHERE { ?x <urn:p> ?y . ?y <urn:q> ?n }",
    "SELECT ?x ?n WHERE { ?x <urn:p> ?y OPTIONAL { ?y <urn:q> ?n } }",
    "SELECT ?y (COUNT(*) AS ?n) WHERE { ?x <urn:p> ?y } GROUP BY ?y",
])  # fmt: skip
@pytest.mark.parametrize("tables", ["lists", "arrays"])
def test_with_copies_all_replicas_report_spans_and_one_delivers(text, tables):
    world, publisher = _replicated(text, tables=tables)
    publisher.publish(0.0, [SECOND])
    world.run_for(5.0)
    world.spans.clear()
    publisher.publish(0.0, [FIRST])
    world.run_for(5.0)
    spans = [span for span in _spans(world) if span.trace == world.spans[0][2].trace]
    by_number = _tree(spans, TraceContext(spans[0].trace))
    names = Counter(span.name for span in spans)
    assert names["answer"] == 3
    assert names["deliver"] == names["acknowledge"] == names["publish"] == 1
    _check_ends(world, by_number)
    world.spans.clear()
    publisher.publish(0.0, [FIRST], removed=True)
    world.run_for(5.0)
    spans = [span for span in _spans(world) if span.trace == world.spans[0][2].trace]
    assert Counter(span.name for span in spans)["deliver"] == 1


def test_rows_that_the_traced_triple_waited_for_are_followed_as_well():
    """The other triple is younger and comes second: the row has the traced stamp as its ``min_ts``."""
    world = _world()
    _subscribed(world, PATH)
    world.publish(0.0, 3, [FIRST], TRACE)
    world.run_for(5.0)
    before = len(world.spans)
    world.publish(0.0, 0, [SECOND])
    world.run_for(5.0)
    after = _spans(world)[before:]
    names = Counter(span.name for span in after)
    assert names["answer"] == names["deliver"] == 1
    assert {span.fields["what"] for span in after if span.name == "send"} == {"Answers", "Deliver"}


def test_every_nth_publication_of_a_peer_is_traced_and_others_cost_no_message():
    def sent(every: int) -> tuple[int, int, int]:
        world = _world(trace_every=every)
        for at in range(6):
            world.publish(0.1 * at, 3, [(f"<urn:x{at}>", P, "<urn:y>")])
        world.run_for(5.0)
        published = [span for span in _spans(world) if span.name == "publish"]
        traced = world.counts.messages["Traced"]
        return len(published), traced, world.counts.hops - traced

    none, third, second, every = map(sent, (0, 3, 2, 1))
    assert [each[0] for each in (none, third, second, every)] == [0, 2, 3, 6]
    assert none[1] == 0 < third[1] < second[1] < every[1]
    assert none[2] == third[2] == second[2] == every[2]


def test_an_untraced_publication_is_not_even_looked_at(monkeypatch):
    """Counted: with nothing traced no column is compared, and no span is reported."""
    calls: Counter[str] = Counter()
    for name in ("found", "before", "work", "answers", "handed", "routed"):
        monkeypatch.setattr(
            f"p2prdf.peer.network.tracing.Traces.{name}", lambda *_, name=name, **__: calls.update([name])
        )
    world = _world()
    subscriber = _subscribed(world, PATH)
    world.publish(0.0, 0, [FIRST, SECOND])
    world.run_for(5.0)
    assert subscriber.rows
    assert not calls


def _messenger() -> Messenger:
    messenger = Messenger(Contact(1, "a", 1), PeerConfig(), ARRAYS)
    messenger.observe(1000.0)
    return messenger


def test_traces_spans_and_the_time_they_are_followed_are_bounded():
    messenger = _messenger()
    traces = messenger.traces
    for _ in range(LIVE_MAX + 5):
        traces.begin(messenger.tick_apart(), None)
    assert (len(traces), traces.begun, traces.refused) == (LIVE_MAX, LIVE_MAX, 5)
    stamp = next(iter(traces.live))
    for _ in range(SPANS_MAX):
        traces.tell(stamp, "index", 1, 2, 1000.0, {})
    assert traces.cut == 1  # reported when it was taken
    messenger.observe(1000.0 + LIVE_SECONDS)
    assert traces.found((np.array([stamp], np.uint64),)) == {}
    assert not traces.live


def test_a_stamp_stays_with_its_first_trace():
    messenger = _messenger()
    traces = messenger.traces
    one = [np.array([value], np.uint64) for value in (7, 1, 1, 5, 0)]
    other = [np.array([value], np.uint64) for value in (7, 1, 2, 6, 0)]
    traces.told(Traced(1, *one))
    traces.told(Traced(1, *other))
    assert (len(traces), traces.refused) == (1, 1)


def test_a_stamp_drawn_apart_is_after_all_before_it_and_near_the_clock():
    messenger = _messenger()
    last = messenger.tick()
    for _ in range(100):
        stamp = messenger.tick_apart()
        assert last < stamp
        assert messenger.tick() > stamp
        last = messenger.clock
    apart = {messenger.tick_apart() & 0xFFFF for _ in range(50)}
    assert len(apart) > 40
    assert max(apart) - min(apart) > 4096
    assert abs(hlc.seconds(_messenger().tick_apart()) - 1000.0) < 0.002
