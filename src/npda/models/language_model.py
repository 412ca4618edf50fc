"""A language model of the target side, for shallow fusion: the transformer of the text path, looking back only.

Its directory holds config.json, model.safetensors and the vocabulary, which is the target vocabulary of a translator.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from npda.io.errors import InputError
from npda.io.files import atomic_write
from npda.models.backbone import Tokens
from npda.models.config import read_config
from npda.models.layers.decoder import output_scores, target_prompt
from npda.models.layers.stream import with_room
from npda.models.text_encoder import TextEncoder, TextEncoderSize, positions
from npda.models.weights import load_into, read_weights
from npda.text import Vocabulary

MODEL_TYPE = "npda-language-model"
MAX_TARGET = 1_024  # longest text it is trained on, as for the translators

# ``paper``: six layers with FFN 1024, which is what its 6.8M parameters with 8,000 pieces imply.
PRESETS: dict[str, dict[str, int]] = {
    "mini": dict(dim=128, layers=2, heads=4, ffn=256),
    "paper": dict(dim=256, layers=6, heads=4, ffn=1024),
}


class LanguageModel(nn.Module):
    """p(token | the tokens before it); the output layer is the embedding."""

    max_target = MAX_TARGET

    def __init__(self, size: TextEncoderSize, target: Vocabulary) -> None:
        super().__init__()
        self.size = size
        self.target = target
        self.transformer = TextEncoder(size, target.pad)

    @classmethod
    def create(cls, preset: str, target: Vocabulary, **changes: Any) -> LanguageModel:
        """A model with random weights. changes: fields of TextEncoderSize that differ from the preset"""
        return cls(TextEncoderSize(len(target), **{**PRESETS[preset], **changes}), target).eval()

    @classmethod
    def from_pretrained(cls, directory: str | Path, target: Tokens | None = None) -> LanguageModel:
        """target: the vocabulary of the translator it is to advise; another one is refused"""
        directory = Path(directory)
        config = read_config(directory)
        if config.pop("model_type", None) != MODEL_TYPE:
            raise InputError(f"{directory} is not a language model: make one with `npda train-text --task lm`.")
        digest = config.pop("vocabulary_digest", None)
        vocabulary = Vocabulary.load(directory)
        if digest != vocabulary.digest():
            raise InputError(f"{directory}: the vocabulary is not the one the language model was trained with.")
        try:
            model = cls(TextEncoderSize(**config), vocabulary)
            load_into(model, read_weights(directory / "model.safetensors"), directory)
        except (OSError, ValueError, TypeError, RuntimeError) as error:
            reason = " ".join(str(error).split())
            raise InputError(f"{directory}: the language model cannot be loaded: {reason}") from error
        if target is not None:
            model.check(target)
        return model.eval()

    def save_pretrained(self, directory: str | Path) -> None:
        directory = Path(directory)
        self.target.save(directory)
        with atomic_write(directory / "model.safetensors") as temporary:
            save_file(self.state_dict(), temporary)
        config = {"model_type": MODEL_TYPE, **asdict(self.size), "vocabulary_digest": self.target.digest()}
        with atomic_write(directory / "config.json") as temporary:
            temporary.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")

    def check(self, target: Tokens) -> None:
        """Refuse to advise a translator whose tokens mean something else."""
        if target.digest() != self.target.digest():
            raise InputError(
                "The language model has another vocabulary than the translator: "
                "train one with `npda train-text --task lm --vocabulary TRANSLATOR`."
            )

    def prompt(self, language: str | None = None) -> list[int]:
        """As the translator's, so that it can be asked about the same prefixes."""
        return target_prompt(self.target, language)

    def states(self, tokens: Tensor) -> Tensor:
        """tokens: [batch, length], prompt first, right-padded → [batch, length, dim]; state t predicts token t + 1"""
        x = nn.functional.dropout(self.embed(tokens, 0), self.size.dropout, self.training)
        length = tokens.shape[1]
        ahead = torch.ones(length, length, dtype=torch.bool, device=tokens.device).triu(1)
        return self.transformer.layers(x, mask=ahead, is_causal=True)

    def logits(self, states: Tensor, only: Tensor | None = None) -> Tensor:
        """states: [..., dim] → [..., vocabulary], or the columns of the tokens ``only``"""
        return output_scores(states, self.transformer.embedding.weight, only)

    def embed(self, tokens: Tensor, position: int) -> Tensor:
        """tokens: [batch, length], the first of which stands at ``position`` → [batch, length, dim]"""
        embedded = self.transformer.embedding(tokens) * math.sqrt(self.size.dim)
        return embedded + positions(position, tokens.shape[1], self.size.dim).to(embedded)

    def start(self, rows: int) -> LanguageStream:
        """Begin to follow so many texts, token by token."""
        return LanguageStream(self, rows)


class LanguageStream:
    """Keys and values of the texts followed so far: [layers, 2, rows, heads, capacity, d]."""

    def __init__(self, model: LanguageModel, rows: int) -> None:
        self._model = model
        self._layers = model.transformer.ready()
        self._length = 0
        size = model.size
        weight = model.transformer.embedding.weight
        self._cache = weight.new_empty(size.layers, 2, rows, size.heads, 0, size.dim // size.heads)

    def step(self, tokens: Tensor) -> Tensor:
        """Feed tokens [rows, n], n > 1 only in the beginning; return the state after the last of them, [rows, dim]."""
        start, self._length = self._length, self._length + tokens.shape[1]
        self._cache = with_room(self._cache, 4, self._length)
        x = self._model.embed(tokens, start)
        for layer, cache in zip(self._layers, self._cache, strict=True):
            x = layer.feed_forward(layer.attend_self(x, cache, start))
        norm = self._model.transformer.layers.norm
        assert norm is not None
        return norm(x[:, -1])

    def select(self, rows: Tensor) -> None:
        """Row i continues what row ``rows[i]`` was so far; there may be more or fewer rows than before."""
        self._cache = self._cache.index_select(2, rows)

    def join(self, other: LanguageStream) -> None:
        """Take up the rows of another stream that is as long, after the own ones."""
        filled = slice(self._length)
        self._cache = torch.cat([self._cache[:, :, :, :, filled], other._cache[:, :, :, :, filled]], dim=2)
