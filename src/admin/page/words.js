// Words for figures, times and ranges on the page.

import {h} from "./dom.js";

export const number = n => n.toLocaleString("en");

export const plural = (n, what) => `${number(n)} ${what}${n === 1 ? "" : "s"}`;

export function age(seconds) {
  const s = Math.max(0, Math.floor(seconds));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor(s / 60) % 60} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor(s / 3600) % 24} h`;
}

export function duration(seconds) {
  if (seconds === null) return ["–", ""];
  if (seconds < 0.001) return [(seconds * 1e6).toFixed(0), "µs"];
  if (seconds < 1) return [(seconds * 1e3).toFixed(1), "ms"];
  return [seconds.toFixed(1), "s"];
}

export const range = r => r.first === "0" && r.last === null ? "whole file" : `bytes ${r.first} to ${r.last ?? "the end"}`;
export const ownerOf = o => o.text?.startsWith(`${o.svid}@`) ? o.text : `${o.svid} ${o.text ?? o.handle}`;
export const fileOf = row => row.path_status === "hidden" ? `file ${row.file.slice(0, 4)}` : row.path ?? row.file + (row.path_status === "deleted" ? " (deleted)" : "");

// ---- ages that go on growing between two answers ----

// answers take unequal time on the way, so an age does not jump for less than this.
const JITTER_MS = 1500;

export function since(seconds) {
  const element = h("span", {className: "since"});
  setSince(element, seconds);
  return element;
}

export function setSince(element, seconds) {
  const start = performance.now() - seconds * 1000;
  if (Math.abs(start - Number(element.dataset.since ?? NaN)) < JITTER_MS) return;
  element.dataset.since = String(start);
  element.textContent = age(seconds);
}

export function tickAges() {
  for (const element of document.querySelectorAll("[data-since]")) {
    const text = age((performance.now() - Number(element.dataset.since)) / 1000);
    if (element.textContent !== text) element.textContent = text;
  }
}
