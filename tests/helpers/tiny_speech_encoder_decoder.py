"""A random wav2vec 2.0 with mBART's decoder, small enough for tests, over a unigram vocabulary of its own."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import tiny
import torch
from tokenizers import SentencePieceUnigramTokenizer
from transformers import (
    MBart50Tokenizer,
    MBartConfig,
    SpeechEncoderDecoderConfig,
    SpeechEncoderDecoderModel,
    Wav2Vec2Config,
    Wav2Vec2FeatureExtractor,
)

from npda.models.speech_encoder_decoder import SpeechEncoderDecoder


@cache
def _pieces() -> list[tuple[str, float]]:
    unigram = SentencePieceUnigramTokenizer()
    special = ["<unk>", "<s>", "</s>"]
    unigram.train_from_iterator(tiny.SENTENCES, 150, unk_token="<unk>", special_tokens=special, show_progress=False)
    return [(piece, score) for piece, score in json.loads(unigram.to_str())["model"]["vocab"]]


def tokenizer() -> MBart50Tokenizer:
    return MBart50Tokenizer(vocab=_pieces(), src_lang="en_XX", tgt_lang="de_DE")


def encoder_config(norm: str = "layer", **changes: Any) -> Wav2Vec2Config:
    """norm: "layer" as XLS-R and the large models, "group" as the base models"""
    settings: dict[str, Any] = dict(
        hidden_size=24, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, conv_dim=[16] * 7,
        num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4, feat_extract_norm=norm, conv_bias=norm == "layer",
        do_stable_layer_norm=norm == "layer", initializer_range=0.2, add_adapter=True, num_adapter_layers=2,
        output_hidden_size=24, layerdrop=0.0,
    )  # fmt: skip
    return Wav2Vec2Config(**{**settings, **changes})


def spread(layers: Any) -> None:
    """Layers that outweigh the embedding, or every token writes itself again."""
    with torch.no_grad():
        for parameter in layers.parameters():
            if parameter.ndim > 1:
                parameter.mul_(3)


def backbone(
    seed: int = 0, norm: str = "layer", start: int | None = 2, forced: int | None = None, **changes: Any
) -> SpeechEncoderDecoder:
    """Random weights, spread widely so that decoding has some variety.

    start, forced: tokens decoding starts with; changes: of generation_config, or of the encoder's configuration
    """
    generation = {name: changes.pop(name) for name in ("suppress_tokens", "begin_suppress_tokens") if name in changes}
    torch.manual_seed(seed)
    tokens = tokenizer()
    decoder = MBartConfig(
        vocab_size=len(tokens), d_model=32, decoder_layers=2, decoder_attention_heads=4, decoder_ffn_dim=64,
        max_position_embeddings=64, init_std=0.2, scale_embedding=True,
    )  # fmt: skip
    config = SpeechEncoderDecoderConfig.from_encoder_decoder_configs(encoder_config(norm, **changes), decoder)
    model = SpeechEncoderDecoderModel(config)
    spread(model.get_decoder().model.decoder.layers)
    if hasattr(model, "enc_to_dec_proj"):
        torch.nn.init.normal_(model.enc_to_dec_proj.weight, std=0.6)  # or every utterance sounds alike
    settings: Any = model.generation_config
    settings._from_model_config = False  # or what follows is not opened again
    settings.decoder_start_token_id = start
    settings.forced_bos_token_id = forced
    settings.pad_token_id, settings.eos_token_id, settings.bos_token_id = 1, 2, 0
    settings.forced_eos_token_id = None
    for name, value in generation.items():
        setattr(settings, name, value)
    extractor = Wav2Vec2FeatureExtractor(return_attention_mask=norm == "layer")
    return SpeechEncoderDecoder(model, tokens, extractor).eval()
