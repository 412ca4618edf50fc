"""Term lists as people keep them, and as they come back from learning."""

import pytest

from npda.corpus.terms import Rendering, Term, read_terms, write_terms
from npda.io.errors import InputError


def pairs(path):
    return [(*term.sources, term.target) for term in read_terms(path)]


@pytest.mark.parametrize(
    "content",
    [
        "floor,Wort\nchair,Vorsitz\n",
        "floor;Wort\r\nchair;Vorsitz\r\n",
        "floor\tWort\n\nchair\tVorsitz",
        "\ufeffsource,target\nfloor,Wort\nchair,Vorsitz\n",
        "Target;Source\nWort;floor\nVorsitz;chair\n",
        "id,tgt_text,src_text,note\n1,Wort,floor,\n2,Vorsitz,chair,x\n",
        '"floor","Wort"\n"chair", Vorsitz\n',
    ],
)
def test_separators_headers_and_quotes(tmp_path, content):
    (tmp_path / "g.csv").write_text(content, encoding="utf-8", newline="")
    assert pairs(tmp_path / "g.csv") == [("floor", "Wort"), ("chair", "Vorsitz")]


def test_a_separator_inside_a_term(tmp_path):
    (tmp_path / "g.csv").write_text('"yes, please",ja\nno; never,nein\n')
    assert pairs(tmp_path / "g.csv") == [("yes, please", "ja"), ("no; never", "nein")]
    (tmp_path / "g.csv").write_text("yes, please;ja\nno;nein, nie\n")
    assert pairs(tmp_path / "g.csv") == [("yes, please", "ja"), ("no", "nein, nie")]


def test_plurals_and_words_that_are_alike(tmp_path):
    path = tmp_path / "g.csv"
    path.write_text(
        "source,target,like,source_plural,target_plural\n"
        "cabinet|wardrobe,Kommode,lamp,cabinets,Kommoden\nsheep,Tier,,,Tiere\nbox,Kasten,,,\n"
    )
    assert read_terms(path) == [
        Term(("cabinet", "wardrobe"), "Kommode", "lamp", where=f"{path}, line 2"),
        Term(("cabinets",), "Kommoden", "lamp", plural=True, where=f"{path}, line 2"),
        Term(("sheep",), "Tier", where=f"{path}, line 3"),
        Term(("sheep",), "Tiere", plural=True, where=f"{path}, line 3"),
        Term(("box",), "Kasten", where=f"{path}, line 4"),
    ]


def test_a_learnt_list_comes_back(tmp_path):
    path = tmp_path / "terms.tsv"
    renderings = (Rendering("car", 0.93), Rendering('so-called "auto"', 0.5))
    terms = [
        Term(("Auto", "PKW"), "automobile", "", renderings, 24, where=f"{path}, line 2"),
        Term(("Bank",), "bench", "Tisch", (), where=f"{path}, line 3"),
        Term(("Bank",), "benches", "", (), plural=True, where=f"{path}, line 4"),
    ]
    write_terms(path, terms)
    assert read_terms(path) == terms


def test_a_rendering_that_a_person_has_added_is_uncertain(tmp_path):
    path = tmp_path / "terms.tsv"
    path.write_text("source\ttarget\trenderings\tpurity\nAuto\tautomobile\tcar | wagon\t0.9\n")
    assert read_terms(path)[0].renderings == (Rendering("car", 0.9), Rendering("wagon", 0.5))


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "has no terms"),
        ("\n \n", "has no terms"),
        ("source,target\n", "a header but no terms"),
        ("floor,Wort\nchair\n", "line 2: 1 fields instead of 2, separated by comma"),
        ("floor,Wort\nchair,der Vorsitz, die Leitung\n", "line 2: 3 fields instead of 2"),
        ('floor,Wort\n"chair,Vorsitz\n', "line 2: a double quote is not closed"),
        ("floor,Wort\nchair, \n", "line 2: a side of the pair is empty"),
        ("floor,Wort\n!,Ausruf\n", "line 2: '!' contains no letter"),
        ("floor,Wort\nchair,Stuhl\nFloor,Boden\n", "line 3: 'Floor' is in line 1 already"),
        ("a,b,c\nd,e,f\n", "line 1: 3 columns and no header"),
        ("just words\nmore words\n", "line 1: 1 fields instead of 2"),
        ("source,target,source_plural\na,b,as\n", "line 2: there is a source_plural but no target_plural"),
        ("source,target,form\na,b,dual\n", "line 2: the column form says plural or nothing, not 'dual'"),
        ("source,target,contexts\na,b,-1\n", "line 2: the column contexts is a number of sentences, not '-1'"),
        ("source,target,renderings,purity\na,b,c,high\n", "line 2: a purity is a number between 0 and 1, not 'high'"),
        ("source,target,renderings,purity\na,b,c,1|1\n", "line 2: there are 2 numbers in purity for 1 renderings"),
    ],
)
def test_a_broken_list_is_named(tmp_path, content, sentence):
    (tmp_path / "g.csv").write_text(content)
    with pytest.raises(InputError, match=sentence) as error:
        read_terms(tmp_path / "g.csv")
    assert str(tmp_path / "g.csv") in str(error.value)


def test_what_is_no_text_is_refused(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        read_terms(tmp_path / "none.csv")
    (tmp_path / "g.csv").write_bytes(b"floor,Wort\n\xff,x\n")
    with pytest.raises(InputError, match="line 2: byte 0xff is not UTF-8"):
        read_terms(tmp_path / "g.csv")
