// The query editor: a text field over a coloured copy of its text, and a list that completes prefixes.
//
// The field stays a plain <textarea>, with its undo, selection and reading aloud; its text is transparent, and the copy
// behind it, in the same font and of the same width, has the colours.

import { byId, el, replace } from "./dom.js";
import { PREFIXES } from "./prefixes.js";
import { declared, tokens } from "./sparql.js";

const COLOURED_MAX = 50_000;
const LISTED_MAX = 8;
const TYPED_MIN = 2;

export class Editor {
  constructor() {
    this.text = byId("query-text");
    this.copy = byId("query-colours");
    this.list = byId("query-completions");
    this.entries = [];
    this.at = 0;
    this.text.addEventListener("input", () => {
      this.colour();
      this.suggest();
    });
    this.text.addEventListener("scroll", () => this.follow());
    this.text.addEventListener("keydown", (event) => this.key(event), { capture: true });
    for (const name of ["blur", "click"]) this.text.addEventListener(name, () => this.close());
    this.list.addEventListener("mousedown", (event) => event.preventDefault()); // the field keeps the focus
  }

  colour() {
    const { value } = this.text;
    const plain = value.length > COLOURED_MAX;
    this.text.classList.toggle("plain", plain);
    const parts = [];
    let end = 0;
    for (const { kind, text, start } of plain ? [] : tokens(value)) {
      parts.push(value.slice(end, start), el("span", { class: `is-${kind}` }, text));
      end = start + text.length;
    }
    replace(this.copy, plain ? "" : [parts, value.slice(end), "\n"]);
    this.follow();
  }

  /** Scroll the copy to the place of the field. */
  follow() {
    [this.copy.scrollLeft, this.copy.scrollTop] = [this.text.scrollLeft, this.text.scrollTop];
  }

  /** Offer prefixes that begin with the word before the cursor, or the declaration that a prefix before it lacks. */
  suggest() {
    this.close();
    const { value, selectionStart: cursor, selectionEnd } = this.text;
    if (cursor !== selectionEnd || value.length > COLOURED_MAX) return;
    const word = [...tokens(value)].find(({ kind, text, start }) =>
      start < cursor && cursor <= start + text.length && ["word", "keyword", "prefixed"].includes(kind));
    if (!word || word.start + word.text.length !== cursor) return;
    const own = declared(value);
    const typed = word.text.slice(0, word.text.indexOf(":") + 1) || word.text;
    if (typed.length < TYPED_MIN) return;
    const fits = (name) => (typed.endsWith(":") ? name === typed && !own.has(name) : name.startsWith(typed));
    const declaring = /\bprefix\s+$/i.test(value.slice(0, word.start));
    this.entries = [...new Map([...PREFIXES, ...own])].filter(([name]) => fits(name)).slice(0, LISTED_MAX).map(([name, iri]) => ({
      name, iri, start: word.start, end: word.start + typed.length,
      written: declaring ? `${name} <${iri}>` : name, declaration: declaring || own.has(name) ? "" : `PREFIX ${name} <${iri}>\n`,
    }));
    if (this.entries.length) this.draw();
  }

  draw() {
    replace(this.list, this.entries.map(({ name, iri, declaration }, at) => el("li", {
      id: `completion-${at}`, role: "option", "aria-selected": String(at === this.at), mousedown: () => this.take(at),
    }, el("strong", {}, name), el("small", {}, declaration ? ` declares <${iri}>` : ` <${iri}>`))));
    this.list.hidden = false;
    this.text.setAttribute("aria-expanded", "true");
    this.text.setAttribute("aria-activedescendant", `completion-${this.at}`);
    const place = this.placeOf(this.entries[0].start);
    this.list.style.left = `${Math.max(0, Math.min(place.left, this.text.clientWidth - this.list.offsetWidth))}px`;
    this.list.style.top = `${place.bottom + 4}px`;
  }

  /** Return the place of a character in the field, in pixels. */
  placeOf(offset) {
    const range = document.createRange();
    const walker = document.createTreeWalker(this.copy, NodeFilter.SHOW_TEXT);
    let node = walker.nextNode();
    for (; node && offset > node.length; node = walker.nextNode()) offset -= node.length;
    if (node) range.setStart(node, offset);
    const [found, field] = [range.getBoundingClientRect(), this.text.getBoundingClientRect()];
    return { left: found.left - field.left, bottom: found.bottom - field.top };
  }

  close() {
    if (this.list.hidden) return;
    this.entries = [];
    this.at = 0;
    this.list.hidden = true;
    this.text.setAttribute("aria-expanded", "false");
    this.text.removeAttribute("aria-activedescendant");
  }

  key(event) {
    if (!this.entries.length || event.ctrlKey || event.metaKey || event.altKey) return;
    const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (move) {
      this.at = (this.at + move + this.entries.length) % this.entries.length;
      this.draw();
    } else if (event.key === "Enter" || event.key === "Tab") this.take(this.at);
    else if (event.key === "Escape") this.close();
    else return;
    event.preventDefault();
    event.stopImmediatePropagation();
  }

  /** Write a prefix in the place of the word that was typed, and its declaration at the top if there is none. */
  take(at) {
    const { start, end, written, declaration } = this.entries[at];
    const behind = this.text.selectionEnd - end; // a part of a local name
    const cursor = declaration.length + start + written.length + behind;
    this.text.setRangeText(written, start, end);
    this.text.setRangeText(declaration, 0, 0);
    this.text.setSelectionRange(cursor, cursor);
    this.text.dispatchEvent(new Event("input"));
    this.close();
  }
}
