"""Terms of other libraries and values of Python, published and given out by a client."""

from __future__ import annotations

import asyncio

import pyoxigraph as ox
import pytest
import rdflib
from scripted_nodes import ScriptedNode, nodes

import p2prdf
from p2prdf.client import Result, Solution
from p2prdf.columns import as_list
from p2prdf.errors import DataRefused
from p2prdf.wire import messages

DEADLINE_SECONDS = 30


@pytest.mark.parametrize("through", ["publish", "stream"])
async def test_terms_of_other_libraries_and_values_of_python_are_published(through):
    node = ScriptedNode()
    rows = [(rdflib.URIRef("urn:a"), ox.NamedNode("urn:p"), 3), ("<urn:a>", "<urn:p>", rdflib.Literal("x", lang="en"))]
    async with asyncio.timeout(DEADLINE_SECONDS), nodes(node), p2prdf.connect(node.address) as client:
        if through == "stream":
            await client.stream("urn:stream").publish(rows, time=1)
        else:
            await client.publish([*rows, ox.Quad(*map(ox.NamedNode, ("urn:a", "urn:p", "urn:b")))])
            await client.publish([(*rows[0], rdflib.Graph(identifier="urn:g")), (*rows[0], None)])
            with pytest.raises(DataRefused, match="is no term"):
                await client.publish([(*rows[0][:2], None)])
        visit = node.visits[0]
        sent = visit.of(messages.ClientPublish)
        texts = [visit.terms[sent[0].request].texts(as_list(column)) for column in (sent[0].s, sent[0].p, sent[0].o)]
        assert [row[:2] for row in texts[:2]] == [["<urn:a>"] * 2, ["<urn:p>"] * 2]
        assert texts[2][:2] == ['"3"^^<http://www.w3.org/2001/XMLSchema#integer>', '"x"@en']
        if through == "publish":
            graphs = visit.terms[sent[1].request].texts(as_list(sent[1].graph[0]))
            assert graphs == ["<urn:g>", ""]


def test_solutions_and_results_give_values_of_python_and_terms_of_pyoxigraph():
    row = ("<urn:a>", '"3"^^<http://www.w3.org/2001/XMLSchema#integer>', '"x"@en', None)
    solution = Solution(("who", "goals", "name", "nothing"), row, sequence=1, identity=1, born=0.0, lost=0)
    (found,) = Result(("who", "goals", "name", "nothing"), [row], 0.0)
    for each in (solution, found):
        assert [each.value(name) for name in ("who", "goals", "name", "nothing")] == ["urn:a", 3, "x", None]
        assert each.term("who") == ox.NamedNode("urn:a")
        assert each.term("goals") == ox.Literal(3)
        assert each.term("name") == ox.Literal("x", language="en")
        assert each.term("nothing") is None
        assert rdflib.util.from_n3(each["goals"]) == rdflib.Literal(3)
        assert dict(each) == {"who": row[0], "goals": row[1], "name": row[2]}
        assert each.terms == row
        for read in (each.value, each.term, each.__getitem__):
            with pytest.raises(KeyError, match="other"):
                read("other")
