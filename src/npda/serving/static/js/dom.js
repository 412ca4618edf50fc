// Elements from code. Texts become text nodes, never HTML.
export function el(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "css") for (const [name, v] of Object.entries(value)) element.style.setProperty(name, v);
    else if (key in element && typeof value === "boolean") element[key] = value;
    else element.setAttribute(key, value);
  }
  element.append(...children.flat(Infinity).filter(child => child !== null && child !== undefined && child !== false));
  return element;
}

export const $ = id => document.getElementById(id);

const SVG = "http://www.w3.org/2000/svg";

// One of the symbols in index.html
export function icon(name) {
  const picture = document.createElementNS(SVG, "svg"), use = document.createElementNS(SVG, "use");
  picture.setAttribute("class", "icon");
  picture.setAttribute("aria-hidden", "true");
  use.setAttribute("href", `#icon-${name}`);
  picture.append(use);
  return picture;
}

export const setIcon = (button, name) => button.querySelector("use").setAttribute("href", `#icon-${name}`);

let numbers = 0;
export const freshId = name => `${name}-${++numbers}`;

export function fill(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter(child => child !== null && child !== undefined && child !== false));
  return element;
}

// What a row says of itself stays where the focus was, although the row is made anew.
export function keepFocus(element, work) {
  const name = element.contains(document.activeElement) ? document.activeElement.dataset.focus : undefined;
  work();
  if (name) [...element.querySelectorAll("[data-focus]")].find(other => other.dataset.focus === name)?.focus();
}

// Ask in place of a dialog: the question stands where the button was.
export function ask(button, question, yes, no, work) {
  const before = button.parentElement;
  const box = el("div", { class: "ask", role: "group", "aria-label": question },
    el("span", {}, question),
    el("button", { type: "button", class: "danger", onclick: () => { box.replaceWith(button); work(); } }, yes),
    el("button", { type: "button", onclick: () => { box.replaceWith(button); button.focus(); } }, no));
  box.addEventListener("keydown", event => { if (event.key === "Escape") { event.stopPropagation(); box.replaceWith(button); button.focus(); } });
  if (before) button.replaceWith(box);
  box.querySelectorAll("button")[1].focus();
}
