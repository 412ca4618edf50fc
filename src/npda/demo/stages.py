"""The stages of a demonstration; each looks first whether an earlier run has done it."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from npda.corpus.manifest import Utterance
from npda.corpus.mini.grammar import DOMAINS
from npda.corpus.pairs import Pair, write_pairs
from npda.datastore.counter import FOLDER, CounterStore, build_counter
from npda.datastore.counter import STORE as COUNTER
from npda.datastore.source import BuildOptions, Source
from npda.datastore.store import Datastore
from npda.decoding.beam import SearchOptions
from npda.decoding.fusion import Fusion
from npda.decoding.knn.combiners import KnnOptions
from npda.decoding.knn.fusion import KnnFusion
from npda.decoding.knn.guarded import GuardedFusion
from npda.decoding.knn.steering import steer
from npda.demo.corpus import DemoCorpus
from npda.demo.model import LANGUAGE, SHIPPED, ModelRecipe
from npda.demo.results import BASE, GUARDED, KNN_MT, NPDA, CurvePoint, SystemResult, changed_first
from npda.demo.terms import LIST, Listed, TermUse, count_use
from npda.evaluation.devset import DevSet, Way
from npda.evaluation.scores import bleu
from npda.evaluation.significance import compare
from npda.evaluation.similarity import Similarity, similarity
from npda.evaluation.tuning.guard import Guarding
from npda.evaluation.tuning.save import GatedTuning, gated, save_tuned
from npda.evaluation.tuning.search import Tuning, tune
from npda.explanation.explain import explain, hear
from npda.explanation.records import Explanation
from npda.io.files import atomic_directory
from npda.io.progress import track
from npda.stages.code import Code
from npda.stages.stage_cache import StageCache
from npda.terms.learning import LearnOptions, learn_terms
from npda.translation import Translation
from npda.translator import TermLists, Translator

EXAMPLES = 5

# The code that decides a result; how the model was trained is in its weights.
CODE = Code(("npda.demo.stages", "npda.models"), ("npda.demo.model", "npda.training"))

T = TypeVar("T")
RESULTS, STORES, TERMS = "results", "stores", "terms"

Texts = dict[str, list[str]]  # translations of the tests by domain


@dataclass(frozen=True)
class DemoOptions:
    """How the model is trained, searched with and tuned.

    decodes: points of the grid that one tuning may decode; fractions: of the domain's text, for the size curve;
    shipped: the model that is taken when none is trained; processes: 2 go through the stages side by side
    """

    recipe: ModelRecipe = field(default_factory=ModelRecipe)
    search: SearchOptions = field(default_factory=SearchOptions)
    decodes: int = 8
    fractions: tuple[float, ...] = (1 / 8, 1 / 4, 1 / 2)
    shipped: Path = SHIPPED
    processes: int = 2


class Stages:
    """What is found out, in no order: a stage calls for those it needs, and has its result but once.

    out: holds results/, a file a stage, and stores/; identity: of model, corpus and options, in JSON
    """

    def __init__(
        self,
        translator: Translator,
        corpus: DemoCorpus,
        out: Path,
        identity: dict[str, Any],
        options: DemoOptions,
        progress: bool,
    ) -> None:
        self.translator, self.corpus = translator, corpus
        self.cache, self._stores, self._identity = StageCache(out / RESULTS), out / STORES, identity
        self.options, self.progress = options, progress
        self.backbone = translator.backbone

    def of_text(self) -> None:
        """All that needs the choice made on text."""
        _ = self.base, self.npda, self.gate, self.listed, self.greedy, self.curve, self.explanations

    def of_speech(self) -> None:
        """All that can be done before it: what somebody with recordings would do."""
        _ = self.speech_tuning, self.knn_mt, self.similarity

    @cached_property
    def base(self) -> Texts:
        return self._recall("base", Texts, lambda: self._translate(DOMAINS))

    @cached_property
    def text_store(self) -> Datastore:
        return self._store("text_store", "parliament-text", self.corpus.domain_text)

    @cached_property
    def tuning(self) -> Tuning:
        return self._recall("tuning", Tuning, lambda: self._tune(self.text_store, "text"))

    @cached_property
    def counter(self) -> CounterStore:
        """Everyday talk as text, which the model has not been trained on."""
        assert self.translator.directory is not None
        home = self.translator.directory / FOLDER

        def build() -> None:
            shutil.rmtree(home, ignore_errors=True)
            how = BuildOptions(progress=self.progress)
            build_counter(self.backbone, self.corpus.general_text, home, self.corpus.general_dev_text, how)

        self.cache.recall_directory("counter_store", self._identity, CODE, home / COUNTER, build)
        return CounterStore(home, Datastore.open(home / COUNTER, self.backbone))

    @cached_property
    def gate(self) -> GatedTuning:
        """The text store tuned behind its gate, on text; the store keeps it."""
        found = self._recall("guarded_tuning", GatedTuning, self._tune_gate)
        found.save(self.text_store)
        return found

    @cached_property
    def term_list(self) -> Path:
        """The folder of the list's terms, learnt from everyday text."""
        folder = self._stores.parent / TERMS

        def learn() -> None:
            with TemporaryDirectory() as beside, atomic_directory(folder) as made:
                text = Path(beside) / "general.tsv"
                write_pairs(text, self.corpus.general_text)
                how = LearnOptions((text,), language=LANGUAGE, source_language="en", progress=self.progress)
                learn_terms(self.backbone, LIST, made, how)

        self.cache.recall_directory("terms", self._identity, CODE, folder, learn)
        return folder

    @cached_property
    def listed(self) -> dict[str, list[Listed]]:
        """The tests with the store behind its gate, as the search found them and with the list's words."""
        return self._recall("guarded", dict[str, list[Listed]], self._translate_listed)

    @cached_property
    def guarded(self) -> Texts:
        return {domain: [each.text for each in found] for domain, found in self.listed.items()}

    @property
    def term_use(self) -> TermUse:
        said = {domain: [u.src_text for u in self.corpus.speech[domain, "test"]] for domain in DOMAINS}
        return count_use(self.listed, said, self.term_list)

    @cached_property
    def npda(self) -> Texts:
        return self._recall("npda", Texts, lambda: self._translate(DOMAINS, self.text_store, self.tuning.best))

    @cached_property
    def greedy(self) -> Texts:
        search = replace(self.options.search, beam=1)
        return self._recall(
            "greedy", Texts, lambda: self._translate(["parliament"], self.text_store, self.tuning.best, search)
        )

    @cached_property
    def speech_tuning(self) -> Tuning:
        return self._recall("speech_tuning", Tuning, lambda: self._tune(self.text_store, "speech"))

    @cached_property
    def speech_tuned(self) -> Texts:
        best = self.speech_tuning.best
        if best == self.tuning.best:
            return self.npda
        return self._recall("speech_tuned", Texts, lambda: self._translate(["parliament"], self.text_store, best))

    @cached_property
    def speech_store(self) -> Datastore:
        return self._store("speech_store", "parliament-speech", self.corpus.speech["parliament", "train"])

    @cached_property
    def knn_mt_tuning(self) -> Tuning:
        found = self._recall("knn_mt_tuning", Tuning, lambda: self._tune(self.speech_store, "speech"))
        save_tuned(self.speech_store, found)
        return found

    @cached_property
    def knn_mt(self) -> Texts:
        return self._recall(
            "knn_mt", Texts, lambda: self._translate(DOMAINS, self.speech_store, self.knn_mt_tuning.best)
        )

    @cached_property
    def curve(self) -> tuple[CurvePoint, ...]:
        """The adapted system with ever larger parts of the text, each of which holds the smaller ones."""
        parts = self._recall("curve", list[CurvePoint], self._parts)
        return *parts, CurvePoint(1.0, len(self.corpus.domain_text), len(self.text_store), self.score(self.npda))

    @cached_property
    def similarity(self) -> dict[str, Similarity]:
        return self._recall("similarity", dict[str, Similarity], self._similarity)

    @cached_property
    def explanations(self) -> tuple[Explanation, ...]:
        return tuple(self._recall("examples", list[Explanation], self._explain))

    @cached_property
    def systems(self) -> dict[str, SystemResult]:
        """BLEU of every system, and by paired bootstrap resampling how sure its difference from the base model is."""
        return self._recall("significance", dict[str, SystemResult], self._systems)

    def score(self, texts: Texts, domain: str = "parliament") -> float:
        return bleu(texts[domain], self.corpus.references(domain)).value

    def _store(self, stage: str, name: str, sentences: list[Pair] | list[Utterance]) -> Datastore:
        """The datastore of these sentences. They are read or heard, by what they are."""
        path = self._stores / name

        def build() -> None:
            kind = "speech" if isinstance(sentences[0], Utterance) else "text"
            path.parent.mkdir(parents=True, exist_ok=True)
            how = BuildOptions(progress=self.progress)
            Datastore.build_from(self.backbone, Source(name, sentences, kind), path, how)

        self.cache.recall_directory(stage, self._identity, CODE, path, build)
        return Datastore.open(path, self.backbone)

    def _recall(self, stage: str, kind: Any, work: Callable[[], T]) -> T:
        return self.cache.recall(stage, self._identity, CODE, kind, work)

    def _tune(self, store: Datastore, way: Way, guarding: Guarding | None = None) -> Tuning:
        sentences = self.corpus.dev_text if way == "text" else self.corpus.speech["parliament", "dev"]
        options = self.options
        return tune(
            self.backbone,
            store,
            sentences,
            way,
            options.search,
            options.decodes,
            progress=self.progress,
            guarding=guarding,
        )

    def _tune_gate(self) -> GatedTuning:
        general = DevSet(self.backbone, self.counter.held_out, "text")
        guarding = Guarding(self.text_store, self.counter.store, general, self.options.search)
        tuning = self._tune(self.text_store, "text", guarding)
        return gated(tuning, guarding)

    def _guarded_fusion(self) -> KnnFusion | GuardedFusion:
        _ = self.gate  # what the store keeps
        return steer(self.backbone, [self.text_store], self.counter.store)

    def _translate(
        self,
        domains: Sequence[str],
        store: Datastore | None = None,
        knn: KnnOptions = KnnOptions(),
        search: SearchOptions | None = None,
    ) -> Texts:
        fusions = [self.translator.neighbours([store], knn)] if store is not None else []
        return {
            domain: [t.text for t in self._translations(domain, fusions, search or self.options.search)]
            for domain in domains
        }

    def _translations(
        self, domain: str, fusions: Sequence[Fusion], search: SearchOptions, terms: TermLists = ()
    ) -> Iterator[Translation]:
        test = self.corpus.speech[domain, "test"]
        found = self.translator.translate_all((u.audio for u in test), search, fusions=fusions, terms=terms)
        for translation in track(found, f"translating {domain}", len(test), self.progress):
            assert translation is not None  # without on_error, errors are raised
            yield translation

    def _translate_listed(self) -> dict[str, list[Listed]]:
        """Terms come after the search: one pass tells of both texts."""
        fusions, decode = [self._guarded_fusion()], self.backbone.target.decode
        return {
            domain: [
                Listed(decode(t.tokens), t.text, tuple(each.target for each in t.terms))
                for t in self._translations(domain, fusions, self.options.search, self.term_list)
            ]
            for domain in DOMAINS
        }

    def _parts(self) -> list[CurvePoint]:
        pairs = list(self.corpus.domain_text)
        random.Random(0).shuffle(pairs)
        points = []
        for fraction in self.options.fractions:
            part = pairs[: max(1, round(fraction * len(pairs)))]
            store = self._store(f"text_store_{len(part)}", f"parliament-text-{len(part)}", part)
            texts = self._translate(["parliament"], store, self.tuning.best)
            points.append(CurvePoint(fraction, len(part), len(store), self.score(texts)))
        return points

    def _similarity(self) -> dict[str, Similarity]:
        speech = {domain: self.corpus.speech[domain, "dev"] for domain in DOMAINS}
        return {domain: similarity(self.backbone, speech[domain], progress=self.progress) for domain in DOMAINS}

    def _explain(self) -> list[Explanation]:
        test = self.corpus.speech["parliament", "test"]
        return [
            explain(
                self.backbone,
                hear(self.backbone, test[place].audio),
                self._guarded_fusion(),
                self.options.search,
                audio=test[place].audio,
                transcript=test[place].src_text,
                reference=test[place].tgt_text,
            )
            for place in changed_first(self.base["parliament"], self.guarded["parliament"], EXAMPLES)
        ]

    def _systems(self) -> dict[str, SystemResult]:
        found = {BASE: SystemResult(self.score(self.base, "general"), self.score(self.base))}
        for name, texts in {NPDA: self.npda, GUARDED: self.guarded, KNN_MT: self.knn_mt}.items():
            references = self.corpus.references("parliament")
            (comparison,) = compare(texts["parliament"], self.base["parliament"], references, ["bleu"])
            p = comparison.p_value if comparison.delta != 0 else 1.0
            found[name] = SystemResult(self.score(texts, "general"), self.score(texts), p)
        return found
