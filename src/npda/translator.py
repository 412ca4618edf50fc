"""Audio in, text out: the few lines most people need."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from os import PathLike
from pathlib import Path

import numpy as np
import torch

from npda import audio
from npda.corpus.languages import language_code
from npda.datastore.counter import find_counter
from npda.datastore.retrieval.joined import JoinedRetriever
from npda.datastore.store import Datastore
from npda.decoding.beam import SearchOptions
from npda.decoding.fusion import Fusion
from npda.decoding.knn.combiners import Combiner
from npda.decoding.knn.fusion import KnnFusion
from npda.decoding.knn.guarded import GuardedFusion
from npda.decoding.knn.steering import Chosen, steer, tuned_search
from npda.decoding.knn.tuned import tuned_combiner
from npda.decoding.retry import search_with_retry
from npda.io.errors import InputError
from npda.models import load_backbone
from npda.models.backbone import Backbone, HearsMany, Packed
from npda.models.devices import Precision, choose_device
from npda.models.features import features_of
from npda.models.hub import model_directory
from npda.models.inputs import hear_batch
from npda.models.languages import check_spoken
from npda.segmentation import Detector, Pauses, best_detector, gathered, holds_speech, stretches
from npda.terms.termbase import Terms
from npda.terms.using import Searched, use_lists
from npda.translation import Heard, Task, Translation, as_translation, batches, segment
from npda.writers import Segment

Audio = str | PathLike[str] | np.ndarray  # a file, or samples [n] float32 at 16 kHz
TermLists = Terms | str | PathLike[str] | Sequence[str | PathLike[str]]  # opened, or to be opened together

logger = logging.getLogger(__name__)

WINDOW = 512  # inputs read ahead and sorted by length before they are cut into batches
_LONG_WINDOW = 300.0  # seconds of speech of a long recording that are translated together
_MARGIN = 0.5  # seconds of what the model takes that stay free, for silence at the end


class Translator:
    """A speech translator: a backbone and the search over it."""

    def __init__(
        self, backbone: Backbone, directory: Path | None = None, ear: Callable[[], Detector] | None = None
    ) -> None:
        """directory: of the model, where its counter-store may lie; ear: makes detectors, by which inputs without
        speech are told and left untranslated; without it everything is translated"""
        self.backbone = backbone
        self.directory = directory
        self.ear = ear

    @classmethod
    def from_pretrained(
        cls,
        model: str | PathLike[str],
        source_language: str | None = None,
        *,
        int8: bool = False,
        device: str | torch.device = "auto",
        precision: Precision = "auto",
    ) -> Translator:
        """Open a model by its directory, made by ``npda train`` or by transformers, or by its name on the hub.

        source_language: what is spoken, for models with several, by name (English) or code (en)
        int8: compute in eight bits, faster on a processor and less exact, see docs/performance.md
        device: auto (the accelerator if there is one), cpu, cuda, cuda:1, mps …
        precision: auto (float32 on a processor, bfloat16 or float16 on an accelerator), or one of these
        """
        device = choose_device("cpu" if int8 and device == "auto" else device)
        if int8 and (device.type != "cpu" or precision not in ("auto", "float32")):
            raise InputError("Eight bits are for the processor: leave out int8, or the device and the precision.")
        spoken = source_language and language_code(source_language)
        directory = model_directory(Path(model))
        backbone = load_backbone(directory, spoken, device, precision)
        if int8:
            if not isinstance(backbone, Packed):
                raise InputError(f"{type(backbone).__name__} models cannot compute in eight bits yet: leave out int8.")
            backbone.packing.int8 = True
        return cls(backbone, directory, best_detector)

    def hearing(self, source_language: str) -> Translator:
        """The same model, told what is spoken; it has no weights of its own. Models that hear it themselves stay as
        they are. source_language: by name (English) or code (en)"""
        spoken = language_code(source_language)
        check_spoken(self.backbone, spoken)
        if spoken == self.backbone.source_language or not isinstance(self.backbone, HearsMany):
            return self
        return Translator(self.backbone.hearing(spoken), self.directory, self.ear)

    def translate(
        self,
        source: Audio,
        options: SearchOptions | None = None,
        language: str | None = None,
        *,
        datastore: Datastore | Sequence[Datastore] = (),
        k: int | None = None,
        lambda_: float | None = None,
        temperature: float | None = None,
        adaptive: bool = False,
        combiner: Combiner | None = None,
        fusions: Sequence[Fusion] = (),
        guarded: bool = True,
        terms: TermLists = (),
    ) -> Translation:
        """Translate one file or one array of samples.

        options: by default the usual ones, with the length penalty that the (first) datastore was tuned with
        language: target language, for models with several, by name (German) or code (de)
        datastore: one or several that steer the translation where they know what is spoken about
        k, lambda_, temperature: of eq. 2 and 5; by default what each datastore was tuned to, or the paper's
        adaptive: use the network that `npda tune --adaptive` has trained for a datastore to choose k and λ
        combiner: use your own instead; fusions: what else has a say in every token, before the datastores
        guarded: compare with the model's counter-store; without it a datastore steers whatever is said, as in the paper
        terms: lists of `npda terms` whose words are to be used, opened or by their folders
        """
        stores = [datastore] if isinstance(datastore, Datastore) else list(datastore)
        options = options or tuned_search(stores)
        chosen = Chosen(k, lambda_, temperature, adaptive, combiner)
        fusions = [*fusions, *([self.steered_by(stores, language, chosen, guarded)] if stores else [])]
        (translation,) = self.translate_all([source], options, language, fusions, terms=terms)
        assert translation is not None  # without on_error, errors are raised
        return translation

    def translate_all(
        self,
        sources: Iterable[Audio],
        options: SearchOptions = SearchOptions(),
        language: str | None = None,
        fusions: Sequence[Fusion] = (),
        on_error: Callable[[InputError], None] | None = None,
        *,
        terms: TermLists = (),
        listens: bool = True,
    ) -> Iterator[Translation | None]:
        """Translate any number of inputs in bounded memory, in their order.

        fusions: what else has a say in every token, see ``neighbours``
        on_error: called for an input that cannot be read, which then gives None, or the translation of its beginning
        (``audio.CutOff``); without it the error is raised
        terms: as for ``translate``
        listens: silence and noise give no text, and "no speech" as ``retried``; False where they were left out before
        """
        opened = self.terms(terms, language)
        prompt = self.backbone.prompt(language and language_code(language))
        sources = iter(sources)
        while window := list(islice(sources, WINDOW)):
            found = [self._hear(source, on_error, listens) for source in window]
            heard = [item if isinstance(item, Heard) else None for item in found]
            results = [item if isinstance(item, Translation) else None for item in found]
            for batch in batches(heard):
                tasks = [Task(item, prompt, terms=opened) for index in batch if (item := heard[index]) is not None]
                for index, translation in zip(batch, self.decode(tasks, options, fusions), strict=True):
                    results[index] = translation
            yield from results

    def translate_long(
        self,
        source: str | PathLike[str],
        options: SearchOptions | None = None,
        language: str | None = None,
        fusions: Sequence[Fusion] = (),
        *,
        datastore: Datastore | Sequence[Datastore] = (),
        k: int | None = None,
        lambda_: float | None = None,
        temperature: float | None = None,
        adaptive: bool = False,
        combiner: Combiner | None = None,
        guarded: bool = True,
        pauses: Pauses = Pauses(),
        detector: Detector | None = None,
        terms: TermLists = (),
        done: Callable[[int], Sequence[Segment] | None] = lambda part: None,
        on_done: Callable[[int, Sequence[Segment]], object] = lambda part, segments: None,
    ) -> Iterator[Segment]:
        """Translate a recording of any length in bounded memory: what is said from when to when, in order.

        It is cut at its pauses into stretches that the model takes, and translated some minutes at a time.
        options, fusions, datastore … guarded, terms: as for ``translate``
        pauses: where to cut; detector: who hears the pauses, a fresh one; by default the best that is installed
        done: what some minutes, counted from 0, gave before, if they were translated; on_done: told what they give
        """
        stores = [datastore] if isinstance(datastore, Datastore) else list(datastore)
        options = options or tuned_search(stores)
        chosen = Chosen(k, lambda_, temperature, adaptive, combiner)
        fusions = [*fusions, *([self.steered_by(stores, language, chosen, guarded)] if stores else [])]
        opened = self.terms(terms, language)
        found = stretches(source, self.within_reach(pauses), detector)
        for number, group in enumerate(gathered(found, _LONG_WINDOW)):
            if (known := done(number)) is not None:
                yield from known
                continue
            samples = [stretch.samples for stretch in group]
            translations = self.translate_all(samples, options, language, fusions, terms=opened or (), listens=False)
            segments = []
            for stretch, translation in zip(group, translations, strict=True):
                assert translation is not None  # without on_error, errors are raised
                segments.append(segment(stretch, translation, options))
                yield segments[-1]
            on_done(number, segments)

    def within_reach(self, pauses: Pauses) -> Pauses:
        """Where to cut, so that the model takes every stretch."""
        return replace(pauses, longest=min(pauses.longest, self.backbone.max_frames / 100 - _MARGIN))

    def neighbours(
        self, stores: Sequence[Datastore], combiner: Combiner | None = None, language: str | None = None
    ) -> KnnFusion:
        """The paper's fusion: these stores, searched as one, steer whatever is said.

        Stores of another model or language are refused. combiner: by default what the first store was tuned to
        """
        self._check(stores, language)
        retriever = stores[0] if len(stores) == 1 else JoinedRetriever(stores)
        return KnnFusion(retriever, tuned_combiner(stores[0]) if combiner is None else combiner)

    def terms(self, lists: TermLists, language: str | None = None, attentive: bool = False) -> Terms | None:
        """Open lists of terms for this model; None for no list.

        language: of the translations; attentive: listen for terms in every utterance, see ``npda.terms.termbase``
        """
        if isinstance(lists, Terms):
            return lists
        paths = [lists] if isinstance(lists, str | PathLike) else list(lists)
        return Terms.open(paths, self.backbone, language and language_code(language), attentive) if paths else None

    def steered_by(
        self,
        stores: Sequence[Datastore],
        language: str | None = None,
        chosen: Chosen = Chosen(),
        guarded: bool = True,
    ) -> KnnFusion | GuardedFusion:
        """The fusion that lets these stores steer, each as it was tuned, where it knows what is spoken about.

        chosen: what is to be used instead of what was tuned; guarded: see ``translate``
        """
        self._check(stores, language)
        counter = find_counter(self.backbone, self.directory, language and language_code(language)) if guarded else None
        if guarded and counter is None:
            names = " and ".join(store.path.name for store in stores)
            logger.warning(
                "The model has no counter-store, so that %s will steer whatever is said, also outside of its domain: "
                "make one of general text with `npda build --counter`.",
                names,
            )
        return steer(self.backbone, stores, counter.store if counter else None, chosen)

    def _check(self, stores: Sequence[Datastore], language: str | None) -> None:
        for store in stores:
            store.check(self.backbone, language and language_code(language))

    def hear(self, source: Audio) -> Heard:
        """Read one input as far as its features; InputError if it cannot be read or is longer than the model takes."""
        return self._heard(*_read(source, None))

    def _heard(self, name: str, waveform: np.ndarray) -> Heard:
        features = features_of(self.backbone, waveform, name)
        return Heard(name, len(waveform) / audio.SAMPLE_RATE, features)

    def _hear(
        self, source: Audio, on_error: Callable[[InputError], None] | None, listens: bool
    ) -> Heard | Translation | None:
        """An input ready to be translated, or what becomes of one that nobody speaks in."""
        try:
            name, waveform = _read(source, on_error)
            if listens and self.ear is not None and not holds_speech(waveform, self.ear()):
                return Translation("", 0.0, len(waveform) / audio.SAMPLE_RATE, name, retried="no speech")
            return self._heard(name, waveform)
        except InputError as error:
            if on_error is None:
                raise
            on_error(error)
            return None

    @torch.inference_mode()
    def decode(
        self, tasks: Sequence[Task], options: SearchOptions = SearchOptions(), fusions: Sequence[Fusion] = ()
    ) -> list[Translation]:
        """Translate a batch, all of it at once; ``translate_all`` cuts any number of inputs into batches.

        fusions: their sentences are numbered as the tasks
        """
        prompts = torch.tensor([[*task.prompt, *task.begins] for task in tasks])
        begun = len(tasks[0].begins)
        if prompts.shape[1] >= self.backbone.max_target:
            raise ValueError(f"there is no room for a translation that begins with {begun} tokens")
        memory = hear_batch(
            self.backbone, [task.heard.features for task in tasks], prompts[:, : prompts.shape[1] - begun]
        )
        lists = [task.terms for task in tasks]
        # What stands in any hypothesis tells which terms may have been said.
        whole = options if lists == [None] * len(lists) else replace(options, n_best=options.beam)
        left_out = _left_out(fusions)
        found = search_with_retry(self.backbone, memory, prompts, whole, fusions, begun)
        searched = Searched(self.backbone, memory, prompts, whole, fusions, begun)
        used = use_lists(lists, searched, found, options.n_best)
        partial = _left_out(fusions) > left_out
        return [as_translation(task.heard, of_one, partial) for task, of_one in zip(tasks, used, strict=True)]


def _read(source: Audio, on_error: Callable[[InputError], None] | None) -> tuple[str, np.ndarray]:
    """Name and samples of an input. on_error: is told that it is not whole; without it that is an error"""
    if isinstance(source, np.ndarray):
        return "", source
    try:
        return str(source), audio.load(str(source))
    except audio.CutOff as error:
        if on_error is None or error.samples is None or len(error.samples) < audio.WINDOW:
            raise
        on_error(error)
        return str(source), error.samples


def _left_out(fusions: Sequence[Fusion]) -> int:
    """How many searches so far had to do without a part of a store."""
    retrievers = [retriever for fusion in fusions for retriever in getattr(fusion, "retrievers", ())]
    return sum(getattr(retriever, "left_out", 0) for retriever in retrievers)
