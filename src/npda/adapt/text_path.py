"""A model that can read: it could already, or learns it now, or has learnt it for an earlier domain."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from npda.datastore.counter import FOLDER, STORE, CounterStore, build_counter, find_counter, general_text, is_current
from npda.datastore.fingerprint import decoder_fingerprint
from npda.datastore.source import BuildOptions
from npda.io.errors import InputError
from npda.io.files import cache_dir
from npda.io.progress import SHORT, stage
from npda.models import load_backbone
from npda.models.devices import choose_device, choose_dtype
from npda.models.hub import model_directory
from npda.training.loop.settings import TrainingSettings
from npda.training.tasks.align import AlignOptions, align_defaults, train_alignment

if TYPE_CHECKING:
    from npda.models.backbone import Backbone


@dataclass(frozen=True)
class TextPath:
    """How a model learns to read.

    triplets, dev: manifests of general speech with transcripts and translations; text: files of more text in the
    spoken language, for models that can write it down; directory: where the model with its
    text encoder is kept, or found (default: in the cache, by model and language); settings: those of `npda align`
    """

    triplets: tuple[Path, ...] = ()
    dev: tuple[Path, ...] = ()
    text: tuple[Path, ...] = ()
    directory: Path | None = None
    settings: TrainingSettings | None = None
    layers: int | None = None


@dataclass(frozen=True)
class Reader:
    """A model, ready. aligned: "no" need for it, "now", or "before"; seconds: that it took now"""

    backbone: Backbone
    directory: Path
    aligned: Literal["no", "now", "before"]
    seconds: float = 0.0


def with_text_path(
    model: str, how: TextPath, language: str | None, source_language: str | None, needed: bool, progress: bool
) -> Reader:
    """The model with its text path. needed: whether it must be able to read at all"""
    directory = model_directory(model)
    with stage(f"loading {model}", progress, SHORT):
        backbone = load_backbone(directory, source_language)
    if backbone.max_frames == 0:
        raise InputError(f"{model} translates text; give a speech translator.")
    if not needed or backbone.reads:
        device = choose_device()
        backbone.place(device, choose_dtype(device))
        return Reader(backbone, directory, "no")
    home = how.directory or aligned_home(directory, backbone, language, source_language)
    if (home / "config.json").is_file():
        return _found(home, backbone, model, source_language, "before")
    if not how.triplets or not how.dev:
        raise InputError(
            f"{model} cannot read text yet: give --triplets and --general-dev, manifests of general speech with "
            "transcripts and translations, to teach it once; or have the text read aloud with --speak espeak:en-us."
        )
    start = time.perf_counter()
    settings = how.settings or align_defaults(directory)
    options = AlignOptions(layers=how.layers, text=how.text)
    train_alignment(directory, how.triplets, how.dev, home, settings, options, source_language, progress=progress)
    build_counter_for(home, how.text, how.triplets, how.dev, source_language, "auto", progress)
    return _found(home, backbone, model, source_language, "now", round(time.perf_counter() - start, 1))


def build_counter_for(
    home: Path,
    text: Sequence[Path],
    triplets: Sequence[Path],
    dev: Sequence[Path],
    source_language: str | None,
    device: str,
    progress: bool,
    licence: str = "",
) -> CounterStore:
    """The counter-store of a model that has just learnt to read, beside its text path; or the one it made before.

    text, triplets: see ``general_text``; dev: manifests, whose sentences are kept to measure by; licence: of the text
    """
    backbone = load_backbone(home, source_language, device)
    if (home / FOLDER / STORE).is_dir():
        found = find_counter(backbone, home)
        assert found is not None
        if is_current(found, backbone):
            return found
        shutil.rmtree(found.path)  # of a text path that has changed since
    held_out = general_text((), dev)
    return build_counter(
        backbone, general_text(text, triplets), home / FOLDER, held_out, BuildOptions(progress=progress), licence
    )


def aligned_home(directory: Path, backbone: Backbone, language: str | None, source_language: str | None = None) -> Path:
    """Where the cache keeps the aligned form of a model: by its name, its weights and its languages."""
    languages = "-".join(part for part in (source_language, language) if part) or "any"
    return cache_dir() / "aligned" / f"{directory.resolve().name}-{backbone.model_digest()[:12]}-{languages}"


def _found(
    home: Path,
    base: Backbone,
    model: str,
    source_language: str | None,
    aligned: Literal["now", "before"],
    seconds: float = 0.0,
) -> Reader:
    backbone = load_backbone(home, source_language, "auto")
    if decoder_fingerprint(backbone) != decoder_fingerprint(base) or not backbone.reads:
        raise InputError(f"{home} is not {model} with a text encoder: choose another --aligned.")
    return Reader(backbone, home, aligned, seconds)
