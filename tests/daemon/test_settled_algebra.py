"""Settled delivery of random queries of the whole algebra: at each mark the answer of another engine."""

from __future__ import annotations

import asyncio

import pytest
from settled_algebra import Followed, played

import p2prdf
from p2prdf.reasoning import Atom, Rule

PAR, ANC, TEXT = "<urn:par>", "<urn:anc>", "<urn:text>"
RULES = (
    Rule(Atom("?a", ANC, "?b"), (Atom("?a", PAR, "?b"),)),
    Rule(Atom("?a", ANC, "?c"), (Atom("?a", PAR, "?b"), Atom("?b", ANC, "?c"))),
)
QUERIES = (
    (f'SELECT ?s ?t {{ ?s {TEXT} ?t FILTER(CONTAINS(?t, "house")) }}', ()),
    (f'SELECT ?s ?t {{ ?s {TEXT} ?t FILTER(REGEX(?t, "hou.e", "i")) OPTIONAL {{ ?s {PAR} ?z }} }}', ()),
    (f"SELECT ?a ?b {{ ?a ({PAR}|^{PAR})+ ?b FILTER NOT EXISTS {{ ?a {PAR} ?b }} }}", ()),
    (f"SELECT (COUNT(*) AS ?n) {{ ?a {PAR}* ?b }}", ()),
    (f"SELECT ?a ?b {{ ?a !{TEXT} ?b }}", ()),
    (f"SELECT ?a ?c {{ ?a {ANC} ?c FILTER NOT EXISTS {{ ?a {PAR} ?c }} }}", RULES),
)


@pytest.mark.parametrize("seed", range(3))
async def test_random_queries_have_the_answers_of_another_engine_at_their_marks(launcher, seed):
    node = launcher.start()
    async with asyncio.timeout(150), p2prdf.connect(node.address) as client:
        differ, compared = await played(client, seed, 40)
    assert not differ, "\n".join(differ)
    assert compared == 160


async def test_texts_paths_and_rules_have_the_answers_of_one_time_queries_at_their_marks(launcher):
    node = launcher.start(keyword_routing="on")
    async with asyncio.timeout(150), p2prdf.connect(node.address) as client:
        followed = [
            Followed(query, await client.subscribe(query, rules=rules, settled=True)) for query, rules in QUERIES
        ]
        async with client.transaction() as transaction:
            transaction.publish([("<urn:a>", PAR, "<urn:b>"), ("<urn:b>", PAR, "<urn:c>")])
            transaction.publish([("<urn:a>", TEXT, '"my house is big"'), ("<urn:b>", TEXT, '"a mouse"')])
        await asyncio.gather(*(each.until(transaction.stamp) for each in followed))
        async with client.transaction() as transaction:
            transaction.retract([("<urn:b>", PAR, "<urn:c>"), ("<urn:a>", TEXT, '"my house is big"')])
            transaction.publish([("<urn:b>", PAR, "<urn:d>"), ("<urn:b>", TEXT, '"House of house"')])
        for each, (query, rules) in zip(followed, QUERIES, strict=True):
            await each.until(transaction.stamp)
            expected = (await client.query(query, rules=rules)).rows
            assert sorted(each.held.values()) == sorted(expected), query
            assert expected
