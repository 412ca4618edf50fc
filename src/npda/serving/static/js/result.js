// A translation: the model alone beside the model with its stores, word by word, to be asked about and corrected.
import { colourOf } from "./colours.js";
import { el, fill, freshId } from "./dom.js";
import { percent, t } from "./i18n.js";
import { extension, save, subtitles } from "./subtitles.js";
import { why } from "./why.js";

// answer: {name, sentences, raw, spoken, written, example}; actions: {correct(sentence, text, store), again, stores()}
export function showResult(place, answer, actions) {
  const { sentences } = answer;
  const changed = sentences.reduce((sum, one) => sum + one.changed, 0);
  const id = freshId("result");
  fill(place, el("section", { class: "card result", "aria-labelledby": id },
    el("div", { class: "head" },
      el("h3", { id }, answer.name),
      el("span", { class: "soft small" }, sentences.length ? (changed ? t("changed", { n: changed }) : t("same")) : "")),
    answer.example && known(answer),
    sentences.length
      ? [sentences.map(one => segment(one, answer, actions, sentences.length > 1)), legend(sentences)]
      : el("p", {}, t("nothingHeard")),
    el("div", { class: "row foot" },
      el("button", { type: "button", id: "again", onclick: actions.again }, t("again")),
      sentences.length ? el("div", { class: "row", role: "group", "aria-label": t("download") },
        el("span", { class: "soft small", "aria-hidden": "true" }, t("download")),
        ["srt", "vtt", "json"].map(format => el("button", { type: "button", class: "small", "data-format": format, "aria-label": `${t("download")} ${format}`,
          onclick: () => download(answer, format) }, format))) : null)));
}

function download({ name, sentences, raw }, format) {
  const content = format === "json" ? JSON.stringify(raw, null, 1) : subtitles(sentences, format);
  save(content, extension(name, format), format === "json" ? "application/json" : "text/plain");
}

function known({ name, example, spoken, written }) {
  const transcript = example.transcript === name ? "" : example.transcript, { reference } = example;
  return el("dl", { class: "known small" },
    transcript && el("div", {}, el("dt", { class: "soft" }, t("said")), el("dd", { lang: spoken }, transcript)),
    reference && el("div", {}, el("dt", { class: "soft" }, t("wanted")), el("dd", { lang: written }, reference)));
}

function segment(one, answer, actions, several) {
  const below = el("div", { class: "below" });
  const { written } = answer;
  const close = button => { fill(below); open(null); button?.focus(); };
  const words = [];
  const open = chosen => { for (const word of words) word.setAttribute("aria-expanded", String(word === chosen)); };

  const correct = () => { open(null); fill(below, editor(one, answer, actions, () => { fill(below); correctButton.focus(); })); below.querySelector("textarea").focus(); };
  const correctButton = el("button", { type: "button", class: "small", onclick: correct }, t("correct"));

  one.words.forEach((word, place) => {
    const button = el("button", { type: "button", class: classes(word), tabindex: place ? -1 : 0, "aria-expanded": "false" },
      word.end ? el("span", { "aria-hidden": "true" }, "∎") : word.text,
      el("span", { class: "hidden" }, `(${spoken(word)})`));
    paint(button, word);
    button.addEventListener("click", () => {
      if (button.getAttribute("aria-expanded") === "true") return close(button);
      open(button);
      rove(button);
      fill(below, why(word, { colours: colourOf, correct, close: () => close(button), source: answer.spoken, target: written }));
      below.querySelector("h4").focus({ preventScroll: true });
      below.scrollIntoView({ block: "nearest" });
      return undefined;
    });
    words.push(button);
  });
  const rove = button => { for (const word of words) word.tabIndex = word === button ? 0 : -1; };
  const walk = event => {
    const here = words.indexOf(document.activeElement);
    const next = { ArrowRight: here + 1, ArrowLeft: here - 1, Home: 0, End: words.length - 1 }[event.key];
    if (here < 0 || !words[next]) return;
    event.preventDefault();
    rove(words[next]);
    words[next].focus();
  };

  return el("div", { class: "segment" },
    several || one.retried ? el("p", { class: "soft small" }, several ? `${time(one.start)} – ${time(one.end)}` : "", one.retried ? ` ${t("retried")}` : "") : null,
    el("div", { class: "pair" },
      el("div", {}, el("h4", { class: "soft small" }, t("base")),
        el("p", { class: "text base", lang: written, dir: "auto" }, between(one.base.map(word => (word.kept ? word.text : el("del", {}, word.text)))), one.base.length ? "" : "–")),
      el("div", {}, el("h4", { class: "soft small" }, t("adapted"), " ", badges(one.stores)),
        el("div", { class: "text adapted", lang: written, dir: "auto", role: "group", "aria-label": t("words"), onkeydown: walk }, between(words)),
        correctButton)),
    below);
}

const between = parts => parts.flatMap((part, place) => (place ? [" ", part] : [part]));

function classes(word) {
  const kind = word.who === "store" ? `by-store ${colourOf(word.stores[0]?.[0] ?? "")}` : `by-${word.who}`;
  return `word ${kind}${word.isNew ? " new" : ""}${word.end ? " end" : ""}`;
}

// The bar under a word: as long as the stores' share, in the colours of the stores
function paint(button, word) {
  if (word.who === "term") return;
  const strip = el("span", { class: "strip", "aria-hidden": "true" });
  for (const [store, part] of word.stores.slice(0, 4)) {
    const width = part * word.share;
    if (width > 0.005) strip.append(el("i", { class: colourOf(store), css: { "--p": width } }));
  }
  button.append(strip);
}

function spoken(word) {
  const store = word.stores[0]?.[0] ?? "", share = percent(word.share);
  const who = { term: t("wordTerm"), model: t("wordModel"), store: t("wordStore", { store, share }), both: store ? t("wordBoth", { store, share }) : t("wordModel") }[word.who];
  return [word.end ? t("wordEnd") : "", word.isNew ? t("wordNew") : "", who].filter(Boolean).join(", ");
}

export function badges(stores) {
  return stores.filter(([, share]) => share >= 0.005).map(([store, share]) => el("span", { class: `badge ${colourOf(store)}` }, `${store} ${percent(share)}`));
}

function legend(sentences) {
  const words = sentences.flatMap(one => one.words);
  const stores = [...new Set(words.filter(word => word.who === "store").map(word => word.stores[0]?.[0]).filter(Boolean))];
  const who = kind => words.some(word => word.who === kind);
  const sample = (kind, text) => el("li", {}, el("span", { class: `key ${kind}`, "aria-hidden": "true" }, "abc"), " ", text);
  return el("div", { class: "legend-box small soft" },
    el("ul", { class: "legend", "aria-label": t("whoSpoke") },
      stores.map(store => sample(`by-store ${colourOf(store)}`, t("legendStore", { store }))),
      who("model") && sample("by-model", t("legendModel")), who("both") && sample("by-both", t("legendBoth")),
      who("term") && sample("by-term", t("legendTerm")),
      words.some(word => word.isNew) && el("li", {}, el("b", {}, "abc"), " ", t("legendNew"))),
    words.some(word => word.share > 0) && el("p", {}, t("legendBar")),
    words.some(word => word.tokens) && el("p", {}, t("hint")));
}

function editor(one, answer, actions, cancel) {
  const input = el("textarea", { rows: 2, lang: answer.written, required: true, spellcheck: "true" });
  input.value = one.text;
  const stores = [...new Set(["corrections", ...actions.stores()])];
  const where = el("select", {}, stores.map(name => el("option", { value: name }, name)));
  const form = el("form", { class: "editor", "aria-label": t("correctThis") },
    el("label", {}, el("span", {}, t("correction")), input),
    el("div", { class: "row" },
      el("label", { class: "inline" }, el("span", {}, t("correctTo")), where),
      el("button", { class: "main" }, t("correctSave")),
      el("button", { type: "button", onclick: cancel }, t("cancel"))));
  form.addEventListener("submit", async event => {
    event.preventDefault();
    const buttons = form.querySelectorAll("button");
    for (const button of buttons) button.disabled = true;
    await actions.correct(one, input.value.trim(), where.value);
    for (const button of buttons) button.disabled = false;
  });
  form.addEventListener("keydown", event => {
    if (event.key === "Escape") cancel();
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  return form;
}

export const time = seconds => `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, "0")}`;
