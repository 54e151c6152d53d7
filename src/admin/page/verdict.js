// The first line of the page says whether all is well, and if not, what is wrong and what to do
// next. Below it stands all that is wrong now, and what was lost until an operator acknowledges the
// loss.

import {byId, h} from "./dom.js";
import {byAge} from "./queues.js";
import {age, fileOf, plural, since} from "./words.js";

const LIMIT_SHOWN_MS = 3600000;  // a refusal by a limit is shown for an hour
const LONG_WAIT_SECONDS = 3600;  // a wait of an hour counts as a trouble, not as a queue

const lastPart = path => path.split("/").at(-1);

function longWait(waiter) {
  if (!waiter || waiter.waiting_seconds < LONG_WAIT_SECONDS) return null;
  return {title: `${waiter.client.name} has waited ${age(waiter.waiting_seconds)} for ${lastPart(fileOf(waiter))}`,
          detail: "its holder may hang, or have forgotten the lock", next: `holdfastctl why ${waiter.client.name}`};
}

function keeperAway(coherence) {
  return coherence.state !== "down" ? null : {
    title: "The keeper is away", detail: "no new lock is granted: the kernel cannot be asked whether another program holds it",
    next: "systemctl status holdfast-keeper"};
}

function lostLocks(losses) {
  return !losses.clients ? null : {
    title: `${plural(losses.locks, "lock")} of ${plural(losses.clients, "client")} lost after a restart`,
    detail: "holdfastctl losses names them; holdfastctl losses ack, or the tab Losses, removes this line", next: "holdfastctl losses"};
}

export const unreachedClients = s => s.notifications.failing + s.notifications.given_up;

// first: one of these clients.
function unreached(s, first) {
  const n = unreachedClients(s);
  return !n ? null : {title: `${plural(n, "client")} could not be told of our restart`,
                      detail: "The tab Clients shows which, and why.", next: `holdfastctl check ${first?.name ?? "CLIENT"}`};
}

// Lists what is wrong, the worst first, each with a title, a detail, and the next command for an
// operator.
function troublesOf(s, oldest, untold) {
  const now = Date.parse(s.time);
  const limits = s.limits.filter(l => now - Date.parse(l.time) < LIMIT_SHOWN_MS);
  return [
    s.store.up ? null : {title: "The store is down: nothing is promised", detail: s.store.reason ?? "", next: "holdfastctl doctor"},
    s.rpcbind.up ? null : {title: "New clients do not find this server", detail: s.rpcbind.reason, next: "holdfastctl doctor"},
    keeperAway(s.coherence), lostLocks(s.losses), longWait(oldest), unreached(s, untold),
    ...limits.map(l => ({title: `Limit ${l.limit} refused ${plural(l.hits, "request")}`,
                         detail: `the last of ${l.client} (${l.address}); applications get ENOLCK`, next: `holdfastctl locks --client ${l.client}`})),
  ].filter(Boolean);
}

function healthy(s, oldest, many) {
  const words = [h("strong", {}, s.grace.active ? "Clients reclaim their locks" : "Healthy"), `, up ${age(s.up_seconds)}; `];
  if (!oldest) return [...words, s.counts.waiters ? `${plural(s.counts.waiters, "request")} waiting.` : "no client waits."];
  return [...words, many ? "longest wait of those shown " : "longest wait ", since(oldest.waiting_seconds), `: ${oldest.client.name} for ${lastPart(fileOf(oldest))}.`];
}

// waiters: those that were loaded; many: there are more than these. untold: a client that could not be told of our restart.
export function showVerdict(s, {waiters, many, untold}) {
  const oldest = byAge(waiters.filter(one => !one.granting))[0], troubles = troublesOf(s, oldest, untold), worst = troubles[0];
  byId("verdict").className = `verdict ${worst ? "bad" : "good"}`;
  byId("verdict-text").replaceChildren(...worst
    ? [h("strong", {}, worst.title), ". Next: ", h("code", {}, worst.next), troubles.length > 1 ? ` (and ${plural(troubles.length - 1, "more trouble")} below)` : ""]
    : healthy(s, oldest, many));
  byId("troubles").hidden = troubles.length === 0;
  byId("troubles").replaceChildren(...troubles.map((one, i) => h("p", {}, i ? h("strong", {}, `${one.title}. `) : "", one.detail)));
}

// A node that does not serve knows no locks, so its verdict is about the node.
export function showStandbyVerdict(s) {
  byId("verdict").className = "verdict";
  byId("verdict-text").replaceChildren(h("strong", {}, `${s.node} stands by`), `, up ${age(s.up_seconds)}.`);
  byId("troubles").hidden = true;
}
