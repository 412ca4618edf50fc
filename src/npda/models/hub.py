"""Where a model lies: a directory, or a name on the Hugging Face hub."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from npda.io.errors import InputError
from npda.io.records import read_json

if TYPE_CHECKING:
    from torch import Tensor

_NAME = re.compile(r"([\w-][\w.-]*/[\w-][\w.-]*)(?:@([\w-][\w.-]*))?")  # owner/model, owner/model@revision
_SNAPSHOT = re.compile(r"models--(.+?)--(.+)")  # a folder of the hub's cache
_COMMIT = re.compile(r"[0-9a-f]{40}")
WEIGHTS = "model.safetensors"  # where there is one file; else those that an index names
_FILES = ("*.json", "*.safetensors", "*.txt", "*.model", "README.md")  # no pickled weights, no code


def model_directory(model: str | Path) -> Path:
    """The directory of a model; one that has only a name on the hub is fetched once and kept in the hub's cache.

    Only safetensors, configurations, vocabularies and the card are fetched: no pickled weights, no code.
    """
    directory, found = Path(model), _NAME.fullmatch(str(model))
    if directory.exists() or found is None:
        return directory
    name, revision = found.groups()
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (
        HfHubHTTPError,
        HFValidationError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    try:
        return Path(snapshot_download(name, revision=revision, allow_patterns=list(_FILES)))
    except (RepositoryNotFoundError, RevisionNotFoundError, HFValidationError) as error:
        raise InputError(
            f"There is neither a directory {model} nor a public model of this name on the Hugging Face hub."
        ) from error
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        raise InputError(
            f"There is no directory {name}, and the Hugging Face hub cannot be reached: where there is a network, "
            f"run `hf download {name} --local-dir DIR`, then give that directory instead of the name."
        ) from error


def pinned_name(directory: Path) -> str:
    """What to write down of a model: its path, or for one of the hub the name with the commit that was fetched."""
    owner = _SNAPSHOT.fullmatch(directory.parent.parent.name)
    if directory.parent.name == "snapshots" and owner is not None and _COMMIT.fullmatch(directory.name):
        return f"{owner[1]}/{owner[2]}@{directory.name}"
    return str(directory)


def weight_names(directory: Path) -> set[str]:
    """What the weights of a model directory are called, without reading them."""
    from safetensors import safe_open

    single = directory / WEIGHTS
    with _readable(directory):
        if not single.is_file():
            return set(_weight_map(directory))
        with safe_open(single, "pt") as weights:
            return set(weights.keys())


def load_weights(directory: Path) -> dict[str, Tensor]:
    """The weights of a model directory by name, from one file or from several."""
    from npda.models.weights import read_weights

    with _readable(directory):
        single = directory / WEIGHTS
        files = [single] if single.is_file() else [directory / name for name in set(_weight_map(directory).values())]
    return {name: weight for path in files for name, weight in read_weights(path).items()}


def _weight_map(directory: Path) -> dict[str, str]:
    """Name of a weight → its file, which lies in the same directory."""
    found = dict(read_json(directory / f"{WEIGHTS}.index.json")["weight_map"])
    for name in found.values():
        if Path(name).name != name:
            raise ValueError(f"{name!r} is not a file in the directory")
    return found


@contextmanager
def _readable(directory: Path) -> Iterator[None]:
    """One sentence for weights that cannot be read."""
    from safetensors import SafetensorError

    try:
        yield
    except (OSError, ValueError, KeyError, TypeError, AttributeError, SafetensorError) as error:
        reason = " ".join(str(error).split())
        raise InputError(
            f"{directory}: the weights cannot be read ({reason}); fetch or save the model again."
        ) from error
