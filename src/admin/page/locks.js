// The table of locks. A lock's queue is in the tab Waits, to which the lock's number of waiters
// leads.

import {chip, elided, h, link} from "./dom.js";
import {fileOf, number, ownerOf, range, setSince, since} from "./words.js";

const two = (main, sub) => [main, sub ? h("div", {className: "sub"}, sub) : null];

function fileCell(lock) {
  return h("td", {className: "wide"}, elided(fileOf(lock), lock.path ? "strong" : "mono"),
           h("div", {className: "sub"}, lock.share === "default" ? range(lock.range) : `${range(lock.range)} · ${lock.share}`));
}

function waitersCell(lock, act) {
  const count = number(lock.waiters);
  return h("td", {className: lock.waiters ? "count-cell waited" : "count-cell", data: {title: "waiting"}},
           lock.waiters ? link(count, () => act.queue(lock)) : count);
}

function lockRow(lock, act) {
  const kind = lock.mode === "exclusive" ? chip("exclusive", "good") : chip("shared");
  const button = act.release ? h("button", {type: "button", className: "small", ariaLabel: `release the lock of ${lock.client.name}`}, "release…") : null;
  if (button) button.onclick = () => act.release(lock);
  return h("tr", {},
    h("td", {}, ...two(link(elided(lock.client.name, "strong"), () => act.open(lock)), lock.client.address)),
    h("td", {}, kind, lock.unreclaimed ? chip("not reclaimed", "warn") : null), fileCell(lock),
    h("td", {className: "wide"}, elided(ownerOf(lock.owner), "mono")), waitersCell(lock, act),
    h("td", {className: "nowrap", data: {title: "held"}}, since(lock.held_seconds)), h("td", {className: "act"}, button));
}

export const LOCK_COLUMNS = [
  {title: "client", sort: "client", first: "", className: "w-client"}, {title: "mode", sort: "mode", first: "", className: "w-mode"},
  {title: "file", sort: "file", first: ""}, {title: "owner", sort: "owner", first: "", className: "w-owner"},
  {title: "waiting", sort: "waiters", first: "-", className: "w-count"}, {title: "held", sort: "held", first: "-", className: "w-age"},
  {title: "", className: "w-act"},
];
export const LOCK_CHOICES = [["-waiters", "most waited for"], ["-held", "longest held"], ["held", "newest"], ["client", "by client"], ["file", "by file"]];

// act: what the row's buttons do: open, queue, and release (null where changes are refused).
export function lockRows(lock, act) {
  const signature = JSON.stringify({...lock, held_seconds: 0, release: Boolean(act.release)});
  return [{key: lock.id, signature, make: () => lockRow(lock, act), update: element => setSince(element.querySelector(".since"), lock.held_seconds)}];
}
