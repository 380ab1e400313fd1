"""W3C's tests of the SPARQL Protocol and of the Graph Store Protocol, against a gateway with a node of its own.

The tests lie beside the repository; without them these tests are skipped.
"""

from __future__ import annotations

import pytest
from gateways import gateway
from w3c_http import ARCHIVE, failure, read_manifest

import p2prdf

pytestmark = pytest.mark.skipif(not ARCHIVE.exists(), reason=f"W3C's test suites are not at {ARCHIVE}")

PROTOCOL = "sparql/sparql11/protocol"
GRAPH_STORE = "sparql/sparql11/graph-store-protocol"
REFUSED: dict[str, str] = {}
"""Name of a test to the construct or parameter that the refusal names.  The table is exact."""


async def test_protocol_tests_pass_or_are_refused_by_name(launcher):
    node = launcher.start(replicas=1, copies_min=1)
    wrong, refused = {}, {}
    tests = read_manifest(PROTOCOL, "manifest.ttl")
    async with gateway(node.address) as (session, _), p2prdf.connect(node.address) as client:
        for test in tests:
            for graph, lines in test.data:
                triples = [line.rstrip(" .").split(" ", 2) for line in lines.splitlines()]
                await client.publish([tuple(each) for each in triples], graph=f"<{graph}>")
            found = await failure(session, test, "/sparql/", "/sparql")
            expected = REFUSED.get(test.name)
            if expected and f'"construct": "{expected}"' in found:
                refused[test.name] = expected
            elif found:
                wrong[test.name] = found
    print(f"{len(tests)} tests: {len(tests) - len(refused) - len(wrong)} right, {len(refused)} refused by name, "
          f"{len(wrong)} wrong")
    assert not wrong
    assert refused == REFUSED
    assert len(tests) == 34


async def test_all_tests_of_the_graph_store_protocol_pass(launcher):
    """Each test begins with an empty store, as the tests use the same graphs."""
    node = launcher.start(replicas=1, copies_min=1)
    tests = [test for name in ("direct", "indirect") for test in read_manifest(GRAPH_STORE, f"manifest-{name}.ttl")]
    wrong = {}
    async with gateway(node.address) as (session, _), p2prdf.connect(node.address) as client:
        for test in tests:
            found = await failure(session, test, "/gsp", "/graphs")
            if found:
                wrong[test.name] = found
            rows = (await client.query("SELECT ?s ?p ?o ?g { GRAPH ?g { ?s ?p ?o } }")).rows
            await client.retract(rows)
            await client.retract((await client.query("SELECT ?s ?p ?o { ?s ?p ?o }")).rows)
    print(f"{len(tests)} tests: {len(tests) - len(wrong)} right, {len(wrong)} wrong")
    assert wrong == {}
    assert len(tests) == 13
