"""Full-text queries through seven peers with three copies: standing, over earlier data, and asked once.

Conditions are random, or made to provoke errors; answers are compared with the evaluation of each triple by
itself.
"""

from __future__ import annotations

import random
from collections import Counter
from itertools import product

import pytest
from reads.peers import Peers
from text_workloads import random_condition, random_literal

from p2prdf.rdf.fulltext import condition_holds, parse_condition, text_of

TITLE, BODY, PART = "<urn:title>", "<urn:body>", "<urn:part>"
CONDITIONS = (
    '"red" ftAND ftNOT "tea"', 'ftNOT "red tea"', '"tea*"', '"*pot", "en"', '"red" ftNEAR[0,2] "tea"',
    '"red" ftNEAR[0,1,unordered] "blue"', '"green tea" ftOR "rio"', '"p*t" ftAND "blue"', '"red"', 'ftNOT "*o*", "*"',
    '"potted" using stemming, "en"', '"the teas" using stop words using stemming ftOR "pot" ftNEAR[0,2] "blue", "en"',
    'ftSIMILAR[0.45] "red tea pot" using corpus[100, "red" 90, "tea" 40, "pot" 2]',
    'ftSIMILAR[0.63] "the potted teas" using stemming using stop words using corpus[9, "potted" 2], "en"',
)  # fmt: skip


def made(count: int, seed: int) -> list[tuple[str, str, str]]:
    """Return articles with a title and a body, or two, and the article that each is part of."""
    rng = random.Random(seed)
    triples = {}
    for number in range(count):
        subject = f"<urn:a{seed}-{number}>"
        triples[subject, TITLE, random_literal(rng)] = None
        for _ in range(rng.choice((1, 1, 2))):
            triples[subject, BODY, random_literal(rng)] = None
        triples[subject, PART, f"<urn:a{seed}-{rng.randrange(count)}>"] = None
    triples[f"<urn:a{seed}-0>", TITLE, '"5"^^<http://www.w3.org/2001/XMLSchema#integer>'] = None
    return list(triples)


def asked(title: str, body: str) -> str:
    """Articles with a condition on the body that are a part of one with a condition on the title."""
    return (
        f"SELECT ?x ?b ?t {{ ?x {BODY} ?b FILTER ftcontains(?b, {body}) "
        f"?x {PART} ?y . ?y {TITLE} ?t FILTER ftcontains(?t, {title}) }}"
    )


def alone(condition: str) -> str:
    return f"SELECT ?x ?b {{ ?x {BODY} ?b FILTER ftcontains(?b, {condition}) }}"


def holding(condition: str, o: str) -> bool:
    return condition_holds(parse_condition(condition), text_of(o))


def owed(triples, title: str | None, body: str) -> Counter:
    """Return the answers to one of the above, worked out triple by triple."""
    of = {p: [each for each in triples if each[1] == p] for p in (TITLE, BODY, PART)}
    bodies = [(x, b) for x, _, b in of[BODY] if holding(body, b)]
    if title is None:
        return Counter(bodies)
    return Counter(
        (x, b, t)
        for (x, b), (part, _, whole), (y, _, t) in product(bodies, of[PART], of[TITLE])
        if part == x and y == whole and holding(title, t)
    )


def queries(seed: int) -> list[tuple[str | None, str]]:
    rng = random.Random(seed)
    drawn = [str(random_condition(rng)) for _ in range(12)]
    pairs = [(rng.choice(CONDITIONS), rng.choice(drawn)) for _ in range(6)]
    return [*((None, each) for each in (*CONDITIONS, *drawn)), *pairs]


@pytest.mark.parametrize("by_words", [False, True], ids=["by predicate", "by words"])
@pytest.mark.parametrize(("overlay", "tables"), [("kademlia", "lists"), ("chord", "arrays")])
def test_subscribers_get_the_answers_of_a_scan_of_all_triples(overlay, tables, by_words):
    """While triples come, go and come again; and so do one-time queries, at any peer."""
    peers = Peers(overlay, tables=tables, by_words=by_words)
    asking = queries(6)
    texts = [alone(body) if title is None else asked(title, body) for title, body in asking]
    clients = [peers.subscribe(text) for text in texts]
    triples = made(14, 1)
    peers.publish(triples)
    removed = random.Random(2).sample(triples, len(triples) // 3)
    peers.publish(removed, removed=True)
    again = removed[::2]
    peers.publish(again)
    there = [each for each in triples if each not in removed or each in again]
    expected = [owed(there, *each) for each in asking]
    assert sum(map(bool, expected)) > len(expected) // 2
    peers.until_told(clients)
    for client, text, answers in zip(clients, texts, expected, strict=True):
        assert not client.record.complaints
        assert Counter(dict(client.record.bag)) == answers, text
    assert peers.read(*texts) == expected
    assert all((node.peer.status()["keywords"] > 5) == by_words for node in peers.world.nodes)


@pytest.mark.parametrize("by_words", [False, True], ids=["by predicate", "by words"])
def test_peers_that_take_over_find_the_rows_that_wait_for_a_text(by_words):
    """Copies of waiting rows are filed as the originals are: a peer that comes to join them finds them."""
    peers = Peers("kademlia", tables="arrays", by_words=by_words)
    asking = queries(5)
    texts = [alone(body) if title is None else asked(title, body) for title, body in asking]
    clients = [peers.subscribe(text) for text in texts]
    parts = [made(7, seed) for seed in range(3)]
    for triples, gone in zip(parts, (2, 5, None), strict=True):
        peers.publish(triples)
        if gone is not None:
            peers.world.crash(peers.world.nodes[gone])
            peers.world.run_for(60.0)  # rows that waited there are joined elsewhere now
    peers.until_told(clients)
    for client, text, each in zip(clients, texts, asking, strict=True):
        assert not client.record.complaints
        assert Counter(dict(client.record.bag)) == sum((owed(triples, *each) for triples in parts), Counter()), text


def test_a_publication_in_a_graph_of_its_own_is_matched_by_itself():
    """The scope of RTF: title and body are of one publication, though both are of one subject in each."""
    peers = Peers("kademlia", tables="lists")
    group = f'?x {TITLE} ?t FILTER ftcontains(?t, "red") ?x {BODY} ?b FILTER ftsimilar(?b, "tea pots", 0.7)'
    client = peers.subscribe(f"SELECT ?g ?x {{ GRAPH ?g {{ {group} }} }}")
    both = [("<urn:x>", TITLE, '"red"'), ("<urn:x>", BODY, '"pots, tea"')]
    other = [("<urn:x>", TITLE, '"blue"'), ("<urn:x>", BODY, '"pots, tea"')]
    half = [("<urn:x>", TITLE, '"red"'), ("<urn:x>", BODY, '"pots, tea and whatever more there is"')]
    for number, triples in enumerate((both, other, half, both)):
        peers.publish([(*each, f"<urn:publication{number}>") for each in triples])
    peers.until_told([client])
    assert not client.record.complaints
    assert Counter(dict(client.record.bag)) == {(f"<urn:publication{number}>", "<urn:x>"): 1 for number in (0, 3)}
