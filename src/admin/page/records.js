// The tabs Losses, History and Cluster: tables that are read, not sorted or paged.

import {byId, elided, h} from "./dom.js";
import {age, number, range} from "./words.js";

const REASONS = {unreclaimed: "the client did not reclaim them in the grace period", unreachable: "the client could not be reached after our restart",
                 outside: "a program outside NFSv3 took the bytes"};

// Shows a time as 2026-11-18 03:12:00, in the reader's time zone.
export const moment = time => time ? new Date(time).toLocaleString("sv") : "–";

function fill(name, titles, rows) {
  byId(name).hidden = rows.length === 0;
  byId(name).replaceChildren(h("thead", {}, h("tr", {}, ...titles.map(title => h("th", {}, title)))),
                             h("tbody", {}, ...rows.map(cells => h("tr", {}, ...cells.map((cell, i) => h("td", {data: {title: titles[i]}, className: cell === "" ? "none" : ""}, cell))))));
}

export function showLosses({losses}, mayChange) {
  fill("losses", ["client", "locks", "when", "why"], losses.map(one => [
    h("span", {}, elided(one.client, "strong"), h("span", {className: "sub"}, one.address)),
    one.locks === null ? "not known" : number(one.locks), moment(one.time), REASONS[one.reason] ?? one.reason]));
  byId("losses-empty").hidden = losses.length > 0;
  byId("losses-ack").hidden = losses.length === 0 || !mayChange;
}

const HOW = {lock: "held", wait: "waited for", note: ""};

function lasted(entry) {
  const seconds = (Date.parse(entry.to) - Date.parse(entry.from)) / 1000;
  return entry.kind === "note" ? "" : age(seconds);
}

// An empty table must not pass for "nothing was locked" where nothing is known of that time.
function nothingOf(begins) {
  return "Nothing is recorded for this. " + (begins ? `The history begins at ${moment(begins)}; ` : "The history has no entry yet; ") +
    "locks and waits shorter than history.longer_than (a second, unless set) are not kept.";
}

export function showHistory({entries, more, begins}) {
  fill("history", ["from", "client", "what", "file", "lasted"], [...entries].reverse().map(one => [
    moment(one.from), one.client ? h("span", {}, elided(one.client.name ?? one.client.address, "strong"), h("span", {className: "sub"}, one.client.address ?? "")) : "",
    h("span", {}, [HOW[one.kind], one.mode ? `${one.mode}, ${range(one.range)}` : "", one.text ?? ""].filter(Boolean).join(" "), h("div", {className: "sub"}, one.what)),
    one.path || one.file ? elided(one.path ?? one.file, one.path ? "" : "mono") : "", lasted(one)]));
  byId("history-empty").hidden = entries.length > 0 && !more;
  byId("history-empty").textContent = more ? "There is more: choose an earlier time, or search." : nothingOf(begins);
}

export function historyRefused(words) {
  fill("history", [], []);
  byId("history-empty").hidden = false;
  byId("history-empty").textContent = words;
}

export function showCluster(cluster) {
  byId("cluster-text").textContent = `Service ${cluster.service}: ${cluster.owner || "no node"} took it` + (cluster.taken ? ` at ${moment(cluster.taken)}` : "") +
    `; ${number(cluster.takeovers)} takeovers and ${number(cluster.alarms)} alarms seen by this node.`;
  fill("cluster", ["node", "role", "version", "last seen"], cluster.nodes.map(node => [
    elided(node.name, "strong"), node.owner ? "active" : node.role ?? "standby", node.version, node.name === cluster.node ? "this node" : `${age(node.seen_seconds_ago)} ago`]));
}
