// The live page: asks the REST interface again and again, and shows what it says. A heartbeat runs
// beside it, so that a daemon that is gone is noticed within three seconds however seldom the lists
// are asked for.

import {ask, forgetSession, hasSession, isThere} from "./api.js";
import {Series} from "./charts.js";
import {CLIENT_CHOICES, CLIENT_COLUMNS, clientRows, clientText} from "./clients.js";
import {confirmChange} from "./confirm.js";
import {byId, chip, h} from "./dom.js";
import {LOCK_CHOICES, LOCK_COLUMNS, lockRows, lockText, queuesOf} from "./locks.js";
import {Table} from "./table.js";
import {showWaits} from "./waits.js";
import {age, duration, number, plural, tickAges} from "./words.js";

const POLL_MS = 2000, IDLE_MS = 5000, HIDDEN_MS = 30000;
const IDLE_AFTER_MS = 60000;   // without a touch for so long, the page slows down
const SHARE_OF_TIME = 20;      // asking takes at most 1/20 of the time, however long the answers take
const SAMPLES = 3;             // what a refresh takes: the least of so many, for one may be slow by chance
const HEARTBEAT_MS = 1000, HEARTBEAT_TIMEOUT_MS = 1500;

// ---- head ----

function showHead(s) {
  byId("server").textContent = `${s.name} · version ${s.version}`;
  const n = s.notifications, failed = n.failing + n.given_up;
  byId("chips").replaceChildren(...[
    s.role ? chip(s.role, s.role === "active" ? "good" : "warn") : null,
    ...s.state === null ? [] : [chip(`state ${s.state}`), chip(`epoch ${s.epoch}`)],
    s.store.up ? chip("store up", "good") : chip(s.store.reason ?? "store down", "bad"),
    n.pending ? chip(`${n.pending} to notify`, "warn") : null,
    failed ? chip(`${failed} not reached`, "bad") : null,
    changes === "refused" ? chip("read only") : null,
  ].filter(Boolean));
}

// ---- a node that does not serve: it knows no locks, so it must not show an empty list ----

const standsBy = s => s.role !== null && s.role !== "active";

function showStandby(s) {
  const waits = standsBy(s);
  byId("standby").hidden = !waits;
  for (const element of document.querySelectorAll(".serving")) element.hidden = waits;
  if (!waits) return;
  byId("grace").hidden = true;
  byId("waits-section").hidden = true;
  byId("standby-text").textContent = `${s.node} does not serve now (${s.role}). ` +
    (s.active_node && s.active_node !== s.node ? `Locks are on ${s.active_node}: look there.` : "No node is known to serve.");
}

function showHidden() {
  byId("files-hidden").hidden = files === "allowed";
  byId("files-hidden-text").textContent = files === "with_token" ? "The files of locks are hidden."
    : "The files of locks are hidden: set admin.read_token_file, or open this page by holdfastctl page as root.";
  byId("log-in").hidden = files !== "with_token";
}

// ---- troubles: what is wrong now, and what was lost until an operator acknowledges it ----

const LIMIT_SHOWN_MS = 3600000; // a refusal by a limit stays for an hour

function troublesOf(s) {
  const now = Date.parse(s.time), lost = s.losses;
  const limits = s.limits.filter(l => now - Date.parse(l.time) < LIMIT_SHOWN_MS);
  return [
    s.rpcbind.up ? null : ["New clients do not find this server", s.rpcbind.reason],
    lost.clients ? [`${plural(lost.locks, "lock")} of ${plural(lost.clients, "client")} lost after a restart`,
                    "holdfastctl losses names them; holdfastctl losses ack removes this line"] : null,
    ...limits.map(l => [`Limit ${l.limit} refused ${plural(l.hits, "request")}`,
                        `the last of ${l.client} (${l.address}); applications get ENOLCK`]),
  ].filter(Boolean);
}

function showTroubles(s) {
  const troubles = troublesOf(s);
  byId("troubles").hidden = troubles.length === 0;
  byId("troubles").replaceChildren(...troubles.map(([title, detail]) => h("p", {}, h("strong", {}, title), ` ${detail}`)));
}

let graceEnds = 0;

function showGrace(grace) {
  byId("grace").hidden = !grace.active;
  byId("grace-end").hidden = changes === "refused";
  graceEnds = grace.active ? performance.now() + grace.remaining_seconds * 1000 : 0;
  const all = grace.reclaimed + grace.unreclaimed;
  byId("grace-detail").textContent = `${number(grace.reclaimed)} of ${number(all)} reclaimed`;
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

// Sums begin again with the daemon: then there is nothing to compare with.
function differences({totals, epoch}, at) {
  const old = before?.epoch === epoch && before.totals.requests <= totals.requests ? before : {totals, at};
  before = {totals, epoch, at};
  const passed = Math.max(0.001, (at - old.at) / 1000);
  const requests = totals.requests - old.totals.requests, commits = totals.commits - old.totals.commits;
  return {
    rate: requests / passed,
    latency: requests > 0 ? (totals.request_seconds - old.totals.request_seconds) / requests : null,
    commit: commits > 0 ? (totals.commit_seconds - old.totals.commit_seconds) / commits : null,
  };
}

function showFigures(status, at) {
  const d = differences(status, at);
  byId("tiles").replaceChildren(...FIGURES.map(figure => {
    const [value, unit] = figure.now(status, d);
    figure.series.add(figure.point(status, d));
    return h("div", {className: figure.warn?.(status) ? "tile warn" : "tile"}, h("div", {className: "name"}, figure.name),
             h("div", {className: "value"}, value, h("small", {}, unit)), figure.series.draw());
  }));
}

// ---- changes ----

let changes = "refused", files = "refused"; // as the status says: allowed, with_token, refused

function releasedText(told) {
  const names = told.granted.map(waiter => waiter.client.name);
  return `Released ${number(told.released)}. ` + (names.length ? `Granted in turn: ${names.join(", ")}.` : "No client was waiting.");
}

const confirm = asked => confirmChange({...asked, tokenNeeded: changes === "with_token", after: poll});
const releaseLock = lock => confirm({title: "Release this lock?", button: "Release", text: lockText(lock),
                                     change: () => ask("DELETE", `locks/${lock.id}`), done: releasedText});
const releaseClient = client => confirm({title: "Release everything of this client?", button: "Release all", text: clientText(client),
                                         change: () => ask("DELETE", `clients/${client.id}`), done: releasedText});

byId("log-in").onclick = () => confirmChange({
  title: "Show the files of locks", button: "Log in", text: "The token is sent once, and not kept.",
  tokenNeeded: true, change: () => ask("GET", "status"), done: () => "Logged in.", after: poll});

byId("grace-end").onclick = () => confirm({
  title: "End the grace period now?", button: "End grace",
  text: "Locks that are not reclaimed yet are released, and new locks are granted at once.",
  change: () => ask("POST", "grace/end"), done: told => `Grace ended; ${number(told.released)} released.`});

// ---- tables ----

let seen = null, queues = new Map(); // the last answers, to draw again when a queue is unfolded

const locksTable = new Table("locks", {
  columns: LOCK_COLUMNS, choices: LOCK_CHOICES, sort: "-waiters", changed: () => poll(),
  rowsOf: lock => lockRows(lock, queues.get(lock.id), changes === "refused" ? null : releaseLock, show)});
const clientsTable = new Table("clients", {
  columns: CLIENT_COLUMNS, choices: CLIENT_CHOICES, sort: "-notification", changed: () => poll(),
  rowsOf: client => clientRows(client, changes === "refused" ? null : releaseClient)});

// Where files are hidden, they can be neither searched for nor sorted by.
function searchQuery() {
  const text = byId("search-text").value.trim();
  if (files !== "allowed" && byId("search-field").value === "file") return "";
  return text ? `&${byId("search-field").value}=${encodeURIComponent(text)}` : "";
}

// False: a page that was asked for is not there any more.
function show() {
  const {status, locks, clients, waiters, waited, search} = seen;
  queues = queuesOf(locks.locks, waiters.waiters);
  byId("read-only").hidden = changes !== "refused";
  showHidden();
  showWaits(waited.locks, waiters.waiters, status.counts.waiters, show);
  const whole = locksTable.show(locks, status.counts.locks, search !== "", search ? "No lock fits the search." : "No lock is held.");
  return clientsTable.show(clients, clients.total, false, "No client is known.") && whole;
}

async function refresh() {
  const status = await ask("GET", "status");
  ({changes, files} = status);
  if (hasSession() && files !== "allowed") forgetSession();
  showHead(status);
  showStandby(status);
  showTroubles(status);
  if (standsBy(status)) return;
  const search = searchQuery(), waits = status.counts.waiters > 0;
  const order = files === "allowed" ? locksTable.query() : locksTable.query().replace(/sort=-?file\b/, "sort=-waiters");
  const [locks, clients, waiters, waited] = await Promise.all([
    ask("GET", `locks?${order}${search}`), ask("GET", `clients?${clientsTable.query()}`),
    waits ? ask("GET", "waiters?limit=500") : {waiters: []},
    waits ? ask("GET", "locks?limit=500&waited=true") : {locks: []},
  ]);
  seen = {status, locks, clients, waiters, waited, search};
  showGrace(status.grace);
  showFigures(status, performance.now());
  if (!show()) again = true;
}

// ---- gone and back ----

let lostAt = 0, lostWords = "", seenAt = 0;

function showLost() {
  const lost = lostAt > 0;
  document.body.classList.toggle("lost", lost);
  byId("lost").hidden = !lost;
  document.querySelector("main").inert = lost;
  document.title = lost ? "✕ Holdfast: no answer" : "Holdfast";
  if (!lost) return;
  byId("lost-title").textContent = lostWords || "holdfastd does not answer";
  byId("lost-detail").textContent = (seen ? `What is shown is ${age((Date.now() - seenAt) / 1000)} old. ` : "") + "Trying again each second.";
  showLive(0);
}

function lose(words = "") {
  lostWords = words;
  lostAt ||= Date.now();
  showLost();
}

async function heartbeat() {
  if (!document.hidden) {
    if (!await isThere(HEARTBEAT_TIMEOUT_MS)) lose();
    else if (lostAt) poll();
    showLost();
  }
  setTimeout(heartbeat, HEARTBEAT_MS);
}

// ---- live ----

let timer = 0, polling = false, again = false, touched = performance.now();

const recent = []; // milliseconds of the last refreshes

function pause(took) {
  if (recent.push(took) > SAMPLES) recent.shift();
  const wanted = document.hidden ? HIDDEN_MS : performance.now() - touched > IDLE_AFTER_MS ? IDLE_MS : POLL_MS;
  return Math.max(wanted, recent.length < SAMPLES ? 0 : Math.min(...recent) * SHARE_OF_TIME);
}

function showLive(wait) {
  const live = byId("live");
  live.className = lostAt ? "lost" : wait > POLL_MS ? "resting" : "";
  live.textContent = lostAt ? "no answer" : `live, every ${Math.round(wait / 1000)} s`;
}

// One at a time; what is asked for meanwhile (a search, a release) is asked right after.
async function poll() {
  if (polling) { again = true; return; }
  clearTimeout(timer);
  polling = true;
  again = false;
  const start = performance.now();
  try {
    await refresh();
    lostAt = 0;
    seenAt = Date.now();
    showLost();
  } catch (error) {
    lose(error.status ? error.message : "");
  }
  polling = false;
  const wait = pause(performance.now() - start);
  showLive(wait);
  timer = setTimeout(poll, again ? 0 : wait);
}

function search() {
  locksTable.restart();
  poll();
}

for (const event of ["pointermove", "keydown", "scroll"])
  addEventListener(event, () => { touched = performance.now(); }, {passive: true});
document.addEventListener("visibilitychange", () => { if (!document.hidden) poll(); });
byId("search").addEventListener("submit", event => { event.preventDefault(); search(); });
byId("search-text").addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(search, 200); });
byId("search-field").addEventListener("change", search);
setInterval(() => { if (!lostAt) tickGrace(); }, 250);
setInterval(() => { if (!lostAt) tickAges(); }, 1000);
poll();
heartbeat();
