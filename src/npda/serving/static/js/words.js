// What an answer says of each sentence, in the form that is shown: words, who gave them and how much.
import { common, split } from "./diff.js";

const WORD_BEGIN = "▁", END_PIECE = "</s>";

// Of one segment: {id, start, end, base: [{text, kept}], words: [{text, who, share, stores, isNew, …}], …}
// alone: the same segment as the model alone translates it, where no explanation tells
export function sentence(segment, alone) {
  const e = segment.explanation;
  const told = e ? e.words.map(word => explained(word, e.tokens)) : split(segment.text).map(text => ({ text, who: "model", share: 0, stores: [], evidence: [] }));
  const spoken = told.filter(word => !word.end);
  const baseText = e ? e.base_text : alone?.text ?? segment.text;
  const base = e ? e.base_words : split(baseText).map(text => ({ text, kept: true }));
  const words = withTerms(spoken, segment, e);
  const kept = common(base.map(word => word.text), words.map(word => word.text));
  for (const word of base) word.kept = false;
  for (const word of words) word.isNew = true;
  for (const [i, j] of kept) { base[i].kept = true; words[j].isNew = false; }
  const ending = told.find(word => word.end && word.who === "store"); // otherwise it has nothing to tell
  return {
    id: segment.id, start: segment.start, end: segment.end, text: segment.text, base, words: ending ? [...words, ending] : words,
    stores: shares(segment, spoken), changed: words.filter(word => word.isNew).length || base.filter(word => !word.kept).length,
    retried: segment.retried,
  };
}

function explained(word, tokens) {
  const own = tokens.slice(word.first, word.last + 1);
  const shares = own.map(token => (token.p > 0 ? (token.lambda_ * token.p_knn) / token.p : 0));
  const share = shares.reduce((sum, one) => sum + one, 0) / (shares.length || 1);
  const agreeing = word.evidence.filter(one => one.agrees);
  return { ...word, who: word.decided_by, share: Math.min(1, share), stores: byStore(agreeing.length ? agreeing : word.evidence), tokens: own };
}

// [[store, part], …], the parts adding up to 1, the largest first
function byStore(evidence) {
  const weights = new Map();
  for (const one of evidence) weights.set(one.store, (weights.get(one.store) ?? 0) + one.weight);
  const total = [...weights.values()].reduce((sum, one) => sum + one, 0) || 1;
  return [...weights].map(([store, weight]) => [store, weight / total]).sort((a, b) => b[1] - a[1]);
}

// Lists of terms come after the search: words that they have changed stand in the place of those that were found.
function withTerms(words, segment, e) {
  const done = e?.placed?.replacements ?? segment.terms ?? [];
  if (!done.length) return words;
  const after = split(e?.placed?.text ?? segment.text);
  const same = [...common(words.map(word => word.text), after), [words.length, after.length]];
  const result = [];
  let i = 0, j = 0;
  for (const [nextI, nextJ] of same) {
    for (; j < nextJ; j++) result.push({ ...(words[Math.min(i, nextI - 1)] ?? {}), text: after[j], who: "term", term: termOf(done, after[j]), share: 0, stores: [] });
    i = nextI + 1;
    if (nextI < words.length) { result.push(words[nextI]); j = nextJ + 1; }
  }
  return result;
}

const termOf = (done, text) => done.find(one => one.target.toLowerCase().includes(text.toLowerCase().replace(/[.,;:!?]+$/, ""))) ?? done[0];

// Of a segment: how much each store had to say, as the server tells, or on average over its words
function shares(segment, words) {
  const told = Object.entries(segment.stores ?? {});
  if (told.length) return told.sort((a, b) => b[1] - a[1]);
  const total = new Map();
  for (const word of words) for (const [store, part] of word.stores) total.set(store, (total.get(store) ?? 0) + (part * word.share) / words.length);
  return [...total].sort((a, b) => b[1] - a[1]);
}

// Who decided, and what the model alone would have done: a key of the strings and its values
export function verdict(word) {
  const changed = word.tokens?.find(token => token.token !== token.base_token);
  if (!changed) return ["insteadSame", {}];
  const before = word.tokens.slice(0, word.tokens.indexOf(changed)).map(token => token.piece).join("").replaceAll(WORD_BEGIN, "");
  const piece = changed.base_piece.replace(WORD_BEGIN, "");
  const key = changed.base_piece === END_PIECE ? "insteadEnd" : piece ? "insteadPiece" : "insteadSpace";
  return [key, { piece, before }];
}
