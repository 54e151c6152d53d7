// Small graphs: a line without axes, with the time that it covers below it. Only the shape matters.

import {age} from "./words.js";

const SVG = "http://www.w3.org/2000/svg";
// A graph with few points is drawn wider, so that the first half minute does not sit in a corner.
const POINTS = 60, POINTS_FIRST = 15;

export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

export class Series {
  values = [];
  times = []; // when each of the values was read, in milliseconds

  add(value) {
    this.values.push(value);
    this.times.push(performance.now());
    if (this.values.length > POINTS) { this.values.shift(); this.times.shift(); }
  }

  // Says what time the line covers, as in "last 40 s".
  span() {
    return this.times.length > 1 ? `last ${age((this.times.at(-1) - this.times[0]) / 1000)}` : "";
  }

  draw() {
    const top = Math.max(1e-9, ...this.values);
    const step = 100 / (Math.max(POINTS_FIRST, this.values.length) - 1);
    const left = 100 - (this.values.length - 1) * step;
    const at = (value, i) => `${(left + i * step).toFixed(2)},${(27 - 25 * value / top).toFixed(2)}`;
    const line = this.values.map(at).join(" L");
    const chart = svg("svg", {viewBox: "0 0 100 28", preserveAspectRatio: "none", class: "spark", "aria-hidden": "true"});
    if (this.values.length > 1) {
      chart.append(svg("path", {class: "area", d: `M${left},28 L${line} L100,28 Z`}),
                   svg("path", {class: "line", d: `M${line}`}));
    }
    return chart;
  }
}
