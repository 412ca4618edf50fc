"""Where a model lies: a directory, or a name on the Hugging Face hub."""

from __future__ import annotations

import json
import re
from pathlib import Path

from npda.io.errors import InputError

_NAME = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")  # owner/model
_FILES = ("*.json", "*.safetensors", "*.txt", "*.model")  # no pickled weights, no code


def model_directory(model: str | Path) -> Path:
    """The directory of a model; one that has only a name on the hub is fetched once and kept in the hub's cache."""
    directory, name = Path(model), str(model)
    if directory.exists() or not _NAME.fullmatch(name):
        return directory
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (
        HfHubHTTPError,
        HFValidationError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
    )

    try:
        return Path(snapshot_download(name, allow_patterns=list(_FILES)))
    except (RepositoryNotFoundError, HFValidationError) as error:
        raise InputError(
            f"There is neither a directory {name} nor a public model of this name on the Hugging Face hub."
        ) from error
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        raise InputError(
            f"There is no directory {name}, and the Hugging Face hub cannot be reached: where there is a network, "
            f"run `hf download {name} --local-dir DIR`, then give that directory instead of the name."
        ) from error


def weight_names(directory: Path) -> set[str]:
    """What the weights of a model directory are called, without reading them."""
    from safetensors import SafetensorError, safe_open

    index, single = directory / "model.safetensors.index.json", directory / "model.safetensors"
    try:
        if not single.is_file():
            return set(json.loads(index.read_text(encoding="utf-8"))["weight_map"])
        with safe_open(single, "pt") as weights:
            return set(weights.keys())
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        reason = " ".join(str(error).split())
        raise InputError(
            f"{directory}: the weights cannot be read ({reason}); fetch or save the model again."
        ) from error
