"""The words of the embedded corpus: nouns, pronouns, adjectives and irregular verbs, read from YAML."""

from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import yaml

from npda.corpus.mini import english, french, german
from npda.io.errors import InputError


@dataclass(frozen=True)
class Adjective:
    en: str
    de: str
    fr: french.Adjective


@dataclass(frozen=True)
class Noun:
    """A noun in three languages; `determiners` are those it takes where a frame names none."""

    en: english.Noun
    de: german.Noun
    fr: french.Noun
    determiners: tuple[str, ...]
    weight: float


@dataclass(frozen=True)
class Pronoun:
    """A subject pronoun: its words, and for each language the person that the verb agrees with."""

    words: dict[str, str]
    persons: dict[str, str]
    gender: str
    own: str
    weight: float


@dataclass(frozen=True)
class Lexicon:
    """All words of one domain. `classes` maps a class such as `food` to its nouns and pronouns."""

    classes: dict[str, tuple[Noun | Pronoun, ...]]
    class_adjectives: dict[str, tuple[str, ...]]
    adjectives: dict[str, Adjective]
    verbs: dict[str, dict[str, list[str]]]


def read_yaml(name: str) -> dict[str, Any]:
    """A YAML file that lies beside this module."""
    return yaml.safe_load(files("npda.corpus.mini").joinpath(name).read_text(encoding="utf-8"))


def load_lexicon(domain: str) -> Lexicon:
    """The words that both domains share, with the domain's own nouns added."""
    classes: dict[str, list[Noun | Pronoun]] = {}
    class_adjectives: dict[str, tuple[str, ...]] = {}
    common = read_yaml("common.yaml")
    adjectives = {word: _adjective(word, entry) for word, entry in common["adjectives"].items()}
    verbs = {
        language: {verb: forms.split() for verb, forms in table.items()} for language, table in common["verbs"].items()
    }
    for language, count in (("en", 4), ("de", 4), ("fr", 6)):
        for verb, forms in verbs[language].items():
            if len(forms) != count:
                raise InputError(f"common.yaml, {language} verb {verb!r}: {len(forms)} forms instead of {count}")
    for name, data in (("common.yaml", common), (f"{domain}.yaml", read_yaml(f"{domain}.yaml"))):
        for word, entry in data.get("pronouns", {}).items():
            for kind in entry["in"].split():
                classes.setdefault(kind, []).append(_pronoun(name, word, entry))
        for word, entry in data.get("nouns", {}).items():
            for kind in entry.get("in", "").split() or [word]:
                classes.setdefault(kind, []).append(_noun(name, word, entry))
        for kind, words in data.get("adjectives of", {}).items():
            class_adjectives[kind] = tuple(words.split())
    for kind, words in class_adjectives.items():
        if unknown := set(words) - set(adjectives):
            raise InputError(f"class {kind!r}: unknown adjective {min(unknown)!r}; add it to common.yaml")
    return Lexicon({kind: tuple(members) for kind, members in classes.items()}, class_adjectives, adjectives, verbs)


def _adjective(word: str, entry: dict[str, str]) -> Adjective:
    try:
        return Adjective(word, entry["de"], french.Adjective.parse(entry["fr"]))
    except (KeyError, ValueError) as fault:
        raise InputError(f"common.yaml, adjective {word!r}: {_reason(fault)}") from None


def _noun(name: str, word: str, entry: dict[str, Any]) -> Noun:
    determiners = tuple(entry.get("det", "").split()) or ("",)
    try:
        if unknown := set(determiners) - german.DETERMINERS:
            raise ValueError(f"unknown determiner {min(unknown)!r}")
        return Noun(
            english.Noun(entry.get("en", word), entry.get("plural", ""), entry.get("number") == "plural"),
            german.Noun.parse(entry["de"]),
            french.Noun.parse(entry["fr"]),
            determiners,
            float(entry.get("weight", 1)),
        )
    except (KeyError, ValueError) as fault:
        raise InputError(f"{name}, noun {word!r}: {_reason(fault)}") from None


def _pronoun(name: str, word: str, entry: dict[str, Any]) -> Pronoun:
    try:
        pairs = {language: entry[language].split() for language in ("en", "de", "fr")}
        words = {language: pair[0] for language, pair in pairs.items()}
        persons = {language: pair[1] for language, pair in pairs.items()}
        return Pronoun(words, persons, entry["gender"], entry["own"], float(entry.get("weight", 1)))
    except (KeyError, IndexError) as fault:
        raise InputError(f"{name}, pronoun {word!r}: {_reason(fault)}") from None


def _reason(fault: Exception) -> str:
    return f"{fault} is missing" if isinstance(fault, KeyError) else str(fault)
