// Lists of terms: which are in use, and what stands in them.
import * as api from "./api.js";
import { $, ask, el, fill, icon, keepFocus } from "./dom.js";
import { t } from "./i18n.js";
import { attempt, say } from "./notices.js";
import { state } from "./state.js";
import { watchJobs } from "./jobs.js";
import { isName } from "./names.js";

export async function loadTerms() {
  const { data } = await api.get(`v1/terms?model=${api.part(state.model)}`);
  state.lists = data;
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

let next = ""; // what gets the focus when it is shown again
const PAUSE = 1500; // milliseconds between two looks at a list that is being learnt

function item(list, isOpen) {
  const use = event => { if (event.target.checked) state.inUse.add(list.name); else state.inUse.delete(list.name); };
  const pairs = el("div", { class: "about small" });
  const details = el("details", { "data-name": list.name, open: isOpen },
    el("summary", { "data-focus": `terms-${list.name}` }, el("span", { class: "hidden" }, t("pairsOf", { name: list.name })), el("span", { "aria-hidden": "true", class: "soft small" }, t("pairs", { n: list.pairs }))), pairs);
  const show = async () => {
    const found = await api.get(`v1/terms/${api.part(list.name)}`);
    keepFocus(pairs, () => fillPairs(pairs, list, found));
    return found.learnt < found.size;
  };
  // Until all of it is learnt; not while somebody is writing into it
  const follow = async () => {
    if (!details.isConnected || !details.open) return;
    if (pairs.contains(document.activeElement) || await show()) setTimeout(() => attempt(follow, true), PAUSE);
  };
  details.addEventListener("toggle", () => attempt(follow));
  return el("li", {}, el("label", { class: "choice" },
    el("input", { type: "checkbox", checked: state.inUse.has(list.name), "data-focus": `use-${list.name}`, onchange: use }), el("span", { class: "name" }, list.name)), details);
}

function fillPairs(place, list, { pairs = [] }) {
  const path = source => `v1/terms/${api.part(list.name)}/pairs/${api.part(source)}`;
  const remove = pair => attempt(async () => { await api.send("DELETE", path(pair.source)); await loadTerms(); });
  const drop = el("button", { type: "button", class: "small plain danger-text" }, t("deleteList"), el("span", { class: "hidden" }, ` ${list.name}`));
  drop.addEventListener("click", () => ask(drop, t("sureList", { name: list.name }), t("yesDelete"), t("no"), () => attempt(async () => {
    await api.send("DELETE", `v1/terms/${api.part(list.name)}`);
    say(t("deleted", { name: list.name }));
    await loadTerms();
  })));
  fill(place,
    el("ul", { class: "plain-list" }, pairs.map(pair => el("li", { class: "row" },
      el("span", {}, `${pair.source} → ${pair.target}`, el("span", { class: "soft" }, learnt(pair))),
      el("button", { type: "button", class: "small plain danger-text", "aria-label": t("removePair", { source: pair.source }), onclick: () => remove(pair) }, icon("close"))))),
    pairForm(`pair-${list.name}`, async (source, target) => {
      await api.send("PUT", path(source), { json: { source, target } });
      say(t("added", { source, target, name: list.name }));
      next = `pair-${list.name}`;
      await loadTerms();
      watchJobs();
    }),
    drop);
  if (next) place.querySelector(`[data-focus="${next}"]`)?.focus();
  next = "";
}

// What the model writes instead, which is what gets replaced
function learnt({ learnt: known, renderings = [] }) {
  if (!known) return `, ${t("learning")}`;
  const text = renderings.slice(0, 3).map(one => one.text).join(", ");
  return text ? `, ${t("renderings", { text })}` : "";
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
