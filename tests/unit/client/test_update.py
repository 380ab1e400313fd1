"""The calls that an update makes a client do, and their order."""

from __future__ import annotations

import itertools

import pytest

from p2prdf.client import Result
from p2prdf.client.update import Updated, carry_out
from p2prdf.errors import QueryRefused, Unavailable

A, P, B = "<urn:a>", "<urn:p>", "<urn:b>"


class Recorder:
    """A client that records its calls, and answers each query with the same rows."""

    def __init__(self, rows=()):
        self.done = []
        self._rows = list(rows)

    async def publish(self, triples):
        return self._note("publish", triples)

    async def retract(self, triples):
        return self._note("retract", triples)

    async def query(self, query, *, timeout_seconds):
        self.done.append(("query", query, timeout_seconds))
        return Result((), self._rows, 0.0)

    def _note(self, what, triples):
        found = list(triples)
        if found:
            self.done.append((what, found))
        return len(found)


async def carried_out(text, rows=()):
    """Return the recorded calls, and the reported numbers."""
    client = Recorder(rows)
    return client.done, await carry_out(client, text, timeout_seconds=5.0)


async def test_operations_are_done_in_order():
    text = (
        "PREFIX : <urn:> INSERT DATA { :a :p :b, :a } ; DELETE DATA { :a :p :b } ;"
        " DELETE WHERE { ?s :p ?o . ?o :q ?s } ; INSERT DATA { :a :p 1 }"
    )
    rows = [(A, B), (B, A), (A, B)]
    done, updated = await carried_out(text, rows)
    assert done == [
        ("publish", [(A, P, B), (A, P, A)]),
        ("retract", [(A, P, B)]),
        ("query", "SELECT ?s ?o WHERE { ?s <urn:p> ?o . ?o <urn:q> ?s . }", 5.0),
        ("retract", [(A, P, B), (B, "<urn:q>", A), (B, P, A), (A, "<urn:q>", B)]),
        ("publish", [(A, P, '"1"^^<http://www.w3.org/2001/XMLSchema#integer>')]),
    ]
    assert updated == Updated(inserted=3, deleted=5)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("INSERT DATA { }", []),
        ("DELETE DATA { }", []),
        ("DELETE WHERE { }", []),
        ("DELETE WHERE { 'no subject' ?p ?o }", []),
        ("DELETE WHERE { 'no subject' <urn:p> <urn:b> }", []),
        ("DELETE WHERE { <urn:a> <urn:p> <urn:b> }", [("retract", [(A, P, B)])]),
    ],
)
async def test_an_update_with_known_triples_asks_nobody(text, expected):
    done, updated = await carried_out(text)
    assert done == expected
    assert updated == Updated(0, len(expected))


@pytest.mark.parametrize(("rows", "removed"), [([()], 2), ([], 0)])
async def test_several_triples_are_removed_only_if_all_are_there(rows, removed):
    """Without variables, too, a DELETE WHERE removes nothing unless its whole pattern is found."""
    done, updated = await carried_out("DELETE WHERE { <urn:a> <urn:p> <urn:b> . <urn:b> <urn:p> <urn:a> }", rows)
    assert done[0] == ("query", "SELECT * WHERE { <urn:a> <urn:p> <urn:b> . <urn:b> <urn:p> <urn:a> . }", 5.0)
    assert done[1:] == ([("retract", [(A, P, B), (B, P, A)])] if removed else [])
    assert updated == Updated(0, removed)


async def test_blank_nodes_are_new_ones_each_time():
    text = "INSERT DATA { _:x <urn:p> _:y . _:y <urn:p> [] }"
    nodes = []
    for _ in range(2):
        ((_, triples),), _ = await carried_out(text)
        assert triples[0][2] == triples[1][0]
        nodes += {term for s, _, o in triples for term in (s, o)}
    assert len(set(nodes)) == 6
    assert all(node.startswith("<urn:bnode:") for node in nodes)


@pytest.mark.parametrize(
    ("operation", "complaint"),
    [
        ("LOAD <urn:file>", "LOAD: .* at line 2, column 1$"),
        (f"DELETE WHERE {{ ?s {'; '.join(f'<urn:{n}> ?o{n}' for n in range(17))} }}", "DELETE WHERE: 17 .* than 16$"),
    ],
)
async def test_a_text_that_is_refused_does_nothing(operation, complaint):
    client = Recorder()
    with pytest.raises(QueryRefused, match=complaint):
        await carry_out(client, f"INSERT DATA {{ <urn:a> <urn:p> <urn:b> }} ;\n{operation}", timeout_seconds=5.0)
    assert client.done == []


async def test_after_a_failure_nothing_more_is_done():
    class Failing(Recorder):
        async def retract(self, triples):
            raise Unavailable("gone")

    client = Failing()
    data = "DATA { <urn:a> <urn:p> <urn:b> }"
    with pytest.raises(Unavailable):
        await carry_out(client, " ; ".join((f"INSERT {data}", f"DELETE {data}", f"INSERT {data}")), timeout_seconds=5.0)
    assert client.done == [("publish", [(A, P, B)])]


async def test_solutions_that_share_a_triple_remove_it_once():
    rows = [(A, f"<urn:{left}>", f"<urn:{right}>") for left, right in itertools.product(range(3), repeat=2)]
    _, updated = await carried_out("DELETE WHERE { ?s <urn:p> ?x ; <urn:q> ?y }", rows)
    assert updated == Updated(0, 6)
