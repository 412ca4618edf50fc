// Stores: which of them speak, and what is known of each.
import * as api from "./api.js";
import { colourOf } from "./colours.js";
import { $, ask, el, fill, freshId, keepFocus } from "./dom.js";
import { bytes, number, t } from "./i18n.js";
import { attempt, say } from "./notices.js";
import { state } from "./state.js";
import { watchJobs } from "./jobs.js";

export async function loadStores() {
  const { data } = await api.get("v1/stores");
  state.stores = data.filter(store => !store.model || store.model === state.model);
  const known = new Set(state.stores.map(store => store.name));
  for (const name of state.picked) if (!known.has(name)) state.picked.delete(name);
  for (const store of state.stores) colourOf(store.name);
  showStores();
}

export function showStores() {
  const place = $("stores");
  const open = new Set([...place.querySelectorAll("details[open]")].map(one => one.dataset.name));
  keepFocus(place, () => {
    if (!state.stores.length) return fill(place, el("p", {}, t("noStores")));
    const mode = (value, key, note) => el("label", { class: "choice" },
      el("input", { type: "radio", name: "mode", value, checked: state.mode === value, "data-focus": `mode-${value}`, onchange: () => { state.mode = value; showStores(); } }),
      el("span", {}, t(key), note ? el("span", { class: "soft small" }, ` ${t(note)}`) : ""));
    return fill(place, el("fieldset", {}, el("legend", { class: "hidden" }, t("howStores")),
      mode("auto", "auto", "autoWhat"), mode("pick", "pick"), mode("none", "none")),
    el("ul", { class: "plain-list items" }, state.stores.map(store => item(store, open.has(store.name)))));
  });
}

function item(store, isOpen) {
  const speaks = state.mode === "auto" || (state.mode === "pick" && state.picked.has(store.name));
  const box = el("input", { type: "checkbox", checked: speaks, "data-focus": `store-${store.name}`, onchange: event => pick(store, event.target.checked) });
  const details = el("details", { open: isOpen, "data-name": store.name },
    el("summary", { "data-focus": `about-${store.name}` }, el("span", { class: "hidden" }, t("details", { name: store.name })), el("span", { "aria-hidden": "true", class: "soft small" }, howMuch(store))),
    about(store));
  details.addEventListener("toggle", () => { if (details.open) showCorrections(store, details.querySelector(".corrections")); });
  if (isOpen) showCorrections(store, details.querySelector(".corrections"));
  return el("li", {}, el("label", { class: "choice" }, box, el("span", { class: `swatch ${colourOf(store.name)}`, "aria-hidden": "true" }), el("span", { class: "name" }, store.name)), details);
}

function howMuch({ keys, sources = [] }) {
  const n = sources.reduce((sum, one) => sum + (one.sentences ?? 0), 0);
  return n ? t("sentences", { n }) : t("keys", { n: keys });
}

// Whoever ticks a store wants to choose: what has been speaking so far goes on, but for this one.
function pick(store, on) {
  if (state.mode !== "pick") state.picked = new Set(state.mode === "auto" ? state.stores.map(one => one.name) : []);
  if (on) state.picked.add(store.name);
  else state.picked.delete(store.name);
  state.mode = "pick";
  showStores();
}

function about(store) {
  const { card = {}, sources = [], editable } = store;
  const facts = [["licence", card.licence], ["origin", card.origin], ["gain", score(card.gain)], ["harm", score(card.harm)], ["tuned", tuning(card.tuned)], ["size", card.size_bytes ? bytes(card.size_bytes) : ""]].filter(([, value]) => value);
  return el("div", { class: "about small" },
    el("dl", { class: "facts" }, facts.map(([key, value]) => el("div", {}, el("dt", { class: "soft" }, t(key)), el("dd", {}, value)))),
    el("h3", {}, t("sources")),
    el("ul", { class: "plain-list" }, sources.map(one => source(store, typeof one === "string" ? { name: one } : one))),
    el("div", { class: "corrections" }),
    editable ? deleting([t("deleteStore"), el("span", { class: "hidden" }, ` ${store.name}`)], t("sureStore", { name: store.name }), () => removeStore(store)) : el("p", { class: "soft" }, t("readOnly")));
}

// {base_bleu, bleu} of held-out sentences, or what else there is
function score(value) {
  if (typeof value?.bleu !== "number" || typeof value.base_bleu !== "number") return plain(value);
  return t("bleu", { before: number(value.base_bleu), after: number(value.bleu) });
}

function tuning(value) {
  if (typeof value !== "object" || value === null) return plain(value);
  return [`k ${value.k}`, `λ ${number(value.lambda, 2)}`, `T ${number(value.temperature)}`, value.guarded ? t("guarded") : ""].filter(Boolean).join(", ");
}

function plain(value) {
  if (value === null || value === undefined || value === "" || value === false) return "";
  if (typeof value === "number") return number(value);
  if (Array.isArray(value)) return value.map(plain).filter(Boolean).join(", ");
  if (typeof value === "object") return Object.entries(value).map(([key, one]) => [key, plain(one)]).filter(([, one]) => one).map(([key, one]) => `${key} ${one}`).join(", ");
  return String(value);
}

function source(store, one) {
  const what = el("span", {}, one.name, one.sentences ? el("span", { class: "soft" }, `, ${t("sentences", { n: one.sentences })}`) : "");
  if (!store.editable || store.sources.length < 2) return el("li", {}, what);
  const remove = () => attempt(async () => {
    await api.send("DELETE", `v1/stores/${api.part(store.name)}/sources/${api.part(one.name)}`);
    watchJobs();
  });
  return el("li", { class: "row" }, what, deleting(t("remove"), t("sureSource", { name: one.name }), remove, t("removeSource", { name: one.name, store: store.name })));
}

function deleting(text, question, work, label) {
  const button = el("button", { type: "button", class: "small plain danger-text", "aria-label": label ?? null }, text);
  button.addEventListener("click", () => ask(button, question, t("yesDelete"), t("no"), work));
  return button;
}

const removeStore = store => attempt(async () => {
  await api.send("DELETE", `v1/stores/${api.part(store.name)}`);
  say(t("deleted", { name: store.name }));
  await loadStores();
  $("stores").querySelector("input")?.focus();
});

async function showCorrections(store, place) {
  if (!place) return;
  const answer = await attempt(() => api.get(`v1/corrections?store=${api.part(store.name)}`));
  const found = answer?.data ?? [];
  if (!found.length) return void fill(place);
  const id = freshId("corrections");
  const remove = one => attempt(async () => { await api.send("DELETE", `v1/corrections/${api.part(one.id)}`); await loadStores(); });
  fill(place, el("h3", { id }, t("corrections")), el("ul", { class: "plain-list", "aria-labelledby": id }, found.map(one => el("li", { class: "row" },
    el("span", {}, one.text), el("button", { type: "button", class: "small plain danger-text", "aria-label": t("removeCorrection", { text: one.text }), onclick: () => remove(one) }, t("remove"))))));
}
