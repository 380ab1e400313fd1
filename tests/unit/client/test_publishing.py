"""Sources of statements, as they are cut into chunks, and the graph of each statement."""

from __future__ import annotations

import asyncio
import itertools
import random
from pathlib import Path

import numpy as np
import pytest
from scripted_nodes import ScriptedNode, nodes

import p2prdf
from p2prdf.client import TermColumns
from p2prdf.client.pieces import FRAME_CHARACTERS, pieces_of, statements_of
from p2prdf.columns import as_list
from p2prdf.errors import DataRefused, LocalProtocolError
from p2prdf.rdf.ntriples import TripleBatch
from p2prdf.rdf.quads import DEFAULT
from p2prdf.wire import messages

A, P, G, H = "<urn:a>", "<urn:p>", "<urn:g>", "<urn:h>"


def pieces(source, *, graph="", batch_triples=1000):
    """Return the rows of each piece, and the statements of the file that are done with it."""

    async def cut():
        return [(spelled(piece), piece.statements) async for piece in pieces_of(source, batch_triples, graph)]

    return asyncio.run(cut())


def spelled(piece):
    """Return the rows of a piece as its frame has them."""
    terms, *columns, graph = piece.numbered()
    assert len(terms) == len(set(itertools.chain(*map(as_list, columns), *map(as_list, graph))))
    texts = [terms.texts(as_list(column)) for column in columns]
    graphs = terms.texts(as_list(graph[0])) if graph else ["none"] * len(piece)
    return list(zip(*texts, graphs, strict=True))


def columns(rows, *, removed=False):
    """Return statements as columns of numbers."""
    texts = list(dict.fromkeys(itertools.chain(*rows)))
    s, p, o, *g = (np.array([texts.index(term) for term in column], np.uint32) for column in zip(*rows, strict=True))
    return TermColumns(texts, s, p, o, g[0] if g else None, removed)


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
    long = f"<urn:{'g' * (FRAME_CHARACTERS // 3)}>"
    assert [len(rows) for rows, _ in pieces([(A, P, A, long)] * 7)] == [2, 2, 2, 1]
    batch = TripleBatch([A] * 7, [P] * 7, [A] * 7, 7, 7, [long] * 7)
    assert [len(rows) for rows, _ in pieces([batch])] == [2, 2, 2, 1]


@pytest.mark.parametrize("seed", range(20))
def test_columns_of_numbers_are_cut_as_their_statements_are(seed):
    rng = random.Random(seed)
    rows = [
        (f"<urn:{rng.randrange(9)}>", P, f'"{rng.randrange(9)}"', rng.choice(["", G, H]))[: 3 + seed % 2]
        for _ in range(rng.randrange(1, 40))
    ]
    for graph in ("", H, "<urn:other>"):
        cut = pieces([columns(rows)], graph=graph, batch_triples=rng.randrange(1, 50))
        wanted = [(*row[:3], (row[3] if seed % 2 else "") or graph or ("" if seed % 2 else "none")) for row in rows]
        assert [row for found, _ in cut for row in found] == wanted


def test_columns_of_numbers_are_cut_by_their_text_too():
    long = "x" * (FRAME_CHARACTERS // 3)
    rows = [(A, P, f'"{n}{long}"') for n in range(7)]
    cut = [found for found, _ in pieces([columns(rows)])]
    assert {*map(len, cut)} <= {1, 2}
    assert [row[:3] for found in cut for row in found] == rows
    assert [len(rows) for rows, _ in pieces([columns([(A, P, f'"{long * 4}"')])])] == [1]


def test_sources_of_several_kinds_stay_in_their_order():
    mixed = [(A, P, A), columns([(A, P, P)]), (P, P, A), TripleBatch([A], [P], [G], 1, 1)]
    assert [row[:3] for found, _ in pieces(mixed) for row in found] == [(A, P, A), (A, P, P), (P, P, A), (A, P, G)]


@pytest.mark.parametrize("wrong", [(A, P), (A, P, A, G, G), 5, (A, P, A, 5), (A, None, A)])
def test_a_bad_statement_is_refused(wrong):
    with pytest.raises(DataRefused, match=r"is neither a triple of terms, or one and a graph|None is no term"):
        pieces([(A, P, A), wrong])


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("<urn:a> <urn:p> <urn:b> .", "is a str, not statements: parse it"),
        (b"<urn:a> <urn:p> <urn:b> .", "is a bytes, not statements: parse it"),
        (Path("data.ttl"), "not statements: parse it"),
        ((A, P, A), "is one statement: put it into a list"),
        ((A, P, A, G), "is one statement: put it into a list"),
        (5, "5 is no iterable of statements"),
    ],
)
def test_an_object_that_is_no_source_is_refused_with_the_remedy(source, message):
    with pytest.raises(DataRefused, match=message):
        pieces(source)
    with pytest.raises(DataRefused, match=message):
        list(statements_of(source, DEFAULT))


async def test_graphs_are_sent_again_with_the_unacknowledged_triples():
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


async def test_additions_and_removals_wait_for_each_other_and_are_numbered_apart():
    """A piece refused as busy is sent again later than the pieces behind it."""
    order = []

    def busy_at_first(visit, message):
        order.append((message.removed, message.first_event))
        if len(order) == 1:
            visit.send(messages.ClientError(message.request, "busy", "not now", 0.01))
        else:
            visit.send(messages.ClientPublished(message.request, len(order)))

    node = ScriptedNode(on={messages.ClientPublish: busy_at_first})
    source = [
        columns([(A, P, A), (A, P, P)]), columns([(A, P, A)], removed=True), columns([(A, P, G)], removed=True),
        columns([(A, P, A)]),
    ]  # fmt: skip
    effort = p2prdf.client.Effort()
    async with asyncio.timeout(30), nodes(node), p2prdf.connect(node.address) as client:
        assert await client.publish(source, first_event=5, effort=effort) == 5
    assert order == [(False, 5), (False, 5), (True, 5), (True, 6), (False, 7)]
    assert (effort.frames, effort.repeated_triples) == (5, 2)
    assert effort.waiting_seconds > 0.01
    assert effort.packing_seconds > 0


async def test_by_content_nothing_is_numbered():
    node = ScriptedNode()
    async with asyncio.timeout(30), nodes(node), p2prdf.connect(node.address) as client:
        await client.publish([(A, P, A), (A, P, P)], batch_triples=1, by_content=True, publisher=3)
        with pytest.raises(LocalProtocolError, match="exclude each other"):
            await client.publish([(A, P, A)], by_content=True, first_event=1)
    (visit,) = node.visits
    heard = visit.of(messages.ClientPublish)
    assert [(m.publisher, m.first_event, m.by_content) for m in heard] == [(3, 0, True)] * 2


async def test_a_client_reports_the_other_nodes_that_it_knows_of():
    one, two = ScriptedNode(), ScriptedNode()
    async with nodes(two):
        one.others = (two,)
        async with nodes(one), p2prdf.connect(one.address) as client:
            assert client.others == [two.address]


@pytest.mark.parametrize("as_columns", [True, False])
async def test_refused_statements_are_reported_and_their_neighbours_are_published(as_columns):
    kept = []

    def choosy(visit, message):
        terms = visit.terms[message.request]
        rows = list(zip(*(terms.texts(column) for column in (message.s, message.p, message.o)), strict=True))
        if any("bad" in row[2] for row in rows):
            visit.send(messages.ClientError(message.request, "data-refused", "it is bad"))
        else:
            kept.extend(zip(rows, range(message.first_event, message.first_event + len(rows)), strict=True))
            visit.send(messages.ClientPublished(message.request, 1))

    node, refused = ScriptedNode(on={messages.ClientPublish: choosy}), []
    rows = [(A, P, f'"{"bad" if n in (3, 4, 30) else ""}{n}"') for n in range(40)]
    source = [columns(rows)] if as_columns else rows
    async with asyncio.timeout(30), nodes(node), p2prdf.connect(node.address) as client:
        done = await client.publish(source, batch_triples=10, on_refused=lambda *told: refused.append(told))
        with pytest.raises(DataRefused, match="it is bad"):
            await client.publish(source)
    good = [(row, n) for n, row in enumerate(rows) if n not in (3, 4, 30)]
    assert sorted(kept, key=lambda each: each[1]) == good
    assert done == len(good)
    assert [row for row, _ in refused] == [(*rows[n], "") for n in (3, 4, 30)]
    assert str(refused[0][1]) == "it is bad"


@pytest.mark.parametrize("bad", ["<rel>", "<//x>", '"x"^^<rel>', "<urn:a b>", "_:b", '"\ud800"'], ids=ascii)
async def test_a_term_that_is_no_rdf_is_refused_before_anything_is_sent(bad):
    """Once it was acknowledged, and no CONSTRUCT with it could be written; a lone surrogate cost the connection."""
    node = ScriptedNode()
    async with asyncio.timeout(30), nodes(node), p2prdf.connect(node.address) as client:
        for source in ([(A, P, bad)], [columns([(A, P, bad), (A, P, A)])], [TripleBatch([A], [P], [bad], 1, 1)]):
            with pytest.raises(DataRefused, match="write an absolute IRI in <>"):
                await client.publish(source)
        await client.publish([(A, P, A)])
    (visit,) = node.visits
    assert len(visit.of(messages.ClientPublish)) == 1
