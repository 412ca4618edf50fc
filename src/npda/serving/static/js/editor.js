// Correcting a sentence where it stands.
import { el } from "./dom.js";
import { t } from "./i18n.js";

const USUAL = "corrections"; // the store that is made for them

// stores: names; label: of the button that saves; save(text, store) is awaited; cancel: what Escape and the second button do
export function editor({ text, language, stores, label, save, cancel }) {
  const input = el("textarea", { rows: 2, lang: language, required: true, spellcheck: "true" });
  input.value = text;
  const others = stores.filter(name => name !== USUAL);
  const where = el("select", {}, el("option", { value: USUAL }, stores.includes(USUAL) ? USUAL : t("correctNew")), others.map(name => el("option", { value: name }, name)));
  const form = el("form", { class: "editor", "aria-label": t("correctThis") },
    el("label", {}, el("span", {}, t("correction")), input),
    el("div", { class: "row" },
      el("label", { class: "inline" }, el("span", {}, t("correctTo")), where),
      el("button", { class: "main" }, label ?? t("correctSave")),
      el("button", { type: "button", onclick: cancel }, t("cancel"))));
  form.addEventListener("submit", async event => {
    event.preventDefault();
    const buttons = form.querySelectorAll("button");
    for (const button of buttons) button.disabled = true;
    await save(input.value.trim(), where.value);
    for (const button of buttons) button.disabled = false;
  });
  form.addEventListener("keydown", event => {
    if (event.key === "Escape") cancel();
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  return form;
}
