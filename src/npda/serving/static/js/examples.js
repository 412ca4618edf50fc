// Clips that are there from the start: one click translates them.
import * as api from "./api.js";
import { $, el, fill } from "./dom.js";
import { has, t } from "./i18n.js";
import { attempt } from "./notices.js";

let clips = [], translate = () => {};
let playing = null;

export async function loadExamples(work) {
  translate = work;
  clips = await api.get("v1/examples");
  showExamples();
}

export function showExamples() {
  $("examples").hidden = !clips.length;
  const domains = [...new Set(clips.map(clip => clip.domain ?? ""))];
  fill($("example-lists"), domains.map(domain => el("div", {},
    el("h4", { class: "soft small" }, has(`domain_${domain}`) ? t(`domain_${domain}`) : domain),
    el("ul", { class: "plain-list" }, clips.filter(clip => (clip.domain ?? "") === domain).map(row)))));
}

function row(clip) {
  return el("li", { class: "example" },
    el("button", { type: "button", class: "plain play", "aria-label": t("play", { title: clip.title }), onclick: event => attempt(() => play(clip, event.currentTarget)) }, "▷"),
    el("button", { type: "button", class: "plain title", "data-clip": clip.name, "aria-label": t("translateThis", { title: clip.title }),
      onclick: () => attempt(async () => translate(await load(clip), clip.title, clip)) }, clip.title));
}

async function load(clip) {
  const response = await api.request("GET", clip.url);
  const blob = await response.blob();
  return new File([blob], clip.url.split("/").pop(), { type: blob.type });
}

async function play(clip, button) {
  playing?.pause();
  const address = URL.createObjectURL(await load(clip));
  playing = new Audio(address);
  const done = () => { URL.revokeObjectURL(address); button.classList.remove("on"); };
  playing.onended = playing.onpause = done;
  button.classList.add("on");
  await playing.play();
}
