"""Nodes with default settings, as a new user starts them: everything published is there for every query."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

from commands import command

import p2prdf

DATA = """\
<urn:a> <urn:p> <urn:b> .
<urn:b> <urn:q> "4" .
<urn:c> <urn:p> <urn:d> <urn:g> .
"""
DEFAULT = [("<urn:a>", "<urn:p>", "<urn:b>"), ("<urn:b>", "<urn:q>", '"4"')]
QUERIES = [
    ("SELECT * { ?s ?p ?o }", ("s", "p", "o"), DEFAULT),
    ("SELECT ?s { ?s <urn:p> ?o }", ("s",), [("<urn:a>",)]),
    ("SELECT ?o { <urn:b> ?p ?o }", ("o",), [('"4"',)]),
    ("SELECT ?g ?s { GRAPH ?g { ?s ?p ?o } }", ("g", "s"), [("<urn:g>", "<urn:c>")]),
    ("SELECT ?g ?o { GRAPH ?g { ?s <urn:p> ?o } }", ("g", "o"), [("<urn:g>", "<urn:d>")]),
]


def test_plain_nodes_answer_every_query_over_everything_published(launcher, tmp_path):
    nodes = launcher.overlay(2)
    file = tmp_path / "data.nq"
    file.write_text(DATA)
    code, _, err = command("publish", str(file), "--peer", nodes[1].address)
    assert code == 0, err
    asyncio.run(_ask(nodes[0].address))


async def _ask(address):
    async with asyncio.timeout(120), p2prdf.connect(address) as client:
        for text, names, expected in QUERIES:
            asked = await client.query(text)
            at = [asked.names.index(name) for name in names]
            assert sorted(tuple(row[each] for each in at) for row in asked.rows) == expected, text
            subscription = await client.subscribe(text, since="beginning")
            rows = []
            async for batch in subscription.batches():
                place = [subscription.names.index(name) for name in names]
                rows += zip(*(batch.columns[each] for each in place), strict=True)
                if len(rows) >= len(expected):
                    break
            assert sorted(rows) == expected, text


def _children(process: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def _parser_of(node) -> int | None:
    """Return the process of a node's SPARQL parser: the child of its fork server."""
    for server in _children(node.process.pid):
        if Path(f"/proc/{server}/comm").read_text() == "p2prdf-parser\n":
            return next(iter(_children(server)), None)
    return None


async def test_the_parser_is_started_again_after_it_died(launcher, until):
    node = await asyncio.to_thread(launcher.start)

    async def another():
        now = _parser_of(node)
        return now is not None and now != first

    async with p2prdf.connect(node.address) as client:
        assert not await client.query("ASK { ?s ?p ?o }")
        first = _parser_of(node)
        assert first is not None
        os.kill(first, signal.SIGKILL)
        await until(another, seconds=30)
        assert not await client.query("ASK { ?s ?p ?o }")
