"""Real texts through five real nodes: subscriptions, earlier data, and queries asked once.

Expected are the subjects that another program found. For conditions that its queries lack, expected are the
subjects of the literals for which this package's evaluation holds, tested literal by literal.
"""

from __future__ import annotations

import asyncio
import random

import pytest
from text_data import needs_texts, publications, real_queries

import p2prdf
from p2prdf.rdf.fulltext import condition_holds, parse_condition, text_of

NAMESPACE = "<urn:texts:"
"""Of all names here, as the overlay is shared."""
TITLE, BODY, PART = (f"{NAMESPACE}{each}>" for each in (
    "purl.org/dc/terms/title", "schema.org/articleBody", "purl.org/dc/terms/isPartOf"
))  # fmt: skip
SUBJECTS, QUERIES = 120, 14
SECONDS = 120.0

pytestmark = needs_texts

OWN = [
    (BODY, '"histor*" ftAND ftNOT "war*"'), (BODY, '"*ism" ftNEAR[0,4,unordered] "*ist"'), (BODY, '"of the"', "en"),
    (TITLE, 'ftNOT "*a*"', "en"), (TITLE, '"e*y" ftOR "history"', "de"), (BODY, '"the" ftNEAR[0,0] "united states"'),
]  # fmt: skip
"""Conditions that the data's own queries lack: masks, languages, nearness in any order; predicate, expression, range.
"""


def here(text: str) -> str:
    """Return a term, or the text of a query, with its names in a namespace of their own."""
    return text.replace("<http://", NAMESPACE) if not text.startswith('"') else text


def holding(triples, predicate: str, condition: str) -> set[str]:
    """Return the subjects of which a condition holds, by the evaluation of each literal."""
    parsed = parse_condition(condition)
    return {s for s, p, o in triples if p == predicate and condition_holds(parsed, text_of(o))}


@pytest.fixture(scope="module")
def texts():
    """Triples of some articles and sections, and queries as SPARQL with the subjects that they are to find."""
    every = publications("wikipedia")
    chosen = random.Random(4).sample(sorted(every), SUBJECTS)
    triples = [tuple(map(here, each)) for subject in chosen for each in every[subject]]
    asked = []
    for query, answers in real_queries("wikipedia"):
        patterns = []
        for each in query.patterns:
            patterns.append(f"{each.s} {each.p} {each.o} .")
            if each.condition is not None:
                patterns.append(f"FILTER ftcontains({each.o}, {each.condition})")
        asked.append((here(f"SELECT ?s {{ {' '.join(patterns)} }}"), set(map(here, answers.intersection(chosen)))))
    asked = [each for each in asked if 0 < len(each[1]) <= SUBJECTS // 2]
    asked = random.Random(4).sample(asked, QUERIES)
    for predicate, expression, *language in OWN:
        condition = ", ".join((expression, *(f'"{each}"' for each in language)))
        calls = {f"ftcontains(?o, {condition})": condition, f"(?o ftcontains {expression})": expression}
        for call, whole in calls.items():
            asked.append((f"SELECT ?s {{ ?s {predicate} ?o FILTER {call} }}", holding(triples, predicate, whole)))
    parts = f'SELECT ?s {{ ?s {PART} ?whole . ?whole {TITLE} ?t FILTER ftcontains(?t, "a*") }}'
    titled = holding(triples, TITLE, '"a*"')
    asked.append((parts, {s for s, p, o in triples if p == PART and o in titled}))
    assert sum(len(found) for _, found in asked) > 300
    return triples, asked


async def hold(subscription, wanted):
    """Take changes until exactly the wanted subjects are held."""
    held = {}
    while {terms[0] for terms in held.values()} != wanted:
        solution = await anext(subscription)
        if solution.removed:
            del held[solution.identity]
        else:
            assert solution.identity not in held
            held[solution.identity] = solution.terms
    return held


async def test_real_texts_find_the_queries_that_they_satisfy(keeping_all, texts):
    """Matches of subscriptions made before and halfway, and of queries asked once; matches of removed texts leave."""
    triples, asked = texts
    clients = [await p2prdf.connect(node.address) for node in keeping_all]
    try:
        async with asyncio.timeout(SECONDS):
            standing = [
                await clients[at % 5].subscribe(query, since="now" if at % 2 else "beginning")
                for at, (query, _) in enumerate(asked)
            ]
            for client in clients:
                assert (await client.status())["peer"]["keywords"] > 0, "those that count from now on wait by words"
            half = len(triples) // 2
            await asyncio.gather(*(client.publish(triples[at:half:5]) for at, client in enumerate(clients)))
            late = [await clients[1].subscribe(query, since="beginning") for query, _ in asked]
            await asyncio.gather(*(client.publish(triples[half + at :: 5]) for at, client in enumerate(clients)))
            for client, sign in zip(clients, range(5), strict=True):
                results = await asyncio.gather(*(client.query(query) for query, _ in asked[sign::5]))
                for (query, found), result in zip(asked[sign::5], results, strict=True):
                    assert {row[0] for row in result.rows} == found, query
            for subscriptions in (standing, late):
                held = [await hold(each, found) for each, (_, found) in zip(subscriptions, asked, strict=True)]
                assert sum(map(len, held)) >= sum(len(found) for _, found in asked)
            bodies = [each for each in triples if each[1] == BODY]
            await clients[2].retract(bodies)
            gone = next(at for at, (query, found) in enumerate(asked) if BODY in query and found)
            while held[gone]:
                solution = await anext(late[gone])
                assert solution.removed
                del held[gone][solution.identity]
            assert not (await clients[1].query(asked[gone][0])).rows
            await asyncio.gather(*(each.unsubscribe() for each in (*standing, *late)))
    finally:
        for client in clients:
            await client.close()
