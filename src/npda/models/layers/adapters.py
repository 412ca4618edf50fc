"""Bottleneck adapters (Bapna & Firat 2019), one set for each target language (Le et al. 2021).

They stand after every layer of encoder and decoder, and lie in ``adapters/`` of a model directory: config.json with
their size, and a file of weights for each language.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from npda.io.errors import InputError
from npda.io.files import atomic_write
from npda.io.records import read_json
from npda.models.layers.stream import Adapt
from npda.models.weights import load_into, read_weights

ANY = "any"  # the only set of a model without language tags

_CONFIG = "config.json"
_NAME = re.compile(r"[A-Za-z0-9_-]+")  # a language names a file: no way out of the directory


@dataclass(frozen=True)
class AdapterSize:
    """width: of the bottleneck; dim, encoder_layers, decoder_layers: the model's"""

    width: int
    dim: int
    encoder_layers: int
    decoder_layers: int


class Adapter(nn.Module):
    """x + up(relu(down(norm(x)))); up starts at zero, so that a fresh adapter changes nothing."""

    def __init__(self, dim: int, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.down = nn.Linear(dim, width)
        self.up = nn.Linear(width, dim)
        nn.init.zeros_(self.up.weight)
        nn.init.zeros_(self.up.bias)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.up(torch.relu(self.down(self.norm(x))))


class Adapters(nn.Module):
    """The sets of a model, by language. tags: token id → language; empty where one set serves every target

    A language without a set is left to the model alone.
    """

    def __init__(self, size: AdapterSize, languages: Sequence[str], tags: Mapping[int, str]) -> None:
        super().__init__()
        self.size = size
        self.tags = dict(tags)
        self.sets = nn.ModuleDict()
        for language in languages:
            self.add(language)

    @property
    def languages(self) -> tuple[str, ...]:
        return tuple(self.sets)

    def add(self, language: str) -> None:
        """A fresh set, unless the language has one."""
        known = tuple(self.tags.values()) or (ANY,)
        if language not in known or not _NAME.fullmatch(language):
            raise InputError(f"There can be no adapters for {language!r}: the model has {', '.join(known)}.")
        if language not in self.sets:
            layers = {"encoder": self.size.encoder_layers, "decoder": self.size.decoder_layers}
            sides = {
                side: nn.ModuleList(Adapter(self.size.dim, self.size.width) for _ in range(count))
                for side, count in layers.items()
            }
            self.sets[language] = nn.ModuleDict(sides)

    def encoder(self, prompts: Tensor | None) -> Adapt:
        """For sentences whose targets begin with prompts [batch, ≥ 2]; they may be missing where there are no tags."""
        return self._chosen("encoder", prompts)

    def decoder(self, prompts: Tensor) -> Adapt:
        return self._chosen("decoder", prompts)

    def _chosen(self, side: str, prompts: Tensor | None) -> Adapt:
        if not self.tags:
            return _for_all(self._layers(ANY, side))
        if prompts is None:
            raise ValueError("the language tag decides on the adapters: give the prompts of the targets")
        chosen = []
        for tag, language in self.tags.items():
            rows = (prompts[:, 1] == tag).nonzero()[:, 0]
            if len(rows) and language in self.sets:
                layers = self._layers(language, side)
                if len(rows) == len(prompts):
                    return _for_all(layers)
                chosen.append((rows, layers))
        return _for_rows(chosen)

    def _layers(self, language: str, side: str) -> nn.ModuleList:
        return cast(Any, self.sets[language])[side]

    def save_pretrained(self, directory: str | Path) -> None:
        directory = Path(directory)
        for language, module in self.sets.items():
            with atomic_write(directory / f"{language}.safetensors") as temporary:
                save_file(module.state_dict(), temporary)
        config = {**asdict(self.size), "languages": self.languages}
        with atomic_write(directory / _CONFIG) as temporary:
            temporary.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")

    @classmethod
    def from_pretrained(cls, directory: str | Path, tags: Mapping[int, str]) -> Adapters:
        directory = Path(directory)
        try:
            config = read_json(directory / _CONFIG)
            languages = config.pop("languages")
            adapters = cls(AdapterSize(**config), languages, tags)
            for language, module in adapters.sets.items():
                path = directory / f"{language}.safetensors"
                load_into(module, read_weights(path), path)
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RuntimeError) as error:
            reason = " ".join(str(error).split())
            raise InputError(f"{directory}: the adapters cannot be loaded: {reason}") from error
        return adapters.eval()


def _for_all(layers: nn.ModuleList) -> Adapt:
    return lambda layer, x: layers[layer](x)


def _for_rows(chosen: Sequence[tuple[Tensor, nn.ModuleList]]) -> Adapt:
    """Each set on its own rows of a batch; rows of no set stay as they are."""

    def adapt(layer: int, x: Tensor) -> Tensor:
        for rows, layers in chosen:
            x = x.index_copy(0, rows, layers[layer](x.index_select(0, rows)))
        return x

    return adapt
