"""A folder of learnt terms: what is in it, what is learnt again, and what people may change."""

import json

import pytest
import tiny

from npda.cli import app
from npda.corpus.pairs import Pair, write_pairs
from npda.corpus.terms import Rendering, read_terms
from npda.io.errors import InputError
from npda.io.files import write_lines
from npda.terms import learning
from npda.terms.general import SearchedText, gather
from npda.terms.learning import LearnOptions, learn_terms, of_number
from npda.terms.termbase import Terms

NOUNS = [("Hund", "dog"), ("Baum", "tree"), ("Brief", "letter"), ("Wagen", "car"), ("Ball", "ball")]
VERBS = [("sieht", "sees"), ("malt", "draws"), ("hat", "has"), ("sucht", "seeks")]


@pytest.fixture(scope="module")
def model():
    return tiny.backbone()


@pytest.fixture
def general(tmp_path):
    path = tmp_path / "general.tsv"
    write_pairs(path, [Pair(f"Er {v} den {n}.", f"He {w} the {m}.") for v, w in VERBS for n, m in NOUNS])
    return path


def learn(model, tmp_path, general, table, **options):
    (tmp_path / "terms.csv").write_text(table)
    settings = LearnOptions((general,), progress=False, **options)
    return learn_terms(model, read_terms(tmp_path / "terms.csv"), tmp_path / "terms", settings)


def texts(term):
    return [rendering.text for rendering in term.renderings]


@pytest.fixture
def learnt(monkeypatch):
    """Which terms were learnt, call by call."""
    calls = []

    def counted(terms, *given):
        calls.append(list(terms))
        return original(terms, *given)

    original = learning.learn_renderings
    monkeypatch.setattr(learning, "learn_renderings", counted)
    return calls


def test_a_list_is_learnt_once_and_a_new_line_alone(model, tmp_path, general, learnt):
    found = learn(model, tmp_path, general, "Wagen,automobile\nHund,hound\n")
    assert [term.renderings for term in found] == [(Rendering("car", 1.0),), (Rendering("dog", 1.0),)]
    assert [term.contexts for term in found] == [4, 4]
    assert read_terms(tmp_path / "terms" / "terms.tsv")[0].target == "automobile"
    again = learn(model, tmp_path, general, "Hund,hound\nBrief,epistle\nWagen,vehicle\n")
    assert learnt == [[("Wagen",), ("Hund",)], [("Brief",)]]
    assert [(term.target, *texts(term)) for term in again] == [
        ("hound", "dog"),
        ("epistle", "letter"),
        ("vehicle", "car"),
    ]


def test_another_text_teaches_all_again_but_what_a_person_has_changed(model, tmp_path, general, learnt):
    learn(model, tmp_path, general, "Wagen,automobile\nHund,hound\n")
    path = tmp_path / "terms" / "terms.tsv"
    path.write_text(path.read_text().replace("\tcar\t1.00", "\tcar | coach\t1.00"))
    write_pairs(general, [Pair("Ein Hund.", "A mutt."), Pair("Der Hund.", "The mutt."), Pair("Ein Ei.", "An egg.")])
    found = learn(model, tmp_path, general, "Wagen,automobile\nHund,hound\n")
    assert learnt[1:] == [[("Hund",)]]
    assert found[0].renderings == (Rendering("car", 1.0), Rendering("coach", 0.5))
    assert texts(found[1]) == ["mutt"]


def test_a_plural_that_sounds_the_same_is_told_by_its_renderings(model, tmp_path, general):
    people = [("Lehrer", "Lehrer", "teacher"), ("Hund", "Hunde", "dog"), ("Tag", "Tage", "day")]
    pairs = [Pair(f"Ein {one} {v}.", f"A {a} {w}.") for one, _, a in people for v, w in VERBS]
    pairs += [Pair(f"Zwei {many} {v}.", f"Two {a}s {w}.") for _, many, a in people for v, w in VERBS]
    write_pairs(general, pairs)
    found = learn(model, tmp_path, general, "source,target,target_plural\nLehrer,instructor,instructors\n")
    assert [(term.target, texts(term)) for term in found] == [
        ("instructor", ["teacher"]),
        ("instructors", ["teachers"]),
    ]
    terms = Terms.open([tmp_path / "terms"], model)
    assert [term.plural for term in terms.terms] == [False, True]


def test_plurals_of_several_languages():
    words = ("city", "cities", "Haus", "Häuser", "boss", "bosses", "town")
    renderings = [Rendering(word, 1.0) for word in words]
    assert [r.text for r in of_number(renderings, True)] == ["cities", "Häuser", "bosses"]
    assert [r.text for r in of_number(renderings, False)] == ["city", "Haus", "boss", "town"]


def test_text_without_translations_is_read_by_the_model(tmp_path, monkeypatch):
    model = tiny.backbone()
    model.add_text_encoder(layers=1)
    asked = []

    def reading(backbone, options, language):
        def translate(sentences):
            asked.append(list(sentences))
            if len(asked) == 1:
                raise KeyboardInterrupt
            return [dict(NOUNS)[sentence.split()[1]] for sentence in sentences]

        return translate

    monkeypatch.setattr(learning, "reading", reading)
    monkeypatch.setattr(learning, "carriers", lambda sources, language: [])
    write_lines(tmp_path / "text.txt", [f"{a} {noun}" for noun, _ in NOUNS for a in ("Ein", "Der", "Kein", "Mein")])
    monkeypatch.setattr("npda.terms.outputs._TOGETHER", 10)
    with pytest.raises(KeyboardInterrupt):
        learn(model, tmp_path, tmp_path / "text.txt", "Wagen,automobile\n", sentences=3)
    found = learn(model, tmp_path, tmp_path / "text.txt", "Wagen,automobile\n", sentences=3)
    assert texts(found[0]) == ["car"]
    assert sum(map(len, asked[1:])) == 3 + 16  # of the term's four, and the others
    learn(model, tmp_path, tmp_path / "text.txt", "Hund,hound\nWagen,automobile\n", sentences=3)
    assert asked[3:] == [["Mein Wagen"]]  # all but one were read before


def test_the_text_is_sampled_fairly(tmp_path, monkeypatch):
    monkeypatch.setattr("npda.terms.general.OTHERS", 5)
    write_lines(tmp_path / "a.txt", [f"Satz {n}" for n in range(40)] + [f"Wort {n}" for n in range(10)])
    found = gather([tmp_path / "a.txt"], [("Wort",), ("Ding",)], most=3)
    assert [source for source, _, _ in found.holding] == ["Wort 0", "Wort 1", "Wort 2"]
    assert len(found.others) == 5
    assert all(source.startswith("Satz") for source, _ in found.others)
    assert found.shares == (0.2, 0.0)


def test_text_in_memory_is_looked_through_like_text_on_disk(tmp_path, monkeypatch):
    pairs = [Pair(f"Er {v} den {n}.", f"He {w} the {m}.") for v, w in VERBS for n, m in NOUNS] + [
        Pair("der rote Ball", "x")
    ]
    write_pairs(tmp_path / "a.tsv", pairs)
    terms = [("Ball", "Wagen"), ("rote Ball",), ("Brief",), ("Mond",), ("den",)]
    wanted = gather([tmp_path / "a.tsv"], terms, most=3)
    text = SearchedText([(pair.src_text, pair.tgt_text) for pair in pairs])
    assert text.gather(terms, most=3) == wanted
    some = text.gather([("Ball",)], others=4)
    assert (some.shares, len(some.others), len(set(some.others))) == ((5 / 21,), 4, 4)
    assert not any("Ball" in source for source, _ in some.others)


def test_a_term_that_the_text_never_holds_is_learnt_from_what_is_said_about_it():
    said = [
        ("Das Wort ist Hammel.", "The word is mutton."),
        ("Hammel.", "Mutton."),
        ("Das Wort ist Ei.", "The word is egg."),
    ]
    (found,) = learning.learn_renderings([("Hammel",)], said, [0.0])
    assert [(r.text, r.purity) for r in found.renderings] == [("mutton", 1.0)]


@pytest.mark.parametrize("folder", [True, False])
def test_what_is_no_folder_of_terms_is_left_alone(model, tmp_path, general, folder):
    if folder:
        (tmp_path / "terms").mkdir()
        (tmp_path / "terms" / "letter.txt").write_text("dear")
    else:
        (tmp_path / "terms").write_text("dear")
    with pytest.raises(InputError, match="exists and holds no terms"):
        learn(model, tmp_path, general, "Wagen,automobile\n")


def test_terms_of_another_model_are_refused(model, tmp_path, general):
    learn(model, tmp_path, general, "Wagen,automobile\n")
    Terms.open([tmp_path / "terms"], model)
    with pytest.raises(InputError, match="were learnt with another model: run `npda terms` again"):
        Terms.open([tmp_path / "terms"], tiny.backbone(seed=1))
    (tmp_path / "terms" / "terms.json").write_text("{}")
    with pytest.raises(InputError, match=r"terms\.json is damaged \(Field required\)"):
        Terms.open([tmp_path / "terms"])


def test_who_can_neither_read_nor_look_up_is_told_what_to_give(model, tmp_path):
    write_lines(tmp_path / "text.txt", ["Ein Wagen"])
    with pytest.raises(InputError, match="give sentence pairs"):
        learn(model, tmp_path, tmp_path / "text.txt", "Wagen,automobile\n")
    assert not (tmp_path / "terms").exists()


def test_the_command_line_learns_and_shows(model, tmp_path, general, capsys):
    model.save_pretrained(tmp_path / "model")
    (tmp_path / "terms.csv").write_text("Wagen,automobile\nMond,moon\n")
    given = [tmp_path / "terms.csv", "--general", general, "--model", tmp_path / "model", "--out", tmp_path / "terms"]
    run(*given, "--json")
    record = json.loads(capsys.readouterr().out)
    assert [term["renderings"] for term in record["terms"]] == [{"car": 1.0}, {}]
    run(*given)
    shown = capsys.readouterr().out
    assert "car 1.00" in shown
    assert "none: never replaced" in shown
    with pytest.raises(InputError, match="There is no file"):
        run(tmp_path / "none.csv", *given[1:])


def run(*arguments):
    app(["terms", *map(str, arguments)], standalone_mode=False)
