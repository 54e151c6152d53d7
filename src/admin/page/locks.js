// The table of locks, each with the queue behind it.

import {chip, elided, firstOf, h} from "./dom.js";
import {fileOf, number, ownerOf, range, setSince, since} from "./words.js";

const QUEUE_SHOWN = 3;

const unfolded = new Set(); // ids of locks whose whole queue is shown

const two = (main, sub) => [main, sub ? h("div", {className: "sub"}, sub) : null];

// The queue behind a lock: the waiters it blocks, then those that wait behind these on the same file.
export function queuesOf(locks, waiters) {
  const queues = new Map(locks.map(lock => [lock.id, []])), firstOfFile = new Map();
  for (const lock of locks) if (!firstOfFile.has(lock.file)) firstOfFile.set(lock.file, lock.id);
  for (const waiter of [...waiters].sort((a, b) => b.waiting_seconds - a.waiting_seconds))
    queues.get(queues.has(waiter.blocked_by) ? waiter.blocked_by : firstOfFile.get(waiter.file))?.push(waiter);
  return queues;
}

function queueItem(w) {
  const state = w.granting ? ["granted: being told"] : ["waiting ", since(w.waiting_seconds)];
  return h("li", {}, h("b", {}, w.client.name), ` ${w.client.address ?? ""} · owner ${ownerOf(w.owner)} · ${w.mode}, ${range(w.range)} · `, ...state);
}

function queueRow(lock, queue, columns, redraw) {
  const shown = unfolded.has(lock.id) ? queue : firstOf(queue, QUEUE_SHOWN), rest = queue.length - shown.length;
  const fold = rest || unfolded.has(lock.id) ? h("button", {type: "button", className: "more"}, rest ? `+${number(rest)} more` : "fold") : null;
  if (fold) fold.onclick = () => {
    if (!unfolded.delete(lock.id)) unfolded.add(lock.id);
    redraw();
  };
  return h("tr", {className: "queue"}, h("td", {colSpan: columns}, h("ol", {}, ...shown.map(queueItem)), fold));
}

function fileCell(lock) {
  return h("td", {className: "wide"}, elided(fileOf(lock), lock.path ? "strong" : "mono"),
           h("div", {className: "sub"}, lock.share === "default" ? range(lock.range) : `${range(lock.range)} · ${lock.share}`));
}

function lockRow(lock, release) {
  const kind = lock.mode === "exclusive" ? chip("exclusive", "good") : chip("shared");
  const button = release ? h("button", {type: "button", className: "small"}, "release…") : null;
  if (button) button.onclick = () => release(lock);
  return h("tr", {},
    h("td", {}, ...two(elided(lock.client.name, "strong"), lock.client.address)),
    h("td", {}, kind, lock.unreclaimed ? chip("not reclaimed", "warn") : null), fileCell(lock),
    h("td", {className: "wide"}, elided(ownerOf(lock.owner), "mono")),
    h("td", {className: lock.waiters ? "count-cell waited" : "count-cell", data: {title: "waiting"}}, number(lock.waiters)),
    h("td", {className: "nowrap", data: {title: "held"}}, since(lock.held_seconds)), h("td", {className: "act"}, button));
}

export const LOCK_COLUMNS = [
  {title: "client", sort: "client", first: "", className: "w-client"}, {title: "mode", sort: "mode", first: "", className: "w-mode"},
  {title: "file", sort: "file", first: ""}, {title: "owner", sort: "owner", first: "", className: "w-owner"},
  {title: "waiting", sort: "waiters", first: "-", className: "w-count"}, {title: "held", sort: "held", first: "-", className: "w-age"},
  {title: "", className: "w-act"},
];
export const LOCK_CHOICES = [["-waiters", "most waited for"], ["-held", "longest held"], ["held", "newest"], ["client", "by client"], ["file", "by file"]];

// The rows of one lock: itself, and its queue.
export function lockRows(lock, queue, release, redraw) {
  const signature = JSON.stringify({...lock, held_seconds: 0, release: Boolean(release)});
  const row = {
    key: lock.id, signature, make: () => lockRow(lock, release), update: element => {
      element.classList.toggle("has-queue", queue.length > 0);
      setSince(element.querySelector(".since"), lock.held_seconds);
    },
  };
  if (!queue.length) return [row];
  const told = JSON.stringify([queue.map(w => ({...w, waiting_seconds: 0})), unfolded.has(lock.id)]);
  return [row, {key: `queue ${lock.id}`, signature: told, make: () => queueRow(lock, queue, LOCK_COLUMNS.length, redraw)}];
}

export const lockText = lock => `${lock.client.name} (${lock.client.address}) holds ${fileOf(lock)}, ${range(lock.range)}. ` +
  `The client is not told, and may go on as if it held the lock.`;
