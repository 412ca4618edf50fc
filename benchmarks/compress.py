"""How small a store may be: BLEU by the bytes of it.

    python -m benchmarks.compress
    python -m benchmarks.compress --way text       # sentences are read, not heard

The shipped model and a store of parliament's text, compressed as `npda compress` does: fewer dimensions (PCA), fewer
keys (those merged that say the same nearby), and both. k, λ and T are tuned on dev for the whole store and kept, so
that nothing but the store differs; BLEU is of the test set.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from benchmarks.harness import Line, arguments, report
from benchmarks.parliament import held_out, shipped, text_store
from npda.datastore.compress import CompressOptions, compress
from npda.datastore.pruning import PruneOptions
from npda.datastore.store import Datastore
from npda.decoding.beam import SearchOptions
from npda.decoding.knn.fusion import KnnFusion
from npda.evaluation.devset import DevSet, Way
from npda.evaluation.scores import bleu
from npda.evaluation.tuning.search import tune

DIMS = None, 64, 32, 16  # of 128
KEPT = None, 0.5, 0.25  # of the keys, if so many can go


def measure(way: Way, count: int, folder: Path) -> Iterator[Line]:
    backbone, search = shipped(), SearchOptions()
    whole = text_store(backbone, folder / "store")
    dev, test = (held_out(way, split, count) for split in ("dev", "test"))
    tuned = tune(backbone, whole, dev, way, search, progress=False).best
    judged = DevSet(backbone, test, way)
    for number, (dim, kept) in enumerate(product(DIMS, KEPT)):
        store = smaller(whole, folder / f"{number}", dim, kept)
        value = bleu(judged.translations(search, [KnnFusion(store, tuned)]), judged.references).value
        size, keys = store.sizes()["total"], len(store) / len(whole)
        note = f"{size / 2**20:.1f} MB, {size / whole.sizes()['total']:.0%} of the bytes, {keys:.0%} of the keys"
        yield Line(f"compress, {dim or whole.dim} dimensions, {kept or 1:.0%} kept: BLEU", value, note=note)


def smaller(store: Datastore, path: Path, dim: int | None, kept: float | None) -> Datastore:
    if dim is None and kept is None:
        return store
    prune = None if kept is None else PruneOptions(keep=kept)
    return compress(store, path, CompressOptions(dim=dim, prune=prune, progress=False))


def main() -> bool:
    parser = arguments(__doc__)
    parser.add_argument("--way", choices=["speech", "text"], default="speech")
    parser.add_argument("--sentences", type=int, default=300, help="of dev and of test")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    with TemporaryDirectory() as folder:
        return report("compress", lambda: measure(options.way, options.sentences, Path(folder)), options.json)


if __name__ == "__main__":
    sys.exit(not main())
