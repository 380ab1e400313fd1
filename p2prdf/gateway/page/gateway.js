// The gateway's paths, with the token that was typed in.

const KEY = "p2prdf-token";
const RESULT_BYTES_MAX = 16 << 20;
const BASE = new URL(".", document.baseURI);

/** What the gateway refused, or why it cannot be reached: RFC 9457, as far as it tells one. */
export class Problem extends Error {
  constructor({ title = "", status = 0, code = "", detail = "", line, column }) {
    super(detail || title || "the gateway gave no reason");
    Object.assign(this, { title: title || "Failed", status, code, line, column });
  }
}

export function token() {
  return sessionStorage.getItem(KEY) ?? "";
}

export function setToken(text) {
  if (text) sessionStorage.setItem(KEY, text);
  else sessionStorage.removeItem(KEY);
}

async function ask(path, { method = "GET", headers = {}, body, signal } = {}) {
  const held = token();
  let response;
  try {
    response = await fetch(new URL(path, BASE), {
      method, body, signal, cache: "no-store", credentials: "omit", redirect: "error", referrerPolicy: "no-referrer",
      headers: held ? { ...headers, Authorization: `Bearer ${held}` } : headers,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem({ title: "Not reached", code: "unreachable", detail: "The gateway does not answer." });
  }
  if (response.ok) return response;
  let told = {};
  try {
    told = JSON.parse(await text(response, 1 << 20));
  } catch {
    // what stands between, such as a proxy, may tell something else
  }
  throw new Problem({ title: response.statusText, status: response.status, ...told });
}

/** Return the body of an answer, up to so many bytes. */
async function text(response, most) {
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let found = "";
  let size = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return found + decoder.decode();
    size += value.length;
    if (size > most) {
      await reader.cancel();
      throw new Problem({ title: "Too large", code: "too-large", detail: `The result is larger than ${most >> 20} MiB, which is more than this page reads. Ask with LIMIT.` });
    }
    found += decoder.decode(value, { stream: true });
  }
}

async function json(path, options) {
  return JSON.parse(await text(await ask(path, options), RESULT_BYTES_MAX));
}

const QUERY = { "Content-Type": "application/sparql-query" };

export function ring(signal) {
  return json("ring", { signal });
}

export function subscriptions(signal) {
  return json("subscriptions", { signal });
}

export function explainSubscription(number, signal) {
  return json(`explain?subscription=${encodeURIComponent(number)}`, { signal });
}

export function explainQuery(query, signal) {
  return json("explain", { method: "POST", headers: QUERY, body: query, signal });
}

/** Return the answer to a query: `{kind, ...}` of SELECT, ASK and CONSTRUCT. */
export async function run(query, signal) {
  const headers = { ...QUERY, Accept: "application/sparql-results+json, application/n-triples" };
  const response = await ask("sparql", { method: "POST", headers, body: query, signal });
  const body = await text(response, RESULT_BYTES_MAX);
  if (!(response.headers.get("Content-Type") ?? "").includes("json")) {
    return { kind: "construct", lines: body.split("\n").filter((line) => line) };
  }
  const told = JSON.parse(body);
  return "boolean" in told
    ? { kind: "ask", answer: told.boolean }
    : { kind: "select", names: told.head.vars, rows: told.results.bindings };
}

/** Execute an update; return the numbers of inserted and deleted statements. */
export function update(update, signal) {
  return json("sparql", { method: "POST", headers: { "Content-Type": "application/sparql-update" }, body: update, signal });
}

/** Return the result of a query in another format, of any size. */
export async function download(query, mediaType, signal) {
  const response = await ask("sparql", { method: "POST", headers: { ...QUERY, Accept: mediaType }, body: query, signal });
  return response.blob();
}

export function subscribeUrl() {
  const url = new URL("subscribe", BASE);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  return url;
}
