"""Writes of the Graph Store Protocol are published like SPARQL updates: one change set, deletions first."""

from __future__ import annotations

import json

import pytest
from held_graphs import HeldGraphs

from p2prdf.client import transaction
from p2prdf.gateway import graph_store
from p2prdf.rdf.quads import DEFAULT
from p2prdf.rdf.update_operations import in_graph

OLD, KEPT, NEW = (("<urn:a>", "<urn:p>", f'"{value}"') for value in ("old", "kept", "new"))


@pytest.mark.parametrize("statements_max", [16_384, 1], ids=["one transaction", "in parts"])
@pytest.mark.parametrize("graph", [DEFAULT, "<urn:g>"])
async def test_a_replaced_graph_is_one_publication_with_its_deletions_first(graph, statements_max, monkeypatch):
    monkeypatch.setattr(transaction, "TRANSACTION_STATEMENTS_MAX", statements_max)
    client = HeldGraphs(in_graph(each, graph) for each in (OLD, KEPT))
    answer = await graph_store._change(client, graph, dict.fromkeys((NEW, KEPT)), [OLD, KEPT])
    assert client.publications == [[(True, in_graph(OLD, graph)), (False, in_graph(NEW, graph))]]
    assert json.loads(answer.text) == {"added": 1, "deleted": 1}


async def test_an_update_with_the_same_changes_publishes_the_same():
    client = HeldGraphs([(*OLD, "<urn:g>")])
    await client.update('INSERT DATA { GRAPH <urn:g> { <urn:a> <urn:p> "new" } } ; '
                        'DELETE DATA { GRAPH <urn:g> { <urn:a> <urn:p> "old" } }')  # fmt: skip
    assert client.publications == [[(True, (*OLD, "<urn:g>")), (False, (*NEW, "<urn:g>"))]]


async def test_a_patch_is_published_with_its_deletions_first():
    patch = "TX . A {2} . D {0} . A {1} . D {1} . TC .".format(*map(" ".join, (OLD, KEPT, NEW)))
    client = HeldGraphs([(*OLD, "<urn:g>")])
    await graph_store._published(client, "<urn:g>", graph_store._patched(patch.encode(), "<urn:g>"))
    [published] = client.publications
    assert sorted(published, reverse=True) == sorted(
        [(True, (*OLD, "<urn:g>")), (True, (*KEPT, "<urn:g>")), (False, (*NEW, "<urn:g>"))], reverse=True
    )
    assert [removed for removed, _ in published] == [True, True, False]


async def test_an_unchanged_graph_is_not_published():
    client = HeldGraphs([KEPT])
    await graph_store._change(client, DEFAULT, dict.fromkeys([KEPT]), [KEPT])
    assert client.publications == []
