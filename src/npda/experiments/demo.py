"""The demonstration: train on everyday talk, then listen to parliament."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from npda.corpus import mini
from npda.corpus.manifest import read_manifest
from npda.corpus.mini.grammar import DOMAINS
from npda.evaluation.scores import Score, bleu
from npda.progress import track
from npda.training.speech import defaults, train_speech
from npda.translator import Translator


@dataclass(frozen=True)
class Example:
    """One test sentence: what was said, what was written, what should have been written."""

    transcript: str
    translation: str
    reference: str


@dataclass
class DemoReport:
    """What the demonstration found; BLEU and examples by domain."""

    model: Path
    scores: dict[str, Score] = field(default_factory=dict)
    examples: dict[str, list[Example]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[stage] = round(time.perf_counter() - start, 1)

    def record(self) -> dict:
        """For scripts."""
        base = {domain: round(score.value, 2) for domain, score in self.scores.items()}
        return {
            "systems": {"E2E-ST-Base": {"general": base["general"], "domain": base["parliament"]}},
            "signature": self.scores["general"].signature,
            "seconds": self.seconds,
            "model": str(self.model),
        }


def run_demo(out: Path, seed: int = 0, progress: bool = True) -> DemoReport:
    """Make the corpus, train a base model in ``out`` (or find it there), translate both tests.

    seed: of the corpus; the training is always the same
    """
    report = DemoReport(out / "base")
    with report.timed("corpus"):
        corpus = mini.prepare(seed=seed, progress=progress)
    with report.timed("train"):
        train_speech(
            [corpus.manifest("general", "train")],
            [corpus.manifest("general", "dev")],
            report.model,
            *defaults("mini"),
            progress=progress,
        )
    with report.timed("translate"):
        translator = Translator.from_pretrained(report.model)
        for domain in DOMAINS:
            test = read_manifest(corpus.manifest(domain, "test"))
            found = translator.translate_all(utterance.audio for utterance in test)
            texts = [str(t) for t in track(found, f"translating {domain}", len(test), progress)]
            report.scores[domain] = bleu(texts, [utterance.tgt_text for utterance in test])
            report.examples[domain] = [
                Example(utterance.src_text, text, utterance.tgt_text)
                for utterance, text in zip(test[:5], texts, strict=False)
            ]
    return report
