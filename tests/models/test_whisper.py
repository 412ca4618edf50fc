"""The Whisper backbone against transformers' own class."""

import os
from pathlib import Path

import family_store
import numpy as np
import pytest
import tiny
import tiny_whisper
import torch
from transformers import WhisperForConditionalGeneration, WhisperProcessor

from npda.decoding.beam import SearchOptions, search
from npda.decoding.retry import search_with_retry
from npda.io.errors import InputError
from npda.models import load_backbone
from npda.models.whisper import Whisper
from npda.models.whisper_tokens import WhisperTokens
from npda.training.objectives.alignment import Align, AlignBatch

GREEDY = SearchOptions(beam=1, max_length=40, stop_loops=False)  # random weights love loops
WAVES = [tiny_whisper.waveform(1.1, seed=1), tiny_whisper.waveform(0.4, seed=2), tiny_whisper.waveform(2, seed=3)]


def theirs(model, waves):
    """Features of transformers, padded to the whole length. → [batch, 80, frames]"""
    return model.extractor(waves, sampling_rate=16_000, return_tensors="pt").input_features


@torch.inference_mode()
def greedy(model, waves, language=None) -> list[list[int]]:
    memory = model.hear(*tiny_whisper.heard(model, waves))
    return [list(found[0].tokens) for found in search(model, memory, model.prompt(language), GREEDY)]


def generated(model, waves, task) -> list[list[int]]:
    rows = model.model.generate(theirs(model, waves), language="de", task=task, max_new_tokens=40, do_sample=False)
    prompt = model.prompt("de" if task == "transcribe" else None)
    texts = []
    for row in rows.tolist():
        row = row[len(prompt) :] if row[: len(prompt)] == prompt else row
        texts.append(row[: row.index(model.target.eos)] if model.target.eos in row else row)
    return texts


def test_features_are_the_frames_of_transformers_that_touch_speech():
    model = tiny_whisper.backbone()
    for wave, expected in zip(WAVES, theirs(model, WAVES), strict=True):
        features = model.features(wave)
        assert abs(len(features) - len(wave) // 160) <= 2
        np.testing.assert_allclose(features, expected.T[: len(features)], atol=1e-5)
        rest = expected.T[len(features) :]
        assert rest.numel() == 0 or bool((rest == rest[0, 0]).all())  # nothing but silence was left out


def test_two_seconds_fit_and_more_is_too_long_for_the_model():
    model = tiny_whisper.backbone()
    assert len(model.features(WAVES[2])) == model.max_frames == 200
    assert len(model.features(tiny_whisper.waveform(2.1))) > 200
    assert len(model.features(np.zeros(0, np.float32))) > 0


def test_states_equal_the_forward_pass_of_transformers():
    model = tiny_whisper.backbone(silence=tiny_whisper.SECONDS)
    tokens = torch.randint(0, len(model.target), (3, 9))
    with torch.inference_mode():
        expected = model.model.model(input_features=theirs(model, WAVES), decoder_input_ids=tokens)
        logits = model.model(input_features=theirs(model, WAVES), decoder_input_ids=tokens).logits
        memory = model.hear(*tiny_whisper.heard(model, WAVES))
        states = model.states(memory, tokens)
        ours = model.logits(states)
        stream = model.start(memory, beam=1)
        steps = [stream.step(tokens[:, :4])] + [stream.step(tokens[:, t : t + 1]) for t in range(4, 9)]
    torch.testing.assert_close(memory.states, expected.encoder_last_hidden_state, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(states, expected.last_hidden_state, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(ours, logits, atol=1e-3, rtol=1e-4)
    torch.testing.assert_close(torch.stack(steps, dim=1), states[:, 3:], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("task", ["translate", "transcribe"])
def test_greedy_equals_generate_with_and_without_suppressed_tokens(task):
    language = "de" if task == "transcribe" else None
    free = tiny_whisper.backbone(silence=tiny_whisper.SECONDS)
    written = greedy(free, WAVES, language)
    assert written == generated(free, WAVES, task)
    assert all(written)
    always, first = [written[0][1]], [written[1][0], free.target.eos]
    model = tiny_whisper.backbone(silence=tiny_whisper.SECONDS, suppress=always, suppress_first=first)
    restrained = greedy(model, WAVES, language)
    assert restrained == generated(model, WAVES, task)
    assert restrained != written
    assert not any(always[0] in text for text in restrained)


def test_a_sentence_does_not_depend_on_its_batch():
    model = tiny_whisper.backbone(silence=0.3)
    features, lengths = tiny_whisper.heard(model, WAVES)
    together = tiny.heard_alike(model, features, lengths, atol=1e-5)
    assert together.mask.sum(dim=1).tolist() == [-(-min(int(n) + 30, 200) // 2) for n in lengths]
    assert greedy(model, WAVES) == [greedy(model, [wave])[0] for wave in WAVES]


class Ends:
    """A fusion that ends sentence 0 of so many after a few tokens."""

    def __init__(self, of):
        self.of = of

    def apply(self, states, log_probs, prefixes, sentences):
        ended = log_probs.clone()
        if len(sentences) == self.of and prefixes.shape[1] > 6:
            ended[0, tiny_whisper.tokenizer().convert_tokens_to_ids("<|endoftext|>")] = 0.0
        return ended


def test_what_does_not_end_is_heard_out():
    """Who ends keeps what was found after little silence, the others get what is found after all of it."""
    model = tiny_whisper.backbone(silence=0.1)
    hurried = greedy(model, WAVES)
    with torch.inference_mode():
        memory = model.hear(*tiny_whisper.heard(model, WAVES))
        found = search_with_retry(model, memory, model.prompt(), GREEDY, [Ends(of=3)])
        ((alone,),) = search_with_retry(
            model, model.hear(*tiny_whisper.heard(model, WAVES[:1])), model.prompt(), GREEDY, [Ends(of=1)]
        )
    content = tiny_whisper.backbone()
    content.learn_silence(0.1)
    assert content.hear(*tiny_whisper.heard(content, WAVES)).with_full_padding is None  # it was never used to more
    model.silence = tiny_whisper.SECONDS
    assert model.hear(*tiny_whisper.heard(model, WAVES)).with_full_padding is None
    assert [each[0].ended for each in found] == [True, False, False]
    assert alone.ended
    first, *others = (list(each[0].tokens) for each in found)
    assert first == hurried[0][: len(first)]
    assert others == greedy(model, WAVES)[1:]
    assert others != hurried[1:]


def test_the_task_follows_from_the_languages():
    model = tiny_whisper.backbone()
    name = model.target.tokenizer.convert_ids_to_tokens
    assert name(model.prompt()) == ["<|startoftranscript|>", "<|de|>", "<|translate|>", "<|notimestamps|>"]
    assert name(model.prompt("de")) == ["<|startoftranscript|>", "<|de|>", "<|transcribe|>", "<|notimestamps|>"]
    english = tiny_whisper.backbone(source_language="en")
    assert name(english.prompt()) == ["<|startoftranscript|>", "<|en|>", "<|transcribe|>", "<|notimestamps|>"]
    with pytest.raises(InputError, match="cannot write 'fr'"):
        model.prompt("fr")
    with pytest.raises(InputError, match="which language is spoken"):
        tiny_whisper.backbone(source_language=None).prompt()
    with pytest.raises(InputError, match="'xx'"):
        tiny_whisper.backbone(source_language="xx")


def test_text_is_encoded_as_whisper_writes_it():
    tokens = tiny_whisper.backbone().target
    assert tokens.pad != tokens.eos
    assert tokens.decode(tokens.encode("Der Boden ist schön.")) == "Der Boden ist schön."
    assert tokens.encode("floor") == tokens.tokenizer.encode(" floor", add_special_tokens=False)
    assert tokens.encode("床") == tokens.tokenizer.encode("床", add_special_tokens=False)
    assert tokens.encode("  ") == []
    assert tokens.eos not in tokens.encode("the end <|endoftext|> of it")
    assert tokens.decode([tokens.special("startoftranscript"), *tokens.encode("Wo?"), tokens.eos]) == "Wo?"


def test_saved_and_opened_by_us_and_by_transformers(tmp_path):
    model = tiny_whisper.backbone()
    model.add_text_encoder(layers=1)
    model.save_pretrained(tmp_path)
    opened = load_backbone(tmp_path)
    assert opened.source_language == "de"
    assert opened.target.digest() == model.target.digest()
    tokens, lengths = torch.tensor([[5, 6, 7]]), torch.tensor([3])
    with torch.inference_mode():
        torch.testing.assert_close(opened.read(tokens, lengths).states, model.read(tokens, lengths).states)
    assert greedy(opened, WAVES) == greedy(model, WAVES)
    assert load_backbone(tmp_path, "en").prompt() == tiny_whisper.backbone(source_language="en").prompt()
    processor = WhisperProcessor.from_pretrained(tmp_path)
    again = WhisperForConditionalGeneration.from_pretrained(tmp_path)
    assert processor.tokenizer.encode(" floor", add_special_tokens=False) == model.target.encode("floor")
    for name, parameter in model.model.state_dict().items():
        assert torch.equal(parameter, again.state_dict()[name]), name


def test_text_path_ignores_padding_and_has_room_for_long_sentences():
    model = tiny_whisper.backbone()
    with pytest.raises(InputError, match="npda align"):
        model.read(torch.ones(1, 3, dtype=torch.long), torch.tensor([3]))
    torch.nn.init.normal_(model.add_text_encoder(layers=2).silence)
    tokens = torch.randint(0, 250, (2, 40))
    with torch.inference_mode():
        together = model.read(tokens, torch.tensor([40, 4]))
        alone = model.read(tokens[1:, :4], torch.tensor([4]))
    assert together.mask.sum(dim=1).tolist() == [82, 10]  # two frames a token, two of silence
    torch.testing.assert_close(together.states[1:, :10], alone.states, atol=1e-5, rtol=1e-4)


def test_the_text_path_can_be_aligned_and_nothing_else_moves():
    model = tiny_whisper.backbone()
    objective = Align(model, model.add_text_encoder(layers=2), "full", label_smoothing=0.1).train()
    prompt = model.prompt()
    text = model.target.encode("The floor is yours.")
    tokens = torch.tensor([[*prompt, *text]])
    labels = torch.tensor([[*[model.target.pad] * (len(prompt) - 1), *text, model.target.eos]])
    source = torch.tensor([model.source.encode("Das Wort hat die Fraktion.")])
    teacher = torch.randn(1, tokens.shape[1], model.dim)
    batch = AlignBatch(source, torch.tensor([source.shape[1]]), tokens, labels, teacher)
    assert objective.counts(batch)["nll"] == len(text) + 1  # the end symbol is learned too
    terms = objective(batch)
    (terms["loss"] + terms["mse"]).backward()
    moved = {name for name, parameter in model.named_parameters() if parameter.grad is not None}
    assert moved == {name for name, _ in model.named_parameters() if name.startswith("text_encoder.")}


def test_a_store_built_from_text_steers_decoding_and_belongs_to_its_model(tmp_path):
    model = tiny_whisper.backbone()
    torch.manual_seed(1)
    model.add_text_encoder(layers=2).eval()
    family_store.steers_and_belongs(model, tiny_whisper.backbone(seed=1), WAVES, GREEDY, tmp_path)


def test_blanks_to_be_filled_in_are_suppressed():
    """The small vocabulary has none; with one more token it has one."""
    assert tiny_whisper.backbone().suppressed.always == ()
    tokenizer = tiny_whisper.tokenizer()
    tokenizer.add_tokens(["____"])
    assert WhisperTokens(tokenizer, len(tokenizer)).blanks == (tokenizer.convert_tokens_to_ids("____"),)


def test_real_weights_write_what_transformers_generates():
    directory = Path(os.environ.get("NPDA_MODELS", "models")) / "whisper-base"
    if not directory.is_dir():
        pytest.skip(f"there is no {directory}: set NPDA_MODELS to a folder that holds whisper-base")
    model = load_backbone(directory, "de")
    assert isinstance(model, Whisper)
    model.silence = 30.0
    wave = tiny_whisper.waveform(1.5)
    assert greedy(model, [wave]) == generated(model, [wave], "translate")
