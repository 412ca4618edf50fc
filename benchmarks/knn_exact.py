"""What an exact datastore costs: a beam search alone, with exact search, with Faiss's, and with an index.

    python benchmarks/knn_exact.py
    python benchmarks/knn_exact.py --model DIR    # an aligned model; translates the embedded corpus's parliament speech

All ways are run in turn, again and again, so that whatever else the machine does falls on all of them; medians and
their ratios to the search without neighbours are printed, of the time that passed and of the processors' time, which
other work disturbs less. Without a model a random one of the mini size hears noise.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import faiss
import numpy as np
import torch

from npda.audio import SAMPLE_RATE, Normalizer
from npda.corpus import mini
from npda.corpus.manifest import read_manifest
from npda.corpus.mini.grammar import sentences
from npda.datastore.build import BuildOptions
from npda.datastore.retrieval import LocalRetriever, Neighbours, Retriever
from npda.datastore.search import rescored, set_threads
from npda.datastore.store import Datastore
from npda.decoding.beam import SearchOptions
from npda.decoding.fusion import Fusion
from npda.decoding.knn import KnnFusion, KnnOptions
from npda.models.speech2text import Speech2Text
from npda.models.text_encoder import TextEncoder, TextEncoderSize
from npda.text import Vocabulary
from npda.translator import Audio, Translator

STEPS = 16  # tokens a translation of the random model, about as many as the embedded corpus has


class FaissRetriever:
    """Faiss's own comparison with all keys, and true distances of what it finds."""

    def __init__(self, store: Datastore) -> None:
        self._entries = store.entries
        self._keys = np.concatenate([keys for _, keys in store.entries.blocks(65_536)])
        self._values = store.entries.values()

    def search(self, queries: np.ndarray, k: int) -> Neighbours:
        set_threads()
        _, ids = faiss.knn(queries, self._keys, k)
        distances, ids = rescored(self._entries, queries, ids, k)
        return Neighbours(distances, self._values[ids], ids)


class Timed:
    """Counts the queries of a retriever and its seconds."""

    def __init__(self, retriever: Retriever) -> None:
        self._retriever = retriever
        self.rows, self.seconds = 0, 0.0

    def search(self, queries: np.ndarray, k: int) -> Neighbours:
        start = time.perf_counter()
        found = self._retriever.search(queries, k)
        self.seconds += time.perf_counter() - start
        self.rows += len(queries)
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--sentences", type=int, default=300)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--k", type=int, default=16)
    arguments = parser.parse_args()

    if arguments.model:
        translator = Translator.from_pretrained(arguments.model)
        utterances = read_manifest(mini.prepare().manifest("parliament", "test"))
        sources: list[Audio] = [utterance.audio for utterance in utterances[: arguments.sentences]]
        options = SearchOptions(beam=arguments.beam)
    else:
        translator, sources = random_translator(), noise(arguments.sentences)
        options = SearchOptions(beam=arguments.beam, max_length=STEPS)
    with tempfile.TemporaryDirectory() as folder:
        compare(translator, sources, options, arguments.k, arguments.repeats, Path(folder))


def compare(
    translator: Translator, sources: Sequence[Audio], options: SearchOptions, k: int, repeats: int, folder: Path
) -> None:
    pairs = sentences("parliament", "train")
    store = Datastore.build(translator, pairs, folder / "exact", options=BuildOptions("exact", progress=False))
    lists = BuildOptions("IVF512,SQ8", nprobe=32, rerank=2, progress=False)
    index = Datastore.build(translator, pairs, folder / "index", options=lists)
    ways = {
        "exact": Timed(LocalRetriever(store)),
        "exact by faiss.knn": Timed(FaissRetriever(store)),
        f"{index.info.index.factory}, nprobe {index.info.index.nprobe}": Timed(LocalRetriever(index)),
    }
    print(f"{len(store):,} keys of {store.dim} numbers, {len(sources)} sentences, beam {options.beam}, k {k}")
    print(f"{torch.get_num_threads()} threads, load {os.getloadavg()[0]:.1f} at the start", flush=True)

    seconds: dict[str, list[float]] = {name: [] for name in ["no neighbours", *ways]}
    busy: dict[str, list[float]] = {name: [] for name in seconds}
    for repeat in range(repeats + 1):  # the first one warms up
        for name, times in seconds.items():
            fusions: list[Fusion] = [KnnFusion(ways[name], KnnOptions(k))] if name in ways else []
            start, worked = time.perf_counter(), time.process_time()
            for _ in translator.translate_all(sources, options, fusions=fusions):
                pass
            if repeat:
                times.append(time.perf_counter() - start)
                busy[name].append(time.process_time() - worked)

    base, base_busy = (statistics.median(times["no neighbours"]) for times in (seconds, busy))
    for name, times in seconds.items():
        middle, worked = statistics.median(times), statistics.median(busy[name])
        line = f"{name:24} {middle:6.2f} s {middle / base:5.2f} ×  ({min(times):.2f} to {max(times):.2f} s)"
        line += f"  processors {worked:6.2f} s {worked / base_busy:5.2f} ×"
        if name in ways:
            way = ways[name]
            line += f"  {way.rows // (repeats + 1):,} queries, {1e6 * way.seconds / way.rows:.0f} µs each"
        print(line)
    print(f"load {os.getloadavg()[0]:.1f} at the end")


def random_translator() -> Translator:
    pairs = sentences("general", "train")
    source = Vocabulary.train((pair.src_text for pair in pairs), 400)
    target = Vocabulary.train((pair.tgt_text for pair in pairs), 400)
    torch.manual_seed(0)
    model = Speech2Text.create("mini", target, Normalizer(None, None), source)
    model.text_encoder = TextEncoder(TextEncoderSize(len(source), model.dim, layers=3, heads=4, ffn=256)).eval()
    return Translator(model.eval())


def noise(count: int) -> list[Audio]:
    random = np.random.default_rng(0)
    lengths = random.integers(2 * SAMPLE_RATE, 5 * SAMPLE_RATE, count)
    return [random.normal(scale=0.1, size=length).astype(np.float32) for length in lengths]


if __name__ == "__main__":
    main()
