// Subtitles of what is shown: two lines of 42 characters at a time, cut at punctuation, each with its part of the time.
const LINE = 42;

export function subtitles(sentences, format) {
  const cues = sentences.flatMap(one => cut(one.start, one.end, one.text));
  const stamp = seconds => times(seconds, format === "srt" ? "," : ".");
  const arrow = ({ start, end }) => `${stamp(start)} --> ${stamp(Math.max(end, start + 0.001))}`;
  if (format === "srt") return cues.map((cue, place) => `${place + 1}\n${arrow(cue)}\n${cue.text.replace(/-{2,}>/g, "->")}\n\n`).join("");
  const escape = text => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  return `WEBVTT\n\n${cues.map(cue => `${arrow(cue)}\n${escape(cue.text)}\n\n`).join("")}`;
}

function cut(start, end, text) {
  const parts = pieces(text.split(/\s+/).filter(Boolean));
  const total = parts.reduce((sum, part) => sum + part.length, 0);
  let done = 0;
  return parts.map(part => {
    const first = done;
    done += part.length;
    return { start: start + ((end - start) * first) / total, end: start + ((end - start) * done) / total, text: lines(part) };
  });
}

function pieces(words) {
  const parts = [];
  let part = "";
  for (const word of words) {
    const longer = part ? `${part} ${word}` : word;
    const full = longer.length > 2 * LINE - 4 || (/[.!?…]$/.test(part) && part.length > LINE);
    if (part && full) parts.push(part);
    part = part && full ? word : longer;
  }
  return part ? [...parts, part] : parts;
}

function lines(text) {
  if (text.length <= LINE) return text;
  const spaces = [...text.matchAll(/ /g)].map(match => match.index);
  const middle = spaces.sort((a, b) => Math.abs(a - text.length / 2) - Math.abs(b - text.length / 2))[0];
  return middle === undefined ? text : `${text.slice(0, middle)}\n${text.slice(middle + 1)}`;
}

function times(seconds, point) {
  const total = Math.round(seconds * 1000);
  const two = value => String(Math.floor(value)).padStart(2, "0");
  return `${two(total / 3600000)}:${two((total / 60000) % 60)}:${two((total / 1000) % 60)}${point}${String(total % 1000).padStart(3, "0")}`;
}

export const extension = (name, format) => `${name.replace(/\.[A-Za-z0-9]{1,5}$/, "").replace(/[^\p{L}\p{N} ._-]+/gu, "_").replace(/[. ]+$/, "") || "recording"}.${format}`;

export function save(content, name, kind) {
  const address = URL.createObjectURL(new Blob([content], { type: `${kind};charset=utf-8` }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}
