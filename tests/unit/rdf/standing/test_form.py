"""A query as bytes: round trips, and no other bytes are taken for a query."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from algebra.queries import QueryWriter, for_us

from p2prdf.errors import QueryRefused, RemoteProtocolError
from p2prdf.rdf.standing.form import FORM_BYTES_MAX, decode, encode
from p2prdf.rdf.standing.query import parse_query

WHOLE = """PREFIX : <x:>
SELECT ?s (GROUP_CONCAT(DISTINCT ?t; SEPARATOR="|") AS ?n) (COUNT(*) AS ?m) {
  ?s :p ?o FILTER(?o > 1) OPTIONAL { ?s :q ?z FILTER(?z > ?o) } MINUS { ?s :r ?z }
  FILTER(?o = 2 || EXISTS { ?o :p ?w FILTER(?w = ?z) }) BIND(STR(?o) AS ?t) ?s (:p|:q)* ?v
  { ?s :a 1 } UNION { ?s :b "x"@en } { SELECT ?s { ?s :p ?i } ORDER BY DESC(?i) LIMIT 3 OFFSET 1 }
  VALUES (?s) { (:a) (UNDEF) }
} GROUP BY ?s HAVING(COUNT(*) > 1)"""


def test_forms_come_back_as_they_were() -> None:
    rng = random.Random(5)
    texts = [WHOLE, "CONSTRUCT { ?s <x:p> [ <x:q> 1 ] } { ?s ?p ?o }", "ASK {}"]
    texts += [for_us(QueryWriter(rng).query()) for _ in range(60)]
    for text in texts:
        try:
            query = parse_query(text)
        except QueryRefused:
            continue
        assert decode(encode(query)) == query


def test_names_travel_though_they_do_not_matter() -> None:
    assert decode(encode(parse_query("SELECT ?a { ?a ?b ?c }"))).names == ("a",)


def _spoiled(value: Any, rng: random.Random) -> Any:
    """Change one thing somewhere."""
    if isinstance(value, list) and value and rng.random() < 0.9:
        at = rng.randrange(len(value))
        if rng.random() < 0.15:
            return value[:at] + value[at + 1 :]
        if rng.random() < 0.15:
            return [*value[:at], value[at], *value[at:]]
        return [*value[:at], _spoiled(value[at], rng), *value[at + 1 :]]
    strange = [-1, 0, 1, 2, 7, 10**30, 1.0, True, None, "", "x", "?v0", "<x:y>", '"a"@EN', [], {}, "union", "\ud800"]
    return rng.choice(strange)


def test_a_changed_form_is_refused_or_is_another_query_in_its_own_form() -> None:
    rng = random.Random(6)
    whole = json.loads(encode(parse_query(WHOLE)))
    taken = 0
    for _ in range(3000):
        text = json.dumps(_spoiled(whole, rng), ensure_ascii=False, separators=(",", ":"))
        data = text.encode("utf-8", "surrogatepass")
        try:
            query = decode(data)
        except RemoteProtocolError:
            continue
        taken += 1
        assert encode(query) == data
    assert 0 < taken < 600  # other constants, other numbers: queries as good as the first


@pytest.mark.parametrize(
    "data",
    [
        b"", b"null", b"[]", b"[1]", b'[1,"ask",[]]', b'[2,"ask",[],["table",0,[[]]]]', b"\xff", b"[" * 100_000,
        b'[1,"ask",[], ["table",0,[[]]]]', b'[1,"tell",[],["table",0,[[]]]]', b'[1,"ask",["x"],["table",0,[[]]]]',
        b'[1,"ask",[],["table",0,[[]]],["table",0,[[]]]]', b'[1,"ask",[],["union",[0]]]',
        b'[1,"ask",[],["distinct",0]]',
        b'[1,"ask",[],["leaf",[],[],[],[]]]', b'[1,"ask",[],["leaf",[[0,1,3]],[],[],[]]]',
        b'[1,"ask",[],["leaf",[[0,-1,1]],["x:p"],[],[]]]', b'[1,"select",["a"],["leaf",[[0,1,2]],[],[3],[]]]',
        b'[1,"ask",[],["leaf",[[0,1,2]],[],[],[["?v0 +",[0]]]]]',
        b'[1,"ask",[],["leaf",[[0,1,2]],[],[],[["NOW()",[]]]]]',
        b'[1,"ask",[],["table",0,[[]]],["slice",0,[],0,null]]', b'[1,"ask",[],["table",0,[[]]],["slice",0,[],0,-1]]',
        b'[1,"select",["a","b"],["leaf",[[0,1,2]],[],[0,1],[]],["closure",0,null,false,true]]',
        b'[1,"select",["a","a"],["leaf",[[0,1,2]],[],[0,1],[]]]', b'[1,"ask",[],["table",0,[["\\"x\\""]]]]',
        b" " * (FORM_BYTES_MAX + 1),
    ],
    ids=lambda data: data[:60].decode("latin-1"),
)  # fmt: skip
def test_bytes_that_are_no_query_are_refused(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        decode(data)
