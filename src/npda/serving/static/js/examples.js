// Clips that are there from the start: one click translates them.
import * as api from "./api.js";
import { $, el, fill, icon } from "./dom.js";
import { has, t } from "./i18n.js";
import { attempt } from "./notices.js";
import { hush, play } from "./player.js";

let clips = [], translate = () => {};

export async function loadExamples(work) {
  translate = work;
  clips = await api.get("v1/examples");
  showExamples();
}

export function showExamples() {
  hush();
  $("examples").hidden = !clips.length;
  const domains = [...new Set(clips.map(clip => clip.domain ?? ""))];
  fill($("example-lists"), domains.map(domain => el("div", {},
    el("h4", { class: "soft small" }, has(`domain_${domain}`) ? t(`domain_${domain}`) : domain),
    el("ul", { class: "plain-list" }, clips.filter(clip => (clip.domain ?? "") === domain).map(row)))));
}

function row(clip) {
  return el("li", { class: "example" },
    el("button", { type: "button", class: "plain play", "aria-label": t("play", { title: clip.title }), "aria-pressed": "false",
      onclick: ({ currentTarget }) => attempt(() => play(currentTarget, () => load(clip))) }, icon("play")),
    el("button", { type: "button", class: "plain title", "data-clip": clip.name, "aria-label": t("translateThis", { title: clip.title }),
      onclick: () => attempt(async () => translate(await load(clip), clip.title, clip)) }, clip.title));
}

async function load(clip) {
  const response = await api.request("GET", clip.url);
  const blob = await response.blob();
  return new File([blob], clip.url.split("/").pop(), { type: blob.type });
}
