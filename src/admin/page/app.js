// The live page: asks the REST interface again and again, and shows the answers: the verdict and
// the figures always, and the view that is chosen. A heartbeat runs beside it, so that the page
// notices within three seconds that the daemon is gone, however seldom it asks for lists.

import * as address from "./address.js";
import {ask, forgetSession, hasSession, isThere} from "./api.js";
import {Series} from "./charts.js";
import {CLIENT_CHOICES, CLIENT_COLUMNS, clientRows} from "./clients.js";
import {confirmChange} from "./confirm.js";
import {byId, chip, h} from "./dom.js";
import {consequence, openDrawer, refreshDrawer, wantsWaits} from "./drawer.js";
import {LOCK_CHOICES, LOCK_COLUMNS, lockRows} from "./locks.js";
import {fileKey} from "./queues.js";
import {historyRefused, showCluster, showHistory, showLosses} from "./records.js";
import {Table} from "./table.js";
import * as tabs from "./tabs.js";
import {showStandbyVerdict, showVerdict, unreachedClients} from "./verdict.js";
import {showWaits} from "./waits.js";
import {age, duration, fileOf, number, plural, range, tickAges} from "./words.js";

const POLL_MS = 2000, IDLE_MS = 5000, HIDDEN_MS = 30000;
const IDLE_AFTER_MS = 60000;   // after so long without a touch by its reader the page asks less often
const SHARE_OF_TIME = 20;      // asking takes at most 1/20 of the time, however slow the answers are
const SAMPLES = 3;             // a refresh counts as the quickest of so many, because one may be slow by chance
const HEARTBEAT_MS = 1000, HEARTBEAT_TIMEOUT_MS = 1500;
const WAITS_MAX = 500;         // how many waiters, and locks with waiters, are loaded at most
const HISTORY_MAX = 300;       // how many entries of the history are shown

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

// ---- a node that does not serve: it knows no locks, so the page must not show an empty list ----

const standsBy = s => s.role !== null && s.role !== "active";

function showStandby(s) {
  const waits = standsBy(s), elsewhere = waits && s.active_node && s.active_node !== s.node;
  byId("standby").hidden = !waits;
  for (const element of document.querySelectorAll(".serving")) element.hidden = waits;
  byId("tab-cluster").hidden = s.role === null;
  tabs.settle(waits ? "cluster" : s.counts.waiters > 0 ? "waits" : "locks");
  if (!waits) return;
  byId("grace").hidden = true;
  byId("standby-text").textContent = `${s.node} does not serve now (${s.role}). ` + (elsewhere ? "Locks are on another node: look there." : "No node is known to serve.");
  // Nodes are named as their hosts are, unless the operator chose otherwise (cluster.node).
  byId("standby-link").hidden = !elsewhere;
  byId("standby-link").href = elsewhere ? `${location.protocol}//${s.active_node}${location.port ? `:${location.port}` : ""}/` : "";
  byId("standby-link").textContent = elsewhere ? s.active_node : "";
}

function showHidden() {
  byId("files-hidden").hidden = files === "allowed";
  byId("files-hidden-text").textContent = files === "with_token" ? "The files of locks are hidden."
    : "The files of locks are hidden: set admin.read_token_file, or open this page by holdfastctl page as root.";
  byId("log-in").hidden = files !== "with_token";
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

// The sums begin again when the daemon is started anew; then there is nothing to compare them with.
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
             h("div", {className: "value"}, value, h("small", {}, unit)), figure.series.draw(), h("div", {className: "span"}, figure.series.span()));
  }));
}

// ---- changes ----

// What this page may do, as the status says: allowed, with_token, refused.
let changes = "refused", files = "refused";

function releasedText(told) {
  const names = told.granted.map(waiter => waiter.client.name);
  return `Released ${number(told.released)}. ` + (names.length ? `Granted in turn: ${names.join(", ")}.` : "No client was waiting.");
}

const confirm = asked => confirmChange({...asked, tokenNeeded: changes === "with_token", after: poll});

// What a release would do is computed from lists that are read now, so that the question to the
// operator is not out of date.
async function waitsOf(of) {
  const [locks, waiters] = await Promise.all([ask("GET", `locks?limit=${WAITS_MAX}&waited=true`), ask("GET", `waiters?limit=${WAITS_MAX}`)]);
  return [locks.locks.filter(of), waiters.waiters.filter(of)];
}

async function releaseLock(lock) {
  const [locks, waiters] = lock.waiters ? await waitsOf(row => fileKey(row) === fileKey(lock)) : [[], []];
  confirm({title: "Release this lock?", button: "Release",
           text: `${lock.client.name} (${lock.client.address}) holds ${fileOf(lock)}, ${range(lock.range)}. The client is not told, and may go on as if it held the lock. ` +
             consequence(row => row.id === lock.id, locks, waiters),
           change: () => ask("DELETE", `locks/${lock.id}`), done: releasedText});
}

async function releaseClient(client) {
  const [locks, waiters] = await waitsOf(() => true), files = new Set(locks.filter(lock => lock.client.id === client.id).map(fileKey));
  const of = rows => rows.filter(row => files.has(fileKey(row)));
  confirm({title: "Release everything of this client?", button: "Release all",
           text: `${client.name} (${client.address}): ${plural(client.locks, "lock")}, ${number(client.waiters)} waiting. The client is not told, and may go on as if it held them. ` +
             consequence(row => row.client.id === client.id, of(locks), of(waiters)),
           change: () => ask("DELETE", `clients/${client.id}`), done: releasedText});
}

byId("losses-ack").onclick = () => confirm({
  title: "Acknowledge these losses?", button: "Acknowledge", text: "They are no longer shown here, by holdfastctl losses and in the verdict. The history keeps them.",
  change: () => ask("DELETE", "losses"), done: () => "Acknowledged."});

byId("log-in").onclick = () => confirmChange({
  title: "Show the files of locks", button: "Log in", text: "The token is sent once, and not kept.",
  tokenNeeded: true, change: () => ask("GET", "status"), done: () => "Logged in.", after: poll});

byId("grace-end").onclick = () => confirm({
  title: "End the grace period now?", button: "End grace",
  text: "Locks that are not reclaimed yet are released, and new locks are granted at once.",
  change: () => ask("POST", "grace/end"), done: told => `Grace ended; ${number(told.released)} released.`});

// ---- views ----

let seen = null; // the last answers, from which the page is drawn again when a queue is unfolded

const refused = () => changes === "refused";
const open = row => openDrawer(row, {refused: refused(), releaseLock, releaseClient});

// Shows a lock's waiters: the tab Waits, with the lock's file as search.
function showQueue(lock) {
  setSearch(files === "allowed" ? fileOf(lock) : lock.client.name);
  tabs.choose("waits", {focus: true});
}

const locksTable = new Table("locks", {
  columns: LOCK_COLUMNS, choices: LOCK_CHOICES, sort: "-waiters", changed: () => poll(),
  rowsOf: lock => lockRows(lock, {open, queue: showQueue, release: refused() ? null : releaseLock})});
const clientsTable = new Table("clients", {
  columns: CLIENT_COLUMNS, choices: CLIENT_CHOICES, sort: "-notification", changed: () => poll(),
  rowsOf: client => clientRows(client, {open, release: refused() ? null : releaseClient})});

const searched = () => byId("search-text").value.trim();
const searchQuery = () => searched() ? `&search=${encodeURIComponent(searched())}` : "";

function setSearch(text) {
  byId("search-text").value = text;
  address.set("search", text);
  locksTable.restart();
  clientsTable.restart();
}

function historyQuery() {
  const until = byId("history-until").value;
  return `history?limit=${searched() ? HISTORY_MAX * 10 : HISTORY_MAX}` + (until ? `&until=${new Date(until).toISOString().slice(0, 19)}Z` : "");
}

const holds = (entry, text) => [entry.client?.name, entry.client?.address, entry.path, entry.file, entry.owner?.text, entry.what, entry.text]
  .some(one => one?.toLowerCase().includes(text.toLowerCase()));

function emptyLocks() {
  if (searched()) return ["No lock fits the search."];
  return [h("p", {}, h("strong", {}, "No lock is held.")),
          h("p", {}, "Clients find this server by rpcbind: ", h("code", {}, "rpcinfo -p SERVER"), " on a client must list program 100021. Then mount an export by NFSv3 and try:"),
          h("pre", {}, "mount -t nfs -o vers=3 SERVER:/EXPORT /mnt\nflock -x /mnt/some-file sleep 60")];
}

// Each view asks for what it shows. False: the page of the list that was asked for does not exist
// any more.
const VIEWS = {
  waits: {
    show: ({waited, waiters, status}) => showWaits(waited.locks, waiters.waiters, status.counts.waiters, searched(), draw, open)},
  locks: {
    ask: () => {
      const order = files === "allowed" ? locksTable.query() : locksTable.query().replace(/sort=-?file\b/, "sort=-waiters");
      return ask("GET", `locks?${order}${searchQuery()}`);
    },
    show: ({view, status}) => locksTable.show(view, status.counts.locks, searched() !== "", emptyLocks)},
  clients: {
    ask: () => ask("GET", `clients?${clientsTable.query()}${searchQuery()}`),
    show: ({view, status}) => clientsTable.show(view, status.counts.clients + status.counts.registrations, searched() !== "",
                                                () => [searched() ? "No client fits the search." : "No client is known."])},
  losses: {ask: () => ask("GET", "losses"), show: ({view}) => showLosses(view, !refused())},
  history: {
    ask: () => ask("GET", historyQuery()).catch(error => { if (!error.status) throw error; return {refused: error.message}; }),
    show: ({view}) => {
      if (view.refused) return historyRefused(view.refused);
      const entries = searched() ? view.entries.filter(entry => holds(entry, searched())) : view.entries;
      return showHistory({entries: entries.slice(-HISTORY_MAX), more: view.more || entries.length > HISTORY_MAX, begins: view.begins});
    }},
  cluster: {ask: () => ask("GET", "cluster"), show: ({view}) => showCluster(view)},
};

function draw() {
  byId("read-only").hidden = !refused();
  showHidden();
  return VIEWS[seen.name].show(seen) !== false;
}

// Shows counts beside the names of the tabs. While a search is on, the view that is shown sets its
// own count.
function showCounts({counts, losses}) {
  byId("waits-count").textContent = number(counts.waiters);
  byId("locks-count").textContent = number(counts.locks);
  byId("clients-count").textContent = number(counts.clients + counts.registrations);
  byId("losses-count").textContent = losses.locks ? number(losses.locks) : "";
}

async function refresh() {
  const status = await ask("GET", "status");
  ({changes, files} = status);
  if (hasSession() && files !== "allowed") forgetSession();
  showHead(status);
  showStandby(status);
  const serves = !standsBy(status), waits = serves && status.counts.waiters > 0, name = tabs.current();
  const [view, waiters, waited, untold] = await Promise.all([
    VIEWS[name].ask?.() ?? null, waits ? ask("GET", `waiters?limit=${WAITS_MAX}`) : {waiters: []},
    !waits ? {locks: []} : name === "waits" || wantsWaits() ? ask("GET", `locks?limit=${WAITS_MAX}&waited=true`) : null,
    serves && unreachedClients(status) > 0 ? ask("GET", "clients?sort=-notification&limit=1") : {clients: []}]);
  if (name !== tabs.current()) { again = true; return; }
  seen = {name, status, view, waiters, waited};
  if (serves) {
    showVerdict(status, {waiters: waiters.waiters, many: waiters.waiters.length < status.counts.waiters, untold: untold.clients[0]});
    showGrace(status.grace);
    showFigures(status, performance.now());
    showCounts(status);
  } else {
    showStandbyVerdict(status);
  }
  if (!draw()) again = true;
  await refreshDrawer({waiters, waited});
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

const recent = []; // how many milliseconds each of the last refreshes took

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

// Refreshes run one at a time; one that is wanted meanwhile (by a search, a release) follows right
// after.
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
  setSearch(byId("search-text").value);
  poll();
}

for (const event of ["pointermove", "keydown", "scroll"])
  addEventListener(event, () => { touched = performance.now(); }, {passive: true});
document.addEventListener("visibilitychange", () => { if (!document.hidden) poll(); });
byId("search").addEventListener("submit", event => { event.preventDefault(); search(); });
byId("search-text").addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(search, 200); });
byId("history-form").addEventListener("submit", event => { event.preventDefault(); poll(); });
byId("history-now").onclick = () => { byId("history-until").value = ""; poll(); };
setInterval(() => { if (!lostAt) tickGrace(); }, 250);
setInterval(() => { if (!lostAt) tickAges(); }, 1000);
tabs.start(() => { if (seen) poll(); });
setSearch(address.get("search"));
poll();
heartbeat();
