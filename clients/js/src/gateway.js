// Requests to the HTTP gateway.

import { errorOfResponse, unreachable } from "./errors.js";
import { Subscription } from "./subscription.js";
import { bindingsOf } from "./terms.js";

const QUERY = "application/sparql-query";

/**
 * The URL of a gateway, with a token for its requests.
 */
export class Gateway {
  #base;
  #token;
  #fetch;

  /**
   * @param {string | URL} url
   * @param {import("../index.d.ts").GatewayOptions} [options]
   */
  constructor(url, { token = "", fetch = globalThis.fetch } = {}) {
    this.#base = new URL(url);
    if (this.#base.username || this.#base.password) throw new TypeError("give the token as an option, not in the URL");
    if (!this.#base.pathname.endsWith("/")) this.#base.pathname += "/";
    this.#token = token;
    this.#fetch = fetch.bind(globalThis); // a browser's fetch refuses another `this`
  }

  /**
   * @param {import("../index.d.ts").Data} data
   * @param {import("../index.d.ts").PublishOptions} [options]
   */
  publish(data, { idempotencyKey, ...options } = {}) {
    return this.#change("publish", data, options, idempotencyKey);
  }

  /**
   * @param {import("../index.d.ts").Data} data
   * @param {import("../index.d.ts").ChangeOptions} [options]
   */
  retract(data, options = {}) {
    return this.#change("retract", data, options);
  }

  /**
   * @param {string} path
   * @param {import("../index.d.ts").Data} data
   * @param {import("../index.d.ts").ChangeOptions} options
   * @param {string} [key]
   */
  async #change(path, data, { contentType = "text/turtle", graph, level, signal }, key) {
    /** @type {Record<string, string>} */
    const headers = { "Content-Type": contentType };
    if (key !== undefined) headers["Idempotency-Key"] = key;
    return (await this.request(path, { parameters: { graph, level }, headers, body: data, signal })).json();
  }

  /**
   * @param {string} update
   * @param {import("../index.d.ts").RequestOptions} [options]
   */
  async update(update, { timeoutSeconds, signal } = {}) {
    const headers = { "Content-Type": "application/sparql-update", Accept: "application/json" };
    const parameters = { timeout: timeoutSeconds };
    return (await this.request("sparql", { parameters, headers, body: update, signal })).json();
  }

  /**
   * @param {string} query
   * @param {import("../index.d.ts").RequestOptions} [options]
   * @returns {Promise<import("../index.d.ts").QueryResult>}
   */
  async query(query, { timeoutSeconds, signal } = {}) {
    const headers = { "Content-Type": QUERY, Accept: "application/sparql-results+json, application/n-triples" };
    const parameters = { timeout: timeoutSeconds };
    const response = await this.request("sparql", { parameters, headers, body: query, signal });
    if (!(response.headers.get("Content-Type") ?? "").includes("json")) {
      return { type: "graph", ntriples: await response.text() };
    }
    const told = await response.json();
    return "boolean" in told
      ? { type: "boolean", value: told.boolean }
      : { type: "bindings", variables: told.head.vars, bindings: bindingsOf(told) };
  }

  /**
   * @param {string | null} query
   * @param {import("../index.d.ts").SubscribeOptions} [options]
   */
  subscribe(query, options = {}) {
    return Subscription.open(this, query, options);
  }

  /**
   * Send a request; return the response if it is a success. Throws GatewayError, or the reason of the signal.
   * @param {string} path
   * @param {{
   *   method?: string, parameters?: Record<string, string | number | undefined>, headers?: Record<string, string>,
   *   body?: import("../index.d.ts").Data, signal?: AbortSignal,
   * }} how
   */
  async request(path, { method = "POST", parameters = {}, headers = {}, body, signal }) {
    const url = new URL(path, this.#base);
    for (const [name, value] of Object.entries(parameters)) {
      if (value !== undefined) url.searchParams.set(name, String(value));
    }
    const token = typeof this.#token === "function" ? await this.#token() : this.#token;
    if (token) headers = { ...headers, Authorization: `Bearer ${token}` };
    let response;
    try {
      response = await this.#fetch(url, {
        method, headers, signal, body: /** @type {BodyInit | undefined} */ (body),
        cache: "no-store", credentials: "omit", redirect: "error",
      });
    } catch (error) {
      signal?.throwIfAborted();
      throw unreachable(`${url.origin} does not answer`, error);
    }
    if (!response.ok) throw await errorOfResponse(response);
    return response;
  }
}
