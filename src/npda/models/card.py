"""The card of a model directory, README.md: what the model does, what it learnt from, how large it is, how to use it.

Nothing in it names a folder of this machine, so that equal models have equal cards wherever they lie.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from npda.io import card
from npda.models.hub import model_directory, pinned_name

Kind = Literal["translator", "aligned", "recogniser", "text translator", "language model"]

# title, and what the model does
_DOES: Mapping[Kind, tuple[str, str]] = {
    "translator": ("A speech translator", "This model translates speech."),
    "aligned": (
        "A speech translator that can read",
        "This model translates speech. It can read text, too, so that npda can adapt it to a domain with the domain's "
        "text alone.",
    ),
    "recogniser": ("A speech recogniser", "This model writes down what is said."),
    "text translator": ("A text translator", "This model translates text: with a recogniser before it, speech."),
    "language model": ("A language model", "This model helps a speech translator by shallow fusion."),
}
_TAGS: Mapping[Kind, tuple[str, ...]] = {
    "translator": ("speech-translation",),
    "aligned": ("speech-translation", "domain-adaptation", "knn-mt"),
    "recogniser": ("speech-recognition",),
    "text translator": ("translation",),
    "language model": ("language-model",),
}
_HEARS = "npda translate talk.wav --model ."
_COMMANDS: Mapping[Kind, Sequence[str]] = {
    "translator": (_HEARS,),
    "aligned": (
        _HEARS,
        "npda build --model . --text domain.tsv --out ../store",
        "npda translate talk.wav --model . --store ../store",
    ),
    "recogniser": (_HEARS,),
}
_PYTHON: Mapping[Kind, str] = {
    "text translator": 'from npda.cascade import Cascade\n\ncascade = Cascade.from_pretrained("RECOGNISER", ".")',
    "language model": "from npda import Translator\nfrom npda.models.language_model import LanguageModel\n\n"
    'translator = Translator.from_pretrained("TRANSLATOR")\n'
    'language_model = LanguageModel.from_pretrained(".", translator.backbone.target)',
}


@dataclass(frozen=True)
class About:
    """What a training knows of its model.

    data: names of the files that it learnt from; base: the model that it began as; languages: spoken and written;
    licence: of the data, if it was told
    """

    kind: Kind
    data: tuple[str, ...]
    base: str | Path | None = None
    languages: tuple[str, ...] = ()
    licence: str = ""


def names(files: Sequence[str | Path]) -> tuple[str, ...]:
    """What files are called, wherever they lie."""
    return tuple(Path(file).name for file in files)


def write_model_card(
    directory: Path,
    about: About,
    settings: Mapping[str, Any] | None = None,
    examples: int | None = None,
    dev: Mapping[str, float] | None = None,
) -> None:
    """Write the card of a model that lies in a directory already; what is not known is left out.

    settings: of its training; examples: that it learnt from; dev: what it reaches on the dev data
    """
    base = model_directory(about.base) if about.base is not None else None
    inherited = card.told_licence(base / card.FILE) if base is not None else ""
    hub = pinned_name(base) if base is not None and pinned_name(base) != str(base) else ""
    front = {
        "library_name": "npda",
        **card.licences((about.licence, inherited)),
        **({"language": list(about.languages)} if about.languages else {}),
        **({"base_model": hub.partition("@")[0]} if hub else {}),
        "tags": list(_TAGS[about.kind]),
    }
    learnt = (f"{examples:,} examples of " if examples else "") + ", ".join(map(_cell, about.data))
    facts = [
        *([("learnt from", learnt)] if about.data else []),
        ("licence of the data", _cell(about.licence) if about.licence else "not told"),
        *([("began as", _cell(hub or base.resolve().name))] if base is not None else []),
        *([("licence of that model", _cell(inherited))] if inherited else []),
        ("size", _size(directory)),
        *((f"dev: {name}", f"{value:.4g}") for name, value in (dev or {}).items()),
    ]
    title, does = _DOES[about.kind]
    body = [
        f"# {title}",
        does,
        card.table(("", ""), facts),
        *(["## Settings of the training", card.table(("", ""), _cells(settings))] if settings else []),
        "## How to use it",
        "In this folder, with npda:",
        _use(about.kind),
    ]
    card.write_card(directory / card.FILE, front, "\n\n".join(body))


def _cell(value: object) -> str:
    return card.code(str(value), in_table=True)


def _cells(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(name, _cell(value)) for name, value in settings.items()]


def _use(kind: Kind) -> str:
    if kind in _PYTHON:
        return f"```python\n{_PYTHON[kind]}\n```"
    return "\n".join(["```bash", *_COMMANDS[kind], "```"])


def _size(directory: Path) -> str:
    """Numbers and bytes of all weights, of which the headers alone are read."""
    from safetensors import safe_open

    numbers = size = 0
    for path in sorted(directory.rglob("*.safetensors")):
        size += path.stat().st_size
        with safe_open(path, "pt") as weights:
            numbers += sum(math.prod(weights.get_slice(name).get_shape()) for name in weights.keys())  # noqa: SIM118
    return f"{numbers / 1e6:.1f} million parameters, {card.bytes_text(size)}"
