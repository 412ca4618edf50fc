// Requests to the server this page comes from. Addresses are relative, so that it may live behind a proxy's path.
import { t } from "./i18n.js";

const KEY = "npda.key";
let needKey = () => {};

export const key = () => sessionStorage.getItem(KEY) ?? "";
export const setKey = value => sessionStorage.setItem(KEY, value);
export const onKeyNeeded = work => { needKey = work; };

// The form that asks for a key stands in for a message.
class KeyNeeded extends Error {
  name = "KeyNeeded";
}

export async function request(method, path, { json, form, signal } = {}) {
  const headers = new Headers();
  if (key()) headers.set("Authorization", `Bearer ${key()}`);
  if (json !== undefined) headers.set("Content-Type", "application/json");
  let response;
  try {
    response = await fetch(path.replace(/^\//, ""), { method, headers, body: form ?? (json === undefined ? undefined : JSON.stringify(json)), signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error(t("noNetwork"), { cause: error });
  }
  if (response.ok) return response;
  const body = await response.json().catch(() => null);
  if (response.status === 401) {
    const wrong = Boolean(key());
    needKey(wrong);
    throw wrong ? new Error(t("keyWrong")) : new KeyNeeded();
  }
  throw new Error(body?.error?.message || t("badAnswer", { status: String(response.status) }));
}

export async function get(path, options) {
  return (await request("GET", path, options)).json();
}

export async function send(method, path, options) {
  const response = await request(method, path, options);
  return response.status === 204 ? null : response.json();
}

export const part = name => encodeURIComponent(name);

export function fields(values, file) {
  const form = new FormData();
  for (const [name, value] of Object.entries(values)) if (value !== undefined && value !== null && value !== "") form.set(name, value);
  if (file) form.set("file", file, file.name || "recording.wav");
  return form;
}

// heard: gets every segment as soon as it is there
export async function translate(file, ways, { signal, heard = () => {} } = {}) {
  const response = await request("POST", "v1/audio/translations", { form: fields({ ...ways, stream: "true" }, file), signal });
  const answer = { request_id: response.headers.get("X-Request-Id"), segments: [] };
  for await (const { type, delta, segment, error, text, usage } of events(response.body)) {
    if (error) throw new Error(error.message);
    if (type === "transcript.text.delta") {
      answer.segments.push({ ...segment, text: delta.trim() });
      heard(answer.segments.at(-1));
    }
    if (type === "transcript.text.done") return { ...answer, text, usage };
  }
  throw new Error(t("noNetwork"));
}

// Server-sent events, each with a line of JSON
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const parts = (rest + value).split("\n\n");
      rest = parts.pop();
      for (const part of parts) if (part.startsWith("data: {")) yield JSON.parse(part.slice("data: ".length));
    }
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error(t("noNetwork"), { cause: error });
  }
}

export function liveSocket(parameters) {
  const address = new URL("v1/audio/live", document.baseURI);
  address.protocol = address.protocol.replace("http", "ws");
  for (const [name, value] of Object.entries(parameters)) if (value) address.searchParams.set(name, value);
  if (!key()) return new WebSocket(address);
  // What may not stand in the name of a subprotocol is written as in an address.
  const plain = encodeURIComponent(key()).replace(/[()]/g, letter => `%${letter.charCodeAt(0).toString(16)}`);
  return new WebSocket(address, [`npda.key.${plain}`]);
}
