// The ring: every member at its place, how loaded it is, who is missing.

import { about, bytes, byId, duration, el, number, plural, rate, replace, svg, table, tiles, times, unseen } from "./dom.js";

const SIZE = 400;
const MIDDLE = SIZE / 2;
const RADIUS = 118;
const GAP = 11;
const BAR = 52;
const LABELLED_MAX = 24;
const ROWS_MAX = 200;
const STATES = { here: "here", missing: "missing", left: "left", unasked: "not asked yet" };

/** Return where a key is, as part of the ring, clockwise from the top. */
function turnOf(key) {
  return Number(BigInt(`0x${key}`)) / 2 ** 64;
}

function point(turn, radius) {
  const angle = 2 * Math.PI * turn;
  return [MIDDLE + radius * Math.sin(angle), MIDDLE - radius * Math.cos(angle)];
}

function line(turn, from, to, kind, width) {
  const [[x1, y1], [x2, y2]] = [point(turn, from), point(turn, to)];
  return svg("line", { x1, y1, x2, y2, class: kind, "stroke-width": width });
}

function text(x, y, kind, said) {
  return svg("text", { x, y, class: kind }, said);
}

/** Return a circle with the quarters of the ring named. */
function circle() {
  const parts = [svg("circle", { cx: MIDDLE, cy: MIDDLE, r: RADIUS, class: "track" })];
  for (const [turn, said] of [[0, "0"], [0.25, "4…"], [0.5, "8…"], [0.75, "c…"]]) {
    parts.push(line(turn, RADIUS - 4, RADIUS + 4, "tick", 1), text(...point(turn, RADIUS - 16), "quarter", said));
  }
  return parts;
}

function dot(member, turn, size) {
  const [x, y] = point(turn, RADIUS);
  const mark = svg("g", { class: `node ${member.state}`, "data-node": member.key }, svg("title", {}, described(member)));
  mark.append(svg("circle", { cx: x, cy: y, r: size }));
  if (member.state === "missing") {
    const arm = size * 0.55;
    mark.append(svg("path", { d: `M${x - arm} ${y - arm}L${x + arm} ${y + arm}M${x - arm} ${y + arm}L${x + arm} ${y - arm}` }));
  }
  return mark;
}

function described(member) {
  const load = member.load;
  const loads = load && member.state === "here" ? `, storage load ${number(load.storage_load)}, processing load ${number(load.processing_load)}` : "";
  return `${member.address}: ${STATES[member.state]}${loads}`;
}

/** Draw the ring: storage load outwards, processing load inwards, both relative to the highest. */
export function drawing(told) {
  const members = told.members;
  const here = members.filter((each) => each.state === "here" && each.load);
  const most = (name) => Math.max(1, ...here.map((each) => each.load[name]));
  const [storage, processing] = [most("storage_load"), most("processing_load")];
  const width = Math.max(0.6, Math.min(9, (2 * Math.PI * RADIUS) / Math.max(1, members.length) * 0.5));
  const size = Math.max(1.2, Math.min(7, width));
  const parts = circle();
  for (const [name, whole, sign] of [["storage_load", storage, 1], ["processing_load", processing, -1]]) {
    const mean = told.means[name];
    if (mean && here.length > 1) {
      parts.push(svg("circle", { cx: MIDDLE, cy: MIDDLE, r: RADIUS + sign * (GAP + BAR * Math.min(1, mean / whole)), class: `mean ${name}` }));
    }
  }
  for (const member of here) {
    const turn = turnOf(member.key);
    const [out, inward] = [BAR * member.load.storage_load / storage, BAR * member.load.processing_load / processing];
    parts.push(line(turn, RADIUS + GAP, RADIUS + GAP + out, "bar storage_load", width));
    parts.push(line(turn, RADIUS - GAP, RADIUS - GAP - inward, "bar processing_load", width));
  }
  const placed = members.map((member, at) => [member, at]);
  placed.sort(([one], [two]) => Number(one.state === "missing") - Number(two.state === "missing")); // these lie on top
  placed.forEach(([member, at]) => {
    const turn = turnOf(member.key);
    parts.push(dot(member, turn, member.state === "missing" ? Math.max(size, 5) : size));
    if (members.length <= LABELLED_MAX) parts.push(text(...point(turn, RADIUS + GAP + BAR + 12), `label ${member.state}`, String(at + 1)));
  });
  const { here: present, missing } = told.counts;
  parts.push(text(MIDDLE, MIDDLE - 6, "count", number(present)), text(MIDDLE, MIDDLE + 16, "count-of", present === 1 ? "node" : "nodes"));
  if (missing) parts.push(text(MIDDLE, MIDDLE + 34, "count-missing", `${number(missing)} missing`));
  const said = `Ring of ${plural(members.length, "member")}: ${present} here, ${missing} missing. The table of nodes has the same by rows.`;
  return svg("svg", { viewBox: `0 0 ${SIZE} ${SIZE}`, class: size < 4 ? "many" : null, role: "img", "aria-label": said }, parts);
}

/** Draw where a chain lives: `stops` are `{label, key, address}`, joined by lines in their order. */
export function chainDrawing(members, stops) {
  const parts = circle();
  const places = new Map(members.map((each) => [each.address, turnOf(each.key)]));
  for (const member of members) parts.push(dot(member, turnOf(member.key), 4));
  const at = stops.filter((stop) => places.has(stop.address)).map((stop) => ({ ...stop, turn: places.get(stop.address) }));
  for (let each = 1; each < at.length; each += 1) {
    const [[x1, y1], [x2, y2]] = [point(at[each - 1].turn, RADIUS), point(at[each].turn, RADIUS)];
    if (at[each - 1].turn !== at[each].turn) {
      parts.push(svg("path", { d: `M${x1} ${y1}Q${MIDDLE} ${MIDDLE} ${x2} ${y2}`, class: "hop" }));
    }
  }
  const labels = new Map();
  for (const stop of at) labels.set(stop.turn, [...(labels.get(stop.turn) ?? []), stop.label]);
  for (const [turn, said] of labels) {
    const [x, y] = point(turn, RADIUS);
    parts.push(svg("circle", { cx: x, cy: y, r: 8, class: "stop" }));
    const [tx, ty] = point(turn, RADIUS + 28);
    parts.push(text(tx, ty, "stop-label", [...new Set(said)].join(", ")));
  }
  const spoken = at.map((stop) => `${stop.label} at ${stop.address}`).join(", ");
  return svg("svg", { viewBox: "40 40 320 320", role: "img", "aria-label": `The chain on the ring: ${spoken}.` }, parts);
}

/** Return the drawing's legend. */
function legend() {
  return [
    el("span", { class: "key storage_load" }, "Storage load (SL), outwards"),
    el("span", { class: "key processing_load" }, "Processing load (QPL), inwards"),
    el("span", { class: "key mean" }, "Mean"),
    el("span", { class: "key missing" }, "Missing"),
  ];
}

function meter(value, whole, mean, kind, more = "") {
  if (value === null || value === undefined) return "–";
  const relative = mean ? el("small", { title: "of the mean" }, ` ${times(value / mean)}`, unseen("the mean")) : "";
  return [
    el("span", { class: "figure" }, number(value), relative, more ? el("small", {}, ` ${more}`) : ""),
    el("progress", { class: kind, max: whole, value, "aria-hidden": "true" }),
  ];
}

/** The view. `told` is what `/ring` says. */
export class RingView {
  constructor() {
    this.sorted = { by: "place", down: false };
    this.told = null;
    replace(byId("ring-legend"), legend());
    byId("nodes-filter").addEventListener("input", () => this.show());
  }

  take(told) {
    this.told = told;
    this.show();
  }

  show() {
    const told = this.told;
    if (!told) return;
    const { here, missing, left, unasked } = told.counts;
    byId("ring-about").textContent = `As the node ${told.node} and all it names tell it; overlay: ${told.overlay}.` +
      (told.everyone_known ? "" : " Each node knows some of the others.") +
      (told.left_out ? ` ${plural(told.left_out, "member")} more are left out.` : "");
    replace(byId("ring-picture"), drawing(told));
    replace(byId("ring-facts"), tiles([
      ["Nodes here", number(here)],
      ["Missing", number(missing), missing ? "bad" : null],
      ["Storage load, mean", about(told.means.storage_load)],
      ["Processing load, mean", told.means.processing_load_per_second === null ? about(told.means.processing_load) : rate(told.means.processing_load_per_second)],
      ...(left ? [["Have left", number(left)]] : []),
      ...(unasked ? [["Not asked yet", number(unasked)]] : []),
    ]));
    this.showNodes();
  }

  showNodes() {
    const told = this.told;
    const placed = told.members.map((member, at) => ({ ...member, place: at + 1 }));
    byId("nodes-filter-label").hidden = placed.length <= 8;
    const wanted = byId("nodes-filter").value.trim().toLowerCase();
    const found = placed.filter((each) => `${each.address} ${each.key} ${STATES[each.state]}`.includes(wanted));
    const value = {
      place: (each) => each.place,
      storage: (each) => each.load?.storage_load ?? -1,
      processing: (each) => each.load?.processing_load ?? -1,
      rate: (each) => each.load?.processing_load_per_second ?? -1,
    }[this.sorted.by];
    found.sort((one, two) => (value(one) - value(two)) * (this.sorted.down ? -1 : 1));
    const most = (name) => Math.max(1, ...placed.map((each) => each.load?.[name] ?? 0));
    const [storage, processing] = [most("storage_load"), most("processing_load")];
    const columns = [
      { title: "Node", class: "node-cell", sort: "place", rowHeader: true, cell: (each) => el("div", { class: "node-name" },
        el("span", { class: "place", "aria-hidden": "true" }, String(each.place)),
        el("span", {}, el("span", { class: "mono" }, each.address), el("small", { class: "mono key-of" }, each.key),
          el("span", { class: "narrow" }, state(each)))) },
      { title: "State", class: "state-cell", cell: (each) => state(each) },
      { title: "Storage load", class: "wide", sort: "storage", cell: (each) => meter(each.load?.storage_load, storage, told.means.storage_load, "storage_load") },
      { title: "Processing load", class: "wide", sort: "processing", cell: (each) => meter(each.load?.processing_load, processing, told.means.processing_load, "processing_load", each.load && each.load.processing_load_per_second !== null ? rate(each.load.processing_load_per_second) : "") },
      { title: "Triples", class: "more right", cell: (each) => number(each.load?.triples) },
      { title: "Memory", class: "more right", cell: (each) => (each.load ? bytes(each.load.memory_bytes) : "–") },
      { title: "Up", class: "more right", cell: (each) => (each.load && each.state === "here" ? duration(each.load.uptime_seconds) : "–") },
    ];
    const parts = [table(columns, found.slice(0, ROWS_MAX), {
      caption: "Nodes by their place on the ring", sorted: this.sorted,
      onSort: (by) => {
        this.sorted = { by, down: this.sorted.by === by ? !this.sorted.down : by !== "place" };
        this.showNodes();
      },
      rowAttributes: (each) => ({
        class: `state-${each.state}`, "data-node": each.key,
        mouseenter: () => highlight(each.key), mouseleave: () => highlight(null),
      }),
    })];
    if (found.length > ROWS_MAX) parts.push(el("p", { class: "muted pad" }, `${number(ROWS_MAX)} of ${number(found.length)} nodes: filter for others.`));
    if (!found.length) parts.push(el("p", { class: "muted pad" }, "No node is like that."));
    replace(byId("nodes"), parts);
  }
}

function state(member) {
  const load = member.load;
  const trouble = member.state === "here" && load ? (load.stopping ? "leaving" : load.busy ? "busy" : "") : "";
  const old = member.state === "here" && member.age_seconds > 10 ? `asked ${duration(member.age_seconds)} ago` : "";
  return [
    el("span", { class: `pill ${trouble ? "warn" : member.state}` }, trouble || STATES[member.state]),
    member.reason ? el("small", { class: "reason" }, member.reason) : old ? el("small", { class: "reason" }, old) : "",
  ];
}

function highlight(key) {
  for (const each of byId("ring-picture").querySelectorAll("[data-node]")) each.classList.toggle("chosen", each.dataset.node === key);
}
