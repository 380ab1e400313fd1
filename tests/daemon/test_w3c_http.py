"""W3C's tests of the SPARQL Protocol, against a gateway with a node of its own.

The tests lie beside the repository; without them these tests are skipped.
"""

from __future__ import annotations

import pytest
from gateways import gateway
from w3c_http import ARCHIVE, failure, read_manifest

import p2prdf

pytestmark = pytest.mark.skipif(not ARCHIVE.exists(), reason=f"W3C's test suites are not at {ARCHIVE}")

PROTOCOL = "sparql/sparql11/protocol"
REFUSED = {
    "query_content_type_describe": "DESCRIBE",
}
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
