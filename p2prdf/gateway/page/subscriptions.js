// Standing queries of everybody, and how the chosen one is evaluated.

import { byId, duration, el, number, replace, table } from "./dom.js";
import { explainSubscription, subscriptions } from "./gateway.js";
import { explanation } from "./plan.js";
import { complaint } from "./terms.js";

const ROWS_MAX = 200;

export class SubscriptionsView {
  /** `members` returns those of the ring. */
  constructor(members) {
    this.members = members;
    this.told = null;
    this.chosen = null;
    this.asking = null;
    byId("subscriptions-filter").addEventListener("input", () => this.show());
    replace(byId("subscription"), el("p", { class: "card pad muted hint" }, "Choose a subscription to see its plan, the chain of its steps, and the nodes that hold them."));
  }

  async refresh(signal) {
    this.told = await subscriptions(signal);
    this.show();
  }

  show() {
    if (!this.told) return;
    const { total, subscriptions: every } = this.told;
    byId("subscriptions-about").textContent = total > every.length
      ? `${number(every.length)} of ${number(total)} are shown.`
      : `${number(total)} in the overlay, each told by its home.`;
    const wanted = byId("subscriptions-filter").value.trim().toLowerCase();
    const found = every.filter((each) => `${each.number} ${each.patterns.join(" ")} ${each.subscriber} ${each.home}`.toLowerCase().includes(wanted));
    const columns = [
      { title: "Query", rowHeader: true, class: "query-cell", cell: (each) => el("a", {
        class: "row-link", "data-key": each.number, href: `#subscriptions/${each.number}`, "aria-current": each.number === this.chosen ? "true" : null,
      }, el("span", { class: "mono asks", title: asks(each) }, shortened(asks(each))), el("small", { class: "mono" }, each.number)) },
      { title: "Delivered to", class: "more", cell: (each) => [el("span", { class: "mono" }, each.subscriber), each.reached ? "" : el("span", { class: "pill missing" }, "gone")] },
      { title: "Answers", class: "right", cell: (each) => [
        number(each.answers), each.dropped ? el("small", { class: "reason" }, `${number(each.dropped)} dropped`) : "",
      ] },
      { title: "Lease left", class: "right", cell: (each) => duration(each.lease_left_seconds) },
    ];
    const parts = found.length
      ? [table(columns, found.slice(0, ROWS_MAX), { caption: "Subscriptions", rowAttributes: (each) => ({ class: each.number === this.chosen ? "linked chosen" : "linked" }) })]
      : [el("p", { class: "muted pad" }, every.length ? "No subscription is like that." : "Nobody has left a query. Leave one in the view Query, by “Follow live”.")];
    if (found.length > ROWS_MAX) parts.push(el("p", { class: "muted pad" }, `${number(ROWS_MAX)} of ${number(found.length)}: filter for others.`));
    replace(byId("subscriptions"), parts);
  }

  async choose(number) {
    this.chosen = number;
    this.show();
    this.asking?.abort();
    const asking = (this.asking = new AbortController());
    const place = byId("subscription");
    place.setAttribute("aria-busy", "true");
    const head = el("div", { class: "card-head" },
      el("h2", {}, "Subscription ", el("span", { class: "mono" }, number)),
      el("button", { type: "button", "data-key": "again", click: () => this.choose(number) }, "Count again"));
    try {
      const told = await explainSubscription(number, asking.signal);
      replace(place, head, explanation(told, this.members()));
    } catch (problem) {
      if (asking.signal.aborted) return;
      replace(place, head, complaint(problem));
    }
    place.removeAttribute("aria-busy");
    if (matchMedia("(max-width: 1000px)").matches) place.scrollIntoView({ block: "start" });
  }
}

/** Leave of each IRI what stands behind its last separator. */
function shortened(text) {
  return text.replace(/<[^<>\s]*[/#:]([^<>\s/#:]+)>/g, "…$1");
}

function asks(each) {
  const more = each.patterns_total - each.patterns.length;
  const names = each.names.map((name) => `?${name}`).join(" ");
  return `${each.form.toUpperCase()} ${names} { ${each.patterns.join(" . ")}${more > 0 ? ` and ${number(more)} more patterns` : ""} }`;
}
