"""Real speech through the real whisper-base: ours against faster-whisper in eight bits and transformers' ``generate``.

    python -m benchmarks.whisper_decode                  # NPDA_MODELS and NPDA_DATA say where models and corpora are
    python -m benchmarks.whisper_decode --store DIR      # ours with a datastore, the others without

Twelve clips of 3 to 8 s one by one, German into English, beam 5. faster-whisper's model is made by CTranslate2's own
converter and kept in the cache; it needs `pip install faster-whisper`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from benchmarks.harness import Line, Result, Skipped, arguments, interleaved, ratio, report
from npda import audio
from npda.corpus.manifest import read_manifest
from npda.datastore.store import Datastore
from npda.decoding.beam import SearchOptions
from npda.decoding.fusion import Fusion
from npda.evaluation.tuned import load_tuned
from npda.files import cache_dir
from npda.models.whisper import Whisper
from npda.translator import Translator

CLIPS, BEAM, TOKENS = 12, 5, 100
SPOKEN, WRITTEN = "de", "en"
SHORTEST, LONGEST = 3.0, 8.0  # seconds
BAR = 0.8


def main() -> bool:
    parser = arguments(__doc__, repeats=3)
    parser.add_argument("--store", type=Path, help="datastore for ours")
    parser.add_argument("--int8", action="store_true", help="ours in eight bits too, which costs it quality")
    parser.add_argument("--clips", type=int, default=CLIPS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    return report("whisper-decode", lambda: measure(options), options.json)


def measure(options: Any) -> Iterator[Result]:
    name = "whisper-decode: ours / faster-whisper int8"
    model = Path(os.environ.get("NPDA_MODELS", "models")) / "whisper-base"
    speech = Path(os.environ.get("NPDA_DATA", "data")) / "pico-de-en" / "dialogue" / "test.tsv"
    for path, variable in ((model, "NPDA_MODELS"), (speech, "NPDA_DATA")):
        if not path.exists():
            yield Skipped(name, f"there is no {path}: set {variable}")
            return
    waves = clips(speech, options.clips)
    kind = "int8" if options.int8 else "float32"
    ways = {
        f"ours {kind}": ours(model, waves, options.int8, options.store),
        "transformers": theirs(model, waves),
    }
    if find_spec("faster_whisper"):
        ways["faster-whisper int8"] = faster_whisper(model, waves, options.threads)
    times = interleaved(ways, options.repeats)
    with_store = " with a store" if options.store else ""
    if "faster-whisper int8" in ways:
        value, note = ratio(times, f"ours {kind}", "faster-whisper int8")
        yield Line(f"whisper-decode: ours {kind}{with_store} / faster-whisper", value, BAR, most=True, note=note)
    else:
        yield Skipped(name, "there is no faster-whisper: pip install faster-whisper")
    value, note = ratio(times, f"ours {kind}", "transformers")
    yield Line(f"whisper-decode: ours {kind}{with_store} / transformers", value, note=note)


def clips(manifest: Path, count: int) -> list[np.ndarray]:
    """The first so many of the right length, 16 kHz."""
    found: list[np.ndarray] = []
    for utterance in read_manifest(manifest):
        wave = audio.load(utterance.audio)
        if SHORTEST <= len(wave) / audio.SAMPLE_RATE <= LONGEST:
            found.append(wave)
        if len(found) == count:
            break
    return found


def ours(model: Path, waves: list[np.ndarray], int8: bool, store: Path | None) -> Callable[[], list[str]]:
    translator = Translator.from_pretrained(model, SPOKEN, int8=int8)
    options = SearchOptions(BEAM, max_length=TOKENS)
    fusions: list[Fusion] = []
    if store is not None:
        opened = Datastore.open(store, translator.backbone)
        tuned = load_tuned(opened)
        assert tuned is not None, f"{store} is not tuned"
        fusions = [translator.neighbours([opened], tuned, WRITTEN)]

    def run() -> list[str]:
        return [str(t) for wave in waves for t in translator.translate_all([wave], options, WRITTEN, fusions)]

    return run


def theirs(directory: Path, waves: list[np.ndarray]) -> Callable[[], list[str]]:
    backbone = Whisper.from_pretrained(directory, SPOKEN)
    generate = cast(Any, backbone.model).generate

    def run() -> list[str]:
        texts = []
        for wave in waves:
            heard = backbone.extractor(wave, sampling_rate=audio.SAMPLE_RATE, return_tensors="pt").input_features
            with torch.inference_mode():
                rows = generate(heard, language=SPOKEN, task="translate", num_beams=BEAM, max_new_tokens=TOKENS)
            texts.append(backbone.target.decode(rows[0].tolist()))
        return texts

    return run


def faster_whisper(directory: Path, waves: list[np.ndarray], threads: int) -> Callable[[], list[str]]:
    from faster_whisper import WhisperModel  # pyright: ignore[reportMissingImports]

    model = WhisperModel(
        str(converted(directory)), device="cpu", compute_type="int8", cpu_threads=threads, num_workers=1
    )

    def text(wave: np.ndarray) -> str:
        segments, _ = model.transcribe(
            wave, language=SPOKEN, task="translate", beam_size=BEAM, temperature=0.0, without_timestamps=True,
            condition_on_previous_text=False, max_new_tokens=TOKENS,
        )  # fmt: skip
        return "".join(segment.text for segment in segments).strip()

    return lambda: [text(wave) for wave in waves]


def converted(directory: Path) -> Path:
    """The model for CTranslate2, made when it is not there yet."""
    from ctranslate2.converters import TransformersConverter  # pyright: ignore[reportMissingImports]

    made = cache_dir() / "benchmarks" / f"{directory.name}-ct2-int8"
    if not (made / "model.bin").is_file():
        files = ["tokenizer.json", "preprocessor_config.json"]
        TransformersConverter(str(directory), copy_files=files).convert(str(made), quantization="int8", force=True)
    return made


if __name__ == "__main__":
    sys.exit(not main())
