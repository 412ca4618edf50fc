"""Glossaries as people keep them."""

import pytest

from npda.corpus.glossary import read_glossary
from npda.corpus.pairs import Pair
from npda.io.errors import InputError


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
    assert read_glossary(tmp_path / "g.csv") == [Pair("floor", "Wort"), Pair("chair", "Vorsitz")]


def test_a_separator_inside_a_term(tmp_path):
    (tmp_path / "g.csv").write_text('"yes, please",ja\nno; never,nein\n')
    assert read_glossary(tmp_path / "g.csv") == [Pair("yes, please", "ja"), Pair("no; never", "nein")]
    (tmp_path / "g.csv").write_text("yes, please;ja\nno;nein, nie\n")
    assert read_glossary(tmp_path / "g.csv") == [Pair("yes, please", "ja"), Pair("no", "nein, nie")]


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
        ("a,b,c\nd,e,f\n", "line 1: 3 columns and no header"),
        ("just words\nmore words\n", "line 1: 1 fields instead of 2"),
    ],
)
def test_a_broken_glossary_is_named(tmp_path, content, sentence):
    (tmp_path / "g.csv").write_text(content)
    with pytest.raises(InputError, match=sentence) as error:
        read_glossary(tmp_path / "g.csv")
    assert str(tmp_path / "g.csv") in str(error.value)


def test_what_is_no_text_is_refused(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        read_glossary(tmp_path / "none.csv")
    (tmp_path / "g.csv").write_bytes(b"floor,Wort\n\xff,x\n")
    with pytest.raises(InputError, match="line 2: byte 0xff is not UTF-8"):
        read_glossary(tmp_path / "g.csv")
