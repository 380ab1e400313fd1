// Without a gateway: parsing, and a server of this process that breaks off where a gateway would rarely do so.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import test from "node:test";

import { Busy, Gateway, NotAllowed, QueryRefused, SubscriptionGone, Unavailable } from "../src/index.js";
import { EventParser } from "../src/events.js";
import { bindingsOf, termOf } from "../src/terms.js";

const LITERAL = { type: "literal", value: "x" };
const PAUSES = { pausesMs: /** @type {[number, number]} */ ([1, 5]) };

/** Serve each request of a list by its own handler, and the last one for all others; return URL, requests, stop. */
async function serving(...handlers) {
  const requests = [];
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const part of request) body += part;
    requests.push({ method: request.method, url: request.url, headers: request.headers, body });
    await handlers[Math.min(requests.length, handlers.length) - 1](response, request);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const stop = () => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  };
  return { url: `http://127.0.0.1:${server.address().port}/base`, requests, stop };
}

const opened = (id) => `event: opened\nid: ${id}\ndata: {"subscription":"5b","vars":["n"]}\n\n`;
const rows = (numbers) => ({
  head: { vars: ["n"] },
  results: { bindings: numbers.map((n) => ({ n: { type: "literal", value: String(n) } })) },
});
const notification = (id, added, removed = []) => {
  const data = JSON.stringify({ addedResults: rows(added), removedResults: rows(removed) });
  return `event: notification\nid: ${id}\ndata: ${data}\n\n`;
};
const stream = (...parts) => (response) => {
  response.writeHead(200, { "Content-Type": "text/event-stream" });
  for (const part of parts) response.write(part);
  return response;
};
const cut = (...parts) => (response) => {
  stream(...parts)(response);
  setTimeout(() => response.destroy(), 20);
};
const problem = (status, code, more = {}) => (response) => {
  const headers = status === 503 ? { "Retry-After": "0" } : {};
  response.writeHead(status, { "Content-Type": "application/problem+json", ...headers });
  response.end(JSON.stringify({ title: "T", status, code, detail: `refused as ${code}`, ...more }));
};
const values = (bindings) => bindings.map((row) => row.n.value);

test("events are parsed at any cut, with any line end, and an incomplete event is dropped", () => {
  const lines = ["\uFEFFevent: a", "id: 1", "data: x", "data:  y", "", ": comment", "data", "", "id: 2", "data: cut"];
  const expected = [{ name: "a", id: "1", data: "x\n y" }, { name: "message", id: undefined, data: "" }];
  for (const end of ["\n", "\r\n", "\r"]) {
    const bytes = new TextEncoder().encode(lines.join(end) + end);
    for (let at = 0; at <= bytes.length; at += 1) {
      const [parser, decoder] = [new EventParser(), new TextDecoder()];
      const parts = [bytes.slice(0, at), bytes.slice(at)].map((part) => decoder.decode(part, { stream: true }));
      const found = parts.flatMap((part) => parser.push(part));
      assert.deepEqual(found, expected, `${JSON.stringify(end)} at ${at}`);
    }
  }
});

test("terms have the properties of RDF/JS", () => {
  const iri = termOf({ type: "uri", value: "urn:a" });
  assert.equal(iri.termType, "NamedNode");
  assert.ok(iri.equals({ termType: "NamedNode", value: "urn:a" }));
  assert.ok(!iri.equals(null) && !iri.equals(termOf({ type: "bnode", value: "urn:a" })));
  assert.equal(termOf(LITERAL).datatype.value, "http://www.w3.org/2001/XMLSchema#string");
  const tagged = termOf({ ...LITERAL, "xml:lang": "de" });
  assert.deepEqual([tagged.language, tagged.direction, tagged.datatype.value.split("#")[1]], ["de", "", "langString"]);
  assert.ok(!tagged.equals(termOf(LITERAL)));
  const directed = termOf({ ...LITERAL, "xml:lang": "he", "its:dir": "rtl" });
  assert.deepEqual([directed.direction, directed.datatype.value.split("#")[1]], ["rtl", "dirLangString"]);
  const [subject, predicate] = ["urn:s", "urn:p"].map((value) => ({ type: "uri", value }));
  const parts = { subject, predicate, object: LITERAL };
  const quad = termOf({ type: "triple", value: parts });
  assert.ok(quad.equals(termOf({ type: "triple", value: parts })));
  assert.equal(quad.graph.termType, "DefaultGraph");
  assert.throws(() => termOf({ type: "other", value: "" }), TypeError);
  const [row] = bindingsOf({ results: { bindings: [JSON.parse('{"__proto__": {"type": "uri", "value": "urn:x"}}')] } });
  assert.equal(Object.getOwnPropertyDescriptor(row, "__proto__").value.value, "urn:x");
});

test("a notification that is cut off comes again with the next connection, each change once", async () => {
  const whole = notification("t2", [2, 3], [1]);
  const server = await serving(
    cut(opened("t0"), notification("t1", [1]), whole.slice(0, -1)), // all but the end of the event
    problem(503, "busy"), (response) => response.destroy(),
    cut(opened("t1"), "event: leaving\ndata: {}\n\n"),
    stream(opened("t1"), whole, notification("t3", [4])));
  try {
    const reasons = [];
    const gateway = new Gateway(server.url, { token: async () => "secret" });
    const onReconnect = (error) => reasons.push(error.constructor);
    const subscription = await gateway.subscribe("Q", { since: "beginning", leaseSeconds: 7, onReconnect, ...PAUSES });
    assert.deepEqual([subscription.id, subscription.variables, subscription.token], ["5b", ["n"], "t0"]);
    const found = [];
    for await (const change of subscription) {
      found.push([values(change.added), values(change.removed), change.token]);
      assert.equal(subscription.token, change.token);
      if (found.length === 3) break;
    }
    assert.deepEqual(found, [[["1"], [], "t1"], [["2", "3"], ["1"], "t2"], [["4"], [], "t3"]]);
    assert.deepEqual(reasons, [Unavailable, Busy, Unavailable, Unavailable]);
    const [first, ...others] = server.requests;
    assert.deepEqual([first.method, first.url, first.body], ["POST", "/base/events?since=beginning&lease=7", "Q"]);
    assert.deepEqual(others.map((each) => [each.method, each.headers["last-event-id"]]), Array(4).fill(["GET", "t1"]));
    assert.ok(server.requests.every((each) => each.headers.authorization === "Bearer secret"));
    assert.deepEqual(await subscription.next(), { value: undefined, done: true });
  } finally {
    await server.stop();
  }
});

test("changes of a settled subscription are returned up to each mark, also over a new connection", async () => {
  const whole = opened("t0").replace("}", ',"settled":true}');
  const mark = (time) => `event: mark\ndata: {"time":${time}}\n\n`;
  const server = await serving(
    cut(whole, mark(1), mark(2), notification("t1", [1]), notification("t2", [2], [1])),
    stream(whole.replace("t0", "t2"), notification("t3", [3]), mark(3), mark(4), notification("t4", [], [3]), mark(5)));
  try {
    const subscription = await new Gateway(server.url).subscribe("Q", { settled: true, ...PAUSES });
    const found = [];
    while (found.length < 3) found.push((await subscription.next()).value);
    const told = found.map(({ added, removed, token, mark }) => [values(added), values(removed), token, mark]);
    assert.deepEqual(told, [[[], [], "t0", 1], [["1", "2", "3"], ["1"], "t3", 3], [[], ["3"], "t4", 5]]);
    subscription.close();
    assert.equal(server.requests[0].url, "/base/events?settled=true");
    assert.equal(server.requests[1].headers["last-event-id"], "t2");
  } finally {
    await server.stop();
  }
});

test("lost solutions are reported once, although a new connection reports them again", async () => {
  const gap = (lost) => `event: gap\ndata: {"lost":${lost}}\n\n`;
  const server = await serving(
    cut(opened("t0"), gap(3)), cut(opened("t0"), gap(5)),
    stream(opened("t0"), gap(5), notification("t1", [1]), gap(2)));
  try {
    const subscription = await new Gateway(server.url).subscribe(null, { resume: "t0", ...PAUSES });
    const found = [];
    while (found.length < 4) found.push((await subscription.next()).value);
    assert.deepEqual(found.map(({ lost, token }) => [lost, token]), [[3, "t0"], [2, "t0"], [0, "t1"], [2, "t1"]]);
    subscription.close();
    assert.equal(server.requests[0].headers["last-event-id"], "t0");
  } finally {
    await server.stop();
  }
});

test("a subscription that is gone ends the iteration with its error, after the changes before", async () => {
  const server = await serving(cut(opened("t0"), notification("t1", [1])), problem(410, "subscription-gone"));
  try {
    const subscription = await new Gateway(server.url).subscribe("Q", PAUSES);
    await new Promise((resolve) => setTimeout(resolve, 100));
    assert.deepEqual(values((await subscription.next()).value.added), ["1"]);
    await assert.rejects(subscription.next(), (error) => error instanceof SubscriptionGone && error.status === 410);
    assert.equal((await subscription.next()).done, true);
    assert.equal(server.requests.length, 2);
  } finally {
    await server.stop();
  }
});

test("a silent gateway, and one that stays away, end in an error after the stated seconds", async () => {
  const server = await serving(stream(opened("t0")), stream());
  try {
    const reasons = [];
    const onReconnect = (error) => reasons.push(error.message);
    const how = { silenceSeconds: 0.6, reconnectSeconds: 1, onReconnect, ...PAUSES };
    const subscription = await new Gateway(server.url).subscribe("Q", how);
    await assert.rejects(subscription.next(), Unavailable);
    assert.match(reasons[0], /silent for 0.6 s/);
    assert.ok(server.requests.length > 1);
  } finally {
    await server.stop();
  }
});

test("a signal ends a request, an opening, an iteration and a pause", async () => {
  let abort = new AbortController();
  const never = () => abort.abort();
  const server = await serving(
    never, never, stream(opened("t0"), notification("t1", [1])), cut(opened("t0")), problem(503, "busy"));
  try {
    const gateway = new Gateway(server.url);
    for (const start of [(signal) => gateway.query("Q", { signal }), (signal) => gateway.subscribe("Q", { signal })]) {
      abort = new AbortController();
      await assert.rejects(start(abort.signal), { name: "AbortError" });
    }
    for (const pausesMs of [[1, 1], [60_000, 60_000]]) {
      abort = new AbortController();
      const subscription = await gateway.subscribe("Q", { signal: abort.signal, pausesMs });
      setTimeout(() => abort.abort(new Error("enough")), 50);
      await assert.rejects(async () => {
        for await (const _ of subscription);
      }, { message: "enough" });
    }
    await assert.rejects(gateway.subscribe("Q", { signal: AbortSignal.abort() }), { name: "AbortError" });
    assert.equal(server.requests.length, 4);
  } finally {
    await server.stop();
  }
});

test("reading ahead stops at its bound until the caller takes changes", async () => {
  const many = Array.from({ length: 200 }, (_, at) => notification(`t${at + 1}`, [at]));
  const server = await serving(async (response) => {
    stream(opened("t0"))(response);
    for (const each of many) {
      response.write(each);
      await new Promise((resolve) => setImmediate(resolve));
    }
  });
  try {
    const subscription = await new Gateway(server.url).subscribe("Q", { readAheadMax: 10 });
    const found = [];
    for await (const { added } of subscription) {
      found.push(...values(added));
      if (found.length === 200) break;
    }
    assert.deepEqual(found, Array.from({ length: 200 }, (_, at) => String(at)));
  } finally {
    await server.stop();
  }
});

test("refusals are errors by code, with the place in the query; a proxy's page is an error by status", async () => {
  const page = (response) => response.writeHead(502, "Bad Gateway").end("<html>");
  const server = await serving(
    problem(400, "query-refused", { construct: "SERVICE", line: 2, column: 9 }), problem(401, "request-refused"),
    problem(503, "busy"), page);
  const gateway = new Gateway(server.url);
  try {
    await assert.rejects(gateway.query("Q"), (error) => {
      assert.ok(error instanceof QueryRefused);
      assert.deepEqual([error.construct, error.line, error.column, error.transient], ["SERVICE", 2, 9, false]);
      assert.equal(error.message, "refused as query-refused");
      return true;
    });
    await assert.rejects(gateway.update("U"), (error) => error instanceof NotAllowed && error.status === 401);
    await assert.rejects(gateway.publish("D"), (error) => error instanceof Busy && error.retryAfterSeconds === 0);
    await assert.rejects(gateway.retract("D"), { status: 502, message: "Bad Gateway", transient: true });
  } finally {
    await server.stop();
  }
  await assert.rejects(gateway.query("Q"), (error) => error instanceof Unavailable && error.status === 0);
});

test("a long event in many pieces costs its length", () => {
  const parser = new EventParser();
  const [piece, count] = ["x".repeat(1 << 14), 2000]; // 32 Mi characters: joined for each piece it would take minutes
  parser.push("data: ");
  for (let at = 0; at < count; at += 1) assert.deepEqual(parser.push(piece), []);
  const [event] = parser.push("\n\n");
  assert.equal(event.data.length, piece.length * count);
  assert.throws(() => {
    for (let at = 0; at <= 4 * count + 100; at += 1) parser.push(piece);
  }, /more than/);
});

test("a caller that takes nothing for longer than reconnectSeconds continues after a broken connection", async () => {
  const server = await serving(
    cut(opened("t0"), notification("t1", [1, 2]), notification("t2", [3])), stream(opened("t2"), notification("t3", [4])));
  try {
    const how = { readAheadMax: 1, reconnectSeconds: 0.2, ...PAUSES };
    const subscription = await new Gateway(server.url).subscribe("Q", how);
    await new Promise((resolve) => setTimeout(resolve, 400));
    const found = [];
    for await (const { added } of subscription) {
      found.push(...values(added));
      if (found.includes("4")) break;
    }
    assert.ok(found.length >= 3, found.join());
  } finally {
    await server.stop();
  }
});

test("an error of the caller's function ends the iteration with it", async () => {
  const server = await serving(cut(opened("t0")), stream(opened("t0")));
  try {
    const onReconnect = () => {
      throw new RangeError("mine");
    };
    const subscription = await new Gateway(server.url).subscribe("Q", { onReconnect, ...PAUSES });
    await assert.rejects(subscription.next(), { name: "RangeError", message: "mine" });
    assert.equal((await subscription.next()).done, true);
  } finally {
    await server.stop();
  }
});

test("reports of losses wait in memory up to the same bound", async () => {
  const gap = (lost) => `event: gap\ndata: {"lost":${lost}}\n\n`;
  const server = await serving(async (response) => {
    stream(opened("t0"))(response);
    for (let at = 0; at < 50; at += 1) {
      response.write(gap(1));
      await new Promise((resolve) => setImmediate(resolve));
    }
    response.write(notification("t1", [7]));
  });
  try {
    const subscription = await new Gateway(server.url).subscribe("Q", { readAheadMax: 3 });
    const found = [];
    for await (const change of subscription) {
      found.push(change.lost);
      if (change.added.length) break;
    }
    assert.deepEqual(found, [...Array(50).fill(1), 0]);
  } finally {
    await server.stop();
  }
});

test("an endless Retry-After does not exceed reconnectSeconds, and its pause is a pause", async () => {
  const busy = (response) => response.writeHead(503, { "Retry-After": "1e300" }).end("{}");
  const server = await serving(cut(opened("t0")), busy);
  try {
    const pauses = [];
    const onReconnect = (_, pauseMs) => pauses.push(pauseMs);
    const how = { reconnectSeconds: 0.5, onReconnect, ...PAUSES };
    const subscription = await new Gateway(server.url).subscribe("Q", how);
    await assert.rejects(subscription.next(), { status: 503 });
    assert.ok(pauses.every((each) => each <= 500), pauses.join());
    assert.ok(server.requests.length <= 4, `${server.requests.length} requests`);
  } finally {
    await server.stop();
  }
});

test("a token in the URL is refused, and a code of a property of objects is a plain error", async () => {
  assert.throws(() => new Gateway("http://user:secret@127.0.0.1/"), (error) => !error.message.includes("secret"));
  const server = await serving(problem(400, "constructor"));
  try {
    await assert.rejects(new Gateway(server.url).query("Q"), { name: "GatewayError", code: "constructor" });
  } finally {
    await server.stop();
  }
});
