"""Translation memories: what real exports look like, what is skipped, and what is refused."""

import gzip
import itertools
import subprocess
import sys
import tracemalloc
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npda.corpus.pairs import Pair
from npda.corpus.tmx import read_tmx
from npda.io.errors import InputError

HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n'


def memory(*units: str, head: str = HEAD) -> str:
    """A TMX document of these units, with the header that exports have."""
    header = '<header creationtool="x" srclang="en" datatype="plaintext"><prop type="p">v</prop></header>'
    return f'{head}<tmx version="1.4">{header}\n<body>\n' + "\n".join(units) + "\n</body></tmx>\n"


def unit(*variants: tuple[str, str], attribute: str = "xml:lang", tuid: str = "") -> str:
    inner = "".join(f'<tuv {attribute}="{language}"><seg>{text}</seg></tuv>' for language, text in variants)
    return f'<tu tuid="{tuid}">{inner}</tu>' if tuid else f"<tu>{inner}</tu>"


@pytest.fixture
def read(tmp_path):
    def read(document: str | bytes, source="en", target="de", name="m.tmx", skipped=None) -> list[Pair]:
        content = document.encode() if isinstance(document, str) else document
        (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        return list(read_tmx(tmp_path / name, source, target, skipped))

    return read


@pytest.mark.parametrize("name", ["m.tmx", "m.tmx.gz"])
def test_units_become_pairs(read, name):
    document = memory(
        unit(("en", "Good &amp; bad"), ("de", "Gut &amp;\n\t schlecht "), tuid="7"), unit(("de", "ja"), ("en", "yes"))
    )
    assert read(document, name=name) == [Pair("Good & bad", "Gut & schlecht", "7", "de"), Pair("yes", "ja", "", "de")]


@pytest.mark.parametrize("attribute", ["xml:lang", "lang"])
@pytest.mark.parametrize("code", ["en", "EN", "en-US", "EN_gb", "en-Latn-US"])
def test_a_language_matches_its_variants(read, attribute, code):
    assert read(memory(unit((code, "yes"), ("DE-de", "ja"), attribute=attribute)))[0].src_text == "yes"


def test_a_variant_does_not_match_others(read):
    document = memory(unit(("eng", "a"), ("en-GB", "b"), ("en", "c"), ("en-US", "d"), ("de", "x")))
    assert read(document, source="en-us")[0].src_text == "d"
    assert read(document, source="en")[0].src_text == "b"


def test_of_several_variants_the_first(read):
    assert read(memory(unit(("en", "first"), ("de", "x"), ("en", "second"))))[0].src_text == "first"


@pytest.mark.parametrize(
    ("segment", "text"),
    [
        ('a <hi type="b">big <hi>red</hi></hi> house', "a big red house"),
        ('<bpt i="1">&lt;b></bpt>bold<ept i="1">&lt;/b></ept> word', "bold word"),
        ('see<ph>{1}</ph> <it pos="begin">x</it>this<ut>y</ut> now', "see this now"),
        ('a <ph>&lt;img alt="<sub>picture <hi>of</hi></sub>"></ph>b', "a b"),
        ("a <hi>b <ph>x</ph>c</hi> d<!-- no -->e", "a b c de"),
        ("a\u2028b\u00a0c", "a b c"),
        ("<![CDATA[1 < 2 & 3]]>", "1 < 2 & 3"),
    ],
)
def test_inline_markup(read, segment, text):
    assert read(memory(unit(("en", segment), ("de", "x"))))[0].src_text == text


def test_a_namespace_and_utf16(read):
    document = memory(unit(("en", "yes"), ("de", "süß")), head='<?xml version="1.0" encoding="UTF-16"?>')
    document = document.replace("<tmx ", '<tmx xmlns="http://www.lisa.org/tmx14" ')
    assert read(document.encode("utf-16")) == [Pair("yes", "süß", "", "de")]


def test_incomplete_units_are_skipped_and_counted(read, caplog):
    skipped: Counter[str] = Counter()
    units = [unit(("en", "a"), ("fr", "b")), unit(("en", "a"), ("de", "x")), unit(("de", "x")), "<tu/>"]
    codes = unit(("en", "<ph>x</ph>"), ("de", "x"))
    assert len(read(memory(*units, codes, codes), skipped=skipped)) == 1
    assert skipped == {"without one of the languages": 3, "with an empty side": 2}
    assert "skipped 3 units without one of the languages" in caplog.text


def test_no_unit_with_both_languages(read):
    with pytest.raises(InputError, match=r"both en and es; .* are: en \(2\), fr \(1\), de-at \(1\)\."):
        read(memory(unit(("EN", "a"), ("fr", "b")), unit(("en", "a"), ("de-AT", "x"))), target="es")


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        (
            memory(unit(("en", "a"), ("de", "b")), "<tu><tuv></tu>"),
            r"m\.tmx, line 6, column 12: broken XML \(mismatched",
        ),
        (memory(unit(("en", "a"), ("de", "b")))[:-10], r"m\.tmx, line 6, .*broken XML"),
        (memory(unit(("en", "caf&eacute;"), ("de", "b"))), r"line 5, column \d+: broken XML \(undefined entity"),
        ("", r"line 1, .*broken XML \(no element found\)"),
        ("yes\tja\n", r"line 1, .*broken XML"),
        ("<html><body/></html>", r"not TMX: its root element is <html>"),
        ('<?xml version="1.0" encoding="big5"?><tmx/>', r"encoding cannot be read|broken XML"),
        (memory(unit(("en", "a"), ("de", "b"))).encode().replace(b">b<", b">\xff<"), r"line 5, .*broken XML"),
    ],
)
def test_a_broken_file_is_named_with_its_line(read, document, complaint):
    with pytest.raises(InputError, match=complaint):
        read(document)


@pytest.mark.parametrize(
    "declarations",
    [
        '<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">',
        '<!ENTITY b SYSTEM "file:///etc/passwd">',
        '<!ENTITY % p SYSTEM "http://localhost/x.dtd"> %p;',
    ],
)
def test_entities_are_refused(read, declarations):
    head = f'<?xml version="1.0"?><!DOCTYPE tmx [{declarations}]>'
    with pytest.raises(InputError, match="refused as unsafe"):
        read(memory(unit(("en", "x &b;"), ("de", "y")), head=head))


def test_files_that_cannot_be_opened(tmp_path):
    with pytest.raises(InputError, match=r"m\.tmx cannot be read: No such file"):
        list(read_tmx(tmp_path / "m.tmx", "en", "de"))
    (tmp_path / "m.tmx.gz").write_bytes(gzip.compress(memory(unit(("en", "a"), ("de", "b"))).encode())[:-20])
    with pytest.raises(InputError, match="not a whole gzip file"):
        list(read_tmx(tmp_path / "m.tmx.gz", "en", "de"))


def test_deep_nesting_ends_no_process(read, tmp_path):
    deep = "<hi>" * 50_000 + "x" + "</hi>" * 50_000
    (tmp_path / "deep.tmx").write_text(memory(unit(("en", f"a {deep} b"), ("de", "y"))))
    script = "import sys; from npda.corpus.tmx import read_tmx; print(*read_tmx(sys.argv[1], 'en', 'de'))"
    answer = subprocess.run([sys.executable, "-c", script, tmp_path / "deep.tmx"], capture_output=True, text=True)
    assert "src_text='a x b'" in answer.stdout, answer.stderr


def test_memory_does_not_grow_with_the_file(tmp_path):
    def peak(units: int) -> int:
        path = tmp_path / f"{units}.tmx"
        path.write_text(
            memory(*(unit(("en", f"sentence {n} " + "a" * 200), ("de", f"Satz {n}")) for n in range(units)))
        )
        next(read_tmx(path, "en", "de"))  # imports are not what is measured
        tracemalloc.start()
        count = sum(1 for _ in read_tmx(path, "en", "de"))
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert count == units
        return most

    assert peak(5_000) < 2 * peak(500)


def test_pairs_come_before_the_file_has_been_read(tmp_path):
    document = memory(*(unit(("en", f"a {n}"), ("de", "x")) for n in range(5_000)))
    (tmp_path / "m.tmx").write_text(document[:-100])
    assert len(list(itertools.islice(read_tmx(tmp_path / "m.tmx", "en", "de"), 10))) == 10


xml_text = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff"), max_size=20)


@given(st.lists(st.tuples(xml_text, xml_text), max_size=5))
def test_any_text_survives(tmp_path_factory, written):
    from xml.sax.saxutils import escape

    path = tmp_path_factory.mktemp("tmx") / "m.tmx"
    units = [unit(("en", escape(src)), ("de", escape(tgt))) for src, tgt in [*written, ("last", "letzter")]]
    path.write_text(memory(*units), encoding="utf-8")
    expected = [(" ".join(src.split()), " ".join(tgt.split())) for src, tgt in [*written, ("last", "letzter")]]
    assert [(p.src_text, p.tgt_text) for p in read_tmx(path, "en", "de")] == [(s, t) for s, t in expected if s and t]


@pytest.mark.parametrize("inside", ["<hi/>" * 2_000, "<hi>" * 2_000 + "</hi>" * 2_000])
def test_a_unit_that_would_fill_memory_is_refused(tmp_path, monkeypatch, inside):
    monkeypatch.setattr("npda.corpus.tmx.MOST_PARTS", 1_000)
    path = tmp_path / "large.tmx"
    unit = '<tu><tuv xml:lang="en"><seg>a {}</seg></tuv><tuv xml:lang="de"><seg>b</seg></tuv></tu>'
    path.write_text(f"<tmx><body>{unit.format('<hi/>') * 1_000}</body></tmx>")
    assert len(list(read_tmx(path, "en", "de"))) == 1_000  # as many as there are, one after the other
    path.write_text(f"<tmx><body>{unit.format(inside)}</body></tmx>")
    with pytest.raises(InputError, match="more than 1,000 elements in one place"):
        list(read_tmx(path, "en", "de"))
