"""The demonstration's model: the one that comes with the package, or one trained on the spot and brought into its form.

That form is a model directory with 16-bit weights, and ``model.json``, which tells how it was made.
"""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from npda import __version__
from npda.corpus.mini import Mini
from npda.corpus.mini.grammar import sentences
from npda.corpus.mini.speech import PITCHES, RATES, VOICES
from npda.io.digests import short_digest
from npda.io.errors import InputError
from npda.io.files import atomic_directory
from npda.io.records import as_json
from npda.models import load_speech2text
from npda.models.card import About, write_model_card
from npda.training.loop.settings import ALIGN_MINI, TrainingSettings
from npda.training.tasks.align import AlignOptions, train_alignment
from npda.training.tasks.speech import SpeechModel, defaults, train_speech

SHIPPED = Path(__file__).parents[1] / "pretrained" / "mini-en-de"
LANGUAGE = "de"
FILE = "model.json"
WEIGHTS = ("model.safetensors", "text_encoder/model.safetensors")
ALIGNMENT = replace(ALIGN_MINI, max_epochs=16)


@dataclass(frozen=True)
class ModelRecipe:
    """How the model is trained; by default as ``npda train --preset mini`` does, then aligned for longer than usual.

    layers, dropout, subword_alpha: see ``AlignOptions``; the text encoder is far from learning its sentences by heart,
    so that more epochs and less dropout bring parliament nearer too, and subword sampling does not
    """

    model: SpeechModel = defaults("mini")[0]
    training: TrainingSettings = defaults("mini")[1]
    alignment: TrainingSettings = ALIGNMENT
    layers: int | None = None
    dropout: float | None = 0.05
    subword_alpha: float | None = None


class Provenance(BaseModel):
    """All of ``model.json``.

    seed: of the corpus; corpus: digest of what it was trained on; weights: of the training run, in 32 bits;
    base, alignment: the settings of the two trainings
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = 1
    language: str
    seed: int
    corpus: str
    weights: tuple[str, ...]
    base: dict[str, Any]
    alignment: dict[str, Any]
    npda: str


@dataclass(frozen=True)
class DemoModel:
    """A model directory and how it was made."""

    directory: Path
    made: Provenance

    def digest(self) -> str:
        """Changes with the weights."""
        return hashlib.sha256("".join(_digests(self.directory)).encode()).hexdigest()[:16]


def corpus_digest(language: str, seed: int) -> str:
    """Of the sentences and voices a model is trained on: everyday talk alone, parliament is free to change."""
    digest = hashlib.sha256(repr((VOICES, RATES, PITCHES)).encode())
    for split in ("train", "dev"):
        for pair in sentences("general", split, language, seed):
            digest.update(f"{pair.src_text}\t{pair.tgt_text}\n".encode())
    return digest.hexdigest()[:16]


def open_model(directory: Path) -> DemoModel:
    """Open a model in the form of the shipped one; refuse it if the corpus has changed since it was trained."""
    path = directory / FILE
    if not path.is_file():
        raise InputError(f"There is no trained model in {directory}: train one with `npda demo --from-scratch`.")
    try:
        made = Provenance.model_validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "it"
        raise InputError(f"{path}: {place}: {first['msg']}; restore the file, or use --from-scratch.") from None
    if made.corpus != corpus_digest(made.language, made.seed):
        raise InputError(
            f"The model in {directory} was trained on another version of the embedded corpus (npda {made.npda}) and "
            "does not know its sentences: train one that does with `npda demo --from-scratch`."
        )
    return DemoModel(directory, made)


def copy_model(model: DemoModel, directory: Path) -> DemoModel:
    """The same model in a directory that may be written to; what is there of another model goes."""
    if model.directory.resolve() == directory.resolve():
        return model
    try:
        there = open_model(directory)
        if there.made == model.made and there.digest() == model.digest():
            return there
    except (InputError, OSError):
        pass
    shutil.rmtree(directory, ignore_errors=True)
    with atomic_directory(directory) as temporary:
        shutil.copytree(model.directory, temporary, dirs_exist_ok=True)
    return DemoModel(directory, model.made)


def train_model(corpus: Mini, seed: int, out: Path, recipe: ModelRecipe, progress: bool = True) -> DemoModel:
    """Train base model and text encoder in ``out`` (or find them there), and bring them into the form that is shipped.

    The outcome, ``out/model``, is what belongs into the package's ``pretrained`` folder.
    """
    base, aligned = out / "base", out / "aligned"
    train, dev = ([corpus.manifest("general", split)] for split in ("train", "dev"))
    train_speech(train, dev, base, recipe.model, recipe.training, progress=progress)
    text_encoder = {"layers": recipe.layers, "dropout": recipe.dropout, "subword_alpha": recipe.subword_alpha}
    train_alignment(base, train, dev, aligned, recipe.alignment, AlignOptions(**text_encoder), progress=progress)
    made = Provenance(
        language=LANGUAGE,
        seed=seed,
        corpus=corpus_digest(LANGUAGE, seed),
        weights=_digests(aligned),
        base=as_json({**recipe.model.description(), **asdict(recipe.training)}),
        alignment=as_json({**text_encoder, **asdict(recipe.alignment)}),
        npda=__version__,
    )
    return export(aligned, out / "model", made)


def export(aligned: Path, out: Path, made: Provenance) -> DemoModel:
    """Write an aligned model with 16-bit weights; once it is written, it stays until it is made otherwise."""
    if out.exists():
        try:
            if open_model(out).made == made:
                return DemoModel(out, made)
        except InputError:
            pass
        shutil.rmtree(out)
    with atomic_directory(out) as temporary:
        load_speech2text(aligned).half().save_pretrained(temporary)
        (temporary / FILE).write_text(made.model_dump_json(indent=2) + "\n", encoding="utf-8")
        write_card(temporary)
        for path in temporary.rglob("*.safetensors"):
            path.chmod(0o644)  # written for their owner alone, and yet for everybody in a package
    return DemoModel(out, made)


def write_card(directory: Path) -> None:
    """The card of a model in this form."""
    data = ("general/train.tsv of the embedded corpus, made by npda",)
    write_model_card(directory, About("aligned", data, languages=("de", "en"), licence="apache-2.0"))


def _digests(directory: Path) -> tuple[str, ...]:
    return tuple(short_digest(directory / name) for name in WEIGHTS)
