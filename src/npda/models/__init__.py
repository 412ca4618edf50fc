"""Translators of speech and of text behind one protocol, and the way to open them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from npda.io.errors import InputError
from npda.models.config import read_config
from npda.models.hub import model_directory

if TYPE_CHECKING:
    import torch

    from npda.models.devices import Precision
    from npda.models.seamless import Seamless
    from npda.models.speech2text import Speech2Text
    from npda.models.speech_encoder_decoder import SpeechEncoderDecoder
    from npda.models.text2text import Text2Text
    from npda.models.whisper import Whisper

    AnyBackbone = Speech2Text | Text2Text | Whisper | Seamless | SpeechEncoderDecoder
    Trainable = Speech2Text | Whisper  # what `npda train` goes on with


def _speech2text(directory: Path, source_language: str | None) -> Speech2Text:
    from npda.models.speech2text import Speech2Text

    return Speech2Text.from_pretrained(directory)


def _text2text(directory: Path, source_language: str | None) -> Text2Text:
    from npda.models.text2text import Text2Text

    return Text2Text.from_pretrained(directory)


def _whisper(directory: Path, source_language: str | None) -> Whisper:
    from npda.models.whisper import Whisper

    return Whisper.from_pretrained(directory, source_language)


def _seamless(directory: Path, source_language: str | None) -> Seamless:
    from npda.models.seamless import Seamless

    return Seamless.from_pretrained(directory, source_language)


def _speech_encoder_decoder(directory: Path, source_language: str | None) -> SpeechEncoderDecoder:
    from npda.models.speech_encoder_decoder import SpeechEncoderDecoder

    return SpeechEncoderDecoder.from_pretrained(directory)


# model_type of a config.json → the loader, which imports its family only when it is asked for. A loader takes the
# directory and the language that is spoken or read, for families that have to be told.
_LOADERS: Mapping[str, Callable[[Path, str | None], AnyBackbone]] = {
    "speech_to_text": _speech2text,
    "npda-text2text": _text2text,
    "whisper": _whisper,
    "seamless_m4t_v2": _seamless,
    "speech-encoder-decoder": _speech_encoder_decoder,
}


def load_backbone(
    model: str | Path,
    source_language: str | None = None,
    device: str | torch.device = "cpu",
    precision: Precision = "auto",
) -> AnyBackbone:
    """Open a model by its directory or its name on the hub, whoever saved it: npda or ``save_pretrained``.

    source_language: spoken or read, for models of many languages; by default what the directory says
    device, precision: where it computes and with how many bits, see ``npda.models.devices``
    """
    from npda.models.devices import choose_device, choose_dtype, placed

    device = choose_device(device)
    dtype = choose_dtype(device, precision)
    directory = model_directory(model)
    model_type = str(read_config(directory).get("model_type"))
    if model_type not in _LOADERS:
        raise InputError(
            f"{directory}: models of type {model_type!r} cannot be opened; the model_type of its config.json should be "
            f"one of {', '.join(_LOADERS)}."
        )
    if not (directory / "model.safetensors").is_file() and not (directory / "model.safetensors.index.json").is_file():
        raise InputError(
            f"{directory}: there is no model.safetensors; save the model with save_pretrained() of transformers 5, "
            "pickled weights are not opened."
        )
    try:
        return placed(_LOADERS[model_type](directory, source_language), device, dtype)
    except (OSError, ValueError, TypeError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{directory}: the model cannot be loaded: {reason}") from error


def load_speech2text(directory: str | Path) -> Speech2Text:
    """Open a model that hears."""
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
