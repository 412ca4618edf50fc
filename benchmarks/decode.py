"""Beam search without a store: transformers' ``generate`` against ours.

    python -m benchmarks.decode
    python -m benchmarks.decode --int8

The paper's bilingual model with random weights and 8,000 pieces hears 500 frames and writes 40 tokens, beam 5.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import torch
from transformers import Speech2TextConfig, Speech2TextForConditionalGeneration

from benchmarks.harness import Line, arguments, interleaved, ratio, report, sizes
from npda.audio import Normalizer
from npda.decoding.beam import SearchOptions, search
from npda.decoding.fusion import Fusion
from npda.models.backbone import Suppressed
from npda.models.speech2text import Speech2Text

PIECES, FRAMES, TOKENS, BEAM = 8_000, 500, 40, 5
BARS = {1: 1.8, 8: 1.3, 16: 1.2}
INT8_BARS = {8: 1.7, 16: 1.7}


class Pieces:
    """A vocabulary that only has a size."""

    bos, pad, eos, unk = 0, 1, 2, 3
    language, languages = "", ()

    def __len__(self) -> int:
        return PIECES

    def decode(self, ids: Sequence[int]) -> str:
        return " ".join(map(str, ids))


def model() -> Speech2Text:
    """Random weights; the end symbol is never written, so that all translations have the same length."""
    torch.manual_seed(0)
    made = Speech2Text.create("paper-bilingual", Pieces(), Normalizer(None, None))  # pyright: ignore[reportArgumentType]
    made.suppressed = Suppressed(always=(Pieces.eos,))
    return made


def speech(batch: int) -> torch.Tensor:
    """→ [batch, FRAMES, 80]"""
    return torch.randn(batch, FRAMES, 80, generator=torch.Generator().manual_seed(batch))


@cache
def of_transformers(backbone: Speech2Text) -> Any:
    """The same weights in transformers' own class."""
    made = Speech2TextForConditionalGeneration(Speech2TextConfig(**backbone.model.config.to_json(torch.float32))).eval()
    made.load_state_dict(backbone.model.state_dict())
    return made


def theirs(backbone: Speech2Text, features: torch.Tensor) -> torch.Tensor:
    with torch.inference_mode():
        return of_transformers(backbone).generate(
            features,
            attention_mask=torch.ones(features.shape[:2], dtype=torch.long),
            num_beams=BEAM,
            do_sample=False,
            min_new_tokens=TOKENS,
            max_new_tokens=TOKENS,
        )


def ours(backbone: Speech2Text, features: torch.Tensor, fusions: Sequence[Fusion] = ()) -> list[tuple[int, ...]]:
    options = SearchOptions(BEAM, length_penalty=1.0, max_length=TOKENS, stop_loops=False)
    with torch.inference_mode():
        memory = backbone.hear(features, torch.full((len(features),), FRAMES))
    return [found[0].tokens for found in search(backbone, memory, backbone.prompt(), options, fusions)]


def measure(batches: list[int], repeats: int, int8: bool) -> Iterator[Line]:
    backbone, fast = model(), model()
    fast.packing.int8 = int8
    bars, way = (INT8_BARS, "ours int8") if int8 else (BARS, "ours")
    for batch in batches:
        features = speech(batch)
        ways = {
            "transformers": lambda features=features: theirs(backbone, features),
            way: lambda features=features: ours(fast, features),
        }
        value, note = ratio(interleaved(ways, repeats), "transformers", way)
        yield Line(f"decode, batch {batch}: transformers / {way}", value, bars.get(batch), note=note)


def main() -> bool:
    parser = arguments(__doc__)
    parser.add_argument("--batches", type=sizes, default=[1, 8, 16])
    parser.add_argument("--int8", action="store_true", help="ours in eight bits")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    return report("decode", lambda: measure(options.batches, options.repeats, options.int8), options.json)


if __name__ == "__main__":
    sys.exit(not main())
