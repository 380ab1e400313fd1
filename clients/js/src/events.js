// Server-sent events over fetch: EventSource cannot send a bearer token.

import { unreachable } from "./errors.js";

const EVENT_CHARACTERS_MAX = 1 << 26;

/** @typedef {{ name: string, id: string | undefined, data: string }} ServerEvent */

/** Parses server-sent events from pieces of text (HTML standard, 9.2.6); an event that is cut off is dropped. */
export class EventParser {
  /** Pieces of the line that has not ended yet: they are joined once, so a long line costs its length. */
  /** @type {string[]} */
  #rest = [];
  #endsWithReturn = false;
  #name = "";
  /** @type {string | undefined} */
  #id;
  /** @type {string[]} */
  #data = [];
  #characters = 0;

  /**
   * Return the events that a piece of text completes.
   * @param {string} text
   * @returns {ServerEvent[]}
   */
  push(text) {
    // A carriage return at the end may be the first half of a line end: it waits for the next piece.
    if (text === "") return [];
    const lines = (this.#endsWithReturn ? "\r" + text : text).split(/\r\n|\n|\r(?!$)/);
    let last = /** @type {string} */ (lines.pop());
    this.#endsWithReturn = last.endsWith("\r");
    if (this.#endsWithReturn) last = last.slice(0, -1);
    if (lines.length) {
      lines[0] = this.#rest.join("") + lines[0];
      this.#rest = [];
    }
    this.#rest.push(last);
    this.#characters += text.length;
    if (this.#characters > EVENT_CHARACTERS_MAX) {
      throw unreachable(`an event has more than ${EVENT_CHARACTERS_MAX} characters`);
    }
    const found = [];
    for (const line of lines) {
      const event = this.#line(line);
      if (event) found.push(event);
    }
    return found;
  }

  /** @param {string} line */
  #line(line) {
    if (line === "") {
      const event = { name: this.#name || "message", id: this.#id, data: this.#data.join("\n") };
      const complete = this.#data.length > 0;
      this.#name = "";
      this.#id = undefined;
      this.#data = [];
      this.#characters = 0;
      return complete ? event : null;
    }
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (field === "event") this.#name = value;
    else if (field === "data") this.#data.push(value);
    else if (field === "id" && !value.includes("\0")) this.#id = value;
    return null;
  }
}

/** One connection that delivers events, with a bound on its silence: the gateway sends a comment every 15 s. */
export class EventStream {
  /** @type {ReadableStreamDefaultReader<Uint8Array>} */
  #reader;
  #decoder = new TextDecoder();
  #parser = new EventParser();
  /** @type {ServerEvent[]} */
  #events = [];
  #silenceMs;

  /**
   * @param {Response} response
   * @param {number} silenceMs
   */
  constructor(response, silenceMs) {
    if (!response.body) throw unreachable("the response has no body");
    this.#reader = response.body.getReader();
    this.#silenceMs = silenceMs;
  }

  /**
   * Return the next event; null after a part without a complete event, such as a comment.
   * Throws Unavailable if the connection ends, fails or is silent for too long.
   * @returns {Promise<ServerEvent | null>}
   */
  async next() {
    const waiting = this.#events.shift();
    if (waiting) return waiting;
    const { done, value } = await this.#read();
    if (done) throw unreachable("the gateway has ended the event stream");
    this.#events = this.#parser.push(this.#decoder.decode(value, { stream: true }));
    return this.#events.shift() ?? null;
  }

  async #read() {
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    let timer;
    const silence = new Promise((_, reject) => {
      const reason = `the gateway was silent for ${this.#silenceMs / 1000} s`;
      timer = setTimeout(() => reject(unreachable(reason)), this.#silenceMs);
    });
    try {
      return /** @type {ReadableStreamReadResult<Uint8Array>} */ (await Promise.race([this.#reader.read(), silence]));
    } catch (error) {
      throw error instanceof Error && "transient" in error ? error : unreachable("the event stream broke off", error);
    } finally {
      clearTimeout(timer);
    }
  }
}
