// How a query is evaluated: what /explain tells, as a chain of steps, each with its key and the nodes that hold it.

import { about, duration, el, number, plural } from "./dom.js";
import { chainDrawing } from "./ring.js";

const NODES_MAX = 4;

function nodes(addresses) {
  const shown = addresses.slice(0, NODES_MAX).map((each) => el("span", { class: "chip mono" }, each));
  const more = addresses.length - NODES_MAX;
  return [shown, more > 0 ? el("span", { class: "muted" }, `and ${number(more)} more`) : ""];
}

function where(step) {
  if (step.varies_with.length) {
    return el("p", { class: "where" }, "Under keys of role ", el("strong", {}, step.role), `, by the values of ${step.varies_with.map((name) => `?${name}`).join(" ")}: at whichever nodes these lead to.`);
  }
  const keys = step.keys.length === 1 ? el("code", {}, step.keys[0]) : plural(step.keys.length, "key");
  return el("p", { class: "where" }, "Role ", el("strong", {}, step.role), ", key ", keys, " at ", nodes(step.nodes));
}

function counts(step, standing) {
  const counted = (estimated, count) => (count !== null && estimated ? `~${about(count)}` : number(count));
  const facts = [["Triples", counted(step.triples_estimated, step.triples)]];
  if (standing) {
    facts.push(["Since it was left", counted(step.triples_estimated, step.triples_since)], ["Waiting for it", counted(step.waiting_estimated, step.waiting)]);
  } else {
    facts.push(step.rate === null ? ["Assumed for the plan", about(step.expected)] : ["Counted for the plan", about(step.rate)]);
  }
  return el("dl", { class: "step-counts" }, facts.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
}

function part(told, at) {
  const one = told.parts[at];
  const standing = "answers" in one;
  const steps = one.steps.map((step) => el("li", { class: "step" },
    el("code", { class: "pattern" }, step.text),
    step.filters.map((filter) => el("code", { class: "pattern filter" }, `FILTER ${filter}`)),
    where(step), counts(step, standing)));
  const end = standing ? `${plural(one.answers, "answer")} so far` : "Answers";
  steps.push(el("li", { class: "step end" }, el("p", {}, el("strong", {}, end), " come home at ", nodes(told.home.nodes.slice(0, 1)))));
  return [
    told.parts.length > 1 ? el("h3", {}, `Part ${at + 1}`) : "",
    el("ol", { class: "chain" }, steps),
  ];
}

function tree(told) {
  const operators = told.operators ?? [];
  if (!operators.length) return "";
  const shown = new Set();
  const item = (at) => {
    const one = operators[at];
    const again = shown.has(at);
    shown.add(at);
    const rows = one.rows ? el("small", {}, ` ${plural(one.rows, "row")} held`) : "";
    const said = el("li", {}, el("strong", {}, one.operator), one.detail ? ` ${one.detail}` : "", rows, again ? " (as above)" : "");
    if (!again && one.inputs.length) said.append(el("ul", {}, one.inputs.map(item)));
    return said;
  };
  return el("details", { open: operators.length <= 12 }, el("summary", {}, "Operators at the home"), el("ul", { class: "tree" }, item(operators.length - 1)));
}

/** Return the stops of a chain: each step that has one place, then the home. */
function stops(told) {
  const found = [];
  for (const [at, one] of told.parts.entries()) {
    one.steps.forEach((step, index) => {
      const label = told.parts.length > 1 ? `${at + 1}.${index + 1}` : String(index + 1);
      if (step.nodes.length && step.keys.length === 1) found.push({ label, address: step.nodes[0] });
    });
  }
  return [...found, { label: "home", address: told.home.nodes[0] }];
}

/** Return an explanation; `members` are those of the ring, if they are known. */
export function explanation(told, members) {
  const facts = [
    ["Form", `${told.form.toUpperCase()}${told.names.length ? ` ${told.names.map((name) => `?${name}`).join(" ")}` : ""}`],
    ["Joined along", told.algorithm === "cqc" ? "a query chain (CQC)" : "a value tree (CSBV)"],
    ["Home", [nodes(told.home.nodes), " key ", el("code", {}, told.home.key)]],
  ];
  const one = told.subscription;
  if (one) {
    const gone = one.reached ? "" : ", whose node is gone";
    facts.push(["Delivered to", [el("span", { class: "chip mono" }, one.subscriber), gone]]);
    facts.push(["Lease", `${duration(one.lease_left_seconds)} of ${duration(one.lease_seconds)} left unless it is renewed`]);
    facts.push(["Answers", `${number(one.answers)} with withdrawals, ${number(one.unacknowledged)} not acknowledged${one.dropped ? `, ${number(one.dropped)} dropped` : ""}`]);
  }
  const asked = told.asked;
  return el("div", { class: "card pad plan" },
    el("ul", { class: "findings", "aria-label": "What it comes to" }, told.findings.map((finding) => el("li", {}, finding))),
    el("dl", { class: "facts" }, facts.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)))),
    el("div", { class: "plan-body" },
      el("div", {}, told.parts.map((_, at) => part(told, at)), tree(told)),
      members?.length ? el("figure", { class: "chain-picture" }, chainDrawing(members, stops(told)), el("figcaption", { class: "muted" }, "Where its steps wait, and its home")) : ""),
    el("p", { class: "muted" },
      `${number(asked.nodes - asked.missing_total)} of ${plural(asked.nodes, "node")} counted.`,
      told.steps_left_out ? ` ${number(told.steps_left_out)} more steps are left out.` : ""));
}
