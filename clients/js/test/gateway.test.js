// Against real gateways. P2PRDF_GATEWAY is the command that starts one, as a JSON list, without --listen.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { createInterface } from "node:readline";
import test, { after, before } from "node:test";

import { DataRefused, Gateway, QueryRefused, TokenMismatch } from "../src/index.js";

const COMMAND = JSON.parse(process.env.P2PRDF_GATEWAY ?? "null");
const skip = COMMAND ? false : "P2PRDF_GATEWAY names no command of a gateway";
const NS = `urn:js${process.pid}:`;

async function freePort() {
  const server = createServer();
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** Start a gateway in a process of its own, and return it with its URL. */
async function started(port) {
  const [program, ...words] = COMMAND;
  const child = spawn(program, [...words, "--listen", `127.0.0.1:${port}`], { stdio: ["ignore", "pipe", "inherit"] });
  const [line] = await once(createInterface(child.stdout), "line");
  assert.match(line, /^ready http/);
  return { child, url: line.split(" ")[1] };
}

async function kill({ child }) {
  if (child.exitCode === null && child.signalCode === null) {
    child.kill("SIGKILL");
    await once(child, "exit");
  }
}

const statements = (name, numbers) => numbers.map((n) => `<${NS}${name}> <${NS}p> "${n}" .\n`).join("");
const values = (bindings) => bindings.map((row) => Number(row.o.value));
const range = (from, to) => Array.from({ length: to - from }, (_, at) => from + at);
const select = (name) => `SELECT ?o { <${NS}${name}> <${NS}p> ?o }`;

/** Two gateways of one overlay; tests kill the second one. */
let [one, two] = [];

before(async () => {
  if (COMMAND) [one, two] = await Promise.all([started(0), freePort().then(started)]);
});
after(() => Promise.all([one, two].filter(Boolean).map(kill)));

test("a gateway publishes, answers, updates and refuses", { skip, timeout: 100_000 }, async () => {
  const gateway = new Gateway(one.url);
  const data = `@prefix x: <${NS}> . x:a x:p 1, "zwei"@de, x:b ; x:q _:b .`;
  const acknowledged = { statements: 4, acknowledged: "indexed" };
  assert.deepEqual(await gateway.publish(data, { idempotencyKey: `${NS}1` }), acknowledged);
  assert.deepEqual(await gateway.publish(data, { idempotencyKey: `${NS}1` }), acknowledged);
  const found = await gateway.query(`SELECT ?o ?none { <${NS}a> ?p ?o }`, { timeoutSeconds: 20 });
  assert.equal(found.type, "bindings");
  assert.deepEqual(found.variables, ["o", "none"]);
  assert.deepEqual(found.bindings.map(({ o, none }) => [o.termType, none]).sort(),
    [["BlankNode", undefined], ["Literal", undefined], ["Literal", undefined], ["NamedNode", undefined]]);
  assert.deepEqual(await gateway.query(`ASK { <${NS}a> <${NS}p> "zwei"@de }`), { type: "boolean", value: true });
  const inGraph = { contentType: "application/n-triples", graph: `${NS}g` };
  await gateway.publish(statements("g", [1]), inGraph);
  const graph = await gateway.query(`CONSTRUCT { ?s ?p ?o } WHERE { GRAPH <${NS}g> { ?s ?p ?o } }`);
  assert.deepEqual(graph, { type: "graph", ntriples: `<${NS}g> <${NS}p> "1" .\n` });
  await gateway.retract(statements("g", [1]), inGraph);
  assert.equal((await gateway.query(`ASK { GRAPH <${NS}g> { ?s ?p ?o } }`)).value, false);
  const update = `DELETE { ?s <${NS}p> 1 } INSERT { ?s <${NS}p> 2, 3 } WHERE { ?s <${NS}p> 1 }`;
  assert.deepEqual(await gateway.update(update), { inserted: 2, deleted: 1 });
  const malformed = gateway.query("SELECT * {\n ?s ?p }");
  await assert.rejects(malformed, (error) => error instanceof QueryRefused && error.line === 2);
  await assert.rejects(gateway.publish("<urn:a> ."), (error) => error instanceof DataRefused && error.status === 400);
});

test("a subscriber gets each change once over a kill of its gateway", { skip, timeout: 100_000 }, async () => {
  const publisher = new Gateway(one.url);
  await publisher.publish(statements("k", range(0, 2000)));
  const reconnected = [];
  const subscription = await new Gateway(two.url).subscribe(select("k"), {
    since: "beginning", pausesMs: [50, 500], onReconnect: (error) => reconnected.push(error),
  });
  const [added, removed] = [[], []];
  const killed = (async () => {
    while (added.length < 300) await new Promise((resolve) => setTimeout(resolve, 5));
    await kill(two); // in the middle of a burst
    await publisher.publish(statements("k", range(2000, 2500)));
    await publisher.retract(statements("k", range(0, 100)));
    two = await started(new URL(two.url).port);
    await publisher.publish(statements("k", range(2500, 3000)));
  })();
  for await (const change of subscription) {
    assert.equal(change.lost, 0);
    added.push(...values(change.added));
    removed.push(...values(change.removed));
    await new Promise((resolve) => setTimeout(resolve, 20)); // slower than the gateway
    if (added.length >= 3000 && removed.length >= 100) break;
  }
  await killed;
  assert.deepEqual(added.sort((a, b) => a - b), range(0, 3000));
  assert.deepEqual(removed.sort((a, b) => a - b), range(0, 100));
  assert.ok(reconnected.length > 0);
});

test("another process goes on after a stored token, at another gateway", { skip, timeout: 100_000 }, async () => {
  const [first, second] = [two, one].map(({ url }) => new Gateway(url));
  const subscription = await first.subscribe(select("t"));
  await first.publish(statements("t", [1]));
  const { value } = await subscription.next();
  assert.deepEqual(values(value.added), [1]);
  await first.publish(statements("t", [2])); // arrives, is not taken, and comes again
  subscription.close();
  await kill(two);
  await second.publish(statements("t", [3]));
  await assert.rejects(second.subscribe(select("u"), { resume: value.token }), TokenMismatch);
  const resumed = await second.subscribe(select("t"), { resume: value.token });
  assert.equal(resumed.id, subscription.id);
  const found = [];
  for await (const { added } of resumed) {
    found.push(...values(added));
    if (found.length === 2) break;
  }
  assert.deepEqual(found.sort(), [2, 3]);
});

test("a settled subscriber gets states alone, over a kill and in another process", { skip, timeout: 100_000 },
  async () => {
    if (two.child.exitCode !== null || two.child.signalCode !== null) two = await started(new URL(two.url).port);
    const [publisher, query] = [new Gateway(one.url), select("v").replace("}", "OPTIONAL { ?o <urn:none> ?z } }")];
    const replace = (n) => publisher.update(
      `DELETE DATA { <${NS}v> <${NS}p> "${n - 1}" } ; INSERT DATA { <${NS}v> <${NS}p> "${n}" }`);
    const follow = async (subscription, held, states, last) => {
      for await (const { added, removed } of subscription) {
        for (const value of values(removed)) assert.ok(held.delete(value) || values(added).includes(value));
        for (const value of values(added)) if (!values(removed).includes(value)) held.add(value);
        states.push([...held]);
        if (held.size === 1 && held.has(last)) break;
      }
    };
    const options = { pausesMs: [50, 500] };
    const settled = await new Gateway(two.url).subscribe(query, { settled: true, ...options });
    const immediate = await publisher.subscribe(query, { settled: false, ...options });
    const [first, held, states, others] = [(await settled.next()).value, new Set(), [], []];
    assert.deepEqual([first.added, first.removed, first.mark > 1e9], [[], [], true]);
    await publisher.publish(statements("v", [0]));
    const followed = Promise.all([
      follow(settled, held, states, 12), follow(immediate, new Set(), others, 12),
    ]);
    for (let n = 1; n <= 12; n += 1) {
      await replace(n);
      if (n === 6) {
        await kill(two);
        two = await started(new URL(two.url).port);
      }
    }
    await followed;
    for (let n = 13; n <= 18; n += 1) await replace(n);
    await follow(await publisher.subscribe(null, { resume: settled.token }), held, states, 18);
    assert.ok(states.every((each) => each.length === 1), JSON.stringify(states));
    assert.ok(others.some((each) => each.length !== 1));
  });
