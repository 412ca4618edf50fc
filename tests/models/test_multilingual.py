"""One model, two target languages: from training to translation with a datastore, led by the language tag."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from typer.testing import CliRunner

from npda import audio
from npda.cli import app
from npda.corpus.manifest import Utterance, write_manifest
from npda.corpus.pairs import Pair
from npda.datastore.format import SourceInfo
from npda.datastore.source import BuildOptions, Source
from npda.datastore.store import Datastore
from npda.evaluation.devset import DevSet
from npda.evaluation.scores import score
from npda.evaluation.similarity import similarity
from npda.io.errors import InputError
from npda.models import load_speech2text
from npda.training.loop.settings import TrainingSettings
from npda.training.tasks.align import AlignOptions, train_alignment
from npda.training.tasks.speech import SpeechModel, train_speech
from npda.translator import Translator

TRIPLETS = {
    "the door is open": {"de": "die Tür ist offen", "fr": "la porte est ouverte"},
    "we close the window": {"de": "wir schließen das Fenster", "fr": "nous fermons la fenêtre"},
    "where is the kitchen": {"de": "wo ist die Küche", "fr": "où est la cuisine"},
    "the floor is cold": {"de": "der Boden ist kalt", "fr": "le sol est froid"},
}
SETTINGS = TrainingSettings(
    batch_frames=400, batches_per_update=1, learning_rate=2e-3, warmup=20, schedule="constant", spec_augment=None,
    ctc_weight=0.3, max_updates=160, evaluate_every=40, patience=None, average=1,
)  # fmt: skip


@pytest.fixture(scope="module")
def speech(tmp_path_factory) -> dict[str, list[Utterance]]:
    """A chord of its own for every sentence, the same for both languages."""
    directory = tmp_path_factory.mktemp("speech")
    made: dict[str, list[Utterance]] = {"de": [], "fr": []}
    for number, (source, targets) in enumerate(TRIPLETS.items()):
        time = np.arange(400 + 160 * (79 + 7 * number)) / audio.SAMPLE_RATE
        tones = [np.sin(2 * np.pi * pitch * (1 + number) * time) for pitch in (220.0, 570.0)]
        path = directory / f"{number}.wav"
        soundfile.write(path, 0.2 * np.sum(tones, axis=0), audio.SAMPLE_RATE)
        for language, target in targets.items():
            frames = audio.frame_count(len(time))
            made[language].append(
                Utterance(f"{language}-{number}", str(path), frames, target, source, "", "en", language)
            )
    return made


@pytest.fixture(scope="module")
def manifests(speech, tmp_path_factory) -> dict[str, Path]:
    directory = tmp_path_factory.mktemp("manifests")
    for language, utterances in speech.items():
        write_manifest(directory / f"{language}.tsv", utterances)
    return {language: directory / f"{language}.tsv" for language in speech}


@pytest.fixture(scope="module")
def model(manifests, tmp_path_factory) -> Path:
    """Trained and aligned on both languages at once."""
    directory = tmp_path_factory.mktemp("model")
    both = list(manifests.values())
    size = SpeechModel("st", "mini", source_size=40, target_size=60)
    train_speech(both, both, directory / "base", size, SETTINGS, progress=False)
    settings = replace(SETTINGS, batch_frames=120, ctc_weight=0.0, max_updates=60)
    train_alignment(
        directory / "base", both, both, directory / "aligned", settings, AlignOptions(layers=1), progress=False
    )
    return directory / "aligned"


@pytest.fixture(scope="module")
def translator(model) -> Translator:
    return all_ears(model)


def all_ears(model: Path) -> Translator:
    """Chords are no speech, and yet they are to be translated."""
    translator = Translator.from_pretrained(model)
    translator.ear = None
    return translator


def references(language: str) -> list[str]:
    return [targets[language] for targets in TRIPLETS.values()]


@pytest.fixture(scope="module")
def french_store(translator, tmp_path_factory) -> Datastore:
    pairs = [Pair(source, targets["fr"]) for source, targets in TRIPLETS.items()]
    path = tmp_path_factory.mktemp("stores") / "fr"
    options = BuildOptions(language="fr", progress=False)
    return Datastore.build(translator, pairs, path, "french", options)


@pytest.mark.parametrize("language", ["de", "fr"])
def test_the_tag_decides_the_language(language, translator, speech):
    assert translator.backbone.target.languages == ("de", "fr")
    heard = [utterance.audio for utterance in speech[language]]
    texts = [translation.text for translation in translator.translate_all(heard, language=language)]
    assert texts == references(language)
    assert score("bleu", texts, references(language)).value == pytest.approx(100)


def test_a_language_must_be_chosen_among_the_known(translator, speech):
    for wrong in (None, "es", "xx"):
        with pytest.raises(InputError, match="de, fr"):
            translator.translate(speech["de"][0].audio, language=wrong)


def test_both_languages_are_aligned(model, speech):
    """Text comes as near to speech in one language as in the other, nearer than a text encoder without training."""
    backbone = load_speech2text(model)
    near = {language: similarity(backbone, utterances).squared_distance for language, utterances in speech.items()}
    assert backbone.text_encoder is not None
    torch.manual_seed(0)
    for parameter in backbone.text_encoder.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    far = {language: similarity(backbone, utterances).squared_distance for language, utterances in speech.items()}
    assert all(near[language] < 0.5 * far[language] for language in near)


def test_a_dev_set_of_both_languages_keeps_them_apart(translator, speech):
    devset = DevSet(translator.backbone, [*speech["de"], *speech["fr"]], "speech")
    tags = {
        batch.prompt: {devset.examples[place].sentence.tgt_lang for place in batch.places} for batch in devset.batches
    }
    assert tags == {tuple(translator.backbone.prompt(language)): {language} for language in ("de", "fr")}


def test_a_store_of_one_language_is_refused_for_the_other(translator, french_store, speech):
    assert french_store.info.languages == ("fr",)
    heard = speech["fr"][0].audio
    found = translator.translate(heard, language="French", datastore=french_store, k=4, lambda_=0.5, temperature=10)
    assert found.text == references("fr")[0]
    with pytest.raises(InputError, match="holds translations into fr, none into de"):
        translator.translate(heard, language="de", datastore=french_store)


def test_a_store_may_hold_both(translator, speech, tmp_path):
    """Read from the sentences themselves; each language finds its own translations."""
    source = Source("both", [*speech["de"], *speech["fr"]], "speech")
    store = Datastore.build_from(translator, source, tmp_path / "both", BuildOptions(progress=False))
    assert store.info.languages == ("de", "fr")
    for language in ("de", "fr"):
        for utterance in speech[language]:
            options = dict(k=4, lambda_=0.9, temperature=1.0)
            found = translator.translate(utterance.audio, language=language, datastore=store, **options)
            assert found.text == utterance.tgt_text
    more = store.append(
        translator, Source("more", [Pair("the door", "die Tür", tgt_lang="de")]), BuildOptions(progress=False)
    )
    assert more.info.languages == ("de", "fr")
    assert more.remove("both").info.languages == ("de",)


def test_a_store_from_before_languages_were_named_is_not_refused(french_store):
    """Its digest, by which tuned settings are found, is that of the same store with languages."""
    info = french_store.info
    (source,) = info.sources
    unnamed = SourceInfo(**{**source.model_dump(), "languages": ()})
    older = info.model_copy(update={"sources": (unnamed,)})
    assert older.languages == ()
    assert older.digest() == info.digest()


def test_the_commands_with_two_languages(model, manifests, tmp_path, monkeypatch):
    """build, tune, translate and evaluate, each told or finding the language."""
    monkeypatch.setattr("npda.translator.best_detector", None)  # what is spoken here is noise
    run = CliRunner()
    pairs = tmp_path / "fr.tsv"
    rows = [f"{source}\t{targets['fr']}" for source, targets in list(TRIPLETS.items())[1:]]
    pairs.write_text("\n".join(["src_text\ttgt_text", *rows]) + "\n", encoding="utf-8")
    store = tmp_path / "store"
    build = ["build", "--model", str(model), "--text", str(pairs), "--out", str(store), "--json"]
    done = run.invoke(app, build)
    assert isinstance(done.exception, InputError)
    assert "choose a language" in str(done.exception)
    assert run.invoke(app, [*build, "--language", "fr"]).exit_code == 0
    assert json.loads((store / "datastore.json").read_text())["sources"][0]["languages"] == ["fr"]

    tune = ["tune", "--model", str(model), "--store", str(store), "--decodes", "1", "--beam", "2", "--json"]
    refused = run.invoke(app, [*tune, "--speech", str(manifests["de"])])
    assert "none into de" in str(refused.exception)
    tuned = run.invoke(app, [*tune, "--speech", str(manifests["fr"])])
    assert tuned.exit_code == 0, tuned.output

    out = tmp_path / "out.txt"
    translate = ["translate", str(manifests["fr"]), "--model", str(model), "--store", str(store), "-o", str(out)]
    assert "none into de" in str(run.invoke(app, [*translate, "--language", "de"]).exception)
    assert run.invoke(app, [*translate, "--language", "fr"]).exit_code == 0
    scored = run.invoke(app, ["evaluate", str(out), str(manifests["fr"]), "--json"])
    assert json.loads(scored.stdout)["scores"][0]["value"] == pytest.approx(100)


def test_adapters_of_a_language_are_trained_on_top(model, manifests, speech, tmp_path):
    """Fresh French sentences for the same sounds: French changes, German stays as it was."""
    changed = [replace(u, tgt_text=text) for u, text in zip(speech["fr"], references("fr")[::-1], strict=True)]
    write_manifest(tmp_path / "changed.tsv", changed)
    manifest = [tmp_path / "changed.tsv"]
    settings = replace(SETTINGS, ctc_weight=0.0, learning_rate=5e-3, max_updates=100)
    tuned = SpeechModel(start=model, tunes="adapters", adapter_width=32)
    train_speech(manifest, manifest, tmp_path / "out", tuned, settings, progress=False)
    translator = all_ears(tmp_path / "out")
    heard = [utterance.audio for utterance in speech["fr"]]
    assert [t.text for t in translator.translate_all(heard, language="fr") if t] == references("fr")[::-1]
    assert [t.text for t in translator.translate_all(heard, language="de") if t] == references("de")
