// Lists of terms: which are in use, and what stands in them.
import * as api from "./api.js";
import { $, ask, el, fill, keepFocus } from "./dom.js";
import { t } from "./i18n.js";
import { attempt, say } from "./notices.js";
import { state } from "./state.js";
import { watchJobs } from "./jobs.js";
import { isName } from "./names.js";

export async function loadTerms() {
  const answer = await api.get("v1/terms");
  state.lists = (answer.data ?? answer).filter(list => !list.model || list.model === state.model);
  const known = new Set(state.lists.map(list => list.name));
  for (const name of state.inUse) if (!known.has(name)) state.inUse.delete(name);
  showTerms();
}

export function showTerms() {
  const place = $("terms");
  const open = new Set([...place.querySelectorAll("details[open]")].map(one => one.dataset.name));
  keepFocus(place, () => fill(place,
    state.lists.length
      ? el("fieldset", {}, el("legend", { class: "hidden" }, t("howTerms")), el("ul", { class: "plain-list items" }, state.lists.map(list => item(list, open.has(list.name)))))
      : el("p", {}, t("noTerms")),
    creating(open.has(""))));
}

const count = list => (Array.isArray(list.pairs) ? list.pairs.length : list.pairs ?? list.size ?? 0);

function item(list, isOpen) {
  const use = event => { if (event.target.checked) state.inUse.add(list.name); else state.inUse.delete(list.name); };
  const pairs = el("div", { class: "about small" });
  const details = el("details", { "data-name": list.name, open: isOpen },
    el("summary", { "data-focus": `terms-${list.name}` }, el("span", { class: "hidden" }, t("pairsOf", { name: list.name })), el("span", { "aria-hidden": "true", class: "soft small" }, t("pairs", { n: count(list) }))), pairs);
  const show = () => attempt(async () => fillPairs(pairs, list, await api.get(`v1/terms/${api.part(list.name)}`)));
  details.addEventListener("toggle", () => { if (details.open && !pairs.childElementCount) show(); });
  return el("li", {}, el("label", { class: "choice" },
    el("input", { type: "checkbox", checked: state.inUse.has(list.name), "data-focus": `use-${list.name}`, onchange: use }), el("span", { class: "name" }, list.name)), details);
}

function fillPairs(place, list, { pairs = [] }) {
  const path = source => `v1/terms/${api.part(list.name)}/pairs/${api.part(source)}`;
  const remove = pair => attempt(async () => { await api.send("DELETE", path(pair.source)); await loadTerms(); });
  const drop = el("button", { type: "button", class: "small plain danger-text" }, t("deleteList", { name: list.name }));
  drop.addEventListener("click", () => ask(drop, t("sureList", { name: list.name }), t("yesDelete"), t("no"), () => attempt(async () => {
    await api.send("DELETE", `v1/terms/${api.part(list.name)}`);
    say(t("deleted", { name: list.name }));
    await loadTerms();
  })));
  fill(place,
    el("ul", { class: "plain-list" }, pairs.map(pair => el("li", { class: "row" },
      el("span", {}, `${pair.source} → ${pair.target}`, learnt(pair)),
      el("button", { type: "button", class: "small plain danger-text", "aria-label": t("removePair", { source: pair.source }), onclick: () => remove(pair) }, "×")))),
    pairForm(`pair-${list.name}`, async (source, target) => {
      await api.send("PUT", path(source), { json: { source, target } });
      say(t("added", { source, target, name: list.name }));
      await loadTerms();
      watchJobs();
    }),
    drop);
}

function learnt(pair) {
  const found = (pair.renderings ?? []).map(one => (typeof one === "string" ? one : one.text ?? one.rendering ?? "")).filter(Boolean);
  return found.length ? el("span", { class: "soft" }, `, ${t("renderings", { text: found.slice(0, 3).join(", ") })}`) : "";
}

function pairForm(focus, add, before = null) {
  const source = el("input", { required: true, "data-focus": focus, autocomplete: "off" });
  const target = el("input", { required: true, autocomplete: "off" });
  const form = el("form", { class: "pair-form" }, before, el("label", {}, el("span", {}, t("source")), source), el("label", {}, el("span", {}, t("target")), target), el("button", {}, t("addPair")));
  form.addEventListener("submit", event => {
    event.preventDefault();
    attempt(() => add(source.value.trim(), target.value.trim()));
  });
  return form;
}

function creating(isOpen) {
  const name = el("input", { required: true, autocomplete: "off", "data-focus": "new-list" });
  const label = el("label", { class: "wide" }, el("span", {}, t("listName")), name);
  return el("details", { "data-name": "", open: isOpen, class: "new" }, el("summary", { "data-focus": "new-list-open" }, t("newList")), pairForm("new-pair", async (source, target) => {
    if (!isName(name.value)) throw new Error(t("addBadName"));
    await api.send("POST", "v1/terms", { json: { name: name.value, model: state.model, pairs: [{ source, target }] } });
    state.inUse.add(name.value);
    $("terms").querySelector("details.new").open = false;
    say(t("added", { source, target, name: name.value }));
    await loadTerms();
    watchJobs();
  }, label));
}
