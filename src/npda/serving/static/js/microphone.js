// Listening: samples of 16 bits at 16 kHz, and a recording of them as a WAV file.
import { t } from "./i18n.js";

export const RATE = 16000;

// hear: gets every portion (Int16Array). The result's stop() gives back the microphone when the last one has come.
export async function listen(hear) {
  if (!navigator.mediaDevices?.getUserMedia) throw new Error(t("microphoneInsecure"));
  let stream;
  try {
    // Models have been trained on speech as it is; what makes calls pleasant takes away what they hear by.
    const asItIs = { echoCancellation: false, noiseSuppression: false, autoGainControl: false };
    stream = await navigator.mediaDevices.getUserMedia({ audio: { channelCount: 1, ...asItIs } });
  } catch (error) {
    throw new Error(t(error.name === "NotFoundError" ? "noMicrophone" : "microphoneRefused"), { cause: error });
  }
  const context = new AudioContext();
  const release = () => { for (const track of stream.getTracks()) track.stop(); return context.close(); };
  try {
    await context.audioWorklet.addModule(new URL("microphone-worklet.js", import.meta.url));
    await context.resume();
  } catch (error) {
    await release();
    throw error;
  }
  const node = new AudioWorkletNode(context, "microphone", { numberOfOutputs: 0 });
  let ended = () => {};
  node.port.onmessage = ({ data }) => (data ? hear(data) : ended());
  context.createMediaStreamSource(stream).connect(node);
  return {
    async stop() {
      const last = new Promise(resolve => { ended = resolve; });
      node.port.postMessage("stop");
      await last;
      await release();
    },
  };
}

export function loudness(samples) {
  let sum = 0;
  for (const sample of samples) sum += (sample / 32768) ** 2;
  const decibels = 10 * Math.log10(sum / samples.length + 1e-9);
  return Math.max(0, Math.min(1, (decibels + 60) / 55));
}

export function wav(portions, name) {
  const length = portions.reduce((sum, one) => sum + one.length, 0);
  const view = new DataView(new ArrayBuffer(44));
  const write = (at, text) => [...text].forEach((letter, i) => view.setUint8(at + i, letter.charCodeAt(0)));
  write(0, "RIFF"); view.setUint32(4, 36 + 2 * length, true); write(8, "WAVEfmt ");
  view.setUint32(16, 16, true); view.setUint16(20, 1, true); view.setUint16(22, 1, true);
  view.setUint32(24, RATE, true); view.setUint32(28, 2 * RATE, true); view.setUint16(32, 2, true); view.setUint16(34, 16, true);
  write(36, "data"); view.setUint32(40, 2 * length, true);
  return new File([view, ...portions], name, { type: "audio/wav" });
}
