// Every store has a hue and a pattern of its own, in the order in which stores are first seen.
const KINDS = 6;
const seen = new Map();

export function colourOf(store) {
  if (!seen.has(store)) seen.set(store, seen.size % KINDS);
  return `store-${seen.get(store)}`;
}
