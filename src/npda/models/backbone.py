"""The seam between speech translators and everything written on top of them.

A backbone has one decoder and two ways in: ``hear`` takes speech, ``read`` takes text, both give a
``Memory`` that the decoder attends to. ``states`` runs the decoder over known targets (training, building a
datastore); ``start`` and ``Stream.step`` run it token by token (decoding). A new family is one file: docs/extending.md.

``Backbone`` is all that a family must have, and ``TorchBackbone`` gives a torch module the half of it that is not about
the architecture. ``Packed``, ``HearsMany`` and ``LearnsToRead`` are what it may have besides.

A frame is 10 ms in all families, as ``n_frames`` in a manifest: batches are planned and limits are set by it. What a
frame holds is the family's own affair: mel bands, or the samples themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from npda.models.layers.packing import Packing


@dataclass(frozen=True)
class Memory:
    """What an encoder hands to the decoder.

    states: [batch, source, dim]
    mask: [batch, source] bool, True where there is something to attend to
    with_full_padding: sentences [kept] → their memory with all the padding the model was trained on, which costs time;
    None where nothing was left out
    state_map: what the decoder's states over it go through at the very end, for texts that are read: see
    ``npda.models.state_map``
    """

    states: Tensor
    mask: Tensor
    with_full_padding: Callable[[Tensor], Memory] | None = None
    state_map: Callable[[Tensor], Tensor] | None = None

    def mapped(self, states: Tensor) -> Tensor:
        """Decoder states [..., dim] as they leave the decoder."""
        return states if self.state_map is None else self.state_map(states)


@dataclass(frozen=True)
class Suppressed:
    """Tokens a search does not write of the model's own accord.

    always: nowhere; first: not right after the prompt
    """

    always: tuple[int, ...] = ()
    first: tuple[int, ...] = ()

    @classmethod
    def by(cls, generation: Any) -> Suppressed:
        """Those that a GenerationConfig of transformers names."""
        return cls(tuple(generation.suppress_tokens or ()), tuple(generation.begin_suppress_tokens or ()))


class Stream(Protocol):
    """Decoding in progress: the caches of ``sentences × beam`` rows, sentence by sentence."""

    def step(self, tokens: Tensor) -> Tensor:
        """Feed tokens [rows, n]; return the decoder state after the last of them, [rows, dim]."""
        ...

    def reorder(self, rows: Tensor) -> None:
        """Row i continues what row ``rows[i]`` was so far; rows stay within their sentence. rows: [rows]"""
        ...

    def keep(self, sentences: Tensor) -> None:
        """Go on with these sentences only. sentences: [kept] indices in rising order"""
        ...


class Tokens(Protocol):
    """Text ↔ token ids: what the decoder writes (``target``), what ``read`` takes (``source``)."""

    pad: int
    eos: int

    def __len__(self) -> int: ...

    def encode(self, text: str) -> list[int]: ...

    def decode(self, ids: Sequence[int]) -> str: ...

    def digest(self) -> str:
        """Two vocabularies of one digest encode alike."""
        ...


class Backbone(Protocol):
    """A frozen or trainable speech translator."""

    dim: int  # width of a decoder state: the width of a datastore key
    max_frames: int  # longest utterance ``hear`` takes
    max_target: int  # longest target the decoder has positions for, prompt included
    suppressed: Suppressed  # what the search leaves out; ``logits`` has all of it, for training

    @property
    def target(self) -> Tokens: ...

    @property
    def source(self) -> Tokens | None: ...

    @property
    def source_language(self) -> str | None:
        """The code of the language that is spoken and read, as ``prompt`` takes it to have speech written down; None
        where the model has not been told, or cannot write down what is said."""
        ...

    @property
    def reads(self) -> bool:
        """Whether ``read`` works: a text path may have to be trained first."""
        ...

    def features(self, waveform: np.ndarray) -> np.ndarray:
        """What ``hear`` takes for one utterance. waveform: [samples] float32 at 16 kHz → [frames, bins]"""
        ...

    def hear(self, features: Tensor, lengths: Tensor, prompts: Tensor | None = None) -> Memory:
        """Encode speech. features: [batch, frames, bins] zero-padded, lengths: [batch]

        prompts: [batch, n] the targets' beginnings, for encoders that adapt to the language
        """
        ...

    def read(self, tokens: Tensor, lengths: Tensor) -> Memory:
        """Encode text. tokens: [batch, length] ids of ``source``, right-padded, lengths: [batch]"""
        ...

    def prompt(self, language: str | None = None) -> list[int]:
        """The tokens every target begins with: start symbol, language tag, task."""
        ...

    def states(self, memory: Memory, tokens: Tensor) -> Tensor:
        """Decoder states for known targets, the keys of the paper: after the final layer norm.

        tokens: [batch, length], prompt first, right-padded → [batch, length, dim]; the state at position t
        predicts the token at t + 1.
        """
        ...

    def start(self, memory: Memory, beam: int) -> Stream:
        """Begin decoding every sentence of the memory with ``beam`` rows each."""
        ...

    def logits(self, states: Tensor, only: Tensor | None = None) -> Tensor:
        """The output layer. states: [..., dim] → [..., vocabulary], or the columns of the tokens ``only``"""
        ...

    def decoder_digest(self) -> str:
        """Of the weights that the states for a given memory depend on: by it a datastore knows its model again.

        It stays what it is in float32 when the model is rounded by ``place``.
        """
        ...

    def model_digest(self) -> str:
        """Of all weights as they are: an interrupted build is continued with the same ones only."""
        ...

    def save_pretrained(self, directory: str | Path) -> None:
        """Write a directory that ``from_pretrained`` of its family opens."""
        ...

    def place(self, device: torch.device, dtype: torch.dtype) -> None:
        """Compute there from now on, and in this type; the model is not going to be trained."""
        ...


@runtime_checkable
class Packed(Protocol):
    """A backbone whose products can be computed in eight bits: ``Translator.from_pretrained(..., int8=True)``."""

    packing: Packing


@runtime_checkable
class HearsMany(Protocol):
    """A backbone that has to be told which of many languages is spoken."""

    def hearing(self, source_language: str) -> Backbone:
        """The same model told another language, with weights and packed weights in common; InputError for a language
        it does not know. source_language: a code"""
        ...


@runtime_checkable
class LearnsToRead(Protocol):
    """A backbone, and torch module, whose text path `npda align` trains.

    text_encoder: None until there is one; its parameters are those that are trained
    """

    text_encoder: Any

    def add_text_encoder(self, layers: int | None = None, dropout: float | None = None) -> nn.Module:
        """A fresh one, in place of any other. layers, dropout: by default what suits the model"""
        ...
