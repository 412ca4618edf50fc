"""The demonstration: a translator that knows everyday talk is taken to parliament, and given parliament's text.

Base model → datastore of text → k, λ and T tuned on text → translation; beside it a datastore of real in-domain speech
(kNN-MT), the significance of it all, the price in the other domain, and the neighbours that decided.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import torch

from npda.corpus import mini
from npda.corpus.mini import Mini
from npda.corpus.mini.grammar import DOMAINS
from npda.demo.corpus import NEEDED, read_corpus
from npda.demo.examples import MODEL, write_examples
from npda.demo.model import LANGUAGE, DemoModel, copy_model, open_model, train_model
from npda.demo.page import write_report
from npda.demo.results import BASE, GUARDED, KNN_MT, NPDA, DemoReport
from npda.demo.stages import RESULTS, STORES, DemoOptions, Stages
from npda.evaluation.scores import bleu
from npda.io.errors import InputError
from npda.io.files import write_lines
from npda.io.progress import bar
from npda.io.records import read_record, write_record
from npda.translator import Translator

_MARK, _FORMAT = "demo.json", 2  # of the folder; version 0.1.0 wrote the identity of all results instead


def run_demo(
    out: Path,
    seed: int = 0,
    from_scratch: bool = False,
    options: DemoOptions = DemoOptions(),
    progress: bool = True,
) -> DemoReport:
    """Adapt the shipped model to parliament, or one trained in ``out``, and find out what that is worth.

    seed: of the sentences it is tried with; a model from scratch is trained on that seed's sentences too
    """
    start, seconds = time.perf_counter(), {}
    splits = [*NEEDED, ("general", "train")] if from_scratch else NEEDED
    corpus = mini.prepare(LANGUAGE, seed, progress=progress, only=splits)
    seconds["corpus"] = _since(start)
    model = train_model(corpus, seed, out, options.recipe, progress) if from_scratch else open_model(options.shipped)
    identity = {
        "model": model.digest(),
        "corpus": [mini.version(), LANGUAGE, seed],
        "search": asdict(options.search),
        "decodes": options.decodes,
        "fractions": list(options.fractions),
    }
    _claim(out)
    model = copy_model(model, out / MODEL)
    stages = _stages(out, identity, corpus, model, options, progress)
    seconds["train" if from_scratch else "model"] = round(_since(start) - seconds["corpus"], 1)
    stages.cache.seconds |= seconds
    _ = stages.text_store, stages.counter  # both ways need the first, the examples of all verbs the second
    if options.processes > 1:
        with _beside(stages, (out, identity, corpus, model, options)):
            stages.of_text()
    return _report(stages, out, model.directory, seed, start)


def _stages(
    out: Path, identity: dict[str, Any], corpus: Mini, model: DemoModel, options: DemoOptions, progress: bool
) -> Stages:
    translator = Translator.from_pretrained(model.directory)
    return Stages(translator, read_corpus(corpus, model.made), out, identity, options, progress)


def _claim(out: Path) -> None:
    """Mark a folder as one of demonstrations; what an earlier version has left there in its own form goes."""
    mark, folders = out / _MARK, [out / RESULTS, out / STORES]
    if mark.is_file():
        if read_record(mark).get("format") == _FORMAT:
            return
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
    elif taken := next((folder for folder in folders if folder.exists()), None):
        raise InputError(f"{taken} exists but was not created by `npda demo`: choose another --out.")
    write_record(mark, {"format": _FORMAT})


def _report(stages: Stages, out: Path, model: Path, seed: int, start: float) -> DemoReport:
    """Gather the results; a stage that nobody has done yet is done now. start: of it all, by the clock"""
    tests = {domain: stages.corpus.references(domain) for domain in DOMAINS}
    systems = {BASE: stages.base, NPDA: stages.npda, GUARDED: stages.guarded, KNN_MT: stages.knn_mt}
    translations = {**systems, "references": tests}
    for name, texts in translations.items():
        for domain, lines in texts.items():
            write_lines(out / "translations" / f"{name}.{domain}.txt", lines)
    report = DemoReport(
        systems=stages.systems,
        tuning=stages.tuning,
        guarded_tuning=stages.gate.tuning,
        speech_tuning=stages.speech_tuning,
        speech_tuned=stages.score(stages.speech_tuned),
        knn_mt_tuning=stages.knn_mt_tuning,
        greedy=stages.score(stages.greedy),
        similarity=stages.similarity,
        curve=stages.curve,
        explanations=stages.explanations,
        seconds=stages.cache.seconds,
        total=_since(start),
        recalled=tuple(stages.cache.found),
        dropped=stages.corpus.dropped,
        sentences={f"{domain} test": len(references) for domain, references in tests.items()}
        | {"parliament text": len(stages.corpus.domain_text)},
        seed=seed,
        signature=bleu(stages.npda["parliament"], tests["parliament"]).signature,
        model=model,
        stores={NPDA: stages.text_store.path, KNN_MT: stages.speech_store.path},
        page=out / "report.html",
        why=out / "why.html",
        terms=stages.term_use,
    )
    with stages.cache.timed("report"):
        write_report(report)
        write_examples(out, stages.corpus, stages.base["parliament"], stages.guarded["parliament"])
    return replace(report, total=_since(start))


@contextmanager
def _beside(stages: Stages, told: tuple[Any, ...]) -> Iterator[None]:
    """A second process does the stages of speech meanwhile; what it finds is found in the results.

    Most operations are too small to share among threads, so that each process has half of them. Should the other one
    fail, its stages are done here, and its error is met again. told: what the other process needs to know
    """
    threads = torch.get_num_threads()
    half = max(1, threads // 2)
    # Forking a process whose OpenMP threads have run would leave the child waiting for them.
    other = multiprocessing.get_context("spawn").Process(target=_of_speech, args=(*told, half), daemon=True)
    other.start()
    torch.set_num_threads(half)
    try:
        yield
        with bar(stages.progress) as display:
            display.add_task("waiting for kNN-MT", total=None, note="")
            other.join()
    finally:
        torch.set_num_threads(threads)
        other.terminate()
        other.join()


def _of_speech(
    out: Path, identity: dict[str, Any], corpus: Mini, model: DemoModel, options: DemoOptions, threads: int
) -> None:
    threading.Thread(target=_follow_parent, daemon=True).start()
    torch.set_num_threads(threads)
    _stages(out, identity, corpus, model, options, progress=False).of_speech()


def _follow_parent() -> None:
    """Exit when the parent process dies."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _since(start: float) -> float:
    return round(time.perf_counter() - start, 1)
