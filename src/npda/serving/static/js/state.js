// What has been chosen on the page; everything that a request needs besides its audio.
export const state = {
  models: [], model: "", spoken: "", written: "",
  stores: [], mode: "auto", picked: new Set(),
  lists: [], inUse: new Set(),
};

export function storesWanted() {
  if (state.mode === "pick") return [...state.picked].join(",") || "none";
  return state.mode;
}

// Fields of a request for a translation, or parameters of live captions
export const ways = () => ({
  model: state.model,
  language: state.spoken,
  target_language: state.written,
  stores: storesWanted(),
  terms: [...state.inUse].join(","),
});

export const modelCard = () => state.models.find(model => model.id === state.model)?.npda ?? {};

// Languages of what is said and written, as far as they are known: for the lang attributes of texts
export const spokenLanguage = () => code(state.spoken || only(modelCard().source_languages));
export const writtenLanguage = () => code(state.written || only(modelCard().target_languages));
const only = names => (names?.length === 1 ? names[0] : undefined);
const code = name => (/^[a-z]{2,3}(-[A-Za-z0-9]+)*$/.test(name ?? "") ? name : undefined);
