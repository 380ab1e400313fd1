// Making elements.  Whatever text comes from outside is put in as text: nothing here parses markup.

const SVG = "http://www.w3.org/2000/svg";

/** Return an element. `attributes`: `class`, ARIA and the like; functions become listeners; null leaves one out. */
export function el(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

/** Return an element of a drawing. */
export function svg(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, String(value));
  }
  element.append(...present(children));
  return element;
}

function present(children) {
  return children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== "" && child !== false);
}

export function byId(id) {
  return document.getElementById(id);
}

/** Put children in the place of what an element has, and keep the focus on what carries the same `data-key`. */
export function replace(element, ...children) {
  const active = document.activeElement;
  const key = active && element.contains(active) ? active.dataset.key : undefined;
  const [left, top] = [element.scrollLeft, element.scrollTop];
  element.replaceChildren(...present(children));
  [element.scrollLeft, element.scrollTop] = [left, top];
  if (key !== undefined) {
    for (const each of element.querySelectorAll("[data-key]")) if (each.dataset.key === key) each.focus({ preventScroll: true });
  }
}

/** Return a table. `columns`: `{title, class, cell(row), sort}`; a column with `sort` has a button in its head. */
export function table(columns, rows, { caption, sorted, onSort, rowAttributes = () => ({}) } = {}) {
  const head = columns.map((column) => {
    const mine = sorted && column.sort && sorted.by === column.sort;
    const order = mine ? (sorted.down ? "descending" : "ascending") : null;
    const title = column.sort
      ? el("button", { type: "button", class: "sort", "data-key": `sort ${column.sort}`, click: () => onSort(column.sort) }, column.title, mine ? (sorted.down ? " ↓" : " ↑") : "")
      : column.title;
    return el("th", { scope: "col", class: column.class, "aria-sort": order }, title);
  });
  const body = rows.map((row, number) => el("tr", rowAttributes(row),
    columns.map((column) => el(column.rowHeader ? "th" : "td", { class: column.class, scope: column.rowHeader ? "row" : null }, column.cell(row, number)))));
  return el("table", {}, el("caption", { class: "unseen" }, caption ?? ""), el("thead", {}, el("tr", {}, head)), el("tbody", {}, body));
}

const PAGE_ROWS = 100;

/** Rows in pages of 100, with buttons to turn them. `draw(rows)` returns the element of one page. */
export class Pages {
  constructor(place, draw) {
    Object.assign(this, { place, draw, rows: [], at: 0 });
  }

  /** Show other rows, on the page that is open if there are enough. */
  show(rows) {
    this.rows = rows;
    const last = Math.max(0, Math.ceil(rows.length / PAGE_ROWS) - 1);
    this.at = Math.min(this.at, last);
    const start = this.at * PAGE_ROWS;
    const turn = (title, by) => el("button", {
      type: "button", "data-key": title, disabled: this.at + by < 0 || this.at + by > last, click: () => this.turn(by),
    }, title);
    replace(this.place, this.draw(rows.slice(start, start + PAGE_ROWS)), last > 0 && el("div", { class: "actions pages" },
      turn("Previous", -1), turn("Next", 1),
      el("span", { class: "muted", role: "status" }, `${number(start + 1)} to ${number(Math.min(start + PAGE_ROWS, rows.length))} of ${number(rows.length)}`)));
  }

  turn(by) {
    this.at += by;
    this.show(this.rows);
    this.place.scrollTop = 0;
  }
}

/** Return tiles of facts: `[[name, value, class], ...]`. */
export function tiles(facts) {
  return facts.map(([name, value, kind]) => el("div", { class: kind ?? null }, el("dt", {}, name), el("dd", {}, value)));
}

export function unseen(text) {
  return el("span", { class: "unseen" }, text);
}

const NUMBER = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const SMALL = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const ABOUT = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const ROUGHLY = new Intl.NumberFormat("en", { maximumSignificantDigits: 2 });

export function number(value) {
  return value === null || value === undefined ? "–" : NUMBER.format(value);
}

/** Spell a measured or estimated value: three digits are all that it tells. */
export function about(value) {
  return value === null || value === undefined ? "–" : ABOUT.format(value);
}

export function rate(value) {
  return value === null || value === undefined ? "–" : `${about(value)}/s`;
}

export function times(value) {
  return `${ROUGHLY.format(value)}×`;
}

export function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  for (; value >= 1024 && at < units.length - 1; at += 1) value /= 1024;
  return `${SMALL.format(value)} ${units[at]}`;
}

export function duration(seconds) {
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} d`;
}

export function plural(count, noun) {
  return `${number(count)} ${noun}${count === 1 ? "" : "s"}`;
}

export function clock(date) {
  return date.toLocaleTimeString("en-GB");
}
