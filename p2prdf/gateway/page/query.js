// The query box: ask once, follow, explain; what is wrong is shown where it is.

import { about, byId, el, number, Pages, plural, replace, table } from "./dom.js";
import { Editor } from "./editor.js";
import { download, explainQuery, run, update } from "./gateway.js";
import { Live } from "./live.js";
import { explanation } from "./plan.js";
import { isUpdate } from "./sparql.js";
import { columnsOf, complaint, prefixesOf, wordAt } from "./terms.js";

const DOWNLOADS = {
  select: { CSV: ["text/csv", "csv"], TSV: ["text/tab-separated-values", "tsv"], JSON: ["application/sparql-results+json", "json"], XML: ["application/sparql-results+xml", "xml"] },
  construct: { "N-Triples": ["application/n-triples", "nt"], Turtle: ["text/turtle", "ttl"], "JSON-LD": ["application/ld+json", "jsonld"], "RDF/XML": ["application/rdf+xml", "rdf"] },
};
const KEPT = "p2prdf-query";
const EXAMPLE = "SELECT ?s ?p ?o\nWHERE { ?s ?p ?o }\nLIMIT 100\n";

export class QueryView {
  /** `members` returns those of the ring, `changed` is called with the live query when its state is another. */
  constructor(members, changed) {
    this.members = members;
    this.editor = new Editor();
    this.text = this.editor.text;
    this.asking = null;
    this.live = new Live({ failed: (problem, query) => this.complain(problem, query), changed });
    this.text.value = sessionStorage.getItem(KEPT) ?? EXAMPLE;
    this.text.addEventListener("input", () => {
      sessionStorage.setItem(KEPT, this.text.value);
      this.text.removeAttribute("aria-invalid");
      this.offer();
    });
    this.editor.colour();
    this.offer();
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

  /** Offer what the typed text can be asked for: an update is only executed. */
  offer() {
    const updates = isUpdate(this.text.value);
    byId("query-run").textContent = updates ? "Update …" : "Run once";
    byId("query-follow").disabled = byId("query-explain").disabled = byId("query-since").disabled = updates;
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
    if (isUpdate(this.text.value)) return this.update();
    return this.about(async (query, signal) => {
      const began = performance.now();
      const answer = await run(query, signal);
      return this.result(answer, (performance.now() - began) / 1000, query);
    }, "Asking …");
  }

  /** Execute an update after a confirmation. An update of nothing shows before it whether the token allows any. */
  update() {
    return this.about(async (text, signal) => {
      await update("INSERT DATA { }", signal);
      if (signal.aborted || !(await confirmed(text))) return "";
      const began = performance.now();
      const { inserted, deleted } = await update(text);
      const took = (performance.now() - began) / 1000;
      return card(el("p", { class: "verdict", role: "status" },
        `${plural(inserted, "statement")} inserted, ${number(deleted)} deleted`, el("small", {}, ` in ${about(took)} s`)));
    }, "Updating …");
  }

  explain() {
    return this.about(async (query, signal) => explanation(await explainQuery(query, signal), this.members()), "Counting at the nodes …");
  }

  result(answer, seconds, query) {
    const took = `in ${about(seconds)} s`;
    if (answer.kind === "ask") {
      return card(el("p", { class: "verdict", role: "status" }, answer.answer ? "Yes" : "No", el("small", {}, ` ${took}`)));
    }
    const select = answer.kind === "select";
    const columns = select && columnsOf(answer.names, prefixesOf(query));
    const body = el("div", { class: "scroll", role: "region", "aria-label": "Result", tabindex: "0" });
    const pages = new Pages(body, (rows) => (select ? table(columns, rows, { caption: "Solutions" }) : el("pre", { class: "triples" }, rows.join("\n"))));
    const rows = select ? answer.rows : answer.lines;
    pages.show(rows);
    const formats = Object.entries(DOWNLOADS[answer.kind]).map(([title, [mediaType, ending]]) =>
      el("button", { type: "button", click: () => this.download(query, mediaType, ending) }, title));
    return card(
      el("div", { class: "card-head" },
        el("h2", {}, "Result"), el("p", { class: "muted", role: "status" }, `${plural(rows.length, select ? "solution" : "triple")} ${took}`),
        el("div", { class: "actions downloads", role: "group", "aria-label": "Ask again and download" }, el("span", { class: "muted" }, "Download"), formats)),
      rows.length ? body : el("p", { class: "muted pad" }, "Nothing matches."));
  }

  /** Ask again, and save the answer as a file: the gateway writes the format, and the size is not that of a page. */
  async download(query, mediaType, ending) {
    replace(byId("query-error"));
    try {
      const url = URL.createObjectURL(await download(query, mediaType));
      el("a", { href: url, download: `result.${ending}` }).click();
      setTimeout(() => URL.revokeObjectURL(url), 60_000);
    } catch (problem) {
      this.complain(problem, query);
    }
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

/** Show an update and the place that it goes to; resolve with whether it shall be executed. */
function confirmed(text) {
  const dialog = byId("update-dialog");
  byId("update-host").textContent = location.host;
  byId("update-text").textContent = text;
  dialog.returnValue = "cancel"; // also of Escape
  dialog.showModal();
  return new Promise((resolve) => dialog.addEventListener("close", () => resolve(dialog.returnValue === "execute"), { once: true }));
}

function card(...children) {
  return el("div", { class: "card result" }, children);
}
