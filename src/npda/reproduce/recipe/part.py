"""What the parts of a recipe have in common: exact types, known names, and faults told as a sentence with a place."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from npda.io.names import unknown


def fault(sentence: str) -> PydanticCustomError:
    return PydanticCustomError("recipe", "{sentence}", {"sentence": sentence})


class Part(BaseModel):
    """A part of a recipe: frozen, exact in its types, no unknown keys."""

    model_config = ConfigDict(frozen=True, strict=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            raise fault(f"must have keys ({', '.join(cls.model_fields)}), not {_short(data)}")
        for key in data:
            if key not in cls.model_fields:
                raise fault(unknown("key", str(key), cls.model_fields))
        return data


def _context(info: ValidationInfo) -> dict[str, Any]:
    """What is known where the recipe is loaded: its directory, and the names there are."""
    assert info.context is not None, "recipes are made by load_recipe"
    return info.context


# Where what cannot be part of a project lies, and where it is looked for unless the variable says so.
FOLDERS = {"NPDA_DATA": "data", "NPDA_MODELS": "models"}


def folder(variable: str) -> Path:
    """The folder that a variable of FOLDERS names, by default one in the current directory."""
    return Path(os.environ.get(variable) or FOLDERS[variable]).expanduser().absolute()


def _path(value: Any, info: ValidationInfo) -> Any:
    """A relative path starts from the recipe's directory; a first part $NPDA_DATA or $NPDA_MODELS is that folder."""
    if not isinstance(value, str) or not value:
        raise fault(f"must be a path, not {_short(value)}")
    first, *rest = Path(value).parts
    if not first.startswith("$"):
        return Path(_context(info)["directory"], Path(value).expanduser())
    if first[1:] not in FOLDERS:
        raise fault(unknown("variable", first, (f"${name}" for name in FOLDERS)))
    return folder(first[1:]).joinpath(*rest)


def _language(value: Any) -> Any:
    if not (isinstance(value, str) and value.isalpha() and value.islower() and 2 <= len(value) <= 3):
        raise fault(f"must be a language code such as de, not {_short(value)}")
    return value


def _name(value: Any) -> Any:
    """Names go into paths and into --set."""
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_+-]{0,59}", value):
        raise fault(f"a name holds letters, digits, «-», «_» and «+» only, unlike {_short(value)}")
    return value


def one_of(kind: str, names: Iterable[str]) -> BeforeValidator:
    def check(value: Any) -> Any:
        if value not in names:
            raise fault(unknown(kind, str(value), names))
        return value

    return BeforeValidator(check)


def listed(kind: str) -> BeforeValidator:
    """One of the names that were given for this kind where the recipe was loaded."""

    def check(value: Any, info: ValidationInfo) -> Any:
        names = _context(info)[kind]
        if value not in names:
            raise fault(unknown(kind, str(value), names))
        return value

    return BeforeValidator(check)


def once(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if names.count(name) > 1:
            raise fault(f"{name!r} stands there twice; remove one of them")
    return names


Location = Annotated[Path, BeforeValidator(_path)]
Language = Annotated[str, BeforeValidator(_language)]
Name = Annotated[str, BeforeValidator(_name)]
Count = Annotated[int, Field(gt=0)]
Seed = Annotated[int, Field(ge=0)]


# Where pydantic speaks of Python rather than of recipes.
_WANTED = {
    "too_short": "must have something in it",
    "tuple_type": "must be a list",
    "dict_type": "must have keys",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "string_type": "must be a word",
    "bool_type": "must be true or false",
}


def sentence_of(error: ErrorDetails, data: Any) -> str:
    """Where and what: «systems[2]: unknown system …»."""
    loc, told = list(error["loc"]), error["msg"]
    if error["type"] == "missing":
        key = loc.pop()
        told = f"the key {key!r} is missing"
        if key == "root":
            told += "; add it, or give the folder with --data NAME=DIR"
    elif error["type"] != "recipe":
        told = f"{_WANTED.get(error['type'], told.replace('Input should', 'must'))}, not {_short(error['input'])}"
    place = _place(loc, data)
    return f"{place}: {told}" if place else told


def _place(loc: Sequence[int | str], data: Any) -> str:
    """corpora.general.root, systems[2]; the kind of a corpus, by which pydantic tells them apart, is no place."""
    place = ""
    for part in loc:
        if part == "[key]":  # what is wrong is the key itself, which comes before
            continue
        if isinstance(data, dict) and part not in data and data.get("kind") == part:
            continue
        place += f"[{part}]" if isinstance(part, int) else f".{part}" if place else part
        try:
            data = data[part]
        except (LookupError, TypeError):
            data = None
    return place


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
