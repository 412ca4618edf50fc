"""Whether the folders and files of a recipe are there, before anything is begun."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from npda.corpus import europarl, europarl_st, mustc
from npda.io.errors import InputError
from npda.reproduce.recipe.part import FOLDERS, folder
from npda.reproduce.recipe.recipe import Corpus, Europarl, EuroparlST, Manifests, MustC, Recipe, Talks, TextPairs
from npda.stages.plan import Plan


def check_inputs(recipe: Recipe, plan: Plan) -> None:
    """InputError with what is expected where, for the first corpus a stage is to read and cannot."""
    open_stages = {step.name for step in plan.steps if step.state != "done"}
    pretrained = recipe.model.pretrained
    if pretrained is not None and f"model {pretrained.name}" in open_stages and not pretrained.is_dir():
        raise InputError(f"There is no model {pretrained}; {_how_to_get(pretrained, 'the hub of models')}.")
    for name, language, stage in _read(recipe):
        if stage in open_stages:
            corpus = recipe.corpora[name]
            try:
                check_corpus(corpus, language)
            except InputError as error:
                has_root = isinstance(corpus, MustC | EuroparlST | Europarl)
                more = " Another folder is given with --data." if has_root else ""
                raise InputError(f"The corpus {name!r}: {error}{more}") from None


def check_corpus(corpus: Corpus, language: str) -> None:
    """InputError if a folder or file is missing; nothing is read."""
    match corpus:
        case MustC():
            for split in ("train", "dev", "tst-COMMON"):
                mustc.files(corpus.root, language, split)
        case EuroparlST():
            for split in ("train", "dev", "test"):
                europarl_st.files(corpus.root, corpus.source, language, split)
        case Europarl():
            europarl.files(corpus.root, language)
        case Manifests() | Talks() | TextPairs():
            for path in files_of(corpus):
                if not path.is_file():
                    raise InputError(f"There is no file {path}; {_how_to_get(path, corpus.origin)}.")


def files_of(corpus: Corpus) -> tuple[Path, ...]:
    """One's own manifests and pairs: small enough to be told by their contents when they change."""
    match corpus:
        case Manifests():
            return tuple(path for path in (corpus.train, corpus.dev, corpus.test, corpus.text) if path)
        case Talks():
            return (corpus.manifest,)
        case TextPairs():
            return (corpus.train,)
        case _:
            return ()


def _how_to_get(path: Path, origin: str) -> str:
    """What to do about a file that a recipe names and that is not there."""
    where = f"it comes from {origin}" if origin else "change the recipe or put it there"
    for variable in FOLDERS:
        if path.is_relative_to(folder(variable)):
            inside = path.relative_to(folder(variable)).parts[0]
            return f"{where}, and {variable} must name the folder that holds {inside} (now {folder(variable)})"
    return where


def _read(recipe: Recipe) -> Iterator[tuple[str, str, str]]:
    """(corpus, language, the stage that reads it) of every direction; stages as npda.reproduce.planning names them"""
    for direction in recipe.directions:
        for language in direction.languages:
            for name in (direction.general, direction.domain):
                yield name, language, f"corpus {name} {language}"
            if (name := direction.large_text) is not None:
                yield name, language, f"text {name} for {direction.domain} {language}"
