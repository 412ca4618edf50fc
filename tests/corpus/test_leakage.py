"""The leakage filter: the same decisions as comparing everything with everything; and the command."""

import gzip
import itertools
import json
import random
import unicodedata

import pytest
import typer
from hypothesis import example, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from npda.cli.filter import filter_
from npda.corpus.leakage import LeakageFilter, LeakageSettings, drop_leaks, normalize
from npda.corpus.manifest import Utterance, write_manifest
from npda.corpus.pairs import Pair, read_pairs, write_pairs
from npda.io.errors import InputError


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("  The floor\tis  yours ,  Mr. O’Neill! ", "the floor is yours mr o neill"),
        ("„Straße“ – GROẞ", "strasse gross"),
        ("ﬁne ＡＢＣ １２ ½ e\u0301", "fine abc 12 1 2 é"),
        ("Do\u00adnau\u200bdampf\ufeff", "donaudampf"),
        ("snake_case 3.5%", "snake case 3 5"),
        ("你好,世界ABC", "你 好 世 界 abc"),
        ("हिन्दी", "हिन्दी"),
        ("... !?", ""),
        ("", ""),
    ],
)
def test_normalize(text, normal):
    assert normalize(text) == normal


@given(st.text())
def test_only_letters_marks_and_numbers_remain(text):
    normal = normalize(text)
    assert all(character == " " or unicodedata.category(character)[0] in "LMN" for character in normal)
    assert normal == " ".join(normal.split())


HELD_OUT = [
    Pair("The sitting is opened at nine o'clock.", "Die Sitzung wird um neun Uhr eröffnet.", "h0"),
    Pair("Thank you.", "Vielen Dank.", "h1"),
    Pair(
        "I should like to thank the rapporteur for the excellent work that she has done on this difficult report.",
        "Ich möchte der Berichterstatterin für die hervorragende Arbeit an diesem schwierigen Bericht danken.",
        "h2",
    ),
    Pair("The vote will take place tomorrow at noon.", "Die Abstimmung findet morgen Mittag statt.", "h3"),
]


@pytest.mark.parametrize(
    ("source", "target", "reason", "side", "held_out"),
    [
        ("the sitting is opened at nine o'clock", "die sitzung wird um neun uhr eröffnet", "equal", "pair", "h0"),
        ("The sitting is opened, at nine o’clock!", "Wir beginnen.", "equal", "source", "h0"),
        ("We begin.", "Die Sitzung wird um neun Uhr eröffnet", "equal", "target", "h0"),
        ("Thank you!", "Danke.", "equal", "source", "h1"),
        ("Thank you, sir.", "Danke, mein Herr.", None, None, None),
        ("It will take place tomorrow at noon.", "Das ist morgen.", "near", "source", "h3"),
        ("will take place tomorrow at noon", "Das ist morgen.", "contained", "source", "h3"),
        ("tomorrow at noon", "morgen Mittag", None, None, None),
        ("No: the vote will take place tomorrow at noon.", "Nein, morgen.", "containing", "source", "h3"),
        ("Eh?", "Die Abstimmung findet morgen Mittag statt, um eins.", "containing", "target", "h3"),
        ("The votes will take place tomorrow at noon.", "Sie ist morgen.", "near", "source", "h3"),
        ("The debate will take place tonight at ten.", "Sie ist heute.", None, None, None),
        (
            "I should like to thank the rapporteur for the excellent work that she has done on this important report.",
            "Danke.",
            "near",
            "source",
            "h2",
        ),
        ("I should like to thank the rapporteur for his words on quite another subject.", "Danke.", None, None, None),
    ],
)
def test_what_leaks(source, target, reason, side, held_out):
    leak = LeakageFilter(HELD_OUT).find(Pair(source, target))
    found = (leak.reason, leak.side, leak.held_out.id) if leak else (None, None, None)
    assert found == (reason, side, held_out)


def test_short_sides_can_be_spared():
    spare = LeakageFilter(HELD_OUT, LeakageSettings(min_words=3))
    assert spare.find(Pair("Thank you!", "Danke.")) is None
    assert spare.find(Pair("Thank you!", "Vielen Dank!")) is not None
    assert spare.find(Pair("The sitting is opened at nine o'clock.", "Danke.")) is not None
    longer = LeakageFilter(HELD_OUT, LeakageSettings(min_words=9))
    assert longer.find(Pair("The sitting is opened at nine o'clock.", "Danke.")) is None


def test_punctuation_alone_leaks_nothing():
    assert LeakageFilter([Pair("...", "Vielen Dank.")]).find(Pair("?!", "Ganz anders.")) is None


def test_overlap_of_a_changed_word():
    leak = LeakageFilter(HELD_OUT).find(Pair(HELD_OUT[2].src_text.replace("difficult", "long"), "x"))
    assert leak is not None
    # 19 words, 15 five-word sequences; the eighteenth word stands in the last two of them.
    assert leak.overlap == pytest.approx(13 / 15)


def test_similarity_of_short_sides_by_hand():
    options = LeakageSettings(short_threshold=0.5, char_ngram=3)
    leak = LeakageFilter([Pair("a b c d e", "x")], options).find(Pair("a b c d f", "y"))
    # " a ", "a b", " b ", "b c", " c ", "c d", " d " are shared; "d e", " e " and "d f", " f " are not.
    assert leak is not None
    assert (leak.reason, leak.overlap) == ("near", pytest.approx(7 / 11))


def expected(pair: Pair, held_out: list[Pair], options: LeakageSettings) -> tuple | None:
    """The definition, comparing the pair with every held-out pair in turn: reason, side, overlap and place."""
    found = []
    both = [(normalize(p.src_text), normalize(p.tgt_text)) for p in held_out]
    texts = (normalize(pair.src_text), normalize(pair.tgt_text))
    if texts in both:
        return "equal", "pair", 1.0, both.index(texts)
    for place, others in enumerate(both):
        for side, text, other in zip(("source", "target"), texts, others, strict=True):
            words, other_words = text.split(), other.split()
            shorter = min(len(words), len(other_words))
            if shorter < options.min_words:
                continue
            if words == other_words:
                found.append((0, -1.0, side, place))
            elif shorter < options.ngram:
                continue
            elif any(other_words[i : i + len(words)] == words for i in range(len(other_words))):
                found.append((1, -1.0, side, place))
            elif any(words[i : i + len(other_words)] == other_words for i in range(len(words))):
                found.append((2, -1.0, side, place))
            elif (overlap := _overlap(text, other, options)) is not None:
                found.append((3, -overlap, side, place))
    if not found:
        return None
    rank, negative, side, place = min(found)
    return ("equal", "contained", "containing", "near")[rank], side, -negative, place


def _overlap(text: str, other: str, options: LeakageSettings) -> float | None:
    if min(len(text), len(other)) >= options.short_chars:
        a, b = (
            {" ".join(t.split()[i : i + options.ngram]) for i in range(len(t.split()) - options.ngram + 1)}
            for t in (text, other)
        )
        overlap = len(a & b) / min(len(a), len(b))
        return overlap if overlap >= options.threshold else None
    a, b = (
        {f" {t} "[i : i + options.char_ngram] for i in range(max(1, len(t) + 3 - options.char_ngram))}
        for t in (text, other)
    )
    alike = len(a & b) / len(a | b)
    lengths = sorted((len(text), len(other)))
    enough = alike >= options.short_threshold and lengths[0] >= options.short_threshold * lengths[1]
    return alike if enough else None


WORDS = (
    "the",
    "of",
    "is",
    "vote",
    "votes",
    "report",
    "Europe",
    "member",
    "members",
    "state",
    "states,",
    "now",
    "a.",
    "b",
)
sentence = st.lists(st.sampled_from(WORDS), min_size=1, max_size=25).map(" ".join)


@st.composite
def variant(draw, base: str) -> str:
    """A sentence with a few words replaced, dropped or added, or a piece of it, or with something around it."""
    words = base.split()
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(words)))
        words[place : place + draw(st.integers(0, 1))] = draw(st.lists(st.sampled_from(WORDS), max_size=1))
    start, end = draw(st.sampled_from([(0, None), (0, None), (1, None), (0, -1), (2, -3)]))
    return " ".join(words[start:end]) or "empty"


@st.composite
def corpora(draw) -> tuple[list[Pair], list[Pair]]:
    held_out = draw(st.lists(st.builds(Pair, sentence, sentence), min_size=1, max_size=6))
    train = draw(st.lists(st.builds(Pair, sentence, sentence), max_size=3))
    for _ in range(draw(st.integers(1, 5))):
        base = draw(st.sampled_from(held_out))
        source = draw(variant(base.src_text)) if draw(st.booleans()) else draw(sentence)
        target = draw(variant(base.tgt_text)) if draw(st.booleans()) else draw(sentence)
        train.append(Pair(source, target))
    return train, held_out


options = st.builds(
    LeakageSettings,
    min_words=st.sampled_from([1, 1, 3, 7]),
    ngram=st.integers(1, 5),
    threshold=st.sampled_from([0.2, 0.5, 0.6, 1.0]),
    short_chars=st.sampled_from([1, 20, 40, 60, 1000]),
    char_ngram=st.integers(1, 5),
    short_threshold=st.sampled_from([0.1, 0.3, 0.5, 0.7, 0.9, 1.0]),
)


# The letters of the second are half of the first one's, and the commoner half: the tightest case for the index.
TIGHT = ("a b c d e f g h i", "a b c d a b c d a", "d c b a d c b a d", "e f g h i e f g h")
LETTERS = LeakageSettings(char_ngram=1, short_threshold=0.5)


@settings(max_examples=200, deadline=None)
@given(corpora(), options)
@example(([Pair("a a a a a a", "b")], [Pair("a a a a a a a", "c")]), LeakageSettings())
@example(([Pair("a b a b a b", "b")], [Pair("b a b a b a b a", "c")]), LeakageSettings(short_chars=1))
@example(([Pair(TIGHT[0], "x")], [Pair(text, "y") for text in TIGHT[1:]]), LETTERS)
@example(([Pair(TIGHT[0], "x")], [Pair(TIGHT[1], "y")]), LETTERS)
def test_same_as_comparing_everything(corpus, options):
    train, held_out = corpus
    leakage = LeakageFilter(held_out, options)
    for pair in train:
        leak = leakage.find(pair)
        found = leak and (leak.reason, leak.side, leak.overlap, leak.held_out)
        wanted = expected(pair, held_out, options)
        assert found == (wanted and (*wanted[:3], held_out[wanted[3]]))


def test_same_as_comparing_everything_on_a_larger_corpus():
    generator = random.Random(0)
    vocabulary = [f"{a}{b}" for a in ("vot", "report", "memb", "stat", "de") for b in ("e", "es", "er", "ing", "")]

    def draw() -> str:
        return " ".join(generator.choices(vocabulary, k=generator.choice([4, 7, 8, 9, 20])))

    def change(text: str) -> str:
        words = text.split()
        words[generator.randrange(len(words))] = generator.choice(vocabulary)
        return " ".join(words)

    held_out = [Pair(draw(), draw()) for _ in range(150)]
    changed = [Pair(change(pair.src_text), change(change(pair.tgt_text))) for pair in held_out]
    train = changed + [Pair(draw(), draw()) for _ in range(100)]
    leakage = LeakageFilter(held_out)
    reasons = []
    for pair in train:
        leak = leakage.find(pair)
        wanted = expected(pair, held_out, LeakageSettings())
        assert (leak and (leak.reason, leak.side, leak.overlap)) == (wanted and wanted[:3])
        reasons.append(leak.reason if leak else None)
    assert {"near", "equal", None} <= set(reasons)


@settings(deadline=None)
@given(corpora())
def test_no_held_out_side_remains(corpus):
    train, held_out = corpus
    kept, report = drop_leaks([*train, *held_out], held_out)
    kept = list(kept)
    sources, targets = ({normalize(getattr(p, side)) for p in held_out} for side in ("src_text", "tgt_text"))
    assert all(normalize(p.src_text) not in sources and normalize(p.tgt_text) not in targets for p in kept)
    assert report.kept == len(kept)
    assert report.dropped == len(train) + len(held_out) - len(kept)
    assert kept == [p for p in train if p in kept]


def test_the_training_text_is_streamed():
    endless = (Pair(f"sentence number {n}", f"Satz Nummer {n}") for n in itertools.count())
    kept, report = drop_leaks(endless, HELD_OUT)
    assert [p.src_text for p in itertools.islice(kept, 2)] == ["sentence number 0", "sentence number 1"]
    assert report.kept == 2


def test_the_report_counts_all_and_shows_a_few():
    kept, report = drop_leaks([Pair("Thank you!", f"Danke {n}") for n in range(9)] + HELD_OUT[:2], HELD_OUT)
    assert list(kept) == []
    assert report.counts == {("equal", "source"): 9, ("equal", "pair"): 2}
    shown = report.examples["equal", "source"]
    assert [(leak.pair.tgt_text, leak.held_out) for leak in shown] == [(f"Danke {n}", HELD_OUT[1]) for n in range(3)]


@pytest.mark.parametrize("wrong", [{"threshold": 0}, {"short_threshold": 1.1}, {"ngram": 0}, {"min_words": 0}])
def test_settings_are_checked(wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        LeakageSettings(**wrong)


TRAIN = [
    Pair("Thank you!", "Danke.", "t0"),
    Pair("The votes will take place tomorrow at noon.", "Sie ist morgen.", "t1"),
    Pair("Something else altogether.", "Etwas ganz anderes.", "t2"),
    Pair('A "quoted" word — [bold]x[/bold].', "Ein Wort.", "t3"),
]


@pytest.fixture
def files(tmp_path):
    write_pairs(tmp_path / "train.tsv", TRAIN)
    write_pairs(tmp_path / "dev.tsv.gz", HELD_OUT[:2])
    test = [Utterance(p.id, "/a.wav", 10, p.tgt_text, p.src_text) for p in HELD_OUT[2:]]
    write_manifest(tmp_path / "test.tsv", test)
    return tmp_path


def npda_filter(*arguments: object):
    app = typer.Typer()
    app.command("filter")(filter_)
    result = CliRunner().invoke(app, list(map(str, arguments)))
    if isinstance(result.exception, InputError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def against(files) -> list[object]:
    return ["--against", files / "dev.tsv.gz", "--against", files / "test.tsv"]


@pytest.mark.parametrize("name", ["clean.tsv", "clean.tsv.gz"])
def test_command(files, name):
    said = npda_filter(files / "train.tsv", *against(files), "--out", files / name, "--report", files / "dropped.tsv")
    assert read_pairs(files / name) == TRAIN[2:]
    assert "Kept 2 of 4 pairs (50.0%)" in said
    assert "the source is nearly a held-out one" in said
    assert "held out  The vote will take place tomorrow at noon." in said
    header, *rows = [line.split("\t") for line in (files / "dropped.tsv").read_text().splitlines()]
    rows = [dict(zip(header, row, strict=True)) for row in rows]
    assert [(row["id"], row["reason"], row["side"], row["held_out_id"]) for row in rows] == [
        ("t0", "equal", "source", "h1"),
        ("t1", "near", "source", "h3"),
    ]
    assert sorted(path.name for path in files.iterdir()) == sorted(
        ["train.tsv", "dev.tsv.gz", "test.tsv", name, "dropped.tsv"]
    )


def test_command_with_json(files):
    said = npda_filter(files / "train.tsv", *against(files), "--out", files / "c.tsv", "--json", "--threshold", "0.6")
    answer = json.loads(said)
    assert (answer["pairs"], answer["kept"], answer["dropped"]) == (4, 2, 2)
    assert answer["reasons"][0] == {"reason": "equal", "side": "source", "pairs": 1}
    assert answer["examples"][0]["pair"]["id"] == "t0"
    assert answer["settings"]["threshold"] == 0.6


def test_command_keeps_stock_phrases_when_asked(files):
    npda_filter(files / "train.tsv", *against(files), "--out", files / "c.tsv", "--min-words", 3)
    assert [p.id for p in read_pairs(files / "c.tsv")] == ["t0", "t2", "t3"]


def test_command_with_moses_files(files):
    (files / "t.en").write_text("".join(f"{p.src_text}\n" for p in TRAIN), encoding="utf-8")
    (files / "t.de").write_bytes("".join(f"{p.tgt_text}\n" for p in TRAIN).encode())
    npda_filter("--source", files / "t.en", "--target", files / "t.de", *against(files), "--out", files / "c.tsv")
    assert [p.src_text for p in read_pairs(files / "c.tsv")] == [p.src_text for p in TRAIN[2:]]


def test_command_with_a_translation_memory(files):
    units = "".join(
        f'<tu><tuv xml:lang="EN"><seg>{p.src_text}</seg></tuv><tuv xml:lang="DE"><seg>{p.tgt_text}</seg></tuv></tu>'
        for p in TRAIN
    )
    (files / "m.tmx.gz").write_bytes(gzip.compress(f"<tmx><body>{units}</body></tmx>".encode()))
    languages = ["--source-language", "en", "--target-language", "de"]
    npda_filter(files / "m.tmx.gz", *languages, *against(files), "--out", files / "c.tsv")
    assert [p.src_text for p in read_pairs(files / "c.tsv")] == [p.src_text for p in TRAIN[2:]]
    with pytest.raises(InputError, match="add --source-language"):
        npda_filter(files / "m.tmx.gz", *against(files), "--out", files / "c.tsv")


def test_a_held_out_manifest_needs_no_transcripts(files):
    write_manifest(files / "st.tsv", [Utterance("u", "/a.wav", 10, "Etwas ganz anderes!")])
    npda_filter(files / "train.tsv", "--against", files / "st.tsv", "--out", files / "c.tsv")
    assert [p.id for p in read_pairs(files / "c.tsv")] == ["t0", "t1", "t3"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--out", "c.tsv"], "Give the training text as one file"),
        (["train.tsv", "--source", "a", "--target", "b", "--out", "c.tsv"], "Give the training text as one file"),
        (["--source", "a", "--out", "c.tsv"], "Give the training text as one file"),
        (["train.tsv", "--out", "test.tsv"], r"--out .*test\.tsv is an input too"),
        (["train.tsv", "--out", "c.tsv", "--report", "c.tsv"], r"--report .*c\.tsv is --out too"),
        (["train.tsv", "--out", "."], "is a directory"),
        (["train.tsv", "--out", "c.tsv", "--threshold", "0"], "threshold is 0"),
        (["absent.tsv", "--out", "c.tsv"], r"absent\.tsv cannot be read"),
        (["copy.tsv", "--out", "c.tsv", "--report", "d.tsv"], "All 2 training pairs leak"),
    ],
)
def test_faults_are_named_and_nothing_is_written(files, monkeypatch, arguments, complaint):
    monkeypatch.chdir(files)
    write_pairs("copy.tsv", HELD_OUT[2:])
    before = sorted(files.iterdir())
    with pytest.raises(InputError, match=complaint):
        npda_filter(*arguments, "--against", "test.tsv")
    assert sorted(files.iterdir()) == before
