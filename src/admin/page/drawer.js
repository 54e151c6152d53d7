// The drawer shows one lock or client closely: times, whether its client is alive, its queue, and
// what can be done.

import {ask} from "./api.js";
import {noticeWords} from "./clients.js";
import {byId, h} from "./dom.js";
import {blockersOf, byAge, fileKey, grantedBy} from "./queues.js";
import {moment} from "./records.js";
import {fileOf, number, ownerOf, range, since} from "./words.js";

let opened = null, opener = null, act = {};

const facts = pairs => h("dl", {}, ...pairs.filter(([, value]) => value !== null).flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, ...[value].flat())]));

const names = waiters => waiters.map(waiter => `${waiter.client.name} (${waiter.mode}, ${range(waiter.range)})`).join(", ");

// Says in words what a release would do, for the drawer and for the question before the release.
export function consequence(gone, locks, waiters) {
  const granted = grantedBy(gone, locks, waiters);
  return granted.length ? `Granted in turn: ${names(granted)}.` : "No client would be granted a lock by it.";
}

function button(text, run, danger = false) {
  const element = h("button", {type: "button", className: danger ? "danger" : ""}, text);
  element.onclick = () => run(element);
  return element;
}

async function tell(element, path, words) {
  element.disabled = true;
  try {
    byId("drawer-told").replaceChildren(...words(await ask("POST", path.path, path.body)));
  } catch (error) {
    byId("drawer-told").replaceChildren(error.status === 401 ? "This needs the token: release or end something once to log in." : error.message);
  }
  element.disabled = false;
}

const stepWords = step => h("li", {}, `${step.ok ? "✓" : "✕"} ${step.step}: ${step.finding}`, step.advice ? h("div", {className: "sub"}, step.advice) : null);

const checkWords = told => [
  h("p", {}, h("strong", {}, told.reachable ? "It can be called back." : "It cannot be called back."), told.finds_us ? "" : " Its own requests may not find us."),
  h("ol", {}, ...told.steps.map(stepWords))];

function buttons(client, release) {
  if (act.refused) return h("p", {className: "sub"}, "Changes are refused here; use holdfastctl.");
  return h("div", {className: "buttons left"},
    button("Check", element => tell(element, {path: `clients/${client.id}/check`}, checkWords)),
    button("Notify", element => tell(element, {path: "notifications", body: JSON.stringify({client: client.id})}, () => ["The notice of our restart is sent again."])),
    release);
}

function lockBody(lock, client, locks, waiters) {
  const queue = byAge(waiters);
  return [facts([
    ["client", [lock.client.name, h("div", {className: "sub"}, lock.client.address ?? "")]], ["file", fileOf(lock)], ["handle", lock.path ? lock.file : null],
    ["owner", ownerOf(lock.owner)], ["lock", `${lock.mode}, ${range(lock.range)}`], ["since", [moment(lock.acquired_at), " (", since(lock.held_seconds), ")"]],
    ["last heard", client ? [since(client.idle_seconds), " ago"] : null], ["on disk", lock.durable ? "yes" : "no: a restart forgets it"],
    ["reclaimed", lock.unreclaimed ? "not yet" : null],
    ["waiting", queue.length ? h("ol", {}, ...queue.map(w => h("li", {}, `${w.client.name}, ${w.mode}, ${range(w.range)}, `, w.granting ? "granted: being told" : since(w.waiting_seconds),
      blockersOf(w, locks).some(one => one.id !== lock.id) ? " (also behind other locks)" : ""))) : "no client"],
    ["if released", consequence(one => one.id === lock.id, locks, waiters)],
  ]), buttons(lock.client, button("Release…", () => act.releaseLock(lock), true))];
}

function clientBody(client) {
  const holds = client.locks + client.waiters + client.reservations > 0;
  return [facts([
    ["addresses", (client.addresses ?? []).join(", ") || client.address], ["reaches us at", client.local_address], ["by", client.protocol === "nsm" ? "SM_MON" : `NLM, ${client.transport}`],
    ["first seen", moment(client.first_seen)], ["last heard", [since(client.idle_seconds), " ago"]], ["its state number", client.state === null ? null : String(client.state)],
    ["locks", number(client.locks)], ["waiting", number(client.waiters)], ["reservations", number(client.reservations)],
    ["not reclaimed", client.unreclaimed ? number(client.unreclaimed) : null], ["notice of our restart", noticeWords(client.notification)],
  ]), buttons(client, holds ? button("Release all…", () => act.releaseClient(client), true) : null)];
}

function closeDrawer() {
  byId("drawer").hidden = true;
  opened = null;
  opener?.focus?.();
}

// True if the drawer shows a queue: then the page asks for the lists of waits once, for its view
// and for the drawer.
export const wantsWaits = () => opened?.isLock ?? false;

// Draws the drawer from what the lists say now; for a lock that is gone the drawer says so. Only a
// lock has an owner. lists: what the refresh of the page has read; without them (the drawer was
// just opened) draw() asks for them.
async function draw(lists = {}) {
  const {id, isLock, row} = opened;
  const client = await ask("GET", `clients/${isLock ? row.client.id : id}`).catch(error => { if (error.status === 404) return null; throw error; });
  let body = [h("p", {}, isLock ? "This lock is not held any more." : "This client is not known any more.")];
  if (isLock) {
    const [held, waited, waiters] = await Promise.all([
      ask("GET", `locks?search=${id}`), lists.waited ?? ask("GET", "locks?limit=500&waited=true"), lists.waiters ?? ask("GET", "waiters?limit=500")]);
    const lock = held.locks.find(one => one.id === id);
    const of = rows => rows.filter(one => fileKey(one) === fileKey(row));
    if (lock) body = lockBody(lock, client, of(waited.locks), of(waiters.waiters));
  } else if (client) {
    body = clientBody(client);
  }
  if (opened?.id !== id) return;
  const state = JSON.stringify(body.map(part => part.textContent.replace(/\d+ (s|min|h|d)\b/g, "")));
  if (state === opened.state) return;
  opened.state = state;
  byId("drawer-title").textContent = isLock ? `Lock of ${row.client.name}` : row.name;
  byId("drawer-body").replaceChildren(...body, h("div", {id: "drawer-told", role: "status"}));
}

export const refreshDrawer = lists => opened ? draw(lists) : null;

// row: a lock, a client, or a waiter, of which the client is shown.
export function openDrawer(row, actions) {
  const isLock = "held_seconds" in row, isWaiter = "waiting_seconds" in row, shown = isWaiter ? row.client : row;
  opener = document.activeElement;
  act = actions;
  opened = {id: shown.id, isLock, row: shown, state: ""};
  byId("drawer-title").textContent = "…";
  byId("drawer").hidden = false;
  byId("drawer").focus();
  return draw();
}

byId("drawer-close").onclick = closeDrawer;
addEventListener("keydown", event => { if (event.key === "Escape" && opened && !byId("confirm").open) closeDrawer(); });
