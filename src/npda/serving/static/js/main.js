// The page: what people do on it, from a recording to its translation.
import { dropping, showAdding } from "./adding.js";
import * as api from "./api.js";
import { loadModels, showChoices } from "./choices.js";
import { $, el, fill, setIcon } from "./dom.js";
import { loadExamples, showExamples } from "./examples.js";
import * as i18n from "./i18n.js";
import { t } from "./i18n.js";
import { onJobEnd, showJobs, watchJobs } from "./jobs.js";
import { goLive } from "./live.js";
import { listen, loudness, wav } from "./microphone.js";
import { attempt, say } from "./notices.js";
import { hush } from "./player.js";
import { showResult, time } from "./result.js";
import { spokenLanguage, state, ways, writtenLanguage } from "./state.js";
import { loadStores, showStores } from "./stores.js";
import { loadTerms, showTerms } from "./terms.js";
import { sentence } from "./words.js";

let under = null; // the request on its way
let answer = null; // what is shown
let session = null; // a recording or live captions

// ---- translating

async function translate(file, name, example = null) {
  under?.abort();
  const controller = (under = new AbortController());
  hush();
  fill($("captions"));
  const waiting = progress(name, controller);
  try {
    const asked = ways();
    const raw = await api.translate(file, { ...asked, explain: "true" }, { signal: controller.signal, heard: waiting.heard });
    let alone = null;
    // Without an explanation a second request tells what the model alone would have said.
    const helped = (asked.stores !== "none" && state.stores.length) || asked.terms;
    if (helped && raw.segments.some(segment => !segment.explanation))
      alone = await api.translate(file, { ...asked, stores: "none", terms: "" }, { signal: controller.signal });
    const sentences = raw.segments.map((segment, place) => sentence(segment, alone?.segments[place]));
    answer = { file, name, raw, helped: Boolean(helped) || raw.segments.some(segment => segment.explanation), sentences, example, spoken: spokenLanguage(), written: writtenLanguage() };
    show();
    const text = sentences.map(one => one.text).join(" ");
    reveal();
    say(sentences.length ? t(helped ? sentences.some(one => one.changed) ? "done" : "doneSame" : "done", { text }) : t("nothingHeard"), false);
    return true;
  } catch (error) {
    fill($("result"), answer ? [] : empty());
    if (answer && error.name !== "AbortError") show();
    if (error.name === "AbortError") { if (under === controller) { say(t("cancelled")); if (answer) show(); } return false; }
    throw error;
  } finally {
    waiting.end();
  }
}

function progress(name, controller) {
  const clock = el("span", { class: "soft number" }, t("seconds", { n: 0 }));
  const begun = performance.now();
  const soFar = el("div", { class: "so-far", lang: writtenLanguage() });
  fill($("result"), el("div", { class: "card busy", "aria-busy": "true" },
    el("p", {}, t("working", { name }), " ", clock),
    el("progress", { "aria-label": t("working", { name }) }), soFar,
    el("button", { type: "button", onclick: () => controller.abort() }, t("cancel"))));
  reveal();
  const timer = setInterval(() => { clock.textContent = t("seconds", { n: Math.round((performance.now() - begun) / 1000) }); }, 1000);
  return { heard: ({ text }) => soFar.append(el("p", {}, text)), end: () => clearInterval(timer) };
}

// What has come is seen, on phones from its beginning.
function reveal() {
  const output = $("output");
  output.scrollIntoView({ block: output.offsetHeight > 0.8 * innerHeight ? "start" : "nearest" });
}

const empty = () => el("div", { class: "empty soft" }, el("p", {}, t("empty")),
  el("ul", { class: "plain-list" }, ["emptyFirst", "emptySecond", "emptyThird"].map(key => el("li", {}, t(key)))));

function show() {
  if (!answer) return void fill($("result"), session ? [] : empty());
  showResult($("result"), answer, { correct, again: () => attempt(again), stores });
}

async function again() {
  const { file, name, example } = answer;
  if (await translate(file, name, example)) $("again")?.focus();
}

const stores = () => state.stores.map(store => store.name);

// A correction is kept, and its store speaks from now on.
async function keep(correction) {
  await api.send("POST", "v1/corrections", { json: correction });
  say(t("corrected", { store: correction.store }));
  await loadStores();
  if (state.mode === "none") state.mode = "auto";
  if (state.mode === "pick") state.picked.add(correction.store);
  showStores();
}

const correct = (one, text, store) => attempt(async () => {
  await keep({ request_id: answer.raw.request_id, segment: one.id, text, store });
  await again();
});

// ---- recording and live captions

async function record() {
  const portions = [];
  const microphone = await listen(samples => { portions.push(samples); level(samples); });
  begin("record", async () => {
    await microphone.stop();
    if (portions.length < 3) throw new Error(t("tooShort"));
    await translate(wav(portions, "recording.wav"), t("recorded"));
  });
  say(t("recording"), false);
}

async function live() {
  const captions = await goLive({
    level, ended: finish, whole: file => attempt(() => translate(file, t("captions"))),
    correct: (request_id, text, store) => attempt(async () => { await keep({ request_id, text, store }); return true; }), stores,
  });
  answer = null;
  begin("live", () => captions.stop());
}

let started = 0;

// One of the two buttons says Stop until it is pressed; the other ones wait.
function begin(id, stop) {
  session = { id, stop };
  started = performance.now();
  $("meter").hidden = false;
  showButtons();
}

function finish() {
  session = null;
  $("meter").hidden = true;
  showButtons();
}

function showButtons() {
  for (const id of ["record", "live"]) {
    const button = $(id), on = session?.id === id;
    button.disabled = Boolean(session) && !on;
    button.classList.toggle("on", on);
    button.querySelector("[data-t]").dataset.t = on ? "stop" : id;
    setIcon(button, on ? "stop" : id);
    i18n.translate(button);
  }
  $("choose").disabled = Boolean(session);
}

function level(samples) {
  $("meter").style.setProperty("--level", loudness(samples).toFixed(2));
  $("clock").textContent = time((performance.now() - started) / 1000);
}

const press = work => () => attempt(async () => {
  if (!session) return work();
  const { stop } = session;
  finish();
  return stop();
});

// ---- the server

async function load() {
  await loadModels(); // the first to be refused where a key is needed
  $("key-form").hidden = true;
  showChoices(() => attempt(loadHelp));
  await Promise.all([loadExamples((file, name, clip) => translate(file, name, clip)), loadHelp()]);
  watchJobs();
}

const loadHelp = () => Promise.all([loadStores(), loadTerms()]);

api.onKeyNeeded(wrong => {
  $("key-form").hidden = false;
  $("key").setAttribute("aria-invalid", String(wrong));
  $("key").select();
});

$("key-form").addEventListener("submit", event => {
  event.preventDefault();
  api.setKey($("key").value);
  attempt(async () => {
    await load();
    $("record").focus();
  });
});

onJobEnd(job => attempt(async () => {
  await loadHelp();
  if (job.state === "done" && state.mode === "pick" && state.stores.some(store => store.name === job.target)) { state.picked.add(job.target); showStores(); }
}));

$("record").addEventListener("click", press(record));
$("live").addEventListener("click", press(live));
$("choose").addEventListener("click", () => $("file").click());
$("file").addEventListener("change", () => {
  const file = $("file").files[0];
  if (file) attempt(() => translate(file, file.name));
  $("file").value = "";
});
dropping($("drop"), file => translate(file, file.name));
// A file that misses its place must not replace the page.
for (const name of ["dragover", "drop"]) window.addEventListener(name, event => event.preventDefault());

$("page-language").addEventListener("change", event => i18n.speak(event.target.value));
document.addEventListener("npda:language", () => {
  $("page-language").value = i18n.current();
  showChoices(() => attempt(loadHelp));
  showExamples(); showStores(); showTerms(); showAdding(); showJobs();
  if (!session && !$("captions").childElementCount) show();
});

i18n.begin();
attempt(load);
