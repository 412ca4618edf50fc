"""Adapters: nothing at first, then each language its own, in batches, streams and searches alike."""

import json
from dataclasses import replace

import numpy as np
import pytest
import tiny
import tiny_training
import torch
import torch.nn.functional as F

from npda.corpus.manifest import write_manifest
from npda.datastore.fingerprint import decoder_fingerprint
from npda.decoding.beam import SearchOptions, search
from npda.io.errors import InputError
from npda.models import load_speech2text
from npda.training.loop.settings import TrainingSettings
from npda.training.tasks.speech import SpeechModel, train_speech
from npda.translator import Translator

SETTINGS = TrainingSettings(
    batch_frames=600, batches_per_update=1, learning_rate=3e-3, warmup=2, schedule="constant", spec_augment=None,
    weight_decay=0.1, max_epochs=2, patience=None, average=1,
)  # fmt: skip


def adapted(languages=("de", "fr"), sets=("de", "fr"), shaken=True):
    """A model whose adapters have a say: their last matrices are random too."""
    model = tiny.backbone(languages=languages)
    model.add_adapters(sets, width=6)
    if shaken:
        torch.manual_seed(5)
        for name, parameter in model.named_parameters():
            if name.startswith("adapters."):
                torch.nn.init.normal_(parameter, std=0.5)
    return model.eval()


def prompts(model, *languages):
    return torch.tensor([model.prompt(language) for language in languages])


def tokens_after(prompt, length=7, seed=0):
    words = torch.randint(12, 40, (len(prompt), length), generator=torch.Generator().manual_seed(seed))
    return torch.cat([prompt, words], dim=1)


@torch.inference_mode()
def test_fresh_adapters_change_nothing_bit_for_bit():
    base, model = tiny.backbone(languages=("de", "fr")), adapted(shaken=False)
    features, lengths = tiny.speech([90, 61])
    tokens = tokens_after(prompts(base, "de", "fr"))
    heard, adapted_heard = base.hear(features, lengths), model.hear(features, lengths, tokens)
    assert torch.equal(heard.states, adapted_heard.states)
    assert torch.equal(base.states(heard, tokens), model.states(heard, tokens))
    assert torch.equal(base.start(heard, 1).step(tokens), model.start(heard, 1).step(tokens))


@torch.inference_mode()
def test_each_row_is_adapted_by_the_formula_of_its_language():
    """Against transformers' own model, with the formula written out in hooks after its layers."""
    model = adapted()
    features, lengths = tiny.speech([80])
    for language in ("de", "fr"):
        tokens = tokens_after(prompts(model, language))
        reference = tiny.theirs(tiny.backbone(languages=("de", "fr")))
        for side in ("encoder", "decoder"):
            for index, layer in enumerate(getattr(reference.model, side).layers):
                weights = {
                    name.removeprefix(f"adapters.sets.{language}.{side}.{index}."): tensor
                    for name, tensor in model.state_dict().items()
                }

                def formula(module, given, x, w=weights):
                    inner = F.layer_norm(x, x.shape[-1:], w["norm.weight"], w["norm.bias"])
                    inner = torch.relu(inner @ w["down.weight"].T + w["down.bias"])
                    return x + inner @ w["up.weight"].T + w["up.bias"]

                layer.register_forward_hook(formula)
        theirs = reference(input_features=features, decoder_input_ids=tokens).logits
        ours = model.logits(model.states(model.hear(features, lengths, tokens), tokens))
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)


@torch.inference_mode()
def test_a_batch_of_two_languages_is_each_alone():
    model = adapted()
    features, lengths = tiny.speech([90, 61, 75])
    tokens = tokens_after(prompts(model, "fr", "de", "fr"))
    memory = model.hear(features, lengths, tokens)
    states = model.states(memory, tokens)
    assert not torch.allclose(states[0], model.states(memory, tokens_after(prompts(model, "de", "de", "de")))[0])
    for row, length in enumerate(lengths.tolist()):
        one = tokens[row : row + 1]
        alone = model.hear(features[row : row + 1, :length], lengths[row : row + 1], one)
        size = alone.states.shape[1]
        torch.testing.assert_close(memory.states[row, :size], alone.states[0], atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(states[row], model.states(alone, one)[0], atol=1e-4, rtol=1e-4)


@torch.inference_mode()
def test_a_stream_keeps_to_the_languages_of_its_rows():
    """Two beams a sentence; the first sentence leaves on the way."""
    model = adapted()
    features, lengths = tiny.speech([90, 61, 75])
    tokens = tokens_after(prompts(model, "fr", "de", "fr"), length=9)
    memory = model.hear(features, lengths, tokens)
    whole = model.states(memory, tokens)
    stream, rows = model.start(memory, beam=2), tokens.repeat_interleave(2, dim=0)
    step = stream.step(rows[:, :3])
    torch.testing.assert_close(step, whole[:, 2].repeat_interleave(2, dim=0), atol=1e-4, rtol=1e-4)
    stream.keep(torch.tensor([1, 2]))
    for position in range(3, tokens.shape[1]):
        step = stream.step(rows[2:, position : position + 1])
    torch.testing.assert_close(step, whole[1:, -1].repeat_interleave(2, dim=0), atol=1e-4, rtol=1e-4)


@torch.inference_mode()
def test_search_in_a_batch_finds_what_it_finds_alone():
    model = adapted()
    features, lengths = tiny.speech([90, 61, 75])
    options = SearchOptions(beam=3, max_length=20)
    found = {}
    for language in ("de", "fr"):
        prompt = model.prompt(language)
        memory = model.hear(features, lengths, torch.tensor([prompt] * 3))
        together = [best[0].tokens for best in search(model, memory, prompt, options)]
        for row, length in enumerate(lengths.tolist()):
            alone = model.hear(features[row : row + 1, :length], lengths[row : row + 1], torch.tensor([prompt]))
            assert search(model, alone, prompt, options)[0][0].tokens == together[row]
        found[language] = together
    assert found["de"] != found["fr"]


@torch.inference_mode()
def test_a_language_without_adapters_is_left_to_the_base():
    model, base = adapted(sets=("fr",)), tiny.backbone(languages=("de", "fr"))
    features, lengths = tiny.speech([90, 90])
    mixed = prompts(model, "de", "fr")
    memory, plain = model.hear(features, lengths, mixed), base.hear(features, lengths)
    assert torch.equal(memory.states[0], plain.states[0])
    assert not torch.allclose(memory.states[1], plain.states[1])
    with pytest.raises(ValueError, match="give the prompts"):
        model.hear(features, lengths)


@torch.inference_mode()
def test_a_model_without_tags_has_one_set():
    model = adapted(languages=(), sets=("any",))
    features, lengths = tiny.speech([70])
    heard = model.hear(features, lengths)
    assert torch.equal(heard.states, model.hear(features, lengths, torch.tensor([model.prompt()])).states)
    assert not torch.allclose(heard.states, tiny.backbone().hear(features, lengths).states)
    with pytest.raises(InputError, match="no adapters for 'de': the model has any"):
        model.add_adapters(["de"], 6)


@torch.inference_mode()
def test_they_are_saved_with_the_model(tmp_path):
    model = adapted()
    model.save_pretrained(tmp_path)
    assert {path.name for path in (tmp_path / "adapters").iterdir()} == {
        "config.json", "de.safetensors", "fr.safetensors"
    }  # fmt: skip
    opened = load_speech2text(tmp_path)
    assert all(torch.equal(tensor, opened.state_dict()[name]) for name, tensor in model.state_dict().items())
    # Keys belong to the decoder as it is adapted.
    assert decoder_fingerprint(opened) != decoder_fingerprint(tiny.backbone(languages=("de", "fr")))
    with pytest.raises(InputError, match="adapters are 6 wide"):
        opened.add_adapters(["de"], 7)


@pytest.mark.parametrize(
    "damage",
    [{"languages": ["../../etc"]}, {"languages": ["xx"]}, {"languages": None}, {"width": 7}, {"depth": 1}],
)
def test_damaged_adapters_get_one_sentence(damage, tmp_path):
    model = adapted()
    model.save_pretrained(tmp_path)
    path = tmp_path / "adapters" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **damage}))
    with pytest.raises(InputError) as error:
        load_speech2text(tmp_path)
    assert "\n" not in str(error.value)


def test_damaged_weights_get_one_sentence(tmp_path):
    adapted().save_pretrained(tmp_path)
    (tmp_path / "adapters" / "de.safetensors").write_bytes(b"damaged")
    with pytest.raises(InputError, match=r"de\.safetensors cannot be read"):
        load_speech2text(tmp_path)


def test_only_the_adapters_of_the_data_are_trained(tmp_path):
    """French after German: the base and the German set stay bit for bit, and so do German translations."""
    tiny.backbone(languages=("de", "fr"), init_std=0.05).save_pretrained(tmp_path / "base")
    made = tiny_training.utterances(tmp_path / "speech", 10, 0)
    for language in ("de", "fr"):
        write_manifest(tmp_path / f"{language}.tsv", [replace(u, tgt_lang=language) for u in made])
    start = tmp_path / "base"
    for language in ("de", "fr"):
        manifests, out = [tmp_path / f"{language}.tsv"], tmp_path / language
        model = SpeechModel(start=start, tunes="adapters", adapter_width=8)
        train_speech(manifests, manifests, out, model, SETTINGS, progress=False)
        start = out

    base, german, french = (load_speech2text(tmp_path / name) for name in ("base", "de", "fr"))
    assert german.adapters is not None
    assert german.adapters.languages == ("de",)
    old, new = german.state_dict(), french.state_dict()
    assert all(torch.equal(tensor, new[name]) for name, tensor in {**base.state_dict(), **old}.items())
    added = {name for name in new if name not in old}
    assert all(name.startswith("adapters.sets.fr.") for name in added)
    assert all(new[name].abs().sum() > 0 for name in added if name.endswith("up.weight"))

    samples = np.random.default_rng(1).normal(0, 0.1, 16_000).astype(np.float32)
    texts = [
        [Translator(model).translate(samples, language=language).score for language in ("de", "fr")]
        for model in (base, german, french)
    ]
    assert texts[0][0] != texts[1][0] == texts[2][0]
    assert texts[0][1] == texts[1][1] != texts[2][1]
