"""Real speech through the real whisper-base: ours against faster-whisper in eight bits and transformers' ``generate``.

    python -m benchmarks.whisper_decode                  # NPDA_MODELS and NPDA_DATA say where models and corpora are
    python -m benchmarks.whisper_decode --store DIR      # ours with a tuned datastore of this model

Twelve clips of 3 to 8 s one by one, German into English, beam 5; ours with a datastore, the others without. They hear
every clip out to 30 s, ours 5 s of silence after it; what ours takes with 30 s stands beside it, for with less Whisper
repeats itself more often (``whisper_silence``). faster-whisper's model is made by CTranslate2's own converter and kept
in the cache; it needs `pip install faster-whisper`.

Without ``--store`` one is made, in two minutes, and kept in the cache: the decoder's states over all translations of
the domain's text, 144,000 of them, in the index and on the disk that any store has. The text path they are read through
is random, as training it takes an hour: it finds what it finds in the usual time, but its advice is worth little and
counts for little (λ 0.02), so that what is written, and how much of it, is the model's own.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from transformers.utils import logging as transformers_logging

from benchmarks.harness import Line, Result, Skipped, arguments, interleaved, ratio, report
from benchmarks.keys import indexed
from npda import audio
from npda.corpus.manifest import read_manifest
from npda.corpus.pairs import read_pairs
from npda.datastore.source import BuildOptions
from npda.datastore.store import Datastore
from npda.decoding.beam import SearchOptions
from npda.decoding.fusion import Fusion
from npda.decoding.knn.combiners import KnnOptions
from npda.decoding.knn.tuned import load_tuned
from npda.io.files import cache_dir
from npda.models.whisper import SILENCE, Whisper
from npda.translator import Translator

CLIPS, BEAM, TOKENS = 12, 5, 100
SPOKEN, WRITTEN = "de", "en"
SHORTEST, LONGEST = 3.0, 8.0  # seconds
PADDED = 30.0  # seconds that Whisper was trained to hear
SLIGHT = KnnOptions(k=8, lambda_=0.02, temperature=10_000.0)  # its squared distances are of the order of 100,000
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
    model = Path(os.environ.get("NPDA_MODELS", "models")) / "whisper-base"
    domain = Path(os.environ.get("NPDA_DATA", "data")) / "pico-de-en" / "dialogue"
    for path, variable in ((model, "NPDA_MODELS"), (domain, "NPDA_DATA")):
        if not path.is_dir():
            yield Skipped("whisper-decode: ours / faster-whisper", f"there is no {path}: set {variable}")
            return
    waves = clips(domain / "test.tsv", options.clips)
    kind = "ours in int8" if options.int8 else "ours"
    name, alone, padded = f"{kind} with a store", f"{kind} alone", f"{kind}, store, 30 s"
    translator = Translator.from_pretrained(model, SPOKEN, int8=options.int8)
    store = Datastore.open(options.store) if options.store else made_store(model, domain / "text.tsv.gz")
    fusions = [translator.neighbours([store], load_tuned(store) or SLIGHT, WRITTEN)]
    ways = {
        name: ours(translator, waves, fusions),
        alone: ours(translator, waves),
        padded: ours(translator, waves, fusions, PADDED),
        "transformers": theirs(model, waves),
    }
    if find_spec("faster_whisper"):
        ways["faster-whisper int8"] = faster_whisper(model, waves, options.threads)
    times = interleaved(ways, options.repeats)
    if "faster-whisper int8" in ways:
        for way, bar in ((name, BAR), (alone, None), (padded, None)):
            value, note = ratio(times, way, "faster-whisper int8")
            yield Line(f"whisper-decode: {way} / faster-whisper", value, bar, most=True, note=note)
    else:
        yield Skipped(f"whisper-decode: {name} / faster-whisper", "there is none: pip install faster-whisper")
    value, note = ratio(times, name, "transformers")
    yield Line(f"whisper-decode: {name} / transformers", value, note=note)
    value, note = ratio(times, name, alone)
    yield Line("whisper-decode: with / without a store", value, note=note)


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


def made_store(model: Path, text: Path) -> Datastore:
    """A store of a domain's text for a model that cannot read, made when it is not there yet."""
    path = cache_dir() / "benchmarks" / f"{model.name}-{text.parent.name}"
    if not path.is_dir():
        backbone = Whisper.from_pretrained(model, SPOKEN)
        torch.manual_seed(0)
        backbone.add_text_encoder()
        options = BuildOptions("exact", language=WRITTEN, progress=False)
        Datastore.build(backbone, read_pairs(text), path, options=options)
    return indexed(Datastore.open(path), "auto")[0]


def ours(
    translator: Translator, waves: list[np.ndarray], fusions: Sequence[Fusion] = (), silence: float = SILENCE
) -> Callable[[], list[str]]:
    options = SearchOptions(BEAM, max_length=TOKENS)

    def run() -> list[str]:
        cast(Whisper, translator.backbone).silence = silence
        return [str(t) for wave in waves for t in translator.translate_all([wave], options, WRITTEN, fusions)]

    return run


def theirs(directory: Path, waves: list[np.ndarray]) -> Callable[[], list[str]]:
    backbone = Whisper.from_pretrained(directory, SPOKEN)
    model = cast(Any, backbone.model)
    transformers_logging.set_verbosity_error()  # or it warns of two limits with every clip

    def run() -> list[str]:
        texts = []
        for wave in waves:
            heard = backbone.extractor(wave, sampling_rate=audio.SAMPLE_RATE, return_tensors="pt").input_features
            with torch.inference_mode():
                rows = model.generate(heard, language=SPOKEN, task="translate", num_beams=BEAM, max_new_tokens=TOKENS)
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
