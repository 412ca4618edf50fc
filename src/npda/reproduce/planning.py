"""From a recipe to stages: which corpora are read, which models trained, which systems tuned and tried.

A stage is named by what it makes of which corpora, not by the direction that asked for it: what two directions have in
common is made once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import torch

from npda.corpus import mini
from npda.decoding.beam import SearchOptions
from npda.io.errors import InputError
from npda.reproduce.recipe.inputs import files_of
from npda.reproduce.recipe.recipe import Corpus, Direction, Europarl, EuroparlST, MiniCorpus, MustC, Recipe
from npda.reproduce.work import corpora, training, translating
from npda.reproduce.work.translating import Task
from npda.stages.code import Code
from npda.stages.plan import Stage, StageLog
from npda.systems.catalogue import MODELS, SYSTEMS, System, TrainedModel, Wanted, meant

# Part of every key, and so of every directory's name. Changed code is noticed by itself: see Code below.
VERSION = 1

# The code that decides a result. What recipe and catalogue decide is in the settings of each stage.
_CHOICES = ("npda.reproduce.recipe", "npda.systems.catalogue")
_READERS = {
    MiniCorpus: "npda.corpus.mini",
    MustC: "npda.corpus.mustc",
    EuroparlST: "npda.corpus.europarl_st",
    Europarl: "npda.corpus.europarl",
}
_TRAINING = Code(
    ("npda.reproduce.work.training", "npda.models"),
    (*_CHOICES, "npda.reproduce.work.corpora"),
)
_TRANSLATING = Code(
    ("npda.reproduce.work.translating", "npda.models"),
    (*_CHOICES, "npda.reproduce.work.corpora", "npda.reproduce.work.training", "npda.training"),
)

# Seconds on one core of a two-core machine, for the plan; an update of training, a key of a store, a sentence decoded.
_PER_UPDATE = {
    "speech": 0.13,
    "recogniser": 0.13,
    "alignment": 0.06,
    "joint": 0.2,
    "text": 0.07,
    "language model": 0.03,
}
_UPDATES = 1_700  # where a recipe counts epochs
_PRETRAINED = 20.0  # times as long, about, with a public model


@dataclass(frozen=True)
class Trial:
    """A system in a direction and one of its languages, and the stages that tell how it did."""

    system: System
    direction: Direction
    language: str
    translation: str
    tuning: str = ""
    store: str = ""
    similarity: str = ""
    model: str = ""
    extra: tuple[str, ...] = ()  # stages of models it decodes with besides


@dataclass(frozen=True)
class RecipePlan:
    """The stages of a recipe, and what they are for."""

    stages: tuple[Stage, ...]
    trials: tuple[Trial, ...]
    sizes: Mapping[tuple[str, str], str]  # (direction, language) → stage of the datastore-size curve
    speeds: Mapping[tuple[str, str], str]


def plan_recipe(recipe: Recipe, threads: int = 1) -> RecipePlan:
    """Everything there is to do. threads: of each stage"""
    return _Planner(recipe, threads).plan()


class _Planner:
    def __init__(self, recipe: Recipe, threads: int) -> None:
        self.recipe, self.threads = recipe, threads
        self.stages: dict[str, Stage] = {}
        self.search = SearchOptions(recipe.search.beam, recipe.search.length_penalty, recipe.search.max_length)
        self.vocabulary = recipe.directions[0].general  # the corpus whose text gives all vocabularies

    def plan(self) -> RecipePlan:
        trials: list[Trial] = []
        sizes: dict[tuple[str, str], str] = {}
        speeds: dict[tuple[str, str], str] = {}
        for direction in self.recipe.directions:
            for name in direction.systems or self.recipe.systems:
                system = SYSTEMS[name]
                if "large text" in system.data(large=False) and direction.large_text is None:
                    raise InputError(f"{name} needs large_text, which the direction {direction.name!r} does not name.")
                trials += [self.trial(system, direction, language) for language in direction.languages]
        for trial in trials:
            place = trial.direction.name, trial.language
            # With its largest text, as in the paper.
            largest = "NPDA-kNN-ST+" if trial.direction.large_text else "NPDA-kNN-ST"
            if trial.direction.general == trial.direction.domain:
                continue
            if trial.system.name == largest and "datastore-size" in self.recipe.tables:
                sizes[place] = self.measure("sizes", translating.measure_sizes, trial, cost=60)
            if trial.system.name == "NPDA-kNN-ST" and "speed" in self.recipe.tables and not speeds:
                speeds[place] = self.measure("speed", translating.measure_speed, trial, cost=120)
        return RecipePlan(tuple(self.stages.values()), tuple(trials), sizes, speeds)

    def trial(self, system: System, direction: Direction, language: str) -> Trial:
        """A system's stages: models, datastore, tuning, translation."""
        task = self.task(system, direction, language)
        here = self.place(direction, language)
        common = {"version": VERSION, "search": asdict(self.search), "language": task.language}
        needs = [task.model]
        if system.store is not None:
            store = f"store of {system.store.way} {task.data} by {task.model}"
            guarded = system.store.variant == "guarded"
            voice = {"voice": task.voice} if system.store.way == "spoken" else {}
            work = partial(translating.build, task=task)
            self.add(Stage(store, work, {**common, **voice}, (task.model, task.data), 15, code=_TRANSLATING))
            tuned = system if system.store.variant in ("vanilla", "guarded") else SYSTEMS["NPDA-kNN-ST"]
            counter = self.counter(task, direction, language) if guarded else ""
            task = replace(task, store=store, counter=counter, tuning=f"tune {tuned.name} {here}")
            beside = (counter, task.general) if guarded else ()
            self.add(
                Stage(
                    task.tuning,
                    partial(translating.tune_store, task=task),
                    common,
                    tuple(dict.fromkeys((task.model, store, task.domain, *beside))),
                    cost=60,
                    code=_TRANSLATING,
                )
            )
            needs += [store, task.tuning, task.domain, *beside]
        if system.language_model is not None:
            task = replace(
                task, language_model=self.model(system.language_model, direction), tuning=f"tune {system.name} {here}"
            )
            tuned = (task.model, task.language_model, task.domain)
            work = partial(translating.tune_language_model, task=task)
            self.add(Stage(task.tuning, work, common, tuned, cost=60, code=_TRANSLATING))
            needs += [task.language_model, task.tuning]
        if system.recogniser is not None:
            task = replace(task, recogniser=self.model(system.recogniser, direction))
            needs.append(task.recogniser)
        # Named only where a smaller store is measured, so that the keys of all other translations stay as they are.
        sizes = {"sizes": "total"} if system.store is not None and system.store.variant in ("pca", "pruned") else {}
        translation = f"translate {system.name} {here}"
        needs += list(task.tests.values())
        work = partial(translating.translate, task=task)
        needed = tuple(dict.fromkeys(needs))
        self.add(Stage(translation, work, {**common, **sizes}, needed, 15, code=_TRANSLATING))
        return Trial(
            system=system,
            direction=direction,
            language=language,
            translation=translation,
            tuning=task.tuning,
            store=task.store,
            similarity=self.similarity(task, direction, language),
            model=task.model,
            extra=tuple(stage for stage in (task.language_model, task.recogniser) if stage),
        )

    def task(self, system: System, direction: Direction, language: str) -> Task:
        if system.store is not None and system.store.way == "spoken" and not self.recipe.voice:
            raise InputError(
                f"{system.name} needs a voice to read the text aloud: give the recipe one, such as espeak:de."
            )
        tests = {direction.domain: self.corpus(direction.domain, language)}
        tests.setdefault(direction.general, self.corpus(direction.general, language))
        data = self.data(system.store.data, direction, language) if system.store is not None else ""
        return Task(
            system=system,
            model=self.model(system.model, direction),
            tests=tests,
            search=self.search,
            language=language if len(direction.languages) > 1 else None,
            domain=self.corpus(direction.domain, language),
            general=self.corpus(direction.general, language),
            data=data,
            voice=self.recipe.voice,
        )

    def counter(self, task: Task, direction: Direction, language: str) -> str:
        """The stage of general text, compared with which a store has to be near."""
        general = direction.general
        more = corpora.has_more_text(self.recipe.corpora[general])
        text = self.large_text(general, general, language) if more else task.general
        name, common = f"counter-store of {text} by {task.model}", {"version": VERSION, "language": task.language}
        work, needs = partial(translating.build_general, task=task, text=text), (task.model, text, task.general)
        self.add(Stage(name, work, common, tuple(dict.fromkeys(needs)), 15, code=_TRANSLATING))
        return name

    def similarity(self, task: Task, direction: Direction, language: str) -> str:
        """How well the text path of an aligned model matches; nothing for others."""
        if MODELS[task.system.model].kind != "alignment":
            return ""
        name = f"similarity of {task.model} on {direction.domain} {language}"
        settings = {"version": VERSION, "language": task.language}
        work = partial(translating.measure_similarity, task=task)
        self.add(Stage(name, work, settings, (task.model, task.domain), cost=10, code=_TRANSLATING))
        return name

    def measure(self, what: str, work: Callable[..., None], trial: Trial, cost: float) -> str:
        task = self.task(trial.system, trial.direction, trial.language)
        task = replace(task, store=trial.store, tuning=trial.tuning)
        name = f"{what} of {trial.system.name} {self.place(trial.direction, trial.language)}"
        needs = (task.model, task.store, task.tuning, task.domain, task.data)
        settings = {"version": VERSION, "search": asdict(self.search)}
        bound = partial(work, task=task)
        self.add(Stage(name, bound, settings, tuple(dict.fromkeys(needs)), cost, code=_TRANSLATING))
        return name

    def model(self, name: str, direction: Direction) -> str:
        """The stage that trains a model of the catalogue for a direction."""
        pretrained = self.recipe.model.pretrained
        if name == "base" and pretrained is not None and not self.recipe.model.fine_tune:
            return self.pretrained(pretrained)
        model, languages = MODELS[name], "+".join(direction.languages)
        data = {each: self.all_languages(each, direction) for each in model.data}
        models = {
            role: self.model(other, direction)
            for role in ("start", "vocabulary", "encoder")
            if (other := getattr(model, role)) is not None
        }
        if name in ("base", "specific"):
            # One name for both: what is specific in one direction is the base of the way back.
            corpus = direction.general if name == "base" else direction.domain
            stage, model = f"translator of {corpus} {languages}", MODELS["base"]
            if pretrained is not None:
                models["start"] = self.pretrained(pretrained)
            elif corpus != self.vocabulary:
                first = direction.model_copy(update={"general": self.vocabulary})
                models["vocabulary"] = self.model("base", first)
            data = {"general speech": tuple(self.corpus(corpus, language) for language in direction.languages)}
        else:
            ends = [direction.general] + [direction.domain] * _sees_domain(model)
            stage = f"{name} {'→'.join(ends)} {languages}"
        job = training.Job(
            model=model,
            preset=self.recipe.model.preset,
            seed=self.recipe.seeds.training,
            training=self.recipe.model.training,
            alignment=self.recipe.model.alignment,
            language_model=self.recipe.model.language_model,
            shape=self.recipe.model.shape,
            text_encoder=self.recipe.model.text_encoder.model_dump(exclude_none=True),
            corpora=data,
            dev=tuple(self.corpus(direction.domain, language) for language in direction.languages),
            models=models,
            languages=direction.languages,
            pretrained=pretrained is not None,
        )
        needs = tuple(dict.fromkeys([*(each for stages in data.values() for each in stages), *models.values()]))
        if model.kind in ("text", "language model"):
            needs = tuple(dict.fromkeys([*needs, *job.dev]))
        if model.kind == "alignment":
            job = replace(job, teacher=self.teacher(job, needs))
            needs = (*needs, job.teacher)
        cost = _PER_UPDATE[model.kind] * (job.resolved().max_updates or _UPDATES * model.length)
        settings = {"version": VERSION, **job.settings()}
        self.add(Stage(stage, partial(training.train_model, job=job), settings, needs, cost, code=_TRAINING))
        return stage

    def teacher(self, job: training.Job, needs: tuple[str, ...]) -> str:
        """The stage of the states that alignments learn from, whatever their loss."""
        stage = f"states of {job.models['start']} on {' and '.join(chain.from_iterable(job.corpora.values()))}"
        settings = {"version": VERSION, "max_frames": job.resolved().max_frames}
        self.add(Stage(stage, partial(training.teach, job=job), settings, needs, cost=60, code=_TRAINING))
        return stage

    def pretrained(self, directory: Path) -> str:
        """The stage that takes over a public model."""
        stage, language = f"model {directory.name}", self.recipe.model.source_language
        work = partial(training.take_over, model=directory, source_language=language)
        told = {"version": VERSION, "model": directory.name, "source_language": language}
        weights = tuple(sorted(directory.glob("*.safetensors")))
        self.add(Stage(stage, work, told, inputs=weights, cost=5, code=_TRAINING))
        return stage

    def all_languages(self, data: Wanted, direction: Direction) -> tuple[str, ...]:
        return tuple(self.data(data, direction, language) for language in direction.languages)

    def data(self, data: Wanted, direction: Direction, language: str) -> str:
        """The stage that holds one kind of data."""
        kind, domain = meant(data, direction.large_text is not None), direction.domain
        if kind == "large text":
            assert direction.large_text is not None
            return self.large_text(direction.large_text, domain, language)
        if kind == "domain text" and corpora.has_more_text(self.recipe.corpora[domain]):
            return self.large_text(domain, domain, language)
        return self.corpus(direction.general if kind == "general speech" else domain, language)

    def corpus(self, name: str, language: str) -> str:
        corpus, seed = self.recipe.corpora[name], self.recipe.seeds.corpus
        if not corpora.has_speech(corpus):
            raise InputError(f"The corpus {name!r} has no speech; it can only be large_text.")
        stage = f"corpus {name} {language}"
        work = partial(_speech, corpus=corpus, language=language, seed=seed)
        self.add(
            Stage(stage, work, self.described(name, language), cost=35, inputs=_there(corpus), code=_reading(corpus))
        )
        return stage

    def large_text(self, name: str, domain: str, language: str) -> str:
        """Text without what the domain holds out."""
        stage, against = f"text {name} for {domain} {language}", self.corpus(domain, language)
        corpus, seed = self.recipe.corpora[name], self.recipe.seeds.corpus
        work = partial(_text, corpus=corpus, language=language, seed=seed, against=against)
        self.add(Stage(stage, work, self.described(name, language), (against,), 20, _there(corpus), _reading(corpus)))
        return stage

    def described(self, name: str, language: str) -> dict[str, Any]:
        corpus = self.recipe.corpora[name]
        made = {"grammar": mini.version(), "seed": self.recipe.seeds.corpus} if isinstance(corpus, MiniCorpus) else {}
        told = corpus.model_dump(mode="json", exclude={"origin"})
        if told.get("text", "") is None:
            del told["text"]  # as before there was this choice: what was made then is found again
        return {"version": VERSION, "language": language, **told, **made}

    def place(self, direction: Direction, language: str) -> str:
        return f"{direction.name} {language}" if direction.name != language else language

    def add(self, stage: Stage) -> None:
        work = partial(_with_threads, work=stage.work, threads=self.threads)
        # Corpora and the model itself, which need nothing, are only taken over.
        large = self.recipe.model.pretrained is not None and stage.needs
        cost = stage.cost * (_PRETRAINED if large else 1.0)
        self.stages.setdefault(stage.name, replace(stage, work=work, cost=cost))


def _sees_domain(model: TrainedModel) -> bool:
    """Whether anything of the domain went into a model or into what it was trained from."""
    before = [MODELS[name] for name in (model.start, model.encoder) if name is not None]
    return any(not each.startswith("general") for each in model.data) or any(map(_sees_domain, before))


def _there(corpus: Any) -> tuple[Path, ...]:
    """Those of a corpus's own files that exist: a plan can be made without them."""
    return tuple(path for path in files_of(corpus) if path.is_file())


def _reading(corpus: Corpus) -> Code:
    """The code that reads a corpus: without the readers of other kinds."""
    others = tuple(reader for kind, reader in _READERS.items() if not isinstance(corpus, kind))
    return Code(("npda.reproduce.work.corpora",), (*_CHOICES, *others))


def _speech(directory: Path, needed: Mapping[str, Path], log: StageLog, corpus: Any, language: str, seed: int) -> None:
    corpora.write_speech(directory, corpus, language, seed, log)


def _text(
    directory: Path, needed: Mapping[str, Path], log: StageLog, corpus: Any, language: str, seed: int, against: str
) -> None:
    corpora.write_text(directory, corpus, language, seed, corpora.held_out(needed[against]), log)


def _with_threads(directory: Path, needed: Mapping[str, Path], log: StageLog, work: Any, threads: int) -> None:
    torch.set_num_threads(threads)
    work(directory, needed, log)
