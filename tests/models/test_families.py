"""Families of models: how others bring theirs, and what all of them have."""

import hashlib
import json
from pathlib import Path

import pytest
import said
import tiny
import tiny_seamless
import tiny_speech_encoder_decoder
import tiny_store
import tiny_text2text
import tiny_whisper
import torch
from torch import nn

from npda import Datastore, Translator
from npda.io.errors import InputError
from npda.models import load_backbone
from npda.models.backbone import Backbone, LearnsToRead, Packed
from npda.models.families import GROUP, OWN, family
from npda.models.torch_backbone import TorchBackbone

ALL: list[Backbone] = [  # the type is checked: each has all that the protocol asks for
    tiny_store.backbone(),
    tiny_text2text.model(),
    tiny_whisper.backbone(),
    tiny_seamless.backbone(),
    tiny_speech_encoder_decoder.backbone(),
]

LOUD = """
from npda.models.speech2text import Speech2Text

class Loud(Speech2Text):
    def features(self, waveform):
        return super().features(2 * waveform)
"""


def name_of(backbone: object) -> str:
    return type(backbone).__name__


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Install packages that bring families: (package, model_type, value)."""

    def make(*packages: tuple[str, str, str]) -> None:
        site = tmp_path / "site"
        site.mkdir()
        for package, model_type, value in packages:
            metadata = site / f"{package}-1.0.dist-info"
            metadata.mkdir(parents=True)
            (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
            (metadata / "entry_points.txt").write_text(f"[{GROUP}]\n{model_type} = {value}\n")
        (site / "loud_family.py").write_text(LOUD)
        monkeypatch.syspath_prepend(site)

    return make


def save(model: Backbone, directory: Path, model_type: str) -> Path:
    model.save_pretrained(directory)
    config = json.loads((directory / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps({**config, "model_type": model_type}))
    return directory


def test_every_family_of_our_own_has_its_class():
    assert {name_of(model) for model in ALL} == {value.rpartition(":")[2] for value in OWN.values()}
    assert {family(model_type, Path()) for model_type in OWN} == {type(model) for model in ALL}


@pytest.mark.parametrize("model", ALL, ids=name_of)
def test_what_a_family_may_have_besides(model: Backbone):
    assert isinstance(model, Packed)
    assert isinstance(model, LearnsToRead) == (name_of(model) in ("Speech2Text", "Whisper", "SpeechEncoderDecoder"))
    assert model.reads == (name_of(model) in ("Speech2Text", "Text2Text", "Seamless"))
    assert model.source_language == {"Whisper": "de", "Seamless": "eng"}.get(name_of(model))


def test_a_model_learns_to_read():
    for model in ALL[2], ALL[4]:
        assert isinstance(model, LearnsToRead)
        assert not model.reads
        model.add_text_encoder()
        assert model.reads
        model.text_encoder = None


def test_another_package_brings_a_family(install, tmp_path):
    install(("loud-package", "loud", "loud_family:Loud"))
    directory = save(tiny_store.backbone(), tmp_path / "model", "loud")
    translator = Translator.from_pretrained(directory)
    assert name_of(translator.backbone) == "Loud"
    wave = said.speech(16_000)
    plain = load_backbone(save(tiny_store.backbone(), tmp_path / "plain", "speech_to_text"))
    assert (translator.backbone.features(wave) == plain.features(2 * wave)).all()
    store = Datastore.build(translator, tiny_store.pairs(4), tmp_path / "store")
    assert translator.translate(wave, datastore=store, lambda_=1.0).text


@pytest.mark.parametrize(
    ("packages", "says"),
    [
        ([], "models of type 'loud' cannot be opened.*speech_to_text.*has to be installed"),
        ([("a-package", "other", "x:Y")], "one of .*whisper.* other, or"),
        ([("a-package", "loud", "loud_family:Quiet")], "loud_family:Quiet, which opens models of type 'loud'"),
        ([("a-package", "loud", "nowhere:Loud")], "nowhere:Loud.*cannot be imported"),
        ([("a-package", "loud", "loud_family:Loud"), ("b-package", "loud", "x:Y")], "by a-package and b-package"),
    ],
)
def test_a_family_that_cannot_be_found_gets_one_sentence(install, tmp_path, packages, says):
    install(*packages)
    directory = save(tiny.backbone(), tmp_path / "model", "loud")
    with pytest.raises(InputError, match=says):
        load_backbone(directory)


@pytest.mark.parametrize("model", ALL, ids=name_of)
def test_a_decoder_is_told_by_its_weights_and_by_nothing_else(model: Backbone):
    assert isinstance(model, nn.Module)
    weights = {n: w for n, w in model.state_dict().items() if {"decoder", "text_decoder"} & set(n.split("."))}
    expected = hashlib.sha256()
    for name in sorted(weights):
        numbers = weights[name].numpy()
        expected.update(f"{name} torch.{numbers.dtype} {list(numbers.shape)}\n".encode() + numbers.tobytes())
    assert model.decoder_digest() == expected.hexdigest()
    before, whole = model.decoder_digest(), model.model_digest()
    tied = {weight.data_ptr() for weight in weights.values()}
    inside, outside = (
        next(p for p in model.parameters() if (p.data_ptr() in tied) == wanted) for wanted in (True, False)
    )
    for parameter, stays in ((outside, True), (inside, False)):
        with torch.no_grad():
            parameter.add_(1)
        assert (model.decoder_digest() == before) is stays
        assert model.model_digest() != whole
        with torch.no_grad():
            parameter.sub_(1)


def test_a_backbone_without_a_decoder_is_not_told_by_nothing(tmp_path):
    class Renamed(TorchBackbone):
        def __init__(self):
            super().__init__()
            self.generator = nn.Linear(2, 2)

    with pytest.raises(NotImplementedError, match=r"Renamed has no submodule called decoder.*override decoder_weights"):
        Renamed().decoder_digest()

    class Told(Renamed):
        def decoder_weights(self):
            return self.generator.state_dict()

    one, other = Told(), Told()
    assert one.decoder_digest() != other.decoder_digest()

    class Nothing(Renamed):
        def decoder_weights(self):
            return {}

    with pytest.raises(ValueError, match="no weights to tell a model by"):
        Nothing().decoder_digest()
