// Who waits for whom: owners as boxes, an arrow from each waiter to the owner it waits for. Whoever
// only holds stands on the left; whoever waits stands to the right of what it waits for. A circle of
// arrows would be a deadlock, and is drawn in red.

import {svg} from "./charts.js";

const WIDTH = 210, HEIGHT = 44, GAP_X = 90, GAP_Y = 16, NODES_MAX = 80;

const ownerKey = row => `${row.client.id}/${row.owner.svid}/${row.owner.handle}`;

function nodeFor(nodes, row) {
  const key = ownerKey(row);
  if (!nodes.has(key) && nodes.size < NODES_MAX)
    nodes.set(key, {key, row, out: [], depth: -1, cycle: false});
  return nodes.get(key);
}

// Edges: to the holder of the lock in the way; else, dashed, to the waiter just before it.
function build(locks, waiters) {
  const nodes = new Map(), byLock = new Map(locks.map(lock => [lock.id, lock])), lastOfFile = new Map();
  const ordered = [...waiters].sort((a, b) => b.waiting_seconds - a.waiting_seconds);
  for (const waiter of ordered) {
    if (waiter.granting) continue;
    const holder = byLock.get(waiter.blocked_by), ahead = lastOfFile.get(waiter.file);
    lastOfFile.set(waiter.file, waiter);
    const target = holder ?? ahead;
    if (!target) continue;
    const from = nodeFor(nodes, waiter), to = nodeFor(nodes, target);
    if (from && to && from !== to && !from.out.some(edge => edge.to === to))
      from.out.push({from, to, row: waiter, behind: !holder, cycle: false});
  }
  return [...nodes.values()];
}

function place(node, path) {
  const start = path.indexOf(node);
  if (start >= 0) {
    for (const member of path.slice(start)) {
      member.cycle = true;
      for (const edge of member.out)
        if (path.indexOf(edge.to) >= start) edge.cycle = true;
    }
    return 0;
  }
  if (node.depth >= 0) return node.depth;
  path.push(node);
  const depth = Math.max(-1, ...node.out.map(edge => place(edge.to, path))) + 1;
  path.pop();
  node.depth = depth;
  return depth;
}

function shorten(text, max) {
  return text.length > max ? text.slice(0, max - 1) + "…" : text;
}

function drawNode(node) {
  const {client, owner} = node.row;
  const kind = node.cycle ? "cycle" : node.out.length ? "waiter" : "holder";
  const title = svg("title", {}, `${client.name} (${client.address}), owner ${owner.svid} ${owner.text ?? owner.handle}`);
  const name = svg("text", {x: node.x + 12, y: node.y + 19}, shorten(client.name, 26));
  const detail = svg("text", {x: node.x + 12, y: node.y + 35, class: "sub"},
                     shorten(`${client.address ?? ""} · owner ${owner.svid}`, 34));
  return svg("g", {class: kind}, title,
             svg("rect", {x: node.x, y: node.y, width: WIDTH, height: HEIGHT, rx: 8}), name, detail);
}

function drawEdge(edge) {
  const x1 = edge.from.x, y1 = edge.from.y + HEIGHT / 2;
  const x2 = edge.to.x + WIDTH, y2 = edge.to.y + HEIGHT / 2, bend = Math.max(40, Math.abs(x1 - x2) / 2);
  const kind = edge.cycle ? " cycle" : edge.behind ? " behind" : "";
  const title = svg("title", {}, `waits for ${edge.row.path ?? edge.row.file}, ${edge.row.mode}`);
  return [svg("path", {class: "edge" + kind, d: `M${x1},${y1} C${x1 - bend},${y1} ${x2 + bend},${y2} ${x2 + 8},${y2}`}, title),
          svg("path", {class: "head" + kind, d: `M${x2 + 1},${y2} l9,-5 v10 Z`})];
}

export function drawGraph(locks, waiters) {
  const nodes = build(locks, waiters);
  if (!nodes.length) return null;
  for (const node of nodes) place(node, []);
  const rows = [];
  for (const node of nodes) {
    rows[node.depth] = (rows[node.depth] ?? 0) + 1;
    node.x = 1 + node.depth * (WIDTH + GAP_X);
    node.y = 1 + (rows[node.depth] - 1) * (HEIGHT + GAP_Y);
  }
  const width = Math.max(...nodes.map(node => node.x)) + WIDTH + 1;
  const height = Math.max(...nodes.map(node => node.y)) + HEIGHT + 1;
  return svg("svg", {width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Who waits for whom"},
             ...nodes.flatMap(node => node.out.flatMap(drawEdge)), ...nodes.map(drawNode));
}
