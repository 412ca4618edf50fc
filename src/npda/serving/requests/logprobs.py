"""How likely every token of a translation was to the model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from npda.models.features import features_of
from npda.models.inputs import hear_batch
from npda.serving.engine.asks import Way
from npda.serving.requests.recent import heard_for
from npda.serving.state import State
from npda.translator import Translator
from npda.writers import Segment


async def token_logprobs(state: State, way: Way, samples: np.ndarray, segments: Sequence[Segment]) -> list[dict]:
    """Token, its bytes and its log-probability, as OpenAI gives them, of all segments.

    They are the model's own, of the tokens before terms were put in; what stores said is not in them.
    """
    spoken, written = way.source_language or state.settings.source_language, way.language or state.settings.language
    found: list[dict] = []
    for segment in segments:
        if segment.tokens:
            piece = heard_for(segment, samples)

            def work(translator: Translator, piece: np.ndarray = piece, segment: Segment = segment) -> list[dict]:
                told = translator.hearing(spoken) if spoken else translator
                return _scored(told, piece, segment.tokens, written)

            found += await state.engine.run(way.model, work)
    return found


@torch.inference_mode()
def _scored(translator: Translator, samples: np.ndarray, tokens: Sequence[int], language: str | None) -> list[dict]:
    """One pass of the decoder over tokens that are known."""
    backbone = translator.backbone
    prompt = backbone.prompt(language)
    memory = hear_batch(backbone, [features_of(backbone, samples, "")], torch.tensor([prompt]))
    states = backbone.states(memory, torch.tensor([[*prompt, *tokens[:-1]]], device=memory.mask.device))
    log_probs = torch.log_softmax(backbone.logits(states[0, len(prompt) - 1 :]).float(), dim=-1)
    scores = log_probs[torch.arange(len(tokens)), torch.tensor(tokens)].tolist()
    ends = [backbone.target.decode(tokens[: end + 1]) for end in range(len(tokens))]
    found, before = [], ""
    for text, score in zip(ends, scores, strict=True):
        # A piece of a letter is not text yet: the letter comes with its last piece.
        piece = text[len(before) :] if text.startswith(before) and not text.endswith("\ufffd") else ""
        before = before + piece
        found.append({"token": piece, "bytes": list(piece.encode()), "logprob": round(score, 6)})
    return found
