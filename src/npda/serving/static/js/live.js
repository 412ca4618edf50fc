// Live captions: what the microphone hears goes to the server as it comes, and its texts come back.
import * as api from "./api.js";
import { $, el, fill } from "./dom.js";
import { editor } from "./editor.js";
import { t } from "./i18n.js";
import { listen, RATE, wav } from "./microphone.js";
import { trouble } from "./notices.js";
import { badges } from "./result.js";
import { extension, save, subtitles } from "./subtitles.js";
import { ways, writtenLanguage } from "./state.js";

const TOO_FAR_BEHIND = 10 * 2 * RATE; // bytes that wait to be sent
const KEPT = 600 * 10; // portions of a tenth of a second that can be translated again as a whole
const PATIENCE = 60000; // milliseconds for the last words

// level: gets every portion; whole: gets the recording when people ask for it; correct(request, text, store) keeps what
// a caption should have been; stores(): names. The result's stop() ends cleanly.
export async function goLive({ level, ended, whole, correct, stores }) {
  const portions = [], finals = [];
  const view = show(finals, correct, stores);
  const socket = api.liveSocket({ ...ways(), sample_rate: RATE });
  socket.binaryType = "arraybuffer";
  let microphone, over = false;

  const end = async message => {
    if (over) return;
    over = true;
    ended();
    await microphone?.stop();
    socket.close();
    if (message) trouble(message);
    view.end(portions.length ? () => whole(wav(portions, `${t("captions")}.wav`)) : null);
  };

  const ready = new Promise((resolve, reject) => {
    socket.onopen = resolve;
    socket.onerror = () => reject(new Error(t("liveLost")));
  });
  socket.onclose = ({ reason }) => end(over ? "" : reason || t("liveLost"));
  socket.onmessage = ({ data }) => {
    const event = JSON.parse(data);
    if (event.type === "partial") view.partial(event);
    if (event.type === "final") view.final(event);
    if (event.type === "overload") trouble(t("overload", { n: Math.round(event.waiting_seconds) }));
    if (event.type === "error") end(event.message);
    if (event.type === "done") end("");
  };
  try {
    await ready.catch(async error => {
      await api.get("v1/models"); // which says why, where a WebSocket only fails
      throw error;
    });
    microphone = await listen(samples => {
      level(samples);
      if (portions.length < KEPT) portions.push(samples);
      if (socket.readyState !== WebSocket.OPEN) return;
      if (socket.bufferedAmount < TOO_FAR_BEHIND) socket.send(samples);
      else trouble(t("skipped"));
    });
  } catch (error) {
    await end("");
    throw error;
  }
  return {
    async stop() {
      const heard = microphone;
      microphone = null;
      await heard.stop();
      if (socket.readyState !== WebSocket.OPEN) return;
      socket.send(JSON.stringify({ type: "end" }));
      setTimeout(() => end(""), PATIENCE);
    },
  };
}

function show(finals, correct, stores) {
  const written = writtenLanguage();
  const log = el("div", { role: "log", "aria-live": "polite", "aria-label": t("captions"), class: "captions", lang: written });
  const stable = el("span", { class: "stable" }), unstable = el("span", { class: "unstable soft" });
  const now = el("p", { class: "caption now", lang: written }, stable, unstable);
  const foot = el("div", { class: "row foot" });
  const state = el("span", { class: "soft small" }, t("listening"));
  fill($("captions"), el("section", { class: "card live", "aria-labelledby": "captions-title" },
    el("div", { class: "head" }, el("h3", { id: "captions-title" }, t("captions")), state), log, now, foot));
  fill($("result"));
  const caption = event => {
    const text = el("span", {}, event.text);
    const button = el("button", { type: "button", class: "small plain soft", "aria-label": `${t("correct")}: ${event.text}` }, t("correct"));
    const line = el("p", { class: "caption" }, text, " ", el("span", { "aria-hidden": "true", class: "small" }, badges(Object.entries(event.stores ?? {}))), event.request_id && button);
    const close = () => { box.replaceWith(line); button.focus(); };
    const save = async (wanted, store) => {
      if (!await correct(event.request_id, wanted, store)) return;
      text.textContent = event.text = wanted;
      close();
    };
    const box = el("div", {});
    button.addEventListener("click", () => {
      fill(box, editor({ text: event.text, language: written, stores: stores(), label: t("correctKeep"), save, cancel: close }));
      line.replaceWith(box);
      box.querySelector("textarea").focus();
    });
    return line;
  };
  return {
    partial(event) {
      stable.textContent = event.stable;
      unstable.textContent = event.unstable;
    },
    final(event) {
      stable.textContent = unstable.textContent = "";
      if (!event.text) return;
      finals.push(event);
      log.append(caption(event));
      log.scrollTop = log.scrollHeight;
    },
    end(whole) {
      now.remove();
      state.textContent = t("liveDone");
      fill(foot, whole && el("button", { type: "button", class: "main", onclick: whole }, t("wholeAgain")),
        finals.length ? el("div", { class: "row", role: "group", "aria-label": t("download") }, el("span", { class: "soft small", "aria-hidden": "true" }, t("download")), ["srt", "vtt"].map(format =>
          el("button", { type: "button", class: "small", "aria-label": `${t("download")} ${format}`, onclick: () => save(subtitles(finals, format), extension(t("captions"), format), "text/plain") }, format))) : null);
    },
  };
}
