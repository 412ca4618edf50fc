"""Real speech through the real whisper-base: ours against faster-whisper in eight bits and transformers' ``generate``.

    python -m benchmarks.whisper_decode                  # NPDA_MODELS and NPDA_DATA say where models and corpora are
    python -m benchmarks.whisper_decode --store DIR      # ours with a tuned datastore of this model
    python -m benchmarks.whisper_decode --sentences 0    # without quality, which takes longest
    python -m benchmarks.whisper_decode --repeats 0      # quality alone

Twelve clips of 3 to 8 s one by one, German into English, beam 5; ours with a datastore, the others without. They hear
every clip out to 30 s, ours 5 s of silence after it, and 30 s in what is compared in eight bits. faster-whisper's model
is made by CTranslate2's own converter and kept in the cache; it needs `pip install faster-whisper`.

Quality is BLEU of the first so many sentences of the test set, in float32 and in eight bits, hearing 30 s, no store.

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
from npda.corpus.manifest import Utterance, read_manifest
from npda.corpus.pairs import read_pairs
from npda.datastore.source import BuildOptions
from npda.datastore.store import Datastore
from npda.decoding.beam import SearchOptions
from npda.decoding.fusion import Fusion
from npda.decoding.knn.combiners import KnnOptions
from npda.decoding.knn.tuned import load_tuned
from npda.evaluation.scores import bleu
from npda.io.files import cache_dir
from npda.models.whisper import SILENCE, Whisper
from npda.translator import Translator

CLIPS, BEAM, TOKENS = 12, 5, 100
SPOKEN, WRITTEN = "de", "en"
SHORTEST, LONGEST = 3.0, 8.0  # seconds
PADDED = 30.0  # seconds that Whisper was trained to hear
SLIGHT = KnnOptions(k=8, lambda_=0.02, temperature=10_000.0)  # its squared distances are of the order of 100,000
BAR = 0.8
SENTENCES = 400
INT8_BAR = 0.85  # of faster-whisper's time, all of the 30 s heard
INT8_SPEED = 1.5  # times that of float32
INT8_LOSS = 0.2  # BLEU


def main() -> bool:
    parser = arguments(__doc__, repeats=3)
    parser.add_argument("--store", type=Path, help="datastore for ours")
    parser.add_argument("--clips", type=int, default=CLIPS, help="that are timed")
    parser.add_argument("--sentences", type=int, default=SENTENCES, help="whose BLEU is compared")
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
    exact, small = (Translator.from_pretrained(model, SPOKEN, int8=int8) for int8 in (False, True))
    if options.repeats:
        store = Datastore.open(options.store) if options.store else made_store(model, domain / "text.tsv.gz")
        yield from speed(exact, small, store, clips(domain / "test.tsv", options.clips), model, options)
    if options.sentences:
        yield from quality(exact, small, read_manifest(domain / "test.tsv")[: options.sentences])


def speed(
    exact: Translator, small: Translator, store: Datastore, waves: list[np.ndarray], model: Path, options: Any
) -> Iterator[Result]:
    """exact, small: ours in float32 and in eight bits"""
    knn = load_tuned(store) or SLIGHT
    fusions, small_fusions = ([each.neighbours([store], knn, WRITTEN)] for each in (exact, small))
    name, alone, padded, padded_int8 = "ours with a store", "ours alone", "ours, store, 30 s", "ours, store, 30 s, int8"
    ways = {
        name: ours(exact, waves, fusions),
        alone: ours(exact, waves),
        padded: ours(exact, waves, fusions, PADDED),
        padded_int8: ours(small, waves, small_fusions, PADDED),
        "transformers": theirs(model, waves),
    }
    if find_spec("faster_whisper"):
        ways["faster-whisper int8"] = faster_whisper(model, waves, options.threads)
    times = interleaved(ways, options.repeats)
    if "faster-whisper int8" in ways:
        for way, bar in ((name, BAR), (alone, None), (padded, None), (padded_int8, INT8_BAR)):
            value, note = ratio(times, way, "faster-whisper int8")
            yield Line(f"whisper-decode: {way} / faster-whisper", value, bar, most=True, note=note)
    else:
        yield Skipped(f"whisper-decode: {name} / faster-whisper", "there is none: pip install faster-whisper")
    value, note = ratio(times, padded, padded_int8)
    yield Line("whisper-decode: float32 / int8, store, 30 s", value, INT8_SPEED, note=note)
    value, note = ratio(times, name, "transformers")
    yield Line(f"whisper-decode: {name} / transformers", value, note=note)
    value, note = ratio(times, name, alone)
    yield Line("whisper-decode: with / without a store", value, note=note)


def quality(exact: Translator, small: Translator, utterances: Sequence[Utterance]) -> Iterator[Line]:
    """BLEU in float32 and in eight bits, hearing 30 s."""
    waves = [audio.load(utterance.audio) for utterance in utterances]
    references = [utterance.tgt_text for utterance in utterances]
    whole = bleu(ours(exact, waves, silence=PADDED)(), references).value
    rough = bleu(ours(small, waves, silence=PADDED)(), references).value
    yield Line(f"whisper-decode: BLEU of {len(waves)} sentences, float32", whole)
    yield Line("whisper-decode: BLEU lost in eight bits", whole - rough, INT8_LOSS, most=True, note=f"{rough:.2f}")


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
