// A translation: the model alone beside the model with its stores, word by word, to be asked about and corrected.
import { colourOf } from "./colours.js";
import { editor } from "./editor.js";
import { el, fill, freshId, icon } from "./dom.js";
import { percent, t } from "./i18n.js";
import { attempt, say } from "./notices.js";
import { play } from "./player.js";
import { extension, save, subtitles } from "./subtitles.js";
import { why } from "./why.js";

// answer: {name, file, helped, sentences, raw, spoken, written, example}; actions: {correct(sentence, text, store), again, stores()}
export function showResult(place, answer, actions) {
  const { sentences } = answer;
  const changed = sentences.reduce((sum, one) => sum + one.changed, 0);
  const id = freshId("result");
  fill(place, el("section", { class: "card result", "aria-labelledby": id },
    el("div", { class: "head" },
      el("div", { class: "row" }, listen(answer, t("play", { title: answer.name })), el("h3", { id }, answer.name)),
      sentences.length && answer.helped ? el("span", { class: "soft small" }, changed ? t("changed", { n: changed }) : t("same")) : null),
    answer.example && known(answer),
    sentences.length
      ? [sentences.map(one => segment(one, answer, actions, sentences.length > 1)), answer.helped && legend(sentences)]
      : el("p", {}, t("nothingHeard")),
    el("div", { class: "row foot" },
      el("button", { type: "button", id: "again", onclick: actions.again }, t("again")),
      sentences.length ? el("div", { class: "row", role: "group", "aria-label": t("download") },
        navigator.clipboard && el("button", { type: "button", class: "small", onclick: () => copy(sentences) }, t("copy")),
        el("span", { class: "soft small", "aria-hidden": "true" }, t("download")),
        ["srt", "vtt", "json"].map(format => el("button", { type: "button", class: "small", "data-format": format, "aria-label": `${t("download")} ${format}`,
          onclick: () => download(answer, format) }, format))) : null)));
}

function listen({ file }, label, start, end) {
  return el("button", { type: "button", class: "round", "aria-label": label, "aria-pressed": "false",
    onclick: ({ currentTarget }) => attempt(() => play(currentTarget, async () => file, start, end)) }, icon("play"));
}

const copy = sentences => attempt(async () => {
  await navigator.clipboard.writeText(sentences.map(one => one.text).join("\n"));
  say(t("copied"));
});

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
  const { written, helped } = answer;
  const times = `${time(one.start)} – ${time(one.end)}`;
  const close = button => { fill(below); open(null); button?.focus(); };
  const words = [];
  const open = chosen => { for (const word of words) word.setAttribute("aria-expanded", String(word === chosen)); };

  const correct = () => {
    open(null);
    fill(below, editor({ text: one.text, language: written, stores: actions.stores(), save: (text, store) => actions.correct(one, text, store), cancel: () => { fill(below); correctButton.focus(); } }));
    below.querySelector("textarea").focus();
  };
  const correctButton = el("button", { type: "button", class: "small", onclick: correct }, t("correct"));

  one.words.forEach((word, place) => {
    const button = el("button", { type: "button", class: classes(word), tabindex: place ? -1 : 0, "aria-expanded": "false" },
      word.end ? el("span", { class: "stop", "aria-hidden": "true" }) : word.text,
      el("span", { class: "hidden" }, `(${spoken(word)})`));
    if (word.who !== "term") button.append(strip(word));
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
    several || one.retried ? el("p", { class: "row soft small" }, several ? [listen(answer, t("play", { title: times }), one.start, one.end), times] : "", one.retried ? ` ${t("retried")}` : "") : null,
    el("div", { class: helped ? "pair" : "" },
      helped && el("div", {}, el("h4", { class: "soft small" }, t("base")),
        el("p", { class: "text base", lang: written, dir: "auto" }, between(one.base.map(word => (word.kept ? word.text : el("del", {}, word.text)))), one.base.length ? "" : "–")),
      el("div", {}, el("h4", { class: "soft small" }, t(helped ? "adapted" : "base"), " ", badges(one.stores)),
        helped ? el("div", { class: "text adapted", lang: written, dir: "auto", role: "group", "aria-label": t("words"), onkeydown: walk }, between(words))
          : el("p", { class: "text", lang: written, dir: "auto" }, one.text),
        el("div", { class: "row" }, correctButton, helped && one.words.some(word => word.tokens) && el("span", { class: "soft small" }, t("hint"))))),
    below);
}

const between = parts => parts.flatMap((part, place) => (place ? [" ", part] : [part]));

function classes(word) {
  const kind = word.who === "store" ? `by-store ${colourOf(word.stores[0]?.[0] ?? "")}` : `by-${word.who}`;
  return `word ${kind}${word.isNew ? " new" : ""}${word.end ? " end" : ""}`;
}

// The bar under a word: as long as the stores' share, in the colours of the stores
function strip({ stores, share }) {
  const parts = stores.slice(0, 4).filter(([, part]) => part * share > 0.005);
  return el("span", { class: "strip", "aria-hidden": "true" }, parts.map(([store, part]) => el("i", { class: colourOf(store), css: { "--p": part * share } })));
}

function spoken(word) {
  const store = word.stores[0]?.[0] ?? "", share = percent(word.share);
  const who = { term: t("wordTerm"), model: t("wordModel"), store: t("wordStore", { store, share }), both: store ? t("wordBoth", { store, share }) : t("wordModel") }[word.who];
  return [word.end ? t("wordEnd") : "", word.isNew ? t("wordNew") : "", who].filter(Boolean).join(", ");
}

export function badges(stores) {
  return stores.filter(([, share]) => share >= 0.01).map(([store, share]) => el("span", { class: `badge ${colourOf(store)}` }, `${store} ${percent(share)}`));
}

function legend(sentences) {
  const words = sentences.flatMap(one => one.words);
  const stores = [...new Set(words.filter(word => word.who === "store").map(word => word.stores[0]?.[0]).filter(Boolean))];
  const who = kind => words.some(word => word.who === kind);
  const sample = (kind, text, stores = [], share = 0) => el("li", {}, el("span", { class: `word ${kind}`, "aria-hidden": "true" }, "abc", kind === "by-term" ? null : strip({ stores, share })), " ", text);
  const agreeing = words.find(word => word.who === "both");
  return el("div", { class: "legend-box small soft" },
    el("ul", { class: "legend", "aria-label": t("whoSpoke") },
      stores.map(store => sample(`by-store ${colourOf(store)}`, t("legendStore", { store }), [[store, 1]], 0.9)),
      who("model") && sample("by-model", t("legendModel")), agreeing && sample("by-both", t("legendBoth"), agreeing.stores.slice(0, 1).map(([store]) => [store, 1]), 0.5),
      who("term") && sample("by-term", t("legendTerm")),
      words.some(word => word.isNew) && el("li", {}, el("b", {}, "abc"), " ", t("legendNew"))),
    words.some(word => word.share > 0) && el("p", {}, t("legendBar")));
}

export const time = seconds => `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, "0")}`;
