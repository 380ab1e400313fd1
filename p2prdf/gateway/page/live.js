// Answers of one standing query as they come and go, over WebSocket.
//
// Each notification is acknowledged when it is counted here, and carries a token: after a connection that broke off the
// page goes on behind the last one it counted, so each answer counts once.

import { byId, clock, el, number, Pages, replace, table, tiles, unseen } from "./dom.js";
import { Problem, subscribeUrl, token } from "./gateway.js";
import { columnsOf, prefixesOf } from "./terms.js";

const CHANGES_MAX = 500;
const SOLUTIONS_MAX = 10_000;
const LEASE_SECONDS = 60;
const PAUSE_MS = [500, 10000];

export class Live {
  /** `failed(problem, query)` is called when the query is refused, `changed(live)` when its state is another. */
  constructor({ failed, changed }) {
    this.failed = failed;
    this.changed = changed;
    this.socket = null;
    this.state = "";
    this.drawn = false;
    this.pages = new Pages(byId("live-table"), (solutions) => this.table(solutions));
    byId("live-pause").addEventListener("click", () => this.pause());
    byId("live-stop").addEventListener("click", () => this.stop());
    addEventListener("pagehide", () => this.stop());
  }

  get going() {
    return this.query !== undefined && this.state !== "stopped";
  }

  follow(query, since) {
    this.stop();
    Object.assign(this, {
      query, since, prefixes: prefixesOf(query), names: [], changes: [], held: [], added: 0, removed: 0, lost: 0, solutions: new Map(), omitted: 0, paused: false, resume: null, spuid: null, tries: 0,
    });
    byId("live").hidden = false;
    byId("live-query").textContent = query;
    this.open();
  }

  open() {
    this.say(this.resume ? "reconnecting" : "opening");
    const socket = (this.socket = new WebSocket(subscribeUrl()));
    socket.addEventListener("open", () => {
      const what = this.resume ? { resume: this.resume } : { sparql: this.query, since: this.since, acknowledge: true };
      const held = token();
      socket.send(JSON.stringify({ subscribe: { ...what, lease: LEASE_SECONDS, ...(held ? { authorization: `Bearer ${held}` } : {}) } }));
      // With `now` nothing may come for long, so that is no sign of being heard; what is refused is told.
      this.heard = setTimeout(() => this.socket === socket && this.say("following"), 1000);
    });
    socket.addEventListener("message", (event) => this.socket === socket && this.take(JSON.parse(event.data)));
    socket.addEventListener("close", () => {
      if (this.socket !== socket) return;
      this.socket = null;
      const pause = Math.min(PAUSE_MS[1], PAUSE_MS[0] * 2 ** this.tries);
      this.tries += 1;
      this.say("reconnecting");
      this.again = setTimeout(() => this.open(), pause);
    });
  }

  take(message) {
    if (message.error && message.status_code === 503) {
      this.socket.close(); // a node or the gateway leaves: it goes on elsewhere
      return;
    }
    if (message.error) {
      this.end();
      this.say("stopped");
      this.clear();
      this.failed(new Problem({ title: "Refused", status: message.status_code, code: message.error, detail: message.error_description, line: message.line, column: message.column }), this.query);
      return;
    }
    if (message.gap) {
      this.lost += message.gap.lost;
    } else if (message.notification) {
      const { addedResults, removedResults, sequence, spuid, token: resume } = message.notification;
      Object.assign(this, { spuid, resume, tries: 0, names: addedResults.head.vars });
      this.socket.send(JSON.stringify({ acknowledge: { spuid, sequence } }));
      const when = new Date();
      const change = (kind) => (row) => ({ kind, when, row });
      const came = [...addedResults.results.bindings.map(change("added")), ...removedResults.results.bindings.map(change("removed"))];
      for (const row of addedResults.results.bindings) this.count(row, 1);
      for (const row of removedResults.results.bindings) this.count(row, -1);
      this.added += addedResults.results.bindings.length;
      this.removed += removedResults.results.bindings.length;
      this.held = [...this.held, ...came].slice(-CHANGES_MAX);
      this.say("following");
    }
    this.show();
  }

  /** Count a solution in the table; solutions are a bag, and with `now` one that was never seen may go. */
  count(row, by) {
    const key = JSON.stringify(this.names.map((name) => row[name] ?? null));
    const held = this.solutions.get(key) ?? { row, count: 0 };
    held.count += by;
    if (held.count === 0) this.solutions.delete(key);
    else if (this.solutions.has(key) || this.solutions.size < SOLUTIONS_MAX) this.solutions.set(key, held);
    else this.omitted += 1;
  }

  /** Return the table of solutions; solutions of which there are several have their number. */
  table(solutions) {
    const several = solutions.some((each) => each.count > 1) && { title: "Times", class: "right", cell: (each) => number(each.count) };
    return table([...this.columns(), ...(several ? [several] : [])], solutions, { caption: "Solutions that are true now" });
  }

  /** Return the columns of solutions, for rows that hold one as `row`. */
  columns() {
    if (!this.names.length) return [{ title: "Answer", cell: () => "true" }];
    return columnsOf(this.names, this.prefixes).map((column) => ({ ...column, cell: (each) => column.cell(each.row) }));
  }

  /** Take what was followed before off the page, unless it is followed still. */
  clear() {
    if (!this.going) byId("live").hidden = true;
  }

  pause() {
    if (!this.going) return;
    this.paused = !this.paused;
    this.say(this.state);
    this.show();
  }

  stop() {
    if (!this.going) return;
    if (this.socket?.readyState === WebSocket.OPEN && this.spuid) this.socket.send(JSON.stringify({ unsubscribe: { spuid: this.spuid } }));
    this.end();
    this.paused = false;
    this.say("stopped");
    this.show();
  }

  end() {
    const socket = this.socket;
    this.socket = null;
    clearTimeout(this.again);
    clearTimeout(this.heard);
    socket?.close();
  }

  say(state) {
    this.state = state;
    const shown = this.paused ? "paused" : state;
    const place = byId("live-state");
    if (place.textContent !== shown) place.textContent = shown;
    place.className = `pill ${{ following: "here", paused: "warn", reconnecting: "missing" }[shown] ?? "left"}`;
    const button = byId("live-pause");
    button.textContent = this.paused ? "Resume" : "Pause";
    button.setAttribute("aria-pressed", String(this.paused));
    button.disabled = byId("live-stop").disabled = state === "stopped";
    this.changed(this);
  }

  /** Draw with the next picture, however many notifications come before it. */
  show() {
    if (this.drawn) return;
    this.drawn = true;
    requestAnimationFrame(() => {
      this.drawn = false;
      this.draw();
    });
  }

  draw() {
    replace(byId("live-counts"), tiles([
      ["True now", number(this.added - this.removed)], ["Came", number(this.added)], ["Were withdrawn", number(this.removed)],
      ...(this.paused ? [["Came while paused", number(this.held.length) + (this.held.length === CHANGES_MAX ? "+" : ""), "warn"]] : []),
    ]));
    byId("live-gap").hidden = !this.lost;
    byId("live-gap").textContent = `${number(this.lost)} answers were dropped at the query's home before they came here.`;
    this.changed(this);
    if (this.paused) return;
    this.changes = [...this.changes, ...this.held].slice(-CHANGES_MAX);
    this.held = [];
    const rows = [...this.changes].reverse();
    const columns = [
      { title: unseen("Change"), class: "sign", cell: (each) => (each.kind === "added" ? ["+", unseen("came")] : ["−", unseen("was withdrawn")]) },
      { title: "Time", class: "time", cell: (each) => clock(each.when) },
      ...this.columns(),
    ];
    this.pages.show([...this.solutions.values()].filter((each) => each.count > 0));
    byId("live-omitted").hidden = !this.omitted;
    byId("live-omitted").textContent = `The table holds ${number(SOLUTIONS_MAX)} different solutions; others came after them.`;
    const more = this.added + this.removed - rows.length;
    replace(byId("live-changes"), rows.length
      ? [table(columns, rows, { caption: "Changes, newest first", rowAttributes: (each) => ({ class: each.kind }) }),
        more > 0 ? el("p", { class: "muted pad" }, `The last ${number(rows.length)} changes; ${number(more)} before them.`) : ""]
      : el("p", { class: "muted pad" }, this.going ? "No answer yet. What is published now will show here." : "No answer came."));
  }
}
