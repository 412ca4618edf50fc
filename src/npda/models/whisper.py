"""Whisper: speech of a hundred languages into English, or into its own words.

The task follows from the languages: a target in the language that is spoken is a transcript, an English one of any
other language a translation. A model that was trained further writes one more language, its ``target_language``, as
if it were spoken: it knows many, but writes them only as transcripts. What is spoken is told at loading, and kept where
transformers looks for it, as ``language`` in generation_config.json; there, too, are ``target_language`` and
``silence`` of models trained further. A text encoder lies beside the model in ``text_encoder/``.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy, deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import WhisperFeatureExtractor, WhisperForConditionalGeneration, WhisperTokenizer
from transformers.utils import logging as transformers_logging

from npda.audio import SAMPLE_RATE
from npda.io.errors import InputError
from npda.models.backbone import Memory, Suppressed
from npda.models.layers.decoder import layer_states, output_scores, stream_layers
from npda.models.layers.encoder import encoder_states
from npda.models.layers.packing import Packing
from npda.models.layers.stream import StreamLayer, TransformerStream
from npda.models.torch_backbone import TorchBackbone
from npda.models.weights import open_part, open_pretrained
from npda.models.whisper_text import LAYERS, WhisperTextEncoder
from npda.models.whisper_tokens import WhisperTokens

transformers_logging.disable_progress_bar()

SILENCE = 5.0  # seconds heard after an utterance; Whisper was trained to hear it out to 30 s

_HINTS = 8  # tokens: lengths of what is said about a transcript beforehand are multiples of it
_TEXT_DIRECTORY = "text_encoder"
_ENGLISH = "en"


class Whisper(TorchBackbone):
    """A `Backbone` around transformers' Whisper.

    silence: seconds that follow every utterance, at most to the end of the 30 s the model was trained on. It needs
    some to notice the end, and time grows with them; ``Memory.with_full_padding`` hears
    all of them. By default those it was saved with: a model fine-tuned with fewer has nothing more to hear.
    """

    adapters = None  # which only models of npda train have
    # Names of parameters that are never trained: sines, and tokens most of which no corpus of one's own holds.
    fixed: tuple[str, ...] = ("model.model.encoder.embed_positions.", "model.model.decoder.embed_tokens.")

    def __init__(
        self,
        model: WhisperForConditionalGeneration,
        tokenizer: WhisperTokenizer,
        extractor: WhisperFeatureExtractor,
        source_language: str | None = None,
        text_encoder: WhisperTextEncoder | None = None,
        silence: float | None = None,
    ) -> None:
        super().__init__()
        self.model = model
        self.extractor = extractor
        self.text_encoder = text_encoder
        self.packing = Packing()  # for everything but training
        self.target = WhisperTokens(tokenizer, model.config.vocab_size)
        self.source = self.target
        self.dim: int = model.config.d_model
        self.max_frames: int = 2 * model.config.max_source_positions
        self.max_target: int = model.config.max_target_positions
        generation: Any = model.generation_config
        self.suppressed = Suppressed(
            (*(generation.suppress_tokens or ()), *self.target.blanks), tuple(generation.begin_suppress_tokens or ())
        )
        defaults = (seconds for seconds in (silence, self._trained_silence) if seconds is not None)
        self.silence: float = next(defaults, SILENCE)
        if source_language is not None:
            self.target.language(source_language)
            generation.language = source_language

    @classmethod
    def from_pretrained(cls, directory: str | Path, source_language: str | None = None) -> Whisper:
        """source_language: that is spoken and read, by default the one the directory was saved with"""
        directory = Path(directory)
        model = open_pretrained(WhisperForConditionalGeneration, directory)
        text = directory / _TEXT_DIRECTORY
        return cls(
            model,
            open_part(WhisperTokenizer, directory),
            open_part(WhisperFeatureExtractor, directory),
            source_language,
            WhisperTextEncoder.from_pretrained(text, model.config) if text.is_dir() else None,
        ).eval()

    def save_pretrained(self, directory: str | Path) -> None:
        self.model.save_pretrained(directory)
        self.target.tokenizer.save_pretrained(directory)
        self.extractor.save_pretrained(directory)
        if self.text_encoder is not None:
            self.text_encoder.save_pretrained(Path(directory) / _TEXT_DIRECTORY)

    @property
    def source_language(self) -> str | None:
        """What is spoken and read, a code such as ``de``; None if it was not given."""
        language = getattr(self.model.generation_config, "language", None)
        return language.strip("<|>") if language else None

    def hearing(self, source_language: str) -> Whisper:
        """The same model, told that another language is spoken: everything but that is shared."""
        if not self.target.languages and source_language == _ENGLISH:
            return self
        self.target.language(source_language)
        other, model = copy(self), copy(self.model)
        other._modules = {**self._modules, "model": model}
        model.generation_config = deepcopy(self.model.generation_config)
        generation: Any = model.generation_config
        generation.language = source_language
        return other

    @property
    def target_language(self) -> str:
        """What it writes unless asked otherwise: English, or what it was trained further to write."""
        return getattr(self.model.generation_config, "target_language", None) or _ENGLISH

    def learn_language(self, language: str) -> None:
        """Make a language with a tag the one that is written; training has to follow."""
        if not self.target.languages:
            raise InputError("This Whisper model knows English only; take one of many languages to write another.")
        self.target.language(language)
        generation: Any = self.model.generation_config
        generation.target_language = language

    def learn_silence(self, seconds: float) -> None:
        """Make so much silence all that follows an utterance; training has to follow."""
        generation: Any = self.model.generation_config
        self.silence = generation.silence = seconds

    def set_dropout(self, dropout: float) -> None:
        """Between all layers that speech passes through."""
        self.model.config.dropout = dropout
        for part in (self._encoder, self._decoder):
            for module in (part, *part.layers):
                module.dropout = dropout

    def add_text_encoder(self, layers: int | None = None, dropout: float | None = None) -> WhisperTextEncoder:
        """A text path to be trained, in place of any other.

        layers: of the speech encoder to be copied; dropout: by default that of the speech encoder
        """
        if layers == 0:
            raise InputError(
                "Whisper's text path has layers of its own, so an embedding alone cannot be trained for it."
            )
        embedding, layers = self._decoder.embed_tokens.weight, layers or min(LAYERS, len(self._encoder.layers))
        self.text_encoder = WhisperTextEncoder.like(self._encoder, embedding, layers).train(self.training)
        if dropout is not None:
            self.text_encoder.set_dropout(dropout)
        return self.text_encoder

    @property
    def reads(self) -> bool:
        return self.text_encoder is not None

    def features(self, waveform: np.ndarray) -> np.ndarray:
        """Log-mel frames that touch the waveform: those transformers computes of it padded to 30 s."""
        hop, window = self.extractor.hop_length, self.extractor.n_fft
        frames = (len(waveform) + window // 2 - 1) // hop + 1
        # Zeros keep the spectrogram from mirroring the end of the speech; transformers mirrors that of 30 s.
        length = max(frames * hop + window, len(waveform))
        if len(waveform) <= self.max_frames * hop:
            frames, length = min(frames, self.max_frames), min(length, self.max_frames * hop)
        padded = np.pad(waveform, (0, length - len(waveform)))
        found = self.extractor(
            padded, sampling_rate=SAMPLE_RATE, padding="do_not_pad", truncation=False, return_tensors="np"
        )
        return np.ascontiguousarray(found.input_features[0].T[:frames], dtype=np.float32)

    def hear(self, features: Tensor, lengths: Tensor, prompts: Tensor | None = None) -> Memory:
        """What follows an utterance in its batch is silence to the ear, and out of sight beyond ``silence``."""
        frames = round(self.silence * SAMPLE_RATE / self.extractor.hop_length)
        heard = self._hear(features, lengths, frames)
        if self.silence == self._trained_silence or bool((lengths + frames >= self.max_frames).all()):
            return heard
        return replace(heard, with_full_padding=lambda rows: self._hear(features[rows], lengths[rows], self.max_frames))

    def _hear(self, features: Tensor, lengths: Tensor, silence: int) -> Memory:
        """silence: frames of it after every utterance, as far as the model takes them"""
        encoder = self._encoder
        x, lengths = self._with_silence(features, lengths, silence)
        for conv, stride in ((encoder.conv1, 1), (encoder.conv2, 2)):
            x = nn.functional.gelu(conv(x))
            lengths = (lengths - 1) // stride + 1
            mask = torch.arange(x.shape[2], device=x.device) < lengths[:, None]
            x = x * mask[:, None, :]
        x = x.transpose(1, 2)
        x = x + encoder.embed_positions.weight[: x.shape[1]]
        return Memory(encoder_states(encoder, x, mask, self.packing), mask)

    def read(self, tokens: Tensor, lengths: Tensor) -> Memory:
        if self.text_encoder is None:
            raise InputError("The model has no text encoder yet: train one with `npda align`.")
        return self.text_encoder(self._decoder.embed_tokens(tokens), lengths, self._encoder.embed_positions.weight)

    def prompt(self, language: str | None = None) -> list[int]:
        """language: to be written, ``target_language`` by default"""
        start, end = self.target.special("startoftranscript"), self.target.special("notimestamps")
        if not self.target.languages:  # the models whose names end in .en
            if language not in (None, _ENGLISH):
                raise InputError(f"This Whisper model knows English only and cannot write {language!r}.")
            return [start, end]
        spoken, written = self.source_language, language or self.target_language
        if spoken is None:
            raise InputError("Whisper has to be told which language is spoken: give the source language, such as de.")
        if written not in (spoken, self.target_language, _ENGLISH):
            known = " or ".join(dict.fromkeys((_ENGLISH, self.target_language)))
            raise InputError(
                f"This Whisper model writes {known} or what is spoken, here {spoken!r}: it cannot write {written!r}."
            )
        if written == _ENGLISH != spoken:
            return [start, self.target.language(spoken), self.target.special("translate"), end]
        return [start, self.target.language(written), self.target.special("transcribe"), end]

    def transcript_prompt(self, words: Sequence[str] = ()) -> list[int]:
        """What a transcript begins with. words: that may occur in it, repeated so that few lengths of prompts occur"""
        start, end = self.target.special("startoftranscript"), self.target.special("notimestamps")
        spoken = self.source_language
        task = [self.target.language(spoken), self.target.special("transcribe")] if spoken else []
        hints = self.target.encode(", ".join(words))
        if not hints:
            return [start, *task, end]
        repeated = self.target.encode(f"{', '.join(words)}, " * _HINTS)
        length = min(_HINTS * -(-len(hints) // _HINTS), self.max_target // 2 - 1)
        return [self.target.special("startofprev"), *repeated[-length:], start, *task, end]

    def states(self, memory: Memory, tokens: Tensor) -> Tensor:
        return layer_states(self._decoder, memory, self._embed(tokens, 0), self._layers)

    def start(self, memory: Memory, beam: int) -> TransformerStream:
        return TransformerStream(self._layers(), self._embed, self._decoder.layer_norm, memory, beam)

    def logits(self, states: Tensor, only: Tensor | None = None) -> Tensor:
        return output_scores(states, self.model.proj_out.weight, only, self.packing)

    @property
    def _trained_silence(self) -> float | None:
        """Seconds of silence that a model was trained further with; None for all of the 30 s."""
        return getattr(self.model.generation_config, "silence", None)

    @property
    def _encoder(self) -> Any:  # pyright sees only Tensor | Module inside
        return self.model.model.encoder

    @property
    def _decoder(self) -> Any:
        return self.model.model.decoder

    def _layers(self) -> list[StreamLayer]:
        return stream_layers(self._decoder, self.packing)

    def _embed(self, tokens: Tensor, position: int) -> Tensor:
        """Tokens [rows, n] with their positions, the first of them given. → [rows, n, dim]"""
        decoder = self._decoder
        return decoder.embed_tokens(tokens) + decoder.embed_positions.weight[position : position + tokens.shape[1]]

    def _with_silence(self, features: Tensor, lengths: Tensor, silence: int) -> tuple[Tensor, Tensor]:
        """features: [batch, frames, bins], lengths: [batch] → [batch, bins, longer], lengths with the silence

        Whisper's log-mel values end 2 below the loudest of the utterance, and at −1.5: that is its silence.
        """
        longer = (lengths + silence).clamp(max=self.max_frames)
        place = torch.arange(int(longer.max()), device=features.device)
        x = nn.functional.pad(features, (0, 0, 0, len(place) - features.shape[1]))
        spoken, heard = (place < ends[:, None] for ends in (lengths, longer))
        loudest = x.masked_fill(~spoken[:, :, None], -torch.inf).amax(dim=(1, 2), keepdim=True)
        x = torch.where(spoken[:, :, None], x, (loudest - 2).clamp(min=-1.5))
        return (x * heard[:, :, None]).transpose(1, 2), longer
