// Shows one view at a time. Arrow keys, Home and End move between the tabs, as in any list of tabs.

import * as address from "./address.js";
import {byId} from "./dom.js";

const NAMES = ["waits", "locks", "clients", "losses", "history", "cluster"];

let chosen = "", changed = () => {};

const button = name => byId(`tab-${name}`);
const shown = () => NAMES.filter(name => !button(name).hidden);

export const current = () => chosen;

export function choose(name, {focus = false} = {}) {
  if (name !== chosen) {
    chosen = name;
    address.set("tab", name);
    changed();
  }
  mark();
  reveal();
  if (focus) button(name).focus();
}

// On a phone the row of tabs is wider than the screen.
const reveal = () => { if (chosen) button(chosen).scrollIntoView({block: "nearest", inline: "nearest"}); };

function mark() {
  for (const name of NAMES) {
    const selected = name === chosen;
    button(name).setAttribute("aria-selected", String(selected));
    button(name).tabIndex = selected ? 0 : -1;
    byId(`panel-${name}`).hidden = !selected || button(name).hidden;
  }
}

// Chooses another tab if the chosen one is hidden now: a standby has no locks to show.
export function settle(preferred) {
  if (!shown().includes(chosen)) choose(shown().includes(preferred) ? preferred : shown()[0]);
  else mark();
}

export function start(onChange) {
  const wanted = address.get("tab");
  changed = onChange;
  chosen = NAMES.includes(wanted) ? wanted : "";
  addEventListener("resize", reveal);
  for (const name of NAMES) button(name).onclick = () => choose(name);
  byId("tabs").addEventListener("keydown", event => {
    const all = shown(), at = all.indexOf(chosen);
    const to = {ArrowRight: at + 1, ArrowLeft: at - 1 + all.length, Home: 0, End: all.length - 1}[event.key];
    if (to === undefined) return;
    event.preventDefault();
    choose(all[to % all.length], {focus: true});
  });
}
