// Which client waits for which: a card for each file with its holders on the left, its waiters on the
// right in the order of their queue, and a line from each waiter to the lock in its way (dashed: to the
// waiter it stands behind). Long queues are folded. Owners that wait for each other in a cycle, which
// would be a deadlock, are drawn in red. On a narrow page the lines go, and a card is a list.

import {svg} from "./charts.js";
import {byId, elided, firstOf, h} from "./dom.js";
import {fileOf, number, range, since} from "./words.js";

const SHOWN = 3, CARDS_MAX = 24;
const ROW = 48, GAP = 6, LINES = 72; // pixels; style.css has the same

const unfolded = new Set(); // keys of cards whose whole queue is shown
let drawn = "";

const ownerKey = row => `${row.client.id}/${row.owner.svid}/${row.owner.handle}`;

// ---- what is to be shown ----

function groupByFile(locks, waiters) {
  const groups = new Map(), queue = [...waiters].sort((a, b) => b.waiting_seconds - a.waiting_seconds);
  const firstBlocked = new Map(); // by the id of a lock: holders stand in the order of the requests that wait for them
  for (const [place, waiter] of queue.entries()) {
    if (!firstBlocked.has(waiter.blocked_by)) firstBlocked.set(waiter.blocked_by, place);
    const key = `${waiter.share}/${waiter.file}`;
    if (!groups.has(key)) groups.set(key, {key, row: waiter, holders: [], waiters: [], total: 0});
    groups.get(key).waiters.push(waiter);
  }
  for (const lock of locks) {
    const group = groups.get(`${lock.share}/${lock.file}`);
    if (!group) continue;
    group.total = lock.waiters;
    group.holders.push(lock);
  }
  for (const group of groups.values()) {
    group.total = Math.max(group.total, group.waiters.length);
    group.holders.sort((a, b) => (firstBlocked.get(a.id) ?? Infinity) - (firstBlocked.get(b.id) ?? Infinity) || 0);
  }
  return [...groups.values()].sort((a, b) => b.total - a.total);
}

// Owners on a cycle of "waits for the holder of"; each owner waits for one lock at a time.
function ownersInCycles(locks, waiters) {
  const holder = new Map(locks.map(lock => [lock.id, ownerKey(lock)])), next = new Map(), found = new Set();
  for (const waiter of waiters)
    if (!waiter.granting && holder.has(waiter.blocked_by)) next.set(ownerKey(waiter), holder.get(waiter.blocked_by));
  for (const start of next.keys()) {
    const path = [];
    for (let at = start; at && !path.includes(at) && path.length < 100; at = next.get(at)) path.push(at);
    if (next.get(path.at(-1)) === start) path.forEach(owner => found.add(owner));
  }
  return found;
}

// ---- drawing ----

function box(row, kind, cycle, alsoWaits) {
  const {client, owner} = row, inCycle = cycle.has(ownerKey(row));
  const time = row.granting ? "granted: being told" : since(row.waiting_seconds ?? row.held_seconds);
  const element = h("div", {className: `box ${kind}${inCycle ? " cycle" : ""}`}, elided(client.name, "strong"),
    h("div", {className: "sub"}, alsoWaits ? h("b", {}, `waits for ${alsoWaits} · `) : "", `${row.mode}, ${range(row.range)} · `, time));
  element.title = `${client.name} (${client.address}), owner ${owner.svid} ${owner.text ?? owner.handle}\n${row.mode}, ${range(row.range)}`;
  return element;
}

const top = index => index * (ROW + GAP);

function line(from, to, kind) {
  const d = `M${LINES},${from} C${LINES / 2},${from} ${LINES / 2},${to} 9,${to}`;
  return [svg("path", {class: `edge ${kind}`, d}), svg("path", {class: `head ${kind}`, d: `M1,${to} l9,-5 v10 Z`})];
}

// From a waiter to the one before it: a bow on the left of their boxes.
function bow(from, to) {
  return [svg("path", {class: "edge behind", d: `M${LINES},${from} C${LINES - 26},${from} ${LINES - 26},${to} ${LINES - 8},${to}`}),
          svg("path", {class: "head behind", d: `M${LINES},${to} l-9,-5 v10 Z`})];
}

function lines(holders, waiters, cycle, height, shift) {
  const at = new Map(holders.map((lock, index) => [lock.id, shift + top(index) + ROW / 2]));
  const more = shift + top(holders.length) + ROW / 4; // the line that counts the holders not shown
  return svg("svg", {class: "lines", width: LINES, height, viewBox: `0 0 ${LINES} ${height}`, "aria-hidden": "true"},
    ...waiters.flatMap((waiter, index) => {
      const from = top(index) + ROW / 2, red = cycle.has(ownerKey(waiter)) ? "cycle" : "";
      if (waiter.granting) return [];
      if (waiter.blocked_by) return line(from, at.get(waiter.blocked_by) ?? more, red);
      return index ? bow(from, from - ROW - GAP) : [];
    }));
}

function moreText(rest, whole, what) {
  if (rest) return `+${number(rest)} more${what}`;
  return whole ? `fold${what}` : "";
}

function card(group, cycle, waitsFor, redraw) {
  const open = unfolded.has(group.key), {row} = group;
  const waiters = open ? group.waiters : firstOf(group.waiters, SHOWN), holders = open ? group.holders : firstOf(group.holders, SHOWN);
  const restHolders = group.holders.length - holders.length, rest = group.total - waiters.length;
  const left = top(holders.length) + (restHolders ? ROW / 2 + GAP : 0), right = top(waiters.length) + (rest ? ROW / 2 + GAP : 0);
  const shift = open ? 0 : Math.max(0, (top(waiters.length) - top(holders.length)) / 2), height = Math.max(left + shift, right);
  const toggle = text => {
    const button = h("button", {type: "button", className: "more"}, text);
    button.onclick = () => {
      if (!unfolded.delete(group.key)) unfolded.add(group.key);
      redraw();
    };
    return text ? button : null;
  };
  const holding = h("div", {className: "side holders"},
    ...holders.map(lock => box(lock, "holder", cycle, waitsFor.get(ownerKey(lock)))), toggle(moreText(restHolders, false, " hold it")));
  holding.style.paddingTop = `${shift}px`;
  const waiting = h("div", {className: "side waiters"}, ...waiters.map(waiter => box(waiter, "waiter", cycle)),
    open && rest ? h("span", {className: "sub"}, `+${number(rest)} more, not loaded`) : null, toggle(moreText(open ? 0 : rest, open, "")));
  return h("article", {className: "wait-card"},
    h("h3", {}, elided(fileOf(row), row.path ? "" : "mono"), h("span", {className: "sub"}, `${number(group.total)} waiting`)),
    h("div", {className: "wait-body"}, holding, lines(holders, waiters, cycle, height, shift), waiting));
}

const shape = rows => rows.map(row => [row.id, row.granting, row.blocked_by, row.range, row.path]);

// Draws anew only when something else than the ages has changed: a selection survives a refresh.
export function showWaits(locks, waiters, total, redraw) {
  const state = JSON.stringify([shape(locks), shape(waiters), total, [...unfolded]]);
  if (state === drawn) return;
  drawn = state;
  const groups = groupByFile(locks, waiters), cycle = ownersInCycles(locks, waiters);
  const waitsFor = new Map(waiters.filter(w => !w.granting).map(w => [ownerKey(w), fileOf(w).split("/").at(-1)]));
  byId("waits-section").hidden = groups.length === 0;
  byId("waits-count").textContent = groups.length === 1 ? `${number(total)} waiting for 1 file` : `${number(total)} waiting for ${number(groups.length)} files`;
  byId("waits").replaceChildren(...groups.slice(0, CARDS_MAX).map(group => card(group, cycle, waitsFor, redraw)),
    ...(groups.length > CARDS_MAX ? [h("p", {className: "sub"}, `+${number(groups.length - CARDS_MAX)} more files`)] : []));
}
