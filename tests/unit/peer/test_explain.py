"""Explanations: the plan, the nodes of its steps, their waiting rows, and the pattern that stops everything."""

from __future__ import annotations

import json

import pytest
from peer_pair import HIGH, LOW, Pair
from streaming_pair import IDLE, WINDOW, Streaming

from p2prdf import keys
from p2prdf.columns import ARRAYS, LISTS
from p2prdf.peer.explain.explain import CASES_MAX, HOME_SECONDS
from p2prdf.peer.explain.explanation import STEPS_MAX
from p2prdf.rdf.query import Algorithm
from p2prdf.rdf.standing.query import parse_query
from p2prdf.wire.contract import ContactLost, Explain, Explained, Failed, Publish, Subscribe, Subscribed, Unsubscribe
from p2prdf.wire.messages import CountsRequest, CountsResponse

MATERIALS = {"arrays": ARRAYS, "lists": LISTS}
CHAIN = "SELECT ?a ?c { ?a <u:p> ?b . ?b <u:q> ?c }"
COPIES = {"replicas": 2, "copies_min": 1}


def parsed(text):
    query = parse_query(text)
    return query if query.conjunctive is None else query.conjunctive


def explained(pair, at=LOW, **what):
    """Ask for an explanation and return it, or the failure, when time for it is over."""
    pair.requests += 1
    pair.submit(at, Explain(pair.requests, **what))
    pair.pass_time(3.0)
    outcome = pair.completed[pair.requests]
    return json.loads(outcome.json) if isinstance(outcome, Explained) else outcome


def subscribed(pair, text, algorithm=Algorithm.CSBV, at=LOW):
    pair.requests += 1
    pair.submit(at, Subscribe(pair.requests, parsed(text), algorithm))
    pair.pass_time(1.0)
    outcome = pair.completed[pair.requests]
    assert isinstance(outcome, Subscribed), outcome
    return outcome.subscription


def removed(pair, *triples):
    pair.requests += 1
    intern, make = pair.dictionary.intern_all, pair.columns.column
    columns = [make(intern(column), "uint32") for column in zip(*triples, strict=True)]
    pair.submit(LOW, Publish(pair.requests, 9, pair.events, *columns, removed=True))
    pair.events += len(triples)
    pair.pass_time(0.1)


def _primary(pair, number):
    """Return the peer that coordinates a subscription."""
    return next(each for each in (LOW, HIGH) if pair.peers[each.key]._messenger.placement.rank(number) == 0)


def links(count):
    return [(f"<a{n}>", "<u:p>", f"<b{n}>") for n in range(count)]


def steps(said, part=0):
    """The steps of a part by their pattern."""
    return {step["pattern"]: step for step in said["parts"][part]["steps"]}


@pytest.fixture(params=[*MATERIALS])
def columns(request):
    return MATERIALS[request.param]


@pytest.fixture(params=[{}, COPIES], ids=["one copy", "two copies"])
def pair(request, columns):
    return made(columns, **request.param)


def made(columns, **config):
    """Two peers that know the whole ring and are in sync."""
    pair = Pair(columns, **config)
    pair.publish(LOW, ("<x>", "<y>", "<z>"))
    pair.pass_time(30.0)
    return pair


# --- subscriptions -------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", Algorithm)
def test_waiting_rows_are_counted_once_and_the_blocking_pattern_is_named(pair, algorithm):
    number = subscribed(pair, CHAIN, algorithm)
    said = explained(pair, subscription=number)
    assert said["findings"] == ["nothing fires because no triple matches pattern 1 (?a <u:p> ?v0) yet"]
    assert [step["waiting"] for step in said["parts"][0]["steps"]] == [1, 0]
    pair.publish(HIGH, *links(12))
    for at in (LOW, HIGH):
        said = explained(pair, at, subscription=number)
        first, second = said["parts"][0]["steps"]
        assert (first["waiting"], first["triples"], first["triples_since"]) == (1, 12, 12)
        assert (second["waiting"], second["triples"]) == (12, 0)
        why = "nothing fires because no triple matches pattern 2 (?v0 <u:q> ?c) yet"
        assert said["findings"] == [f"{why}; there are 12 partial results waiting for it"]
        assert said["unmatched"] == [{"part": 1, "pattern": 2}]
    pair.publish(LOW, ("<else>", "<u:q>", "<c>"))
    assert explained(pair, subscription=number)["findings"] == [
        "12 partial results wait for pattern 2 (?v0 <u:q> ?c): one triple matches its constants, none has their values"
    ]
    pair.publish(LOW, ("<b3>", "<u:q>", "<c>"), ("<b4>", "<u:q>", "<c>"))
    said = explained(pair, subscription=number)
    assert said["findings"] == ["all patterns match: 2 answers and withdrawals so far"]
    assert said["parts"][0]["answers"] == said["subscription"]["answers"] == 2
    assert said["subscription"]["unacknowledged"] == 2
    assert said["unmatched"] == []


def test_after_removals_ended_rows_do_not_count_as_waiting(pair):
    number = subscribed(pair, CHAIN)
    pair.publish(LOW, *links(5))
    removed(pair, *links(3))
    said = explained(pair, subscription=number)
    assert (steps(said)[1]["triples"], steps(said)[2]["waiting"], steps(said)[2]["over"]) == (2, 2, 3)
    removed(pair, *links(5)[3:])
    said = explained(pair, subscription=number)
    assert (steps(said)[1]["triples"], steps(said)[2]["waiting"], steps(said)[2]["over"]) == (0, 0, 5)
    assert said["findings"] == [
        "nothing fires because no triple matches pattern 1 (?a <u:p> ?v0) any more: what did was removed"
    ]


def test_triples_from_before_the_subscription_do_not_count_and_the_finding_says_so(pair):
    pair.publish(LOW, *links(3))
    pair.pass_time(1.0)
    said = explained(pair, subscription=subscribed(pair, CHAIN))
    assert (steps(said)[1]["triples"], steps(said)[1]["triples_since"]) == (3, 0)
    assert said["findings"] == [
        "nothing fires because no triple matches pattern 2 (?v0 <u:q> ?c) yet"
    ], "the rarest comes first"
    pair.publish(LOW, ("<b1>", "<u:q>", "<c>"))
    assert explained(pair, subscription=subscribed(pair, "SELECT ?a { ?a <u:p> ?b }"))["findings"] == [
        "nothing fires: 3 triples match pattern 1 (?a <u:p> ?v0), but from before the subscription"
    ]


def test_filters_that_let_nothing_through_are_named(pair):
    number = subscribed(pair, 'SELECT ?a { ?a <u:p> ?b FILTER(STR(?b) = "x") }')
    pair.publish(LOW, *links(2))
    said = explained(pair, subscription=number)
    assert steps(said)[1]["filters"] == ['STR ( ?v0 ) = "x"']
    assert said["findings"] == [
        "nothing fires: 2 triples match the constants of pattern 1 (?a <u:p> ?v0), none passes the filters"
    ]


def test_steps_are_shown_with_their_indexes_keys_and_nodes(pair):
    number = subscribed(pair, CHAIN)
    said = explained(pair, HIGH, subscription=number)
    first, second = said["parts"][0]["steps"]
    p = pair.dictionary.hashes[pair.dictionary.intern("<u:p>")]
    key = int(keys.role_key(keys.P, 0, p, 0))
    owners = sorted((LOW, HIGH), key=lambda contact: contact.key ^ key)
    copies = 2 if pair.peers[LOW.key].config.replicas == 2 else 1
    assert (first["role"], first["keys"], first["varies_with"]) == ("p", [f"{key:016x}"], [])
    assert first["nodes"] == [f"{owner.host}:1" for owner in owners[:copies]]
    assert (second["role"], second["keys"], second["nodes"]) == ("sp", [], [])
    assert second["varies_with"] == ["v0"]
    assert said["subscription"]["number"] == f"{number:016x}"
    assert said["subscription"]["subscriber"] == "low:1"
    assert said["subscription"]["live"]
    assert said["asked"] == {"nodes": 2, "missing": [], "missing_total": 0, "all_nodes_known": True}
    assert len(said["home"]["nodes"]) == copies


def test_a_pattern_without_constants_waits_once(pair):
    number = subscribed(pair, "SELECT ?a { ?a ?b ?c }")
    pair.publish(LOW, *links(4))
    said = explained(pair, subscription=number)
    step = steps(said)[1]
    assert (step["role"], len(step["keys"]), step["waiting"], step["triples"]) == ("any", keys.BUCKETS, 1, 5)


def test_an_algebra_query_is_explained_with_its_operators_and_their_rows(pair):
    number = subscribed(pair, "SELECT ?a ?n { ?a <u:p> ?b OPTIONAL { ?b <u:n> ?n } }")
    pair.publish(LOW, *links(3), ("<b1>", "<u:n>", '"x"'))
    said = explained(pair, subscription=number)
    told = {each["operator"]: each for each in said["operators"]}
    assert [each["number"] for each in said["operators"]] == [*range(len(said["operators"]))]
    assert told["LeftJoin"]["rows"] == 4
    assert len(told["LeftJoin"]["inputs"]) == 2
    assert [part["answers"] for part in said["parts"]] == [3, 1]
    texts = [part["steps"][0]["text"] for part in said["parts"]]
    assert texts == ["?a <u:p> ?v0", "?v0 <u:n> ?n"], "what joins the parts has one name"
    assert said["subscription"]["true"] == 3
    assert said["findings"] == [
        "part 1: all patterns match: 3 answers so far", "part 2: all patterns match: 1 answer so far",
    ]  # fmt: skip


def test_subscriptions_of_one_query_count_their_own_rows(pair):
    first = subscribed(pair, CHAIN)
    pair.publish(LOW, *links(3))
    pair.pass_time(1.0)
    second = subscribed(pair, CHAIN)
    assert first != second
    assert steps(explained(pair, subscription=first))[2]["waiting"] == 3
    said = explained(pair, subscription=second)
    assert steps(said)[2]["waiting"] == 0
    assert "from before the subscription" in said["findings"][0]


def test_an_unknown_subscription_is_a_typed_failure(pair):
    number = subscribed(pair, CHAIN)
    pair.submit(LOW, Unsubscribe(999, number))
    pair.pass_time(1.0)
    for unknown in (number, number ^ 77):
        pair.requests += 1
        pair.submit(HIGH, Explain(pair.requests, unknown))
        pair.pass_time(HOME_SECONDS)
        outcome = pair.completed[pair.requests]
        assert isinstance(outcome, Failed)
        assert (outcome.code, f"{unknown:016x}" in outcome.text) == ("subscription-gone", True)


# --- queries -------------------------------------------------------------------------------------


def test_a_query_is_planned_by_rates_and_nothing_is_left_of_it(pair):
    pair.publish(LOW, *links(7), ("<b0>", "<u:q>", "<c>"))
    before = [(peer.roles, peer.status()["queries"], peer.status()["groups"]) for peer in pair.peers.values()]
    said = explained(pair, HIGH, query=parsed(CHAIN))
    after = [(peer.roles, peer.status()["queries"], peer.status()["groups"]) for peer in pair.peers.values()]
    assert before == after
    assert [(step["pattern"], step["rate"], step["triples"]) for step in said["parts"][0]["steps"]] == [
        (2, 1, 1), (1, 7, 7),
    ]  # fmt: skip
    assert said["kind"] == "query"
    assert said["findings"] == ["every pattern matches some triples"]
    assert "subscription" not in said
    assert "waiting" not in steps(said)[1]
    subscription = subscribed(pair, CHAIN)
    planned = explained(pair, subscription=subscription)
    assert planned["home"] == said["home"]
    assert [step["pattern"] for step in planned["parts"][0]["steps"]] == [2, 1]


def test_a_pattern_that_never_matched_is_named(pair):
    pair.publish(LOW, *links(2))
    said = explained(pair, query=parsed("SELECT ?a { ?a <u:p> ?b MINUS { ?a <u:never> ?c } }"))
    assert said["findings"] == ["no triple matches pattern 1 of part 2 (?a <u:never> ?v1)"]
    assert said["unmatched"] == [{"part": 2, "pattern": 1}]


def test_where_nobody_waits_for_anything_nothing_can_be_counted(columns):
    pair = Pair(columns, indexes="on-demand")
    pair.pass_time(5.0)
    pair.publish(LOW, *links(2))
    said = explained(pair, query=parsed(CHAIN))
    assert [step["triples"] for step in said["parts"][0]["steps"]] == [None, None]
    assert [step["rate"] for step in said["parts"][0]["steps"]] == [None, None]
    assert all("nobody waits for" in finding for finding in said["findings"])
    number = subscribed(pair, "SELECT ?a { ?a <u:p> ?b }")
    pair.publish(LOW, *links(3))
    said = explained(pair, query=parsed(CHAIN))
    assert (steps(said)[1]["triples"], steps(said)[2]["triples"]) == (3, 0), "what is kept for others can be counted"
    assert explained(pair, subscription=number)["findings"] == ["all patterns match: 3 answers and withdrawals so far"]


def test_queries_without_patterns_and_per_event(pair):
    said = explained(pair, query=parsed("ASK {}"))
    assert (said["form"], said["parts"]) == ("ask", [])
    assert explained(pair, query=parsed(CHAIN), per_event=True)["per_event"]
    outcome = explained(pair, query=parsed("ASK { ?a <u:p> ?b }"), per_event=True)
    assert outcome.code == "query-refused"


def test_a_query_answered_per_event_is_counted_by_events(pair):
    pair.requests += 1
    pair.submit(LOW, Subscribe(pair.requests, parsed(CHAIN), per_event=True))
    pair.pass_time(1.0)
    for _ in range(2):
        pair.publish(HIGH, ("<a>", "<u:p>", "<b>"))
    found = steps(explained(pair, query=parsed(CHAIN), per_event=True))
    assert [(found[at]["counted_by"], found[at]["triples"]) for at in (1, 2)] == [("p", 2), ("p", 0)]


def test_an_explanation_has_a_moderate_size_for_any_query(columns):
    pair = Pair(columns)
    unions = [" ".join(f"?a{n} x:y{m} ?b{m} ." for n in range(14)) for m in range(20)]
    prefix = f"PREFIX x: <urn:{'x' * 900}>"
    query = parse_query(f"{prefix} SELECT * {{ " + " UNION ".join(f"{{ {union} }}" for union in unions) + " }")
    assert sum(len(leaf.patterns) for leaf in query.leaves) > STEPS_MAX
    said = explained(pair, query=query)
    assert said["steps_left_out"] == 280 - STEPS_MAX
    assert len(said["findings"]) < 50
    assert len(json.dumps(said)) < 400_000


# --- peers that do not answer ------------------------------------------------------------------


def test_a_peer_that_does_not_answer_is_named_as_missing(columns):
    pair = made(columns, **COPIES)
    number = subscribed(pair, CHAIN)
    pair.publish(LOW, *links(6))
    home = _primary(pair, number)
    other = HIGH if home is LOW else LOW
    pair.cut = True
    said = explained(pair, home, subscription=number)
    assert (said["asked"]["missing"], said["asked"]["nodes"]) == ([f"{other.host}:1"], 2)
    assert f"what some nodes hold is not counted, for they did not answer: {other.host}:1" in said["findings"]
    assert steps(said)[2]["waiting"] < 6
    pair.cut = False
    said = explained(pair, home, subscription=number)
    assert (said["asked"]["missing"], steps(said)[2]["waiting"]) == ([], 6)


def test_a_coordinator_that_does_not_answer_is_given_up(columns):
    pair = Pair(columns)
    number = subscribed(pair, CHAIN)
    home = next(contact for contact in (LOW, HIGH) if pair.peers[contact.key].status()["subscriptions_coordinated"])
    pair.cut = True
    pair.requests += 1
    pair.submit(HIGH if home is LOW else LOW, Explain(pair.requests, number))
    pair.pass_time(HOME_SECONDS + 0.1)
    outcome = pair.completed[pair.requests]
    assert isinstance(outcome, Failed)
    assert outcome.code == "unavailable"


def test_a_coordinator_reports_that_its_subscribers_node_is_gone(columns):
    pair = made(columns, **COPIES)
    number = subscribed(pair, CHAIN)
    home = _primary(pair, number)
    other = HIGH if home is LOW else LOW
    number = subscribed(pair, CHAIN, at=other)
    pair.cut = True
    pair.submit(home, ContactLost(other, left=True))
    said = explained(pair, home, subscription=number)
    assert not said["subscription"]["reached"]
    assert said["findings"][0].startswith(f"its node {other.host}:1 is gone")


def test_so_many_explanations_are_worked_on_at_a_time(columns):
    pair = Pair(columns)
    pair.cut = True
    numbers = range(1000, 1001 + CASES_MAX)
    for number in numbers:
        pair.submit(LOW, Explain(number, 0, parsed(CHAIN)))
    assert [pair.completed[number].code for number in numbers if number in pair.completed] == ["busy"]
    pair.pass_time(3.0)
    assert all(number in pair.completed for number in numbers)


def test_counts_that_nobody_asked_for_are_dropped(columns):
    pair = Pair(columns)
    explanations = pair.peers[LOW.key]._explanations
    make = columns.column
    empty = [make([]) for _ in range(5)]
    explanations.counted(HIGH, CountsResponse(4711, *empty))
    asked = CountsRequest(1, 0, make([5]), make([9]), make([7]), make([7]), make([0]), make([0]), make([0]))
    assert [int(each) for each in explanations._counts.take(asked).waiting] == [0], "an unknown leaf, a step beyond it"


def test_ended_rows_make_no_count_negative_from_any_start_time(columns):
    """A peer's request may name any time, also one after the end time of ended rows."""
    pair = made(columns)
    subscribed(pair, CHAIN)
    pair.publish(LOW, *links(12))
    removed(pair, *links(12))
    counts = [peer._explanations._counts for peer in pair.peers.values()]
    homes = [peer._explanations._coordinator.home for peer in pair.peers.values()]
    leaves = sorted({leaf.identity for home in homes for group in home._by_identity.values() for leaf in group.leaves})
    make, found = columns.column, []
    for since in (0, 1 << 63, (1 << 63) + 1, (1 << 64) - 1):
        columns_asked = [make([each] * len(leaves), "uint32") for each in (1, 7, 7, 0, 0, 0)]
        asked = CountsRequest(1, since, make(leaves), *columns_asked)
        for told in [each.take(asked) for each in counts]:
            found += [(int(waiting), int(over)) for waiting, over in zip(told.waiting, told.over, strict=True)]
    assert any(over for _, over in found), "else nothing could be taken from nothing"
    assert all(waiting >= 0 and over >= 0 for waiting, over in found), found


def test_a_partial_count_is_an_estimate_and_marked_as_one(pair, monkeypatch):
    number = subscribed(pair, CHAIN)
    pair.publish(LOW, *links(600))
    monkeypatch.setattr("p2prdf.peer.joins.counts._LOOKED_AT_MIN", 100)
    monkeypatch.setattr("p2prdf.peer.joins.counts.ROWS_LOOKED_AT", 1)
    monkeypatch.setattr("p2prdf.peer.joins.counts.TRIPLES_LOOKED_AT", 1)
    said = explained(pair, subscription=number)
    first, second = said["parts"][0]["steps"]
    assert second["waiting_estimated"]
    assert 400 <= second["waiting"] <= 800
    assert first["triples_estimated"]
    assert 400 <= first["triples"] <= 800
    assert not first["waiting_estimated"]


@pytest.mark.parametrize(("ago", "said"), [(0, ""), (90, "one minute"), (3 * 3600, "3 hours"), (5 * 86400, "5 days")])
def test_a_window_on_a_stream_of_the_past_shows_the_elements_that_its_next_report_waits_for(ago, said):
    pair = Streaming(ARRAYS, **IDLE)
    pair.now += 1_700_000_000 - pair.now % 1000
    pair.pass_time(5.0)
    subscription = pair.left(WINDOW)
    at = int(pair.now - ago) * 1000 + 400
    pair.elements(("<urn:a>", "<urn:p>", "<urn:b>"), times=[at])
    pair.say(at)
    pair.now += 20 - 20 * (not ago)
    findings = explained(pair, subscription=subscription)["findings"]
    past = [each for each in findings if "lie in the past" in each]
    if not ago:
        assert not past
        return
    ((_, told, waits),) = [each.replace("; ", ", ").split(", ") for each in past]
    assert past[0].startswith("the elements of <urn:s> lie in the past: the last ones known are of 2023-11-")
    assert told == f"{said} ago by this clock"
    assert waits.startswith("the next report waits for elements after 2023-11-")
    assert waits.endswith(".999Z")
