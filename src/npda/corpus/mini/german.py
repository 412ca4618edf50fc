"""German noun phrases, verb forms and contractions, as far as the embedded corpus needs them."""

import re
from dataclasses import dataclass

CASES = ("nom", "acc", "dat", "gen")

# Endings by gender, in the order of CASES.
_DER = {
    "m": ("der", "den", "dem", "des"),
    "f": ("die", "die", "der", "der"),
    "n": ("das", "das", "dem", "des"),
    "pl": ("die", "die", "den", "der"),
}
_DIESER = {
    "m": ("er", "en", "em", "es"),
    "f": ("e", "e", "er", "er"),
    "n": ("es", "es", "em", "es"),
    "pl": ("e", "e", "en", "er"),
}
_EIN = {**_DIESER, "m": ("", "en", "em", "es"), "n": ("", "", "em", "es")}
_STRONG = {**_DIESER, "m": ("er", "en", "em", "en"), "n": ("es", "es", "em", "en")}
_WEAK = {
    "m": ("e", "en", "en", "en"),
    "f": ("e", "e", "en", "en"),
    "n": ("e", "e", "en", "en"),
    "pl": ("en", "en", "en", "en"),
}
_MIXED = {**_WEAK, "m": ("er", "en", "en", "en"), "n": ("es", "es", "en", "en")}

_DER_WORDS = {"this": "dies", "every": "jed"}
_EIN_WORDS = {
    "a": "ein",
    "no": "kein",
    "my": "mein",
    "your": "dein",
    "Your": "Ihr",
    "his": "sein",
    "her": "ihr",
    "our": "unser",
    "their": "ihr",
}
_BARE_WORDS = {"": "", "some": "", "two": "zwei", "three": "drei", "ten": "zehn"}

DETERMINERS = frozenset({"the", *_DER_WORDS, *_EIN_WORDS, *_BARE_WORDS})

_CONTRACTIONS = {
    "in dem": "im",
    "in das": "ins",
    "an dem": "am",
    "von dem": "vom",
    "bei dem": "beim",
    "zu dem": "zum",
    "zu der": "zur",
}
_CONTRACTION = re.compile(r"\b(" + "|".join(_CONTRACTIONS) + r")\b", re.IGNORECASE)


@dataclass(frozen=True)
class Noun:
    """A noun as a dictionary lists it; `weak` nouns (der Präsident, den Präsidenten) take the plural form."""

    singular: str
    gender: str
    plural: str
    genitive: str
    weak: bool

    @classmethod
    def parse(cls, entry: str) -> "Noun":
        """`Stuhl m / Stühle`, `Präsident m weak / Präsidenten`, `Wort n / Wörter / Wortes`, `Leute pl`."""
        head, *forms = [part.strip() for part in entry.split("/")]
        weak = head.endswith(" weak")
        singular, _, gender = head.removesuffix(" weak").rpartition(" ")
        if gender not in _DER or not singular or len(forms) > 2 or (weak and not forms):
            raise ValueError(f"German noun {entry!r} is not of the form 'Noun m|f|n|pl [weak] [/ plural [/ genitive]]'")
        plural = forms[0] if forms else (singular if gender == "pl" else "")
        genitive = forms[1] if len(forms) == 2 else _genitive(singular, gender)
        return cls(singular, gender, plural, genitive, weak)

    def form(self, case: str, plural: bool) -> str:
        if plural or self.gender == "pl":
            if not self.plural:
                raise ValueError(f"German noun {self.singular!r} has no plural")
            return self.plural + ("n" if case == "dat" and not self.plural.endswith(("n", "s")) else "")
        if self.weak and case != "nom":
            return self.plural
        return self.genitive if case == "gen" else self.singular


def _genitive(singular: str, gender: str) -> str:
    if gender in ("f", "pl"):
        return singular
    return singular + ("es" if singular.endswith(("s", "ß", "z", "x")) else "s")


def noun_phrase(noun: Noun, determiner: str, adjective: str, case: str, plural: bool) -> str:
    """`("the", "neu", "dat")` and Haus → `dem neuen Haus`; `adjective` is the stem, empty for none."""
    gender = "pl" if plural else noun.gender
    article, endings = _determiner(determiner, gender, case)
    if adjective:
        adjective = adjective.removesuffix("e") + endings[gender][CASES.index(case)]
    return " ".join(word for word in (article, adjective, noun.form(case, plural)) if word)


def _determiner(determiner: str, gender: str, case: str) -> tuple[str, dict[str, tuple[str, ...]]]:
    """The inflected determiner and the table of adjective endings that it asks for."""
    column = CASES.index(case)
    if determiner == "the":
        return _DER[gender][column], _WEAK
    if determiner in _DER_WORDS:
        return _DER_WORDS[determiner] + _DIESER[gender][column], _WEAK
    if determiner in _EIN_WORDS:
        if determiner == "a" and gender == "pl":
            return "", _STRONG
        return _EIN_WORDS[determiner] + _EIN[gender][column], _MIXED
    return _BARE_WORDS[determiner], _STRONG


def conjugate(infinitive: str, person: str, irregular: dict[str, list[str]]) -> str:
    """Present tense; `person` is 1sg, 2sg, 3sg or a plural (all plurals share the infinitive's form)."""
    column = ("1sg", "2sg", "3sg").index(person) if person.endswith("sg") else 3
    if infinitive in irregular:
        return irregular[infinitive][column]
    if not infinitive.endswith("en"):
        raise ValueError(f"German verb {infinitive!r} is not in -en: list its four forms under verbs: de")
    stem = infinitive.removesuffix("en")
    link = "e" if stem.endswith(("t", "d")) else ""
    second = "t" if stem.endswith(("s", "ß", "z")) else link + "st"
    return stem + ("e", second, link + "t", "en")[column]


def finish(text: str) -> str:
    """Contracts preposition and article: `in dem` → `im`."""
    return _CONTRACTION.sub(lambda match: match[0][0] + _CONTRACTIONS[match[0].lower()][1:], text)
