"""Everything that computes with a model runs on an accelerator as well, here on a pretend one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import said
import soundfile
import tiny
import tiny_seamless
import tiny_speech_encoder_decoder
import tiny_store
import tiny_text2text
import tiny_training
import tiny_whisper
import torch
from pretend_device import DEVICE, MixedDevices, PretendDevice
from safetensors.torch import load_file
from tiny_alignment import SETTINGS as ALIGN_SETTINGS
from tiny_whisper import waveform
from typer.testing import CliRunner

from npda.cascade import Cascade, TextTranslator
from npda.cli import app
from npda.corpus.manifest import write_manifest
from npda.datastore.source import BuildOptions
from npda.datastore.store import Datastore
from npda.decoding.beam import SearchOptions
from npda.decoding.fusion import Fusion
from npda.decoding.knn.adaptive import AdaptiveCombiner, AdaptiveOptions
from npda.decoding.knn.combiners import KnnOptions
from npda.decoding.knn.fast import FastFusion, FastRetriever
from npda.decoding.knn.following import FollowingFusion, FollowOptions
from npda.decoding.knn.fusion import KnnFusion
from npda.decoding.knn.skipping import LearnedGate, SkippingFusion, SureGate
from npda.decoding.shallow import ShallowFusion
from npda.evaluation.devset import DevSet
from npda.evaluation.similarity import similarity
from npda.evaluation.tuning.adaptive import tune_adaptive, tune_gate
from npda.evaluation.tuning.search import tune
from npda.evaluation.tuning.shallow import tune_shallow
from npda.explanation.explain import explain, hear
from npda.io.errors import InputError
from npda.models.devices import choose_device, choose_dtype, dtype_of
from npda.models.language_model import LanguageModel
from npda.models.layers.packing import Packing
from npda.training.tasks.align import AlignOptions, train_alignment
from npda.translator import Translator

KNN = KnnOptions(4, 0.5, 100.0)
SEARCH = SearchOptions(beam=3, max_length=12)
WAVES = [waveform(0.9, 1), waveform(0.5, 2)]


def _whisper() -> Any:
    model = tiny_whisper.backbone()
    torch.manual_seed(3)
    model.add_text_encoder(1)
    return model


def _speech_encoder_decoder() -> Any:
    model = tiny_speech_encoder_decoder.backbone()
    torch.manual_seed(3)
    model.add_text_encoder(1)
    return model


FAMILIES: dict[str, tuple[Callable[[], Any], str | None]] = {
    "speech2text": (tiny_store.backbone, None),
    "whisper": (_whisper, None),
    "seamless": (tiny_seamless.backbone, "de"),
    "speech_encoder_decoder": (_speech_encoder_decoder, "de"),
}


@pytest.fixture
def pretend() -> Iterator[torch.device]:
    with PretendDevice():
        yield DEVICE


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_builds_and_translates_alike(family: str, pretend: torch.device, tmp_path: Path) -> None:
    make, language = FAMILIES[family]
    model = make()
    moved = make().to(pretend)
    options = BuildOptions(language=language, progress=False)
    stores = [
        Datastore.build(each, tiny_store.pairs(8), tmp_path / name, options=options)
        for name, each in (("processor", model), ("accelerator", moved))
    ]
    keys = [np.concatenate([keys for _, keys in store.entries.blocks(100)]) for store in stores]
    np.testing.assert_allclose(*keys, rtol=1e-3, atol=1e-3)

    found = []
    for each in (model, moved):
        translator = Translator(each)
        fusion = translator.neighbours([stores[0]], KNN, language)
        for fusions in ([], [fusion]):
            found.append([(t.text, t.score) for t in translator.translate_all(WAVES, SEARCH, language, fusions) if t])
    for alone, there in zip(found[:2], found[2:], strict=True):
        assert [text for text, _ in alone] == [text for text, _ in there]
        assert [score for _, score in alone] == pytest.approx([score for _, score in there], abs=1e-4)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Datastore:
    path = tmp_path_factory.mktemp("devices") / "store"
    return Datastore.build(tiny_store.backbone(), tiny_store.pairs(30), path, options=BuildOptions(progress=False))


def _language_model() -> LanguageModel:
    torch.manual_seed(5)
    return LanguageModel.create("mini", tiny.vocabulary(), dim=32, heads=2, ffn=32)


def _adaptive() -> AdaptiveCombiner:
    torch.manual_seed(6)
    return AdaptiveCombiner(AdaptiveOptions(k=4, temperature=100.0, scale=50.0))


def _gate() -> LearnedGate:
    torch.manual_seed(7)
    return LearnedGate(32)


FUSIONS: dict[str, Callable[[Datastore], Fusion]] = {
    "adaptive": lambda store: KnnFusion(store, _adaptive()),
    "shallow": lambda store: ShallowFusion(_language_model(), 0.3),
    "skipping": lambda store: SkippingFusion(KnnFusion(store, KNN), _gate()),
    "sure": lambda store: SkippingFusion(KnnFusion(store, KNN), SureGate(0.5)),
    "following": lambda store: FollowingFusion(store, KNN, FollowOptions(threshold=20.0)),
    "fast": lambda store: FastFusion(FastRetriever(store), KNN),
}


@pytest.mark.parametrize("name", FUSIONS)
def test_every_fusion_steers_alike(name: str, store: Datastore, pretend: torch.device) -> None:
    def translations(model: Any) -> list[tuple[str, float]]:
        fusion = FUSIONS[name](store)
        return [(t.text, t.score) for t in Translator(model).translate_all(WAVES, SEARCH, None, [fusion]) if t]

    here, there = translations(tiny_store.backbone()), translations(tiny_store.backbone().to(pretend))
    assert [text for text, _ in here] == [text for text, _ in there]
    assert [score for _, score in here] == pytest.approx([score for _, score in there], abs=1e-4)


def test_tuning_chooses_alike(store: Datastore, pretend: torch.device) -> None:
    def tuned(model: Any) -> tuple[list[Any], list[float]]:
        pairs = tiny_store.pairs(6, seed=9)
        found = tune(model, store, pairs, "text", SEARCH, decodes=2, progress=False)
        devset = DevSet(model, pairs, "text")
        learned = tune_adaptive(devset, store, KNN, SEARCH)
        gate = tune_gate(devset, store, KNN, SEARCH)
        weight = tune_shallow(model, _language_model(), pairs, "text", SEARCH, weights=(0.1, 0.2), progress=False)
        figures = [p.log_likelihood for p in found.points] + [learned.loss, learned.bleu, gate.bleu]
        return [found.best, gate.share, weight.weight, weight.decoded], figures

    here, there = tuned(tiny_store.backbone()), tuned(tiny_store.backbone().to(pretend))
    assert there[0] == here[0]
    assert there[1] == pytest.approx(here[1], abs=1e-3)


@pytest.mark.parametrize("combiner", [KNN, _adaptive()], ids=["paper", "adaptive"])
def test_explanations_are_alike(combiner: Any, store: Datastore, pretend: torch.device, tmp_path: Path) -> None:
    soundfile.write(tmp_path / "speech.wav", WAVES[0], 16_000)

    def explained(model: Any) -> tuple[list[str], list[float]]:
        memory = hear(model, str(tmp_path / "speech.wav"))
        found = explain(model, memory, KnnFusion(store, combiner), SEARCH)
        return [token.piece for token in found.tokens], [token.p for token in found.tokens]

    here, there = explained(tiny_store.backbone()), explained(tiny_store.backbone().to(pretend))
    assert there[0] == here[0]
    assert there[1] == pytest.approx(here[1], abs=1e-4)


def test_a_search_is_repeated_with_all_the_padding(pretend: torch.device) -> None:
    """Whisper's limit of three tokens leaves every sentence without an end."""
    model = tiny_whisper.backbone().to(pretend)
    options = SearchOptions(beam=2, max_length=3)
    here = [t.text for t in Translator(tiny_whisper.backbone()).translate_all(WAVES, options) if t]
    assert [t.text for t in Translator(model).translate_all(WAVES, options) if t] == here


def test_paths_are_compared_alike(pretend: torch.device, tmp_path: Path) -> None:
    utterances = tiny_training.utterances(tmp_path, 3)
    here = similarity(tiny_store.backbone(), utterances)
    there = similarity(tiny_store.backbone().to(pretend), utterances)
    assert (there.cosine, there.squared_distance) == pytest.approx((here.cosine, here.squared_distance), rel=1e-3)


def test_a_cascade_translates_alike(pretend: torch.device) -> None:
    def texts(device: torch.device) -> list[str]:
        recogniser = Translator(tiny.backbone().to(device))
        cascade = Cascade(recogniser, TextTranslator(tiny_text2text.model().to(device)), SEARCH)
        return [f"{t.transcript} → {t.text}" for t in cascade.translate_all(WAVES, SEARCH) if t]

    assert texts(pretend) == texts(torch.device("cpu"))


def test_training_gives_the_same_weights(pretend: torch.device, tmp_path: Path) -> None:
    """CTC and label smoothing, two epochs with checkpoints, evaluations and an average."""
    for name, device in (("here", torch.device("cpu")), ("there", pretend)):
        tiny_training.run(tmp_path / "audio", tmp_path / name, dropout=0.0, device=device)
    _same_weights(tmp_path / "here", tmp_path / "there")


@pytest.mark.parametrize("family", ["speech2text", "whisper"])
def test_alignment_gives_the_same_weights(family: str, pretend: torch.device, tmp_path: Path) -> None:
    """The teacher's states, and the text encoder that learns from them."""
    model = tiny.backbone(init_std=0.05) if family == "speech2text" else tiny_whisper.backbone()
    model.save_pretrained(tmp_path / "model")
    write_manifest(tmp_path / "dev.tsv", tiny_training.utterances(tmp_path, 4))
    options = AlignOptions(variant="full", layers=1, dropout=0.0)
    for name, device in (("here", torch.device("cpu")), ("there", pretend)):
        train_alignment(
            tmp_path / "model", [tmp_path / "dev.tsv"], [tmp_path / "dev.tsv"], tmp_path / name, ALIGN_SETTINGS,
            options, progress=False, device=device,
        )  # fmt: skip
    _same_weights(tmp_path / "here" / "text_encoder", tmp_path / "there" / "text_encoder")


def _same_weights(here: Path, there: Path) -> None:
    expected, found = (load_file(folder / "model.safetensors") for folder in (here, there))
    assert expected.keys() == found.keys()
    for name, weights in expected.items():
        if name.endswith("in_proj_bias"):  # a soft-max does not see the bias of keys: its gradient is rounding alone
            weights.chunk(3)[1].copy_(found[name].chunk(3)[1])
        np.testing.assert_allclose(found[name].numpy(), weights.numpy(), rtol=1e-3, atol=1e-4, err_msg=name)


@pytest.mark.parametrize("place", ["npda.models.inputs", "npda.decoding.knn.adaptive"])
def test_a_forgotten_move_fails(
    place: str, store: Datastore, pretend: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tests above would not notice it otherwise."""
    if place.endswith("inputs"):
        monkeypatch.setattr(f"{place}.device_of", lambda _: torch.device("cpu"))
    else:
        monkeypatch.setattr(f"{place}.follow", lambda *_: None)
    translator = Translator(tiny_store.backbone().to(pretend))
    with pytest.raises(MixedDevices):
        list(translator.translate_all(WAVES, SEARCH, None, [KnnFusion(store, _adaptive())]))


def test_the_pretend_device_refuses_what_a_gpu_refuses(pretend: torch.device) -> None:
    there = torch.arange(6.0, device=pretend).view(2, 3)
    assert (there * torch.tensor(2.0)).device == pretend
    for mixed in (
        lambda: there + torch.ones(2, 3),
        lambda: torch.cat([there, torch.ones(1, 3)]),
        lambda: there.index_select(0, torch.tensor([1])),
        lambda: torch.nn.Linear(3, 3)(there),
        lambda: there.numpy(),
        lambda: np.asarray(there),
    ):
        with pytest.raises(MixedDevices):
            mixed()
    np.testing.assert_array_equal(there.cpu().numpy(), np.arange(6.0).reshape(2, 3))


def test_packed_weights_are_for_the_processor(pretend: torch.device) -> None:
    layer = torch.nn.Linear(256, 300).requires_grad_(False)
    x = torch.randn(4, 256)
    expected = layer(x)
    for int8 in (False, True):
        found = Packing(int8)(layer.to(pretend))(x.to(pretend))
        np.testing.assert_allclose(found.cpu().numpy(), expected.numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_computes_in_bfloat16(family: str, pretend: torch.device, tmp_path: Path) -> None:
    """Close to float32, and steered by a store that was built in float32."""
    make, language = FAMILIES[family]
    store = Datastore.build(
        make(), tiny_store.pairs(4), tmp_path / "store", options=BuildOptions(language=language, progress=False)
    )
    rounded = Translator(make())
    rounded.backbone.place(pretend, torch.bfloat16)
    assert {p.dtype for p in cast(torch.nn.Module, rounded.backbone).parameters()} == {torch.bfloat16}
    fusion = rounded.neighbours([store], KNN, language)
    greedy = SearchOptions(beam=1, max_length=1)
    expected = [t.score for t in Translator(make()).translate_all(WAVES, greedy, language) if t]
    assert [t.score for t in rounded.translate_all(WAVES, greedy, language) if t] == pytest.approx(expected, abs=0.3)
    assert all(rounded.translate_all(WAVES, SEARCH, language, [fusion]))
    again = BuildOptions(language=language, progress=False)
    built = Datastore.build(rounded.backbone, tiny_store.pairs(4), tmp_path / "rounded", options=again)
    assert built.info.backbone == store.info.backbone
    keys, exact = (np.concatenate([keys for _, keys in each.entries.blocks(100)]) for each in (built, store))
    assert np.abs(keys.astype(np.float32) - exact).mean() < 0.05 * np.abs(exact).mean()


def test_rounded_weights_of_another_model_are_refused(store: Datastore) -> None:
    other = tiny_store.backbone(seed=1)
    other.place(torch.device("cpu"), torch.bfloat16)
    with pytest.raises(InputError, match="another model"):
        store.check(other)


def test_models_are_opened_on_a_device(store: Datastore, pretend: torch.device, tmp_path: Path) -> None:
    tiny_store.backbone().save_pretrained(tmp_path)
    speech = said.speech(14_000)
    translator = Translator.from_pretrained(tmp_path, device=pretend, precision="float32")
    here = Translator.from_pretrained(tmp_path, device="cpu").translate(speech, SEARCH, datastore=store)
    assert translator.translate(speech, SEARCH, datastore=store).text == here.text
    assert dtype_of(Translator.from_pretrained(tmp_path, device=pretend).backbone) == torch.float16
    with pytest.raises(InputError, match="Eight bits are for the processor"):
        Translator.from_pretrained(tmp_path, device=pretend, int8=True)


def test_the_environment_names_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPDA_DEVICE", "cuda:99")
    with pytest.raises(InputError, match="no device 'cuda:99'"):
        choose_device()
    assert choose_device("cpu") == torch.device("cpu")


VERBS = ["translate", "explain", "tune", "build", "align", "train", "train-text", "adapt", "demo", "reproduce"]


@pytest.mark.parametrize("verb", VERBS)
def test_verbs_refuse_a_device_that_is_not_there(verb: str) -> None:
    result = CliRunner().invoke(app, [verb, "--device", "cuda:99"])
    assert isinstance(result.exception, InputError)
    assert str(result.exception).startswith("There is no device 'cuda:99'")
    assert "NPDA_DEVICE" not in os.environ


def test_devices_by_name() -> None:
    assert choose_device("cpu") == torch.device("cpu")
    assert choose_device("auto").type == "cpu" or torch.accelerator.is_available()
    assert choose_device(DEVICE) == DEVICE
    with pytest.raises(InputError, match="no kind of device called 'gpu'"):
        choose_device("gpu")
    missing = f"cuda:{torch.cuda.device_count()}"
    with pytest.raises(InputError, match=f"no device '{missing}'"):
        choose_device(missing)


def test_precision_by_name() -> None:
    assert choose_dtype(torch.device("cpu")) == torch.float32
    assert choose_dtype(torch.device("mps")) == torch.float16
    assert choose_dtype(DEVICE, "bfloat16") == torch.bfloat16
    with pytest.raises(InputError, match="must be one of auto, float32"):
        choose_dtype(DEVICE, "int4")  # pyright: ignore[reportArgumentType]
