// The query box: ask once, follow, explain; what is wrong is shown where it is.

import { about, byId, el, number, plural, replace, table } from "./dom.js";
import { explainQuery, run } from "./gateway.js";
import { Live } from "./live.js";
import { explanation } from "./plan.js";
import { columnsOf, complaint, prefixesOf, wordAt } from "./terms.js";

const ROWS_MAX = 1000;
const KEPT = "p2prdf-query";
const EXAMPLE = "SELECT ?s ?p ?o\nWHERE { ?s ?p ?o }\nLIMIT 100\n";

export class QueryView {
  /** `members` returns those of the ring, `changed` is called with the live query when its state is another. */
  constructor(members, changed) {
    this.members = members;
    this.text = byId("query-text");
    this.asking = null;
    this.live = new Live({ failed: (problem, query) => this.complain(problem, query), changed });
    this.text.value = sessionStorage.getItem(KEPT) ?? EXAMPLE;
    this.text.addEventListener("input", () => {
      sessionStorage.setItem(KEPT, this.text.value);
      this.text.removeAttribute("aria-invalid");
    });
    this.text.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        this.run();
      }
    });
    byId("query-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.run();
    });
    byId("query-follow").addEventListener("click", () => {
      this.clear();
      this.live.follow(this.text.value, byId("query-since").value);
      this.live.show();
    });
    byId("query-explain").addEventListener("click", () => this.explain());
  }

  /** Take off the page what came of an earlier query; what is followed goes on. */
  clear() {
    this.asking?.abort();
    this.text.removeAttribute("aria-invalid");
    replace(byId("query-error"));
    replace(byId("query-result"));
    byId("query-result").removeAttribute("aria-busy");
    this.live.clear();
  }

  /** Ask something about the query that is typed in, and show what comes of it. */
  async about(work, waiting) {
    this.clear();
    const asking = (this.asking = new AbortController());
    const query = this.text.value;
    const place = byId("query-result");
    place.setAttribute("aria-busy", "true");
    replace(place, el("p", { class: "card pad muted", role: "status" }, waiting));
    try {
      const shown = await work(query, asking.signal);
      if (!asking.signal.aborted) replace(place, shown);
    } catch (problem) {
      if (asking.signal.aborted) return;
      replace(place);
      this.complain(problem, query);
    }
    place.removeAttribute("aria-busy");
  }

  run() {
    return this.about(async (query, signal) => {
      const began = performance.now();
      const answer = await run(query, signal);
      return result(answer, (performance.now() - began) / 1000, prefixesOf(query));
    }, "Asking …");
  }

  explain() {
    return this.about(async (query, signal) => explanation(await explainQuery(query, signal), this.members()), "Counting at the nodes …");
  }

  complain(problem, query) {
    replace(byId("query-error"), complaint(problem, query));
    if (problem.line && query === this.text.value) {
      const lines = query.split("\n").slice(0, problem.line - 1);
      const start = lines.reduce((sum, each) => sum + each.length + 1, 0) + (problem.column ?? 1) - 1;
      this.text.setAttribute("aria-invalid", "true");
      this.text.focus();
      this.text.setSelectionRange(start, start + wordAt(query, start).trimEnd().length);
    }
  }
}

function result(answer, seconds, prefixes) {
  const took = `in ${about(seconds)} s`;
  if (answer.kind === "ask") {
    return card(el("p", { class: "verdict", role: "status" }, answer.answer ? "Yes" : "No", el("small", {}, ` ${took}`)));
  }
  const rows = answer.kind === "select" ? answer.rows : answer.lines;
  const noun = answer.kind === "select" ? "solution" : "triple";
  const shown = rows.length > ROWS_MAX ? `, ${number(ROWS_MAX)} of them are shown` : "";
  const body = answer.kind === "select"
    ? table(columnsOf(answer.names, prefixes), rows.slice(0, ROWS_MAX), { caption: "Solutions" })
    : el("pre", { class: "triples" }, rows.slice(0, ROWS_MAX).join("\n"));
  return card(
    el("div", { class: "card-head" }, el("h2", {}, "Result"), el("p", { class: "muted", role: "status" }, `${plural(rows.length, noun)} ${took}${shown}`)),
    rows.length ? el("div", { class: "scroll", role: "region", "aria-label": "Result", tabindex: "0" }, body) : el("p", { class: "muted pad" }, "Nothing matches."));
}

function card(...children) {
  return el("div", { class: "card result" }, children);
}
