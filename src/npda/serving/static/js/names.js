// Names of stores and lists, as the server takes them.
export const isName = name => /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/.test(name);

export function nameFrom(file) {
  const plain = file.replace(/\.[A-Za-z0-9]+$/, "").normalize("NFKD").replace(/\p{M}/gu, "").replace(/ß/g, "ss");
  return plain.replace(/[^A-Za-z0-9._-]+/g, "-").replace(/^[^A-Za-z0-9]+/, "").replace(/-+$/, "").slice(0, 64) || "list";
}
