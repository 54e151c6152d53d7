// A list that the server sorts and divides into pages: headings to sort by, rows that stay where
// they are while they do not change (so that a selection or the keyboard's focus survives a
// refresh), and a pager.

import {byId, h} from "./dom.js";
import {number} from "./words.js";

const PAGE_ROWS = 50;
const REACH = 10000; // how many rows of a sorted list the server gives out

export class Table {
  rows = new Map();
  offset = 0;
  total = 0;

  // columns: {title, sort, first}, where first is the order after the first click, "" or "-"
  // (descending); choices: [sort, words] for each order on a narrow page, which has no headings.
  constructor(name, {columns, choices, sort, rowsOf, changed}) {
    Object.assign(this, {name, columns, sort, rowsOf, changed});
    this.body = h("tbody");
    this.head = h("tr", {}, ...columns.map(column => this.heading(column)));
    byId(name).replaceChildren(h("thead", {}, this.head), this.body);
    this.choice = h("select", {className: "sort-choice", ariaLabel: "Sort by"},
                    ...choices.map(([value, words]) => h("option", {value}, words)));
    this.choice.onchange = () => this.sortBy(this.choice.value);
    byId(`${name}-tools`).prepend(this.choice);
    this.makePager();
    this.markSort();
  }

  heading(column) {
    if (!column.sort) return h("th", {className: column.className ?? ""}, column.title);
    const button = h("button", {type: "button", className: "heading", data: {sort: column.sort}}, column.title);
    button.onclick = () => {
      const same = this.sort.replace("-", "") === column.sort;
      this.sortBy(same ? (this.sort[0] === "-" ? "" : "-") + column.sort : column.first + column.sort);
    };
    return h("th", {className: column.className ?? ""}, button);
  }

  sortBy(sort) {
    this.sort = sort;
    this.offset = 0;
    this.markSort();
    this.changed();
  }

  markSort() {
    for (const button of this.head.querySelectorAll("button")) {
      const sorted = this.sort.replace("-", "") === button.dataset.sort;
      button.parentElement.ariaSort = sorted ? (this.sort[0] === "-" ? "descending" : "ascending") : "none";
    }
    this.choice.value = this.sort;
  }

  // ---- pages ----

  makePager() {
    const step = (text, label, to) => {
      const button = h("button", {type: "button", title: label, ariaLabel: label}, text);
      button.onclick = () => { this.offset = to(); this.changed(); };
      return button;
    };
    this.back = [step("«", "first page", () => 0), step("‹", "page before", () => this.offset - PAGE_ROWS)];
    this.forth = [step("›", "next page", () => this.offset + PAGE_ROWS), step("»", "last page", () => this.lastOffset())];
    this.where = h("span", {});
    byId(`${this.name}-pager`).replaceChildren(...this.back, this.where, ...this.forth);
  }

  lastOffset() {
    return Math.max(0, Math.floor((Math.min(this.total, REACH) - 1) / PAGE_ROWS) * PAGE_ROWS);
  }

  restart() {
    this.offset = 0;
  }

  query() {
    return `sort=${this.sort}&limit=${PAGE_ROWS}&offset=${this.offset}`;
  }

  // all: how many rows there are without the filter; empty(): what is shown if there are no rows.
  // Returns false if this page of the list does not exist any more; the caller asks again.
  show(page, all, filtered, empty) {
    this.total = page.total;
    if (this.offset > this.lastOffset()) {
      this.offset = this.lastOffset();
      return false;
    }
    const items = page[this.name];
    this.fill(items.flatMap(this.rowsOf));
    byId(`${this.name}-count`).textContent = filtered ? `${number(page.total)} of ${number(all)}` : number(page.total);
    byId(`${this.name}-pager`).hidden = page.total <= PAGE_ROWS;
    this.where.textContent = `${number(this.offset + 1)}–${number(this.offset + items.length)} of ${number(page.total)}`;
    for (const button of this.back) button.disabled = this.offset === 0;
    for (const button of this.forth) button.disabled = this.offset >= this.lastOffset();
    this.forth[1].title = page.total > REACH ? `the last of the first ${number(REACH)}; search to see others` : "last page";
    byId(this.name).hidden = items.length === 0;
    byId(`${this.name}-empty`).hidden = items.length > 0;
    byId(`${this.name}-empty`).replaceChildren(...(items.length ? [] : empty()));
    return true;
  }

  // rows: {key, signature, make, update}. A row is made anew only when its signature changes.
  fill(rows) {
    const old = this.rows, wanted = new Set(rows.map(row => row.key));
    for (const [key, {element}] of old) if (!wanted.has(key)) element.remove();
    this.rows = new Map();
    let at = this.body.firstChild;
    for (const row of rows) {
      let entry = old.get(row.key);
      if (!entry || entry.signature !== row.signature) {
        const element = row.make(), focus = entry?.element.contains(document.activeElement);
        if (entry) {
          if (at === entry.element) at = element;
          entry.element.replaceWith(element);
        }
        entry = {element, signature: row.signature};
        if (focus) element.querySelector("button")?.focus();
      }
      row.update?.(entry.element);
      this.rows.set(row.key, entry);
      if (entry.element === at) at = at.nextSibling;
      else this.body.insertBefore(entry.element, at);
    }
  }
}
