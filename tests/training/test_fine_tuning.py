"""A public model trained further into a language it does not write by itself: a tiny Whisper, to write German."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import tiny
import tiny_training
import tiny_whisper
import torch

from npda.corpus.manifest import read_manifest, write_manifest
from npda.io.errors import InputError
from npda.models import load_backbone, load_trainable
from npda.models.whisper import SILENCE, Whisper
from npda.training.data.speech import SpeechData
from npda.training.loop.settings import TrainingSettings
from npda.training.objectives.transcript_loss import TranscribingSpeechToText
from npda.training.tasks.speech import SpeechModel, defaults, train_speech
from npda.translator import Translator

SETTINGS = TrainingSettings(
    batch_frames=400, batches_per_update=1, learning_rate=3e-3, warmup=2, schedule="constant", spec_augment="sm",
    weight_decay=0.01, max_epochs=4, patience=None, save_every=2, average=1,
)  # fmt: skip


@pytest.fixture(scope="module")
def start(tmp_path_factory) -> Path:
    """A model that hears many languages and writes English."""
    directory = tmp_path_factory.mktemp("whisper")
    tiny_whisper.backbone(source_language=None).save_pretrained(directory)
    return directory


@pytest.fixture(scope="module")
def manifest(tmp_path_factory) -> Path:
    """What is spoken has no tag of its own, mdw; German is to be written."""
    directory = tmp_path_factory.mktemp("speech")
    made = tiny_training.utterances(directory, 12, 0, src_lang="mdw", tgt_lang="de")
    write_manifest(directory / "train.tsv", made)
    return directory / "train.tsv"


def further(start: Path, **changes) -> SpeechModel:
    model, _ = defaults("mini", start)
    return replace(model, **{"source_language": "en", "silence": 0.2, **changes})


def words(model: Whisper, prompt: list[int]) -> list[str]:
    return [str(model.target.tokenizer.convert_ids_to_tokens(token)).strip("<|>") for token in prompt]


def test_it_learns_and_writes_the_new_language_when_opened_again(start, manifest, tmp_path):
    train_speech([manifest], [manifest], tmp_path, further(start), SETTINGS, progress=False)

    log = [json.loads(line) for line in (tmp_path / "train" / "log.jsonl").read_text().splitlines()]
    dev = [entry for entry in log if entry["kind"] == "dev"]
    assert dev[-1]["nll"] < dev[0]["nll"]
    assert dev[-1]["transcript_nll"] < dev[0]["transcript_nll"]

    before, after = load_backbone(start), load_backbone(tmp_path)
    assert isinstance(after, Whisper)
    assert words(after, after.prompt()) == ["startoftranscript", "de", "transcribe", "notimestamps"]
    assert after.prompt() == after.prompt("de")
    assert words(after, after.prompt("en")) == ["startoftranscript", "en", "transcribe", "notimestamps"]
    assert after.silence == 0.2
    assert isinstance(before, Whisper)
    assert (before.target_language, before.silence) == ("en", SILENCE)
    old, new = before.state_dict(), after.state_dict()
    still = {name for name in old if torch.equal(old[name], new[name])}
    tied = {"model.proj_out.weight"}
    assert still - tied == {"model.model.encoder.embed_positions.weight", "model.model.decoder.embed_tokens.weight"}
    assert Translator(after).translate(read_manifest(manifest)[0].audio).score < 0


def test_states_of_a_model_trained_further_are_those_of_transformers(start, manifest, tmp_path):
    settings = replace(SETTINGS, max_epochs=None, max_updates=2)
    train_speech([manifest], [manifest], tmp_path, further(start, silence=9.0), settings, progress=False)
    model = load_backbone(tmp_path)
    assert isinstance(model, Whisper)
    features, lengths = tiny_whisper.heard(model, [tiny_whisper.waveform(0.8)])
    tokens = torch.tensor([[*model.prompt(), *model.target.encode(tiny.SENTENCES[0])]])
    padded = model.extractor(tiny_whisper.waveform(0.8), sampling_rate=16_000, return_tensors="pt").input_features
    with torch.no_grad():
        ours = model.states(model.hear(features, lengths), tokens)
        theirs = model.model.model(padded, decoder_input_ids=tokens).last_hidden_state
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_an_interrupted_run_goes_on_to_the_same_weights(start, manifest, tmp_path):
    whole, parts = replace(SETTINGS, max_epochs=None, max_updates=5), replace(SETTINGS, max_epochs=None, max_updates=2)
    model = further(start)
    train_speech([manifest], [manifest], tmp_path / "whole", model, whole, progress=False)
    for settings in (parts, whole):
        train_speech([manifest], [manifest], tmp_path / "parts", model, settings, progress=False)
    one, other = (load_trainable(tmp_path / name, "en").state_dict() for name in ("whole", "parts"))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_transcripts_are_what_the_decoder_writes_under_the_spoken_tag(start, manifest):
    model = load_backbone(start, "en")
    assert isinstance(model, Whisper)
    model.learn_language("de")
    utterances = read_manifest(manifest)[:3]
    batch = SpeechData(utterances, model, source=model.source).batch([0, 1, 2])
    tokens, labels = TranscribingSpeechToText(model, model.prompt("en"), 0.5)._transcripts(batch)
    for utterance, fed, wanted in zip(utterances, tokens.tolist(), labels.tolist(), strict=True):
        row = [*model.prompt("en"), *model.target.encode(utterance.src_text), model.target.eos]
        assert fed[: len(row) - 1] == row[:-1]
        assert [token for token in wanted if token != model.target.pad] == row[4:]
        assert wanted[3 : len(row) - 1] == row[4:]


def test_both_losses_are_means_over_their_own_tokens(start, manifest):
    """Recomputed from the logits of transformers' own decoder, sentence by sentence."""
    model = load_backbone(start, "en")
    assert isinstance(model, Whisper)
    model.learn_language("de")
    utterances = read_manifest(manifest)[:3]
    batch = SpeechData(utterances, model, source=model.source).batch([0, 1, 2])
    objective = TranscribingSpeechToText(model, model.prompt("en"), 0.5, label_smoothing=0.0).eval()
    with torch.no_grad():
        sums, counts = objective(batch), objective.counts(batch)
    for prefix, language, text in (("", "de", "tgt_text"), ("transcript_", "en", "src_text")):
        total = tokens = 0.0
        for row, utterance in enumerate(utterances):
            target = [*model.prompt(language), *model.target.encode(getattr(utterance, text)), model.target.eos]
            length = batch.lengths[row : row + 1]
            memory = model.hear(batch.features[row : row + 1, : int(length)], length)
            with torch.no_grad():
                states = model.model.model.decoder(
                    torch.tensor([target[:-1]]), encoder_hidden_states=memory.states
                ).last_hidden_state
                scores = model.model.proj_out(states)[0, 3:].log_softmax(-1)
            total -= float(scores.gather(1, torch.tensor(target[4:])[:, None]).sum())
            tokens += len(target) - 4
        assert counts[f"{prefix}loss"] == tokens
        assert float(sums[f"{prefix}loss"]) == pytest.approx(total, rel=1e-4)


@pytest.mark.parametrize(
    ("change", "settings", "complaint"),
    [
        ({"tunes": "adapters"}, {}, "Adapters and gates are for models of npda train"),
        ({"source_language": "xx"}, {}, "does not know the language 'xx'"),
        ({"source_language": None}, {}, "has to be told which language is spoken"),
        ({"languages": ("de", "en")}, {}, "one language at a time, not de, en"),
        ({"languages": ("xx",)}, {}, "does not know the language 'xx'"),
        ({}, {"ctc_weight": 0.5}, "use transcript_weight, not ctc_weight"),
    ],
)
def test_wrong_wishes_are_one_sentence(change, settings, complaint, start, manifest, tmp_path):
    with pytest.raises(InputError, match=complaint):
        train_speech([manifest], [manifest], tmp_path / "out", further(start, **change), replace(SETTINGS, **settings))
    assert not (tmp_path / "out").exists()


def test_what_is_for_public_models_is_refused_for_others(manifest, tmp_path):
    with pytest.raises(InputError, match="say which one to start from"):
        SpeechModel(transcript_weight=1.0)
    tiny.backbone().save_pretrained(tmp_path / "own")
    model = SpeechModel(start=tmp_path / "own", transcript_weight=1.0)
    with pytest.raises(InputError, match="learnt with ctc_weight"):
        train_speech([manifest], [manifest], tmp_path / "out", model, SETTINGS)


def test_on_the_command_line(start, manifest, tmp_path):
    arguments = [
        "train",
        manifest,
        "--dev",
        manifest,
        "--out",
        tmp_path,
        "--start",
        start,
        "--max-updates",
        "2",
        "--json",
    ]
    script = "from npda.cli import main; main()"
    command = [sys.executable, "-c", script, *map(str, arguments)]
    untold = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert untold.returncode == 2
    assert "has to be told which language is spoken" in untold.stderr
    told = [*command, "--source-language", "en", "--silence", "0.3", "--transcript-weight", "0"]
    answer = subprocess.run(told, capture_output=True, text=True, check=False, timeout=600)
    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout)["updates"] == 2
    kept = json.loads((tmp_path / "generation_config.json").read_text())
    assert (kept["language"], kept["target_language"], kept["silence"]) == ("en", "de", 0.3)


def test_tokens_that_never_occur_lose_probability(start, manifest, tmp_path):
    """The soft-max of training is that of decoding: what the data never hold must not gain by being left out."""
    train_speech([manifest], [manifest], tmp_path, further(start), SETTINGS, progress=False)
    shares = []
    for directory in (start, tmp_path):
        model = load_backbone(directory, "en")
        assert isinstance(model, Whisper)
        model.learn_language("de")
        utterances = read_manifest(manifest)
        batch = SpeechData(utterances, model).batch(range(len(utterances)))
        texts = (text for u in utterances for text in (u.tgt_text, u.src_text))
        occurring = sorted({model.target.eos, *(token for text in texts for token in model.target.encode(text))})
        with torch.no_grad():
            states = model.states(model.hear(batch.features, batch.lengths), batch.tokens)
            probabilities = model.logits(states[batch.labels != model.target.pad]).softmax(dim=-1)
        shares.append(float(probabilities[:, occurring].sum(dim=-1).mean()))
    assert shares[1] > 1.6 * shares[0]  # 2.1 times; 1.2 where the soft-max of training leaves the others out
