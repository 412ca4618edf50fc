"""Servers under load: one client, 8 and 32, against one request after the other, and against faster-whisper.

    python -m benchmarks.serve                   # NPDA_MODELS and NPDA_DATA say where whisper-base and its clips are
    python -m benchmarks.serve --only whisper-base --int8

The servers are processes of their own with equally many threads, and are asked in turn (A B A B …) over loopback with
the same clips; a client sends its next one when the last was answered. Ratios are medians over the rounds, of
throughputs by the clock; beside them stand those of the servers' processor time, which other work on the machine
disturbs less but which know nothing of idle cores. p50 and p95 are of all requests.

faster-whisper has no batches over requests: it is asked with its threads in one worker, and with a worker for each
thread, and the faster counts. It needs `pip install faster-whisper`. The store of whisper-base is that of
``whisper_decode``: it is searched as any other, and its advice counts for little.
"""

from __future__ import annotations

import io
import os
import shutil
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import soundfile

from benchmarks.harness import Line, Result, Skipped, arguments, report, sizes
from benchmarks.loaded import Load, Served, load, serving
from benchmarks.whisper_decode import SLIGHT, SPOKEN, WRITTEN, clips, made_store
from npda import audio
from npda.corpus import mini
from npda.corpus.manifest import read_manifest
from npda.datastore.format import write_info
from npda.datastore.store import Datastore
from npda.decoding.knn import tuned
from npda.io.files import cache_dir
from npda.serving.sample import make_sample

CLIENTS = "1,8,32"
TOGETHER, AGAINST = 1.5, 1.5  # bars

Way = tuple[str, int]  # which server, and how many clients
Rounds = Mapping[Way, Sequence[Load]]


def main() -> bool:
    parser = arguments(__doc__, repeats=3)
    parser.set_defaults(threads=2)
    parser.add_argument("--clips", type=int, default=32, help="of every round")
    parser.add_argument("--clients", type=sizes, default=sizes(CLIENTS), help="numbers of them, 1 first")
    parser.add_argument("--only", choices=("mini", "whisper-base"))
    parser.add_argument("--int8", action="store_true", help="ours in eight bits too, which costs whisper quality")
    options = parser.parse_args()
    return report("serve", lambda: measure(options), options.json)


def measure(options: Any) -> Iterator[Result]:
    if options.only in (None, "mini"):
        yield from measure_mini(options)
    if options.only in (None, "whisper-base"):
        yield from measure_whisper(options)


def measure_mini(options: Any) -> Iterator[Result]:
    sample = make_sample(cache_dir() / "benchmarks" / "served", progress=False)
    corpus = mini.prepare(progress=False, only=[("parliament", "test")])
    utterances = read_manifest(corpus.manifest("parliament", "test"))[: options.clips]
    spoken = [as_wav(audio.load(utterance.audio)) for utterance in utterances]
    with TemporaryDirectory() as folder, ExitStack() as stack:
        own = ("--model", f"mini={sample.model}", "--stores", sample.stores, "--data", folder)
        both = {"alone": {"stores": "none"}, "with a store": {"stores": "parliament"}}
        servers = stack.enter_context(ours(own, both, "mini", options.threads))
        rounds = asked(
            servers, [(name, clients) for name in servers for clients in options.clients], spoken, options.repeats
        )
    for name in servers:
        yield from lines(f"mini {name}", rounds, name)


def measure_whisper(options: Any) -> Iterator[Result]:
    model = Path(os.environ.get("NPDA_MODELS", "models")) / "whisper-base"
    domain = Path(os.environ.get("NPDA_DATA", "data")) / "pico-de-en" / "dialogue"
    for path, variable in ((model, "NPDA_MODELS"), (domain, "NPDA_DATA")):
        if not path.is_dir():
            yield Skipped("serve, whisper-base", f"there is no {path}: set {variable}")
            return
    spoken = [as_wav(wave) for wave in clips(domain / "test.tsv", options.clips)]
    kind = "whisper-base int8" if options.int8 else "whisper-base"
    with TemporaryDirectory() as folder, ExitStack() as stack:
        stores = Path(folder) / "stores"
        served_store(made_store(model, domain / "text.tsv.gz"), stores / "dialogue")
        own = (
            "--model", f"whisper-base={model}", "--stores", stores, "--data", Path(folder) / "data",
            "--source-language", SPOKEN, "--language", WRITTEN, *(["--int8"] if options.int8 else []),
        )  # fmt: skip
        both = {"alone": {"stores": "none"}, "with a store": {"stores": "dialogue"}}
        servers = dict(stack.enter_context(ours(own, both, "whisper-base", options.threads)))
        ways = [(name, clients) for name in servers for clients in options.clients]
        theirs = [f"faster-whisper, {workers} × {options.threads // workers}" for workers in {1, options.threads}]
        if find_spec("faster_whisper"):
            for name, workers in zip(theirs, sorted({1, options.threads}), strict=True):
                program = "benchmarks.faster_whisper_server"
                choice = ("--threads", options.threads, "--workers", workers)
                servers[name] = stack.enter_context(
                    serving(program, model, *choice, threads=options.threads, fields={"model": "whisper-base"})
                )
                ways += [(name, clients) for clients in options.clients[:2]]
        rounds = asked(servers, ways, spoken, options.repeats)
    for name in both:
        yield from lines(f"{kind} {name}", rounds, name)
    if theirs[0] not in servers:
        yield Skipped(f"serve: {kind} with a store / faster-whisper", "there is none: pip install faster-whisper")
        return
    for name in theirs:
        yield from lines(name, rounds, name)
    best = max((way for way in ways if way[0] in theirs), key=lambda way: middle(rounds[way]))
    for name, bar in (("alone", None), ("with a store", AGAINST)):
        for clients in options.clients:
            value = ratio(rounds, (name, clients), best)
            note = f"against {best[0]}, {best[1]} client(s): {middle(rounds[best]):.2f} requests a second; "
            note += by_work(rounds, (name, clients), best)
            least = bar if clients == 8 else None
            yield Line(f"serve: {kind} {name}, {clients} clients / faster-whisper", value, least, note=note)


@contextmanager
def ours(
    own: Sequence[object], ways: Mapping[str, Mapping[str, str]], model: str, threads: int
) -> Iterator[dict[str, Served]]:
    """One process; its ways differ in the fields of their requests."""
    with serving("npda", "serve", *own, "--port", 0, threads=threads, fields={}) as server:
        yield {name: replace(server, fields={"model": model, **fields}) for name, fields in ways.items()}


def asked(servers: Mapping[str, Served], ways: Sequence[Way], spoken: Sequence[bytes], repeats: int) -> Rounds:
    """All ways in turn, again and again; a few requests come first and warm up."""
    rounds: dict[Way, list[Load]] = {way: [] for way in ways}
    for served in servers.values():
        load(served, spoken[:2], 2)
    for turn in range(repeats):
        for name, clients in ways:
            found = load(servers[name], spoken, clients)
            rounds[name, clients].append(found)
            print(f"  round {turn + 1}: {name}, {clients} client(s): {found.throughput:.2f} a second", file=sys.stderr)
    return rounds


def lines(title: str, rounds: Rounds, name: str) -> Iterator[Line]:
    """Throughput of one client; then more of them against that."""
    for clients in [clients for server, clients in rounds if server == name]:
        found = rounds[name, clients]
        latencies = [latency for one in found for latency in one.latencies]
        work = statistics.median(one.work for one in found)
        p50, p95 = np.quantile(latencies, (0.5, 0.95))
        note = f"{middle(found):.2f} requests a second, p50 {p50:.2f} s, p95 {p95:.2f} s, {work:.2f} s of work each"
        if clients == 1:
            yield Line(f"serve: {title}, 1 client, requests a second", middle(found), note=note)
        else:
            bar = TOGETHER if clients == 8 and not name.startswith("faster") else None
            value, gain = ratio(rounds, (name, clients), (name, 1)), by_work(rounds, (name, clients), (name, 1))
            yield Line(f"serve: {title}, {clients} clients / 1", value, bar, note=f"{note}; {gain}")


def middle(found: Sequence[Load]) -> float:
    return statistics.median(one.throughput for one in found)


def ratio(rounds: Rounds, over: Way, under: Way) -> float:
    """Of throughputs, round by round."""
    pairs = zip(rounds[over], rounds[under], strict=True)
    return statistics.median(a.throughput / b.throughput for a, b in pairs)


def by_work(rounds: Rounds, over: Way, under: Way) -> str:
    """How many times as much is done in the same time of the processor."""
    pairs = zip(rounds[over], rounds[under], strict=True)
    return f"by work {statistics.median(b.work / a.work for a, b in pairs):.2f}"


def as_wav(samples: np.ndarray) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, samples, audio.SAMPLE_RATE, format="WAV", subtype="PCM_16")
    return file.getvalue()


def served_store(store: Datastore, path: Path) -> None:
    """The same store with what it is searched with, in a folder of its own."""
    shutil.copytree(store.path, path, copy_function=os.link)
    write_info(path, store.info)
    known = tuned.Tuned.model_validate(
        {"k": SLIGHT.k, "lambda": SLIGHT.lambda_, "temperature": SLIGHT.temperature, "way": "text", "beam": 5}
        | {"length_penalty": 0.6, "bleu": 0.0, "base_bleu": 0.0, "store": store.digest}
    )
    (path / tuned.FILE).unlink(missing_ok=True)
    (path / tuned.FILE).write_text(known.model_dump_json(by_alias=True), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(not main())
