"""A random SeamlessM4T v2 model small enough for tests, over a byte-pair vocabulary of its own."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import tiny
import torch
from tiny_speech_encoder_decoder import spread
from tokenizers import SentencePieceBPETokenizer
from transformers import SeamlessM4TFeatureExtractor, SeamlessM4TTokenizer, SeamlessM4Tv2Config, SeamlessM4Tv2Model

from npda.models.seamless import Seamless, SpeechAndText

LANGUAGES = ("eng", "deu", "fra")


@cache
def _pieces() -> dict[str, Any]:
    bpe = SentencePieceBPETokenizer()
    special = ["<pad>", "<unk>", "<s>", "</s>"]
    bpe.train_from_iterator(tiny.SENTENCES, 200, min_frequency=1, special_tokens=special, show_progress=False)
    model = json.loads(bpe.to_str())["model"]
    return {"vocab": model["vocab"], "merges": [tuple(merge) for merge in model["merges"]]}


def tokenizer() -> SeamlessM4TTokenizer:
    tags = [f"__{language}__" for language in LANGUAGES]
    return SeamlessM4TTokenizer(**_pieces(), additional_special_tokens=tags, src_lang="eng", tgt_lang="deu")


def config(tokens: SeamlessM4TTokenizer) -> SeamlessM4Tv2Config:
    return SeamlessM4Tv2Config(
        vocab_size=len(tokens), t2u_vocab_size=20, char_vocab_size=20, hidden_size=32, initializer_range=0.2,
        max_position_embeddings=128, encoder_layers=2, encoder_ffn_dim=64, encoder_attention_heads=4,
        decoder_layers=2, decoder_ffn_dim=64, decoder_attention_heads=4, speech_encoder_layers=2,
        speech_encoder_attention_heads=4, speech_encoder_intermediate_size=64, left_max_position_embeddings=8,
        right_max_position_embeddings=4, adaptor_kernel_size=4, adaptor_stride=4, conv_depthwise_kernel_size=5,
        t2u_encoder_layers=1, t2u_decoder_layers=1, t2u_encoder_ffn_dim=8, t2u_decoder_ffn_dim=8,
        t2u_encoder_attention_heads=2, t2u_decoder_attention_heads=2, t2u_variance_predictor_embed_dim=32,
        t2u_variance_predictor_hidden_dim=8, unit_embed_dim=8, unit_hifi_gan_vocab_size=20, vocoder_num_langs=3,
        vocoder_num_spkrs=2, lang_embed_dim=4, spkr_embed_dim=4, upsample_initial_channel=8,
        upsample_rates=[2, 2], upsample_kernel_sizes=[4, 4], resblock_kernel_sizes=[3],
        resblock_dilation_sizes=[[1, 1]],
    )  # fmt: skip


def backbone(seed: int = 0, source_language: str | None = None, **generation: Any) -> Seamless:
    """Random weights, spread widely so that decoding has some variety. generation: what generation_config says"""
    torch.manual_seed(seed)
    tokens = tokenizer()
    model = SpeechAndText(config(tokens))
    spread(model.text_decoder.layers)
    _configure(model, tokens, generation)
    return Seamless(model, tokens, SeamlessM4TFeatureExtractor(), source_language).eval()


def full_model(seed: int = 0) -> SeamlessM4Tv2Model:
    """All of it, voice included."""
    torch.manual_seed(seed)
    tokens = tokenizer()
    model = SeamlessM4Tv2Model(config(tokens))
    spread(model.text_decoder.layers)
    _configure(model, tokens, {})
    return model.eval()


def save(model: Any, directory: Any) -> None:
    """As a checkpoint is published: weights in several files, vocabulary, feature extractor."""
    model.save_pretrained(directory, max_shard_size="300KB")
    tokenizer().save_pretrained(directory)
    SeamlessM4TFeatureExtractor().save_pretrained(directory)


def _configure(model: Any, tokens: SeamlessM4TTokenizer, generation: dict[str, Any]) -> None:
    settings = model.generation_config
    settings._from_model_config = False  # or what follows is not opened again
    settings.text_decoder_lang_to_code_id = {
        language: tokens.convert_tokens_to_ids(f"__{language}__") for language in LANGUAGES
    }
    for name, value in generation.items():
        setattr(settings, name, value)
