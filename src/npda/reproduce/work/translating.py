"""What is done with a trained system: its datastore built, its parameters tuned on dev, its tests translated."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch

from npda import audio
from npda.cascade import Cascade
from npda.corpus.manifest import Utterance, read_manifest
from npda.corpus.pairs import Pair, read_pairs
from npda.corpus.sampling import chosen
from npda.corpus.voices import voice
from npda.datastore.counter import build_counter
from npda.datastore.source import CHUNK, SPOKEN_CHUNK, BuildOptions, Source
from npda.datastore.store import Datastore
from npda.decoding.beam import SearchOptions
from npda.decoding.fusion import Fusion
from npda.decoding.knn.combiners import KnnOptions
from npda.decoding.knn.fusion import EndVotes
from npda.decoding.knn.guard import Guard
from npda.decoding.knn.guarded import GuardedFusion, GuardedStore
from npda.decoding.shallow import ShallowFusion
from npda.evaluation.devset import DevSet
from npda.evaluation.scores import bleu
from npda.evaluation.similarity import similarity
from npda.evaluation.tuning.climb import Space
from npda.evaluation.tuning.guard import Guarding
from npda.evaluation.tuning.search import LENGTH_PENALTIES, tune
from npda.evaluation.tuning.shallow import tune_shallow
from npda.io.files import atomic_write, write_lines
from npda.models.inputs import hear_batch
from npda.models.language_model import LanguageModel
from npda.models.speech2text import Speech2Text
from npda.reproduce.work import corpora
from npda.reproduce.work.training import MODEL
from npda.stages.plan import StageLog
from npda.systems.catalogue import System
from npda.systems.variants import Figures, variant_fusion
from npda.translator import Translator

STORE, COUNTER = "store", "counter"
FRACTIONS = (0.2, 0.4, 0.6, 0.8, 1.0)  # of the text, in the datastore-size curve
BATCHES = (1, 8, 16, 32)  # sentences at once, in the table of speeds
_TIMED = 64  # sentences that are timed
_REPEATS = 3


@dataclass(frozen=True)
class Task:
    """A system in one direction and language; the values are names of stages.

    tests: what is translated, the domain's first, by the name of the corpus; language: None if the model has but one
    """

    system: System
    model: str
    tests: Mapping[str, str]
    search: SearchOptions
    language: str | None = None
    domain: str = ""
    general: str = ""
    data: str = ""  # what the store is made of
    voice: str = ""  # that reads it aloud, for stores of spoken text
    store: str = ""
    counter: str = ""  # the counter-store of a guarded system
    tuning: str = ""
    language_model: str = ""
    recogniser: str = ""


def build(directory: Path, needed: Mapping[str, Path], log: StageLog, task: Task) -> None:
    """The system's datastore."""
    translator = Translator.from_pretrained(needed[task.model] / MODEL)
    assert task.system.store is not None
    way = task.system.store.way
    chunk = SPOKEN_CHUNK if way == "spoken" else CHUNK
    options = BuildOptions(language=task.language, chunk=chunk)
    source = _source(needed[task.data], way, task.data, task.voice)
    store = Datastore.build_from(translator, source, directory / STORE, options)
    log(f"{len(store)} keys")


def build_general(directory: Path, needed: Mapping[str, Path], log: StageLog, task: Task, text: str) -> None:
    """The counter-store of a model. text: the stage that holds it"""
    translator = Translator.from_pretrained(needed[task.model] / MODEL)
    held_out = [
        Pair(u.src_text, u.tgt_text, u.id, u.tgt_lang)
        for u in read_manifest(corpora.speech(needed[task.general], "dev"))
    ]
    pairs = read_pairs(corpora.text(needed[text], "train"))
    counter = build_counter(
        translator.backbone, pairs, directory / COUNTER, held_out, BuildOptions(language=task.language)
    )
    log(f"{len(counter.store)} keys")


def tune_store(directory: Path, needed: Mapping[str, Path], log: StageLog, task: Task) -> None:
    """k, λ and T on the domain's dev speech, as in the paper."""
    translator = Translator.from_pretrained(needed[task.model] / MODEL)
    store = Datastore.open(needed[task.store] / STORE, translator.backbone)
    dev = read_manifest(corpora.speech(needed[task.domain], "dev"))
    guarding = _guarding(translator, store, needed, task) if task.counter else None
    space = Space(length_penalties=LENGTH_PENALTIES) if guarding is not None else Space()
    tuning = tune(
        translator.backbone, store, dev, "speech", task.search, space=space, language=task.language, guarding=guarding
    )
    if guarding is not None:
        _write(directory / "guard.json", asdict(guarding.found.guard))
    _write(directory / "tuning.json", tuning.record())
    log(f"{tuning.best}: {tuning.base_bleu:.2f} → {tuning.bleu:.2f} BLEU on dev")


def tune_language_model(directory: Path, needed: Mapping[str, Path], log: StageLog, task: Task) -> None:
    """The weight of the language model on the domain's dev speech."""
    translator = Translator.from_pretrained(needed[task.model] / MODEL)
    language_model = LanguageModel.from_pretrained(needed[task.language_model] / MODEL)
    dev = read_manifest(corpora.speech(needed[task.domain], "dev"))
    tuning = tune_shallow(translator.backbone, language_model, dev, options=task.search, language=task.language)
    _write(directory / "tuning.json", tuning.record())
    log(f"weight {tuning.weight:g}: {tuning.base_bleu:.2f} → {tuning.bleu:.2f} BLEU on dev")


def translate(directory: Path, needed: Mapping[str, Path], log: StageLog, task: Task) -> None:
    """The tests: hypotheses and references as text, BLEU in result.json."""
    translator = _translator(needed, task)
    fusions, figures = _fusions(directory, translator, needed, task)
    result: dict[str, Any] = {"bleu": {}, "seconds": {}}
    for corpus, stage in task.tests.items():
        test = read_manifest(corpora.tested(needed[stage]))
        start = time.process_time()
        found = translator.translate_all((u.audio for u in test), task.search, task.language, fusions)
        texts = [str(translation) for translation in found]
        references = [u.tgt_text for u in test]
        score = bleu(texts, references)
        write_lines(directory / f"{corpus}.txt", texts)
        write_lines(directory / f"{corpus}.reference.txt", references)
        result["bleu"][corpus] = score.value
        result["seconds"][corpus] = round(time.process_time() - start, 2)
        result["signature"] = score.signature
        log(f"{corpus}: {score.value:.2f} BLEU")
        result.setdefault("figures", figures() | _frames_kept(translator, test))  # of the domain's test, the first
    _write(directory / "result.json", result)


def measure_similarity(directory: Path, needed: Mapping[str, Path], log: StageLog, task: Task) -> None:
    """How alike the decoder states of speech and of text are, on the domain's test."""
    backbone = Translator.from_pretrained(needed[task.model] / MODEL).backbone
    test = read_manifest(corpora.speech(needed[task.domain], "test"))
    found = similarity(backbone, test, task.language)
    _write(directory / "result.json", asdict(found))
    log(f"cosine {found.cosine:.3f}, squared distance {found.squared_distance:.1f}")


def measure_sizes(directory: Path, needed: Mapping[str, Path], log: StageLog, task: Task) -> None:
    """BLEU with ever larger parts of the text, each of which holds the smaller ones, at the tuned parameters."""
    translator = Translator.from_pretrained(needed[task.model] / MODEL)
    options = _tuned(needed[task.tuning])
    pairs = read_pairs(corpora.text(needed[task.data], "train"))
    test = read_manifest(corpora.speech(needed[task.domain], "test"))
    points = []
    for fraction in FRACTIONS:
        marks = chosen(len(pairs), max(1, round(fraction * len(pairs))), seed=0)
        part = [pair for pair, taken in zip(pairs, marks, strict=True) if taken]
        build_options = BuildOptions(language=task.language)
        path = directory / f"store-{len(part)}"
        store = Datastore.build_from(translator, Source("text", part), path, build_options)
        fusions = [translator.neighbours([store], options)]
        texts = [str(t) for t in translator.translate_all((u.audio for u in test), task.search, task.language, fusions)]
        value = bleu(texts, [u.tgt_text for u in test]).value
        points.append({"fraction": fraction, "pairs": len(part), "keys": len(store), "bleu": value})
        log(f"{fraction:.0%}: {value:.2f} BLEU")
    _write(directory / "result.json", points)


def measure_speed(directory: Path, needed: Mapping[str, Path], log: StageLog, task: Task) -> None:
    """Time with the datastore over time without it, for k × batch: one thread's time, the two in turns."""
    translator = Translator.from_pretrained(needed[task.model] / MODEL)
    store = Datastore.open(needed[task.store] / STORE, translator.backbone)
    tuned = _tuned(needed[task.tuning])
    audio = [u.audio for u in read_manifest(corpora.speech(needed[task.domain], "test"))[:_TIMED]]
    rows = []
    for k in (4, 8, 16, 32):
        knn = [translator.neighbours([store], KnnOptions(k, tuned.lambda_, tuned.temperature))]
        for batch in BATCHES:
            times: dict[bool, list[float]] = {False: [], True: []}
            for _ in range(_REPEATS):
                for with_store, fusions in ((False, []), (True, knn)):
                    times[with_store].append(_seconds(translator, audio, batch, task, fusions))
            base, adapted = median(times[False]), median(times[True])
            row = {"k": k, "batch": batch, "base": base / len(audio), "ratio": adapted / base}
            rows.append(row)
            log(f"k {k}, batch {batch}: ×{row['ratio']:.2f}")
    _write(directory / "result.json", rows)


def _seconds(translator: Translator, audio: Sequence[str], batch: int, task: Task, fusions: Sequence[Fusion]) -> float:
    start = time.process_time()
    for first in range(0, len(audio), batch):
        list(translator.translate_all(audio[first : first + batch], task.search, task.language, fusions))
    return time.process_time() - start


def _translator(needed: Mapping[str, Path], task: Task) -> Translator | Cascade:
    if task.recogniser:
        return Cascade.from_pretrained(needed[task.recogniser] / MODEL, needed[task.model] / MODEL)
    return Translator.from_pretrained(needed[task.model] / MODEL)


def _fusions(
    directory: Path, translator: Translator | Cascade, needed: Mapping[str, Path], task: Task
) -> tuple[list[Fusion], Figures]:
    if task.language_model:
        language_model = LanguageModel.from_pretrained(needed[task.language_model] / MODEL)
        weight = json.loads((needed[task.tuning] / "tuning.json").read_text())["weight"]
        return [ShallowFusion(language_model, weight)], dict
    if task.system.store is not None:
        assert isinstance(translator, Translator)
        store = Datastore.open(needed[task.store] / STORE, translator.backbone)
        if task.counter:
            return [_guarded(translator, store, needed, task)], dict
        dev = read_manifest(corpora.speech(needed[task.domain], "dev"))
        fusion, figures = variant_fusion(
            task.system.store.variant,
            translator.backbone,
            store,
            _tuned(needed[task.tuning]),
            dev,
            task.search,
            task.language,
            directory,
        )
        return [fusion], figures
    return [], dict


def _guarding(translator: Translator, store: Datastore, needed: Mapping[str, Path], task: Task) -> Guarding:
    """What fits the gate of a store, by the general corpus's dev speech."""
    general = read_manifest(corpora.speech(needed[task.general], "dev"))
    devset = DevSet(translator.backbone, general, "speech", task.language)
    return Guarding(store, _counter(translator, needed, task), devset, task.search)


def _guarded(translator: Translator, store: Datastore, needed: Mapping[str, Path], task: Task) -> Fusion:
    guard = Guard(**json.loads((needed[task.tuning] / "guard.json").read_text(encoding="utf-8")))
    chosen = _chosen(needed[task.tuning])
    ends = EndVotes(translator.backbone.target.eos, chosen["end_weight"])
    combined = GuardedStore(store, _tuned(needed[task.tuning]), guard, ends, length_penalty=chosen["length_penalty"])
    return GuardedFusion([combined], _counter(translator, needed, task))


def _counter(translator: Translator, needed: Mapping[str, Path], task: Task) -> Datastore:
    return Datastore.open(needed[task.counter] / COUNTER / "store", translator.backbone)


def _frames_kept(translator: Translator | Cascade, test: Sequence[Utterance]) -> dict[str, float]:
    """Of a model with adaptive feature selection."""
    backbone = translator.backbone if isinstance(translator, Translator) else None
    if not isinstance(backbone, Speech2Text) or backbone.selection is None:
        return {}
    kept = total = 0
    for utterance in test:
        features = backbone.features(audio.load(utterance.audio))
        with torch.inference_mode():
            kept += int(hear_batch(backbone, [features]).mask.sum())
            total += int(backbone.encoded_lengths(torch.tensor([len(features)])))
    return {"share of frames kept": kept / total}


def _chosen(directory: Path) -> dict[str, float]:
    return json.loads((directory / "tuning.json").read_text(encoding="utf-8"))["best"]


def _tuned(directory: Path) -> KnnOptions:
    best: Any = _chosen(directory)
    return KnnOptions(best["k"], best["lambda"], best["temperature"])


def _source(directory: Path, way: str, name: str, speaker: str) -> Source:
    if way == "speech":
        return Source(name, read_manifest(corpora.speech(directory, "train")), "speech")
    pairs = read_pairs(corpora.text(directory, "train"))
    if way == "spoken":
        return Source(name, pairs, "spoken", voice=voice(speaker))
    return Source(name, pairs, "text")


def _write(path: Path, content: Any) -> None:
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
