"""A translator of text: the text encoder and the decoder of the speech translators. The second half of a cascade."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.torch import save_file
from torch import Tensor

from npda.io.errors import InputError
from npda.io.files import atomic_write
from npda.models.backbone import Memory
from npda.models.config import read_config
from npda.models.layers.decoder import decoder_states, decoder_stream, output_scores, target_prompt
from npda.models.layers.packing import Packing
from npda.models.layers.stream import TransformerStream
from npda.models.speech2text import SOURCE_DIRECTORY
from npda.models.speech2text_network import Decoder, Speech2TextConfig
from npda.models.text_encoder import TextEncoder, TextEncoderSize
from npda.models.torch_backbone import TorchBackbone
from npda.models.weights import load_into, read_weights
from npda.text import Vocabulary

MODEL_TYPE = "npda-text2text"
MAX_SOURCE = 1_024  # tokens of a source

# ``cascade``: the paper's translator of transcripts; ``mini`` is as deep and wide as the mini speech translator.
PRESETS: dict[str, dict[str, int]] = {
    "mini": dict(dim=128, encoder_layers=3, decoder_layers=2, heads=4, ffn=256),
    "cascade": dict(dim=512, encoder_layers=6, decoder_layers=6, heads=4, ffn=1024),
}


@dataclass(frozen=True)
class Text2TextSize:
    """Encoder and decoder are equally wide; the output layer is the decoder's embedding."""

    dim: int
    encoder_layers: int
    decoder_layers: int
    heads: int
    ffn: int
    dropout: float = 0.1


class Text2Text(TorchBackbone):
    """A `Backbone` that reads and cannot hear."""

    reads = True
    max_frames = 0
    max_target = 1_024

    def __init__(self, size: Text2TextSize, source: Vocabulary, target: Vocabulary) -> None:
        super().__init__()
        self.size = size
        self.source = source
        self.target = target
        self.dim = size.dim
        self.packing = Packing()  # for everything but training
        self.text_encoder = TextEncoder(
            TextEncoderSize(len(source), size.dim, size.encoder_layers, size.heads, size.ffn, size.dropout), source.pad
        )
        self.decoder = Decoder(
            Speech2TextConfig(
                vocab_size=len(target), d_model=size.dim, decoder_layers=size.decoder_layers,
                decoder_attention_heads=size.heads, decoder_ffn_dim=size.ffn, dropout=size.dropout,
                max_target_positions=self.max_target,
            )
        )  # fmt: skip

    @classmethod
    def create(cls, preset: str, source: Vocabulary, target: Vocabulary, **changes: Any) -> Text2Text:
        """A model with random weights. changes: fields of Text2TextSize that differ from the preset"""
        return cls(Text2TextSize(**{**PRESETS[preset], **changes}), source, target).eval()

    @classmethod
    def from_pretrained(cls, directory: str | Path, source_language: str | None = None) -> Text2Text:
        """source_language: makes no difference, such a model knows one"""
        directory = Path(directory)
        source, target = Vocabulary.load(directory / SOURCE_DIRECTORY), Vocabulary.load(directory)
        try:
            config = read_config(directory)
            config.pop("model_type")
            model = cls(Text2TextSize(**config), source, target)
            load_into(model, read_weights(directory / "model.safetensors"), directory)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
            reason = " ".join(str(error).split())
            raise InputError(f"{directory}: the model cannot be loaded: {reason}") from error
        return model.eval()

    def save_pretrained(self, directory: str | Path) -> None:
        directory = Path(directory)
        self.target.save(directory)
        self.source.save(directory / SOURCE_DIRECTORY)
        with atomic_write(directory / "model.safetensors") as temporary:
            save_file(self.state_dict(), temporary)
        with atomic_write(directory / "config.json") as temporary:
            config = {"model_type": MODEL_TYPE, **asdict(self.size)}
            temporary.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")

    def features(self, waveform: np.ndarray) -> np.ndarray:
        raise _deaf()

    def hear(self, features: Tensor, lengths: Tensor, prompts: Tensor | None = None) -> Memory:
        raise _deaf()

    def read(self, tokens: Tensor, lengths: Tensor) -> Memory:
        return self.text_encoder(tokens, lengths)

    def prompt(self, language: str | None = None) -> list[int]:
        return target_prompt(self.target, language)

    def states(self, memory: Memory, tokens: Tensor) -> Tensor:
        return decoder_states(self.decoder, memory, tokens, pack=self.packing)

    def start(self, memory: Memory, beam: int) -> TransformerStream:
        return decoder_stream(self.decoder, memory, beam, pack=self.packing)

    def logits(self, states: Tensor, only: Tensor | None = None) -> Tensor:
        return output_scores(states, self.decoder.embed_tokens.weight, only, self.packing)


def _deaf() -> InputError:
    return InputError(
        "This model translates text and cannot hear: give it a recogniser in a cascade, or choose a speech translator."
    )
