"""Foreign clients, unchanged: rdflib's stores, SPARQLWrapper, Jena, curl, SEPA's two clients, Comunica.

rdflib is among our dependencies.  ``make clients`` installs the others (:mod:`foreign_clients`).  The requests of
SEPA's clients are also spelled out here, so that they are tested without an installation.
"""

from __future__ import annotations

import asyncio
import gzip
import importlib.util
import itertools
import json
import shutil
import sys

import pytest
from foreign_clients import HERE, INSTALL, NODE, jena_jars, missing_package
from gateways import gateway
from programs import output_of
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


async def run_node(script, *words):
    """Run a script, and return the JSON values that it writes, a line each."""
    return [json.loads(line) for line in (await output_of("node", "-e", script, *words, environment=NODE)).splitlines()]


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


# --- SPARQLWrapper -------------------------------------------------------------------------------


@pytest.mark.skipif(importlib.util.find_spec("SPARQLWrapper") is None, reason=f"SPARQLWrapper is missing; {INSTALL}")
async def test_sparqlwrapper_asks_in_each_format_and_updates(keeping_all, ns):
    """In a process of its own: warnings are no errors there, and it warns of unclosed sockets and old names."""
    async with gateway(keeping_all[0].address) as (session, _):
        script = str(HERE / "sparqlwrapper_calls.py")
        assert (await output_of(sys.executable, script, addresses(session)[0], ns)).split() == ["done"]


# --- Jena ----------------------------------------------------------------------------------------

needs_jena = pytest.mark.skipif(jena_jars() is None, reason=f"Java or the jars of Jena are missing; {INSTALL}")


@needs_jena
async def test_jena_s_connection_queries_updates_and_moves_graphs(keeping_all, ns):
    async with gateway(keeping_all[0].address) as (session, _):
        base = str(session._base_url).rstrip("/")
        told = await output_of("java", "-cp", jena_jars(), str(HERE / "JenaConnection.java"), base, ns)
    steps = dict(line.split("\t") for line in told.splitlines())
    modes = ("asGetWithLimitForm", "asGetWithLimitBody", "asGetAlways", "asPostForm", "asPost")
    formats = ("application/sparql-results+json", "application/sparql-results+xml", "text/csv",
               "text/tab-separated-values")  # fmt: skip
    assert steps == {
        "insert": "2", "replace": "true", "construct": "2", "describe": "3",
        **{f"mode {each}": "2" for each in modes}, **{f"format {each}": "2" for each in formats},
        "put": "2", "load": "4", "isomorphic": "true", "graph": "3", "put again": "1",
        "delete": "status 404", "delete again": "status 404", "load default": "true",
        "load dataset": "no failure", "fetch dataset": "status 400",
        "malformed query": "status 400", "refused update": "status 400",
    }  # fmt: skip


@needs_jena
async def test_jena_s_commands_query_and_update(keeping_all, ns):
    async with gateway(keeping_all[0].address) as (session, _):
        url, _ = addresses(session)

        async def command(name, *words, **how):
            return await output_of("java", "-cp", jena_jars(), f"arq.{name}", f"--service={url}", *words, **how)

        await command("rupdate", f"INSERT DATA {{ <{ns}a> <{ns}p> 1, 2 }}")
        await command("rupdate", f"DELETE {{ ?s ?p 2 }} INSERT {{ ?s ?p 3 }} WHERE {{ ?s ?p 2 ; <{ns}p> 1 }}")
        select = f"SELECT ?o {{ <{ns}a> <{ns}p> ?o }} ORDER BY ?o"
        assert (await command("rsparql", "--results=CSV", select)).split() == ["o", "1", "3"]
        posted = json.loads(await command("rsparql", "--post", "--results=JSON", select))
        assert [row["o"]["value"] for row in posted["results"]["bindings"]] == ["1", "3"]
        assert json.loads(await command("rsparql", "--results=JSON", f"ASK {{ <{ns}a> <{ns}p> 3 }}"))["boolean"]
        described = await command("rsparql", "--results=NT", f"DESCRIBE <{ns}a>")
        assert sorted(Graph().parse(data=described, format="nt").objects()) == [Literal(1), Literal(3)]
        refused = await command("rsparql", "SELECT * { SERVICE <http://127.0.0.1:9/> { ?s ?p ?o } }", fails=True)
        assert "400" in refused


# --- curl ----------------------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl on this machine")
async def test_curl_asks_updates_and_moves_graphs(keeping_all, ns, tmp_path):
    turtle, packed = tmp_path / "data.ttl", tmp_path / "data.nt.gz"
    turtle.write_text(f"<{ns}s> <{ns}p> 1, 2 .")
    packed.write_bytes(gzip.compress(f"<{ns}s> <{ns}p> <{ns}o> .\n".encode()))
    async with gateway(keeping_all[0].address) as (session, _):
        url, _ = addresses(session)
        graph = f"{url.removesuffix('/sparql')}/graphs?graph={ns}g"

        async def curl(*words, **how):
            return await output_of("curl", "--silent", "--show-error", "--max-time", str(int(SECONDS)), *words, **how)

        async def status(*words):
            return await curl("--output", str(tmp_path / "out"), "--write-out", "%{http_code}", *words)

        assert await status("--upload-file", str(turtle), "-H", "Content-Type: text/turtle", graph) == "201"
        assert await status("-F", f"file=@{turtle};type=text/turtle", graph) == "200"
        gzipped = ("-H", "Content-Type: application/n-triples", "-H", "Content-Encoding: gzip")
        assert await status("--data-binary", f"@{packed}", *gzipped, graph) == "200"
        assert len(Graph().parse(data=await curl("--compressed", graph), format="turtle")) == 3
        assert await status("--head", graph) == "200"
        select = f"SELECT ?o {{ GRAPH <{ns}g> {{ ?s ?p ?o FILTER isNumeric(?o) }} }} ORDER BY ?o"
        for words in (("--get",), ()):
            found = await curl(*words, "--data-urlencode", f"query={select}", "-H", "Accept: text/csv", url)
            assert found.split() == ["o", "1", "2"]
        assert await status("--data-urlencode", f"update=CLEAR GRAPH <{ns}g>", url) == "200"
        assert await status(graph) == "404"
        assert await status("-X", "DELETE", graph) == "404"
        assert "query-refused" in await curl("--data-urlencode", "query=SELECT", url)
        assert "error: 400" in await curl("--fail", "--data-urlencode", "query=SELECT", url, fails=True)


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


SEPY_SCRIPT = """
import os, queue, sys
from sepy.SEPA import SEPA

url, socket, ns = sys.argv[1:]
client, told = SEPA(), queue.Queue()
client.sparql_update(f'INSERT DATA {{ <{ns}a> <{ns}p> "1" }}', host=url)
print(client.sparql_query(f"SELECT ?o {{ ?s <{ns}p> ?o }}", host=url)["results"]["bindings"][0]["o"]["value"])
client.sparql_subscribe(
    f"SELECT ?o {{ ?s <{ns}p> ?o }}", "x", lambda added, removed: told.put((len(added), len(removed))), host=socket
)
client.sparql_update(f'DELETE DATA {{ <{ns}a> <{ns}p> "1" }}', host=url)
print([told.get(timeout=60) for _ in range(2)], flush=True)
os._exit(0)  # it has no call that ends its threads
"""


@pytest.mark.skipif(importlib.util.find_spec("sepy") is None, reason=f"the package sepy is missing; {INSTALL}")
async def test_sepa_s_python_client(keeping_all, ns):
    """In a process of its own: it never closes its sockets."""
    async with gateway(keeping_all[0].address) as (session, _):
        told = await output_of(sys.executable, "-c", SEPY_SCRIPT, *addresses(session), ns)
    assert told.splitlines() == ["1", "[(1, 0), (0, 1)]"]


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


@pytest.mark.skipif(missing_package("@arces-wot/sepa-js"), reason=f"@arces-wot/sepa-js is missing; {INSTALL}")
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


@pytest.mark.skipif(missing_package("@comunica/query-sparql"), reason=f"@comunica/query-sparql is missing; {INSTALL}")
async def test_comunica_asks_and_updates(keeping_all, ns):
    async with gateway(keeping_all[0].address) as (session, _):
        told = await run_node(COMUNICA_SCRIPT, addresses(session)[0], ns)
    assert told == [[["1", f"{ns}b"]], [f"{ns}r"], True, False]
