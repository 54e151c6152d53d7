// The live page. It asks the REST interface again and again, and shows what it says. Everything shown
// goes in as text, never as markup: names are chosen by peers.

import {Series} from "./charts.js";
import {drawGraph} from "./graph.js";

const POLL_MS = 2000, IDLE_MS = 5000, HIDDEN_MS = 30000, LOST_MAX_MS = 30000;
const IDLE_AFTER_MS = 60000;   // nobody touched the page for so long: it slows down
const SHARE_OF_TIME = 20;      // asking takes at most 1/20 of the time, however long the answers are
const ROWS = 200;

const byId = id => document.getElementById(id);

function h(tag, properties, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (name === "data") Object.assign(element.dataset, value);
    else element[name] = value;
  }
  element.append(...children.filter(child => child !== null && child !== undefined));
  return element;
}

// ---- words ----

function age(seconds) {
  const s = Math.floor(seconds);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor(s / 60) % 60} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor(s / 3600) % 24} h`;
}

const range = r => r.first === "0" && r.last === null ? "whole file" : `bytes ${r.first} to ${r.last ?? "the end"}`;
const ownerOf = o => o.text?.startsWith(`${o.svid}@`) ? o.text : `${o.svid} ${o.text ?? o.handle}`;
const short = hex => hex.length > 24 ? `${hex.slice(0, 12)}…${hex.slice(-8)}` : hex;
const number = n => n.toLocaleString("en");

function duration(seconds) {
  if (seconds === null) return ["–", ""];
  if (seconds < 0.001) return [(seconds * 1e6).toFixed(0), "µs"];
  if (seconds < 1) return [(seconds * 1e3).toFixed(1), "ms"];
  return [seconds.toFixed(1), "s"];
}

// ---- asking ----

let token = sessionStorage.getItem("holdfast-token") ?? "";

async function ask(method, path, body) {
  const headers = token ? {Authorization: `Bearer ${token}`} : {};
  const answer = await fetch(`/api/v1/${path}`, {method, headers, body});
  const json = await answer.json();
  if (!answer.ok) throw Object.assign(new Error(json.detail ?? json.title), {status: answer.status});
  return json;
}

// ---- head ----

const chip = (text, kind = "") => h("span", {className: `chip ${kind}`}, text);

function showHead(s) {
  byId("server").textContent = `${s.name} · version ${s.version}`;
  const n = s.notifications, failed = n.failing + n.given_up;
  byId("chips").replaceChildren(...[
    chip(`state ${s.state}`), chip(`epoch ${s.epoch}`),
    s.store.up ? chip("store up", "good") : chip(s.store.reason ?? "store down", "bad"),
    n.pending ? chip(`${n.pending} to notify`, "warn") : null,
    failed ? chip(`${failed} not reached`, "bad") : null,
  ].filter(Boolean));
}

let graceEnds = 0;

function showGrace(grace) {
  byId("grace").hidden = !grace.active;
  graceEnds = grace.active ? performance.now() + grace.remaining_seconds * 1000 : 0;
  const all = grace.reclaimed + grace.unreclaimed;
  byId("grace-detail").textContent = `${grace.reclaimed} of ${all} reclaimed`;
  byId("grace-bar").value = all ? grace.reclaimed / all : 1;
  tickGrace();
}

function tickGrace() {
  if (!graceEnds) return;
  const left = Math.max(0, Math.ceil((graceEnds - performance.now()) / 1000));
  byId("grace-title").textContent = `Grace period: ${left} s left`;
}

// ---- figures ----

const FIGURES = [
  {name: "locks held", now: s => [number(s.counts.locks), ""], point: s => s.counts.locks},
  {name: "waiting", now: s => [number(s.counts.waiters), ""], point: s => s.counts.waiters, warn: s => s.counts.waiters > 0},
  {name: "clients", now: s => [number(s.counts.clients), ""], point: s => s.counts.clients},
  {name: "requests", now: (s, d) => [number(Math.round(d.rate)), "/s"], point: (s, d) => d.rate},
  {name: "answer time", now: (s, d) => duration(d.latency), point: (s, d) => d.latency ?? 0},
  {name: "commit time", now: (s, d) => duration(d.commit), point: (s, d) => d.commit ?? 0},
].map(figure => ({...figure, series: new Series()}));

let before = null;

function differences(totals, at) {
  const old = before ?? {totals, at};
  before = {totals, at};
  const passed = Math.max(0.001, (at - old.at) / 1000);
  const requests = totals.requests - old.totals.requests, commits = totals.commits - old.totals.commits;
  return {
    rate: requests / passed,
    latency: requests > 0 ? (totals.request_seconds - old.totals.request_seconds) / requests : null,
    commit: commits > 0 ? (totals.commit_seconds - old.totals.commit_seconds) / commits : null,
  };
}

function showFigures(status, at) {
  const d = differences(status.totals, at);
  byId("tiles").replaceChildren(...FIGURES.map(figure => {
    const [value, unit] = figure.now(status, d);
    figure.series.add(figure.point(status, d));
    return h("div", {className: figure.warn?.(status) ? "tile warn" : "tile"}, h("div", {className: "name"}, figure.name),
             h("div", {className: "value"}, value, h("small", {}, unit)), figure.series.draw());
  }));
}

// ---- tables ----

const cell = (title, ...children) => h("td", {data: title ? {title} : {}}, ...children);
const two = (main, sub, kind = "name-cell") => [h("div", {className: kind}, main), sub ? h("div", {className: "sub"}, sub) : null];

function head(...titles) {
  return h("thead", {}, h("tr", {}, ...titles.map(title => h("th", {}, title))));
}

// Rows are made anew each time; whoever had the keyboard keeps it.
function fill(table, header, rows, emptyNote) {
  const focus = document.activeElement?.dataset?.key;
  table.replaceChildren(header, h("tbody", {}, ...rows));
  table.hidden = rows.length === 0;
  emptyNote.hidden = rows.length > 0;
  if (focus) table.querySelector(`[data-key="${CSS.escape(focus)}"]`)?.focus();
}

function fileCell(row) {
  const label = row.path ?? short(row.file);
  const element = h("td", {className: "wide", title: row.file}, ...two(label, null, row.path ? "name-cell" : "mono"));
  element.append(h("div", {className: "sub"}, row.share === "default" ? range(row.range) : `${range(row.range)} · ${row.share}`));
  return element;
}

function queueRow(queue, columns) {
  const items = queue.map(w => h("li", {}, `${w.client.name} (${w.client.address}) owner ${ownerOf(w.owner)}, ${w.mode}, ${range(w.range)}, ` +
    (w.granting ? "granted: being told" : `waiting ${age(w.waiting_seconds)}`)));
  const td = h("td", {colSpan: columns}, h("ol", {}, ...items));
  return h("tr", {className: "queue"}, td);
}

function lockRows(lock, queue) {
  const release = h("button", {type: "button", className: "small", data: {key: `lock-${lock.id}`}}, "release…");
  release.onclick = () => confirmChange({
    title: "Release this lock?", button: "Release",
    text: `${lock.client.name} (${lock.client.address}) holds ${lock.path ?? lock.file}, ${range(lock.range)}. It is not told, and may go on as if it held the lock.`,
    change: () => ask("DELETE", `locks/${lock.id}`), done: told => releasedText(told)});
  const kind = lock.mode === "exclusive" ? chip("exclusive", "good") : chip("shared");
  const row = h("tr", {className: queue.length ? "has-queue" : ""},
    h("td", {}, ...two(lock.client.name, lock.client.address)), h("td", {}, kind, lock.unreclaimed ? chip("not reclaimed", "warn") : null),
    fileCell(lock), h("td", {className: "wide"}, h("span", {className: "mono"}, ownerOf(lock.owner))),
    h("td", {className: "nowrap", data: {title: "held"}}, age(lock.held_seconds)), h("td", {className: "act"}, release));
  return queue.length ? [row, queueRow(queue, 6)] : [row];
}

// The queue behind a lock: those it blocks, then those that wait behind them on the same file.
function queues(locks, waiters) {
  const queue = new Map(locks.map(lock => [lock.id, []])), firstOfFile = new Map();
  for (const lock of locks) if (!firstOfFile.has(lock.file)) firstOfFile.set(lock.file, lock.id);
  for (const waiter of [...waiters].sort((a, b) => b.waiting_seconds - a.waiting_seconds))
    queue.get(queue.has(waiter.blocked_by) ? waiter.blocked_by : firstOfFile.get(waiter.file))?.push(waiter);
  return queue;
}

function showLocks(page, waiters, total) {
  const queue = queues(page.locks, waiters);
  byId("locks-count").textContent = page.locks.length < total ? `${number(page.locks.length)} shown of ${number(total)}` : number(total);
  byId("locks-empty").textContent = byId("search-text").value ? "No lock fits the search." : "No lock is held.";
  fill(byId("locks"), head("client", "mode", "file", "owner", "held", ""),
       page.locks.flatMap(lock => lockRows(lock, queue.get(lock.id))), byId("locks-empty"));
}

const NOTICE_KINDS = {delivered: "good", pending: "warn", failing: "bad", given_up: "bad"};

function noticeCell(notice) {
  if (notice.status === "none") return cell("", h("span", {className: "sub"}, "nothing to tell"));
  const words = notice.error ? `${notice.error}, ${notice.attempts} tries` : null;
  return cell("", chip(notice.status.replace("_", " "), NOTICE_KINDS[notice.status]), words ? h("div", {className: "sub"}, words) : null);
}

function clientRow(client) {
  const release = h("button", {type: "button", className: "small", data: {key: `client-${client.id}`}}, "release all…");
  release.onclick = () => confirmChange({
    title: "Release everything of this client?", button: "Release all",
    text: `${client.name} (${client.address}): ${client.locks} locks, ${client.waiters} waiting. It is not told, and may go on as if it held them.`,
    change: () => ask("DELETE", `clients/${client.id}`), done: told => releasedText(told)});
  const holds = client.locks + client.waiters + client.reservations > 0;
  return h("tr", {}, h("td", {}, ...two(client.name, client.address)), noticeCell(client.notification),
    cell("locks", number(client.locks)), cell("waiting", number(client.waiters)),
    h("td", {className: "nowrap", data: {title: "heard"}}, `${age(client.idle_seconds)} ago`),
    cell("", client.protocol === "nsm" ? "SM_MON" : `NLM, ${client.transport}`), h("td", {className: "act"}, holds ? release : null));
}

function showClients(page, total) {
  byId("clients-count").textContent = page.clients.length < total ? `${number(page.clients.length)} shown of ${number(total)}` : number(page.clients.length);
  fill(byId("clients"), head("client", "notice of our restart", "locks", "waiting", "last heard", "by", ""),
       page.clients.map(clientRow), byId("clients-empty"));
}

function showGraph(locks, waiters) {
  const picture = drawGraph(locks, waiters);
  byId("graph-section").hidden = !picture;
  byId("graph").replaceChildren(...(picture ? [picture] : []));
}

// ---- changes ----

function toast(text) {
  const element = byId("toast");
  element.textContent = text;
  element.hidden = false;
  clearTimeout(toast.timer);
  toast.timer = setTimeout(() => { element.hidden = true; }, 6000);
}

function releasedText(told) {
  const names = told.granted.map(waiter => waiter.client.name);
  return `Released ${told.released}. ` + (names.length ? `Granted in turn: ${names.join(", ")}.` : "Nobody was waiting.");
}

let tokenNeeded = false;

function confirmChange({title, text, button, change, done}) {
  const dialog = byId("confirm"), yes = byId("confirm-yes"), problem = byId("confirm-problem");
  byId("confirm-title").textContent = title;
  byId("confirm-text").textContent = text;
  byId("confirm-token-row").hidden = !tokenNeeded;
  byId("confirm-token").value = token;
  yes.textContent = button;
  yes.disabled = false;
  problem.hidden = true;
  yes.onclick = async () => {
    token = tokenNeeded ? byId("confirm-token").value : "";
    sessionStorage.setItem("holdfast-token", token);
    yes.disabled = true;
    try {
      const told = await change();
      dialog.close();
      toast(done(told));
      poll();
    } catch (error) {
      problem.textContent = error.message;
      problem.hidden = false;
      yes.disabled = false;
    }
  };
  dialog.showModal();
}

byId("grace-end").onclick = () => confirmChange({
  title: "End the grace period now?", button: "End grace",
  text: "Whatever is not reclaimed yet is released, and new locks are granted at once.",
  change: () => ask("POST", "grace/end"), done: told => `Grace ended; ${told.released} released.`});

// ---- live ----

let timer = 0, polling = false, again = false, failures = 0, touched = performance.now();

function searchQuery() {
  const text = byId("search-text").value.trim();
  return text ? `&${byId("search-field").value}=${encodeURIComponent(text)}` : "";
}

async function refresh() {
  const status = await ask("GET", "status");
  const search = searchQuery();
  const [locks, clients, waiters, waited] = await Promise.all([
    ask("GET", `locks?limit=${ROWS}${search}`), ask("GET", `clients?limit=${ROWS}`),
    status.counts.waiters ? ask("GET", "waiters?limit=500") : {waiters: []},
    status.counts.waiters ? ask("GET", "locks?limit=500&waited=true") : {locks: []},
  ]);
  tokenNeeded = status.token_needed;
  showHead(status);
  showGrace(status.grace);
  showFigures(status, performance.now());
  showGraph(waited.locks, waiters.waiters);
  showLocks(locks, waiters.waiters, status.counts.locks);
  showClients(clients, status.counts.clients + status.counts.registrations);
}

function pause(took) {
  if (failures) return Math.min(LOST_MAX_MS, POLL_MS * 2 ** (failures - 1));
  const wanted = document.hidden ? HIDDEN_MS : performance.now() - touched > IDLE_AFTER_MS ? IDLE_MS : POLL_MS;
  return Math.max(wanted, took * SHARE_OF_TIME);
}

function showLive(wait) {
  const live = byId("live");
  live.className = failures ? "lost" : wait > POLL_MS ? "resting" : "";
  live.textContent = failures ? "no answer; trying again" : `live, every ${Math.round(wait / 1000)} s`;
}

// One at a time; what is asked meanwhile (a search, a release) is asked right after.
async function poll() {
  if (polling) { again = true; return; }
  clearTimeout(timer);
  polling = true;
  const start = performance.now();
  try {
    await refresh();
    failures = 0;
  } catch {
    failures++;
  }
  polling = false;
  const wait = pause(performance.now() - start);
  showLive(wait);
  timer = setTimeout(poll, again ? 0 : wait);
  again = false;
}

for (const event of ["pointermove", "keydown", "scroll"])
  addEventListener(event, () => { touched = performance.now(); }, {passive: true});
document.addEventListener("visibilitychange", () => { if (!document.hidden) poll(); });
byId("search").addEventListener("submit", event => { event.preventDefault(); poll(); });
byId("search-text").addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(poll, 200); });
byId("search-field").addEventListener("change", poll);
setInterval(tickGrace, 250);
poll();
