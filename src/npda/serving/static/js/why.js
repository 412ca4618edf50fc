// Why a word was chosen: the sentences of the stores behind it.
import { el, freshId, icon } from "./dom.js";
import { number, percent, probability, t } from "./i18n.js";
import { verdict } from "./words.js";

const SHOWN = 5;

// word: one of words.js; colours: a class for each store; correct, close: what the buttons do; languages: of the texts
export function why(word, { colours, correct, close, source, target }) {
  const id = freshId("why");
  const panel = el("div", { class: "why", role: "region", "aria-labelledby": id },
    el("div", { class: "head" },
      el("h4", { id, tabindex: -1 }, word.end ? t("whyEnd") : t("whyTitle", { word: word.text })),
      el("button", { type: "button", class: "plain", "aria-label": t("close"), onclick: close }, icon("close"))),
    el("p", { class: `verdict by-${word.who}` }, ...reason(word)),
    word.tokens && word.who !== "term" && [probabilities(word),
      word.evidence.length ? sentences(word, colours, source, target) : el("p", { class: "soft" }, t("noNeighbours"))],
    el("p", {}, el("button", { type: "button", onclick: correct }, t("correctThis"))));
  panel.addEventListener("keydown", event => { if (event.key === "Escape") close(); });
  return panel;
}

function reason(word) {
  const parts = [];
  if (word.who === "term") parts.push(el("b", {}, t("verdictTerm", word.term)));
  else parts.push(el("b", {}, t({ store: "verdictStore", model: "verdictModel", both: "verdictBoth" }[word.who])));
  if (word.tokens && word.who !== "term") {
    const [key, { piece, before }] = verdict(word);
    parts.push(" ", t(key, { piece, inside: before ? t("inside", { text: before }) : "" }));
  }
  return parts;
}

function probabilities(word) {
  const rows = [["pModel", word.p_model, "model"], ["pStore", word.p_knn, "store"], ["pBoth", word.p, "both"]];
  return el("dl", { class: "bars", "aria-label": t("probabilities") }, rows.map(([key, p, who]) => el("div", {},
    el("dt", { class: "soft small" }, t(key)),
    el("dd", {}, el("span", { class: `bar by-${who}`, "aria-hidden": "true" }, el("i", { css: { "--p": p } })), el("span", { class: "number" }, probability(p))))));
}

// The word that a neighbour speaks for; a token may be the mere beginning of one, or the end of the sentence.
function marked({ target_text: text, start, end }) {
  const until = end > start ? end : start + text.slice(start).search(/\s|$/);
  return [text.slice(0, start), el("mark", {}, text.slice(start, until) || "∎"), text.slice(until)];
}

function sentences({ evidence, who }, colours, source, target) {
  const rest = evidence.slice(SHOWN);
  const share = rest.reduce((sum, one) => sum + one.weight, 0);
  return [
    el("h5", {}, t(who === "model" ? "near" : "behind")),
    el("ol", { class: "evidence" }, evidence.slice(0, SHOWN).map(one => el("li", { class: `${one.agrees ? "same" : "other"} ${colours(one.store)}` },
      el("p", { lang: target, dir: "auto" }, marked(one)),
      el("p", { class: "soft", lang: source, dir: "auto" }, one.source_text),
      el("p", { class: "small soft facts" },
        el("span", { class: "bar", "aria-hidden": "true" }, el("i", { css: { "--p": one.weight } })),
        el("span", { title: t("share", { share: percent(one.weight) }) }, percent(one.weight)),
        el("span", {}, t("distance", { d: number(one.distance, one.distance < 10 ? 2 : 0) })),
        el("span", { class: "store-name" }, [one.store, one.source].filter(Boolean).join(" · ")),
        one.agrees ? null : el("span", {}, t("other")))))),
    rest.length ? el("p", { class: "soft small" }, t("more", { n: rest.length, share: percent(share) })) : null,
  ];
}
