"""Frames: sentence patterns whose slots are filled alike in English, German and French.

A frame is three lines of text with three kinds of marks:

    en: "{subject} <buy> {a * garment} for {own child}."
    de: "{subject} <kaufen> {garment:acc} für {child:acc}."
    fr: "{subject} <acheter> {garment} pour {child}."

`{determiner adjective class}` in the English line is a slot: a noun of that class (`+` at its end: plural).
`the/a` means either; without a determiner the noun brings its own; `own` is the possessive of the first slot.
`*` means that an adjective may stand there; an adjective's name puts that one. The German and French lines
call a slot by its class, with a case (`:dat`) or another determiner (`:the`) where needed; a class used twice
is told apart by a digit (`person`, `person2`). `<verb>` agrees with the first slot, `<verb:child>` with
another; `[adjective]` is a French adjective or participle that agrees in the same way.
"""

import random
import re
from dataclasses import dataclass

from npda.corpus.mini import english, french, german
from npda.corpus.mini.lexicon import Adjective, Lexicon, Noun, Pronoun
from npda.io.errors import InputError

ADJECTIVE_RATE = 0.4
RULES = {"en": english, "de": german, "fr": french}
_MARK = re.compile(r"\{([^}]*)\}|<([^>]*)>|\[([^\]]*)\]")


@dataclass(frozen=True)
class Slot:
    name: str
    kind: str
    determiners: tuple[str, ...]
    adjectives: tuple[str, ...]
    adjective_rate: float
    plural: bool


@dataclass(frozen=True)
class Filler:
    """What stands in a slot: the same choice for every language."""

    word: Noun | Pronoun
    determiner: str
    adjective: Adjective | None
    plural: bool

    def render(self, language: str, case: str, determiner: str) -> str:
        word = self.word
        if isinstance(word, Pronoun):
            return word.words[language]
        if language == "de":
            return german.noun_phrase(
                word.de, determiner, self.adjective.de if self.adjective else "", case, self.plural
            )
        if language == "fr":
            return french.noun_phrase(word.fr, determiner, self.adjective.fr if self.adjective else None, self.plural)
        return english.noun_phrase(word.en, determiner, self.adjective.en if self.adjective else "", self.plural)

    def person(self, language: str) -> str:
        """The person and number that a verb of this language agrees with."""
        if isinstance(self.word, Pronoun):
            return self.word.persons[language]
        always_plural = {
            "en": self.word.en.always_plural,
            "de": self.word.de.gender == "pl",
            "fr": self.word.fr.always_plural,
        }
        return "3pl" if self.plural or always_plural[language] else "3sg"

    def french_gender(self) -> str:
        return self.word.gender if isinstance(self.word, Pronoun) else self.word.fr.gender

    def own(self) -> str:
        """The possessive determiner of this subject: his for a man, their for several."""
        if isinstance(self.word, Pronoun):
            return self.word.own
        if self.plural or self.word.en.always_plural:
            return "their"
        return "her" if self.word.de.gender == "f" else "his"


class Frame:
    """One sentence pattern; checked against the lexicon when it is made."""

    def __init__(self, lines: dict[str, str], weight: float, lexicon: Lexicon) -> None:
        self.lines = lines
        self.weight = weight
        self._lexicon = lexicon
        self._french = {entry.fr.masculine: entry.fr for entry in lexicon.adjectives.values()}
        marks = [match[1] for match in _MARK.finditer(lines["en"]) if match[1] is not None]
        self._slots = [self._parse_slot(mark) for mark in marks]
        self._names = [slot.name for slot in self._slots]
        self._check()

    def sample(self, rng: random.Random) -> dict[str, str]:
        """One sentence in every language: {"en": …, "de": …, "fr": …}."""
        fillers: dict[str, Filler] = {}
        for slot in self._slots:
            fillers[slot.name] = self._fill(slot, fillers, rng)
        return {language: self._render(language, line, fillers) for language, line in self.lines.items()}

    def _parse_slot(self, mark: str) -> Slot:
        *options, name = mark.split()
        plural, name = name.endswith("+"), name.removesuffix("+")
        determiners = tuple(options[0].split("/")) if options else ()
        adjectives, rate = (), 0.0
        kind = name.rstrip("0123456789")
        if kind not in self._lexicon.classes:
            raise self._fault(f"unknown class {kind!r}")
        if len(options) > 1:
            adjectives, rate = tuple(options[1].split("/")), 1.0
            if options[1] == "*":
                adjectives, rate = self._lexicon.class_adjectives.get(kind, ()), ADJECTIVE_RATE
            if not adjectives or not set(adjectives) <= set(self._lexicon.adjectives):
                raise self._fault(f"no such adjectives: {mark!r}")
        if unknown := set(determiners) - german.DETERMINERS - {"own", "-"}:
            raise self._fault(f"unknown determiner {min(unknown)!r}")
        return Slot(name, kind, determiners, adjectives, rate, plural)

    def _check(self) -> None:
        if len(set(self._names)) != len(self._names):
            raise self._fault("two slots have the same name; number them, as in {person} and {person2}")
        for language, line in self.lines.items():
            for slot, verb, adjective in _MARK.findall(line):
                name, _, more = (slot or verb or adjective).partition(":")
                name = name if slot and language != "en" else more if verb or adjective else ""
                if name and name not in self._names:
                    raise self._fault(f"the {language} line names {name!r}, which is not a slot of the English line")
                if verb:
                    self._check_verb(language, verb.partition(":")[0])
        for slot in self._slots:
            nouns = [word for word in self._lexicon.classes[slot.kind] if isinstance(word, Noun)]
            if slot.plural and not all(noun.de.plural for noun in nouns):
                raise self._fault(f"a noun of class {slot.kind!r} has no German plural")

    def _check_verb(self, language: str, verb: str) -> None:
        try:
            RULES[language].conjugate(verb, "3sg", self._lexicon.verbs[language])
        except ValueError as fault:
            raise self._fault(str(fault)) from None

    def _fault(self, reason: str) -> InputError:
        return InputError(f"frame {self.lines['en']!r}: {reason}")

    def _fill(self, slot: Slot, fillers: dict[str, Filler], rng: random.Random) -> Filler:
        used = [filler.word for filler in fillers.values()]
        words = [word for word in self._lexicon.classes[slot.kind] if word not in used]
        word = rng.choices(words, [word.weight for word in words])[0]
        if isinstance(word, Pronoun):
            return Filler(word, "", None, False)
        determiner = rng.choice(slot.determiners or word.determiners).replace("-", "")
        if determiner == "own":
            determiner = fillers[self._names[0]].own()
        adjective = None
        if rng.random() < slot.adjective_rate:
            adjective = self._lexicon.adjectives[rng.choice(slot.adjectives)]
        return Filler(word, determiner, adjective, slot.plural)

    def _render(self, language: str, line: str, fillers: dict[str, Filler]) -> str:
        rules = RULES[language]

        def replace(match: re.Match[str]) -> str:
            slot, verb, adjective = match.groups()
            if slot is not None:
                return self._render_slot(language, slot, fillers)
            word, _, name = (verb or adjective).partition(":")
            subject = fillers[name or self._names[0]]
            if verb:
                return rules.conjugate(word, subject.person(language), self._lexicon.verbs[language])
            form = self._french.get(word) or french.Adjective.parse(word)
            return form.form(subject.french_gender(), subject.person("fr").endswith("pl"))

        text = rules.finish(_MARK.sub(replace, line))
        return text[0].upper() + text[1:]

    def _render_slot(self, language: str, mark: str, fillers: dict[str, Filler]) -> str:
        if language == "en":
            filler = fillers[mark.split()[-1].removesuffix("+")]
            return filler.render("en", "nom", filler.determiner)
        name, _, more = mark.partition(":")
        filler, case, determiner = fillers[name], "nom", fillers[name].determiner
        for word in more.split():
            case = word if word in german.CASES else case
            determiner = determiner if word in german.CASES else word.replace("-", "")
        return filler.render(language, case, determiner)
