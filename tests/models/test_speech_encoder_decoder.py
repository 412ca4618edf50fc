"""wav2vec 2.0 with mBART's decoder against transformers' own class."""

import json
import shutil
from dataclasses import replace
from typing import Any

import family_store
import numpy as np
import pytest
import sentencepiece
import tiny
import tiny_speech_encoder_decoder as small
import tiny_training
import torch
from tiny_whisper import waveform
from torch.nn.utils.rnn import pad_sequence
from transformers import SpeechEncoderDecoderModel

from npda import audio
from npda.corpus.manifest import write_manifest
from npda.datastore.fingerprint import decoder_fingerprint
from npda.decoding.beam import SearchOptions, search
from npda.io.errors import InputError
from npda.models import load_backbone, tagged_tokens
from npda.models.features import features_of
from npda.models.speech_encoder_decoder import SpeechEncoderDecoder
from npda.training.objectives.alignment import Align, AlignBatch
from npda.training.tasks.align import AlignOptions, train_alignment

GREEDY = SearchOptions(beam=1, max_length=30, stop_loops=False)  # random weights love loops
WAVES = [waveform(1.1, seed=1), waveform(0.413, seed=2), waveform(1.99, seed=3)]


def heard(model, waves):
    """Features [batch, frames, 160], zero-padded, and their lengths."""
    features = [torch.from_numpy(model.features(wave)) for wave in waves]
    return pad_sequence(features, batch_first=True), torch.tensor([len(each) for each in features])


def theirs(model, wave):
    """What transformers makes of one utterance alone."""
    return model.extractor(wave, sampling_rate=16_000, return_tensors="pt").input_values


@torch.inference_mode()
def written(model, waves, options=GREEDY, language: str | None = "de") -> list[list[int]]:
    memory = model.hear(*heard(model, waves))
    return [list(found[0].tokens) for found in search(model, memory, model.prompt(language), options)]


def generated(model, wave, language: str | None = "de_DE") -> list[int]:
    forced = None if language is None else model.target.tokenizer.convert_tokens_to_ids(language)
    how = {} if forced is None else {"forced_bos_token_id": forced}
    row = model.model.generate(theirs(model, wave), max_new_tokens=31, do_sample=False, num_beams=1, **how)
    text = row[0].tolist()[2:]
    return text[: text.index(model.target.eos)] if model.target.eos in text else text


@pytest.mark.parametrize("samples", [0, 1, 399, 400, 401, 719, 720, 1_999, 16_000, 17_123, 480_000, 480_399, 480_400])
def test_frames_of_ten_milliseconds_hold_all_samples_the_encoder_uses(samples):
    model = small.backbone(add_adapter=False)
    wave = waveform(samples / 16_000)
    features = model.features(wave)
    assert features.shape[1] == 160
    frames = audio.frame_count(max(samples, 400))
    assert 0 <= len(features) - frames <= 2
    assert (len(features) <= model.max_frames) == (frames <= audio.MAX_FRAMES)
    if samples < 20_000:
        encoder: Any = model.model.encoder
        with torch.inference_mode():
            memory = model.hear(*heard(model, [wave]))
        assert memory.states.shape[1] == int(encoder._get_feat_extract_output_lengths(max(samples, 400)))


def test_more_than_half_a_minute_is_refused():
    with pytest.raises(InputError, match="at most 30 s"):
        features_of(small.backbone(), waveform(31))


@pytest.mark.parametrize("norm", ["layer", "group"])
@pytest.mark.parametrize("wave", WAVES, ids=len)
def test_states_equal_the_forward_pass_of_transformers(norm, wave):
    model = small.backbone(norm=norm)
    if norm == "group":  # it normalises over the samples that are left off, too; what they add is not heard
        wave = wave[: model._used(len(wave))]
    tokens = torch.randint(4, len(model.target), (1, 9))
    decoder: Any = model.model.get_decoder().model.decoder
    with torch.inference_mode():
        expected = model.model(theirs(model, wave), decoder_input_ids=tokens)
        memory = model.hear(*heard(model, [wave]))
        states = model.states(memory, tokens)
        logits = model.logits(states)
        stream = model.start(memory, beam=1)
        steps = [stream.step(tokens[:, :2])] + [stream.step(tokens[:, t : t + 1]) for t in range(2, 9)]
        final = decoder(tokens, encoder_hidden_states=expected.encoder_last_hidden_state).last_hidden_state
    torch.testing.assert_close(memory.states, expected.encoder_last_hidden_state, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(states, final, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(logits, expected.logits, atol=1e-3, rtol=1e-4)
    torch.testing.assert_close(torch.stack(steps, dim=1), states[:, 1:], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("language", ["de_DE", "fr_XX"])
def test_greedy_equals_generate_with_and_without_suppressed_tokens(language):
    free = small.backbone()
    texts = written(free, WAVES, language=language)
    assert texts == [generated(free, wave, language) for wave in WAVES]
    assert all(texts)
    always, first = [texts[0][1]], [text[0] for text in texts]
    model = small.backbone(suppress_tokens=always, begin_suppress_tokens=first)
    restrained = written(model, WAVES, language=language)
    assert restrained == [generated(model, wave, language) for wave in WAVES]
    assert not any(always[0] in text or text[0] in first for text in restrained)


@pytest.mark.parametrize("norm", ["layer", "group"])
@pytest.mark.parametrize("adapter", [True, False])
def test_a_sentence_does_not_depend_on_its_batch(norm, adapter):
    model = small.backbone(norm=norm, add_adapter=adapter)
    features, lengths = heard(model, WAVES)
    tiny.heard_alike(model, features, lengths)
    beam = SearchOptions(beam=4, max_length=20)
    assert written(model, WAVES, beam) == [written(model, [wave], beam)[0] for wave in WAVES]


def test_halves_of_one_width_need_no_projection():
    model = small.backbone(hidden_size=32, output_hidden_size=32)
    assert not hasattr(model.model, "enc_to_dec_proj")
    assert written(model, WAVES) == [generated(model, wave) for wave in WAVES]


def test_the_prompt_follows_from_the_checkpoint_and_the_language():
    model = small.backbone()
    name = model.target.tokenizer.convert_ids_to_tokens
    german = model.target.tag("de_DE")
    assert name(model.prompt("de")) == name(model.prompt("de_DE")) == ["</s>", "de_DE"]
    with pytest.raises(InputError, match="choose a language"):
        model.prompt()
    with pytest.raises(InputError, match="'ca'; it has ar, cs, de"):
        model.prompt("ca")
    forced = small.backbone(forced=german)
    assert forced.prompt() == [2, german]
    assert forced.prompt("fr") == [2, model.target.tag("fr_XX")]
    assert written(forced, WAVES, language=None) == [generated(forced, wave, None) for wave in WAVES]
    older = small.backbone(start=german)  # decoding starts with the tag itself
    assert older.prompt() == [german]
    assert older.prompt("fr") == [model.target.tag("fr")]
    with pytest.raises(InputError, match="decoder_start_token_id"):
        small.backbone(start=None).prompt("de")


def test_text_becomes_tokens_and_text_again():
    model = small.backbone()
    tokens = model.target
    text = "Der Boden ist kalt."
    assert tokens.decode([*model.prompt("de"), *tokens.encode(text), tokens.eos]) == text
    assert tokens.encode("  ") == []
    assert tokens.decode([*tokens.encode("Wo"), tokens.tokenizer.unk_token_id]) == "Wo"
    inside = tokens.encode("Der </s> Boden fr_XX kalt")
    assert tokens.eos not in inside
    assert tokens.tag("fr") not in inside


def test_the_vocabulary_as_it_is_published(tmp_path, monkeypatch):
    published = tmp_path / "sentencepiece.bpe.model"
    with published.open("wb") as file:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(tiny.SENTENCES),
            model_writer=file,
            vocab_size=60,
            hard_vocab_limit=False,
            minloglevel=2,
        )
    small.backbone().save_pretrained(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    with monkeypatch.context() as without:
        without.setattr(tagged_tokens, "find_spec", lambda _: None)
        with pytest.raises(InputError, match="pip install protobuf"):
            load_backbone(tmp_path)
    pytest.importorskip("google.protobuf")
    model = load_backbone(tmp_path)
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(published))
    for sentence in tiny.SENTENCES:
        assert model.target.encode(sentence) == [piece + 1 for piece in pieces.encode(sentence)]


def test_saved_and_opened_by_us_and_by_transformers(tmp_path):
    model = small.backbone(suppress_tokens=[7])
    model.add_text_encoder(layers=1)
    model.save_pretrained(tmp_path)
    opened = load_backbone(tmp_path)
    assert isinstance(opened, SpeechEncoderDecoder)
    assert opened.reads
    assert opened.suppressed == model.suppressed
    assert opened.target.digest() == model.target.digest()
    tokens, lengths = torch.tensor([[5, 6, 7]]), torch.tensor([3])
    with torch.inference_mode():
        torch.testing.assert_close(opened.read(tokens, lengths).states, model.read(tokens, lengths).states)
    assert written(opened, WAVES) == written(model, WAVES)
    again = SpeechEncoderDecoderModel.from_pretrained(tmp_path)
    for name, parameter in model.model.state_dict().items():
        assert torch.equal(parameter, again.state_dict()[name]), name


def test_a_directory_that_cannot_be_opened_gets_one_sentence(tmp_path):
    good = tmp_path / "good"
    small.backbone().save_pretrained(good)
    config = json.loads((good / "config.json").read_text())
    for half, wrong in (("decoder", "speech_to_text_2"), ("decoder", "bart"), ("encoder", "hubert")):
        other = shutil.copytree(good, tmp_path / wrong)
        changed = {**config, half: {**config[half], "model_type": wrong}}
        (other / "config.json").write_text(json.dumps(changed))
        with pytest.raises(InputError, match=f"its {half} is of type '{wrong}'; only"):
            load_backbone(other)
    without = shutil.copytree(good, tmp_path / "without")
    (without / "tokenizer.json").unlink()
    with pytest.raises(InputError, match="no vocabulary"):
        load_backbone(without)
    broken = shutil.copytree(good, tmp_path / "broken")
    (broken / "preprocessor_config.json").unlink()
    with pytest.raises(InputError, match=str(broken)) as error:
        load_backbone(broken)
    assert "\n" not in str(error.value)


def test_the_text_path_starts_from_the_decoders_tokens_and_alone_is_trained():
    model = small.backbone()
    assert not model.reads
    with pytest.raises(InputError, match="npda align"):
        model.read(torch.ones(1, 3, dtype=torch.long), torch.tensor([3]))
    with pytest.raises(InputError, match="layers of its own"):
        model.add_text_encoder(0)
    text_encoder = model.add_text_encoder(layers=2, dropout=0.3)
    embedding: Any = model.model.get_input_embeddings()
    assert torch.equal(text_encoder.embedding.weight, embedding.weight)
    assert text_encoder.size.dropout == 0.3
    objective = Align(model, text_encoder, "full", label_smoothing=0.1).train()
    prompt, text = model.prompt("de"), model.target.encode("Der Boden ist kalt.")
    tokens = torch.tensor([[*prompt, *text]])
    labels = torch.tensor([[*[model.target.pad] * (len(prompt) - 1), *text, model.target.eos]])
    source = torch.tensor([model.source.encode("The floor is yours.")])
    teacher = torch.randn(1, tokens.shape[1], model.dim)
    terms = objective(AlignBatch(source, torch.tensor([source.shape[1]]), tokens, labels, teacher))
    (terms["loss"] + terms["mse"]).backward()
    moved = {name for name, parameter in model.named_parameters() if parameter.grad is not None}
    assert moved == {name for name, _ in model.named_parameters() if name.startswith("text_encoder.")}


def test_npda_align_teaches_it_to_read(tmp_path):
    base = small.backbone()
    base.save_pretrained(tmp_path / "base")
    for name, count, seed in (("train", 8, 1), ("dev", 4, 2)):
        spoken = tiny_training.utterances(tmp_path / "audio", count, seed, tgt_lang="de")
        write_manifest(tmp_path / f"{name}.tsv", spoken)
    manifests = [tmp_path / "train.tsv"], [tmp_path / "dev.tsv"]
    settings = replace(tiny_training.SETTINGS, ctc_weight=0.0, spec_augment=None, max_epochs=1)
    options = AlignOptions(layers=1)
    train_alignment(tmp_path / "base", *manifests, tmp_path / "out", settings, options, progress=False)
    aligned = load_backbone(tmp_path / "out")
    assert isinstance(aligned, SpeechEncoderDecoder)
    assert aligned.reads
    assert decoder_fingerprint(aligned) == decoder_fingerprint(base)
    assert written(aligned, WAVES) == written(base, WAVES)


def test_a_store_built_from_text_steers_decoding_and_belongs_to_its_model(tmp_path):
    model = small.backbone()
    torch.manual_seed(1)
    model.add_text_encoder(layers=2).eval()
    family_store.steers_and_belongs(model, small.backbone(seed=1), WAVES, GREEDY, tmp_path, "de")


def test_features_are_the_samples_of_transformers():
    model = small.backbone()
    for wave in WAVES:
        samples = model.features(wave).flatten()
        used = model._used(len(wave))
        np.testing.assert_array_equal(samples[:used], theirs(model, wave)[0, :used])
        assert len(samples) - used < 160
        assert not samples[used:].any()
