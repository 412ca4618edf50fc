"""The SeamlessM4T v2 backbone against transformers' own classes."""

import json
import logging
import shutil
from typing import Any

import family_store
import numpy as np
import pytest
import soundfile
import tiny
import tiny_seamless
import tiny_store
import torch
from tiny_whisper import waveform
from torch.nn.utils.rnn import pad_sequence
from transformers import SeamlessM4Tv2ForSpeechToText, SeamlessM4Tv2ForTextToText
from typer.testing import CliRunner

from npda.cli import app
from npda.corpus.pairs import write_pairs
from npda.decoding.beam import SearchOptions, search
from npda.io.errors import InputError
from npda.models import load_backbone
from npda.models import seamless as family
from npda.models.features import features_of
from npda.models.seamless import Seamless

GREEDY = SearchOptions(beam=1, max_length=30, stop_loops=False)  # random weights love loops
# The middle one ends where a convolution of the adaptor, four wide, would reach beyond.
WAVES = [waveform(1.1, seed=1), waveform(0.43, seed=2), waveform(2, seed=3)]
EVEN = [wave for wave in WAVES if (1 + (len(wave) - 400) // 160) % 2 == 0]  # transformers pads an odd frame


def heard(model, waves):
    """Features [batch, frames, 80], zero-padded, and their lengths."""
    features = [torch.from_numpy(model.features(wave)) for wave in waves]
    return pad_sequence(features, batch_first=True), torch.tensor([len(each) for each in features])


def theirs(model, wave):
    """What transformers makes of one utterance alone."""
    found = model.extractor(wave, sampling_rate=16_000, return_tensors="pt")
    return found.input_features, found.attention_mask


def of_transformers(model, kind):
    """Their class with our weights."""
    own = kind(model.model.config).eval()
    weights = model.model.state_dict()
    own.load_state_dict({name: weights[name] for name in own.state_dict()})
    own.generation_config = model.model.generation_config
    return own


@torch.inference_mode()
def written(model, waves, options=GREEDY, language="deu") -> list[list[int]]:
    memory = model.hear(*heard(model, waves))
    return [list(found[0].tokens) for found in search(model, memory, model.prompt(language), options)]


def generated(model, wave, language="deu") -> list[int]:
    features, mask = theirs(model, wave)
    own = of_transformers(model, SeamlessM4Tv2ForSpeechToText)
    how: dict[str, Any] = dict(min_new_tokens=1, max_new_tokens=30, do_sample=False, num_beams=1)
    row = own.generate(features, language, attention_mask=mask, **how)
    text = row[0].tolist()[2:]
    return text[: text.index(model.target.eos)] if model.target.eos in text else text


def test_there_are_utterances_transformers_does_not_pad():
    assert len(EVEN) == 2


def test_features_are_those_of_transformers_a_frame_every_ten_milliseconds():
    model = tiny_seamless.backbone()
    for wave in WAVES:
        features = model.features(wave)
        expected, mask = theirs(model, wave)
        np.testing.assert_array_equal(features.reshape(-1, 160), expected[0][: int(mask.sum())])
        assert features.shape == ((1 + (len(wave) - 400) // 160) // 2 * 2, 80)
    for samples in (0, 1, 500):
        assert model.features(np.zeros(samples, np.float32)).shape == (2, 80)
    with pytest.raises(InputError, match="at most 30 s"):
        features_of(model, waveform(31))


@pytest.mark.parametrize("wave", EVEN, ids=len)
def test_states_equal_the_forward_pass_of_transformers(wave):
    model = tiny_seamless.backbone()
    own = of_transformers(model, SeamlessM4Tv2ForSpeechToText)
    tokens = torch.randint(4, len(model.target), (1, 9))
    features, mask = theirs(model, wave)
    with torch.inference_mode():
        expected = own(features, mask, decoder_input_ids=tokens)
        memory = model.hear(*heard(model, [wave]))
        states = model.states(memory, tokens)
        stream = model.start(memory, beam=1)
        steps = [stream.step(tokens[:, :2])] + [stream.step(tokens[:, t : t + 1]) for t in range(2, 9)]
        logits = model.logits(states)
        final = own.text_decoder(tokens, encoder_hidden_states=memory.states).last_hidden_state
    torch.testing.assert_close(memory.states, expected.encoder_last_hidden_state, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(states, final, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(logits, expected.logits, atol=1e-3, rtol=1e-4)
    torch.testing.assert_close(torch.stack(steps, dim=1), states[:, 1:], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("language", ["deu", "fra"])
def test_greedy_equals_generate_with_and_without_suppressed_tokens(language):
    free = tiny_seamless.backbone()
    texts = written(free, EVEN, language=language)
    assert texts == [generated(free, wave, language) for wave in EVEN]
    assert all(texts)
    always, first = [texts[0][1]], [texts[0][0], texts[1][0]]
    model = tiny_seamless.backbone(suppress_tokens=always, begin_suppress_tokens=first)
    restrained = written(model, EVEN, language=language)
    assert restrained == [generated(model, wave, language) for wave in EVEN]
    assert not any(always[0] in text or text[0] in first for text in restrained)


def test_a_sentence_does_not_depend_on_its_batch():
    model = tiny_seamless.backbone()
    features, lengths = heard(model, WAVES)
    together = tiny.heard_alike(model, features, lengths)
    assert together.mask.sum(dim=1).tolist() == [int(n) // 2 // 4 + 1 for n in lengths]
    beam = SearchOptions(beam=4, max_length=20)
    assert written(model, WAVES, beam) == [written(model, [wave], beam)[0] for wave in WAVES]


def test_read_equals_the_text_encoder_of_transformers_whatever_the_batch():
    model = tiny_seamless.backbone(source_language="de")
    own = of_transformers(model, SeamlessM4Tv2ForTextToText)
    texts = ["Der Boden ist schön, aber kalt.", "Wo ist die Küche?"]
    tokenizer = tiny_seamless.tokenizer()
    expected = tokenizer(texts, src_lang="deu", padding=True, return_tensors="pt")
    rows = [model.source.encode(text) for text in texts]
    assert [row[: int(mask.sum())].tolist() for row, mask in zip(*expected.values(), strict=True)] == rows
    lengths = torch.tensor([len(row) for row in rows])
    with torch.inference_mode():
        memory = model.read(expected.input_ids, lengths)
        for row, length in enumerate(lengths):
            alone = own.text_encoder(expected.input_ids[row : row + 1, :length]).last_hidden_state
            torch.testing.assert_close(memory.states[row, :length], alone[0], atol=1e-5, rtol=1e-4)
    assert memory.mask.sum(dim=1).tolist() == lengths.tolist()


def test_languages_have_long_and_short_names():
    model = tiny_seamless.backbone()
    start, tag = model.prompt("deu")
    assert model.prompt("de") == [start, tag]
    assert model.target.tokenizer.convert_ids_to_tokens([start, tag]) == ["</s>", "__deu__"]
    assert model.target.languages == ("eng", "deu", "fra")
    assert model.source_language == "eng"
    assert model.source.encode("Wo")[0] == model.target.tag("en")
    with pytest.raises(InputError, match="which language to write"):
        model.prompt()
    with pytest.raises(InputError, match="'xx'; it has eng, deu, fra"):
        model.prompt("xx")
    with pytest.raises(InputError, match="'xx'"):
        tiny_seamless.backbone(source_language="xx")


def test_text_becomes_tokens_and_text_again():
    model = tiny_seamless.backbone()
    tokens = model.target
    text = "Der Boden ist kalt."
    assert tokens.decode([*model.prompt("de"), *tokens.encode(text), tokens.eos]) == text
    assert tokens.encode("  ") == model.source.encode("  ") == []
    inside = tokens.encode("Der </s> Boden __fra__ kalt")
    assert tokens.eos not in inside
    assert tokens.tag("fr") not in inside


def test_opened_from_the_full_model_and_from_its_part_for_speech(tmp_path, caplog):
    full = tiny_seamless.full_model()
    tiny_seamless.save(full, tmp_path / "full")
    assert (tmp_path / "full" / "model.safetensors.index.json").is_file()
    part = SeamlessM4Tv2ForSpeechToText.from_pretrained(tmp_path / "full")
    tiny_seamless.save(part, tmp_path / "part")
    family._tell_licence.cache_clear()
    with caplog.at_level(logging.WARNING):
        model, deaf = load_backbone(tmp_path / "full", "fr"), load_backbone(tmp_path / "part")
    assert [record.getMessage() for record in caplog.records if record.name.startswith("npda")] == [
        "SeamlessM4T v2 is licensed under CC BY-NC 4.0: its public weights are not for commercial use."
    ]
    assert isinstance(model, Seamless)
    assert isinstance(deaf, Seamless)
    names = {name for name, _ in model.model.named_parameters()}
    assert not any(name.startswith(("t2u_model", "vocoder")) for name in names)
    weights = full.state_dict()
    for name, value in model.model.state_dict().items():
        assert torch.equal(value, weights[name]), name
    assert written(model, WAVES) == written(deaf, WAVES)
    assert model.reads
    assert not deaf.reads
    with pytest.raises(InputError, match="the full model"):
        deaf.read(torch.ones(1, 3, dtype=torch.long), torch.tensor([3]))


def test_saved_and_opened_again(tmp_path):
    model = tiny_seamless.backbone(source_language="de", suppress_tokens=[7])
    model.save_pretrained(tmp_path)
    opened = load_backbone(tmp_path)
    assert isinstance(opened, Seamless)
    assert opened.source_language == "deu"
    assert opened.suppressed == model.suppressed
    assert opened.target.digest() == model.target.digest()
    assert opened.source.encode("Wo ist die Küche?") == model.source.encode("Wo ist die Küche?")
    assert written(opened, WAVES) == written(model, WAVES)


def test_a_directory_that_cannot_be_opened_gets_one_sentence(tmp_path):
    tiny_seamless.save(of_transformers(tiny_seamless.backbone(), SeamlessM4Tv2ForTextToText), tmp_path / "text")
    with pytest.raises(InputError, match="no model that hears"):
        load_backbone(tmp_path / "text")
    good = tmp_path / "good"
    tiny_seamless.backbone().save_pretrained(good)
    for name, content in (
        ("model.safetensors", b"no"),
        ("config.json", json.dumps({"model_type": "seamless_m4t"}).encode()),
    ):
        wrong = shutil.copytree(good, tmp_path / name)
        (wrong / name).write_bytes(content)
        with pytest.raises(InputError, match=str(wrong)) as error:
            load_backbone(wrong)
        assert "\n" not in str(error.value)
    without = shutil.copytree(good, tmp_path / "without")
    (without / "tokenizer.json").unlink()
    with pytest.raises(InputError, match=str(without)):
        load_backbone(without)


def test_npda_build_works_at_once_and_json_stays_json(tmp_path):
    tiny_seamless.save(tiny_seamless.full_model(), tmp_path / "model")
    write_pairs(tmp_path / "domain.tsv", tiny_store.pairs(5))
    soundfile.write(tmp_path / "speech.wav", WAVES[0], 16_000)
    choices = ["--model", tmp_path / "model", "--language", "de"]
    build = ["build", *choices, "--json", "--text", tmp_path / "domain.tsv", "--out", tmp_path / "store"]
    translate = ["translate", tmp_path / "speech.wav", *choices, "-f", "json", "--store", tmp_path / "store"]
    family._tell_licence.cache_clear()
    for arguments in (build, translate):
        answer = CliRunner().invoke(app, [*map(str, arguments)], catch_exceptions=False)
        assert answer.exit_code == 0, answer.output
        json.loads(answer.stdout)


def test_a_store_built_from_text_steers_decoding_and_belongs_to_its_model(tmp_path):
    model = tiny_seamless.backbone()
    family_store.steers_and_belongs(model, tiny_seamless.backbone(seed=1), WAVES, GREEDY, tmp_path, "deu")
