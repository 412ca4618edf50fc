"""Text pairs: every layout that is read, and every fault that is named."""

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npda.corpus.manifest import Utterance, write_manifest
from npda.corpus.pairs import Pair, read_moses, read_pairs, write_pairs
from npda.io.errors import InputError


def test_headerless_two_columns(tmp_path):
    path = tmp_path / "p.tsv"
    path.write_text('a "house\tein "Haus\nb\tü\n', encoding="utf-8")
    assert read_pairs(path) == [Pair('a "house', 'ein "Haus'), Pair("b", "ü")]


def test_header_in_any_order(tmp_path):
    path = tmp_path / "p.tsv.gz"
    path.write_bytes(gzip.compress(b"tgt_text\tnote\ttgt_lang\tsrc_text\tid\nja\tn\tde\tyes\tp1\n"))
    assert read_pairs(path) == [Pair("yes", "ja", "p1", "de")]


def test_a_manifest_is_a_file_of_pairs(tmp_path):
    write_manifest(tmp_path / "m.tsv", [Utterance("a", "/a.wav", 9, "ja", "yes", tgt_lang="de")])
    assert read_pairs(tmp_path / "m.tsv") == [Pair("yes", "ja", "a", "de")]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("yes\tja\nno\n", "p.tsv, line 2: 1 fields instead of 2"),
        ("yes\tja\tx\n", "p.tsv, line 1: 3 fields instead of 2"),
        ("yes\tja\nno\t\n", "line 2, column tgt_text: empty; fill it in or delete the line"),
        ("src_text\ttgt_text\nyes\tja\n \tnein\n", "line 3, column src_text: empty"),
        ("src_text\ttgt\nyes\tja\n", "line 1: the column tgt_text is missing; rename 'tgt'"),
        ("src_text\ttgt_text\n", "has no sentence pairs"),
        ("", "has no sentence pairs"),
    ],
)
def test_a_wrong_row_is_named(tmp_path, text, complaint):
    (tmp_path / "p.tsv").write_text(text)
    with pytest.raises(InputError) as caught:
        read_pairs(tmp_path / "p.tsv")
    assert complaint in str(caught.value)


sides = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\t\n\r")).filter(str.strip)


@given(st.lists(st.builds(Pair, sides, sides), min_size=1, max_size=5))
def test_round_trip(tmp_path_factory, written):
    path = tmp_path_factory.mktemp("pairs") / "p.tsv"
    write_pairs(path, written)
    assert read_pairs(path) == written


def test_what_could_not_be_read_back_is_not_written(tmp_path):
    for pair, complaint in [(Pair("a\tb", "c"), "src_text: a tab"), (Pair("a", " "), "line 2: a side")]:
        with pytest.raises(InputError, match=complaint):
            write_pairs(tmp_path / "p.tsv", [pair])
    assert list(tmp_path.iterdir()) == []


def test_moses_files(tmp_path, caplog):
    (tmp_path / "c.en").write_text("one\n\nthree\u2028and\tmore\n", encoding="utf-8")
    (tmp_path / "c.de.gz").write_bytes(gzip.compress(b"eins\nzwei\ndrei\n"))
    pairs = read_moses(tmp_path / "c.en", tmp_path / "c.de.gz")
    assert pairs == [Pair("one", "eins"), Pair("three\u2028and\tmore", "drei")]
    assert "skipped 1 pairs" in caplog.text


def test_moses_files_of_unequal_length(tmp_path):
    (tmp_path / "c.en").write_text("one\ntwo\nthree\n")
    (tmp_path / "c.de").write_text("eins\n")
    with pytest.raises(InputError, match=r"c\.en has 3 lines but .*c\.de has 1: line 2 is missing in .*c\.de"):
        read_moses(tmp_path / "c.en", tmp_path / "c.de")
    with pytest.raises(InputError, match=r"line 2 is missing in .*c\.de"):
        read_moses(tmp_path / "c.de", tmp_path / "c.en")
    (tmp_path / "empty").write_text("")
    with pytest.raises(InputError, match="no sentence pairs"):
        read_moses(tmp_path / "empty", tmp_path / "empty")
