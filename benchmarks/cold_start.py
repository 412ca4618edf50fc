"""From a cold start to the first translation with a store of 1.2 million keys, against loading the model alone.

    python -m benchmarks.cold_start

Every way is a process of its own. *model*: imports the translator and loads the model, of the paper's bilingual size,
and does nothing with it. *translation*: the same, and then hears 500 frames and writes 40 tokens, beam 5. *with store*:
opens the store as well, and lets it steer. *never seen*: the same with a store whose checksums nobody has looked at
yet. Files are in the system's cache. The time is that of the processor, all threads together, from the start of the
process to its end.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks import keys
from benchmarks.harness import Line, Result, Skipped, Timing, arguments, ratio, report
from benchmarks.search import KEYS
from npda.io.files import atomic_directory, cache_dir

BAR = 1.3
WAYS = "model", "translation", "with store", "never seen"
_LETTERS = 16


def model_directory() -> Path:
    """A model with random weights and as many pieces as the keys have tokens, made once and kept."""
    from npda.audio import Normalizer
    from npda.models.speech2text import Speech2Text
    from npda.text import Vocabulary

    path = cache_dir() / "benchmarks" / "paper-bilingual"
    if not path.is_dir():
        random = np.random.default_rng(0)
        words = ["".join(chr(97 + letter) for letter in random.integers(0, _LETTERS, 6)) for _ in range(20_000)]
        target = Vocabulary.train(words, keys.TOKENS)
        with atomic_directory(path) as folder:
            Speech2Text.create("paper-bilingual", target, Normalizer()).save_pretrained(folder)
    return path


def start(way: str, model: Path, store: Path, index: str) -> None:
    """What one of the processes does."""
    import torch

    torch.set_num_threads(1)
    from npda.translator import Translator

    backbone = Translator.from_pretrained(model).backbone
    if way == "model":
        return
    from npda.datastore.format import IndexInfo
    from npda.datastore.store import Datastore
    from npda.decoding.beam import SearchOptions, search
    from npda.decoding.knn.steering import steer

    fusions = []
    if way != "translation":
        opened = Datastore.open(store)
        # Stores of made-up keys have several indexes, which lie beside them.
        info = opened.info.model_copy(update={"index": IndexInfo.model_validate_json(index)})
        fusions = [steer(backbone, [Datastore(store, info)])]
    features = torch.randn(1, 500, 80, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        memory = backbone.hear(features, torch.tensor([500]))
    search(backbone, memory, backbone.prompt(), SearchOptions(max_length=40, stop_loops=False), fusions)


def timed(way: str, arguments: Sequence[str], cache: Path) -> Timing:
    """A whole process. cache: of the user, where checksums are remembered"""
    command = [sys.executable, "-m", "benchmarks.cold_start", "--way", way, *arguments]
    environment = {**os.environ, "NPDA_CACHE": str(cache)}
    began = time.perf_counter()
    process = subprocess.Popen(command, env=environment)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return Timing(used.ru_utime + used.ru_stime, time.perf_counter() - began)


def measure(repeats: int, size: int) -> Iterator[Result]:
    model = model_directory()
    if lack := keys.lack_of_disk(size):
        yield Skipped("cold start", lack)
        return
    store, _ = keys.indexed(keys.store(size), "auto")
    given = [str(model), str(store.path), store.info.index.model_dump_json()]
    found: dict[str, list[Timing]] = {way: [] for way in WAYS}
    with TemporaryDirectory() as folder:
        for turn in range(repeats + 1):
            for way in WAYS:
                fresh = Path(folder) / f"{turn}" if way == "never seen" else Path(folder)
                took = timed(way, given, fresh)
                if turn:
                    found[way].append(took)
    times = {
        way: Timing(statistics.median(t.cpu for t in taken), statistics.median(t.wall for t in taken))
        for way, taken in found.items()
    }
    for way, bar in (("with store", BAR), ("never seen", None), ("translation", None)):
        value, note = ratio(times, way, "model")
        yield Line(f"cold start, {size:,} keys: {way} / model", value, bar, most=True, note=note)


def main() -> bool:
    parser = arguments(__doc__, repeats=3)
    parser.add_argument("--keys", type=int, default=KEYS)
    parser.add_argument("--way", nargs=4, help="do this in this process: a way, model, store and index")
    options = parser.parse_args()
    if options.way is not None:
        way, model, store, index = options.way
        start(way, Path(model), Path(store), index)
        return True
    return report("cold start", partial(measure, options.repeats, options.keys), options.json)


if __name__ == "__main__":
    sys.exit(not main())
