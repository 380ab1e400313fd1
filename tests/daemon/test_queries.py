"""Queries of all forms, once or standing, over earlier publications: real nodes against pyoxigraph."""

from __future__ import annotations

import asyncio
import csv
import io
import itertools
import json
import subprocess
import sys
import time
from collections import Counter

import pyoxigraph as ox
import pytest
from algebra.compare import same_values
from commands import SECONDS, command

import p2prdf
import p2prdf.sync
from p2prdf.rdf import terms
from p2prdf.rdf.algebra import Form
from p2prdf.rdf.result_formats import Format
from p2prdf_cli.query import write_result

XSD_INTEGER = "http://www.w3.org/2001/XMLSchema#integer"
_names = itertools.count()


@pytest.fixture
def ns():
    """A namespace of this test's own, as the overlay is shared."""
    return f"urn:query{next(_names)}:"


def university(ns):
    """Return some hundred triples: departments, people with and without mail, advisers, courses, ages, a chain."""
    found = []

    def say(s, p, o):
        found.append((f"<{ns}{s}>", f"<{ns}{p}>", o if o.startswith('"') else f"<{ns}{o}>"))

    for d in range(4):
        say(f"d{d}", "a", "Department")
        say(f"d{d}", "partOf", f"d{d - 1}" if d else "university")
    for n in range(40):
        who = f"person{n}"
        say(who, "a", "Professor" if n % 8 == 0 else "Student")
        say(who, "worksFor", f"d{n % 4}")
        say(who, "age", f'"{20 + n * 7 % 23}"^^<{XSD_INTEGER}>')
        say(who, "name", f'"Person {n}"@en')
        if n % 3:
            say(who, "mail", f'"p{n}@example.org"')
        if n % 8:
            say(who, "adviser", f"person{n // 8 * 8}")
        for course in {n % 5, n % 7}:
            say(who, "takes", f"course{course}")
    return found


def queries(ns):
    """Return queries of all forms and with all parts, in the namespace."""
    return [
        f"PREFIX : <{ns}> {query}"
        for query in (
            "SELECT ?who ?mail { ?who :worksFor :d1 OPTIONAL { ?who :mail ?mail } }",
            "SELECT ?x { { ?x :a :Professor } UNION { ?x :takes :course6 } }",
            "SELECT ?who { ?who :a :Student MINUS { ?who :mail ?mail } }",
            "SELECT ?who ?age { ?who :age ?age FILTER(?age > 30 && NOT EXISTS { ?who :takes :course2 }) }",
            "SELECT ?d (COUNT(*) AS ?n) (AVG(?age) AS ?mean) { ?who :worksFor ?d ; :age ?age } GROUP BY ?d",
            "SELECT ?adviser (COUNT(?who) AS ?n) { ?who :adviser ?adviser } GROUP BY ?adviser HAVING(COUNT(?who) > 6)",
            "SELECT (COUNT(DISTINCT ?course) AS ?n) { ?who :takes ?course }",
            "SELECT DISTINCT ?course { ?who :adviser/:worksFor :d0 ; :takes ?course }",
            "SELECT ?who ?age { ?who :age ?age } ORDER BY DESC(?age) ?who LIMIT 7",
            "SELECT ?d ?top { ?d :partOf+ ?top }",
            "SELECT ?who (CONCAT(?name, '!') AS ?loud) { ?who :name ?name FILTER(LANGMATCHES(LANG(?name), 'en')) }",
            "SELECT ?who ?kind { VALUES ?kind { :Professor :None } ?who :a ?kind }",
            "SELECT ?d ?n { ?d :a :Department { SELECT ?d (COUNT(*) AS ?n) { ?who :worksFor ?d } GROUP BY ?d } }",
            "SELECT * { :person1 :adviser :person0 }",
            "SELECT ?none { ?none :a :Nothing }",
            "SELECT (COUNT(*) AS ?n) { ?none :a :Nothing }",
            "ASK { ?who :takes :course1 ; :takes :course3 }",
            "ASK { :d0 :partOf+ :d3 }",
            "CONSTRUCT { ?a :fellow ?b . ?b :at ?m } { ?a :adviser/^:adviser ?b OPTIONAL { ?b :mail ?m } }",
        )
    ]


def expected(triples, query):
    """Return pyoxigraph's bag of rows, laid out as ours are."""
    store = ox.Store()
    store.bulk_load("".join(f"{s} {p} {o} .\n" for s, p, o in triples).encode(), format=ox.RdfFormat.N_TRIPLES)
    found = store.query(query)
    if isinstance(found, ox.QueryBoolean):
        return Counter({(): 1} if found else {})
    if isinstance(found, ox.QueryTriples):
        return Counter({(str(each.subject), str(each.predicate), str(each.object)) for each in found})
    return same_values(Counter(tuple(None if term is None else str(term) for term in row) for row in found))


async def until_true(subscription, wanted, true=None):
    """Take changes until the current solutions are the wanted bag; each solution comes once and leaves at most once.

    ``true``: the solutions before, by identity; it is updated.
    """
    true = {} if true is None else true
    async with asyncio.timeout(SECONDS):
        while same_values(Counter(true.values())) != wanted:
            solution = await anext(subscription)
            if solution.removed:
                assert true.pop(solution.identity) == solution.terms
            else:
                assert solution.identity not in true
                true[solution.identity] = solution.terms


# --- one-time queries ----------------------------------------------------------------------------


async def test_answers_of_every_node_are_those_of_a_store_with_the_same_data(keeping_all, ns):
    data = university(ns)
    clients = [await p2prdf.connect(node.address) for node in keeping_all]
    try:
        parts = [data[at::5] for at in range(5)]
        await asyncio.gather(*(client.publish(part) for client, part in zip(clients, parts, strict=True)))
        asked = queries(ns)
        algorithms = itertools.cycle(("csbv", "cqc"))
        results = await asyncio.gather(
            *(clients[at % 5].query(query, algorithm=next(algorithms)) for at, query in enumerate(asked))
        )
        for query, result in zip(asked, results, strict=True):
            assert same_values(Counter(result.rows)) == expected(data, query), query
        assert any(None in row for row in results[0].rows)
    finally:
        for client in clients:
            await client.close()


@pytest.mark.parametrize("wanted", ["arrow", "parquet"])
def test_command_writes_typed_tables(keeping_all, ns, wanted):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    address = keeping_all[0].address
    with p2prdf.sync.connect(address) as client:
        client.publish([(f"<{ns}a>", f"<{ns}age>", 20), (f"<{ns}b>", f"<{ns}age>", 21)])
    query = f"SELECT ?s ?age {{ ?s <{ns}age> ?age }} ORDER BY ?age"
    outcome = subprocess.run(
        [sys.executable, "-m", "p2prdf_cli", "query", "--peer", address, "--format", wanted, query],
        capture_output=True, timeout=SECONDS, check=True,
    )  # fmt: skip
    body = pa.BufferReader(outcome.stdout)
    table = parquet.read_table(body) if wanted == "parquet" else pa.ipc.open_stream(body).read_all()
    assert table.to_pydict() == {"s": [f"<{ns}a>", f"<{ns}b>"], "age": [20, 21]}


async def test_acknowledged_triples_are_answered_and_deleted_ones_are_not(keeping_all, ns):
    query = f"SELECT ?s {{ ?s <{ns}p> <{ns}o> }}"
    triples = [(f"<{ns}{n}>", f"<{ns}p>", f"<{ns}o>") for n in range(20)]
    async with p2prdf.connect(keeping_all[1].address) as one, p2prdf.connect(keeping_all[3].address) as other:
        await one.publish(triples)
        assert len((await other.query(query)).rows) == 20
        await other.retract(triples[5:])
        result, none = await asyncio.gather(one.query(query), other.query(f"ASK {{ <{ns}19> <{ns}p> ?o }}"))
        assert sorted(result.rows) == sorted((s,) for s, _, _ in triples[:5])
        assert (result.names, bool(result), bool(none)) == (("s",), True, False)


@pytest.mark.parametrize("query", [
    "SELECT ?who { ?who :age ?age } ORDER BY DESC(?age) ?who",
    "SELECT ?age ?who { ?who :age ?age } ORDER BY ((?age - 40) * (?age - 40)) DESC(STR(?who))",
    "SELECT * { ?who :worksFor :d1 OPTIONAL { ?who :mail ?mail } } ORDER BY ?mail DESC(?who)",
    "SELECT ?d (COUNT(*) AS ?n) { ?who :takes ?d } GROUP BY ?d ORDER BY DESC(COUNT(*)) ?d",
    "SELECT DISTINCT ?course { ?who :takes ?course } ORDER BY DESC(?course)",
    "SELECT DISTINCT ?course { ?who :takes ?course } ORDER BY DESC(?who) ?course",
    "SELECT ?name { ?who :name ?name ; :age ?age } ORDER BY ?age ?name LIMIT 9 OFFSET 3",
])  # fmt: skip
async def test_rows_come_in_the_order_asked_for(keeping_all, ns, query):
    data, query = university(ns), f"PREFIX : <{ns}> {query}"
    store = ox.Store()
    store.bulk_load("".join(f"{s} {p} {o} .\n" for s, p, o in data).encode(), format=ox.RdfFormat.N_TRIPLES)
    async with p2prdf.connect(keeping_all[2].address) as client:
        await client.publish(data)
        result = await client.query(query)
    found = store.query(query)
    assert set(result.names) == {each.value for each in found.variables}
    assert result.rows == [
        tuple(None if row[name] is None else str(row[name]) for name in result.names) for row in found
    ]


async def test_a_pattern_without_a_constant_is_answered_where_all_is_kept_for_it(keeping_all, ns):
    data = university(ns)
    query = f"SELECT ?s ?p ?o {{ ?s ?p ?o FILTER(STRSTARTS(STR(?s), '{ns}')) }}"
    async with p2prdf.connect(keeping_all[1].address) as client, p2prdf.connect(keeping_all[3].address) as other:
        await client.publish(data)
        await other.retract(data[::3])
        assert sorted((await other.query(query)).rows) == sorted(set(data) - set(data[::3]))


def test_history_is_refused_where_it_is_not_kept(launcher):
    node = launcher.start(indexes="on-demand", replicas=1, copies_min=1)
    code, out, err = command("query", "ASK { ?s <urn:history> ?o }", "--peer", node.address)
    assert (code, out) == (4, "")
    assert err.startswith("p2prdf: error [query-refused]: what was published before")
    assert "`indexes = all`, the default" in err
    assert err.count("\n") == 1
    code, out, err = command("update", "DELETE WHERE { ?s ?p ?o }", "--peer", node.address)
    assert (code, out) == (4, "")
    assert "`indexes = all`, the default" in err


@pytest.mark.long
async def test_a_query_is_answered_soon_though_a_node_was_just_killed(launcher, until, all_know_each_other, tmp_path):
    """The killed node cannot be cut off and acknowledge something alone, so nobody waits for it."""
    first = launcher.start(data=tmp_path / "0")
    others = [launcher.start(data=tmp_path / str(at), bootstrap=first.address) for at in range(1, 5)]
    nodes = [first, *others]
    await until(lambda: all_know_each_other(nodes), seconds=15)
    rows = {(f"<urn:s{number}>", f'"{number}"') for number in range(1000)}
    took = []
    async with p2prdf.connect(f"{nodes[0].address},{nodes[1].address}") as client:
        await client.publish([(s, "<urn:p>", o) for s, o in rows])
        for killed in (None, nodes[4]):
            if killed is not None:
                killed.kill()
            begun = time.monotonic()
            assert set((await client.query("SELECT ?s ?o { ?s <urn:p> ?o }")).rows) == rows
            took.append(time.monotonic() - begun)
    print(f"answered in {took[0]:.2f} s, after a node was killed in {took[1]:.2f} s")
    assert took[1] < 15, "it did not wait until the lost one was given up"


async def test_a_query_with_surrogates_is_refused(keeping_all):
    async with p2prdf.connect(keeping_all[0].address) as client:
        for ask in (client.query, client.subscribe):
            with pytest.raises(p2prdf.QueryRefused, match="surrogate at character 12"):
                await ask("ASK { <urn:\ud800> ?p ?o }")


async def test_a_query_that_takes_too_long_is_reported(keeping_all, ns):
    async with p2prdf.connect(keeping_all[0].address) as client:
        with pytest.raises(p2prdf.Unavailable, match=r"not answered within 0\.01 s"):
            await client.query(f"ASK {{ ?s <{ns}p> ?o }}", timeout_seconds=0.01)


# --- standing queries ----------------------------------------------------------------------------


async def test_standing_answers_follow_publications_and_deletions(keeping_all, ns):
    data = university(ns)
    optional, count = (
        f"PREFIX : <{ns}> SELECT ?who ?mail {{ ?who :worksFor :d1 OPTIONAL {{ ?who :mail ?mail }} }}",
        f"PREFIX : <{ns}> SELECT ?d (COUNT(?mail) AS ?n) {{ ?who :worksFor ?d ; :mail ?mail }} GROUP BY ?d",
    )
    async with p2prdf.connect(keeping_all[0].address) as subscriber, p2prdf.connect(keeping_all[4].address) as other:
        standing = {query: (await subscriber.subscribe(query), {}) for query in (optional, count)}
        there = set()
        for removed, changed in ((False, data), (True, data[10:60:2]), (False, data[20:40]), (True, data)):
            await (other.retract if removed else other.publish)(changed)
            there = there.difference(changed) if removed else there.union(changed)
            for query, (subscription, true) in standing.items():
                await until_true(subscription, expected(there, query), true)


async def test_labels_follow_publications_and_deletions(keeping_all, ns):
    label = "<http://www.w3.org/2000/01/rdf-schema#label>"
    query = f"""PREFIX wikibase: <http://wikiba.se/ontology#> PREFIX bd: <http://www.bigdata.com/rdf#>
        SELECT ?xLabel {{ ?x <{ns}p> 1 SERVICE wikibase:label {{ bd:serviceParam wikibase:language "de,en" }} }}"""
    x = f"<{ns}x>"
    async with p2prdf.connect(keeping_all[1].address) as client:
        standing, true = await client.subscribe(query), {}
        english, german = (x, label, '"apple"@en'), (x, label, '"Apfel"@de')
        await client.publish([(x, f"<{ns}p>", f'"1"^^<{XSD_INTEGER}>')])
        name = terms.literal(f"{ns}x".rpartition(":")[2])
        for change, triple, expected in (
            (client.publish, english, english[2]), (client.publish, german, german[2]),
            (client.retract, german, english[2]), (client.retract, english, name),
        ):  # fmt: skip
            await change([triple])
            await until_true(standing, {(expected,): 1}, true)
            assert (await client.query(query)).rows == [(expected,)]


@pytest.mark.parametrize("algorithm", ["csbv", "cqc"])
async def test_since_the_beginning_each_answer_comes_once_while_publishing_goes_on(keeping_all, ns, algorithm):
    query = f"SELECT ?a ?c {{ ?a <{ns}p> ?b . ?b <{ns}q> ?c }}"

    def pair(n):
        return [(f"<{ns}a{n}>", f"<{ns}p>", f"<{ns}b{n}>"), (f"<{ns}b{n}>", f"<{ns}q>", f"<{ns}c{n}>")]

    async with p2prdf.connect(keeping_all[1].address) as publisher, p2prdf.connect(keeping_all[2].address) as client:
        before, during = range(200), range(200, 500)
        await publisher.publish(triple for n in before for triple in pair(n))
        begun = asyncio.Event()

        async def publish_on():
            for start in range(during.start, during.stop, 20):
                await publisher.publish(triple for n in range(start, start + 20) for triple in pair(n))
                begun.set()

        publishing = asyncio.create_task(publish_on())
        await begun.wait()
        subscription = await client.subscribe(query, algorithm=algorithm, since="beginning")
        found = []
        async with asyncio.timeout(SECONDS):
            async for solution in subscription:
                found.append(solution)
                if len(found) == during.stop:
                    break
        await publishing
        assert Counter(solution.terms for solution in found) == Counter(
            (f"<{ns}a{n}>", f"<{ns}c{n}>") for n in range(during.stop)
        )
        assert len({solution.identity for solution in found}) == during.stop
        late = await client.subscribe(query, algorithm=algorithm, since=found[-1].born)
        await publisher.publish(pair("last"))
        for each in (subscription, late):
            async with asyncio.timeout(SECONDS):
                while (await anext(each)).terms != (f"<{ns}alast>", f"<{ns}clast>"):
                    assert each is late


async def test_a_subscription_since_a_time_gets_publications_from_then_on(keeping_all, ns):
    query = f"SELECT ?s {{ ?s <{ns}p> <{ns}o> }}"
    async with p2prdf.connect(keeping_all[1].address) as client, asyncio.timeout(SECONDS):
        standing = await client.subscribe(query)
        for name in ("early", "middle", "late"):  # each later by a round trip, which takes more than a millisecond
            await client.publish([(f"<{ns}{name}>", f"<{ns}p>", f"<{ns}o>")])
            await client.subscribe(query)
        born = {(solution := await anext(standing))["s"]: solution.born for _ in range(3)}
        since = await client.subscribe(query, since=born[f"<{ns}middle>"])
        assert {(await anext(since))["s"] for _ in range(2)} == {f"<{ns}middle>", f"<{ns}late>"}


# --- commands ------------------------------------------------------------------------------------


def bindings(document):
    """Return the bag of rows in a document of JSON results."""
    names = document["head"]["vars"]
    return Counter(
        tuple(terms.from_json(row[name]) if name in row else None for name in names)
        for row in document["results"]["bindings"]
    )


def test_results_are_read_back_from_each_format(keeping_all, ns, tmp_path):
    data = university(ns)
    (tmp_path / "p.ttl").write_text(f"@prefix : <{ns}> .\n")
    select = "SELECT ?who ?mail { ?who :worksFor :d1 OPTIONAL { ?who :mail ?mail } }"

    async def ask():
        async with p2prdf.connect(keeping_all[1].address) as client:
            await client.publish(data)
            return await client.query(f"PREFIX : <{ns}> {select}")

    result = asyncio.run(ask())

    def asked(query, *options):
        more = ("--prefix-file", tmp_path / "p.ttl", "--peer", keeping_all[2].address)
        code, out, err = command("query", "-f", "-", *more, *options, given=query)
        assert (code, err) == (0, "")
        return out

    def written(chosen):
        out = io.StringIO(newline="")
        write_result(result, Form.SELECT, chosen, out.write, {"": ns})
        return out.getvalue()

    wanted = expected(data, f"PREFIX : <{ns}> {select}")
    assert bindings(json.loads(asked(select, "--json"))) == wanted
    as_csv = asked(select, "--format", "csv")
    assert Counter(map(tuple, csv.reader(io.StringIO(as_csv, newline="")))) == Counter(
        [("who", "mail"), *(tuple(map(plain, row)) for row in wanted.elements())]
    )
    assert as_csv.count("\r\n") == as_csv.count("\n") == 11
    for chosen, form in ((Format.XML, ox.QueryResultsFormat.XML), (Format.TSV, ox.QueryResultsFormat.TSV)):
        assert read_back(written(chosen), form) == wanted
    table = written(Format.TABLE).splitlines()
    assert [table[0].split(), table[-1]] == [["who", "mail"], "(10 rows)"]
    assert {tuple(line.split()) for line in table[2:-1]} == {
        tuple(plain(term).replace(ns, ":") for term in row if term) for row in wanted
    }
    construct = "CONSTRUCT { ?who :has ?mail } { ?who :mail ?mail }"
    triples = ox.parse(asked(construct), format=ox.RdfFormat.N_TRIPLES)
    found = Counter((str(each.subject), str(each.predicate), str(each.object)) for each in triples)
    assert found == expected(data, f"PREFIX : <{ns}> {construct}")
    assert asked("ASK { ?who :a :Nobody }") == "false\n"


def read_back(text, form):
    """Return the bag of rows that another reader finds; its own objects must end in the thread they began in."""
    found = ox.parse_query_results(text.encode(), format=form)
    return Counter(tuple(None if term is None else str(term) for term in row) for row in found)


def plain(term):
    """Return a term as CSV has it."""
    return "" if term is None else terms.lexical(term)


async def test_updates_are_carried_out_in_order(keeping_all, ns):
    a, b, d, z, p, q = (f"<{ns}{name}>" for name in "abdzpq")
    prefix = f"PREFIX : <{ns}>"
    async with p2prdf.connect(keeping_all[0].address) as one, p2prdf.connect(keeping_all[3].address) as other:
        standing = await other.subscribe(f"{prefix} SELECT * {{ {{ ?s :p ?o }} UNION {{ ?s :q ?x }} }}")
        done = await one.update(
            f"{prefix} INSERT DATA {{ :a :p :b, :c . :b :q :d . :c :q :e . :x :p :y . _:n :name 'N', 'M' }} ;"
            " DELETE DATA { :x :p :y } ; DELETE WHERE { ?s :p ?o . ?o :q :e } ; INSERT DATA { :z :p :b }"
        )
        assert (done.inserted, done.deleted) == (8, 3)
        true = {}
        await until_true(standing, Counter([(a, b, None), (b, None, d), (z, b, None)]), true)
        rows = (await other.query(f"{prefix} SELECT ?n ?name {{ ?n :name ?name }}")).rows
        (node,) = {node for node, _ in rows}
        assert {name for _, name in rows} == {'"N"', '"M"'}
        # Triples just found can be removed, also by the IRI that stands for a blank node; the rest by a pattern.
        done = await other.update(f"{prefix} DELETE WHERE {{ {node} :name 'N' }} ; DELETE WHERE {{ ?s :name ?n }}")
        assert (done.inserted, done.deleted) == (0, 2)
        done = await one.update(f"DELETE WHERE {{ {a} {p} {b} . {b} {q} {a} }} ; DELETE WHERE {{ {z} {p} {b} }}")
        assert done.deleted == 1, "of the first two one is not there"
        await until_true(standing, Counter([(a, b, None), (b, None, d)]), true)


def test_updates_from_a_file_are_reported_in_numbers(keeping_all, ns, tmp_path):
    (tmp_path / "p.ttl").write_text(f"@prefix : <{ns}> .\n")
    (tmp_path / "u.ru").write_text("INSERT DATA { :a :p 1, 2 . :b :p 1 } ;\nDELETE WHERE { :a :p ?n }")
    given = ("-f", tmp_path / "u.ru", "--prefix-file", tmp_path / "p.ttl", "--peer", keeping_all[4].address)
    assert command("update", *given) == (0, "3 triples published, 2 triples deleted\n", "")
    code, out, _ = command("update", f"INSERT DATA {{ <{ns}a> <{ns}p> 3 }}", "--json", "--peer", keeping_all[0].address)
    assert (code, json.loads(out)) == (0, {"inserted": 1, "deleted": 0})


def test_a_named_subscription_that_begins_with_stored_data_goes_on_after_it(keeping_all, ns, tmp_path):
    """The stored answers are written once, through all restarts; another --since is another subscription."""
    output = tmp_path / "out.tsv"
    where = ("--state", tmp_path / "names", "--output", output, "--peer", keeping_all[1].address)
    arguments = ("subscribe", "--name", "n", *where)
    query = f"SELECT ?s ?m {{ ?s <{ns}p> <{ns}o> OPTIONAL {{ ?s <{ns}m> ?m }} }}"

    async def publish(triples):
        async with p2prdf.connect(keeping_all[0].address) as client:
            await client.publish(triples)

    asyncio.run(publish([(f"<{ns}s{n}>", f"<{ns}p>", f"<{ns}o>") for n in range(3)]))
    code, _, err = command(*arguments, query, "--since", "beginning", "--count", 3)
    assert code == 0, err
    code, _, err = command(*arguments, query)
    assert code == 4
    assert "stands for publications since the beginning, not publications since it was subscribed" in err
    asyncio.run(publish([(f"<{ns}s1>", f"<{ns}m>", '"mail"')]))
    code, _, err = command(*arguments, "--count", 2)
    assert code == 0, err
    header, *lines = output.read_text().splitlines()
    assert header == "?s\t?m"
    assert sorted(lines[:3]) == [f"<{ns}s{n}>\t" for n in range(3)]
    assert sorted(lines[3:]) == [f"-\t<{ns}s1>\t", f'<{ns}s1>\t"mail"']
    assert command("unsubscribe", "--name", "n", *where[:2], *where[4:])[0] == 0
