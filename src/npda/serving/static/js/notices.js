// What went wrong is a sentence that stays until it is closed; what went well is told to screen readers as well.
import { $, el, fill, icon } from "./dom.js";
import { t } from "./i18n.js";

const SEEN = 5000; // milliseconds
let timer = 0;

// seen: by people who see the page as well, for a moment
export function say(text, seen = true) {
  const status = $("status");
  status.textContent = "";
  clearTimeout(timer);
  requestAnimationFrame(() => {
    status.textContent = text;
    status.className = seen ? "toast" : "hidden";
    timer = setTimeout(() => { status.className = "hidden"; }, SEEN);
  });
}

export function trouble(error) {
  if (error?.name === "AbortError" || error?.name === "KeyNeeded") return;
  const message = typeof error === "string" ? error : error?.message || String(error);
  fill($("trouble"), el("p", {}, message), el("button", { type: "button", class: "plain", "aria-label": t("dismiss"), onclick: calm }, icon("close")));
}

export const calm = () => fill($("trouble"));

// Run something that people asked for: what goes wrong becomes a sentence. quietly: what was said before stays
export async function attempt(work, quietly = false) {
  if (!quietly) calm();
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    trouble(error);
    return undefined;
  }
}
