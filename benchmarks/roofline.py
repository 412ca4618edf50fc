"""The limit: bare matrix products of the shapes of ``decode``, and how far it is from there.

    python -m benchmarks.roofline

The products are those of the encoder, of the memory's keys and values, and of every step of the decoder with its
output layer, in float32 and with nothing in between; attention itself is left out. They are computed in torch's own
layout and with packed weights; the faster of the two is the limit. In the same run stands what ``decode`` takes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import torch
from torch import nn

from benchmarks.decode import BEAM, FRAMES, PIECES, TOKENS, model, ours, speech, theirs
from benchmarks.harness import Line, arguments, interleaved, ratio, report, sizes
from npda.models.layers.packing import Packing, Projection, plain
from npda.models.speech2text import Speech2Text

BAR = 1.35  # of ours in a batch of 16

Product = tuple[torch.Tensor, nn.Linear]  # of [rows, inputs] with its weight


def products(backbone: Speech2Text, batch: int) -> tuple[list[Product], list[Product]]:
    """What is multiplied once a batch, and what at every step."""
    config = backbone.model.config
    dim, source = config.d_model, FRAMES // 4

    def product(rows: int, inputs: int, outputs: int) -> Product:
        return torch.randn(rows, inputs), nn.Linear(inputs, outputs, bias=False)

    def layer(rows: int, ffn: int) -> list[Product]:
        shapes = ((dim, 3 * dim), (dim, dim), (dim, ffn), (ffn, dim))
        return [product(rows, *shape) for shape in shapes]

    channels, width = config.conv_channels, config.conv_kernel_sizes[0]
    convolutions = [
        product(batch * FRAMES // 2, width * config.input_feat_per_channel, channels),
        product(batch * source, width * channels // 2, 2 * dim),
    ]
    encoder = [p for _ in range(config.encoder_layers) for p in layer(batch * source, config.encoder_ffn_dim)]
    memory = [product(batch * source, dim, 2 * dim) for _ in range(config.decoder_layers)]
    rows = batch * BEAM
    step = []
    for _ in range(config.decoder_layers):
        step += [*layer(rows, config.decoder_ffn_dim), product(rows, dim, dim), product(rows, dim, dim)]
    return [*convolutions, *encoder, *memory], [*step, product(rows, dim, PIECES)]


def operations(once: list[Product], step: list[Product]) -> float:
    """Multiplications and additions of all of it, in 10⁹."""
    parts = (1, once), (TOKENS, step)
    return sum(2e-9 * times * len(x) * layer.weight.numel() for times, part in parts for x, layer in part)


def bare(once: list[Product], step: list[Product], pack: Callable[[nn.Linear], Projection]) -> Callable[[], None]:
    first, again = ([(x, pack(layer)) for x, layer in part] for part in (once, step))

    @torch.inference_mode()
    def run() -> None:
        for x, project in first:
            project(x)
        for _ in range(TOKENS):
            for x, project in again:
                project(x)

    return run


def measure(batches: list[int], repeats: int) -> Iterator[Line]:
    backbone = model()
    for batch in batches:
        features, (once, step) = speech(batch), products(backbone, batch)
        ways = {
            "transformers": lambda features=features: theirs(backbone, features),
            "ours": lambda features=features: ours(backbone, features),
            "torch's products": bare(once, step, plain),
            "packed products": bare(once, step, Packing()),
        }
        times = interleaved(ways, repeats)
        limit = min(("torch's products", "packed products"), key=lambda way: times[way].cpu)
        speed = f", {operations(once, step) / times[limit].cpu:.0f} GFLOP/s"
        for way in ("ours", "transformers"):
            value, note = ratio(times, way, limit)
            bar = BAR if (way, batch) == ("ours", 16) else None
            yield Line(f"roofline, batch {batch}: {way} / {limit}", value, bar, most=True, note=note + speed)


def main() -> bool:
    parser = arguments(__doc__)
    parser.add_argument("--batches", type=sizes, default=[1, 8, 16])
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    return report("roofline", lambda: measure(options.batches, options.repeats), options.json)


if __name__ == "__main__":
    sys.exit(not main())
