"""npda prepare: manifests and pairs of whole corpora, as a user makes them."""

import json
import subprocess
import sys

import pytest
import tiny_corpora
from typer.testing import CliRunner

from npda import audio
from npda.cli.prepare import prepare
from npda.corpus import europarl_st, mustc
from npda.corpus.manifest import read_manifest
from npda.corpus.mini.grammar import sentences
from npda.corpus.pairs import Pair, read_pairs
from npda.corpus.sampling import chosen
from npda.io.errors import InputError


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    """Small MuST-C and Europarl-ST, three splits each, and Europarl with leaks of the test set."""
    root = tmp_path_factory.mktemp("corpora")
    for split, name in (("train", "ted_1"), ("dev", "ted_2"), ("tst-COMMON", "ted_3")):
        talks = tiny_corpora.talks("general", "test" if split == "tst-COMMON" else split, (name,))
        tiny_corpora.write_mustc(root / "mustc", split, talks)
    for split in ("train", "dev", "test"):
        speeches = tiny_corpora.talks("parliament", split, (f"en.2008.{split}",))
        tiny_corpora.write_europarl_st(root / "europarl-st", split, speeches)
    return root


@pytest.fixture(scope="module")
def french(corpora):
    """The same talk with translations into French beside it."""
    talks = tiny_corpora.talks("general", "dev", ("ted_2",), "fr")
    tiny_corpora.write_mustc(corpora / "mustc", "dev", talks, "fr")


def run(*arguments: object) -> str:
    result = CliRunner().invoke(prepare, list(map(str, arguments)))
    if isinstance(result.exception, InputError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def test_mustc(corpora, tmp_path):
    said = run("mustc", corpora / "mustc", "--language", "de", "--out", tmp_path / "out")
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == ["dev.tsv", "train.tsv", "tst-COMMON.tsv"]
    for split in ("train", "dev", "tst-COMMON"):
        manifest = read_manifest(tmp_path / "out" / f"{split}.tsv", check_audio=True)
        assert manifest == mustc.read(corpora / "mustc", "de", split)
        assert split in said
    frames = [len(audio.fbank(audio.load(one.audio))) for one in manifest]
    assert frames == [one.n_frames for one in manifest]


def test_several_languages_in_one_manifest(corpora, french, tmp_path):
    arguments = ("--language", "de", "--language", "fr", "--split", "dev", "--out", tmp_path, "--json")
    answer = json.loads(run("mustc", corpora / "mustc", *arguments))
    manifest = read_manifest(tmp_path / "dev.tsv")
    assert [one.tgt_lang for one in manifest] == ["de"] * 3 + ["fr"] * 3
    assert [one.src_text for one in manifest[:3]] == [one.src_text for one in manifest[3:]]
    hours = sum(one.n_frames for one in manifest) / 100 / 3600
    assert answer == {
        "corpus": "MuST-C",
        "languages": ["de", "fr"],
        "splits": [
            {
                "split": "dev",
                "manifest": str(tmp_path / "dev.tsv"),
                "utterances": 6,
                "hours": pytest.approx(hours, abs=0.005),
                "remarks": {},
            }
        ],
    }


def test_europarl_st_within_a_length(corpora, tmp_path):
    whole = europarl_st.read(corpora / "europarl-st", "en", "de", "test")
    limit = sorted(one.n_frames for one in whole)[1]
    arguments = ("--language", "de", "--split", "test", "--max-frames", limit, "--out", tmp_path, "--json")
    answer = json.loads(run("europarl-st", corpora / "europarl-st", *arguments))
    kept = read_manifest(tmp_path / "test.tsv")
    assert kept == [one for one in whole if one.n_frames <= limit]
    assert len(kept) == 2
    assert answer["splits"][0]["remarks"] == {f"over {limit} frames": 1}


def test_a_fault_in_the_last_split_leaves_nothing(corpora, tmp_path):
    with pytest.raises(InputError, match=r"no folder .*train-noisy"):
        run("europarl-st", corpora / "europarl-st", "--language", "de", "--split", "dev", "--split", "train-noisy",
            "--out", tmp_path / "out")  # fmt: skip
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--language", "de", "--language", "de", "--out", "OUT"), "names something twice"),
        (("--language", "de", "--out", "FILE"), "is a file; give the name of a folder"),
        (("--language", "de", "--split", "dev", "--max-frames", "9", "--out", "OUT"), "raise --max-frames"),
        (("--language", "nl", "--out", "OUT"), "no folder .*en-nl"),
    ],
)
def test_wrong_arguments(corpora, tmp_path, arguments, says):
    (tmp_path / "FILE").touch()
    places = {name: tmp_path / name for name in ("OUT", "FILE")}
    with pytest.raises(InputError, match=says):
        run("mustc", corpora / "mustc", *(places.get(one, one) for one in arguments))


def test_exit_code_and_one_sentence(tmp_path):
    script = "from npda.cli import main; main()"
    command = [sys.executable, "-c", script, "prepare", "mustc", str(tmp_path), "--language", "de", "--out", "x"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert answer.returncode == 2
    assert answer.stdout == ""
    assert answer.stderr.startswith(f"npda: There is no folder {tmp_path}/en-de. MuST-C is expected as ROOT/en-de/")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def europarl(corpora, tmp_path_factory):
    """Sentences of parliament, two of the test set among them; one unaligned, one with markup, one far too long."""
    root = tmp_path_factory.mktemp("europarl")
    run("europarl-st", corpora / "europarl-st", "--language", "de", "--split", "test", "--out", root / "st")
    held_out = read_manifest(root / "st" / "test.tsv")
    # Sentences of a grammar are much alike: numbered nonsense keeps them from leaking one another.
    pairs = [Pair(f"number {n} {'abcdefghij'[n % 10] * 9}{n}", f"Nummer {n} {n * 7919}") for n in range(30)]
    pairs.insert(3, Pair(held_out[0].src_text.upper(), "Etwas anderes."))
    pairs.insert(7, Pair("Something else.", held_out[1].tgt_text))
    pairs.insert(11, Pair("", "Nur hier."))
    pairs.insert(13, Pair("<SPEAKER ID=1>", "<SPEAKER ID=1>"))
    pairs.insert(17, Pair("word " * 300, "Wort " * 300))
    tiny_corpora.write_europarl(root / "v7", pairs)
    return root


def fit(name: str) -> list[int]:
    return [int(pair.src_text.split()[1]) for pair in read_pairs(name)]


def test_europarl(europarl, tmp_path):
    arguments = ("--language", "de", "--against", europarl / "st" / "test.tsv", "--report", tmp_path / "leaks.tsv")
    out = tmp_path / "new" / "de.tsv.gz"
    said = json.loads(run("europarl", europarl / "v7", *arguments, "--out", out, "--json"))
    assert fit(out) == list(range(30))
    assert {pair.tgt_lang for pair in read_pairs(out)} == {"de"}
    assert (said["pairs"], said["clean"], said["leakage"]["dropped"]) == (30, 30, 2)
    assert said["skipped"] == {"with markup": 1, "with too many words": 1}
    header, *rows = [line.split("\t") for line in (tmp_path / "leaks.tsv").read_text().splitlines()]
    found = [(row["reason"], row["side"]) for row in (dict(zip(header, line, strict=True)) for line in rows)]
    assert found == [("equal", "source"), ("equal", "target")]


def test_europarl_sample(europarl, tmp_path):
    arguments = ("europarl", europarl / "v7", "--language", "de", "--against", europarl / "st" / "test.tsv")
    said = run(*arguments, "--sample", 8, "--seed", 5, "--out", tmp_path / "a.tsv")
    marks = chosen(30, 8, 5)
    assert fit(tmp_path / "a.tsv") == [n for n in range(30) if marks[n]]
    assert "Wrote 8 pairs, a sample of 30 with seed 5," in said
    assert "dropped 1 pairs: the source is a held-out one" in said
    run(*arguments, "--sample", 8, "--seed", 5, "--out", tmp_path / "b.tsv")
    assert (tmp_path / "a.tsv").read_bytes() == (tmp_path / "b.tsv").read_bytes()
    run(*arguments, "--sample", 0, "--out", tmp_path / "all.tsv")
    assert fit(tmp_path / "all.tsv") == list(range(30))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.tsv", "all.tsv", "b.tsv"]


def test_europarl_compared_with_nothing(europarl, tmp_path):
    said = run("europarl", europarl / "v7", "--language", "de", "--out", tmp_path / "de.tsv")
    assert "compared with no held-out set" in said
    assert len(read_pairs(tmp_path / "de.tsv")) == 32


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--out", "DE"), "is an input too"),
        (("--out", "OUT", "--report", "OUT", "--against", "TEST"), "is --out too"),
        (("--out", "OUT", "--report", "REPORT"), "name the held-out sets with --against"),
        (("--out", "OUT", "--max-words", "1"), "Nothing is left of .*: 33 pairs with too many words"),
        (("--out", "OUT", "--max-ratio", "0"), "max_ratio is 0.0"),
        (("--out", "OUT", "--against", "MISSING"), "MISSING cannot be read"),
    ],
)
def test_europarl_wrong_arguments(europarl, tmp_path, arguments, says):
    places = {name: tmp_path / name for name in ("OUT", "REPORT", "MISSING")}
    places |= {"DE": europarl / "v7" / "europarl-v7.de-en.de", "TEST": europarl / "st" / "test.tsv"}
    with pytest.raises(InputError, match=says):
        run("europarl", europarl / "v7", "--language", "de", *(places.get(one, one) for one in arguments))
    assert list(tmp_path.iterdir()) == []


def test_the_embedded_corpus_through_europarl(tmp_path):
    """What is filtered against itself leaves nothing; against another split, nothing that is held out."""
    train, test = sentences("parliament", "train")[:300], sentences("parliament", "test")[:50]
    tiny_corpora.write_europarl(tmp_path / "v7", train + test)
    tiny_corpora.write_europarl(tmp_path / "held", test)
    run("europarl", tmp_path / "held", "--language", "de", "--out", tmp_path / "test.tsv")
    run(
        "europarl", tmp_path / "v7", "--language", "de", "--against", tmp_path / "test.tsv", "--out", tmp_path / "c.tsv"
    )
    kept = {pair.src_text for pair in read_pairs(tmp_path / "c.tsv")}
    assert kept
    assert kept <= {pair.src_text for pair in train}
    with pytest.raises(InputError, match=r"Nothing is left of .*: 50 pairs that leak held-out sentences"):
        run("europarl", tmp_path / "held", "--language", "de", "--against", tmp_path / "test.tsv",
            "--out", tmp_path / "no.tsv")  # fmt: skip
    assert not (tmp_path / "no.tsv").exists()
