"""A long recording through the real whisper-base: ours against faster-whisper's batched pipeline in eight bits.

    python -m benchmarks.long_file                 # an hour; NPDA_MODELS and NPDA_DATA say where models and corpora are
    python -m benchmarks.long_file --minutes 10

Clips of pico-de-en's dialogue test set, joined with pauses of 0.3 to 1.5 s until the recording is long enough; German
into English, beam 5, eight bits, no store. Every side is a process of its own that opens the model, reads the file,
looks for pauses and translates; processor time counts from the model's being open, peak memory is all of the process.
Quality is chrF of everything written against everything that was said, as one text, so that it does not matter where a
side cuts. It needs `pip install faster-whisper`.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import soundfile
import torch

from benchmarks.harness import Line, Result, Skipped, arguments, report
from benchmarks.whisper_decode import BEAM, SPOKEN, WRITTEN, converted
from npda import audio
from npda.corpus.manifest import read_manifest
from npda.decoding.beam import SearchOptions
from npda.evaluation.scores import chrf
from npda.translator import Translator

PAUSES = 0.3, 1.5  # seconds, at the least and at the most
TOGETHER = 8  # stretches that faster-whisper decodes at once
OURS, THEIRS = "ours", "faster-whisper"


def main() -> bool:
    parser = arguments(__doc__, repeats=1)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--side", choices=(OURS, THEIRS), help="run this one over --file; for the benchmark itself")
    parser.add_argument("--file", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.side:
        print(json.dumps(SIDES[options.side](_model(), options.file, options.threads)))
        return True
    return report("long-file", lambda: measure(options), options.json)


def measure(options: Any) -> Iterator[Result]:
    domain = Path(os.environ.get("NPDA_DATA", "data")) / "pico-de-en" / "dialogue"
    for path, variable in ((_model(), "NPDA_MODELS"), (domain, "NPDA_DATA")):
        if not path.is_dir():
            yield Skipped("long-file: ours / faster-whisper", f"there is no {path}: set {variable}")
            return
    sides = [OURS]
    if find_spec("faster_whisper"):
        sides.append(THEIRS)
        converted(_model())  # here, so that it counts on neither side
    with TemporaryDirectory() as folder:
        file = Path(folder) / "long.flac"
        said, seconds = joined(domain / "test.tsv", 60 * options.minutes, file)
        runs: dict[str, list[dict[str, Any]]] = {side: [] for side in sides}
        for _ in range(options.repeats):
            for side in sides:
                runs[side].append(_run(side, file, options.threads))
    found = {side: {key: float(np.median([run[key] for run in runs[side]])) for key in KEYS} for side in sides}
    for side in sides:
        factor = found[side]["cpu"] / seconds
        note = f"{seconds / 60:.1f} min, by the clock {found[side]['wall'] / seconds:.3f}"
        yield Line(f"long-file: {side}, real-time factor", factor, note=note)
        yield Line(f"long-file: {side}, peak memory, MB", found[side]["rss"] / 1024)
        yield Line(f"long-file: {side}, chrF of the whole text", chrf([runs[side][0]["text"]], [said]).value)
    if THEIRS in sides:
        for key, name in (("cpu", "time"), ("rss", "peak memory")):
            yield Line(
                f"long-file: {name}, ours / faster-whisper", found[OURS][key] / found[THEIRS][key], 1.0, most=True
            )
    else:
        yield Skipped("long-file: ours / faster-whisper", "there is none: pip install faster-whisper")


def joined(manifest: Path, seconds: float, file: Path) -> tuple[str, float]:
    """Write so much speech. → what it means in English, and how long it has become"""
    random, said, length = np.random.default_rng(0), [], 0
    with soundfile.SoundFile(file, "w", audio.SAMPLE_RATE, 1) as out:
        for utterance in cycle(read_manifest(manifest)):
            if length >= seconds * audio.SAMPLE_RATE:
                break
            pause = np.zeros(int(random.uniform(*PAUSES) * audio.SAMPLE_RATE), np.float32)
            for samples in (audio.load(utterance.audio), pause):
                out.write(samples)
                length += len(samples)
            said.append(utterance.tgt_text)
    return " ".join(said), length / audio.SAMPLE_RATE


def _run(side: str, file: Path, threads: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.long_file", "--side", side, "--file", str(file)]
    done = subprocess.run([*command, "--threads", str(threads)], check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def ours(model: Path, file: Path, threads: int) -> dict[str, Any]:
    translator = Translator.from_pretrained(model, SPOKEN, int8=True)
    options = SearchOptions(BEAM)
    return _measured(lambda: " ".join(part.text for part in translator.translate_long(file, options, WRITTEN)))


def theirs(model: Path, file: Path, threads: int) -> dict[str, Any]:
    from faster_whisper import BatchedInferencePipeline, WhisperModel  # pyright: ignore[reportMissingImports]

    opened = WhisperModel(str(converted(model)), device="cpu", compute_type="int8", cpu_threads=threads, num_workers=1)
    pipeline = BatchedInferencePipeline(opened)

    def run() -> str:
        segments, _ = pipeline.transcribe(
            str(file), language=SPOKEN, task="translate", beam_size=BEAM, temperature=0.0, batch_size=TOGETHER
        )
        return " ".join(segment.text.strip() for segment in segments)

    return _measured(run)


def _measured(run: Callable[[], str]) -> dict[str, Any]:
    started, worked = time.perf_counter(), time.process_time()
    text = run()
    return {
        "text": text,
        "cpu": time.process_time() - worked,
        "wall": time.perf_counter() - started,
        "rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,  # KB
    }


def _model() -> Path:
    return Path(os.environ.get("NPDA_MODELS", "models")) / "whisper-base"


KEYS = ("cpu", "wall", "rss")
SIDES = {OURS: ours, THEIRS: theirs}


if __name__ == "__main__":
    sys.exit(not main())
