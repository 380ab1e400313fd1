"""Derived graphs: a graph holds the answers of its CONSTRUCT query, and never supports itself."""

from __future__ import annotations

import asyncio
import contextlib
import itertools

import pytest
from commands import command

import p2prdf
from p2prdf.reasoning import Atom, Rule

SECONDS = 60.0
RDF_TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
_names = itertools.count()


@pytest.fixture
def ns():
    """A namespace of this test's own, as the overlay is shared."""
    return f"urn:derived{next(_names)}:"


def parents(ns, *pairs):
    return [(f"<{ns}{child}>", f"<{ns}parent>", f"<{ns}{parent}>") for child, parent in pairs]


def grandparents(ns):
    return f"PREFIX : <{ns}> CONSTRUCT {{ ?a :grandparent ?c }} WHERE {{ ?a :parent ?b . ?b :parent ?c }}"


async def holds(client, graph):
    """Return the triples in a graph."""
    return set((await client.query(f"SELECT ?s ?p ?o {{ GRAPH {graph} {{ ?s ?p ?o }} }}")).rows)


async def until(steps, client, graph, expected):
    """Let a derivation go on until its graph holds the expected triples."""
    async with asyncio.timeout(SECONDS):
        while await holds(client, graph) != expected:
            await anext(steps)


async def test_a_derived_graph_follows_changes_and_another_derived_graph_follows_it(keeping_all, ns):
    graph, second = f"<{ns}grand>", f"<{ns}great>"
    great = (
        f"PREFIX : <{ns}> CONSTRUCT {{ ?a :great ?d }} WHERE {{ GRAPH {graph} {{ ?a :grandparent ?c }} ?c :parent ?d }}"
    )
    a, c, d, e = (f"<{ns}{name}>" for name in "acde")
    grand = f"<{ns}grandparent>"
    async with p2prdf.connect(keeping_all[0].address) as client, p2prdf.connect(keeping_all[3].address) as other:
        await other.publish(parents(ns, "ab", "bc"))
        await other.publish([(e, grand, e)], graph=graph)  # left over from another client
        async with contextlib.aclosing(client.derive(grandparents(ns), graph)) as steps:
            first = await anext(steps)
            assert (first.added, first.removed) == (1, 1)
            assert await holds(other, graph) == {(a, grand, c)}
            async with contextlib.aclosing(other.derive(great, second)) as further:
                await other.publish(parents(ns, "cd"))
                await until(steps, client, graph, {(a, grand, c), (f"<{ns}b>", grand, d)})
                await until(further, client, second, {(a, f"<{ns}great>", d)})
                await client.retract(parents(ns, "ab"))
                await until(steps, client, graph, {(f"<{ns}b>", grand, d)})
                await until(further, client, second, set())
        # Nobody derives the graph now; a derivation that begins again finds out the changes.
        await other.retract(parents(ns, "cd"))
        assert await holds(other, graph) == {(f"<{ns}b>", grand, d)}
        await other.publish(parents(ns, "ab"))
        async with contextlib.aclosing(other.derive(grandparents(ns), graph)) as steps:
            again = await anext(steps)
            assert (again.added, again.removed) == (1, 1)
            assert await holds(client, graph) == {(a, grand, c)}
        assert await client.drop_derived(graph) == 1
        assert await holds(client, graph) == set()


async def test_a_derivation_that_would_support_itself_is_refused_with_its_circle(keeping_all, ns):
    one, two, three = (f"<{ns}{name}>" for name in ("one", "two", "three"))

    def reading(*graphs):
        patterns = " ".join(f"GRAPH {graph} {{ ?s <{ns}p> ?o }}" for graph in graphs)
        return f"CONSTRUCT {{ ?s <{ns}p> ?o }} WHERE {{ {patterns} }}"

    async def refused(client, query, graph, why):
        with pytest.raises(p2prdf.QueryRefused, match=why):
            await anext(client.derive(query, graph))

    async with p2prdf.connect(keeping_all[1].address) as client, p2prdf.connect(keeping_all[2].address) as other:
        await refused(client, reading(one), one, f"{one} would be derived from itself: it reads {one}")
        await refused(client, reading("?g"), one, "reads all graphs")
        await refused(client, "SELECT * { ?s ?p ?o }", one, "needs a CONSTRUCT query")
        await refused(client, reading(two), '"no graph"', "is not an IRI")
        async with contextlib.aclosing(client.derive(reading(two), one)) as steps:
            await anext(steps)
        async with contextlib.aclosing(other.derive(reading(three), two)) as steps:
            await anext(steps)
        circle = f"{three} would be derived from itself: it reads {one}, which reads {two}, which reads {three}"
        await refused(other, reading(one, one), three, circle)
        # A refused derivation is not on record, and neither is a dropped one.
        async with contextlib.aclosing(client.derive(reading(three), two)) as steps:
            await anext(steps)
        await client.drop_derived(one)
        async with contextlib.aclosing(other.derive(reading(one), three)) as steps:
            await anext(steps)
        await refused(client, reading(two), one, "would be derived from itself")


def rule(head, *body):
    return Rule(Atom(*head), tuple(Atom(*each) for each in body))


async def test_recursive_rules_are_followed_to_their_end_and_taken_back_with_their_support(keeping_all, ns):
    graph, part, near, kind = f"<{ns}inferred>", f"<{ns}part>", f"<{ns}near>", f"<{ns}Place>"
    rules = [
        rule(("?x", part, "?z"), ("?x", part, "?y"), ("?y", part, "?z")),
        rule(("?y", near, "?x"), ("?x", near, "?y")),
        rule(("?y", RDF_TYPE, kind), ("?x", part, "?y")),
    ]
    a, b, c, d = (f"<{ns}{name}>" for name in "abcd")
    places = {(place, RDF_TYPE, kind) for place in (b, c)}
    async with p2prdf.connect(keeping_all[0].address) as client, p2prdf.connect(keeping_all[2].address) as other:
        await other.publish([(a, part, b), (b, part, c), (a, near, d), (c, part, '"a text"')])
        await other.publish([(d, part, a)], graph=graph)  # left over from another client
        async with contextlib.aclosing(client.derive_by_rules(rules, graph)) as steps:
            first = await anext(steps)
            texts = {(a, part, '"a text"'), (b, part, '"a text"')}
            assert (first.added, first.removed) == (6, 1)
            assert await holds(other, graph) == {(a, part, c), (d, near, a), *texts, *places}
            # A circle: each is part of each, and breaking it leaves nothing of it.
            await other.publish([(c, part, a)])
            await other.retract([(c, part, '"a text"')])
            circle = {(x, part, y) for x in (a, b, c) for y in (a, b, c)} - {(a, part, b), (b, part, c), (c, part, a)}
            await until(steps, client, graph, {(d, near, a), (a, RDF_TYPE, kind), *places, *circle})
            await other.publish([(a, part, c)])  # it was derived; now it is published
            await other.retract([(b, part, c)])
            ends = {(d, near, a), (a, RDF_TYPE, kind), *places}
            await until(steps, client, graph, {*ends, *((x, part, x) for x in (a, c)), (c, part, b)})
        await other.retract([(c, part, a)])
        async with contextlib.aclosing(client.derive_by_rules(rules, graph)) as steps:
            await anext(steps)
            assert await holds(other, graph) == {(d, near, a), *places}
        await client.drop_derived(graph)


async def test_rules_about_any_triple_and_about_too_many_predicates_are_refused_by_name(keeping_all, ns):
    graph = f"<{ns}never>"
    wide = [rule(("?x", f"<{ns}q>", "?y"), ("?x", f"<{ns}p{number}>", "?y")) for number in range(33)]
    async with p2prdf.connect(keeping_all[1].address) as client:
        for rules, why in (
            ([], "there are no rules"),
            ([rule(("?y", "?p", "?x"), ("?x", "?p", "?y"))], r"\?y \?p \?x :- .* predicate of its body is a variable"),
            (wide, "bodies have 33 predicates, more than 32"),
        ):
            with pytest.raises(p2prdf.LocalProtocolError, match=why):
                await anext(client.derive_by_rules(rules, graph))


def test_the_command_derives_by_rules_and_ontologies(keeping_all, ns, tmp_path):
    """Consequences of both together; a class without a name has none published, but passes its members on."""
    peer = ("--peer", keeping_all[2].address)
    rules, ontology = tmp_path / "places.rules", tmp_path / "places.ttl"
    rules.write_text(f"PREFIX : <{ns}>\nfar: ?x :far ?z :- ?x :in ?y , ?y :in ?z .\n")
    ontology.write_text(
        f"@prefix : <{ns}> . @prefix owl: <http://www.w3.org/2002/07/owl#> .\n"
        "@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .\n"
        ":in a owl:TransitiveProperty . :within rdfs:subPropertyOf :in . :Lake owl:disjointWith :City .\n"
        "[ a owl:Restriction ; owl:onProperty :in ; owl:someValuesFrom :Country ] rdfs:subClassOf :Place .\n"
    )
    data = ". ".join(
        f"<{ns}{s}> {p} <{ns}{o}>" for s, p, o in (
            ("a", f"<{ns}within>", "b"), ("b", f"<{ns}in>", "c"), ("c", "a", "Country"),
        )
    )  # fmt: skip
    assert command("update", f"INSERT DATA {{ {data} }}", *peer)[0] == 0
    given = ("derive", "--graph", f"{ns}all", "--rules", str(rules), "--ontology", str(ontology), *peer)
    code, out, err = command(*given, "--once")
    told = "p2prdf: ignored axioms: owl:disjointWith\n"
    assert (code, out, err) == (0, "5 published, 0 deleted\n", told)
    query = f"SELECT ?s ?p ?o {{ GRAPH <{ns}all> {{ ?s ?p ?o }} }}"
    rows = {tuple(line.split("\t")) for line in command("query", query, "--format", "tsv", *peer)[1].splitlines()[1:]}
    a, b, c, place = (f"<{ns}{name}>" for name in ("a", "b", "c", "Place"))
    inside, kind = f"<{ns}in>", RDF_TYPE
    assert rows == {
        (a, inside, b), (a, inside, c), (a, f"<{ns}far>", c), (a, kind, place), (b, kind, place),
    }  # fmt: skip
    code, _, err = command("derive", "--graph", f"{ns}all", "--rules", str(rules), "CONSTRUCT { } WHERE { }", *peer)
    assert (code, "give either a query or --rules" in err) == (2, True)
    rules.write_text("?x <urn:p> ?z :- ?x <urn:p> ?y FILTER(?y > 3) .")
    code, _, err = command("derive", "--graph", f"{ns}all", "--rules", str(rules), *peer)
    assert (code, "FILTER" in err, "column" in err) == (4, True, True)


def test_the_command_derives_once_reports_its_counts_and_drops(keeping_all, ns):
    peer = ("--peer", keeping_all[4].address)
    data = " . ".join(f"<{ns}{child}> <{ns}parent> <{ns}{parent}>" for child, parent in ("ab", "bc", "cd"))
    assert command("update", f"INSERT DATA {{ {data} }}", *peer)[0] == 0
    given = ("derive", "--graph", f"{ns}grand", "--once", grandparents(ns), *peer)
    assert command(*given) == (0, "2 published, 0 deleted\n", "")
    assert command(*given) == (0, "0 published, 0 deleted\n", "")
    circle = f"CONSTRUCT {{ ?s ?p ?o }} WHERE {{ GRAPH <{ns}grand> {{ ?s ?p ?o }} }}"
    code, out, err = command("derive", "--graph", f"{ns}grand", circle, *peer)
    assert (code, out) == (4, "")
    assert err.startswith("p2prdf: error [query-refused]: ")
    assert "would be derived from itself" in err
    assert command("derive", "--graph", f"{ns}grand", "--remove", *peer) == (0, "2 deleted\n", "")
    assert command("derive", "--graph", f"{ns}grand", "--remove", "--json", *peer) == (0, '{"removed": 0}\n', "")
    assert command("derive", "--graph", f"{ns}grand", "--remove", "ASK { ?s ?p ?o }", *peer)[0] == 2
