"""Translators of speech and of text behind one protocol, and the way to open them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from npda.io.errors import InputError
from npda.models.config import read_config
from npda.models.hub import WEIGHTS, model_directory

if TYPE_CHECKING:
    import torch

    from npda.models.backbone import Backbone
    from npda.models.devices import Precision
    from npda.models.speech2text import Speech2Text
    from npda.models.text2text import Text2Text
    from npda.models.whisper import Whisper

    Trainable = Speech2Text | Whisper  # what `npda train` goes on with


def load_backbone(
    model: str | Path,
    source_language: str | None = None,
    device: str | torch.device = "cpu",
    precision: Precision = "auto",
) -> Backbone:
    """Open a model by its directory or its name on the hub, whoever saved it: npda or ``save_pretrained``.

    source_language: spoken or read, for models of many languages; by default what the directory says
    device, precision: where it computes and with how many bits, see ``npda.models.devices``
    """
    from torch import nn

    from npda.models.devices import choose_device, choose_dtype
    from npda.models.families import OWN, family
    from npda.models.languages import check_spoken
    from npda.models.weights import check_numbers

    device = choose_device(device)
    dtype = choose_dtype(device, precision)
    directory = model_directory(model)
    model_type = str(read_config(directory).get("model_type"))
    opener = family(model_type, directory)
    if model_type in OWN and not any((directory / name).is_file() for name in (WEIGHTS, f"{WEIGHTS}.index.json")):
        raise InputError(
            f"{directory}: there is no {WEIGHTS}; save the model with save_pretrained() of transformers 5, "
            "pickled weights are not opened."
        )
    try:
        backbone = opener.from_pretrained(directory, source_language)
    except InputError:
        raise
    except Exception as error:  # a directory from elsewhere may hold anything
        reason = " ".join(str(error).split())[:500] or type(error).__name__
        raise InputError(f"{directory}: the model cannot be loaded: {reason}") from error
    if source_language is not None:
        check_spoken(backbone, source_language)
    if isinstance(backbone, nn.Module):
        check_numbers(backbone.state_dict(), directory)
    backbone.place(device, dtype)
    return backbone


def load_speech2text(directory: str | Path) -> Speech2Text:
    """Open a model of npda train."""
    from npda.models.speech2text import Speech2Text

    backbone = load_backbone(directory)
    if not isinstance(backbone, Speech2Text):
        kind = "translates text" if backbone.max_frames == 0 else f"is of the family {type(backbone).__name__}"
        raise InputError(f"{directory} {kind}; give the directory of a speech translator or recogniser of npda train.")
    return backbone


def load_trainable(directory: str | Path, source_language: str | None = None) -> Trainable:
    """Open a model that can be trained further. source_language: spoken, for models of many languages"""
    if is_public(directory):
        from npda.models.whisper import Whisper

        backbone = load_backbone(directory, source_language)
        if isinstance(backbone, Whisper):
            return backbone
        if backbone.max_frames > 0:
            raise InputError(
                f"{directory} is of the family {type(backbone).__name__}, which cannot be trained further yet; "
                "start from a Whisper model or from one of npda train."
            )
    return load_speech2text(directory)


def is_public(directory: str | Path) -> bool:
    """Whether it is of a family that others train, on far more than what one has oneself."""
    return read_config(Path(directory)).get("model_type") != "speech_to_text"


def load_text2text(directory: str | Path) -> Text2Text:
    """Open a model that translates text."""
    from npda.models.text2text import Text2Text

    backbone = load_backbone(directory)
    if not isinstance(backbone, Text2Text):
        raise InputError(f"{directory} translates speech; give the directory of a text translator.")
    return backbone
