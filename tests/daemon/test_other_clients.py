"""Foreign clients, unchanged: rdflib's stores, SEPA's two clients, Comunica.

rdflib is among our dependencies.  The others are used where they are installed (Node.js finds packages by
NODE_PATH). The requests of SEPA's clients are also spelled out here, so that they are tested without an
installation.
"""

from __future__ import annotations

import asyncio
import importlib.util
import itertools
import json
import os
import shutil
import subprocess

import pytest
from gateways import gateway
from rdflib import BNode, Graph, Literal, URIRef
from rdflib.plugins.stores.sparqlstore import SPARQLStore, SPARQLUpdateStore

SECONDS = 60.0
_names = itertools.count()


@pytest.fixture
def ns():
    """A namespace of this test's own, as the overlay is shared."""
    return f"urn:others{next(_names)}:"


def addresses(session):
    """Return the URLs of queries and updates, and of subscriptions."""
    base = str(session._base_url).rstrip("/")
    return f"{base}/sparql", f"{base.replace('http', 'ws')}/subscribe"


def missing(package):
    """Return whether Node.js, or a package of it, is not here."""
    if shutil.which("node") is None:
        return True
    asked = ["node", "-e", f"require.resolve({json.dumps(package)})"]
    return subprocess.run(asked, capture_output=True, check=False, timeout=SECONDS).returncode != 0


async def run_node(script, *words):
    """Run a script, and return the JSON values that it writes, a line each."""
    process = await asyncio.create_subprocess_exec(
        "node", "-e", script, *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=os.environ
    )
    async with asyncio.timeout(SECONDS):
        out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return [json.loads(line) for line in out.decode().splitlines()]


# --- rdflib --------------------------------------------------------------------------------------


async def test_rdflib_store_adds_removes_and_reads(keeping_all, ns):
    a, b, p, q = (URIRef(ns + name) for name in "abpq")
    async with gateway(keeping_all[2].address) as (session, _):
        url, _ = addresses(session)

        def work():
            graph = Graph(SPARQLUpdateStore(url, url, context_aware=False))
            graph.add((a, p, Literal("1", lang="de")))
            for number in range(3):
                graph.add((b, p, Literal(number)))
            assert (a, p, Literal("1", lang="de")) in graph
            assert sorted(graph.objects(b, p)) == [Literal(number) for number in range(3)]
            assert {s for s, _, _ in graph.triples((None, p, None))} == {a, b}
            asked = graph.query("SELECT ?o { ?s ?p ?o FILTER(?o > 0) }", initNs={"x": ns}, initBindings={"p": p})
            assert sorted(row.o for row in asked) == [Literal(1), Literal(2)]
            assert bool(graph.query("ASK { ?s x:p 2 }", initNs={"x": ns}))
            graph.remove((b, p, Literal(1)))
            assert sorted(graph.objects(b, p)) == [Literal(0), Literal(2)]
            graph.set((b, p, Literal(7)))
            assert list(graph.objects(b, p)) == [Literal(7)]
            graph.update(f"DELETE WHERE {{ <{b}> <{p}> ?o }} ; INSERT DATA {{ <{b}> <{q}> 'x' }}")
            graph.remove((None, p, None))
            assert list(graph.triples((None, p, None))) == []
            assert list(graph.subjects(q)) == [b]
            for wanted in ("json", "xml", "csv", "tsv"):
                reader = SPARQLStore(url, returnFormat=wanted)
                assert [str(row.s) for row in reader.query(f"SELECT ?s {{ ?s <{q}> ?o }}")] == [str(b)]
            built = SPARQLStore(url).query(f"CONSTRUCT {{ ?s <{p}> ?o }} WHERE {{ ?s <{q}> ?o }}").graph
            assert list(built) == [(b, p, Literal("x"))]

        await asyncio.to_thread(work)


async def test_context_aware_rdflib_store_writes_graphs_and_reads_them(keeping_all, ns):
    a, p, name = URIRef(ns + "a"), URIRef(ns + "p"), URIRef(ns + "g")
    async with gateway(keeping_all[2].address) as (session, _):
        url, _ = addresses(session)

        def work():
            store = SPARQLUpdateStore(url, url)
            graph = Graph(store, identifier=name)

            def found():
                return sorted(row.o for row in store.query(f"SELECT ?o {{ GRAPH <{name}> {{ <{a}> <{p}> ?o }} }}"))

            graph.add((a, p, Literal(1)))
            graph.addN([(a, p, Literal(number), graph) for number in (2, 3)])
            assert found() == [Literal(1), Literal(2), Literal(3)]
            assert not store.query(f"ASK {{ <{a}> <{p}> ?o }}").askAnswer, "they are in their graph alone"
            graph.remove((a, p, Literal(2)))
            assert found() == [Literal(1), Literal(3)]
            graph.remove((a, None, None))
            assert found() == []
            graph.add((a, p, Literal(4)))
            assert list(graph) == [(a, p, Literal(4))], "the store names the graph by default-graph-uri"
            store.remove_graph(graph)
            assert list(graph) == []
            with pytest.raises(Exception, match="does not support BNodes"):
                graph.add((BNode(), p, Literal(1)))

        await asyncio.to_thread(work)


# --- SEPA ----------------------------------------------------------------------------------------


async def test_requests_of_sepa_s_python_client_are_answered_as_it_expects(keeping_all, ns):
    """As sepy 0.43 does it: only 200 is success, and each message is a notification or ``unsubscribed``."""
    async with gateway(keeping_all[0].address) as (session, _), session.ws_connect("/subscribe") as socket:
        headers = {"Accept": "application/sparql-results+json"}
        update, query = ({**headers, "Content-Type": f"application/sparql-{each}"} for each in ("update", "query"))
        text = f'INSERT DATA {{ <{ns}a> <{ns}p> "1" }}'
        async with session.post("/sparql", data=text.encode(), headers=update) as answer:
            assert answer.status == 200
        async with session.post("/sparql", data=f"SELECT * {{ ?s <{ns}p> ?o }}", headers=query) as answer:
            assert answer.status == 200
            assert "error" not in json.loads(await answer.text())
        await socket.send_json({"subscribe": {"sparql": f"SELECT ?o {{ ?s <{ns}p> ?o }}", "alias": "mine"}})
        told = (await socket.receive_json(timeout=SECONDS))["notification"]
        assert told["sequence"] == 0
        assert told["addedResults"]["results"]["bindings"] == [{"o": {"type": "literal", "value": "1"}}]
        assert told["removedResults"]["results"]["bindings"] == []
        await socket.send_json({"unsubscribe": {"spuid": told["spuid"], "authorization": "Bearer x"}})
        assert "unsubscribed" in await socket.receive_json(timeout=SECONDS)


async def test_requests_of_sepa_s_javascript_client_are_answered_as_it_expects(keeping_all, ns):
    """As sepa-js 0.13 does it: options of HTTP go along with every message."""
    options = {"httpsAgent": {"keepAlive": True}, "headers": {}}
    async with gateway(keeping_all[0].address) as (session, _), session.ws_connect("/subscribe") as socket:
        await socket.send_json({"subscribe": {"sparql": f"SELECT ?o {{ ?s <{ns}p> ?o }}", "alias": "k3", **options}})
        told = (await socket.receive_json(timeout=SECONDS))["notification"]
        assert (told["alias"], told["sequence"]) == ("k3", 0)
        await socket.send_json({"unsubscribe": {"spuid": told["spuid"], "alias": "k3", **options}})
        assert (await socket.receive_json(timeout=SECONDS))["unsubscribed"]["spuid"] == told["spuid"]


@pytest.mark.skipif(importlib.util.find_spec("sepy") is None, reason="the package sepy is not installed")
async def test_sepa_s_python_client(keeping_all, ns):
    from sepy.SEPA import SEPA

    async with gateway(keeping_all[0].address) as (session, _):
        url, socket = addresses(session)
        told, loop = asyncio.Queue(), asyncio.get_running_loop()

        def work():
            client = SEPA()
            client.sparql_update(f'INSERT DATA {{ <{ns}a> <{ns}p> "1" }}', host=url)
            found = client.sparql_query(f"SELECT ?o {{ ?s <{ns}p> ?o }}", host=url)
            assert found["results"]["bindings"] == [{"o": {"type": "literal", "value": "1"}}]

            def heard(added, removed):
                loop.call_soon_threadsafe(told.put_nowait, (len(added), len(removed)))

            client.sparql_subscribe(f"SELECT ?o {{ ?s <{ns}p> ?o }}", "x", heard, host=socket)
            client.sparql_update(f'DELETE DATA {{ <{ns}a> <{ns}p> "1" }}', host=url)

        await asyncio.to_thread(work)
        async with asyncio.timeout(SECONDS):
            assert [await told.get() for _ in range(2)] == [(1, 0), (0, 1)]


SEPA_SCRIPT = """
const { SEPA } = require("@arces-wot/sepa-js");
const [port, ns] = process.argv.slice(1);
const sparql = { path: "/sparql", method: "POST", format: "JSON" };
const client = new SEPA({
  host: "127.0.0.1", sparql11protocol: { protocol: "http", port, query: sparql, update: sparql },
  sparql11seprotocol: { protocol: "ws", availableProtocols: { ws: { port, path: "/subscribe" } } },
  options: { httpsAgent: require("https").globalAgent },
});
const say = (value) => console.log(JSON.stringify(value));
const subscription = client.subscribe(`SELECT ?o { ?s <${ns}p> ?o }`);
subscription.on("error", (told) => { throw new Error(JSON.stringify(told)); });
subscription.on("subscribed", async () => {
  say((await client.update(`INSERT DATA { <${ns}a> <${ns}p> "1" }`)).status);
});
subscription.on("notification", async (told) => {
  const rows = (which) => told[which].results.bindings.map((row) => row.o.value);
  if (told.sequence === 0) return;
  say([rows("addedResults"), rows("removedResults")]);
  if (told.sequence === 1) await client.update(`DELETE DATA { <${ns}a> <${ns}p> "1" }`);
  else subscription.unsubscribe();
});
subscription.on("unsubscribed", () => { say("unsubscribed"); setImmediate(() => process.exit(0)); });
"""


@pytest.mark.skipif(missing("@arces-wot/sepa-js"), reason="the package @arces-wot/sepa-js is not where Node.js looks")
async def test_sepa_s_javascript_client(keeping_all, ns):
    async with gateway(keeping_all[0].address) as (session, _):
        told = await run_node(SEPA_SCRIPT, str(session._base_url.port), ns)
    assert sorted(told, key=str) == sorted([200, [["1"], []], [[], ["1"]], "unsubscribed"], key=str)


# --- Comunica ------------------------------------------------------------------------------------

COMUNICA_SCRIPT = """
const { QueryEngine } = require("@comunica/query-sparql");
const [url, ns] = process.argv.slice(1);
const say = (value) => console.log(JSON.stringify(value));
(async () => {
  const engine = new QueryEngine();
  const source = { type: "sparql", value: url };
  const read = { sources: [source] }, write = { ...read, destination: source };
  await engine.queryVoid(`INSERT DATA { <${ns}a> <${ns}p> 1 . <${ns}a> <${ns}q> <${ns}b> }`, write);
  const joined = `SELECT ?o ?b { ?s <${ns}p> ?o . ?s <${ns}q> ?b FILTER(?o > 0) }`;
  const rows = await (await engine.queryBindings(joined, read)).toArray();
  say(rows.map((row) => [row.get("o").value, row.get("b").value]));
  const built = `CONSTRUCT { ?s <${ns}r> ?o } WHERE { ?s <${ns}p> ?o }`;
  say((await (await engine.queryQuads(built, read)).toArray()).map((quad) => quad.predicate.value));
  say(await engine.queryBoolean(`ASK { <${ns}a> <${ns}p> ?o }`, read));
  await engine.queryVoid(`DELETE DATA { <${ns}a> <${ns}p> 1 }`, write);
  await engine.invalidateHttpCache();
  say(await engine.queryBoolean(`ASK { <${ns}a> <${ns}p> ?o }`, read));
  process.exit(0);
})().catch((error) => { console.error(error); process.exit(1); });
"""


@pytest.mark.skipif(missing("@comunica/query-sparql"), reason="@comunica/query-sparql is not where Node.js looks")
async def test_comunica_asks_and_updates(keeping_all, ns):
    async with gateway(keeping_all[0].address) as (session, _):
        told = await run_node(COMUNICA_SCRIPT, addresses(session)[0], ns)
    assert told == [[["1", f"{ns}b"]], [f"{ns}r"], True, False]
