// RDF terms and what is wrong with a query, as people read them.

import { el, unseen } from "./dom.js";
import { declared } from "./sparql.js";

const SHORT = {
  "http://www.w3.org/2001/XMLSchema#": "xsd:",
  "http://www.w3.org/1999/02/22-rdf-syntax-ns#": "rdf:",
};
const TITLES = { "query-refused": "The query is refused", busy: "Busy", unavailable: "Not available", "subscription-gone": "The subscription is gone" };
const TEXT_MAX = 2000;

function cut(text) {
  return text.length <= TEXT_MAX ? text : `${text.slice(0, TEXT_MAX)}…`;
}

/** Return the prefixes that a query declares, by their IRIs; of no query there are none. */
export function prefixesOf(query) {
  return new Map([...declared(query)].map(([name, iri]) => [iri, name]));
}

/** Return an IRI as the query it answers would write it, or null if no prefix fits. */
function prefixed(iri, prefixes) {
  let best = null;
  for (const start of prefixes.keys()) {
    if (iri.startsWith(start) && (best === null || start.length > best.length) && /^(?:[\p{L}\p{N}_](?:[\p{L}\p{N}_.-]*[\p{L}\p{N}_-])?)?$/u.test(iri.slice(start.length))) best = start;
  }
  return best === null ? null : prefixes.get(best) + iri.slice(best.length);
}

function short(iri, prefixes) {
  const known = prefixed(iri, prefixes);
  if (known !== null) return known;
  for (const [start, prefix] of Object.entries(SHORT)) if (iri.startsWith(start)) return prefix + iri.slice(start.length);
  return `<${iri}>`;
}

/** Return a term of SPARQL results, shortened by the query's prefixes; an IRI is no link, for it may be any. */
export function term(value, prefixes = new Map()) {
  if (!value) return el("span", { class: "term none" }, "–", unseen("not bound"));
  if (value.type === "uri") return el("span", { class: "term iri", title: cut(value.value) }, cut(prefixed(value.value, prefixes) ?? value.value));
  if (value.type === "bnode") return el("span", { class: "term bnode" }, `_:${cut(value.value)}`);
  if (value.type === "triple") {
    const { subject, predicate, object } = value.value;
    return el("span", { class: "term triple" }, "<<( ", [subject, predicate, object].map((each) => [term(each, prefixes), " "]), ")>>");
  }
  const direction = value["its:dir"] ? `--${value["its:dir"]}` : "";
  const more = value["xml:lang"] ? `@${value["xml:lang"]}${direction}` : value.datatype ? `^^${short(value.datatype, prefixes)}` : "";
  return el("span", { class: "term literal", title: cut(value.value) }, cut(value.value), more ? el("small", {}, ` ${cut(more)}`) : "");
}

/** Return columns of a table of solutions of a query with these prefixes. */
export function columnsOf(names, prefixes) {
  return names.map((name) => ({ title: `?${name}`, cell: (row) => term(row[name], prefixes) }));
}

/** Return what is wrong, with the place in the query where that is known. */
export function complaint(problem, query = "") {
  const place = problem.line ? `line ${problem.line}${problem.column ? `, column ${problem.column}` : ""}` : "";
  return el("div", { class: "notice bad problem", role: "alert" },
    el("p", {}, el("strong", {}, TITLES[problem.code] ?? problem.title), place ? ` at ${place}` : ""),
    el("p", { class: "detail" }, place ? problem.message.replace(` at ${place}`, "") : problem.message),
    problem.line ? frame(query, problem.line, problem.column) : "");
}

/** Return the lines around a place of a text, with the place marked. */
function frame(text, line, column) {
  const lines = text.split("\n");
  const rows = [];
  for (let number = Math.max(1, line - 2); number <= Math.min(lines.length, line + 1); number += 1) {
    const said = lines[number - 1];
    const mark = number === line;
    const row = el("span", { class: mark ? "line marked" : "line", "data-line": number });
    if (mark && column) {
      const at = Math.min(column - 1, said.length);
      row.append(said.slice(0, at), el("mark", { "data-column": column }, wordAt(said, at) || " "), said.slice(at + wordAt(said, at).length));
    } else row.append(said);
    rows.push(row, "\n");
  }
  return el("pre", { class: "frame", "aria-label": "The place in the query" }, rows);
}

/** Return the word that begins at a place, or the one character there. */
export function wordAt(text, at) {
  return /^[\w?$:<>#/.-]+/.exec(text.slice(at))?.[0] ?? text.slice(at, at + 1);
}
