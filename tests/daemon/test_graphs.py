"""Named graphs with real nodes: from files with graphs to answers, retractions and removals."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import Counter

import pyoxigraph as ox
import pytest
from commands import SECONDS, command

import p2prdf

_names = itertools.count()

TRIG = """\
@prefix : <{ns}> .
:a :p :b , "default" .
GRAPH :today {{ :a :p :b ; :q 1 . :b :p [ :q "unnamed" ] }}
:yesterday {{ :a :p :c . _:who :p :a }}
_:g {{ :a :p "in a graph without a name" }}
{{ :today :source :paper . :yesterday :source :radio }}
"""
QUERIES = (
    "SELECT ?s ?o { ?s :p ?o }",
    "SELECT ?p ?o { :a ?p ?o }",
    "SELECT ?s ?o { GRAPH :today { ?s :p ?o } }",
    "SELECT ?g ?s ?o { GRAPH ?g { ?s :p ?o } }",
    "SELECT ?g ?source { GRAPH ?g { :a :p ?o } ?g :source ?source }",
    "SELECT ?p ?o { GRAPH :today { :a ?p ?o } }",
    "SELECT ?g (COUNT(*) AS ?n) { GRAPH ?g { ?s :p ?o } } GROUP BY ?g",
    "SELECT ?o { :a :p ?o FILTER NOT EXISTS { GRAPH ?g { :a :p ?o } } }",
    "SELECT ?s ?x { GRAPH :today { ?s :p/:q? ?x } }",
    "ASK { GRAPH :yesterday { :a :q ?o } }",
    "CONSTRUCT { ?s :in ?g } { GRAPH ?g { ?s :p ?o OPTIONAL { ?s :q ?x } } }",
)


@pytest.fixture
def ns():
    """A namespace of this test's own, as the overlay is shared."""
    return f"urn:graphs{next(_names)}:"


def skolemised(term):
    """Return a term with blank nodes of both kinds as one."""
    return "blank" if term is not None and term.startswith(("_:", "<urn:bnode:")) else term


def expected(store, query):
    """Return pyoxigraph's bag of rows."""
    found = store.query(query)
    if isinstance(found, ox.QueryBoolean):
        return Counter({(): 1} if found else {})
    if isinstance(found, ox.QueryTriples):
        return Counter({(str(each.subject), str(each.predicate), str(each.object)) for each in found})
    return Counter(tuple(None if term is None else str(term) for term in row) for row in found)


def alike(rows):
    """Return a bag without the names of blank nodes."""
    found = Counter()
    for row, count in rows.items():
        found[tuple(map(skolemised, row))] += count
    return found


async def until_true(subscription, wanted, true):
    """Take changes until the current solutions are the wanted bag."""
    async with asyncio.timeout(SECONDS):
        while Counter(true.values()) != wanted:
            solution = await anext(subscription)
            if solution.removed:
                assert true.pop(solution.identity) == solution.terms
            else:
                assert solution.identity not in true
                true[solution.identity] = solution.terms


def published(*arguments, node):
    """Publish by command; return the numbers that it prints."""
    code, out, err = command("publish", *arguments, "--json", "--peer", node.address)
    assert code == 0, err
    return [json.loads(line)["triples"] for line in out.splitlines()]


def test_graphs_of_a_file_are_answered_as_pyoxigraph_answers(keeping_all, ns, tmp_path):
    text = TRIG.format(ns=ns)
    (tmp_path / "data.trig").write_text(text)
    store = ox.Store()
    store.load(text.encode(), format=ox.RdfFormat.TRIG)
    assert published(tmp_path / "data.trig", node=keeping_all[0]) == [len(store)]

    async def ask():
        clients = [await p2prdf.connect(node.address) for node in keeping_all]
        try:
            asked = [f"PREFIX : <{ns}> {query}" for query in QUERIES]
            # Graphs of other tests are there, too: the queries are about terms of this test.
            results = await asyncio.gather(
                *(clients[at % 5].query(query, algorithm="csbv") for at, query in enumerate(asked))
            )
            for query, result in zip(asked, results, strict=True):
                assert alike(Counter(result.rows)) == alike(expected(store, query)), query
        finally:
            for client in clients:
                await client.close()

    asyncio.run(ask())
    # Removed again, except for triples with blank nodes, which belong to one file.
    quads = [f"{quad} ." for quad in store if "_:" not in str(quad)]
    (tmp_path / "again.nq").write_text("\n".join(quads))
    assert published(tmp_path / "again.nq", "--delete", node=keeping_all[3]) == [len(quads)]
    code, out, err = command("query", f"SELECT ?s ?p ?o {{ GRAPH <{ns}today> {{ ?s ?p ?o }} }}", "--json", "--peer",
                             keeping_all[2].address)  # fmt: skip
    assert (code, err) == (0, "")
    assert len(json.loads(out)["results"]["bindings"]) == 2


async def test_answers_come_and_go_with_statements_of_their_graph(keeping_all, ns):
    a, b, p, g, h = (f"<{ns}{name}>" for name in "abpgh")
    async with p2prdf.connect(keeping_all[1].address) as one, p2prdf.connect(keeping_all[4].address) as other:
        each = await one.subscribe(f"SELECT ?g ?o {{ GRAPH ?g {{ {a} {p} ?o }} }}")
        plain = await other.subscribe(f"SELECT ?o {{ {a} {p} ?o }}")
        without = f"FILTER NOT EXISTS {{ GRAPH {g} {{ {a} {p} ?o }} }}"
        missing = await other.subscribe(f"SELECT ?o {{ {a} {p} ?o {without} }}")
        true, true_plain, true_missing = {}, {}, {}
        assert await one.publish([(a, p, b), (a, p, b, g), (a, p, b, h), (a, p, '"x"', g), (a, p, '"y"', None)]) == 5
        await until_true(each, Counter([(g, b), (h, b), (g, '"x"')]), true)
        await until_true(plain, Counter([(b,), ('"y"',)]), true_plain)
        await until_true(missing, Counter([('"y"',)]), true_missing)
        await other.retract([(a, p, b, g)])  # one graph's; the default graph and the other keep theirs
        await until_true(each, Counter([(h, b), (g, '"x"')]), true)
        await until_true(missing, Counter([('"y"',), (b,)]), true_missing)
        assert await other.publish([(a, p, b), (a, p, '"z"', h)], graph=g, acknowledge="accepted") == 2
        await until_true(each, Counter([(h, b), (g, b), (g, '"x"'), (h, '"z"')]), true)
        await one.retract([(a, p, b), (a, p, '"x"')], graph=g)
        await until_true(each, Counter([(h, b), (h, '"z"')]), true)
        await one.retract([(a, p, b)])
        await until_true(plain, Counter([('"y"',)]), true_plain)
        await until_true(missing, Counter([('"y"',)]), true_missing)


async def test_updates_name_graphs(keeping_all, ns):
    prefix = f"PREFIX : <{ns}>"
    async with p2prdf.connect(keeping_all[0].address) as one, p2prdf.connect(keeping_all[2].address) as other:
        standing = await other.subscribe(f"{prefix} SELECT ?g ?s ?o {{ GRAPH ?g {{ ?s :p ?o }} }}")
        done = await one.update(
            f"{prefix} INSERT DATA {{ :a :p 1 GRAPH :g {{ :a :p 1, 2 . :b :p 3 }} GRAPH :h {{ :a :p 1 . :b :p 4 }} }} ;"
            " DELETE DATA { :b :p 3 . GRAPH :g { :b :p 3 } } ; DELETE WHERE { GRAPH ?g { :a :p 1 } }"
        )
        assert (done.inserted, done.deleted) == (6, 4)
        names = {name: f"<{ns}{name}>" for name in "ghab"}
        integer = '"{}"^^<http://www.w3.org/2001/XMLSchema#integer>'.format
        wanted = Counter([(names["g"], names["a"], integer(2)), (names["h"], names["b"], integer(4))])
        await until_true(standing, wanted, {})
        assert (await one.query(f"{prefix} SELECT ?s ?o {{ ?s :p ?o }}")).rows == [(names["a"], integer(1))]
        done = await other.update(f"{prefix} DELETE WHERE {{ GRAPH :g {{ ?s ?p ?o }} GRAPH ?h {{ :b ?p ?x }} }}")
        assert done.deleted == 2
        assert not await one.query(f"{prefix} ASK {{ GRAPH ?g {{ ?s :p ?o }} }}")


async def test_the_same_events_count_once_and_each_event_once(keeping_all, ns):
    a, p, g = (f"<{ns}{name}>" for name in "apg")
    async with p2prdf.connect(keeping_all[0].address) as one, p2prdf.connect(keeping_all[3].address) as other:
        events = await one.subscribe(f"SELECT ?o {{ GRAPH {g} {{ {a} {p} ?o }} }}", per_event=True)
        statements = [(a, p, f'"{n}"', g if n % 2 else None) for n in range(6)]
        for client in (one, other, one):
            await client.publish(statements, publisher=77, first_event=5)
        await other.publish([(a, p, '"last"', g)])
        found = []
        async with asyncio.timeout(SECONDS):
            while not found or found[-1] != '"last"':
                found.append((await anext(events))["o"])
        assert sorted(found) == ['"1"', '"3"', '"5"', '"last"']
        for text in (f"GRAPH ?g {{ {a} {p} ?o }}", f"GRAPH {g} {{ {a} ?p ?o }}"):
            with pytest.raises(p2prdf.QueryRefused, match="per event GRAPH takes an IRI"):
                await one.subscribe(f"SELECT * {{ {text} }}", per_event=True)


async def test_a_bad_graph_is_refused_and_the_connection_goes_on(keeping_all, ns):
    a, p = f"<{ns}a>", f"<{ns}p>"
    async with p2prdf.connect(keeping_all[0].address) as client:
        for wrong, reason in (
            ((a, p, a, '"g"'), "graph '\"g\"' is a literal"),
            ((a, p, '"<urn:p> <urn:g>"^^<urn:p2prdf:in>'), "a datatype that is reserved"),
            ((a, '"<urn:p> <urn:g>"^^<urn:p2prdf:in>', a), "."),
            ((a, p, a, a, a), "neither a triple of terms"),
        ):
            with pytest.raises(p2prdf.P2PRDFError, match=reason):
                await client.publish([wrong])
        await client.publish([(a, p, a)], graph=f"<{ns}g>")
        assert await client.query(f"ASK {{ GRAPH <{ns}g> {{ {a} {p} {a} }} }}")


def test_commands_take_a_graph_for_triples_without_one_and_explain_shows_it(keeping_all, ns, tmp_path):
    (tmp_path / "data.ttl").write_text(f"@prefix : <{ns}> . :a :p :b, :c .")
    (tmp_path / "data.nq").write_text(f"<{ns}a> <{ns}p> <{ns}d> .\n<{ns}a> <{ns}p> <{ns}e> <{ns}own> .\n")
    files = (tmp_path / "data.ttl", tmp_path / "data.nq")
    assert published(*files, "--graph", f"{ns}g", node=keeping_all[0]) == [2, 2]
    assert published(files[0], "--delete", "--graph", f"{ns}own", node=keeping_all[0]) == [2]  # nothing that was there
    query = f"PREFIX : <{ns}> SELECT ?g ?o {{ GRAPH ?g {{ :a :p ?o }} }} "
    code, out, _ = command("query", query, "--format", "tsv", "--peer", keeping_all[1].address)
    g, own = f"<{ns}g>", f"<{ns}own>"
    wanted = [f"{g}\t<{ns}b>", f"{g}\t<{ns}c>", f"{g}\t<{ns}d>", f"{own}\t<{ns}e>"]
    assert (code, sorted(out.splitlines()[1:])) == (0, sorted(wanted))
    code, _, err = command("publish", files[0], "--graph", "no iri", "--peer", keeping_all[1].address)
    assert (code, err.startswith("p2prdf: error [data-refused]: not an IRI")) == (4, True), err
    code, out, _ = command("explain", f"ASK {{ GRAPH {g} {{ <{ns}a> <{ns}p> ?o }} }}", "--peer", keeping_all[1].address)
    assert code == 0
    assert f"GRAPH {g} {{" in " ".join(out.split())
