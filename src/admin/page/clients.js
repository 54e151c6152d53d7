// The table of clients, which says for each whether it was told of our restart.

import {chip, elided, h, link} from "./dom.js";
import {number, setSince, since} from "./words.js";

const NOTICE_KINDS = {delivered: "good", pending: "warn", failing: "bad", given_up: "bad"};

export function noticeWords(notice) {
  if (notice.status === "none") return [h("span", {className: "sub"}, "nothing to tell")];
  const words = notice.error ? `${notice.error}, ${notice.attempts} tries` : null;
  return [chip(notice.status.replace("_", " "), NOTICE_KINDS[notice.status]), words ? h("div", {className: "sub"}, words) : null];
}

function clientRow(client, act) {
  const holds = client.locks + client.waiters + client.reservations > 0;
  const button = act.release && holds ? h("button", {type: "button", className: "small", ariaLabel: `release all of ${client.name}`}, "release all…") : null;
  if (button) button.onclick = () => act.release(client);
  return h("tr", {}, h("td", {}, link(elided(client.name, "strong"), () => act.open(client)), h("div", {className: "sub"}, client.address ?? "")),
    h("td", {}, ...noticeWords(client.notification)),
    h("td", {className: "count-cell", data: {title: "locks"}}, number(client.locks)),
    h("td", {className: client.waiters ? "count-cell waited" : "count-cell", data: {title: "waiting"}}, number(client.waiters)),
    h("td", {className: "nowrap", data: {title: "heard"}}, since(client.idle_seconds), " ago"),
    h("td", {className: "by"}, client.protocol === "nsm" ? "SM_MON" : `NLM, ${client.transport}`), h("td", {className: "act"}, button));
}

export const CLIENT_COLUMNS = [
  {title: "client", sort: "client", first: ""}, {title: "notice of our restart", sort: "notification", first: "-"},
  {title: "locks", sort: "locks", first: "-", className: "w-count"}, {title: "waiting", sort: "waiters", first: "-", className: "w-count"},
  {title: "last heard", sort: "idle", first: "", className: "w-idle"}, {title: "by", className: "w-by"}, {title: "", className: "w-act"},
];
export const CLIENT_CHOICES = [["-notification", "trouble first"], ["-locks", "most locks"], ["-waiters", "most waiting"], ["client", "by name"], ["-idle", "longest silent"]];

export function clientRows(client, act) {
  const signature = JSON.stringify({...client, idle_seconds: 0, last_seen: "", release: Boolean(act.release)});
  return [{key: client.id, signature, make: () => clientRow(client, act),
           update: element => setSince(element.querySelector(".since"), client.idle_seconds)}];
}
