"""Weights from files: all that a model needs, nothing else, and numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from npda.io.errors import InputError

_REMEDY = "fetch or save the model again"
# Positions that are computed, and a vector of training: checkpoints may have them, or not.
_OPTIONAL = re.compile(r"(^|\.)(embed_positions\.weights?|masked_spec_embed|position_ids)$")


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file by name; InputError if it is damaged or holds NaN."""
    try:
        weights = load_file(path)
    except Exception as error:  # the reader is written in another language and has errors of several kinds
        raise InputError(f"{path} cannot be read ({_line(error)}); {_REMEDY}.") from error
    check_numbers(weights, path)
    return weights


def load_into(module: nn.Module, weights: Mapping[str, Tensor], path: Path) -> None:
    """Give a module the weights of a file, which are exactly its own."""
    check_names(module.state_dict(), weights, path)
    module.load_state_dict(dict(weights))


def check_names(wanted: Mapping[str, Tensor], weights: Mapping[str, Tensor], path: Path) -> None:
    """Refuse weights that are not those of a model by name and shape."""
    _refuse(
        path,
        [name for name in wanted if name not in weights],
        [name for name in weights if name not in wanted],
        [name for name in wanted if name in weights and weights[name].shape != wanted[name].shape],
    )


def open_pretrained(family: Any, directory: Path, *arguments: Any) -> Any:
    """A model of transformers with weights that are all there and fit; no code of the directory's own is run."""
    model, found = family.from_pretrained(
        directory,
        *arguments,
        local_files_only=True,
        use_safetensors=True,
        trust_remote_code=False,
        dtype=torch.float32,
        output_loading_info=True,
        ignore_mismatched_sizes=True,  # which are found below, and refused in a sentence
    )
    mismatched = [key if isinstance(key, str) else key[0] for key in found["mismatched_keys"]]
    missing = set(found["missing_keys"]) - set(mismatched)
    _refuse(directory, sorted(missing), sorted(found["unexpected_keys"]), sorted(mismatched))
    return model


def open_part(kind: Any, directory: Path) -> Any:
    """A tokenizer or feature extractor of transformers; no code of the directory's own is run."""
    return kind.from_pretrained(directory, local_files_only=True, trust_remote_code=False)


def check_numbers(weights: Mapping[str, Tensor], path: Path) -> None:
    """Refuse NaN and infinity, with which a model writes nonsense."""
    for name, tensor in weights.items():
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise InputError(f"{path}: the weights {name} hold NaN or infinity; {_REMEDY}.")


def _refuse(path: Path, missing: list[str], unexpected: list[str], misshaped: list[str]) -> None:
    """One sentence about the first kind of fault there is."""
    kinds = {
        "missing": [name for name in missing if not _OPTIONAL.search(name)],
        "of another size than config.json says": misshaped,
        "not of this model": [name for name in unexpected if not _OPTIONAL.search(name)],
    }
    for kind, names in kinds.items():
        if names:
            are = "is" if len(names) == 1 else "are"
            raise InputError(
                f"{path}: {len(names)} of the weights {are} {kind}, for instance {names[0][:100]!r}; {_REMEDY}."
            )


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
