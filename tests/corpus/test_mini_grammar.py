import hashlib
import os
import random
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from functools import cache

import pytest

from npda.corpus.mini import english, french, german, grammar, lexicon
from npda.corpus.mini.frames import Frame
from npda.corpus.mini.grammar import DOMAINS, LANGUAGES, SPLITS, sentences
from npda.io.errors import InputError

load_lexicon = cache(lexicon.load_lexicon)


def words(text: str) -> list[str]:
    """`L'ordre du jour est prêt.` → L, ordre, du, jour, est, prêt."""
    return [word for word in (token.strip(".,?!") for token in re.split(r"[\s']", text)) if word]


def uncapitalized(word: str) -> str:
    return word[0].lower() + word[1:]


def english_counts(domain: str, splits: tuple[str, ...] = ("train", "dev", "test")) -> Counter[str]:
    pairs = [pair for split in splits for pair in sentences(domain, split)]
    return Counter(word.lower() for pair in pairs for word in words(pair.src_text))


def known_forms(language: str, seed: int) -> Counter[str]:
    """The forms of the general training text; a first word counts with and without its capital."""
    forms: Counter[str] = Counter()
    for pair in sentences("general", "train", language, seed):
        first, *rest = words(pair.tgt_text)
        forms.update({first, uncapitalized(first)})
        forms.update(rest)
    return forms


def rendered(domain: str, line: str, english_sentence: str, chosen: dict[str, str]) -> tuple[str, str]:
    """The translations of one sentence of a frame, with the noun of each class prescribed."""
    frame = next(frame for frame in grammar.frames(domain) if frame.lines["en"] == line)
    words_of = load_lexicon(domain)
    classes = dict(words_of.classes)
    for kind, noun in chosen.items():
        classes[kind] = tuple(entry for entry in classes[kind] if name(entry) == noun)
    narrow = Frame(frame.lines, 1, replace(words_of, classes=classes))
    for draw in range(500):
        sentence = narrow.sample(random.Random(draw))
        if sentence["en"] == english_sentence:
            return sentence["de"], sentence["fr"]
    raise AssertionError(f"{line} never gave {english_sentence!r}")


def name(entry: lexicon.Noun | lexicon.Pronoun) -> str:
    return entry.words["en"] if isinstance(entry, lexicon.Pronoun) else entry.en.singular


def test_split_sizes_and_ids():
    for (domain, split), size in SPLITS.items():
        pairs = sentences(domain, split)
        assert len(pairs) == size
        assert [pair.id for pair in pairs[:2]] == [f"{domain}-{split}-00001", f"{domain}-{split}-00002"]
        assert {pair.tgt_lang for pair in pairs} == {"de"}


def test_the_version_stands_for_these_sentences():
    """Where this fails the sentences have changed: raise VERSION, then write the new digest here."""
    text = "\n".join(str(sentences(*key, language)) for key in SPLITS for language in LANGUAGES)
    assert (grammar.VERSION, hashlib.sha256(text.encode()).hexdigest()[:16]) == ("5", "c32b8ee891b527e4")


def test_the_same_seed_gives_the_same_sentences_in_another_process():
    program = "from npda.corpus.mini.grammar import sentences; print(sentences('parliament', 'dev', 'fr', 3))"
    printed = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONHASHSEED": "1", "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
    ).stdout
    assert printed.strip() == str(sentences("parliament", "dev", "fr", 3))


def test_seeds_differ():
    first, second = ({pair.src_text for pair in sentences("general", "train", seed=seed)} for seed in (0, 1))
    assert len(first & second) < len(first) / 2


def test_german_and_french_share_their_english():
    for domain, split in SPLITS:
        german_pairs, french_pairs = (sentences(domain, split, language) for language in LANGUAGES)
        assert [pair.src_text for pair in german_pairs] == [pair.src_text for pair in french_pairs]


@pytest.mark.parametrize("seed", [0, 1])
def test_no_sentence_occurs_twice(seed: int):
    for language in LANGUAGES:
        pairs = [pair for domain, split in SPLITS for pair in sentences(domain, split, language, seed)]
        assert len({pair.src_text for pair in pairs}) == len(pairs)
        assert len({pair.tgt_text for pair in pairs}) == len(pairs)


def test_english_words_are_few_frequent_and_all_known_from_general():
    general, parliament = english_counts("general", ("train",)), english_counts("parliament")
    assert 200 <= len(general | parliament) <= 300
    assert set(parliament) <= set(general)
    assert min(general.values()) >= 8


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("language", LANGUAGES)
def test_general_teaches_every_word_form_of_parliament(language: str, seed: int):
    known = known_forms(language, seed)
    for split in ("train", "dev", "test"):
        for pair in sentences("parliament", split, language, seed):
            first, *rest = words(pair.tgt_text)
            unknown = [word for word in rest if word not in known]
            if first not in known and uncapitalized(first) not in known:
                unknown.append(first)
            assert not unknown, pair


@pytest.mark.parametrize("language", LANGUAGES)
def test_decoys_are_frequent(language: str):
    known = known_forms(language, seed=0)
    for noun in lexicon.read_yaml("parliament.yaml")["nouns"].values():
        word = noun[language].split()[0]
        assert known[word] >= 8, word


QUESTION = re.compile(r"(Mr \w+, )?(can|do|have|may|where) ", re.IGNORECASE)


def test_sentences_are_written_as_sentences():
    for (domain, split), language in ((key, language) for key in SPLITS for language in LANGUAGES):
        for pair in sentences(domain, split, language):
            question = pair.src_text.endswith("?")
            assert question == bool(QUESTION.match(pair.src_text)), pair
            assert pair.src_text[-1] in ".?"
            assert pair.tgt_text.endswith("?" if question else ".")
            assert not question or language == "de" or pair.tgt_text.endswith(" ?")
            for text in (pair.src_text, pair.tgt_text):
                assert text[0].isupper()
                assert not re.search(r"[{}<>\[\]:*]|  |^ | $", text)
            assert 3 <= len(words(pair.src_text)) <= 13


# The heart of the corpus: one English word, two translations (stems, so that inflected forms count).
POLYSEMES = {
    "floor": ("Boden", "Wort"),
    "chair": ("Stuhl", "Vorsitz"),
    "motion": ("Bewegung", "Antrag"),
    "house": ("Haus", "Plenum"),
    "order": ("Bestellung", "Tagesordnung|Geschäftsordnung"),
    "bill": ("Rechnung", "Gesetzentwurf"),
    "party": ("Feier", "Fraktion"),
    "seat": ("Platz", "Sitz"),
    "vote": ("Stimme|stimmen", "Abstimmung"),
    "paper": ("Zeitung", "Dokument"),
    "board": ("Tafel", "Vorstand"),
    "cabinet": ("Schrank", "Regierung"),
    "speaker": ("Lautsprecher|Herr Speaker", "Präsident"),
    "meeting": ("Treffen", "Sitzung"),
    "report": ("Zeugnis", "Bericht"),
    "change": ("Kleingeld", "Änderung"),
    "step": ("Stufe", "Maßnahme"),
    "cut": ("Schnitt", "Kürzung"),
    "office": ("Büro", "Amt"),
    "state": ("Zustand", "Staat"),
    "deal": ("Angebot", "Abkommen"),
    "plant": ("Pflanze", "Werk"),
    "post": ("Post\\b", "Posten"),
    "secretary": ("Sekretärin", "Minister"),
    "subject": ("Fach", "Thema"),
    "issue": ("Ausgabe", "Problem"),
    "item": ("Artikel", "Punkt"),
    "power": ("Strom", "Befugnis"),
    "carried": ("getragen", "angenommen"),
    "passed": ("gereicht", "verabschiedet"),
    "threw": ("weggeworfen", "abgelehnt"),
    "dropped": ("fallen lassen", "zurückgezogen"),
    "adopted": ("adoptiert", "angenommen"),
    "raise": ("heben", "ansprechen"),
    "raised": ("gehoben", "angesprochen"),
    "move": ("zieh", "beantrage"),
    "table": ("Tisch", "vorlegen"),
    "address": ("Adresse|adressieren", "sprechen"),
    "brought": ("gebracht", "vorgelegt"),
}


@pytest.mark.parametrize("word", POLYSEMES)
def test_one_english_word_two_senses(word: str):
    for domain, sense in zip(DOMAINS, POLYSEMES[word], strict=True):
        found = [pair for pair in sentences(domain, "train") if word in words(pair.src_text.lower())]
        assert len(found) >= 8
        assert all(re.search(sense, pair.tgt_text) for pair in found)


def test_minutes_are_a_record_unless_they_are_counted():
    for pair in sentences("parliament", "train"):
        if "minutes" in pair.src_text:
            counted = re.search(r"(two|three|ten) minutes", pair.src_text)
            assert ("Minuten" if counted else "Protokoll") in pair.tgt_text


HAND_WRITTEN = [
    (
        "general",
        "{subject} carried {the/a * furniture} into {the room}.",
        {"subject": "we", "furniture": "table", "room": "garden"},
        "We carried the old table into the garden.",
        "Wir haben den alten Tisch in den Garten getragen.",
        "Nous avons porté la vieille table dans le jardin.",
    ),
    (
        "general",
        "{the/my * furniture} was carried into {the room}.",
        {"furniture": "cabinet", "room": "office"},
        "The cabinet was carried into the office.",
        "Der Schrank wurde ins Büro getragen.",
        "L'armoire a été portée dans le bureau.",
    ),
    (
        "general",
        "If {the arrival} is late, {person} <call:person> {person2}.",
        {"arrival": "train"},
        "If the train is late, my father calls the policeman.",
        "Wenn der Zug zu spät kommt, ruft mein Vater den Polizisten an.",
        "Si le train est en retard, mon père appelle le policier.",
    ),
    (
        "general",
        "{subject} went to {the venue} with {person}.",
        {"subject": "sister", "venue": "station", "person": "neighbour"},
        "My sister went to the station with our neighbour.",
        "Meine Schwester ist mit unserem Nachbarn zum Bahnhof gegangen.",
        "Ma sœur est allée à la gare avec notre voisin.",
    ),
    (
        "general",
        "{subject} cannot come because {person} is ill.",
        {"subject": "she", "person": "mother"},
        "She cannot come because my mother is ill.",
        "Sie kann nicht kommen, weil meine Mutter krank ist.",
        "Elle ne peut pas venir parce que ma mère est malade.",
    ),
    (
        "general",
        "{subject} must leave {own * small} at {the venue}.",
        {"subject": "you", "small": "passport", "venue": "school"},
        "You must leave your new passport at the school.",
        "Du musst deinen neuen Pass in der Schule lassen.",
        "Tu dois déposer ton nouveau passeport à l'école.",
    ),
    (
        "general",
        "The state of {the/my/our buyable} is good.",
        {"buyable": "car"},
        "The state of my car is good.",
        "Der Zustand meines Autos ist gut.",
        "L'état de ma voiture est bon.",
    ),
    (
        "general",
        "{subject} <want> to drink {drink} with {person}.",
        {"subject": "they", "drink": "water", "person": "uncle"},
        "They want to drink water with our uncle.",
        "Sie wollen mit unserem Onkel Wasser trinken.",
        "Ils veulent boire de l'eau avec notre oncle.",
    ),
    (
        "general",
        "{gentleman}, have you read {the/this * reading}?",
        {"gentleman": "Mr Brown", "reading": "letter"},
        "Mr Brown, have you read this important letter?",
        "Herr Brown, haben Sie diesen wichtigen Brief gelesen?",
        "Monsieur Brown, avez-vous lu cette lettre importante ?",
    ),
    (
        "general",
        "{someone} <have> {a small/new/old cut} on {own body}.",
        {"someone": "I", "body": "arm"},
        "I have a small cut on my arm.",
        "Ich habe einen kleinen Schnitt am Arm.",
        "J'ai une petite coupure au bras.",
    ),
    (
        "general",
        "Can you open {the openable} for {person}?",
        {"openable": "window", "person": "daughter"},
        "Can you open the window for my daughter?",
        "Kannst du das Fenster für meine Tochter öffnen?",
        "Est-ce que tu peux ouvrir la fenêtre pour ma fille ?",
    ),
    (
        "general",
        "{subject} waited {two/three/ten moment+} for {the arrival}.",
        {"subject": "I", "moment": "minute", "arrival": "president"},
        "I waited ten minutes for the president.",
        "Ich habe zehn Minuten auf den Präsidenten gewartet.",
        "J'ai attendu le président pendant dix minutes.",
    ),
    (
        "parliament",
        "I give the floor to {proposer} for {two/three/ten moment+}.",
        {"proposer": "secretary"},
        "I give the floor to the secretary for ten minutes.",
        "Das Wort hat für zehn Minuten der Minister.",
        "La parole est au ministre pour dix minutes.",
    ),
    (
        "parliament",
        "{subject} <hope> that {the/this * text} is carried.",
        {"subject": "we", "text": "motion"},
        "We hope that this motion is carried.",
        "Wir hoffen, dass dieser Antrag angenommen wird.",
        "Nous espérons que cette proposition sera adoptée.",
    ),
    (
        "parliament",
        "{chamber} adopted {the record} of {the first/second/last meeting}.",
        {"chamber": "house", "record": "minutes"},
        "The house adopted the minutes of the last meeting.",
        "Das Plenum hat das Protokoll der letzten Sitzung angenommen.",
        "L'assemblée a adopté le procès-verbal de la dernière séance.",
    ),
    (
        "parliament",
        "I call the vote on {the/this * text}.",
        {"text": "bill"},
        "I call the vote on the second bill.",
        "Ich rufe die Abstimmung über den zweiten Gesetzentwurf auf.",
        "J'appelle le scrutin sur le deuxième projet de loi.",
    ),
    (
        "parliament",
        "{subject} <thank> {proposer} for {the/this * text}.",
        {"subject": "she", "proposer": "colleague", "text": "deal"},
        "She thanks our colleague for this new deal.",
        "Sie dankt unserem Kollegen für dieses neue Abkommen.",
        "Elle remercie notre collègue pour ce nouvel accord.",
    ),
    (
        "parliament",
        "{every/this/the state} must adopt {the/this * text}.",
        {"text": "deal"},
        "This state must adopt the deal.",
        "Dieser Staat muss das Abkommen annehmen.",
        "Cet État doit adopter l'accord.",
    ),
]


@pytest.mark.parametrize(("domain", "line", "chosen", "source", "de", "fr"), HAND_WRITTEN)
def test_hand_written_translations(domain, line, chosen, source, de, fr):
    assert rendered(domain, line, source, chosen) == (de, fr)


# Nominative, accusative, dative, genitive.
DECLENSION = {
    ("the", "Tisch m / Tische / Tisches"): (
        "der alte Tisch",
        "den alten Tisch",
        "dem alten Tisch",
        "des alten Tisches",
    ),
    ("the", "Lampe f"): ("die alte Lampe", "die alte Lampe", "der alten Lampe", "der alten Lampe"),
    ("the", "Buch n / Bücher / Buches"): (
        "das alte Buch",
        "das alte Buch",
        "dem alten Buch",
        "des alten Buches",
    ),
    ("this", "Kollege m weak / Kollegen"): (
        "dieser alte Kollege",
        "diesen alten Kollegen",
        "diesem alten Kollegen",
        "dieses alten Kollegen",
    ),
    ("a", "Plan m"): ("ein alter Plan", "einen alten Plan", "einem alten Plan", "eines alten Plans"),
    ("my", "Tasche f"): ("meine alte Tasche", "meine alte Tasche", "meiner alten Tasche", "meiner alten Tasche"),
    ("our", "Auto n"): ("unser altes Auto", "unser altes Auto", "unserem alten Auto", "unseres alten Autos"),
    ("", "Kaffee m"): ("alter Kaffee", "alten Kaffee", "altem Kaffee", "alten Kaffees"),
    ("", "Milch f"): ("alte Milch", "alte Milch", "alter Milch", "alter Milch"),
    ("", "Wasser n"): ("altes Wasser", "altes Wasser", "altem Wasser", "alten Wassers"),
}
PLURAL_DECLENSION = {
    "the": ("die alten Tische", "die alten Tische", "den alten Tischen", "der alten Tische"),
    "my": ("meine alten Tische", "meine alten Tische", "meinen alten Tischen", "meiner alten Tische"),
    "two": ("zwei alte Tische", "zwei alte Tische", "zwei alten Tischen", "zwei alter Tische"),
}


@pytest.mark.parametrize(("determiner", "entry"), DECLENSION)
def test_german_declension(determiner: str, entry: str):
    noun = german.Noun.parse(entry)
    forms = tuple(german.noun_phrase(noun, determiner, "alt", case, plural=False) for case in german.CASES)
    assert forms == DECLENSION[determiner, entry]


@pytest.mark.parametrize("determiner", PLURAL_DECLENSION)
def test_german_plural_declension(determiner: str):
    noun = german.Noun.parse("Tisch m / Tische")
    forms = tuple(german.noun_phrase(noun, determiner, "alt", case, plural=True) for case in german.CASES)
    assert forms == PLURAL_DECLENSION[determiner]


@pytest.mark.parametrize(
    ("apart", "joined"),
    [
        ("in dem Haus", "im Haus"),
        ("in das Haus", "ins Haus"),
        ("In dem Haus", "Im Haus"),
        ("zu der Feier", "zur Feier"),
        ("zu dem Arzt", "zum Arzt"),
        ("an dem Arm", "am Arm"),
        ("von dem Minister", "vom Minister"),
        ("bei dem Treffen", "beim Treffen"),
        ("in der Küche", "in der Küche"),
        ("in den Garten", "in den Garten"),
    ],
)
def test_german_contraction(apart: str, joined: str):
    assert german.finish(apart) == joined


@pytest.mark.parametrize(
    ("apart", "joined"),
    [
        ("le hôtel", "l'hôtel"),
        ("le haut-parleur", "le haut-parleur"),
        ("de le hôpital", "de l'hôpital"),
        ("de le haut-parleur", "du haut-parleur"),
        ("à le café", "au café"),
        ("à les amis", "aux amis"),
        ("à la école", "à l'école"),
        ("de le argent", "de l'argent"),
        ("je ai", "j'ai"),
        ("il ne a pas", "il n'a pas"),
        ("parce que elle dort", "parce qu'elle dort"),
        ("besoin de une clé", "besoin d'une clé"),
        ("puis-je avoir", "puis-je avoir"),
        ("si il vient", "s'il vient"),
    ],
)
def test_french_elision_and_contraction(apart: str, joined: str):
    assert french.finish(apart) == joined


@pytest.mark.parametrize(
    ("determiner", "noun", "adjective", "plural", "phrase"),
    [
        ("this", "accord m", None, False, "cet accord"),
        ("this", "nouveau m", None, False, "ce nouveau"),
        ("my", "amie f", None, False, "mon amie"),
        ("my", "armoire f", "vieux/vieil vieille +", False, "ma vieille armoire"),
        ("this", "accord m", "nouveau/nouvel nouvelle +", False, "ce nouvel accord"),
        ("a", "lettre f", "important", False, "une lettre importante"),
        ("the", "journal m / journaux", "premier première +", True, "les premiers journaux"),
        ("a", "livre m", "petit +", True, "de petits livres"),
        ("two", "bureau m", "nouveau/nouvel nouvelle +", True, "deux nouveaux bureaux"),
    ],
)
def test_french_noun_phrase(determiner, noun, adjective, plural, phrase):
    form = french.Adjective.parse(adjective) if adjective else None
    assert french.noun_phrase(french.Noun.parse(noun), determiner, form, plural) == phrase


def test_english_noun_phrase():
    minutes = english.Noun("minutes", always_plural=True)
    assert english.noun_phrase(minutes, "this", "new", plural=False) == "these new minutes"
    assert english.noun_phrase(english.Noun("party"), "two", "", plural=True) == "two parties"
    assert english.finish("a old bag on a table") == "an old bag on a table"


def test_regular_verbs():
    assert [german.conjugate("arbeiten", person, {}) for person in ("1sg", "2sg", "3sg", "3pl")] == [
        "arbeite",
        "arbeitest",
        "arbeitet",
        "arbeiten",
    ]
    assert [german.conjugate("putzen", person, {}) for person in ("1sg", "2sg", "3sg", "1pl")] == [
        "putze",
        "putzt",
        "putzt",
        "putzen",
    ]
    assert [french.conjugate("manger", person, {}) for person in french.PERSONS] == [
        "mange",
        "manges",
        "mange",
        "mangeons",
        "mangez",
        "mangent",
    ]
    assert [english.conjugate(verb, "3sg", {}) for verb in ("pass", "carry", "buy", "take")] == [
        "passes",
        "carries",
        "buys",
        "takes",
    ]


def test_unknown_split_or_language_is_refused():
    with pytest.raises(InputError, match="no split 'sports'/'train'"):
        sentences("sports", "train")
    with pytest.raises(InputError, match="no language 'it'"):
        sentences("general", "train", "it")


@pytest.mark.parametrize(
    ("line", "de", "message"),
    [
        ("{the spaceship} is here.", "x", "unknown class 'spaceship'"),
        ("{those person} is here.", "x", "unknown determiner 'those'"),
        ("{the purple room} is here.", "x", "no such adjectives"),
        ("{the room} is here.", "{rooom} ist hier.", "names 'rooom'"),
        ("{the room} is beside {the room}.", "x", "same name"),
        ("{the room} is here.", "{room} <sammeln>.", "German verb 'sammeln'"),
        ("{two garden+} are here.", "x", "unknown class 'garden'"),
        ("{two room+} are here.", "x", "no German plural"),
    ],
)
def test_faulty_frames_are_refused(line: str, de: str, message: str):
    with pytest.raises(InputError, match=message):
        Frame({"en": line, "de": de, "fr": "x"}, 1, load_lexicon("general"))


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"in": "room", "de": "Dach", "fr": "toit m"}, "general.yaml, noun 'roof': German noun 'Dach'"),
        ({"in": "room", "de": "Dach n", "fr": "toit"}, "general.yaml, noun 'roof': French noun 'toit'"),
        ({"in": "room", "de": "Dach n"}, "general.yaml, noun 'roof': 'fr' is missing"),
        ({"in": "room", "de": "Dach n", "fr": "toit m", "det": "those"}, "unknown determiner 'those'"),
    ],
)
def test_faulty_nouns_are_refused(monkeypatch: pytest.MonkeyPatch, entry: dict[str, str], message: str):
    read = lexicon.read_yaml

    def read_with_fault(file_name: str):
        data = read(file_name)
        if file_name == "general.yaml":
            data["nouns"]["roof"] = entry
        return data

    monkeypatch.setattr(lexicon, "read_yaml", read_with_fault)
    with pytest.raises(InputError, match=message):
        lexicon.load_lexicon("general")
