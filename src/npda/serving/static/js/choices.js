// The model and its languages: fields that are shown only where there is something to choose.
import * as api from "./api.js";
import { $, el, fill } from "./dom.js";
import { languageName, t } from "./i18n.js";
import { modelCard, state } from "./state.js";

export async function loadModels() {
  const { data } = await api.get("v1/models");
  state.models = data.filter(model => !model.id.includes("+"));
  state.model = (state.models.find(model => model.npda?.default) ?? state.models[0])?.id ?? "";
}

export function showChoices(changed) {
  const models = state.models.map(model => [model.id, model.id]);
  field("model", models, state.model, value => { state.model = value; state.spoken = state.written = ""; showChoices(changed); changed(); });
  const { source_languages: from = [], target_languages: to = [] } = modelCard();
  const sorted = names => names.map(name => [name, languageName(name)]).sort((a, b) => a[1].localeCompare(b[1]));
  field("spoken", from.length > 1 ? [["", t("detect")], ...sorted(from)] : [], state.spoken, value => { state.spoken = value; });
  if (to.length > 1 && !to.includes(state.written)) state.written = to[0];
  field("written", sorted(to), state.written, value => { state.written = value; });
}

function field(name, options, value, choose) {
  $(`${name}-field`).hidden = options.length < 2;
  const select = $(name);
  fill(select, options.map(([id, label]) => el("option", { value: id }, label)));
  select.value = value;
  select.onchange = () => choose(select.value);
}
