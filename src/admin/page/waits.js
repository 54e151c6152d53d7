// Shows which client waits for which. All owners that are joined by waits are in one picture: on
// the left the owners that hold and wait for nothing, right of them those that wait for them, and
// so on, so that a chain of waits is read from its root. A line leads from a waiter to every lock
// in its way; a dashed line leads to the waiter that it stands behind. Long queues are folded.
// Owners that wait for each other in a cycle, which would be a deadlock, are red. A narrow page has
// no lines, and a picture is an indented list.

import {svg} from "./charts.js";
import {byId, elided, firstOf, h, link} from "./dom.js";
import {blockersOf, byAge, fileKey, ownerKey} from "./queues.js";
import {fileOf, number, plural, range, since} from "./words.js";

const SHOWN = 3, PICTURES_MAX = 24, COLUMNS_MAX = 12;
const LINE = 18, PAD = 12, GAP = 6, LINES = 72; // sizes in pixels, which style.css repeats

const unfolded = new Set(); // the keys of queues that are shown whole
let drawn = "";

const lastPart = row => fileOf(row).split("/").at(-1);

// ---- what is to be shown ----

// A node is an owner, with the locks for which others wait and the requests with which it waits
// itself; or a holder outside of NFSv3.
function nodesOf(locks, waiters) {
  const nodes = new Map(), byFile = new Map();
  const nodeOf = (key, row) => nodes.get(key) ?? nodes.set(key, {key, row, locks: [], waits: [], to: [], behind: null, depth: 0}).get(key);
  for (const lock of locks) {
    if (!byFile.has(fileKey(lock))) byFile.set(fileKey(lock), []);
    byFile.get(fileKey(lock)).push(lock);
  }
  const lastOfFile = new Map();
  for (const waiter of byAge(waiters)) {
    const node = nodeOf(ownerKey(waiter), waiter), inTheWay = waiter.granting ? [] : blockersOf(waiter, byFile.get(fileKey(waiter)) ?? []);
    node.waits.push(waiter);
    for (const lock of inTheWay) {
      const holder = nodeOf(ownerKey(lock), lock);
      if (!holder.locks.includes(lock)) holder.locks.push(lock);
      if (!node.to.includes(holder)) node.to.push(holder);
    }
    if (waiter.outside && !waiter.granting) {
      const holder = nodeOf(`outside ${fileKey(waiter)} ${waiter.outside.pid}`, waiter);
      holder.outside = waiter.outside;
      if (!node.to.includes(holder)) node.to.push(holder);
    }
    const before = lastOfFile.get(fileKey(waiter));
    if (!waiter.granting && !node.to.length && before && before !== node) node.behind = before;
    lastOfFile.set(fileKey(waiter), node);
  }
  for (const node of nodes.values()) node.cycle = inCycle(node);
  return [...nodes.values()];
}

// Nodes that a line joins, or that wait for the same file, belong to one picture.
function picturesOf(nodes) {
  const parent = new Map(nodes.map(node => [node, node])), fileOwner = new Map();
  const root = node => { while (parent.get(node) !== node) node = parent.get(node); return node; };
  const join = (a, b) => parent.set(root(a), root(b));
  for (const node of nodes) {
    for (const other of [...node.to, node.behind].filter(Boolean)) join(node, other);
    for (const wait of node.waits) {
      if (fileOwner.has(fileKey(wait))) join(node, fileOwner.get(fileKey(wait)));
      else fileOwner.set(fileKey(wait), node);
    }
  }
  const pictures = new Map();
  for (const node of nodes) {
    if (!pictures.has(root(node))) pictures.set(root(node), []);
    pictures.get(root(node)).push(node);
  }
  return [...pictures.values()];
}

// True if the owner is on a cycle in which each waits for a lock that the next one holds. Only an
// owner that waits and is waited for can be on one.
function inCycle(start) {
  if (!start.waits.length || !start.locks.length) return false;
  const seen = new Set(), next = [...start.to];
  while (next.length) {
    const node = next.pop();
    if (node === start) return true;
    if (!seen.has(node)) next.push(...node.to);
    seen.add(node);
  }
  return false;
}

// Sets how many waits lie between each node and the root of its chain.
function setDepths(nodes) {
  const visit = (node, path) => {
    if (node.measured || path.length >= COLUMNS_MAX || path.includes(node)) return node.depth;
    for (const other of [...node.to, ...(node.behind ? node.behind.to : [])])
      node.depth = Math.max(node.depth, Math.min(visit(other, [...path, node]) + 1, COLUMNS_MAX));
    node.measured = true;
    return node.depth;
  };
  for (const node of nodes) visit(node, []);
}

const longest = nodes => Math.max(0, ...nodes.flatMap(node => node.waits.map(wait => wait.waiting_seconds)));

// ---- drawing ----

function lineOf(words, time, row) {
  return h("div", {className: "sub"}, words, " ", time, ` · ${row.mode}, ${range(row.range)}`);
}

function outsideBox(node) {
  const {outside, row} = node, name = outside.pid > 0 ? `process ${outside.pid}` : "another program or server";
  return h("div", {className: "box holder outside"}, h("span", {className: "strong"}, name),
           h("div", {className: "sub"}, `holds ${lastPart(row)} outside NFSv3 · ${outside.mode}, ${range(outside.range)}`));
}

function box(node, open) {
  if (node.outside) return outsideBox(node);
  const {client, owner} = node.row, kind = node.waits.length ? node.locks.length ? "holder waiter" : "waiter" : "holder";
  const element = h("div", {className: `box ${kind}${node.cycle ? " cycle" : ""}`}, link(elided(client.name, "strong"), () => open(node.row)),
    ...node.waits.map(wait => lineOf(h("b", {}, `waits for ${lastPart(wait)}`), wait.granting ? "granted: being told" : since(wait.waiting_seconds), wait)),
    ...node.locks.map(lock => lineOf(`holds ${lastPart(lock)}`, since(lock.held_seconds), lock)));
  element.title = `${client.name} (${client.address}), owner ${owner.svid} ${owner.text ?? owner.handle}`;
  return element;
}

const heightOf = node => PAD + LINE * (1 + (node.outside ? 1 : node.waits.length + node.locks.length));

// Returns the nodes of a column that are shown: of those that wait for one file and have no waiters
// themselves, only the oldest few.
function fold(column, waitedFor) {
  const queues = new Map(), rows = [];
  for (const node of column) {
    const leaf = node.waits.length === 1 && !node.locks.length && !waitedFor.has(node), key = leaf ? fileKey(node.waits[0]) : "";
    if (!leaf) rows.push({node});
    else if (queues.has(key)) queues.get(key).push(node);
    else queues.set(key, [node]);
  }
  for (const [key, queue] of queues) {
    const shown = unfolded.has(key) ? queue : firstOf(queue, SHOWN), rest = queue.length - shown.length;
    rows.push(...shown.map(node => ({node})));
    if (rest || (unfolded.has(key) && queue.length > SHOWN + 1)) rows.push({key, rest});
  }
  return rows;
}

function place(columns) {
  const places = new Map();
  let height = 0;
  for (const [index, rows] of columns.entries()) {
    let top = 0;
    for (const row of rows) {
      const tall = row.node ? heightOf(row.node) : LINE + GAP;
      if (row.node) places.set(row.node, {column: index, middle: top + tall / 2});
      top += tall + GAP;
    }
    height = Math.max(height, top);
  }
  return {places, height};
}

function edge(from, to, kind) {
  const d = `M${LINES},${from} C${LINES / 2},${from} ${LINES / 2},${to} 9,${to}`;
  return [svg("path", {class: `edge ${kind}`, d}), svg("path", {class: `head ${kind}`, d: `M1,${to} l9,-5 v10 Z`})];
}

// Draws the line from a waiter to the one before it in the queue: a bow on the left of their boxes.
function bow(from, to) {
  return [svg("path", {class: "edge behind", d: `M${LINES},${from} C${LINES - 26},${from} ${LINES - 26},${to} ${LINES - 8},${to}`}),
          svg("path", {class: "head behind", d: `M${LINES},${to} l-9,-5 v10 Z`})];
}

// Draws the lines in the space left of a column. A line that leads further left ends at the border
// of the column before.
function linesBefore(index, {places, height}, nodes) {
  const paths = nodes.filter(node => places.get(node)?.column === index).flatMap(node => {
    const from = places.get(node).middle, red = node.cycle ? "cycle" : "";
    const ahead = node.to.map(other => places.get(other)).filter(at => at && at.column < index);
    if (ahead.length) return ahead.flatMap(at => edge(from, at.middle, red));
    return node.behind && places.get(node.behind)?.column === index ? bow(from, places.get(node.behind).middle) : [];
  });
  return svg("svg", {class: "lines", width: LINES, height, viewBox: `0 0 ${LINES} ${height}`, "aria-hidden": "true"}, ...paths);
}

function moreButton({key, rest}, redraw) {
  const button = h("button", {type: "button", className: "more"}, rest ? `+${number(rest)} more` : "fold");
  button.onclick = () => {
    if (!unfolded.delete(key)) unfolded.add(key);
    redraw();
  };
  return button;
}

function picture(nodes, redraw, open) {
  setDepths(nodes);
  const waitedFor = new Set(nodes.flatMap(node => node.to)), files = new Map();
  for (const node of nodes) for (const wait of node.waits) files.set(fileKey(wait), wait);
  const columns = [];
  for (const node of nodes) (columns[node.depth] ??= []).push(node);
  const rows = columns.filter(Boolean).map(column => fold(column, waitedFor)), layout = place(rows);
  const waiting = nodes.reduce((n, node) => n + node.waits.length, 0);
  const body = h("div", {className: "wait-body"}, ...rows.flatMap((column, index) => {
    const side = h("div", {className: "side"}, ...column.map(row => row.node ? box(row.node, open) : moreButton(row, redraw)));
    side.style.setProperty("--depth", index);
    return index ? [linesBefore(index, layout, nodes), side] : [side];
  }));
  body.style.gridTemplateColumns = rows.map(() => "minmax(190px, 1fr)").join(` ${LINES}px `);
  const [first] = files.values();
  return h("article", {className: rows.length > 2 ? "wait-card chain" : "wait-card"},
    h("h3", {}, elided(fileOf(first), first.path ? "" : "mono"), files.size > 1 ? h("span", {className: "files"}, `and ${plural(files.size - 1, "more file")}`) : null,
      h("span", {className: "sub"}, `${number(waiting)} waiting, longest `, since(longest(nodes)))),
    body);
}

function emptyState() {
  return [h("p", {}, h("strong", {}, "No client waits for a lock.")),
          h("p", {}, "To see one wait: mount an export by NFSv3 on two clients, and run this on both of them, in a file of the mount:"),
          h("pre", {}, "flock -x /mnt/some-file sleep 60"),
          h("p", {}, "If the command hangs or says “No locks available” at once, look with ", h("code", {}, "rpcinfo -p SERVER"),
            " whether the client finds program 100021 here; ", h("code", {}, "holdfastctl doctor"), " looks at this host.")];
}

const shape = rows => rows.map(row => [row.id, row.granting, row.blocked_by, row.range, row.path, row.outside]);

// Draws anew only when something other than the ages has changed, so that a selection survives a
// refresh.
export function showWaits(locks, waiters, total, searched, redraw, open) {
  const state = JSON.stringify([shape(locks), shape(waiters), total, searched, [...unfolded]]);
  if (state === drawn) return;
  drawn = state;
  const pictures = picturesOf(nodesOf(locks, waiters)).filter(nodes => nodes.some(node => node.waits.length && (!searched || matches(node, searched))))
    .sort((a, b) => longest(b) - longest(a));
  const files = new Set(waiters.map(fileKey)).size, empty = byId("waits-empty");
  byId("waits-title").hidden = !pictures.length;
  byId("waits-title").textContent = `${number(total)} waiting for ${plural(files, "file")}` + (waiters.length < total ? `; ${number(waiters.length)} of them are shown` : "");
  byId("waits").replaceChildren(...pictures.slice(0, PICTURES_MAX).map(nodes => picture(nodes, redraw, open)),
    ...(pictures.length > PICTURES_MAX ? [h("p", {className: "sub"}, `+${number(pictures.length - PICTURES_MAX)} more`)] : []));
  empty.hidden = pictures.length > 0;
  empty.replaceChildren(...(searched && waiters.length ? ["No wait fits the search."] : emptyState()));
}

function matches(node, text) {
  const rows = [...node.waits, ...node.locks], wanted = text.toLowerCase();
  return rows.some(row => [row.client.name, row.client.address, row.owner.text, String(row.owner.svid), fileOf(row)].some(one => one?.toLowerCase().includes(wanted)));
}
