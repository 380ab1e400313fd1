// A standing query over server-sent events.
//
// Problem. A connection breaks at any point, and each change has to reach the caller once.
//
// Solution. Each notification carries the resume token after it. The position is the token of the last notification
// that arrived whole; a new connection continues after it, at any gateway of the overlay. A notification that was cut
// off is dropped with its connection, and comes again.
//
// The gateway counts changes as read that the system of this machine has confirmed, if 256 later ones are confirmed or
// 30 s have passed. The connection is therefore read ahead of the caller, so that few changes wait in buffers which
// break with it: up to `readAheadMax` solutions wait here, in the memory of the process.

import { errorOf, GatewayError, unreachable } from "./errors.js";
import { EventStream } from "./events.js";
import { bindingsOf } from "./terms.js";

const TIMER_MS_MAX = 2 ** 31 - 1; // a longer timer ends at once

/** @typedef {import("../index.d.ts").Change} Change */

/**
 * Return the number of solutions that a waiting change counts as; a report of losses counts as one.
 * @param {Change} change
 */
function weightOf({ added, removed }) {
  return Math.max(1, added.length + removed.length);
}

/** An open subscription; iterates over its changes. */
export class Subscription {
  /** @type {import("./gateway.js").Gateway} */
  #gateway;
  #options;
  /** The connection in use; aborting it ends it. */
  #connection = new AbortController();
  /** @type {Change[]} */
  #changes = [];
  #solutionsWaiting = 0;
  /** Token of the last change that arrived; `token` is that of the last one that the caller took. */
  #position = "";
  /** Lost solutions reported since `#position`, and how many of them a new connection reports again. */
  #lost = 0;
  #lostAgain = 0;
  /** With settled delivery: the changes since the last mark, and whether the next mark is returned without any. */
  #settled = false;
  #pending = { added: /** @type {Change["added"]} */ ([]), removed: /** @type {Change["removed"]} */ ([]) };
  #markDue = true;
  #ended = false;
  /** @type {unknown} */
  #error;
  /** @type {(() => void)[]} */
  #wakeups = [];
  #onAbort = () => this.#end(this.#options.signal?.reason, true);

  id = "";
  /** @type {string[]} */
  variables = [];
  token = "";

  /**
   * Open a subscription; `Gateway.subscribe` calls this.
   * @param {import("./gateway.js").Gateway} gateway
   * @param {string | null} query
   * @param {import("../index.d.ts").SubscribeOptions} options
   */
  static async open(gateway, query, options) {
    const subscription = new Subscription(gateway, options);
    await subscription.#start(query);
    return subscription;
  }

  /**
   * @param {import("./gateway.js").Gateway} gateway
   * @param {import("../index.d.ts").SubscribeOptions} options
   */
  constructor(gateway, options) {
    this.#gateway = gateway;
    this.#options = {
      silenceSeconds: 45, reconnectSeconds: 600, pausesMs: /** @type {[number, number]} */ ([500, 15000]),
      readAheadMax: 10_000, ...options,
    };
  }

  /** @param {string | null} query */
  async #start(query) {
    const { since, leaseSeconds, settled, resume, signal } = this.#options;
    signal?.throwIfAborted();
    signal?.addEventListener("abort", this.#onAbort);
    /** @type {Record<string, string>} */
    const headers = { "Content-Type": "application/sparql-query" };
    if (resume) headers["Last-Event-ID"] = resume;
    try {
      const parameters = { since, lease: leaseSeconds, settled: settled === undefined ? undefined : String(settled) };
      const stream = await this.#connect({ parameters, headers, body: query ?? undefined });
      signal?.throwIfAborted();
      this.token = this.#position;
      // An error of the caller's own functions ends the iteration, too.
      this.#run(stream).catch((error) => this.#end(error));
    } catch (error) {
      this.#end(undefined);
      signal?.throwIfAborted();
      throw error;
    }
  }

  /**
   * Connect and read the event `opened`.
   * @param {Parameters<import("./gateway.js").Gateway["request"]>[1]} how
   */
  async #connect(how) {
    const silenceMs = Math.min(this.#options.silenceSeconds * 1000, TIMER_MS_MAX);
    const connection = (this.#connection = new AbortController());
    const timer = setTimeout(() => connection.abort(unreachable(`no answer within ${silenceMs / 1000} s`)), silenceMs);
    try {
      const headers = { ...how.headers, Accept: "text/event-stream" };
      const response = await this.#gateway.request("events", { ...how, headers, signal: connection.signal });
      const stream = new EventStream(response, silenceMs);
      let opened = await stream.next();
      while (opened === null) opened = await stream.next();
      if (opened.name !== "opened") throw this.#failureOf(opened);
      const { subscription, vars, settled = false } = JSON.parse(opened.data);
      this.#settled = settled;
      this.id = subscription;
      this.variables = vars;
      this.#position = opened.id ?? this.#position;
      return stream;
    } finally {
      clearTimeout(timer);
    }
  }

  /** @param {import("./events.js").ServerEvent} event */
  #failureOf({ name, data }) {
    if (name === "error") return errorOf(JSON.parse(data));
    return unreachable(name === "leaving" ? "the gateway is stopping" : `unexpected event ${JSON.stringify(name)}`);
  }

  /**
   * Read connections, one after the other, until the end of the subscription.
   * @param {EventStream} stream
   */
  async #run(stream) {
    const [pauseFirst, pauseMax] = this.#options.pausesMs;
    let attempts = 0;
    /** Time of the first failure in a row: a caller may take nothing, or the machine may sleep, for long before it. */
    /** @type {number | undefined} */
    let failingSince;
    const heard = () => {
      attempts = 0;
      failingSince = undefined;
    };
    /** @type {EventStream | null} */
    let connected = stream;
    while (!this.#ended) {
      try {
        connected ??= await this.#connect({ method: "GET", headers: { "Last-Event-ID": this.#position } });
        await this.#read(connected, heard);
      } catch (error) {
        this.#connection.abort();
        connected = null;
        if (this.#ended) return;
        failingSince ??= performance.now();
        const seconds = (performance.now() - failingSince) / 1000;
        if (!(error instanceof GatewayError) || !error.transient || seconds >= this.#options.reconnectSeconds) {
          this.#end(error);
          return;
        }
        this.#lostAgain = this.#lost;
        const longest = Math.min(pauseMax, pauseFirst * 2 ** attempts);
        const asked = Math.max((error.retryAfterSeconds ?? 0) * 1000, longest * (0.5 + Math.random() / 2));
        const left = (this.#options.reconnectSeconds - seconds) * 1000;
        const pauseMs = Math.min(asked, left, TIMER_MS_MAX);
        attempts += 1;
        this.#options.onReconnect?.(error, pauseMs);
        await this.#pause(pauseMs);
      }
    }
  }

  /**
   * Take the events of a connection. Throws the reason of its end.
   * @param {EventStream} stream
   * @param {() => void} heard
   */
  async #read(stream, heard) {
    while (!this.#ended) {
      while (this.#solutionsWaiting >= this.#options.readAheadMax && !this.#ended) await this.#woken();
      const event = await stream.next();
      if (this.#ended) return;
      heard();
      if (event?.name === "notification") this.#notified(event);
      else if (event?.name === "mark") this.#marked(JSON.parse(event.data).time);
      else if (event?.name === "gap") this.#gap(JSON.parse(event.data).lost);
      else if (event) throw this.#failureOf(event);
    }
  }

  /** @param {import("./events.js").ServerEvent} event */
  #notified({ id, data }) {
    const { addedResults, removedResults } = JSON.parse(data);
    this.#position = id ?? this.#position;
    this.#lost = this.#lostAgain = 0;
    const [added, removed] = [bindingsOf(addedResults), bindingsOf(removedResults)];
    if (!this.#settled) {
      this.#put({ added, removed, lost: 0, token: this.#position });
      return;
    }
    for (const each of added) this.#pending.added.push(each);
    for (const each of removed) this.#pending.removed.push(each);
    this.#markDue = true;
  }

  /**
   * Return the changes since the last mark as one; marks without a change are skipped, except the first one.
   * @param {number} mark
   */
  #marked(mark) {
    if (!this.#markDue) return;
    const { added, removed } = this.#pending;
    this.#pending = { added: [], removed: [] };
    this.#markDue = false;
    this.#put({ added, removed, lost: 0, token: this.#position, mark });
  }

  /** @param {number} lost */
  #gap(lost) {
    const known = Math.min(lost, this.#lostAgain);
    this.#lostAgain -= known;
    if (lost === known) return;
    this.#lost += lost - known;
    this.#put({ added: [], removed: [], lost: lost - known, token: this.#position });
  }

  /** @param {Change} change */
  #put(change) {
    this.#changes.push(change);
    this.#solutionsWaiting += weightOf(change);
    this.#wake();
  }

  /**
   * Return the next change. Throws the error that ended the subscription, or the reason of the signal.
   * @returns {Promise<IteratorResult<Change, undefined>>}
   */
  async next() {
    for (;;) {
      const change = this.#changes.shift();
      if (change) {
        this.#solutionsWaiting -= weightOf(change);
        this.token = change.token;
        this.#wake();
        return { value: change, done: false };
      }
      if (this.#error !== undefined) {
        const error = this.#error;
        this.#error = undefined;
        throw error;
      }
      if (this.#ended) return { value: undefined, done: true };
      await this.#woken();
    }
  }

  /** @returns {Promise<IteratorResult<Change, undefined>>} */
  async return() {
    this.close();
    return { value: undefined, done: true };
  }

  [Symbol.asyncIterator]() {
    return this;
  }

  close() {
    this.#end(undefined, true);
  }

  /**
   * @param {unknown} error
   * @param {boolean} [atOnce] whether changes that the caller has not taken are dropped
   */
  #end(error, atOnce = false) {
    if (atOnce) {
      this.#changes = [];
      this.#solutionsWaiting = 0;
    }
    if (this.#ended) return;
    this.#ended = true;
    this.#error = error;
    this.#options.signal?.removeEventListener("abort", this.#onAbort);
    this.#connection.abort();
    this.#wake();
  }

  /** Wait until something has changed: changes that came or were taken, or the end. */
  #woken() {
    return /** @type {Promise<void>} */ (new Promise((resolve) => this.#wakeups.push(resolve)));
  }

  #wake() {
    for (const each of this.#wakeups.splice(0)) each();
  }

  /**
   * Wait for a time, or until the end of the subscription.
   * @param {number} ms
   */
  async #pause(ms) {
    let over = false;
    const timer = setTimeout(() => {
      over = true;
      this.#wake();
    }, ms);
    while (!over && !this.#ended) await this.#woken();
    clearTimeout(timer);
  }
}
