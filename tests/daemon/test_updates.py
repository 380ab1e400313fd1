"""SPARQL 1.1 Update through real nodes: W3C's cases, doors of commands and gateway, permissions, concurrency."""

from __future__ import annotations

import asyncio
import itertools
import json

import pytest
from commands import command
from gateways import gateway
from w3c_updates import ARCHIVE, cases, same_dataset

import p2prdf
from p2prdf.client import UpdateBounds, Updated
from p2prdf.errors import ChangedMeanwhile, LocalProtocolError
from p2prdf.gateway.access import read_tokens

_names = itertools.count()


@pytest.fixture
def ns():
    """A namespace of this test's own, as the overlay is shared."""
    return f"urn:updates{next(_names)}:"


def upsert(ns, value):
    """Return the update that replaces a value, or sets it."""
    triple = f"<{ns}t> <{ns}v>"
    return f"DELETE {{ {triple} ?old }} INSERT {{ {triple} {value} }} WHERE {{ OPTIONAL {{ {triple} ?old }} }}"


async def statements(client):
    """Return all statements of an overlay."""
    default, named = await asyncio.gather(
        client.query("SELECT ?s ?p ?o { ?s ?p ?o }"), client.query("SELECT ?s ?p ?o ?g { GRAPH ?g { ?s ?p ?o } }")
    )
    return {*default.rows, *named.rows}


@pytest.mark.skipif(not ARCHIVE.exists(), reason=f"the shared W3C suites are not at {ARCHIVE}")
@pytest.mark.long
async def test_w3c_cases_leave_the_published_dataset_in_a_node(launcher, capsys):
    """tests/conformance/test_w3c_updates.py executes them without nodes, in two seconds."""
    node = launcher.start(replicas=1, copies_min=1)
    wrong, right = [], 0
    async with p2prdf.connect(node.address) as client:
        for case in cases():
            if case.kind != "evaluation":
                continue
            if case.before:
                await client.publish(sorted(case.before))
            await client.update(case.text)
            if same_dataset(await statements(client), case.after):
                right += 1
            else:
                wrong.append(case.name)
            await client.update("CLEAR ALL")
    with capsys.disabled():
        print(f"\nW3C updates at a node: {right} right, {len(wrong)} wrong")
    assert wrong == []
    assert right == 94


async def test_an_upsert_is_followed_by_a_standing_query(keeping_all, ns):
    async with p2prdf.connect(keeping_all[0].address) as one, p2prdf.connect(keeping_all[3].address) as other:
        subscription = await one.subscribe(f"SELECT ?v {{ <{ns}t> <{ns}v> ?v }}")
        seen = []
        for value in (20, 21, 22):
            done = await other.update(upsert(ns, value))
            assert done == Updated(1, 1 if value > 20 else 0)
            while not seen or seen[-1] != (value, False):
                solution = await asyncio.wait_for(anext(subscription), 30)
                seen.append((solution.value("v"), solution.removed))
        # A replaced value is retracted before its successor arrives.
        assert seen == [(20, False), (20, True), (21, False), (21, True), (22, False)]


async def test_an_update_with_too_many_solutions_changes_nothing(keeping_all, ns):
    async with p2prdf.connect(keeping_all[4].address) as client:
        await client.publish((f"<{ns}{n}>", f"<{ns}p>", n) for n in range(3000))
        text = f"INSERT DATA {{ <{ns}a> <{ns}q> 1 }} ; DELETE WHERE {{ ?s <{ns}p> ?o }}"
        with pytest.raises(p2prdf.QueryRefused, match="more than 2,999 solutions"):
            await client.update(text.partition(" ; ")[2], bounds=UpdateBounds(solutions_max=2999))
        assert len(await client.query(f"SELECT ?s {{ ?s <{ns}p> ?o }}")) == 3000
        assert await client.update(text, bounds=UpdateBounds(3000, 3000)) == Updated(1, 3000)
        assert not await client.query(f"ASK {{ ?s <{ns}p> ?o }}")


async def test_operations_of_an_update_see_each_other_at_all_nodes(keeping_all, ns):
    text = f"""PREFIX : <{ns}>
        INSERT DATA {{ GRAPH :g {{ :a :p :b . :b :p :c }} }} ;
        INSERT {{ GRAPH :h {{ ?x :far ?z }} }} WHERE {{ GRAPH :g {{ ?x :p ?y . ?y :p ?z }} }} ;
        MOVE :g TO :moved ; COPY :h TO :copied ; CLEAR GRAPH :h ;
        DELETE {{ ?x :p ?y }} USING :moved WHERE {{ ?x :p ?y }} ;
        WITH :moved DELETE {{ ?x :p :c }} INSERT {{ ?x :q ?n }}
        WHERE {{ {{ SELECT (COUNT(*) AS ?n) {{ ?s :p ?o }} }} ?x :p :c }}
    """
    for node in keeping_all[:2]:
        async with p2prdf.connect(node.address) as client:
            await client.update(text)
            own = f"FILTER(STRSTARTS(STR(?g), '{ns}'))"
            result = await client.query(f"SELECT ?g ?s ?p ?o {{ GRAPH ?g {{ ?s ?p ?o }} {own} }}")
            two = '"2"^^<http://www.w3.org/2001/XMLSchema#integer>'
            assert {tuple(term.replace(ns, "") for term in row) for row in result.rows} == {
                ("<moved>", "<a>", "<p>", "<b>"), ("<moved>", "<b>", "<q>", two), ("<copied>", "<a>", "<far>", "<c>"),
            }  # fmt: skip


async def test_concurrent_updates_of_one_value_leave_values_that_someone_wrote(keeping_all, ns):
    """They do not lock each other, so several values may remain; a later update replaces all of them."""
    query = f"SELECT ?v {{ <{ns}t> <{ns}v> ?v }}"
    clients = [await p2prdf.connect(node.address) for node in keeping_all]
    try:
        await asyncio.gather(*(client.update(upsert(ns, n)) for n, client in enumerate(clients)))
        found = {row.value("v") for row in await clients[0].query(query)}
        assert found
        assert found <= set(range(5))
        assert await clients[2].update(upsert(ns, 9)) == Updated(1, len(found))
        assert [row.value("v") for row in await clients[4].query(query)] == [9]
    finally:
        for client in clients:
            await client.close()


def test_the_command_executes_updates(keeping_all, ns, tmp_path):
    node = keeping_all[1]
    (tmp_path / "u.ru").write_text(
        f"PREFIX : <{ns}> INSERT DATA {{ :a :p 1 }} ;\n"
        "DELETE { ?s :p ?o } INSERT { ?s :q ?o } WHERE { ?s :p ?o }"
    )
    code, out, err = command("update", "-f", tmp_path / "u.ru", "--json", "--peer", node.address)
    assert (code, json.loads(out), err) == (0, {"inserted": 2, "deleted": 1}, "")
    code, out, err = command("update", f"COPY <{ns}none> TO <{ns}g>", "--peer", node.address)
    assert (code, out) == (4, "")
    assert "COPY SILENT" in err
    code, out, err = command("update", "LOAD <http://127.0.0.1:9/d.ttl>", "--peer", node.address)
    assert (code, out) == (4, "")
    assert "--load-from" in err
    load = ("update", "LOAD <http://127.0.0.1:9/d.ttl>", "--load-from", "127.0.0.1")
    code, out, err = command(*load, "--peer", node.address)
    assert (code, out) == (4, "")
    assert "private networks are not permitted" in err


async def test_the_gateway_executes_updates_and_chooses_graphs_by_parameters(keeping_all, ns):
    text = f"PREFIX : <{ns}> INSERT {{ ?s :q ?o }} WHERE {{ ?s :p ?o }}"
    async with gateway(keeping_all[2].address) as (session, _):
        graphs = "GRAPH :g { :a :p 1 } GRAPH :h { :b :p 2 }"
        data = {"update": f"PREFIX : <{ns}> INSERT DATA {{ {graphs} }}"}
        async with session.post("/sparql", data=data) as answer:
            assert (answer.status, await answer.json()) == (200, {"inserted": 2, "deleted": 0})
        for parameters, inserted in (
            ([("using-graph-uri", f"{ns}g")], 1), ([("using-graph-uri", f"{ns}g"), ("using-graph-uri", f"{ns}h")], 2),
            ([("using-named-graph-uri", f"{ns}g")], 0), ([("using-graph-uri", "")], 0),
        ):  # fmt: skip
            async with session.post("/sparql", data=[("update", text), *parameters]) as answer:
                assert (answer.status, (await answer.json())["inserted"]) == (200, inserted)
            kind = {"Content-Type": "application/sparql-update"}
            async with session.post("/sparql", data=text, params=parameters, headers=kind) as answer:
                assert (answer.status, (await answer.json())["inserted"]) == (200, inserted)
        for parameters, construct in (
            ([("update", f"WITH <{ns}g> {text.partition('> ')[2]}".replace(":q", f"<{ns}q>").replace(":p", f"<{ns}p>")),
              ("using-graph-uri", f"{ns}g")], "WITH"),
            ([("update", text), ("default-graph-uri", f"{ns}g")], "default-graph-uri"),
            ([("query", "ASK {}"), ("using-graph-uri", f"{ns}g")], "using-graph-uri"),
            ([("update", "LOAD <http://127.0.0.1:9/>")], "LOAD"),
            ([("update", f"CREATE GRAPH <{ns}g>")], "CREATE"),
        ):  # fmt: skip
            async with session.post("/sparql", data=parameters) as answer:
                assert (answer.status, (await answer.json())["construct"]) == (400, construct)


async def test_a_token_without_read_executes_updates_that_read_nothing(keeping_all, ns, tmp_path):
    file = tmp_path / "tokens"
    file.write_text("write-only-token-1 write\nread-write-token-1 read,write\n")
    file.chmod(0o600)
    texts = {
        f"INSERT DATA {{ <{ns}a> <{ns}p> 1 }} ; DELETE DATA {{ <{ns}b> <{ns}p> 1 }}": 200,
        f"INSERT {{ <{ns}a> <{ns}p> 2 }} WHERE {{ }}": 200,
        f"INSERT {{ <{ns}a> <{ns}p> 2 }} WHERE {{ <{ns}a> <{ns}p> 1 }}": 403,
        f"DELETE WHERE {{ <{ns}a> ?p ?o }}": 403, f"CLEAR GRAPH <{ns}g>": 403, f"ADD SILENT <{ns}g> TO <{ns}h>": 403,
    }  # fmt: skip
    async with gateway(keeping_all[2].address, tokens=read_tokens(file)) as (session, _):
        for token, expected in (("write-only-token-1", texts), ("read-write-token-1", dict.fromkeys(texts, 200))):
            for text, status in expected.items():
                headers = {"Authorization": f"Bearer {token}"}
                async with session.post("/sparql", data={"update": text}, headers=headers) as answer:
                    assert answer.status == status, (text, await answer.text())


async def test_concurrent_conditional_writers_lose_no_update(overlay, ns):
    """8 writers count together, at the nodes by turns."""
    target, subject, value = 30, f"<{ns}counter>", f"<{ns}value>"
    refused = done = 0

    async def write(node):
        nonlocal refused, done
        async with p2prdf.connect(node) as client:
            while True:
                result = await client.query(f"SELECT ?v {{ {subject} {value} ?v }}")
                if len(result) != 1:
                    continue  # a transaction after the stamp was under way
                (row,) = result
                if row.value("v") >= target:
                    return
                try:
                    async with client.transaction(if_unchanged=result.stamp) as transaction:
                        transaction.retract([(subject, value, row.value("v"))])
                        transaction.publish([(subject, value, row.value("v") + 1)])
                    done += 1
                except ChangedMeanwhile as error:
                    refused += error.present > error.expected

    nodes = itertools.islice(itertools.cycle(each.address for each in overlay), 8)
    async with asyncio.timeout(240), p2prdf.connect(overlay[0].address) as client:
        await client.publish([(subject, value, 0)])
        async with asyncio.TaskGroup() as tasks:
            for node in nodes:
                tasks.create_task(write(node))
        ((last,),) = (await client.query(f"SELECT ?v {{ {subject} {value} ?v }}")).rows
    assert done == target
    assert last.startswith(f'"{target}"')
    assert refused > 0, "the writers compete"


async def test_a_conditional_update_reads_and_writes_without_a_change_in_between(overlay, ns):
    subject, value = f"<{ns}s>", f"<{ns}v>"
    add = (
        f"DELETE {{ {subject} {value} ?old }} INSERT {{ {subject} {value} ?new }}"
        f" WHERE {{ {subject} {value} ?old BIND(?old + 1 AS ?new) }}"
    )

    async def write(node):
        async with p2prdf.connect(node) as client:
            for _ in range(3):
                while True:
                    try:
                        await client.update(add, if_unchanged="read")
                        break
                    except ChangedMeanwhile:
                        continue

    async with asyncio.timeout(120), p2prdf.connect(overlay[0].address) as client:
        await client.publish([(subject, value, 0)])
        await asyncio.gather(*(write(each.address) for each in overlay))
        ((last,),) = (await client.query(f"SELECT ?v {{ {subject} {value} ?v }}")).rows
    assert last.startswith(f'"{3 * len(overlay)}"')


def test_commands_give_a_stamp_and_take_it_as_a_condition(overlay, ns):
    node, text = overlay[0].address, f"SELECT ?v {{ <{ns}s> <{ns}v> ?v }}"
    code, _, said = command("query", "--peer", node, "--stamp", text)
    assert code == 0
    stamp = said.rsplit("stamp ", 1)[1].split()[0]
    add = f"INSERT DATA {{ <{ns}s> <{ns}v> 1 }}"
    conditional = "update", "--peer", node, "--if-unchanged", stamp, add
    assert command(*conditional)[0] == 0
    code, _, said = command(*conditional)
    assert code != 0
    assert "may have changed" in said


async def test_a_publication_takes_a_condition(overlay, ns):
    async def given():
        yield (f"<{ns}c>", f"<{ns}p>", 2)

    async with asyncio.timeout(60), p2prdf.connect(overlay[0].address) as client:
        await client.publish([(f"<{ns}c>", f"<{ns}p>", 1)])
        stamp = (await client.query(f"SELECT ?n {{ <{ns}c> <{ns}p> ?n }}")).stamp
        assert await client.publish(given(), if_unchanged=stamp) == 1
        with pytest.raises(ChangedMeanwhile):
            await client.publish([(f"<{ns}c>", f"<{ns}p>", 3)], if_unchanged=stamp)
        with pytest.raises(LocalProtocolError, match="one transaction"):
            await client.publish([(f"<{ns}c>", f"<{ns}p>", 3)], if_unchanged=stamp, by_content=True)
        found = await client.query(f"SELECT ?n {{ <{ns}c> <{ns}p> ?n }} ORDER BY ?n")
        assert [row.value("n") for row in found] == [1, 2]
