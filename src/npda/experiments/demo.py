"""The demonstration: a translator that knows everyday talk is taken to parliament, and given parliament's text.

Base model → datastore of text → k, λ and T tuned on text → translation; beside it a datastore of real in-domain speech
(kNN-MT), the significance of it all, the price in the other domain, and the neighbours that decided.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from npda.corpus import mini
from npda.corpus.manifest import Utterance
from npda.corpus.mini.grammar import DOMAINS
from npda.corpus.pairs import Pair
from npda.datastore.store import Datastore
from npda.decoding.beam import SearchOptions
from npda.decoding.knn import KnnOptions
from npda.evaluation.devset import Way
from npda.evaluation.scores import bleu
from npda.evaluation.significance import compare
from npda.evaluation.similarity import Similarity, similarity
from npda.evaluation.tuned import save_tuned
from npda.evaluation.tuning import Tuning, tune
from npda.experiments.demo_corpus import DemoCorpus, read_corpus
from npda.experiments.demo_memory import Memory, code_digest
from npda.experiments.demo_model import LANGUAGE, SHIPPED, ModelRecipe, open_model, train_model
from npda.experiments.demo_page import write_report
from npda.experiments.demo_results import BASE, KNN_MT, NPDA, CurvePoint, DemoReport, System, changed_first
from npda.explanation.explain import explain, hear
from npda.explanation.records import Explanation
from npda.files import write_lines
from npda.progress import track
from npda.translator import Translator

EXAMPLES = 5

Texts = dict[str, list[str]]  # translations of the tests by domain


@dataclass(frozen=True)
class DemoOptions:
    """How the model is trained, searched with and tuned.

    decodes: points of the grid that one tuning may decode; fractions: of the domain's text, for the size curve;
    shipped: the model that is taken when none is trained
    """

    recipe: ModelRecipe = field(default_factory=ModelRecipe)
    search: SearchOptions = field(default_factory=SearchOptions)
    decodes: int = 8
    fractions: tuple[float, ...] = (1 / 8, 1 / 4, 1 / 2)
    shipped: Path = SHIPPED


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
    clock, before = _Clock(), {}
    corpus = mini.prepare(LANGUAGE, seed, progress=progress)
    before["corpus"] = clock.lap()
    model = train_model(corpus, seed, out, options.recipe, progress) if from_scratch else open_model(options.shipped)
    translator = Translator.from_pretrained(model.directory)
    before["train" if from_scratch else "model"] = clock.lap()
    identity = {
        "model": model.digest(),
        "corpus": [mini.version(), LANGUAGE, seed],
        "search": asdict(options.search),
        "decodes": options.decodes,
        "fractions": list(options.fractions),
        "code": code_digest(),
    }
    memory = Memory(out, identity)
    memory.seconds |= before
    demo = _Demo(translator, read_corpus(corpus, model.made), memory, options, progress)
    return demo.run(out, model.directory, seed)


class _Demo:
    """The stages, each of which asks the memory first."""

    def __init__(
        self, translator: Translator, corpus: DemoCorpus, memory: Memory, options: DemoOptions, progress: bool
    ) -> None:
        self.translator, self.corpus, self.memory = translator, corpus, memory
        self.options, self.progress = options, progress
        self.backbone = translator.backbone

    def run(self, out: Path, model: Path, seed: int) -> DemoReport:
        recall, tests = self.memory.recall, {domain: self.corpus.references(domain) for domain in DOMAINS}
        base = recall("base", Texts, lambda: self.translate(DOMAINS))

        text_store = self.store("text_store", "parliament-text", self.corpus.domain_text)
        tuning = recall("tuning", Tuning, lambda: self.tune(text_store, "text"))
        text_store = save_tuned(text_store, tuning)
        adapted = recall("npda", Texts, lambda: self.translate(DOMAINS, text_store, tuning.best))
        greedy = recall("greedy", Texts, lambda: self.translate(["parliament"], text_store, tuning.best, beam=1))
        speech_tuning = recall("speech_tuning", Tuning, lambda: self.tune(text_store, "speech"))
        speech_tuned = adapted
        if speech_tuning.best != tuning.best:
            speech_tuned = recall(
                "speech_tuned", Texts, lambda: self.translate(["parliament"], text_store, speech_tuning.best)
            )

        speech_store = self.store("speech_store", "parliament-speech", self.corpus.speech["parliament", "train"])
        knn_mt_tuning = recall("knn_mt_tuning", Tuning, lambda: self.tune(speech_store, "speech"))
        speech_store = save_tuned(speech_store, knn_mt_tuning)
        upper = recall("knn_mt", Texts, lambda: self.translate(DOMAINS, speech_store, knn_mt_tuning.best))

        whole = CurvePoint(1.0, len(self.corpus.domain_text), len(text_store), self.score(adapted))
        curve = recall("curve", list[CurvePoint], lambda: self.curve(tuning.best))
        alike = recall("similarity", dict[str, Similarity], self.similarity)
        explained = recall("examples", list[Explanation], lambda: self.explain(base, adapted, text_store, tuning.best))
        systems = recall("significance", dict[str, System], lambda: self.systems(base, {NPDA: adapted, KNN_MT: upper}))
        for name, texts in {BASE: base, NPDA: adapted, KNN_MT: upper, "references": tests}.items():
            for domain, lines in texts.items():
                write_lines(out / "translations" / f"{name}.{domain}.txt", lines)
        report = DemoReport(
            systems=systems,
            tuning=tuning,
            speech_tuning=speech_tuning,
            speech_tuned=self.score(speech_tuned),
            knn_mt_tuning=knn_mt_tuning,
            greedy=self.score(greedy),
            similarity=alike,
            curve=(*curve, whole),
            explanations=tuple(explained),
            seconds=self.memory.seconds,
            recalled=tuple(self.memory.recalled),
            dropped=self.corpus.dropped,
            sentences={f"{domain} test": len(references) for domain, references in tests.items()}
            | {"parliament text": len(self.corpus.domain_text)},
            seed=seed,
            signature=bleu(adapted["parliament"], tests["parliament"]).signature,
            model=model,
            stores={NPDA: text_store.path, KNN_MT: speech_store.path},
            page=out / "report.html",
            why=out / "why.html",
        )
        with self.memory.timed("report"):
            write_report(report)
        return report

    def store(self, stage: str, name: str, sentences: list[Pair] | list[Utterance]) -> Datastore:
        with self.memory.timed(stage):
            return self.memory.store(name, self.backbone, sentences, self.progress)

    def tune(self, store: Datastore, way: Way) -> Tuning:
        sentences = self.corpus.dev_text if way == "text" else self.corpus.speech["parliament", "dev"]
        options = self.options
        return tune(self.backbone, store, sentences, way, options.search, options.decodes, progress=self.progress)

    def translate(
        self,
        domains: Sequence[str],
        store: Datastore | None = None,
        knn: KnnOptions = KnnOptions(),
        beam: int | None = None,
    ) -> Texts:
        search = self.options.search if beam is None else SearchOptions(beam, self.options.search.length_penalty)
        fusions = [self.translator.neighbours([store], knn)] if store is not None else []
        texts: Texts = {}
        for domain in domains:
            test = self.corpus.speech[domain, "test"]
            found = self.translator.translate_all((u.audio for u in test), search, fusions=fusions)
            texts[domain] = [str(t) for t in track(found, f"translating {domain}", len(test), self.progress)]
        return texts

    def score(self, texts: Texts, domain: str = "parliament") -> float:
        return bleu(texts[domain], self.corpus.references(domain)).value

    def systems(self, base: Texts, others: dict[str, Texts]) -> dict[str, System]:
        """BLEU of every system, and by paired bootstrap resampling how sure its difference from the base model is."""
        found = {BASE: System(self.score(base, "general"), self.score(base))}
        for name, texts in others.items():
            references = self.corpus.references("parliament")
            (comparison,) = compare(texts["parliament"], base["parliament"], references, ["bleu"])
            p = comparison.p_value if comparison.delta != 0 else 1.0
            found[name] = System(self.score(texts, "general"), self.score(texts), p)
        return found

    def curve(self, knn: KnnOptions) -> list[CurvePoint]:
        """The adapted system with ever larger parts of the text, each of which holds the smaller ones."""
        pairs = list(self.corpus.domain_text)
        random.Random(0).shuffle(pairs)
        points = []
        for fraction in self.options.fractions:
            part = pairs[: max(1, round(fraction * len(pairs)))]
            store = self.memory.store(f"parliament-text-{len(part)}", self.backbone, part, self.progress)
            texts = self.translate(["parliament"], store, knn)
            points.append(CurvePoint(fraction, len(part), len(store), self.score(texts)))
        return points

    def similarity(self) -> dict[str, Similarity]:
        speech = {domain: self.corpus.speech[domain, "dev"] for domain in DOMAINS}
        return {domain: similarity(self.backbone, speech[domain], progress=self.progress) for domain in DOMAINS}

    def explain(self, base: Texts, adapted: Texts, store: Datastore, knn: KnnOptions) -> list[Explanation]:
        test = self.corpus.speech["parliament", "test"]
        return [
            explain(
                self.backbone,
                hear(self.backbone, test[place].audio),
                store,
                knn,
                self.options.search,
                audio=test[place].audio,
                transcript=test[place].src_text,
                reference=test[place].tgt_text,
            )
            for place in changed_first(base["parliament"], adapted["parliament"], EXAMPLES)
        ]


class _Clock:
    def __init__(self) -> None:
        self._start = time.perf_counter()

    def lap(self) -> float:
        """Seconds since the last lap, or since the beginning."""
        now = time.perf_counter()
        seconds, self._start = round(now - self._start, 1), now
        return seconds
