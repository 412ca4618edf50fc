"""English noun phrases and verb forms, as far as the embedded corpus needs them."""

import re
from dataclasses import dataclass

_AN = re.compile(r"\ba (?=[aeiou])")


@dataclass(frozen=True)
class Noun:
    singular: str
    irregular_plural: str = ""
    always_plural: bool = False

    def form(self, plural: bool) -> str:
        if not plural or self.always_plural:
            return self.singular
        return self.irregular_plural or add_s(self.singular)


def add_s(word: str) -> str:
    """The -s of plurals and of the third person: box → boxes, party → parties, day → days."""
    if re.search(r"(s|x|ch|sh)$", word):
        return word + "es"
    if re.search(r"[^aeiou]y$", word):
        return word[:-1] + "ies"
    return word + "s"


def noun_phrase(noun: Noun, determiner: str, adjective: str, plural: bool) -> str:
    if plural or noun.always_plural:
        determiner = {"this": "these", "a": ""}.get(determiner, determiner)
    words = (determiner.lower(), adjective, noun.form(plural))
    return " ".join(word for word in words if word)


def conjugate(verb: str, person: str, irregular: dict[str, list[str]]) -> str:
    """Present tense; `person` is 1sg, 2sg, 3sg or a plural."""
    if verb in irregular:
        return irregular[verb][("1sg", "2sg", "3sg").index(person) if person.endswith("sg") else 3]
    return add_s(verb) if person == "3sg" else verb


def finish(text: str) -> str:
    """Writes `an` before a vowel."""
    return _AN.sub("an ", text)
