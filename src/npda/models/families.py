"""The families of models that can be opened: npda's own, and those that other packages bring.

A family is named by the ``model_type`` of its config.json and is a class with
``from_pretrained(directory, source_language)``. Another package registers its own under the entry point group
``npda.backbones``, see docs/extending.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Protocol

from npda.io.errors import InputError
from npda.models.backbone import Backbone

GROUP = "npda.backbones"

# model_type → its class, which is imported when a model of it is opened
OWN: Mapping[str, str] = {
    "speech_to_text": "npda.models.speech2text:Speech2Text",
    "npda-text2text": "npda.models.text2text:Text2Text",
    "whisper": "npda.models.whisper:Whisper",
    "seamless_m4t_v2": "npda.models.seamless:Seamless",
    "speech-encoder-decoder": "npda.models.speech_encoder_decoder:SpeechEncoderDecoder",
}


class Family(Protocol):
    """What is registered: a class of backbones, or anything else that opens them."""

    def from_pretrained(self, directory: Path, source_language: str | None = None) -> Backbone:
        """Open a model directory; ValueError or InputError where it cannot be.

        source_language: spoken or read, for families that have to be told; by default what the directory says
        """
        ...


def family(model_type: str, directory: Path) -> Family:
    """The family of a model_type. directory: of the model, for the sentence that says that there is none"""
    if model_type in OWN:
        return EntryPoint(model_type, OWN[model_type], GROUP).load()
    registered = entry_points(group=GROUP)
    found = list(registered.select(name=model_type))
    if not found:
        known = ", ".join([*OWN, *sorted(registered.names)])
        raise InputError(
            f"{directory}: models of type {model_type!r} cannot be opened; the model_type of its config.json should be "
            f"one of {known}, or a package for this type has to be installed."
        )
    if len(found) > 1:
        packages = " and ".join(sorted(point.dist.name if point.dist else point.value for point in found))
        raise InputError(f"Models of type {model_type!r} are opened by {packages}: uninstall all but one of them.")
    try:
        return found[0].load()
    except (ImportError, AttributeError) as error:
        value = found[0].value
        raise InputError(f"{value}, which opens models of type {model_type!r}, cannot be imported: {error}") from error
