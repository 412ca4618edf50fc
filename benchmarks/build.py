"""Building a store against the bare forward pass of the same sentences.

    python -m benchmarks.build

A model of the paper's bilingual size with random weights and a text encoder of 12 layers reads parliament's text with
the shipped model's vocabularies. The bare pass has its batches ready: it encodes and decodes them and keeps nothing.
Building tokenises, sorts, computes, writes and checks; there is no index.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch.nn.utils.rnn import pad_sequence

from benchmarks.harness import Line, arguments, interleaved, ratio, report
from npda.audio import Normalizer
from npda.corpus.mini.grammar import sentences
from npda.corpus.pairs import Pair
from npda.datastore.encode import BATCH_TOKENS
from npda.datastore.source import BuildOptions
from npda.datastore.store import Datastore
from npda.demo.model import SHIPPED
from npda.models.batches import cut
from npda.models.speech2text import Speech2Text
from npda.models.text_encoder import TextEncoder, TextEncoderSize

BAR = 0.85


def model() -> Speech2Text:
    small = Speech2Text.from_pretrained(SHIPPED)
    assert small.source is not None
    torch.manual_seed(0)
    made = Speech2Text.create("paper-bilingual", small.target, Normalizer(None, None), small.source)
    config = made.model.config
    size = TextEncoderSize(len(small.source), made.dim, 12, config.encoder_attention_heads, config.encoder_ffn_dim)
    made.text_encoder = TextEncoder(size).eval()
    return made.eval()


def bare(backbone: Speech2Text, pairs: Sequence[Pair]) -> Callable[[], None]:
    """The forward pass over batches of the sizes that building has."""
    assert backbone.source is not None
    sources = [torch.tensor(backbone.source.encode(pair.src_text)) for pair in pairs]
    targets = [torch.tensor([*backbone.prompt(), *backbone.target.encode(pair.tgt_text)]) for pair in pairs]
    lengths = [max(len(s), len(t) + 1) for s, t in zip(sources, targets, strict=True)]
    order = sorted(range(len(pairs)), key=lambda place: (lengths[place], len(targets[place])))
    batches = [
        (
            pad_sequence([sources[i] for i in batch], batch_first=True, padding_value=backbone.source.pad),
            torch.tensor([len(sources[i]) for i in batch]),
            pad_sequence([targets[i] for i in batch], batch_first=True, padding_value=backbone.target.pad),
        )
        for batch in cut(order, lengths, BATCH_TOKENS)
    ]

    @torch.inference_mode()
    def run() -> None:
        for source, length, target in batches:
            backbone.states(backbone.read(source, length), target)

    return run


def measure(size: int, repeats: int, folder: Path) -> Iterator[Line]:
    backbone, pairs, number = model(), sentences("parliament", "train")[:size], count()

    def build() -> Datastore:
        path = folder / f"{next(number)}"
        return Datastore.build(backbone, pairs, path, options=BuildOptions("exact", progress=False))

    value, note = ratio(interleaved({"bare": bare(backbone, pairs), "building": build}, repeats), "bare", "building")
    yield Line(f"build, {size} sentences: tokens/s over the bare pass", value, BAR, note=note)


def main() -> bool:
    parser = arguments(__doc__, repeats=3)
    parser.add_argument("--sentences", type=int, default=1_000)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    with TemporaryDirectory() as folder:
        return report("build", lambda: measure(options.sentences, options.repeats, Path(folder)), options.json)


if __name__ == "__main__":
    sys.exit(not main())
