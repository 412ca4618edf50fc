"""What looking at a store's checksums costs, as a share of a decode: when it was looked at before, and the first time.

    python -m benchmarks.verify
    python -m benchmarks.verify --keys 120000

The decode is 64 sentences, eight at a time, by the model of ``decode`` alone; with a store it takes longer, and the
share is smaller. The first time is the whole check, as if nothing went on beside it; of a store of this size it is done
in the background while sentences are decoded.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import torch

from benchmarks import keys
from benchmarks.decode import model, ours, speech
from benchmarks.harness import Line, Result, Skipped, arguments, interleaved, ratio, report
from benchmarks.search import KEYS
from npda.datastore.checking import Checking, files_of
from npda.datastore.store import Datastore
from npda.io import digests

BATCHES, BATCH = 8, 8
REMEMBERED = 0.02


def measure(repeats: int, size: int) -> Iterator[Result]:
    backbone = model()
    if lack := keys.lack_of_disk(size, backbone.dim):
        yield Skipped("verify", lack)
        return
    store = keys.store(size, backbone.dim)
    store.checking.finish()
    features = speech(BATCH)

    def decode() -> None:
        for _ in range(BATCHES):
            ours(backbone, features)

    def first() -> None:
        for file, wanted in files_of(store.path, store.info):
            assert digests.file_digest(file) == wanted.sha256

    def remembered() -> None:
        Checking(store.path, store.info).finish()

    def opening() -> None:
        Datastore.open(store.path).checking.finish()

    times = interleaved({"decode": decode, "remembered": remembered, "first": first, "opening": opening}, repeats)
    for name, bar in (("remembered", REMEMBERED), ("opening", None), ("first", None)):
        value, note = ratio(times, name, "decode")
        yield Line(f"verify, {size:,} keys: {name} / decode of {BATCHES * BATCH}", value, bar, most=True, note=note)


def main() -> bool:
    parser = arguments(__doc__)
    parser.add_argument("--keys", type=int, default=KEYS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    return report("verify", lambda: measure(options.repeats, options.keys), options.json)


if __name__ == "__main__":
    sys.exit(not main())
