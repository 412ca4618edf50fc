"""The paper's own architecture: that of transformers' ``Speech2TextForConditionalGeneration``.

A model directory is an ordinary Hugging Face directory, which transformers opens as well. What transformers has no
place for lies beside it: the transcripts' vocabulary in ``source/``, the global CMVN statistics in
``preprocessor_config.json``, and, once there are any, the text encoder in ``text_encoder/``, adapters in ``adapters/``,
gates in ``feature_selection/``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from npda import audio
from npda.audio import Normalizer
from npda.io.errors import InputError
from npda.models.backbone import Memory
from npda.models.devices import device_of
from npda.models.layers.adapters import Adapters, AdapterSize
from npda.models.layers.decoder import Adapt, decoder_states, decoder_stream, output_scores, positions, target_prompt
from npda.models.layers.encoder import encoder_states
from npda.models.layers.feature_selection import FeatureSelection
from npda.models.layers.packing import Packing
from npda.models.layers.stream import TransformerStream
from npda.models.speech2text_network import Speech2TextConfig, Speech2TextNetwork
from npda.models.text_encoder import TextEncoder, TextEncoderSize
from npda.models.torch_backbone import TorchBackbone
from npda.text import Vocabulary

SOURCE_DIRECTORY = "source"
TEXT_DIRECTORY = "text_encoder"
ADAPTERS_DIRECTORY = "adapters"
SELECTION_DIRECTORY = "feature_selection"

# Sizes that reproduce the paper's parameter counts (31.1M and 76.3M) with 8,000 and 10,000 target pieces:
# FFN 2048 and an output layer of its own. ``mini`` learns the embedded corpus in minutes on two cores.
PRESETS: dict[str, dict[str, Any]] = {
    "mini": dict(
        d_model=128, encoder_layers=3, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
        encoder_ffn_dim=256, decoder_ffn_dim=256, conv_channels=256, dropout=0.1, tie_word_embeddings=True,
    ),
    "paper-bilingual": dict(
        d_model=256, encoder_layers=12, decoder_layers=6, encoder_attention_heads=4, decoder_attention_heads=4,
        encoder_ffn_dim=2048, decoder_ffn_dim=2048, conv_channels=1024, dropout=0.1, tie_word_embeddings=False,
    ),
    "paper-multilingual": dict(
        d_model=512, encoder_layers=12, decoder_layers=6, encoder_attention_heads=8, decoder_attention_heads=8,
        encoder_ffn_dim=2048, decoder_ffn_dim=2048, conv_channels=1024, dropout=0.1, tie_word_embeddings=False,
    ),
}  # fmt: skip


class Speech2Text(TorchBackbone):
    """A `Backbone` of the paper's architecture."""

    fixed: tuple[str, ...] = ()  # names of parameters that are never trained begin like this

    def __init__(
        self,
        model: Speech2TextNetwork,
        target: Vocabulary,
        normalizer: Normalizer,
        source: Vocabulary | None = None,
        text_encoder: TextEncoder | None = None,
    ) -> None:
        super().__init__()
        self.model = model
        self.text_encoder = text_encoder
        self.adapters: Adapters | None = None  # see add_adapters
        self.selection: FeatureSelection | None = None  # drops frames of the speech encoder
        self.packing = Packing()  # for everything but training
        self.target = target
        self.source = source
        self.normalizer = normalizer
        self.dim: int = model.config.d_model
        self.max_frames: int = model.config.max_source_positions
        self.max_target: int = model.config.max_target_positions

    @classmethod
    def create(
        cls,
        preset: str,
        target: Vocabulary,
        normalizer: Normalizer,
        source: Vocabulary | None = None,
        **changes: Any,
    ) -> Speech2Text:
        """A model with random weights. changes: fields of Speech2TextConfig that differ from the preset"""
        config = Speech2TextConfig(vocab_size=len(target), **{**PRESETS[preset], **changes})
        return cls(Speech2TextNetwork(config), target, normalizer, source).eval()

    @classmethod
    def from_pretrained(cls, directory: str | Path, source_language: str | None = None) -> Speech2Text:
        """source_language: makes no difference, such a model knows one"""
        directory = Path(directory)
        model = Speech2TextNetwork.from_pretrained(directory)
        source, text = directory / SOURCE_DIRECTORY, directory / TEXT_DIRECTORY
        backbone = cls(
            model,
            Vocabulary.load(directory),
            Normalizer.load(directory),
            Vocabulary.load(source) if source.is_dir() else None,
            TextEncoder.from_pretrained(text) if text.is_dir() else None,
        )
        _check_size(directory, backbone.target, model.config.vocab_size)
        if backbone.source is not None and backbone.text_encoder is not None:
            _check_size(source, backbone.source, backbone.text_encoder.size.vocabulary)
        if (adapters := directory / ADAPTERS_DIRECTORY).is_dir():
            backbone.adapters = Adapters.from_pretrained(adapters, backbone.tags)
        if (selection := directory / SELECTION_DIRECTORY).is_dir():
            backbone.selection = FeatureSelection.from_pretrained(selection)
        return backbone.eval()

    def save_pretrained(self, directory: str | Path) -> None:
        self.model.save_pretrained(directory)
        self.target.save(directory)
        self.normalizer.save(directory)
        if self.source is not None:
            self.source.save(Path(directory) / SOURCE_DIRECTORY)
        if self.text_encoder is not None:
            self.text_encoder.save_pretrained(Path(directory) / TEXT_DIRECTORY)
        if self.adapters is not None:
            self.adapters.save_pretrained(Path(directory) / ADAPTERS_DIRECTORY)
        if self.selection is not None:
            self.selection.save_pretrained(Path(directory) / SELECTION_DIRECTORY)

    def add_text_encoder(self, layers: int | None = None, dropout: float | None = None) -> TextEncoder:
        """A text path to be trained, in place of any other: random, as wide as the speech encoder.

        layers, dropout: by default those of the speech encoder
        """
        if self.source is None:
            raise InputError("The model has no vocabulary of transcripts (source/); the text path needs one.")
        config = self.model.config
        size = TextEncoderSize(
            vocabulary=len(self.source),
            dim=config.d_model,
            layers=config.encoder_layers if layers is None else layers,
            heads=config.encoder_attention_heads,
            ffn=config.encoder_ffn_dim,
            dropout=float(config.dropout) if dropout is None else dropout,
        )
        self.text_encoder = TextEncoder(size, self.source.pad).to(device_of(self)).train(self.training)
        return self.text_encoder

    @property
    def tags(self) -> dict[int, str]:
        """Token id of a tag → its language; empty for models without."""
        return {self.target.language_id(language): language for language in self.target.languages}

    def add_adapters(self, languages: Sequence[str], width: int) -> None:
        """Fresh adapters, which change nothing yet, for those languages that have none."""
        config = self.model.config
        size = AdapterSize(width, self.dim, config.encoder_layers, config.decoder_layers)
        if self.adapters is None:
            self.adapters = Adapters(size, (), self.tags)
        if self.adapters.size != size:
            raise InputError(f"The model's adapters are {self.adapters.size.width} wide: choose that width.")
        for language in languages:
            self.adapters.add(language)

    @property
    def reads(self) -> bool:
        return self.source is not None and self.text_encoder is not None

    def features(self, waveform: np.ndarray) -> np.ndarray:
        return self.normalizer(audio.fbank(waveform))

    def hear(self, features: Tensor, lengths: Tensor, prompts: Tensor | None = None) -> Memory:
        memory = self.encode(features, lengths, prompts)
        return memory if self.selection is None else self.selection(memory).memory

    def encode(self, features: Tensor, lengths: Tensor, prompts: Tensor | None = None) -> Memory:
        """What ``hear`` selects from: all frames of the speech encoder, a quarter of the features'."""
        encoder = self.model.model.encoder
        x, mask = features.transpose(1, 2), torch.ones_like(features[:, :, 0], dtype=torch.bool)
        for conv in encoder.conv.conv_layers:
            x = nn.functional.glu(conv(x), dim=1)
            lengths = _halved(lengths)
            # transformers lets the second convolution look into the padding; a sentence must not depend on its batch.
            mask = torch.arange(x.shape[2], device=x.device) < lengths[:, None]
            x = x * mask[:, None, :]
        adapt = self.adapters.encoder(prompts) if self.adapters is not None else None
        return self._attend(encoder.embed_scale * x.transpose(1, 2), mask, adapt)

    def encoded_lengths(self, lengths: Tensor) -> Tensor:
        """How many frames ``encode`` makes of so many features. [batch] → [batch]"""
        for _ in range(self.model.config.num_conv_layers):
            lengths = _halved(lengths)
        return lengths

    def read(self, tokens: Tensor, lengths: Tensor) -> Memory:
        if self.text_encoder is None:
            raise InputError("The model has no text encoder yet: train one with `npda align`.")
        if self.text_encoder.size.layers == 0:  # only an embedding of its own: it shares the speech encoder's layers
            return self._attend(*self.text_encoder.embed(tokens, lengths))
        return self.text_encoder(tokens, lengths)

    def prompt(self, language: str | None = None) -> list[int]:
        return target_prompt(self.target, language, self.model.config.decoder_start_token_id)

    def states(self, memory: Memory, tokens: Tensor) -> Tensor:
        adapt = self.adapters.decoder(tokens) if self.adapters is not None else None
        return decoder_states(self.model.model.decoder, memory, tokens, adapt, self.packing)

    def start(self, memory: Memory, beam: int) -> TransformerStream:
        choose = self.adapters.decoder if self.adapters is not None else None
        return decoder_stream(self.model.model.decoder, memory, beam, choose, self.packing)

    def logits(self, states: Tensor, only: Tensor | None = None) -> Tensor:
        return output_scores(states, self.model.lm_head.weight, only, self.packing)

    def _attend(self, x: Tensor, mask: Tensor, adapt: Adapt | None = None) -> Memory:
        """The transformer layers of the speech encoder. x: [batch, source, dim], mask: [batch, source]"""
        encoder = self.model.model.encoder
        x = x + positions(encoder.embed_positions, 0, x.shape[1])
        return Memory(encoder_states(encoder, x, mask, self.packing, adapt), mask)


def _check_size(directory: Path, vocabulary: Vocabulary, size: int) -> None:
    """Refuse the vocabulary of another model."""
    if len(vocabulary) != size:
        raise InputError(f"{directory}: the vocabulary has {len(vocabulary)} pieces, the model {size}: restore both.")


def _halved(lengths: Tensor) -> Tensor:
    """What a convolution with stride 2 leaves."""
    return (lengths - 1) // 2 + 1
