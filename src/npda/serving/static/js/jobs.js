// Jobs of the server: how far they are, and a way to cancel them.
import * as api from "./api.js";
import { $, el, fill, keepFocus } from "./dom.js";
import { has, percent, t } from "./i18n.js";
import { attempt, say, trouble } from "./notices.js";

const PAUSE = 800; // milliseconds between two looks
const AT_WORK = ["queued", "running"];
const before = new Map(); // states by id, of jobs that this page has seen at work
let jobs = [], timer = 0, ended = () => {};

export const onJobEnd = work => { ended = work; };

export function watchJobs() {
  clearTimeout(timer);
  timer = setTimeout(look, 0);
}

async function look() {
  let answer;
  try {
    answer = await api.get("v1/jobs");
  } catch (error) {
    return trouble(error);
  }
  jobs = answer.data ?? answer;
  for (const job of jobs) {
    if (AT_WORK.includes(job.state)) before.set(job.id, job.state);
    else if (before.delete(job.id)) finish(job);
  }
  showJobs();
  if (jobs.some(job => AT_WORK.includes(job.state))) timer = setTimeout(look, PAUSE);
  return undefined;
}

function finish(job) {
  seen.add(job.id);
  if (job.state === "failed") trouble(t("jobFailed", { name: job.target, error: job.error ?? "" }));
  else say(t(job.state === "done" ? "jobDone" : "jobGone", { name: job.target }));
  ended(job);
}

const seen = new Set(); // jobs that ended before our eyes: they stay on the page

export function showJobs() {
  const place = $("jobs");
  const shown = jobs.filter(job => AT_WORK.includes(job.state) || seen.has(job.id));
  keepFocus(place, () => fill(place, shown.length ? [el("h3", {}, t("jobs")), el("ul", { class: "plain-list jobs" }, shown.map(row))] : []));
}

function row(job) {
  const atWork = AT_WORK.includes(job.state);
  const cancel = () => attempt(async () => { await api.send("DELETE", `v1/jobs/${api.part(job.id)}`); watchJobs(); });
  return el("li", { class: `job ${job.state}` },
    el("div", { class: "row" }, el("b", { class: "name" }, job.target),
      atWork && el("button", { type: "button", class: "small", "data-focus": `cancel-${job.id}`, "aria-label": t("cancelJob", { name: job.target }), onclick: cancel }, t("cancel"))),
    atWork && el("progress", { max: "1", value: String(job.progress ?? 0), "aria-label": t("jobProgress", { name: job.target }) }),
    el("p", { class: "soft small" }, told(job)));
}

function told(job) {
  if (job.state !== "running") return t(`job_${job.state}`, { place: String(job.place ?? ""), error: job.error ?? "" });
  const step = `step_${job.step?.match(/^\w+/)?.[0]}`;
  const parts = [percent(job.progress ?? 0), has(step) ? t(step) : job.step];
  if (job.eta_seconds) parts.push(t("eta", { time: job.eta_seconds > 90 ? t("minutes", { n: Math.round(job.eta_seconds / 60) }) : t("inSeconds", { n: Math.max(1, Math.round(job.eta_seconds)) }) }));
  return parts.filter(Boolean).join(", ");
}
