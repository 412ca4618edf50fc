"""Tables of sentence pairs as other programs write them."""

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npda.corpus.sheets import stream_sheet
from npda.io.errors import InputError


def read(folder: Path, content: str, source: str | None = None, target: str | None = None) -> list[tuple[str, str]]:
    path = folder / "t.csv"
    path.write_bytes(content.encode())
    return [(pair.src_text, pair.tgt_text) for pair in stream_sheet(path, source, target)]


@pytest.mark.parametrize(
    ("content", "source", "target"),
    [
        ("a b\tc, d; e\nf\tg\n", None, None),
        ("source\ttarget\na b\tc, d; e\nf\tg\n", None, None),
        ('note;Target;Source\r\nx;"c, d; e";a b\r\ny;g;f\r\n', None, None),
        ('a b,"c, d; e"\nf,g\n', None, None),
        ("\ufeffEnglish;German\na b;\"c, d; e\"\n;\nf;g\n", None, None),
        ("German,English\n\"c, d; e\",a b\ng,f\n", None, "de"),
        ("de-AT,en_US\n\"c, d; e\",a b\ng,f\n", "en", "de"),
        ("id,German,English\n1,\"c, d; e\",a b\n2,g,f\n", "en", "de"),
        ('"a\nb","c,\nd; e"\n\nf,g', None, None),
    ],
)  # fmt: skip
def test_tables_as_they_come(tmp_path: Path, content: str, source: str | None, target: str | None):
    assert read(tmp_path, content, source, target) == [("a b", "c, d; e"), ("f", "g")]


def test_a_row_of_short_words_is_no_header(tmp_path: Path):
    assert read(tmp_path, "yes;ja\nfour;vier\n") == [("yes", "ja"), ("four", "vier")]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "is empty"),
        ("source;target\n", "has a header but no pairs"),
        ("a,b,c\nd,e,f\n", "line 1: 3 columns and no header"),
        ("a;b\n" * 60 + "c\n", "line 61: 1 fields instead of 2, separated by semicolon"),
        ("a;b\n" * 60 + 'c;"d\n', "unexpected end of data"),
        ("a;b\n" * 60 + "c;\n", "line 61: a side of the pair is empty"),
        ("a\nb\n", "is not a table of pairs"),
    ],
)
def test_what_is_no_table_is_refused(tmp_path: Path, content: str, says: str):
    with pytest.raises(InputError, match=says):
        read(tmp_path, content)


_TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["C"]), min_size=1).filter(lambda text: text.strip())


@given(st.lists(st.tuples(_TEXT, _TEXT), min_size=1, max_size=5), st.sampled_from([";", ","]))
def test_what_a_spreadsheet_writes_comes_back(tmp_path_factory, rows: list[tuple[str, str]], separator: str):
    file = io.StringIO()
    writer = csv.writer(file, delimiter=separator, quoting=csv.QUOTE_ALL)
    writer.writerows([("source", "target"), *rows])
    expected = [tuple(" ".join(side.split()) for side in row) for row in rows]
    assert read(tmp_path_factory.mktemp("sheet"), file.getvalue()) == expected
