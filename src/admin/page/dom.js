// Makes elements of the page. Everything that is shown is set as text, never as markup, because
// peers choose their names.

const PLAIN_MAX = 24, TAIL = 12, TAIL_OF_PATH_MAX = 28;

export const byId = id => document.getElementById(id);

export function h(tag, properties, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (name === "data") Object.assign(element.dataset, value);
    else element[name] = value;
  }
  element.append(...children.filter(child => child !== null && child !== undefined));
  return element;
}

export const chip = (text, kind = "") => h("span", {className: `chip ${kind}`}, text);

// A button that looks like text, and opens what the text names.
export function link(content, act) {
  const button = h("button", {type: "button", className: "link"}, content);
  button.onclick = act;
  return button;
}

// The first rows of a long list that is folded; a single further row is shown instead of "1 more".
export const firstOf = (rows, max) => rows.length <= max + 1 ? rows : rows.slice(0, max);

// How many characters at the end of a text stay visible: the last part of a path if that is short
// enough.
function tailOf(text) {
  const name = text.length - text.lastIndexOf("/");
  return text.includes("/") && name <= TAIL_OF_PATH_MAX ? name : TAIL;
}

// Measures text in the fonts of style.css, at the largest size that an elided text has there.
const ruler = document.createElement("canvas").getContext("2d");
function widthOf(text, mono) {
  ruler.font = mono ? "13px ui-monospace, monospace" : "500 14px system-ui, sans-serif";
  return Math.ceil(ruler.measureText(text).width);
}

// Makes a text that loses its middle, not its end, where it does not fit. The whole text stays in
// the document, so a search in the page finds it and a copy has all of it; hovering shows it.
export function elided(text, className = "") {
  const letters = [...text];
  if (letters.length <= PLAIN_MAX) return h("span", {className: `elided ${className}`, title: text}, text);
  const tail = Math.min(tailOf(text), letters.length - 1), end = letters.slice(-tail).join("");
  const start = h("span", {className: "start"}, letters.slice(0, -tail).join(""));
  start.style.maxWidth = `calc(100% - ${widthOf(end, className === "mono") + 1}px)`;
  return h("span", {className: `elided ${className}`, title: text}, start, end);
}
