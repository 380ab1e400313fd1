"""W3C cases through simulated peers: asked once in all forms, and subscribed to while their data comes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

from algebra.compare import same_values
from solution_bags import rows_of, same_bag
from w3c import REFUSED, cases, triples

from reads.peers import Peers, Terms, Triple, understood

__all__ = ["answered_cases", "ask_once", "play"]

EXTRA = 6
"""Bound on the triples that are published among those of a case and removed again."""


def answered_cases() -> list[dict[str, Any]]:
    """Return all cases except the refused ones."""
    return [case for case in cases() if case["name"] not in REFUSED]


def _expected(case: dict[str, Any]) -> Counter[Terms]:
    """Return the published result, numbers spelled in one way; columns as of the query."""
    return same_values(Counter(rows_of(understood(case["query"])[1], case["results"])))


def _difference(what: str, case: dict[str, Any], got: Counter[Terms], expected: Counter[Terms]) -> list[str]:
    if same_bag(got.elements(), expected.elements()):
        return []
    extra, missing = list((got - expected).items())[:3], list((expected - got).items())[:3]
    return [f"{case['name']}, {what}: {case['query']}\n  more: {extra}\n  missing: {missing}"]


# --- asked once ----------------------------------------------------------------------------------


def _wrapped(query: str, form: str) -> str:
    """Return another form that asks for the solutions of a SELECT query."""
    start = re.search(r"\bSELECT\b", query, re.IGNORECASE)
    assert start is not None, query
    return f"{query[: start.start()]} {form} {{ {{ {query[start.start() :]}\n }} }}"


def _construct(query: str, names: Sequence[str]) -> str:
    """Return the bindings of a SELECT query's variables, as triples."""
    template = " . ".join(f"<urn:answer> <urn:binds:{name}> ?{name}" for name in names)
    return _wrapped(query, f"CONSTRUCT {{ {template} }} WHERE")


def _constructed(names: Sequence[str], rows: Counter[Terms]) -> Counter[Terms]:
    """Return the triples that follow from solutions."""
    bound = {(name, term): None for row in rows for name, term in zip(names, row, strict=True) if term is not None}
    return Counter({("<urn:answer>", f"<urn:binds:{name}>", term): 1 for name, term in bound})


def ask_once(peers: Peers, case: dict[str, Any]) -> list[str]:
    """Publish a case's data, ask for its result in all forms, and remove the data; return the errors.

    Raises QueryRefused if peers keep no history for it.
    """
    data, query = triples(case["data"]), case["query"]
    names, expected = understood(query)[1], _expected(case)
    peers.publish(data)
    try:
        selected, asked, made = peers.read(query, _wrapped(query, "ASK"), _construct(query, names))
    finally:
        peers.publish(data, removed=True)
    truth = Counter[Terms]({(): 1} if expected else {})
    return [
        *_difference("SELECT", case, same_values(selected), expected),
        *_difference("ASK", case, asked, truth),
        *_difference("CONSTRUCT", case, Counter(list(same_values(made))), _constructed(names, expected)),
    ]


# --- standing ------------------------------------------------------------------------------------


def _extra(rng: Random, data: Sequence[Triple]) -> list[Triple]:
    """Draw triples of the same terms that are not in the data."""
    terms = sorted({term for triple in data for term in triple}) or ["<urn:x>"]
    drawn = {(rng.choice(terms), rng.choice(terms), rng.choice(terms)) for _ in range(EXTRA)}
    return sorted((s, p, o) for s, p, o in drawn if s[0] == p[0] == "<" and (s, p, o) not in data)


def play(peers: Peers, case: dict[str, Any]) -> list[str]:
    """Subscribe to a case's query, and publish its data one triple at a time in random order, others among it.

    The others are removed again, one at a time, and in the end all triples.  Return the errors of the solutions
    that the subscriber held while the case's data was there, and of all its notifications.
    """
    rng, data = Random(case["name"]), triples(case["data"])
    client = peers.subscribe(case["query"])
    extra = _extra(rng, data)
    steps = [*data, *extra]
    rng.shuffle(steps)
    batches = [peers.publisher.publish(rng.uniform(0.0, 1.0), [triple]) for triple in steps]
    peers.until_acknowledged(batches)
    rng.shuffle(extra)
    batches = [peers.publisher.publish(rng.uniform(0.0, 1.0), [triple], removed=True) for triple in extra]
    peers.until_acknowledged(batches)
    peers.until_told([client])
    record = client.record
    held = Counter(tuple(term or None for term in row) for row in record.bag.elements())
    client.unsubscribe()
    peers.world.run_until(lambda: record.closed_at is not None)
    peers.publish(data, removed=True)
    return _difference("as a standing query", case, same_values(held), _expected(case)) + record.complaints
