"""Sources of statements, as they are cut into pieces: what belongs to which graph."""

from __future__ import annotations

import asyncio

import pytest
from scripted_nodes import ScriptedNode, nodes

import p2prdf
from p2prdf.client import publishing
from p2prdf.errors import DataRefused
from p2prdf.rdf.ntriples import TripleBatch
from p2prdf.wire import messages

A, P, G, H = "<urn:a>", "<urn:p>", "<urn:g>", "<urn:h>"


def pieces(source, *, graph="", batch_triples=1000):
    """Return the rows of each piece, and the statements of the file that are done with it."""

    async def cut():
        return [
            (list(zip(s, p, o, g or ["none"] * len(s), strict=True)), statements)
            async for s, p, o, g, statements in publishing._pieces(source, batch_triples, graph)
        ]

    return asyncio.run(cut())


def test_triples_name_no_graph_and_send_none():
    assert pieces([(A, P, A), (A, P, P)]) == [([(A, P, A, "none"), (A, P, P, "none")], 0)]
    assert pieces([(A, P, A, None), (A, P, P, "")]) == [([(A, P, A, "none"), (A, P, P, "none")], 0)]


def test_statements_may_name_graphs_and_the_rest_belongs_to_the_publications():
    source = [(A, P, A), (A, P, A, G), (A, P, A, None)]
    assert pieces(source) == [([(A, P, A, ""), (A, P, A, G), (A, P, A, "")], 0)]
    assert pieces(source, graph=H) == [([(A, P, A, H), (A, P, A, G), (A, P, A, H)], 0)]
    assert pieces(source, batch_triples=1) == [([(A, P, A, "none")], 0), ([(A, P, A, G)], 0), ([(A, P, A, "none")], 0)]


def test_batches_of_files_are_cut_with_their_graphs():
    plain = TripleBatch([A, P, A], [P] * 3, [A] * 3, 3, 3)
    named = TripleBatch([A, P, A], [P] * 3, [A] * 3, 6, 6, ["", G, ""])
    assert pieces([plain, named], batch_triples=2) == [
        ([(A, P, A, "none"), (P, P, A, "none")], 0), ([(A, P, A, "none")], 3),
        ([(A, P, A, ""), (P, P, A, G)], 0), ([(A, P, A, "none")], 6),
    ]  # fmt: skip
    assert pieces([plain, named], graph=H, batch_triples=2) == [
        ([(A, P, A, H), (P, P, A, H)], 0), ([(A, P, A, H)], 3), ([(A, P, A, H), (P, P, A, G)], 0), ([(A, P, A, H)], 6),
    ]  # fmt: skip


def test_a_piece_is_cut_by_the_text_of_its_graphs_too():
    long = f"<urn:{'g' * (publishing.FRAME_CHARACTERS // 3)}>"
    assert [len(rows) for rows, _ in pieces([(A, P, A, long)] * 7)] == [2, 2, 2, 1]
    batch = TripleBatch([A] * 7, [P] * 7, [A] * 7, 7, 7, [long] * 7)
    assert [len(rows) for rows, _ in pieces([batch])] == [2, 2, 2, 1]


@pytest.mark.parametrize("wrong", [(A, P), (A, P, A, G, G), 5, (A, P, A, 5), (A, None, A)])
def test_what_is_no_statement_is_refused(wrong):
    with pytest.raises(DataRefused, match="is neither a triple of terms, or one and a graph"):
        pieces([(A, P, A), wrong])


async def test_graphs_are_sent_again_with_what_was_not_acknowledged():
    def break_at_the_second(visit, message):
        if len(visit.of(messages.ClientPublish)) == 2:
            visit.abort()

    first, second = ScriptedNode(on={messages.ClientPublish: break_at_the_second}), ScriptedNode()
    async with (
        asyncio.timeout(30),
        nodes(first, second),
        p2prdf.connect(f"{first.address},{second.address}") as client,
    ):
        await client.publish([(A, P, A, G), (A, P, A)], batch_triples=1)
        await client.retract([(A, P, A)], graph=H)
    heard = [message for visit in second.visits for message in visit.of(messages.ClientPublish)]
    assert [(m.first_event, len(m.graph), m.removed) for m in heard if m.publisher == heard[0].publisher] == [
        (0, 1, False), (1, 0, False),
    ]  # fmt: skip
    assert [(len(m.graph), m.removed) for m in heard if m.publisher != heard[0].publisher] == [(1, True)]
