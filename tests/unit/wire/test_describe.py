"""Lines about messages: their content, their bounds, and no data of a process in them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from p2prdf import hlc, keys
from p2prdf.rdf.query import Algorithm, ConjunctiveQuery, Filter, make_plan
from p2prdf.rdf.standing.query import parse_query
from p2prdf.wire import messages as m
from p2prdf.wire.describe import LINE_CHARACTERS_MAX, describe, describe_plan
from p2prdf.wire.fields import DECLARED, NUMBERS

QUERY = ConjunctiveQuery(
    ((0, -1, 1), (1, -2, 2)), ("<urn:plays>", "<urn:in>"), (0, 2), ("who", "where"), True, (Filter("?v2 > 1", (2,)),)
)
PLAN = make_plan(QUERY, (1, 0), Algorithm.CSBV, per_event=True)
TOP = (1 << 64) - 1
PEER = m.Contact(0xAB, "127.0.0.1", 7400)
NOON = hlc.from_seconds(43_200)
GROUPS = m.Groups([1, 2], [NOON] * 2, [NOON] * 2, [NOON] * 2, ([7, 7], [8, 8]))
ROWS = m.Rows([0, 1, 1, 0, 0], [16, 17, 18, 19, 20], [NOON] * 5, [NOON] * 5, ([1] * 5,))


PLAN_LINE = "[csbv ?1 c1 ?2 . ?0 c0 ?1 -> ?0 ?2 distinct per-event 1 filter]"
QUERY_LINE = "[?0 <urn:plays> ?1 . ?1 <urn:in> ?2 -> ?0 ?2 distinct 1 filter]"
PEER_LINE = "00000000000000ab@127.0.0.1:7400"
GROUPS_LINE = "2 groups=0000000000000001,0000000000000002"
ROWS_LINE = "5 rows=0000000000000010,0000000000000011,0000000000000012,0000000000000013,+1"

LINES = {
    "IndexTriples 2 rows time=43200.000,43200.000+1 roles=sp": m.IndexTriples(
        [1, 2], [3, 3], [4, 5], [NOON, NOON + 1], [9, 9], [keys.role_bit(3, per_event=False)] * 2
    ),
    f"IndexQuery {PLAN_LINE} step=0 {GROUPS_LINE}": m.IndexQuery(PLAN, 0, GROUPS),
    f"Forward {PLAN_LINE} step=1 {GROUPS_LINE} {ROWS_LINE} refresh=43200.000 hops=2": m.Forward(
        PLAN, 1, GROUPS, ROWS, NOON, 2
    ),
    "Acknowledge transfers=1,2,3": m.Acknowledge([1, 2, 3]),
    "Acknowledge transfers=none": m.Acknowledge([]),
    "AdvertiseIndexes roles=s,p,o": m.AdvertiseIndexes(keys.CQC_ROLES),
    "IndexesRequest": m.IndexesRequest(),
    "IndexTriples 1 row time=43200.000 roles=p,po,events:p,sub:p": m.IndexTriples(
        [1], [2], [3], [NOON], [9], [1 << 2 | 1 << 10 | 1 << 6 | 1 << 18]
    ),
    f"Forward {PLAN_LINE} step=0 {GROUPS_LINE} 1 row=0000000000000010 copied": m.Forward(
        PLAN, 0, GROUPS, m.Rows([0], [16], [TOP], [0], ()), copied=True
    ),
    "KeyDepth role=po key=00000000000000ff depth=3": m.KeyDepth(6, 255, 3),
    "HoldSubKeys role=p key=0000000000000001 depth=8": m.HoldSubKeys(2, 1, 8),
    "LoadResponse request=1 arrivals=500 seconds=30.0": m.LoadResponse(1, 500, 30.0),
    "#7 43200.000 IndexesRequest": m.Envelope(7, NOON, m.IndexesRequest()),
    "43200.000+5 IndexesRequest": m.Envelope(0, NOON + 5, m.IndexesRequest()),
    f"Nodes request=4 contacts={PEER_LINE},{PEER_LINE}": m.Nodes(4, (PEER, PEER)),
    f"OpenSubscription request=1 key=00000000000000ff {QUERY_LINE} algorithm='csbv' subscriber={PEER_LINE}"
    " lease_seconds=60.0": m.OpenSubscription(1, 255, QUERY, "csbv", False, PEER, 60.0),
    "OpenSubscription request=1 key=00000000000000ff [ask: ?0 <urn:p> ?1 -> ?0; ?0 <urn:q> ?1 -> ?0]"
    f" algorithm='csbv' subscriber={PEER_LINE} lease_seconds=60.0": m.OpenSubscription(
        1, 255, parse_query("ASK { ?a <urn:p> ?b MINUS { ?a <urn:q> ?c } }"), "csbv", False, PEER, 60.0
    ),
    "Deliver 1 row subscription=0000000000000003 first=1 lost=0 identity=0000000000000005 epoch=00000000000000ff":
        m.Deliver(3, 1, 0, [5], [NOON], ([1],), 255),
    "EndSubscription subscriptions=0000000000000003 groups=00000000000000ff times=43200.000": m.EndSubscription(
        [3], [255], [NOON]
    ),
    f"ExplainSubscription request=1 asker={PEER_LINE} subscription=00000000000000ff": m.ExplainSubscription(
        1, PEER, 255
    ),
    "CountsRequest 2 rows request=7 since=43200.000 leaves=00000000000000ff,00000000000000ff steps=0,1 under=2,8"
    " masks=2,2": m.CountsRequest(7, NOON, [255, 255], [0, 1], [2, 8], [2, 2], [1, 1], [1, 1], [1, 1]),
    "CountsResponse 1 row request=7 waiting=12 over=0 triples=3 young=1 estimated=0": m.CountsResponse(
        7, [12], [0], [3], [1], [0]
    ),
    "ClientReply request=4 json='{}'": m.ClientReply(4, "{}"),
    "ClientHello version=2 agent='" + "x" * 57 + "...'": m.ClientHello(2, "x" * 99),
    "ClientSubscribed request=1 subscription=0000000000000002 since=43200.000 names=a,b order=1,0": (
        m.ClientSubscribed(1, 2, NOON, ("a", "b"), (1, 0))
    ),
}


@pytest.mark.parametrize("line", LINES)
def test_a_line_has_the_fields_of_interest(line):
    assert describe(LINES[line]) == line


def test_lists_and_arrays_are_described_alike():
    columns = {name: np.array(getattr(ROWS, name), np.uint64) for name in ("group", "identity", "oldest", "born")}
    arrays = m.Rows(**columns, bindings=(np.array([1] * 5, np.uint32),))
    assert describe(m.Answers(np.array([1, 2], np.uint64), arrays)) == describe(m.Answers([1, 2], ROWS))


def test_every_message_type_has_a_bounded_line_without_term_identifiers():
    huge = 900_000_000
    values = {
        "int": 5, "bool": True, "str": "text " * 1000, "float": 1.5, "Contact": PEER, "plan": PLAN,
        "query": dataclasses.replace(QUERY, constants=("<" + "x" * 9999 + ">", "<urn:in>")),
        "Groups": GROUPS, "Rows": ROWS, "message": m.GroupsGone([1] * 9999), "Contacts": (PEER,) * 99,
        "order": tuple(range(99)), "strings": ("name",) * 99,
    }  # fmt: skip
    columns = {"terms": [huge] * 99, "term_columns": ([huge] * 99,), "u64": [3] * 99, "u32": [3] * 99}
    columns["u64_columns"] = ([3] * 99,)
    for kind in (each for each in NUMBERS if issubclass(each, m.IN_FRAMES)):
        parts = [(columns | values)[field.form] for field in DECLARED[kind].values()]
        line = describe(kind(*parts))
        assert kind is m.Envelope or line.startswith(kind.__name__)
        assert len(line) <= LINE_CHARACTERS_MAX + 50
        assert "\n" not in line
        assert str(huge) not in line


def test_a_plan_of_any_length_leaves_the_line_bounded():
    long = dataclasses.replace(QUERY, patterns=tuple((n, -1, n + 1) for n in range(250)), filters=(), answer=())
    plan = make_plan(long, range(250), Algorithm.CQC)
    assert describe_plan(plan).startswith("cqc ?0 c0 ?1 . ?1 c0 ?2")
    assert len(describe(m.IndexQuery(plan, 0, GROUPS))) == LINE_CHARACTERS_MAX
