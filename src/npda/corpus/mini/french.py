"""French noun phrases, verb forms, agreement and elision, as far as the embedded corpus needs them."""

import re
from dataclasses import dataclass

# Masculine, feminine, plural.
_DETERMINERS = {
    "": ("", "", ""),
    "the": ("le", "la", "les"),
    "a": ("un", "une", "des"),
    "some": ("de le", "de la", "de les"),
    "this": ("ce", "cette", "ces"),
    "every": ("chaque", "chaque", ""),
    "my": ("mon", "ma", "mes"),
    "your": ("ton", "ta", "tes"),
    "Your": ("votre", "votre", "vos"),
    "his": ("son", "sa", "ses"),
    "her": ("son", "sa", "ses"),
    "our": ("notre", "notre", "nos"),
    "their": ("leur", "leur", "leurs"),
    "no": ("aucun", "aucune", ""),
    "two": ("", "", "deux"),
    "three": ("", "", "trois"),
    "ten": ("", "", "dix"),
}
DETERMINERS = frozenset(_DETERMINERS)
_BEFORE_VOWEL = {"ce": "cet", "ma": "mon", "ta": "ton", "sa": "son"}

_VOWELS = "aeiouyàâéèêëîïôûœh"
_ASPIRATED = ("haut", "huit", "hall", "héros", "onze", "oui", "yaourt")
_OPEN = rf"(?!{'|'.join(_ASPIRATED)})[{_VOWELS}]"
_ELISION = re.compile(rf"(?<![\w-])(le|la|de|que|je|me|te|se|ne|lorsque) (?={_OPEN})", re.IGNORECASE)
_CONTRACTIONS = {"à le": "au", "à les": "aux", "de le": "du", "de les": "des"}
_CONTRACTION = re.compile(r"(?<![\w-])(" + "|".join(_CONTRACTIONS) + r")(?= )")
_FIXED = (("ce est", "c'est"), ("si il", "s'il"))

PERSONS = ("1sg", "2sg", "3sg", "1pl", "2pl", "3pl")


@dataclass(frozen=True)
class Noun:
    singular: str
    gender: str
    plural: str
    always_plural: bool

    @classmethod
    def parse(cls, entry: str) -> "Noun":
        """`chaise f`, `journal m / journaux`, `gens m pl`."""
        head, *forms = [part.strip() for part in entry.split("/")]
        always_plural = head.endswith(" pl")
        singular, _, gender = head.removesuffix(" pl").rpartition(" ")
        if gender not in ("m", "f") or not singular or len(forms) > 1:
            raise ValueError(f"French noun {entry!r} is not of the form 'nom m|f [pl] [/ plural]'")
        return cls(singular, gender, forms[0] if forms else pluralize(singular), always_plural)


@dataclass(frozen=True)
class Adjective:
    masculine: str
    before_vowel: str
    feminine: str
    precedes: bool

    @classmethod
    def parse(cls, entry: str) -> "Adjective":
        """`rouge rouge`, `nouveau/nouvel nouvelle +` (the plus: stands before its noun), or `petit` (regular)."""
        words = entry.split()
        precedes = words[-1] == "+"
        words = words[: len(words) - precedes]
        if len(words) not in (1, 2):
            raise ValueError(f"French adjective {entry!r} is not of the form 'masculine[/before-vowel] [feminine] [+]'")
        masculine, _, before_vowel = words[0].partition("/")
        feminine = words[1] if len(words) == 2 else masculine + ("" if masculine.endswith("e") else "e")
        return cls(masculine, before_vowel or masculine, feminine, precedes)

    def form(self, gender: str, plural: bool, following: str = "") -> str:
        if plural:
            return pluralize(self.feminine if gender == "f" else self.masculine)
        if gender == "f":
            return self.feminine
        return self.before_vowel if starts_open(following) else self.masculine


def pluralize(word: str) -> str:
    if word.endswith(("s", "x", "z")):
        return word
    return word + ("x" if word.endswith("eau") else "s")


def starts_open(word: str) -> bool:
    """Whether `word` begins with a vowel sound, so that the word before it elides."""
    return re.match(_OPEN, word, re.IGNORECASE) is not None


def noun_phrase(noun: Noun, determiner: str, adjective: Adjective | None, plural: bool) -> str:
    """`("the", nouveau)` and hôtel → `le nouvel hôtel`; elision and contraction are left to `finish`."""
    plural = plural or noun.always_plural
    head = noun.plural if plural and not noun.always_plural else noun.singular
    article = _DETERMINERS[determiner][2 if plural else "mf".index(noun.gender)]
    if adjective and adjective.precedes:
        head = f"{adjective.form(noun.gender, plural, following=head)} {head}"
        if determiner in ("a", "some") and plural:
            article = "de"
    elif adjective:
        head = f"{head} {adjective.form(noun.gender, plural)}"
    if not plural and starts_open(head):
        article = _BEFORE_VOWEL.get(article, article)
    return f"{article} {head}".strip()


def conjugate(infinitive: str, person: str, irregular: dict[str, list[str]]) -> str:
    """Present tense; verbs that are not listed go like `parler`."""
    column = PERSONS.index(person)
    if infinitive in irregular:
        return irregular[infinitive][column]
    if not infinitive.endswith("er"):
        raise ValueError(f"French verb {infinitive!r} is not in -er: list its six forms under verbs: fr")
    stem = infinitive.removesuffix("er")
    nous = stem + "eons" if stem.endswith("g") else stem + "ons"
    return (stem + "e", stem + "es", stem + "e", nous, stem + "ez", stem + "ent")[column]


def finish(text: str) -> str:
    """Elides and contracts: `de le hôtel` → `de l'hôtel`, `à le café` → `au café`."""
    text = _ELISION.sub(lambda match: match[1][:-1] + "'", text).replace("lorsqu' ", "lorsqu'")
    for apart, joined in _FIXED:
        text = re.sub(rf"\b{apart}\b", joined, text)
    return _CONTRACTION.sub(lambda match: _CONTRACTIONS[match[0]], text)
