"""Recipes: which corpora, which model, which systems, which tables; checked name by name before anything runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    TypeAdapter,
    ValidationError,
    create_model,
    model_validator,
)

from npda.corpus.mini.grammar import DOMAINS, LANGUAGES
from npda.io.errors import InputError
from npda.io.files import atomic_write
from npda.io.names import unknown
from npda.reproduce.recipe.loading import read_yaml
from npda.reproduce.recipe.overrides import set_roots, set_values
from npda.reproduce.recipe.part import (
    Count,
    Language,
    Location,
    Name,
    Part,
    Seed,
    fault,
    listed,
    once,
    one_of,
    sentence_of,
)
from npda.training.loop.settings import (
    ALIGN_MINI,
    ALIGN_PRETRAINED,
    FINE_TUNE,
    LANGUAGE_MODEL_MINI,
    MINI,
    TrainingSettings,
)

Speakers = Annotated[tuple[str, ...], Field(strict=False, min_length=1), AfterValidator(once)]


class MiniCorpus(Part):
    """A domain of the embedded corpus. pairs: text only, and so much of it"""

    kind: Literal["mini"]
    domain: Annotated[str, one_of("domain", DOMAINS)]
    language: Annotated[str, one_of("language", LANGUAGES)] = "de"
    pairs: Count | None = None


class MustC(Part):
    """MuST-C v1. language: by default whichever a direction asks for"""

    kind: Literal["mustc"]
    root: Location
    language: Language | None = None


class EuroparlST(Part):
    """Europarl-ST v1.1. target: by default whichever a direction asks for"""

    kind: Literal["europarl-st"]
    root: Location
    source: Language = "en"
    target: Language | None = None


class Europarl(Part):
    """Europarl v7, text only. language: as above; pairs: how many are drawn, by default all"""

    kind: Literal["europarl"]
    root: Location
    language: Language | None = None
    pairs: Count | None = None


class Manifests(Part):
    """Your own speech with translations, in fairseq-S2T manifests.

    text: more pairs than are spoken, of which those that give away dev or test sentences go into no store;
    test: may be missing from a corpus that is never the domain; origin: where to get it, for those who lack it
    """

    kind: Literal["manifests"]
    train: Location
    dev: Location
    test: Location | None = None
    text: Location | None = None
    language: Language | None = None
    origin: str = ""


class Talks(Part):
    """One manifest, cut by its column speaker: those of dev, those of test, and all others to train on.

    transcribe: the transcripts are what is to be written, not the translations
    """

    kind: Literal["talks"]
    manifest: Location
    dev: Speakers
    test: Speakers
    transcribe: bool = False
    language: Language | None = None
    origin: str = ""


class TextPairs(Part):
    """Your own text with translations, in a TSV. origin: as above"""

    kind: Literal["text"]
    train: Location
    language: Language | None = None
    origin: str = ""


_KINDS = ("mini", "mustc", "europarl-st", "europarl", "manifests", "talks", "text")


def _kind(data: Any) -> Any:
    if not isinstance(data, dict) or "kind" not in data:
        raise fault(f"must have a key 'kind' ({', '.join(_KINDS)})")
    if data["kind"] not in _KINDS:
        raise fault(unknown("kind", str(data["kind"]), _KINDS))
    return data


Corpus = Annotated[
    MiniCorpus | MustC | EuroparlST | Europarl | Manifests | Talks | TextPairs,
    Field(discriminator="kind"),
    BeforeValidator(_kind),
]


class Seeds(Part):
    """corpus: what is drawn; training: weights, order of the data, dropout"""

    corpus: Seed = 0
    training: Seed = 1


Systems = Annotated[
    tuple[Annotated[str, listed("system")], ...], Field(strict=False, min_length=1), AfterValidator(once)
]


class Direction(Part):
    """An adaptation of a general corpus to a domain, each named among the corpora; several languages share a model.

    systems: those of the recipe, unless other ones are named here
    """

    name: Name
    general: str
    domain: str
    large_text: str | None = None
    languages: Annotated[tuple[Language, ...], Field(strict=False, min_length=1), AfterValidator(once)]
    systems: Systems | None = None


def _changes_model() -> type[BaseModel]:
    """The training settings by name and type, none of which must be given."""
    from_lists = {field.name for field in fields(TrainingSettings) if isinstance(field.default, tuple)}
    known: dict[str, Any] = {
        name: (Annotated[kind, Field(strict=False)] if name in from_lists else kind, None)
        for name, kind in get_type_hints(TrainingSettings).items()
    }
    return create_model("TrainingChanges", __base__=Part, **known)


_CHANGES = TypeAdapter(_changes_model())


def _changes(value: Any) -> dict[str, Any]:
    try:
        return _CHANGES.validate_python(value).model_dump(exclude_unset=True)
    except ValidationError as error:
        raise fault(sentence_of(error.errors()[0], value)) from None


Changes = Annotated[dict[str, Any], BeforeValidator(_changes)]


PRESETS = ("mini", "paper-bilingual", "paper-multilingual")  # of npda.models.speech2text, which brings in torch


Share = Annotated[float, Field(ge=0, lt=1)]


class TextEncoderSettings(Part):
    """Of the text path. dropout: by default the speech encoder's; subword_alpha: none unless given"""

    dropout: Share | None = None
    subword_alpha: Annotated[float, Field(gt=0, le=1)] | None = None


class ModelSettings(Part):
    """Sizes and settings by preset, and what differs from them.

    source_size, target_size, dropout, normalization, silence, transcript_weight: as in
    npda.training.tasks.speech.SpeechModel, the last two for a pretrained model;
    training, alignment, language_model: the fields of TrainingSettings that are to differ
    pretrained: a public model that takes the place of the base; source_language: the language that it hears;
    fine_tune: the base is that model trained further on the general speech
    """

    pretrained: Location | None = None
    source_language: Language | None = None
    fine_tune: bool = False
    silence: Annotated[float, Field(ge=0)] | None = None
    transcript_weight: Annotated[float, Field(ge=0)] | None = None
    preset: Annotated[str, one_of("preset", PRESETS)] = "mini"
    source_size: Count | None = None
    target_size: Count | None = None
    dropout: Share | None = None
    normalization: Literal["global", "utterance"] | None = None
    text_encoder: TextEncoderSettings = TextEncoderSettings()
    training: Changes = Field(default_factory=dict)
    alignment: Changes = Field(default_factory=dict)
    language_model: Changes = Field(default_factory=dict)

    @property
    def shape(self) -> dict[str, Any]:
        """What differs from the preset in the model itself."""
        told = {"source_size", "target_size", "dropout", "normalization", "silence", "transcript_weight"}
        return self.model_dump(include=told, exclude_none=True)

    @model_validator(mode="after")
    def _together(self) -> ModelSettings:
        if self.pretrained is None and (
            self.fine_tune or self.silence is not None or self.transcript_weight is not None
        ):
            raise fault("fine_tune, silence and transcript_weight are for a pretrained model; name it as pretrained")
        mini = self.preset == "mini"
        alignment = ALIGN_MINI if mini else TrainingSettings()
        for name, changes, settings in (
            ("training", self.training, FINE_TUNE if self.pretrained else MINI if mini else TrainingSettings()),
            ("alignment", self.alignment, ALIGN_PRETRAINED if self.pretrained else alignment),
            ("language_model", self.language_model, LANGUAGE_MODEL_MINI if mini else TrainingSettings()),
        ):
            try:
                replace(settings, **changes)
            except InputError as error:
                raise fault(f"{name}: {error}") from None
        return self


class Search(Part):
    """As in `npda.decoding.beam.SearchOptions`."""

    beam: Count = 5
    length_penalty: float = 0.6
    max_length: Count = 200


class Recipe(Part):
    """All of a recipe; made by `load_recipe`."""

    name: Name
    seeds: Seeds = Seeds()
    corpora: Annotated[dict[Name, Corpus], Field(min_length=1)]
    directions: Annotated[tuple[Direction, ...], Field(strict=False, min_length=1)]
    model: ModelSettings = ModelSettings()
    systems: Systems
    tables: Annotated[tuple[Annotated[str, listed("table")], ...], Field(strict=False), AfterValidator(once)] = ()
    search: Search = Search()
    voice: str = ""  # reads text aloud where a system wants it, as in `npda build --speak`

    @model_validator(mode="after")
    def _names(self) -> Recipe:
        for number, direction in enumerate(self.directions):
            if direction.name in {earlier.name for earlier in self.directions[:number]}:
                raise fault(f"directions[{number}].name: {direction.name!r} is taken by another direction")
            for role in ("general", "domain", "large_text"):
                name = getattr(direction, role)
                if name is not None and name not in self.corpora:
                    raise fault(f"directions[{number}].{role}: {unknown('corpus', name, self.corpora)}")
            if not self.has_test(direction.domain):
                raise fault(f"directions[{number}].domain: {direction.domain!r} has no test, which a domain must have")
        return self

    def has_test(self, corpus: str) -> bool:
        """Otherwise its dev is translated instead."""
        found = self.corpora[corpus]
        return not isinstance(found, Manifests) or found.test is not None

    def resolved(self) -> dict[str, Any]:
        """Everything as plain data, defaults included and paths absolute: for hashing, and it loads as a recipe."""
        return self.model_dump(mode="json")

    def write(self, path: str | Path) -> None:
        """The resolved recipe as YAML, for the directory of a run."""
        with atomic_write(path) as temporary:
            text = yaml.safe_dump(self.resolved(), sort_keys=False, allow_unicode=True)
            temporary.write_text(text, encoding="utf-8")


def load_recipe(
    path: str | Path,
    systems: Sequence[str],
    tables: Sequence[str],
    changes: Iterable[str] = (),
    data: Iterable[str] = (),
) -> Recipe:
    """Read and check a recipe; InputError says what is wrong and where.

    systems, tables: the names there are. changes: "KEY=VALUE" of --set. data: "NAME=DIR" of --data.
    """
    content = read_yaml(path)
    if not isinstance(content, dict):
        raise InputError(f"{path}: a recipe has keys ({', '.join(Recipe.model_fields)}); this is something else.")
    set_values(content, changes)
    set_roots(content, data)
    context = {"directory": Path(path).absolute().parent, "system": systems, "table": tables}
    try:
        return Recipe.model_validate(content, context=context)
    except ValidationError as error:
        sentence = sentence_of(error.errors()[0], content)
        raise InputError(f"{path}: {sentence}{'' if sentence.endswith(('?', '.')) else '.'}") from None
