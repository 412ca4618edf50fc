// Listening to recordings: one sound at a time, by a button that starts and stops it.
import { setIcon } from "./dom.js";
import { t } from "./i18n.js";

let stop = () => {}, turns = 0;

// source: gives the recording (Blob); start, end: seconds of it
export async function play(button, source, start = 0, end = Infinity) {
  const again = button.getAttribute("aria-pressed") === "true";
  stop();
  if (again) return;
  const turn = ++turns;
  const recording = await source();
  if (turn !== turns) return; // somebody has pressed another button meanwhile
  const address = URL.createObjectURL(recording);
  const sound = new Audio(address);
  const show = on => { button.setAttribute("aria-pressed", String(on)); setIcon(button, on ? "stop" : "play"); };
  stop = () => { stop = () => {}; sound.pause(); URL.revokeObjectURL(address); show(false); };
  sound.onended = () => stop();
  sound.ontimeupdate = () => { if (sound.currentTime >= end) stop(); };
  sound.currentTime = start;
  show(true);
  try {
    await sound.play();
  } catch (error) {
    stop();
    if (error.name !== "AbortError") throw new Error(t("cannotPlay"), { cause: error });
  }
}

export const hush = () => stop();
