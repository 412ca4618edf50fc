// A file of terms or sentences becomes a list of terms, a store, or more of a store.
import * as api from "./api.js";
import { $, el, fill, freshId } from "./dom.js";
import { t } from "./i18n.js";
import { watchJobs } from "./jobs.js";
import { isName, nameFrom } from "./names.js";
import { attempt, say } from "./notices.js";
import { state } from "./state.js";
import { loadTerms } from "./terms.js";

const LOOKED_AT = 20000; // bytes at the beginning, to guess what a file is
let chosen = null;

export function showAdding() {
  const place = $("add");
  const input = el("input", { type: "file", hidden: true, accept: ".csv,.tsv,.tmx,.txt,text/csv,text/tab-separated-values", "aria-label": t("addFile"), id: "add-file" });
  input.addEventListener("change", () => { if (input.files[0]) choose(input.files[0]); });
  const zone = el("div", { class: "drop small-drop", id: "add-drop" }, el("span", { class: "soft small" }, t("addDrop")), " ",
    el("button", { type: "button", class: "small", onclick: () => input.click() }, t("addChoose")), input);
  fill(place, zone, el("div", { id: "add-form" }));
  dropping(zone, choose);
  if (chosen) showForm();
}

// take: gets the file that is dropped there
export function dropping(zone, take) {
  const over = on => event => { event.preventDefault(); zone.classList.toggle("over", on); };
  zone.addEventListener("dragover", over(true));
  zone.addEventListener("dragleave", over(false));
  zone.addEventListener("drop", event => {
    over(false)(event);
    const files = event.dataTransfer.files;
    attempt(async () => {
      if (files.length !== 1) throw new Error(t("notOneFile"));
      await take(files[0]);
    });
  });
}

async function choose(file) {
  const guessed = await guess(file);
  chosen = { file, guessed, kind: guessed, name: nameFrom(file.name) };
  showForm();
  $("add-form").querySelector("input:checked").focus();
}

// Glossaries have a few words a line, memories have sentences.
async function guess(file) {
  if (/\.tmx$/i.test(file.name)) return "store";
  const lines = (await file.slice(0, LOOKED_AT).text()).split(/\r?\n/).filter(line => line.trim());
  const words = lines.slice(0, 50).map(line => line.split(/\t|[;,](?=\S)/)[0].trim().split(/\s+/).length);
  return words.reduce((sum, n) => sum + n, 0) / (words.length || 1) < 3.5 ? "terms" : "store";
}

function showForm() {
  const { file, kind, name } = chosen;
  const editable = state.stores.filter(store => store.editable);
  const options = [["terms", t("addTerms")], ["store", t("addStore")], ...editable.map(store => [`into:${store.name}`, t("addAppend", { store: store.name })])];
  const field = el("input", { value: name, required: true, autocomplete: "off", spellcheck: "false" });
  field.addEventListener("input", () => { chosen.name = field.value; });
  const about = el("div", { class: "row", hidden: kind === "terms" }, ["licence", "origin"].map(name => {
    const input = el("input", { autocomplete: "off", maxlength: "200", value: chosen[name] ?? "" });
    input.addEventListener("input", () => { chosen[name] = input.value; });
    return el("label", { class: "grow" }, el("span", {}, t(name === "licence" ? "addLicence" : "addOrigin")), input);
  }));
  const id = freshId("kind");
  const form = el("form", { class: "adding", "aria-labelledby": id },
    el("p", { id, class: "name" }, file.name),
    el("fieldset", {}, el("legend", { class: "soft small" }, t("addAs")), options.map(([value, text]) => el("label", { class: "choice" },
      el("input", { type: "radio", name: "kind", value, checked: value === kind, onchange: () => { chosen.kind = value; about.hidden = value === "terms"; } }), el("span", {}, text)))),
    about,
    el("div", { class: "row" }, el("label", { class: "grow" }, el("span", {}, t("addName")), field),
      el("button", { class: "main" }, t("addGo")), el("button", { type: "button", onclick: forget }, t("cancel"))));
  form.addEventListener("submit", event => {
    event.preventDefault();
    const button = form.querySelector("button.main");
    button.disabled = true;
    attempt(add).finally(() => { button.disabled = false; });
  });
  fill($("add-form"), form);
}

function forget() {
  chosen = null;
  showAdding();
  $("add").querySelector("button").focus();
}

async function add() {
  const { file, guessed, kind, name, licence, origin } = chosen;
  if (!isName(name)) throw new Error(t("addBadName"));
  say(t("addSending", { name: file.name }));
  if (kind === "terms") {
    await api.send("POST", "v1/terms", { form: api.fields({ name, model: state.model, source_language: state.spoken, target_language: state.written }, file) });
    state.inUse.add(name);
    await loadTerms();
    say(t("addListDone", { name }));
  } else {
    const into = kind === "store" ? null : kind.slice("into:".length);
    const path = into === null ? "v1/stores" : `v1/stores/${api.part(into)}/sources`;
    const named = into === null ? { name } : { source: name };
    const about = { model: state.model, source_language: state.spoken, language: state.written, licence, origin };
    const short = guessed === "terms" ? { kind: "sentences" } : {}; // people know better
    await api.send("POST", path, { form: api.fields({ ...named, ...about, ...short }, file) });
  }
  forget();
  watchJobs();
}
