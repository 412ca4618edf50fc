"""wav2vec 2.0 (XLS-R) with mBART's decoder: transformers' ``SpeechEncoderDecoderModel``, the family of LNA-D.

Such checkpoints have no encoder for text; one that was trained for them lies beside the model in ``text_encoder/`` and
reads the decoder's own tokens.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoTokenizer, SpeechEncoderDecoderModel, Wav2Vec2FeatureExtractor
from transformers.utils import logging as transformers_logging

from npda.audio import MAX_FRAMES, SAMPLE_RATE, frame_count
from npda.io.errors import InputError
from npda.models.backbone import Memory, Suppressed
from npda.models.config import read_config
from npda.models.layers.decoder import layer_states, output_scores, stream_layers
from npda.models.layers.packing import Packing
from npda.models.layers.stream import StreamLayer, TransformerStream
from npda.models.tagged_tokens import TaggedTokens, check_vocabulary
from npda.models.text_encoder import TextEncoder, TextEncoderSize
from npda.models.torch_backbone import TorchBackbone
from npda.models.weights import open_part, open_pretrained

transformers_logging.disable_progress_bar()

LAYERS = 6  # of a text encoder

_TEXT_DIRECTORY = "text_encoder"
_FAMILIES = {"encoder": "wav2vec2", "decoder": "mbart"}  # model_type of the halves
_FRAME = SAMPLE_RATE // 100  # samples of a frame
_TAG = re.compile(r"([a-z]{2,3})_[A-Z]{2}")  # de_DE


class SpeechEncoderDecoder(TorchBackbone):
    """A `Backbone` around transformers' SpeechEncoderDecoder."""

    def __init__(
        self,
        model: SpeechEncoderDecoderModel,
        tokenizer: Any,
        extractor: Wav2Vec2FeatureExtractor,
        text_encoder: TextEncoder | None = None,
    ) -> None:
        super().__init__()
        self.model = model
        self.extractor = extractor
        self.packing = Packing()  # for everything but training
        self.text_encoder = text_encoder
        config: Any = model.config
        self.target = TaggedTokens(tokenizer, config.decoder.vocab_size, _tags(tokenizer))
        self.source = self.target
        self.dim: int = config.decoder.d_model
        self.max_frames = MAX_FRAMES  # attention takes memory by the square of the length
        self.max_target: int = config.decoder.max_position_embeddings
        self.suppressed = Suppressed.by(model.generation_config)
        self._field, self._stride = _receptive_field(config.encoder)

    @classmethod
    def from_pretrained(cls, directory: str | Path, source_language: str | None = None) -> SpeechEncoderDecoder:
        """source_language: makes no difference, the encoder knows one or hears any"""
        directory = Path(directory)
        config = read_config(directory)
        for half, family in _FAMILIES.items():
            described = config.get(half)
            found = described.get("model_type") if isinstance(described, dict) else None
            if found != family:
                raise InputError(f"{directory}: its {half} is of type {found!r}; only {family} can be opened.")
        check_vocabulary(directory)
        model = open_pretrained(SpeechEncoderDecoderModel, directory)
        text = directory / _TEXT_DIRECTORY
        return cls(
            model,
            open_part(AutoTokenizer, directory),
            open_part(Wav2Vec2FeatureExtractor, directory),
            TextEncoder.from_pretrained(text) if text.is_dir() else None,
        ).eval()

    def save_pretrained(self, directory: str | Path) -> None:
        self.model.save_pretrained(directory)
        self.target.tokenizer.save_pretrained(directory)
        self.extractor.save_pretrained(directory)
        if self.text_encoder is not None:
            self.text_encoder.save_pretrained(Path(directory) / _TEXT_DIRECTORY)

    def add_text_encoder(self, layers: int | None = None, dropout: float | None = None) -> TextEncoder:
        """A text path to be trained, in place of any other; it starts from the decoder's token embeddings.

        dropout: by default that of the decoder
        """
        if layers == 0:
            raise InputError(
                "This model's text path has layers of its own, so an embedding alone cannot be trained for it."
            )
        config = self._decoder.config
        size = TextEncoderSize(
            vocabulary=len(self.source),
            dim=self.dim,
            layers=layers or LAYERS,
            heads=config.decoder_attention_heads,
            ffn=config.decoder_ffn_dim,
            dropout=float(config.dropout) if dropout is None else dropout,
        )
        embedding = self._decoder.embed_tokens.weight
        text = TextEncoder(size, self.source.pad).to(embedding.device)
        with torch.no_grad():
            text.embedding.weight.copy_(embedding)
        self.text_encoder = text.train(self.training)
        return text

    @property
    def reads(self) -> bool:
        return self.text_encoder is not None

    def features(self, waveform: np.ndarray) -> np.ndarray:
        """The samples themselves, normalised by utterance. → [frames, 160], as many as the encoder has a use for

        It leaves off the last ones, which do not fill its receptive field; here they would only have to be counted.
        """
        waveform = np.pad(waveform, (0, max(0, self._field - len(waveform))))
        samples = self.extractor(waveform, sampling_rate=SAMPLE_RATE, return_tensors="np").input_values[0]
        samples = samples[: self._used(len(samples))]
        frames = -(-len(samples) // _FRAME)
        found = np.pad(samples, (0, frames * _FRAME - len(samples))).reshape(frames, _FRAME).astype(np.float32)
        # Manifests count whole windows of 25 ms, one or two less: what they call short enough has to be.
        return found[: self.max_frames] if frame_count(len(waveform)) <= self.max_frames else found

    def hear(self, features: Tensor, lengths: Tensor, prompts: Tensor | None = None) -> Memory:
        encoder: Any = self.model.encoder  # pyright sees only Tensor | Module inside
        # One by one: base models normalise over the whole utterance here, and the first layer takes more memory than
        # all that follow.
        waves = [row[:n].flatten() for row, n in zip(features, lengths.tolist(), strict=True)]
        heard = [encoder.feature_extractor(wave[None, : self._used(len(wave))])[0].T for wave in waves]
        lengths = torch.tensor([len(found) for found in heard], device=features.device)
        x, _ = encoder.feature_projection(pad_sequence(heard, batch_first=True))
        mask = _mask(lengths, x)
        x = encoder.encoder(x, attention_mask=mask)[0]
        if encoder.adapter is not None:
            x, mask = _adapted(encoder.adapter, x, mask)
        projection: Any = getattr(self.model, "enc_to_dec_proj", None)  # where the halves are of different widths
        return Memory(x if projection is None else projection(x), mask)

    def read(self, tokens: Tensor, lengths: Tensor) -> Memory:
        if self.text_encoder is None:
            raise InputError("The model has no text encoder yet: train one with `npda align`.")
        return self.text_encoder(tokens, lengths)

    def prompt(self, language: str | None = None) -> list[int]:
        """language: to be written, by default the one the checkpoint prescribes"""
        start, forced = self._prescribed("decoder_start_token_id"), self._prescribed("forced_bos_token_id")
        if start is None:
            raise InputError(
                "The model's config.json has no decoder_start_token_id: add the token decoding starts with."
            )
        if language is not None:
            tag = self.target.tag(language)
            return [tag] if self.target.is_tag(start) else [start, tag]
        if forced is not None:
            return [start, forced]
        if self.target.languages and not self.target.is_tag(start):
            raise InputError(f"The model translates into {', '.join(self.target.languages)}: choose a language.")
        return [start]

    def states(self, memory: Memory, tokens: Tensor) -> Tensor:
        return layer_states(self._decoder, memory, self._embed(tokens, 0), self._layers)

    def start(self, memory: Memory, beam: int) -> TransformerStream:
        return TransformerStream(self._layers(), self._embed, self._decoder.layer_norm, memory, beam)

    def logits(self, states: Tensor, only: Tensor | None = None) -> Tensor:
        return output_scores(states, self._writer.lm_head.weight, only, self.packing)

    @property
    def _decoder(self) -> Any:
        return self._writer.model.decoder

    @property
    def _writer(self) -> Any:  # pyright sees only Tensor | Module inside
        return self.model.decoder

    def _layers(self) -> list[StreamLayer]:
        return stream_layers(self._decoder, self.packing)

    def _embed(self, tokens: Tensor, position: int) -> Tensor:
        """Tokens [rows, n] with their positions, the first of them given. → [rows, n, dim]"""
        decoder = self._decoder
        first = decoder.embed_positions.offset + position
        places = decoder.embed_positions.weight[first : first + tokens.shape[1]]
        return decoder.layernorm_embedding(decoder.embed_tokens(tokens) + places)

    def _used(self, samples: int) -> int:
        """How many of so many samples the convolutions see: as far as their last whole field reaches."""
        return self._field + (samples - self._field) // self._stride * self._stride

    def _prescribed(self, name: str) -> int | None:
        """Older checkpoints have in config.json what newer ones have in generation_config.json."""
        config: Any = self.model.config
        places = (self.model.generation_config, config, config.decoder)
        return next((found for place in places if (found := getattr(place, name, None)) is not None), None)


def _tags(tokenizer: Any) -> dict[str, int]:
    """Names of a language → its token: de and de_DE."""
    tags: dict[str, int] = {}
    for name, token in tokenizer.get_added_vocab().items():
        if found := _TAG.fullmatch(name):
            tags.setdefault(found[1], token)
            tags[name] = token
    return tags


def _receptive_field(config: Any) -> tuple[int, int]:
    """Of all convolutions together: the samples that one vector sees, and those from one to the next."""
    field, step = 1, 1
    for kernel, stride in zip(config.conv_kernel, config.conv_stride, strict=True):
        field += (kernel - 1) * step
        step *= stride
    return field, step


def _adapted(adapter: Any, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """What shortens the encoder's output. x: [batch, source, dim], mask: [batch, source]

    transformers lets it look into the padding; a sentence must not depend on its batch.
    """
    if adapter.proj is not None:
        x = adapter.proj_layer_norm(adapter.proj(x))
    for layer in adapter.layers:
        (kernel,), (stride,), (padding,) = (getattr(layer.conv, name) for name in ("kernel_size", "stride", "padding"))
        x = layer((x * mask[:, :, None]).transpose(1, 2)).transpose(1, 2)
        mask = _mask((mask.sum(dim=1) + 2 * padding - kernel) // stride + 1, x)
    return x, mask


def _mask(lengths: Tensor, x: Tensor) -> Tensor:
    """lengths: [batch], x: [batch, source, dim] → [batch, source] bool"""
    return torch.arange(x.shape[1], device=x.device) < lengths[:, None]
