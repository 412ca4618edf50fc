"""The paper's architecture: convolutions, transformer encoder, transformer decoder, output layer.

Parameter for parameter it is transformers' ``Speech2TextForConditionalGeneration``, and its directory is one of the
other: config.json, generation_config.json, model.safetensors. It is written out here because importing that class takes
longer than translating a sentence.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn

from npda.io.files import atomic_write
from npda.io.records import read_json
from npda.models.config import read_config
from npda.models.hub import load_weights
from npda.models.layers.transformer import (
    ACTIVATIONS,
    DecoderLayer,
    EncoderLayer,
    LayerSize,
    SinusoidalPositions,
    TokenEmbedding,
    initialize,
)
from npda.models.weights import check_names

MODEL_TYPE = "speech_to_text"

_ARCHITECTURE = "Speech2TextForConditionalGeneration"
_TIED = "lm_head.weight"
_GENERATION = "generation_config.json"
_GENERATED = ("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id")


_KINDS: dict[str, Any] = {"int": int, "float": (int, float), "bool": bool, "str": str}


@dataclass(frozen=True)
class Speech2TextConfig:
    """The entries of config.json that shape the network, with the defaults of transformers. others: the rest of them"""

    vocab_size: int = 10_000
    d_model: int = 256
    encoder_layers: int = 12
    encoder_attention_heads: int = 4
    encoder_ffn_dim: int = 2048
    encoder_layerdrop: float = 0.0
    decoder_layers: int = 6
    decoder_attention_heads: int = 4
    decoder_ffn_dim: int = 2048
    decoder_layerdrop: float = 0.0
    activation_function: str = "relu"
    dropout: float = 0.1
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0
    init_std: float = 0.02
    scale_embedding: bool = True
    bos_token_id: int = 0
    pad_token_id: int = 1
    eos_token_id: int = 2
    decoder_start_token_id: int = 2
    max_source_positions: int = 6_000
    max_target_positions: int = 1_024
    num_conv_layers: int = 2
    conv_kernel_sizes: tuple[int, ...] = (5, 5)
    conv_channels: int = 1_024
    input_feat_per_channel: int = 80
    input_channels: int = 1
    tie_word_embeddings: bool = True
    others: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for one in fields(self):
            if one.name != "others" and not self._fits(one.name, str(one.type), getattr(self, one.name)):
                raise ValueError(f"{one.name} cannot be {getattr(self, one.name)!r}")
        if self.activation_function not in ACTIVATIONS:
            known = ", ".join(ACTIVATIONS)
            raise ValueError(f"activation_function {self.activation_function!r} is none of {known}")
        if len(self.conv_kernel_sizes) != self.num_conv_layers:
            raise ValueError(f"{self.num_conv_layers} convolutions need as many conv_kernel_sizes")
        for heads in (self.encoder_attention_heads, self.decoder_attention_heads):
            if self.d_model % heads:
                raise ValueError(f"{heads} attention heads cannot share {self.d_model} dimensions")

    def _fits(self, name: str, kind: str, value: Any) -> bool:
        """Whether a value is of its kind, and in its range."""
        if kind.startswith("tuple"):
            return all(isinstance(size, int) and size >= 1 for size in value)
        if not isinstance(value, _KINDS[kind]) or (isinstance(value, bool) and kind != "bool"):
            return False
        if name.endswith("_token_id"):
            return 0 <= value < self.vocab_size
        if kind == "float":
            return 0 <= value < 1
        return kind != "int" or value >= 0

    @classmethod
    def from_json(cls, config: Mapping[str, Any]) -> Speech2TextConfig:
        names = {one.name for one in fields(cls)} - {"others"}
        known = {name: value for name, value in config.items() if name in names}
        if "conv_kernel_sizes" in known:
            known["conv_kernel_sizes"] = tuple(known["conv_kernel_sizes"])
        return cls(**known, others={name: value for name, value in config.items() if name not in names})

    def to_json(self, dtype: torch.dtype) -> dict[str, Any]:
        known = asdict(self)
        others = known.pop("others")
        usual = {"is_encoder_decoder": True, "use_cache": True}
        made = {"architectures": [_ARCHITECTURE], "model_type": MODEL_TYPE, "dtype": str(dtype).removeprefix("torch.")}
        return dict(sorted({**usual, **others, **known, **made}.items()))

    @property
    def embed_scale(self) -> float:
        return math.sqrt(self.d_model) if self.scale_embedding else 1.0

    def layer(self, heads: int, ffn: int) -> LayerSize:
        """Of one of the layers of the encoder or the decoder."""
        dropouts = self.dropout, self.attention_dropout, self.activation_dropout
        return LayerSize(self.d_model, heads, ffn, self.activation_function, *dropouts)


class Convolutions(nn.Module):
    """They halve the number of frames each; gated linear units follow."""

    def __init__(self, config: Speech2TextConfig) -> None:
        super().__init__()
        widths = [config.input_feat_per_channel * config.input_channels]
        widths += [config.conv_channels // 2] * (config.num_conv_layers - 1) + [config.d_model]
        self.conv_layers = nn.ModuleList(
            nn.Conv1d(width, 2 * out, kernel_size=kernel, stride=2, padding=kernel // 2)
            for width, out, kernel in zip(widths, widths[1:], config.conv_kernel_sizes, strict=False)
        )


class Encoder(nn.Module):
    """The parts of the speech encoder; ``Speech2Text.encode`` goes through them."""

    def __init__(self, config: Speech2TextConfig) -> None:
        super().__init__()
        self.dropout, self.layerdrop = config.dropout, config.encoder_layerdrop
        self.embed_scale = config.embed_scale
        self.conv = Convolutions(config)
        self.embed_positions = SinusoidalPositions(config.max_source_positions, config.d_model, config.pad_token_id)
        size = config.layer(config.encoder_attention_heads, config.encoder_ffn_dim)
        self.layers = nn.ModuleList(EncoderLayer(size) for _ in range(config.encoder_layers))
        self.layer_norm = nn.LayerNorm(config.d_model)
        self.apply(partial(initialize, std=config.init_std))


class Decoder(nn.Module):
    """The parts of the decoder; ``npda.models.layers.decoder`` goes through them."""

    def __init__(self, config: Speech2TextConfig) -> None:
        super().__init__()
        self.dropout, self.layerdrop = config.dropout, config.decoder_layerdrop
        self.embed_scale = config.embed_scale
        self.embed_tokens = TokenEmbedding(config.vocab_size, config.d_model, config.pad_token_id)
        self.embed_positions = SinusoidalPositions(config.max_target_positions, config.d_model, config.pad_token_id)
        size = config.layer(config.decoder_attention_heads, config.decoder_ffn_dim)
        self.layers = nn.ModuleList(DecoderLayer(size) for _ in range(config.decoder_layers))
        self.layer_norm = nn.LayerNorm(config.d_model)
        self.apply(partial(initialize, std=config.init_std))


class EncoderDecoder(nn.Module):
    """Both, under the name that transformers has for them."""

    def __init__(self, config: Speech2TextConfig) -> None:
        super().__init__()
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)


class Speech2TextNetwork(nn.Module):
    """Encoder, decoder and output layer, which may be the decoder's embedding."""

    def __init__(self, config: Speech2TextConfig, generation: Mapping[str, Any] | None = None) -> None:
        """generation: what generation_config.json holds, for whoever generates with transformers"""
        super().__init__()
        self.config = config
        chosen = {name: getattr(config, name) for name in _GENERATED}
        self.generation = {"_from_model_config": True, **chosen} if generation is None else dict(generation)
        self.model = EncoderDecoder(config)
        self.lm_head = nn.Linear(config.d_model, config.vocab_size, bias=False)
        initialize(self.lm_head, config.init_std)
        self._tie()

    @classmethod
    def from_pretrained(cls, directory: Path) -> Speech2TextNetwork:
        """InputError where the weights are not those that config.json describes."""
        config = Speech2TextConfig.from_json(read_config(directory))
        path = directory / _GENERATION
        generation = read_json(path) if path.is_file() else None
        with torch.device("meta"):  # no time for random weights
            network = cls(config, generation)
        weights = {name: weight.float() for name, weight in load_weights(directory).items()}
        if config.tie_word_embeddings:
            weights[_TIED] = weights.get("model.decoder.embed_tokens.weight", torch.empty(0))
        wanted = network.state_dict()
        check_names(wanted, weights, directory)
        network.load_state_dict({name: weights[name] for name in wanted}, assign=True)
        network._tie()
        return network

    def save_pretrained(self, directory: str | Path) -> None:
        directory = Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        weights = {name: weight.contiguous() for name, weight in self.state_dict().items()}
        if self.config.tie_word_embeddings:
            del weights[_TIED]
        with atomic_write(directory / "model.safetensors") as temporary:
            save_file(weights, temporary, metadata={"format": "pt"})
        for name, content in (
            (_GENERATION, self.generation),
            ("config.json", self.config.to_json(self.lm_head.weight.dtype)),
        ):
            with atomic_write(directory / name) as temporary:
                temporary.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")

    def _tie(self) -> None:
        if self.config.tie_word_embeddings:
            self.lm_head.weight = self.model.decoder.embed_tokens.weight
