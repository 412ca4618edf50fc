"""A random Whisper model small enough for tests, over a byte-level vocabulary of its own: two seconds of speech."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
import tiny
import torch
from tokenizers import ByteLevelBPETokenizer
from transformers import WhisperConfig, WhisperFeatureExtractor, WhisperForConditionalGeneration, WhisperTokenizer

from npda.models.whisper import Whisper

SECONDS = 2
_SPECIAL = [
    "endoftext",
    "startoftranscript",
    "en",
    "de",
    "translate",
    "transcribe",
    "startoflm",
    "startofprev",
    "nospeech",
    "notimestamps",
]


@cache
def _pieces() -> dict[str, Any]:
    bpe = ByteLevelBPETokenizer()
    bpe.train_from_iterator(tiny.SENTENCES, vocab_size=300, min_frequency=1, show_progress=False)
    model = json.loads(bpe.to_str())["model"]
    return {"vocab": model["vocab"], "merges": [tuple(merge) for merge in model["merges"]]}


def tokenizer() -> WhisperTokenizer:
    made = WhisperTokenizer(**_pieces())
    made.add_special_tokens({"additional_special_tokens": [f"<|{name}|>" for name in _SPECIAL]})
    return made


def backbone(seed: int = 0, source_language: str | None = "de", seconds: int = SECONDS, **changes: Any) -> Whisper:
    """Random weights, spread widely so that decoding has some variety."""
    torch.manual_seed(seed)
    tokens = tokenizer()
    ids: dict[str, Any] = {name: tokens.convert_tokens_to_ids(f"<|{name}|>") for name in _SPECIAL}
    config = WhisperConfig(
        vocab_size=len(tokens), d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, max_source_positions=50 * seconds,
        max_target_positions=64, init_std=0.2, pad_token_id=ids["endoftext"], bos_token_id=ids["endoftext"],
        eos_token_id=ids["endoftext"], decoder_start_token_id=ids["startoftranscript"],
    )  # fmt: skip
    model = WhisperForConditionalGeneration(config).eval()
    generation: Any = model.generation_config
    generation._from_model_config = False  # or what follows is not opened again
    generation.is_multilingual = True
    generation.lang_to_id = {"<|en|>": ids["en"], "<|de|>": ids["de"]}
    generation.task_to_id = {"translate": ids["translate"], "transcribe": ids["transcribe"]}
    generation.no_timestamps_token_id = ids["notimestamps"]
    generation.suppress_tokens = changes.pop("suppress", None)
    generation.begin_suppress_tokens = changes.pop("suppress_first", None)
    extractor = WhisperFeatureExtractor(chunk_length=seconds)
    return Whisper(model, tokens, extractor, source_language, **changes).eval()


def waveform(seconds: float, seed: int = 0) -> np.ndarray:
    """Noise that swells and fades."""
    samples = np.random.default_rng(seed).normal(size=round(seconds * 16_000)).astype(np.float32)
    return samples * np.sin(np.linspace(0, 9, len(samples), dtype=np.float32)) * 0.1


def heard(model: Whisper, waveforms: list[np.ndarray]) -> tuple[torch.Tensor, torch.Tensor]:
    """Features [batch, frames, 80], zero-padded, and their lengths."""
    features = [torch.from_numpy(model.features(wave)) for wave in waveforms]
    return torch.nn.utils.rnn.pad_sequence(features, batch_first=True), torch.tensor([len(f) for f in features])
