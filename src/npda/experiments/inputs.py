"""Whether the folders and files of a recipe are there, before anything is begun."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from npda.corpus import europarl, europarl_st, mustc
from npda.errors import InputError
from npda.experiments.recipe import Corpus, Europarl, EuroparlST, Manifests, MustC, Recipe, TextPairs
from npda.experiments.stages import Plan


def check_inputs(recipe: Recipe, plan: Plan) -> None:
    """InputError with what is expected where, for the first corpus a stage is to read and cannot."""
    open_stages = {step.name for step in plan.steps if step.state != "done"}
    for name, language in _read(recipe):
        # As npda.experiments.planning names them.
        if open_stages & {f"corpus {name} {language}", f"text {name} {language}"}:
            try:
                check_corpus(recipe.corpora[name], language)
            except InputError as error:
                raise InputError(f"The corpus {name!r}: {error} Another folder is given with --data.") from None


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
        case Manifests() | TextPairs():
            for path in files_of(corpus):
                if not path.is_file():
                    raise InputError(f"There is no file {path}, which the recipe names.")


def files_of(corpus: Corpus) -> tuple[Path, ...]:
    """One's own manifests and pairs: small enough to be told by their contents when they change."""
    match corpus:
        case Manifests():
            return corpus.train, corpus.dev, corpus.test
        case TextPairs():
            return (corpus.train,)
        case _:
            return ()


def _read(recipe: Recipe) -> Iterator[tuple[str, str]]:
    """(corpus, language) of every direction."""
    for direction in recipe.directions:
        for name in (direction.general, direction.domain, direction.large_text):
            if name is not None:
                yield from ((name, language) for language in direction.languages)
