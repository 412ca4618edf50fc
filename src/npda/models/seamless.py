"""SeamlessM4T v2: speech of a hundred languages into the text of as many.

Its text encoder and its speech encoder were trained for one decoder, so it can read without any training here. Only
these three are loaded, from a directory of the full model or of its part for speech; what would speak is left out.
"""

from __future__ import annotations

import logging
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from transformers import (
    SeamlessM4TFeatureExtractor,
    SeamlessM4TTokenizer,
    SeamlessM4Tv2Config,
    SeamlessM4Tv2ForSpeechToText,
)
from transformers.models.seamless_m4t_v2.modeling_seamless_m4t_v2 import SeamlessM4Tv2Encoder
from transformers.utils import logging as transformers_logging

from npda.audio import MAX_FRAMES, SAMPLE_RATE
from npda.io.errors import InputError
from npda.models.backbone import Memory, Suppressed
from npda.models.hub import weight_names
from npda.models.layers.decoder import layer_states, output_scores, positions, stream_layer
from npda.models.layers.masks import attention_mask
from npda.models.layers.packing import Packing
from npda.models.layers.stream import StreamLayer, TransformerStream
from npda.models.seamless_tokens import language_tags, source_tokens
from npda.models.tagged_tokens import TaggedTokens, check_vocabulary
from npda.models.torch_backbone import TorchBackbone
from npda.models.weights import open_part, open_pretrained

transformers_logging.disable_progress_bar()
logger = logging.getLogger(__name__)

_SHORTEST = 560  # samples of two frames, the least that becomes a vector


class SpeechAndText(SeamlessM4Tv2ForSpeechToText):
    """The full model without its voice. reads: with the text encoder, which not every checkpoint has"""

    _keys_to_ignore_on_load_unexpected: ClassVar[list[str]] = [r"^t2u_model\.", r"^vocoder\."]

    def __init__(self, config: SeamlessM4Tv2Config, reads: bool = True) -> None:
        super().__init__(config)
        self.text_encoder = SeamlessM4Tv2Encoder(config) if reads else None
        if reads:
            tied = SeamlessM4Tv2ForSpeechToText._tied_weights_keys
            self._tied_weights_keys = {**tied, "text_encoder.embed_tokens.weight": "shared.weight"}
        self.post_init()


class Seamless(TorchBackbone):
    """A `Backbone` around transformers' SeamlessM4T v2."""

    def __init__(
        self,
        model: SpeechAndText,
        tokenizer: SeamlessM4TTokenizer,
        extractor: SeamlessM4TFeatureExtractor,
        source_language: str | None = None,
    ) -> None:
        super().__init__()
        self.model = model
        self.extractor = extractor
        self.packing = Packing()  # for everything but training
        size = model.config.vocab_size
        self.target = TaggedTokens(tokenizer, size, language_tags(tokenizer))
        if source_language is not None:
            tokenizer.src_lang = str(tokenizer.convert_ids_to_tokens(self.target.tag(source_language)))
        self.source = source_tokens(tokenizer, size)
        self.dim: int = model.config.hidden_size
        self.max_frames = MAX_FRAMES  # attention takes memory by the square of the length
        self.max_target: int = model.config.max_position_embeddings
        self.suppressed = Suppressed.by(model.generation_config)

    @classmethod
    def from_pretrained(cls, directory: str | Path, source_language: str | None = None) -> Seamless:
        """source_language: that is read, by default the one the directory says; what is spoken it hears itself"""
        directory = Path(directory)
        parts = {name.split(".")[0] for name in weight_names(directory)}
        if not {"speech_encoder", "text_decoder"} <= parts:
            raise InputError(
                f"{directory} holds no model that hears and writes: give the full SeamlessM4T v2, or its "
                "SeamlessM4Tv2ForSpeechToText."
            )
        check_vocabulary(directory)
        _tell_licence()
        model = open_pretrained(SpeechAndText, directory, "text_encoder" in parts)
        return cls(
            model,
            open_part(SeamlessM4TTokenizer, directory),
            open_part(SeamlessM4TFeatureExtractor, directory),
            source_language,
        ).eval()

    def save_pretrained(self, directory: str | Path) -> None:
        self.model.save_pretrained(directory)
        self.target.tokenizer.save_pretrained(directory)
        self.extractor.save_pretrained(directory)

    @property
    def text_encoder(self) -> SeamlessM4Tv2Encoder | None:
        return self.model.text_encoder

    @property
    def source_language(self) -> str:
        """What is read, a code such as ``deu``."""
        return self.target.tokenizer.src_lang.strip("_")

    @property
    def reads(self) -> bool:
        return self.text_encoder is not None

    def features(self, waveform: np.ndarray) -> np.ndarray:
        """Mel frames, normalised by utterance. → [frames, 80], an even number of them: two make one vector"""
        waveform = np.pad(waveform, (0, max(0, _SHORTEST - len(waveform))))
        found = self.extractor(waveform, sampling_rate=SAMPLE_RATE, return_tensors="np")
        vectors = found.input_features[0][: int(found.attention_mask.sum())]
        return np.ascontiguousarray(vectors.reshape(-1, self.extractor.num_mel_bins), dtype=np.float32)

    def hear(self, features: Tensor, lengths: Tensor, prompts: Tensor | None = None) -> Memory:
        encoder: Any = self.model.speech_encoder  # pyright sees only Tensor | Module inside
        together = self.extractor.stride
        vectors = features.shape[1] // together
        x = features[:, : vectors * together].unflatten(1, (vectors, together)).flatten(2)
        mask = torch.arange(vectors, device=x.device) < (lengths // together)[:, None]
        x = encoder.encoder(encoder.feature_projection(x), attention_mask=mask)
        x = x + 0.5 * encoder.intermediate_ffn(x)
        for layer in encoder.adapter.layers if encoder.adapter is not None else ():
            x, mask = _shortened(layer, x, mask)
        return Memory(encoder.inner_layer_norm(x), mask)

    def read(self, tokens: Tensor, lengths: Tensor) -> Memory:
        if self.text_encoder is None:
            raise InputError(
                "This SeamlessM4T was saved without its text encoder: give the directory of the full model."
            )
        mask = torch.arange(tokens.shape[1], device=tokens.device) < lengths[:, None]
        return Memory(self.text_encoder(input_ids=tokens, attention_mask=mask).last_hidden_state, mask)

    def prompt(self, language: str | None = None) -> list[int]:
        if language is None:
            raise InputError("SeamlessM4T has to be told which language to write: choose one, such as deu or de.")
        return [self.model.config.decoder_start_token_id, self.target.tag(language)]

    def states(self, memory: Memory, tokens: Tensor) -> Tensor:
        return layer_states(self._decoder, memory, self._embed(tokens, 0), self._layers)

    def start(self, memory: Memory, beam: int) -> TransformerStream:
        return TransformerStream(self._layers(), self._embed, self._decoder.layer_norm, memory, beam)

    def logits(self, states: Tensor, only: Tensor | None = None) -> Tensor:
        return output_scores(states, self.model.lm_head.weight, only, self.packing)

    @property
    def _decoder(self) -> Any:
        return self.model.text_decoder

    def _layers(self) -> list[StreamLayer]:
        return [
            stream_layer(
                (layer.self_attn_layer_norm, layer.self_attn),
                (layer.cross_attention_layer_norm, layer.cross_attention),
                (layer.ffn_layer_norm, layer.ffn.fc1, layer.ffn.fc2),
                layer.ffn.act,
                self.packing,
            )
            for layer in self._decoder.layers
        ]

    def _embed(self, tokens: Tensor, position: int) -> Tensor:
        """Tokens [rows, n] with their positions, the first of them given. → [rows, n, dim]"""
        decoder = self._decoder
        return decoder.embed_tokens(tokens) + positions(decoder.embed_positions, position, tokens.shape[1])


def _shortened(layer: Any, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """One layer of the adaptor, whose convolutions shorten. x: [batch, source, dim], mask: [batch, source]

    transformers lets them look into the padding; a sentence must not depend on its batch.
    """

    def pool(norm: nn.LayerNorm, conv: nn.Conv1d) -> Tensor:
        heard = (norm(x) * mask[:, :, None]).transpose(1, 2)
        return layer.activation(conv(heard)).transpose(1, 2)

    residual = pool(layer.residual_layer_norm, layer.residual_conv)
    pooled = pool(layer.self_attn_layer_norm, layer.self_attn_conv)
    (kernel,), (stride,), (padding,) = (getattr(layer.self_attn_conv, n) for n in ("kernel_size", "stride", "padding"))
    lengths = (mask.sum(dim=1) + 2 * padding - kernel) // stride + 1
    mask = torch.arange(pooled.shape[1], device=x.device) < lengths[:, None]
    attended, _ = layer.self_attn(pooled, attention_mask=attention_mask(mask, pooled))
    x = residual + layer.self_attn_dropout(attended)
    return x + layer.ffn(layer.ffn_layer_norm(x)), mask


@cache
def _tell_licence() -> None:
    """Once is enough."""
    logger.warning("SeamlessM4T v2 is licensed under CC BY-NC 4.0: its public weights are not for commercial use.")
