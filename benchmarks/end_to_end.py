"""From files to text: sentences and seconds of speech a second, with the shipped model.

    python -m benchmarks.end_to_end

Recordings of parliament's test set through ``Translator.translate_all``, as `npda translate` calls it: files are read,
features computed, batches sorted and decoded, with a beam of 5, alone and with a store of parliament's training text.
There is no bar; figures are by the processor's time, those by the clock stand beside them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from benchmarks.harness import Line, arguments, interleaved, ratio, report
from benchmarks.parliament import shipped, text_store
from npda.corpus import mini
from npda.corpus.manifest import read_manifest
from npda.decoding.beam import SearchOptions
from npda.decoding.fusion import Fusion
from npda.decoding.knn.combiners import KnnOptions
from npda.translator import Translator

KNN = KnnOptions(k=8, lambda_=0.8, temperature=10.0)  # what tuning chooses here


def measure(count: int, repeats: int, folder: Path) -> Iterator[Line]:
    translator = Translator(shipped())
    store = text_store(translator.backbone, folder / "store")
    corpus = mini.prepare(progress=False, only=[("parliament", "test")])
    utterances = read_manifest(corpus.manifest("parliament", "test"))[:count]
    files = [utterance.audio for utterance in utterances]
    spoken = sum(utterance.n_frames for utterance in utterances) / 100

    def way(*fusions: Fusion) -> Callable[[], object]:
        return lambda: list(translator.translate_all(files, SearchOptions(), fusions=fusions))

    ways = {"alone": way(), "with a store": way(translator.neighbours([store], KNN))}
    times = interleaved(ways, repeats)
    for name, timing in times.items():
        for unit, amount in (("sentences", len(files)), ("seconds of speech", spoken)):
            note = f"by the clock {amount / timing.wall:.1f}"
            yield Line(f"end to end, {name}: {unit} a second", amount / timing.cpu, note=note)
    value, note = ratio(times, "with a store", "alone")
    yield Line(f"end to end: with / without {len(store):,} keys", value, note=note)


def main() -> bool:
    parser = arguments(__doc__, repeats=3)
    parser.add_argument("--sentences", type=int, default=200)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    with TemporaryDirectory() as folder:
        return report("end-to-end", lambda: measure(options.sentences, options.repeats, Path(folder)), options.json)


if __name__ == "__main__":
    sys.exit(not main())
