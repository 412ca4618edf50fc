// What went wrong is a sentence that stays until it is closed; what went well is told to screen readers as well.
import { $, el, fill } from "./dom.js";
import { t } from "./i18n.js";

export function say(text) {
  const status = $("status");
  status.textContent = "";
  requestAnimationFrame(() => { status.textContent = text; });
}

export function trouble(error) {
  if (error?.name === "AbortError") return;
  const message = typeof error === "string" ? error : error?.message || String(error);
  fill($("trouble"), el("p", {}, message), el("button", { type: "button", class: "plain", "aria-label": t("dismiss"), onclick: calm }, "×"));
}

export const calm = () => fill($("trouble"));

// Run something that people asked for: what goes wrong becomes a sentence.
export async function attempt(work) {
  calm();
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    trouble(error);
    return undefined;
  }
}
