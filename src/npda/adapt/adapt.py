"""All of an adaptation: text path → leaks → datastore → k, λ and T → what was gained.

OUT/store         the datastore, tuned
OUT/leaks.jsonl   pairs of the text that were left out, with the dev or test sentences they give away
OUT/adapt/        what is finished, a file a stage; a call that was killed goes on from there
OUT/translations/ what the model alone and the adapted one make of the sentences they are judged by
OUT/spoken/       dev and test sentences read aloud, where only text of them was given and a voice

A trained text path is kept apart, in the cache, since every further domain of the model needs it.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npda.adapt.judging import Judging, Sentences
from npda.adapt.results import Adaptation, Dropped
from npda.adapt.text_path import Reader, TextPath, with_text_path
from npda.corpus.leakage import Leak, LeakageFilter
from npda.corpus.manifest import is_manifest, read_manifest
from npda.corpus.pairs import Pair, read_pairs, stream_pairs
from npda.corpus.recording import synthesize
from npda.corpus.voices import Voice, voice
from npda.datastore.counter import HELD_OUT, HELD_OUT_SENTENCES, CounterStore, find_counter
from npda.datastore.source import CHUNK, SPOKEN_CHUNK, BuildOptions, Source
from npda.datastore.store import Datastore
from npda.decoding.beam import SearchOptions
from npda.decoding.knn.adaptive import SETTINGS as ADAPTIVE
from npda.decoding.knn.adaptive import remove_adaptive, save_adaptive
from npda.decoding.knn.fusion import KnnFusion
from npda.decoding.knn.guarded import GuardedFusion
from npda.decoding.knn.steering import Chosen, steer, tuned_search
from npda.decoding.knn.tuned import FILE as TUNED
from npda.decoding.knn.tuned_guard import load_guard
from npda.evaluation.devset import DevSet, Way
from npda.evaluation.tuning.climb import Space
from npda.evaluation.tuning.folds import tune_learned
from npda.evaluation.tuning.guard import Guarding, behind, guarding_for
from npda.evaluation.tuning.save import GatedTuning, gated
from npda.evaluation.tuning.search import DECODES, LENGTH_PENALTIES, Tuning, tune
from npda.io.digests import short_digest
from npda.io.errors import InputError
from npda.io.files import atomic_write
from npda.io.locks import locked
from npda.io.progress import track
from npda.stages.code import Code
from npda.stages.stage_cache import StageCache

if TYPE_CHECKING:
    from npda.datastore.workers import WorkersFor
    from npda.models.backbone import Backbone


# The code that decides each result; how the model learnt to read is in its weights.
_LEAKS = Code(("npda.corpus.leakage", "npda.corpus.pairs"))
_STORE = Code(("npda.datastore.build", "npda.models"))
_TUNING = Code(("npda.evaluation.tuning", "npda.models"))
_SPACE = Space(length_penalties=LENGTH_PENALTIES)


@dataclass(frozen=True)
class Inputs:
    """What an adaptation is made of: files of the domain, and where its results go.

    text: pairs; dev, test: manifests of speech, or pairs; general_test: the same, of what is not the domain
    """

    model: str
    text: Path
    dev: Path
    out: Path
    test: Path | None = None
    general_test: Path | None = None


@dataclass(frozen=True)
class AdaptOptions:
    """text_path: how the model learns to read, if it cannot; speak: a voice that reads the text aloud instead;
    language: of the translations, for models with several; source_language: of the speech, likewise;
    search: of the model alone; decodes: settings that tuning may decode; adaptive: k and λ are chosen token by token,
    by a network that is trained on dev, if it wins there; unguarded: the store steers whatever is said; samples: of
    the bootstrap; hire: workers of a cluster that make the store; licence: of the text, for the store's card
    """

    text_path: TextPath = field(default_factory=TextPath)
    speak: str | None = None
    language: str | None = None
    source_language: str | None = None
    index: str = "auto"
    search: SearchOptions = field(default_factory=SearchOptions)
    decodes: int = DECODES
    adaptive: bool = False
    unguarded: bool = False
    samples: int = 1000
    hire: WorkersFor | None = None
    licence: str = ""


def adapt(inputs: Inputs, options: AdaptOptions = AdaptOptions(), progress: bool = True) -> Adaptation:
    """Adapt a model to a domain with its text, and find out what that is worth. What is done is not repeated."""
    out = inputs.out
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file; give a directory.")
    held_out = {"dev": _pairs(inputs.dev)} | ({"test": _pairs(inputs.test)} if inputs.test else {})
    leakage = LeakageFilter(pair for pairs in held_out.values() for pair in pairs)
    speaker = voice(options.speak) if options.speak else None
    out.mkdir(parents=True, exist_ok=True)
    with locked(out):
        cache = StageCache(out / "adapt")
        # Before the model, so that a fault in the text is found before an hour of training.
        files = [inputs.text, inputs.dev, *([inputs.test] if inputs.test else [])]
        identity = {"files": [short_digest(path) for path in files]}
        dropped = cache.recall("leaks", identity, _LEAKS, Dropped, lambda: _drop(inputs, leakage, progress))
        reader = with_text_path(
            inputs.model, options.text_path, options.language, options.source_language, speaker is None, progress
        )
        return _Adapting(inputs, options, reader, speaker, cache, progress).run(held_out, leakage, dropped)


def _drop(inputs: Inputs, leakage: LeakageFilter, progress: bool) -> Dropped:
    """Look for leaks in the whole text, and write them down."""
    kept = leaks = 0
    digest = hashlib.sha256()
    with atomic_write(inputs.out / "leaks.jsonl") as temporary, open(temporary, "w", encoding="utf-8") as file:
        for found in track(_checked(inputs.text, leakage), "looking for leaks", enabled=progress):
            if isinstance(found, Leak):
                file.write(json.dumps(asdict(found), ensure_ascii=False) + "\n")
                digest.update(f"{found.pair.src_text}\t{found.pair.tgt_text}\n".encode())
                leaks += 1
            else:
                kept += 1
    if not kept:
        raise InputError(f"All {leaks} pairs of {inputs.text} leak dev or test sentences: hold out other sentences.")
    return Dropped(kept, leaks, digest.hexdigest()[:16])


def _checked(text: Path, leakage: LeakageFilter) -> Iterator[Pair | Leak]:
    """Every pair of a text, or the leak it is."""
    return (leakage.find(pair) or pair for pair in stream_pairs(text))


class _Adapting:
    """The stages after the text path, one method each."""

    def __init__(
        self,
        inputs: Inputs,
        options: AdaptOptions,
        reader: Reader,
        speaker: Voice | None,
        cache: StageCache,
        progress: bool,
    ) -> None:
        self.inputs, self.options, self.reader, self.speaker = inputs, options, reader, speaker
        self.backbone: Backbone = reader.backbone
        self.cache, self.progress = cache, progress
        folder, search = inputs.out / "translations", options.search
        self.judging = Judging(self.backbone, options.language, search, options.samples, cache, folder, progress)

    def run(self, held_out: dict[str, list[Pair]], leakage: LeakageFilter, dropped: Dropped) -> Adaptation:
        store = self._store(leakage, dropped)
        dev = self._sentences("dev", self.inputs.dev, held_out["dev"])
        tuning = self._tune(store, dev)
        learned = self._learn(store, tuning, dev) if self.options.adaptive else None
        steering = self._steering(store, bool(learned and learned["kept"]))
        judged = self._sentences("test", self.inputs.test, held_out["test"]) if self.inputs.test else dev
        search = tuned_search([store], beam=self.options.search.beam, max_length=self.options.search.max_length)
        sides = [self.judging.judge("domain", judged, store, steering, search)]
        if (general := self._general()) is not None:
            sides.append(self.judging.judge("general", general, store, steering, search))
        return Adaptation(
            model=self.reader.directory,
            aligned=self.reader.aligned,
            store=store.path,
            keys=len(store),
            kind=store.info.sources[0].kind,
            dropped=dropped,
            leaks=self.inputs.out / "leaks.jsonl",
            tuning=tuning,
            learned=learned,
            unguarded=self.options.unguarded,
            sides=tuple(sides),
            on="test" if self.inputs.test else "dev",
            voice=self.options.speak or "",
            language=self.options.language,
            seconds={**({"align": self.reader.seconds} if self.reader.seconds else {}), **self.cache.seconds},
            found=tuple(self.cache.found),
        )

    def _store(self, leakage: LeakageFilter, dropped: Dropped) -> Datastore:
        """The store of this text and model; it takes the place of another one that an earlier call has left here."""
        path = self.inputs.out / "store"
        if path.exists() and not self.cache.knows("store"):
            raise InputError(f"{path} exists but was not created by `npda adapt`: choose another --out.")
        options = self.options
        identity = {
            "model": self.backbone.model_digest(),
            "text": [self.inputs.text.name, short_digest(self.inputs.text), dropped.digest],
            "settings": [options.language, options.speak, options.index],
            **({"licence": options.licence} if options.licence else {}),
        }

        def build() -> None:
            pairs = (found for found in _checked(self.inputs.text, leakage) if isinstance(found, Pair))
            kind = "spoken" if self.speaker else "text"
            source = Source(self.inputs.text.name, pairs, kind, dropped.kept, self.speaker, licence=options.licence)
            chunk = SPOKEN_CHUNK if self.speaker else CHUNK
            how = BuildOptions(options.index, language=options.language, chunk=chunk, progress=self.progress)
            place = self.reader.directory, options.source_language, self.backbone
            with options.hire(*place) if options.hire else nullcontext() as workers:
                Datastore.build_from(self.backbone, source, path, replace(how, workers=workers))

        self.cache.recall_directory("store", identity, _STORE, path, build)
        return Datastore.open(path, self.backbone)

    def _sentences(self, name: str, path: Path, pairs: list[Pair]) -> Sentences:
        """As they are tuned on or judged by: heard if there is speech, or a voice that makes some; else read."""
        digest = short_digest(path)
        if is_manifest(path):
            return Sentences(read_manifest(path), "speech", digest)
        if self.speaker is None:
            return Sentences(pairs, "text", digest)
        recording = synthesize(pairs, self.speaker, self.inputs.out / "spoken", name, len(pairs), self.progress)
        return Sentences(read_manifest(recording.manifest), "speech", f"{digest} {self.speaker.name}")

    def _tune(self, store: Datastore, dev: Sentences) -> Tuning:
        options = self.options
        for language in {sentence.tgt_lang or options.language for sentence in dev.given}:
            store.check(self.backbone, language)
        identity: dict[str, Any] = {"store": store.digest, "dev": [dev.digest, dev.way, options.language]}
        identity |= {"search": asdict(options.search), "decodes": options.decodes, "space": asdict(_SPACE)}
        before = len(self.cache.found)
        guarding = self._guarding(store, dev.way)
        if guarding is not None:
            identity |= {
                "counter": guarding.counter.digest,
                "general": [guarding.general.way, guarding.general.references],
            }

        def run() -> GatedTuning:
            progress, language = self.progress, options.language
            given = self.backbone, store, dev.given, dev.way, options.search, options.decodes, _SPACE
            return gated(tune(*given, language=language, progress=progress, guarding=guarding), guarding, progress)

        found = self.cache.recall("tuning", identity, _TUNING, GatedTuning, run)
        # What was tuned by hand since then stays.
        if len(self.cache.found) == before or not (store.path / TUNED).is_file():
            found.save(store)
        return found.tuning

    def _guarding(self, store: Datastore, way: Way) -> Guarding | None:
        """What fits the gate: on the general sentences that alignment was judged by, if they were given again."""
        if self.options.unguarded:
            return None
        manifests = self.options.text_path.dev
        general = manifests[0] if manifests else None
        search, language = self.options.search, self.options.language
        return guarding_for(self.backbone, self.reader.directory, store, general, way, search, language)

    def _learn(self, store: Datastore, tuning: Tuning, dev: Sentences) -> dict[str, Any]:
        """A network trained on the sentences that were tuned on; the store keeps it if it wins."""
        options = self.options

        def learn() -> dict[str, Any]:
            devset = DevSet(self.backbone, dev.given, dev.way, options.language)
            gate, counter = load_guard(store), self._counter()
            fuse = None if gate is None or counter is None else behind(gate.guard, counter.store, self.backbone)
            learned = tune_learned(devset, store, tuning, fuse, progress=self.progress)
            if learned.wins:
                save_adaptive(store.path, learned.combiner, store.digest)
            else:
                remove_adaptive(store.path)
            return learned.record()

        identity: dict[str, Any] = {"store": store.digest, "dev": [dev.digest, dev.way, options.language]}
        identity |= {"search": asdict(tuning.tuned_search), "setting": asdict(tuning.setting)}
        found = self.cache.recall("adaptive", identity, _TUNING, dict[str, Any], learn)
        if found["kept"] and not (store.path / ADAPTIVE).is_file():
            learn()  # an equal store took the place of the one that had it
        return found

    def _steering(self, store: Datastore, adaptive: bool) -> KnnFusion | GuardedFusion:
        """The store on, as `npda translate` has it."""
        counter = self._counter()
        return steer(self.backbone, [store], counter.store if counter else None, Chosen(adaptive=adaptive))

    def _counter(self) -> CounterStore | None:
        """The counter-store, if stores are to be guarded and the model has one."""
        if self.options.unguarded:
            return None
        return find_counter(self.backbone, self.reader.directory, self.options.language)

    def _general(self) -> Sentences | None:
        """General sentences: those given, else those that alignment was judged by, or that the counter-store lacks."""
        if (path := self.inputs.general_test) is not None:
            return self._sentences("general", path, _pairs(path))
        counter = find_counter(self.backbone, self.reader.directory, self.options.language)
        paths = self.options.text_path.dev or ((counter.path / HELD_OUT,) if counter else ())
        if not paths:
            return None
        found = [self._sentences(f"general{number}", path, _pairs(path)) for number, path in enumerate(paths)]
        given = [sentence for each in found for sentence in each.given]
        chosen = random.Random(0).sample(given, min(len(given), HELD_OUT_SENTENCES))
        return Sentences(chosen, found[0].way, " ".join(each.digest for each in found))  # pyright: ignore[reportArgumentType]


def _pairs(path: Path) -> list[Pair]:
    """Held-out sentences as text; a manifest need not have transcripts."""
    if not is_manifest(path):
        return read_pairs(path)
    return [Pair(u.src_text, u.tgt_text, u.id, u.tgt_lang) for u in read_manifest(path, check_audio=True)]
