"""Train a speech translator or recogniser from manifests: vocabularies, normalisation, weights, model directory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import torch

from npda import audio
from npda.audio import Normalizer, SpecAugment
from npda.corpus.manifest import Utterance, read_manifest, within
from npda.io.digests import short_digest
from npda.io.errors import InputError
from npda.io.files import atomic_directory
from npda.io.progress import SHORT, stage
from npda.models import is_public, load_speech2text, load_trainable
from npda.models.backbone import Tokens
from npda.models.card import About, names
from npda.models.layers.adapters import ANY
from npda.models.layers.feature_selection import FeatureSelection
from npda.models.speech2text import ADAPTERS_DIRECTORY, PRESETS, SELECTION_DIRECTORY, SOURCE_DIRECTORY, Speech2Text
from npda.text import Vocabulary
from npda.training.data.features import FeatureStore
from npda.training.data.speech import SpeechData, Task, fingerprint, spoken_and_written, text_of
from npda.training.loop.processes import running
from npda.training.loop.run import Run
from npda.training.loop.settings import FINE_TUNE, MINI, TrainingSettings
from npda.training.loop.train import TrainingSummary, train
from npda.training.objectives.feature_selection import SelectiveSpeechToText
from npda.training.objectives.translation import SpeechToText
from npda.training.tasks import fine_tuning
from npda.training.tasks.tuned_parameters import TUNES, Tunes, freeze, reaches_encoder

if TYPE_CHECKING:
    from npda.models import Trainable

_CMVN_UTTERANCES = 20_000  # at most so many tell the mean and variance of the features

Normalization = Literal["global", "utterance"]

_PUBLIC = ("source_language", "silence", "transcript_weight")  # choices for public models that are trained further
# What a description tells only where it differs from the default: runs from before there was a choice go on.
_CHOICES = ("dropout", "normalization", "tunes", "adapter_width", "l0_weight", "feature_gates", *_PUBLIC)

SPEC_AUGMENT = {"lb": SpecAugment.lb, "ld": SpecAugment.ld, "sm": SpecAugment.sm, "ss": SpecAugment.ss}


@dataclass(frozen=True)
class SpeechModel:
    """Which model to train, and what it starts from; the defaults are the paper's."""

    task: Task = "st"  # translate the speech, or write it down
    preset: str = "paper-bilingual"  # sizes of the model, see npda.models.speech2text.PRESETS
    source_size: int = 5_000  # pieces of the transcripts' vocabulary
    target_size: int = 8_000  # pieces of the translations' vocabulary
    dropout: float | None = None  # of all layers, by default the preset's
    normalization: Normalization = "global"  # features by the mean and variance of all, or of each utterance
    languages: tuple[str, ...] = ()  # target languages with a tag each; found in the data if there are several
    vocabulary: Path | None = None  # take the vocabularies of this directory instead of training them
    encoder: Path | None = None  # take encoder, gates and normalisation of this model, for instance a recogniser
    start: Path | None = None  # train this model further: its sizes, vocabularies and normalisation
    tunes: Tunes = "all"  # what is trained; the rest of the model is frozen
    adapter_width: int = 64  # bottleneck of the adapters, for tunes="adapters"
    l0_weight: float = 0.0  # above 0, gates learn to drop frames: the weight of the share that is open
    feature_gates: bool = False  # gates for the feature dimensions too
    source_language: str | None = None  # spoken, for a public model of many languages
    silence: float | None = None  # seconds such a model hears after an utterance, by default as before
    transcript_weight: float = 0.0  # of writing down what is said beside the translation, for such a model

    def __post_init__(self) -> None:
        if self.tunes not in TUNES:
            raise InputError(f"tunes must be one of {', '.join(TUNES)}, not {self.tunes!r}.")
        trained = self.start or (self.encoder if self.tunes == "decoder" else None)
        if self.tunes != "all" and trained is None:
            raise InputError(f"Only a trained model can be tuned in parts ({self.tunes}): say which one to start from.")
        if self.adapter_width < 1 or self.l0_weight < 0:
            raise InputError("adapter_width must be above 0, l0_weight must not be negative.")
        if self.feature_gates and self.l0_weight == 0:
            raise InputError("Gates for features are trained by their penalty: give l0_weight, for instance 0.5.")
        if self.preset not in PRESETS:
            raise InputError(f"There is no preset {self.preset!r}; choose one of {', '.join(PRESETS)}.")
        if self.dropout is not None and not 0 <= self.dropout < 1:
            raise InputError(f"dropout must lie in [0, 1), not {self.dropout}.")
        if self.normalization not in get_args(Normalization):
            raise InputError(f"normalization must be global or utterance, not {self.normalization!r}.")
        if self.start is not None and (self.vocabulary is not None or self.encoder is not None):
            raise InputError("A model that is trained further keeps its own vocabulary and encoder.")
        if self.transcript_weight < 0 or (self.silence is not None and self.silence < 0):
            raise InputError("transcript_weight and silence must not be negative.")
        for name in _PUBLIC:
            if self.start is None and getattr(self, name) != getattr(SpeechModel, name):
                raise InputError(f"{name} is for a public model that is trained further: say which one to start from.")

    def description(self) -> dict[str, Any]:
        """What distinguishes this model from others; directories are identified by their contents."""
        described = asdict(self)
        for name in _CHOICES:
            if described[name] == getattr(SpeechModel, name):
                del described[name]
        if self.vocabulary is not None:
            described["vocabulary"] = short_digest(Path(self.vocabulary) / "sentencepiece.bpe.model")
        for name in ("encoder", "start"):
            if described[name] is not None:
                described[name] = weights_digest(Path(described[name]))
        return described


def defaults(preset: str, start: Path | None = None) -> tuple[SpeechModel, TrainingSettings]:
    """The model of a preset and the settings to train it with; of a public model that is trained further, its own."""
    if start is not None and is_public(start):
        return SpeechModel(start=start, silence=0.5, transcript_weight=0.5), FINE_TUNE
    if preset == "mini":
        return SpeechModel(preset=preset, source_size=250, target_size=400), MINI
    if preset == "paper-multilingual":
        return SpeechModel(preset=preset, source_size=10_000, target_size=10_000), TrainingSettings()
    return SpeechModel(preset=preset), TrainingSettings()


def train_speech(
    train_manifests: Sequence[str | Path],
    dev_manifests: Sequence[str | Path],
    out: str | Path,
    model: SpeechModel = SpeechModel(),
    settings: TrainingSettings = TrainingSettings(),
    on_evaluate: Callable[[Trainable, int], Mapping[str, float]] | None = None,
    progress: bool = True,
    device: str | torch.device = "auto",
    licence: str = "",
) -> TrainingSummary:
    """Train a model and write it to ``out``; a run that was interrupted there goes on.

    on_evaluate: called with the model and the update at every evaluation, gives more figures for the log
    device: see ``npda.models.devices``
    licence: of the data, for the model's card
    """
    utterances = _read(train_manifests)
    dev_utterances = _read(dev_manifests)
    described = {"train": fingerprint(utterances), "dev": fingerprint(dev_utterances)}
    processes = running()
    progress = progress and processes.is_main_process
    kind = "recogniser" if model.task == "asr" else "translator"
    about = About(kind, names(train_manifests), model.start, spoken_and_written(utterances), licence)
    run = Run(out, settings, {**model.description(), **described}, about)
    torch.manual_seed(settings.seed)
    # Before anything is written: options that do not suit the model are refused here.
    start = _go_on(model, model.start) if model.start is not None else None
    source: Tokens | None = None
    if start is not None and not isinstance(start, Speech2Text):
        source = fine_tuning.prepare(start, model, settings, utterances)
    with run:
        kept, _ = within(utterances, settings.max_frames)
        if start is not None:
            backbone = start
            features = FeatureStore(kept, backbone.features, progress=progress)
        else:
            filterbanks = FeatureStore(kept, audio.fbank, progress=progress)
            if processes.is_main_process and not run.start.is_dir():
                with stage("training vocabularies", progress, SHORT):
                    _prepare(run.start, kept, filterbanks, model)
            processes.wait_for_everyone()
            backbone = _create(run.start, model)
            features = filterbanks.then(backbone.normalizer)
        if isinstance(backbone, Speech2Text):
            _tell_languages(backbone, model.task, utterances)
            source = _choose_parameters(backbone, model, settings, utterances)
        data = SpeechData(utterances, backbone, model.task, source, settings.max_frames, features)
        dev = SpeechData(dev_utterances, backbone, model.task, source, settings.max_frames, progress=progress)
        augment = SPEC_AUGMENT[settings.spec_augment]() if settings.spec_augment is not None else None
        if isinstance(backbone, Speech2Text):
            objective = _objective(backbone, model, settings, augment, source)
        else:
            objective = fine_tuning.objective(backbone, model, settings, augment)
        hook = (lambda update: on_evaluate(backbone, update)) if on_evaluate is not None else None
        return train(objective, data, dev, settings, run, backbone.save_pretrained, hook, progress, device=device)


def _read(manifests: Sequence[str | Path]) -> list[Utterance]:
    return [utterance for manifest in manifests for utterance in read_manifest(manifest)]


def _prepare(start: Path, utterances: list[Utterance], filterbanks: FeatureStore, model: SpeechModel) -> None:
    """Write what the training data tell before the first update: vocabularies and normalisation."""
    target, source = _vocabularies(utterances, model)
    if model.encoder is not None:
        normalizer = Normalizer.load(model.encoder)
    elif model.normalization == "utterance":
        normalizer = Normalizer()
    else:
        step = -(-len(utterances) // _CMVN_UTTERANCES)
        normalizer = Normalizer.fit(filterbanks[u] for u in utterances[:: max(step, 1)])
    with atomic_directory(start) as temporary:
        target.save(temporary)
        normalizer.save(temporary)
        if source is not None:
            source.save(temporary / SOURCE_DIRECTORY)


def _vocabularies(utterances: list[Utterance], model: SpeechModel) -> tuple[Vocabulary, Vocabulary | None]:
    """Target and source; a recogniser's target is its source. No source without transcripts."""
    if model.vocabulary is not None:
        inner = Path(model.vocabulary) / SOURCE_DIRECTORY
        source = Vocabulary.load(inner) if inner.is_dir() else None
        if model.task == "asr":
            source = source or Vocabulary.load(model.vocabulary)
            return source, source
        return Vocabulary.load(model.vocabulary), source
    source = None
    if all(u.src_text.strip() for u in utterances):
        source = Vocabulary.train((u.src_text for u in utterances), model.source_size)
    if model.task == "asr":
        return source or Vocabulary.train((text_of(u, "asr") for u in utterances), model.source_size), source
    found = sorted({u.tgt_lang for u in utterances})
    languages = model.languages or (found if len(found) > 1 else ())
    return Vocabulary.train((u.tgt_text for u in utterances), model.target_size, languages), source


def _tell_languages(backbone: Speech2Text, task: Task, utterances: list[Utterance]) -> None:
    """A model of one language remembers it, so that requests for another are refused."""
    spoken, written = {u.src_lang for u in utterances}, {u.tgt_lang for u in utterances}
    sides = [(backbone.source, spoken), (backbone.target, written if task == "st" else spoken)]
    for vocabulary, languages in sides:
        if vocabulary is not None:
            vocabulary.language = next(iter(languages)) if len(languages) == 1 else ""


def _create(start: Path, model: SpeechModel) -> Speech2Text:
    """The model before the first update, random apart from an encoder that is taken over."""
    inner = start / SOURCE_DIRECTORY
    source = Vocabulary.load(inner) if inner.is_dir() else None
    changes = {} if model.dropout is None else {"dropout": model.dropout}
    backbone = Speech2Text.create(model.preset, Vocabulary.load(start), Normalizer.load(start), source, **changes)
    if model.encoder is not None:
        donor = load_speech2text(model.encoder)
        backbone.selection = donor.selection
        try:
            backbone.model.model.encoder.load_state_dict(donor.model.model.encoder.state_dict())
        except RuntimeError:
            raise InputError(
                f"The encoder of {model.encoder} has other sizes than the preset {model.preset!r}; "
                "choose the preset it was trained with."
            ) from None
    return backbone


def _go_on(model: SpeechModel, start: Path) -> Trainable:
    """The model that is trained further, as it is."""
    backbone = load_trainable(start, model.source_language)
    if isinstance(backbone, Speech2Text) and any(
        getattr(model, name) != getattr(SpeechModel, name) for name in _PUBLIC
    ):
        raise InputError(
            f"{', '.join(_PUBLIC)} are for public models of many languages, and {start} is a model of npda train: "
            "leave them out, its transcripts are learnt with ctc_weight."
        )
    return backbone


def _choose_parameters(
    backbone: Speech2Text, model: SpeechModel, settings: TrainingSettings, utterances: list[Utterance]
) -> Vocabulary | None:
    """Add what the model lacks, freeze what is not tuned. → the vocabulary of transcripts, if there is a CTC loss"""
    languages = sorted({u.tgt_lang for u in utterances}) if backbone.tags else [ANY]
    if model.tunes == "adapters":
        backbone.add_adapters(languages, model.adapter_width)
    if model.l0_weight > 0 and backbone.selection is None:
        backbone.selection = FeatureSelection(backbone.dim, model.feature_gates)
    freeze(backbone, model.tunes, languages, gates=model.l0_weight > 0)
    if settings.ctc_weight == 0 or not reaches_encoder(backbone):
        return None
    if backbone.source is None:
        raise InputError("The CTC loss needs src_text in all training data; add it or set ctc_weight to 0.")
    return backbone.source


def _objective(
    backbone: Speech2Text,
    model: SpeechModel,
    settings: TrainingSettings,
    augment: SpecAugment | None,
    source: Tokens | None,
) -> SpeechToText:
    """source: of the transcripts, if there is a CTC loss"""
    smoothing = settings.label_smoothing
    ctc = (settings.ctc_weight, len(source)) if source is not None else (0.0, None)
    if backbone.selection is None:
        return SpeechToText(backbone, smoothing, *ctc, augment)
    return SelectiveSpeechToText(backbone, model.l0_weight, smoothing, *ctc, augment)


def weights_digest(directory: Path) -> str:
    """Changes with any weight that speech passes through."""
    parts = [
        *directory.glob(f"{ADAPTERS_DIRECTORY}/*.safetensors"),
        *directory.glob(f"{SELECTION_DIRECTORY}/*.safetensors"),
    ]
    weights = sorted(directory.glob("model*.safetensors")) or [directory / "model.safetensors"]
    return "+".join(short_digest(file) for file in [*weights, *sorted(parts)])
