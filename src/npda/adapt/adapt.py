"""All of an adaptation: text path → leaks → datastore → k, λ and T → what was gained.

OUT/store         the datastore, tuned
OUT/leaks.jsonl   pairs of the text that were left out, with the dev or test sentences they give away
OUT/adapt/        what is finished, a file a stage; a call that was killed goes on from there
OUT/spoken/       dev and test sentences read aloud, where only text of them was given and a voice

A trained text path is kept apart, in the cache, since every further domain of the model needs it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npda.adapt.results import Adaptation, Dropped
from npda.adapt.text_path import Reader, TextPath, with_text_path
from npda.corpus.leakage import Leak, LeakageFilter
from npda.corpus.manifest import Utterance, read_manifest
from npda.corpus.pairs import Pair, read_pairs, stream_pairs
from npda.corpus.recording import synthesize
from npda.corpus.voices import Voice, voice
from npda.datastore.fingerprint import model_digest
from npda.datastore.source import CHUNK, SPOKEN_CHUNK, BuildOptions, Source
from npda.datastore.store import Datastore
from npda.decoding.beam import SearchOptions
from npda.decoding.knn.adaptive import SETTINGS as ADAPTIVE
from npda.decoding.knn.adaptive import AdaptiveCombiner, save_adaptive
from npda.decoding.knn.combiners import Combiner
from npda.decoding.knn.fusion import KnnFusion
from npda.decoding.knn.tuned import FILE as TUNED
from npda.decoding.knn.tuned import load_learned
from npda.evaluation.devset import DevSet, Way
from npda.evaluation.significance import Comparison, compare
from npda.evaluation.tuning.adaptive import tune_adaptive
from npda.evaluation.tuning.save import save_tuned
from npda.evaluation.tuning.search import Tuning, tune
from npda.io.digests import short_digest
from npda.io.errors import InputError
from npda.io.files import atomic_write, stream_lines
from npda.io.locks import locked
from npda.io.progress import bar, stage, track
from npda.stages.code import Code
from npda.stages.stage_cache import StageCache

if TYPE_CHECKING:
    from npda.models import AnyBackbone


# The code that decides each result; how the model learnt to read is in its weights.
_LEAKS = Code(("npda.corpus.leakage", "npda.corpus.pairs"))
_STORE = Code(("npda.datastore.build", "npda.models"))
_TUNING = Code(("npda.evaluation.tuning", "npda.models"))
_TRANSLATING = Code(("npda.evaluation.devset", "npda.decoding.knn", "npda.models"))


@dataclass(frozen=True)
class Inputs:
    """What an adaptation is made of: files of the domain, and where its results go.

    text: pairs; dev, test: manifests of speech, or pairs
    """

    model: str
    text: Path
    dev: Path
    out: Path
    test: Path | None = None


@dataclass(frozen=True)
class AdaptOptions:
    """text_path: how the model learns to read, if it cannot; speak: a voice that reads the text aloud instead;
    language: of the translations, for models with several; source_language: of the speech, likewise;
    decodes: points of the grid that tuning may decode; adaptive: k and λ are chosen token by token, by a network that
    is trained on dev; samples: of the bootstrap
    """

    text_path: TextPath = field(default_factory=TextPath)
    speak: str | None = None
    language: str | None = None
    source_language: str | None = None
    index: str = "auto"
    search: SearchOptions = field(default_factory=SearchOptions)
    decodes: int = 8
    adaptive: bool = False
    samples: int = 1000


@dataclass(frozen=True)
class _Sentences:
    """Held-out sentences of the domain, and which way they go into the model. digest: of their file and their voice"""

    given: Sequence[Utterance] | Sequence[Pair]
    way: Way
    digest: str


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
        raise InputError(
            f"All {leaks} pairs of {inputs.text} give away sentences of dev or test: hold out other sentences."
        )
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
        self.backbone: AnyBackbone = reader.backbone
        self.cache, self.progress = cache, progress

    def run(self, held_out: dict[str, list[Pair]], leakage: LeakageFilter, dropped: Dropped) -> Adaptation:
        store = self._store(leakage, dropped)
        dev = self._sentences("dev", self.inputs.dev, held_out["dev"])
        tuning = self._tune(store, dev)
        combiner = self._learn(store, tuning, dev) if self.options.adaptive else tuning.best
        judged = self._sentences("test", self.inputs.test, held_out["test"]) if self.inputs.test else dev
        comparisons, sentences = self._compare(store, combiner, judged)
        return Adaptation(
            model=self.reader.directory,
            aligned=self.reader.aligned,
            store=store.path,
            keys=len(store),
            kind=store.info.sources[0].kind,
            dropped=dropped,
            leaks=self.inputs.out / "leaks.jsonl",
            tuning=tuning,
            adaptive=self.options.adaptive,
            comparisons=tuple(comparisons),
            on="test" if self.inputs.test else "dev",
            way=judged.way,
            sentences=sentences,
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
            "model": model_digest(self.backbone),
            "text": [self.inputs.text.name, short_digest(self.inputs.text), dropped.digest],
            "settings": [options.language, options.speak, options.index],
        }

        def build() -> None:
            pairs = (found for found in _checked(self.inputs.text, leakage) if isinstance(found, Pair))
            kind = "spoken" if self.speaker else "text"
            source = Source(self.inputs.text.name, pairs, kind, dropped.kept, self.speaker)
            chunk = SPOKEN_CHUNK if self.speaker else CHUNK
            how = BuildOptions(options.index, language=options.language, chunk=chunk, progress=self.progress)
            Datastore.build_from(self.backbone, source, path, how)

        self.cache.recall_directory("store", identity, _STORE, path, build)
        return Datastore.open(path, self.backbone)

    def _sentences(self, name: str, path: Path, pairs: list[Pair]) -> _Sentences:
        """As they are tuned on or judged by: heard if there is speech, or a voice that makes some; else read."""
        digest = short_digest(path)
        if is_manifest(path):
            return _Sentences(read_manifest(path), "speech", digest)
        if self.speaker is None:
            return _Sentences(pairs, "text", digest)
        recording = synthesize(pairs, self.speaker, self.inputs.out / "spoken", name, len(pairs), self.progress)
        return _Sentences(read_manifest(recording.manifest), "speech", f"{digest} {self.speaker.name}")

    def _tune(self, store: Datastore, dev: _Sentences) -> Tuning:
        options = self.options
        for language in {sentence.tgt_lang or options.language for sentence in dev.given}:
            store.check(self.backbone, language)
        identity: dict[str, Any] = {"store": store.digest, "dev": [dev.digest, dev.way, options.language]}
        identity |= {"search": asdict(options.search), "decodes": options.decodes}
        before = len(self.cache.found)
        found = self.cache.recall(
            "tuning",
            identity,
            _TUNING,
            Tuning,
            lambda: tune(
                self.backbone,
                store,
                dev.given,
                dev.way,
                options.search,
                options.decodes,
                language=options.language,
                progress=self.progress,
            ),
        )
        # What somebody has tuned by hand since then stays.
        if len(self.cache.found) == before or not (store.path / TUNED).is_file():
            save_tuned(store, found)
        return found

    def _learn(self, store: Datastore, tuning: Tuning, dev: _Sentences) -> AdaptiveCombiner:
        """A network trained on the sentences that were tuned on; the store keeps it."""
        options = self.options

        def learn() -> dict[str, Any]:
            devset = DevSet(self.backbone, dev.given, dev.way, options.language)
            learned = tune_adaptive(devset, store, tuning.best, options.search, self.progress)
            save_adaptive(store.path, learned.combiner, store.digest)
            return learned.record()

        identity: dict[str, Any] = {"store": store.digest, "dev": [dev.digest, dev.way, options.language]}
        identity |= {"search": asdict(options.search), "best": asdict(tuning.best)}
        self.cache.recall("adaptive", identity, _TUNING, dict[str, Any], learn)
        if not (store.path / ADAPTIVE).is_file():
            learn()  # an equal store took the place of the one that had it
        return load_learned(store)

    def _compare(self, store: Datastore, combiner: Combiner, judged: _Sentences) -> tuple[list[Comparison], int]:
        """By paired bootstrap resampling: the model with the store beside the model alone."""
        options = self.options
        devset = DevSet(self.backbone, judged.given, judged.way, options.language)
        identity: dict[str, Any] = {"model": model_digest(self.backbone), "search": asdict(options.search)}
        identity |= {"sentences": [judged.digest, judged.way, options.language]}
        base = self.cache.recall(
            "base", identity, _TRANSLATING, list[str], lambda: self._translate(devset, "model alone")
        )
        if combiner.is_inactive:
            adapted = base
        else:
            fusion = KnnFusion(store, combiner)
            identity |= {"store": store.digest, "knn": _identity(combiner)}
            adapted = self.cache.recall(
                "adapted", identity, _TRANSLATING, list[str], lambda: self._translate(devset, "with the store", fusion)
            )
        with stage("testing significance", self.progress):
            return compare(adapted, base, devset.references, samples=options.samples), len(devset)

    def _translate(self, devset: DevSet, how: str, *fusions: KnnFusion) -> list[str]:
        with bar(self.progress) as display:
            task = display.add_task(f"translating: {how}", total=len(devset), note="")
            return devset.translations(self.options.search, fusions, lambda done: display.advance(task, done))


def _identity(combiner: Combiner) -> str:
    """Its signature, with the weights if it has any."""
    if not isinstance(combiner, AdaptiveCombiner):
        return str(combiner)
    weights = hashlib.sha256()
    for tensor in combiner.state_dict().values():
        weights.update(tensor.numpy().tobytes())
    return f"{combiner} {weights.hexdigest()[:16]}"


def is_manifest(path: Path) -> bool:
    """Whether a table is of speech, by its header."""
    return {"audio", "n_frames"} <= set(next(stream_lines(path), "").split("\t"))


def _pairs(path: Path) -> list[Pair]:
    """Held-out sentences as text; a manifest need not have transcripts."""
    if not is_manifest(path):
        return read_pairs(path)
    return [Pair(u.src_text, u.tgt_text, u.id, u.tgt_lang) for u in read_manifest(path, check_audio=True)]
