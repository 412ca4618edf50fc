// The page in several languages: `t` gives a string, elements carry their keys in data-t attributes.
import en from "./i18n/en.js";
import de from "./i18n/de.js";

const STRINGS = { en, de };
const KEPT = "npda.language";
let language = "en";

export const current = () => language;

export function t(key, values = {}) {
  let text = STRINGS[language][key] ?? STRINGS.en[key] ?? key;
  if (typeof text === "object") text = text[new Intl.PluralRules(language).select(values.n)] ?? text.other;
  return text.replace(/\{(\w+)\}/g, (_, name) => {
    const value = values[name] ?? "";
    return typeof value === "number" ? number(value) : value;
  });
}

export const has = key => key in STRINGS.en;
export const number = (value, digits = 1) => new Intl.NumberFormat(language, { maximumFractionDigits: digits }).format(value);

export function percent(share) {
  const format = new Intl.NumberFormat(language, { style: "percent" });
  return share > 0 && share < 0.01 ? `<${format.format(0.01)}` : format.format(share);
}

// A probability in as many figures as tell something.
export function probability(p) {
  if (p === 0) return "0";
  if (p < 0.001) return `<${number(0.001, 3)}`;
  return number(p, p < 0.1 ? 3 : 2);
}

export function bytes(n) {
  const [unit, size] = n < 1e6 ? ["kilobyte", 1e3] : n < 1e9 ? ["megabyte", 1e6] : ["gigabyte", 1e9];
  return new Intl.NumberFormat(language, { style: "unit", unit, maximumFractionDigits: 1 }).format(n / size);
}

export function languageName(code) {
  try {
    return new Intl.DisplayNames([language], { type: "language" }).of(code);
  } catch {
    return code; // names that models have for languages need not be codes
  }
}

export function begin() {
  const wished = [sessionStorage.getItem(KEPT), ...navigator.languages].filter(Boolean);
  speak(wished.map(name => name.slice(0, 2).toLowerCase()).find(name => name in STRINGS) ?? "en");
}

export function speak(name) {
  language = name;
  sessionStorage.setItem(KEPT, name);
  document.documentElement.lang = name;
  translate(document);
  document.dispatchEvent(new Event("npda:language"));
}

export function translate(root) {
  for (const element of root.querySelectorAll("[data-t]")) element.textContent = t(element.dataset.t);
  for (const element of root.querySelectorAll("[data-t-label]")) element.setAttribute("aria-label", t(element.dataset.tLabel));
}
