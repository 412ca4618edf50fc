"""Europarl: streamed pairs, cleaning by hand-made cases, samples against their definition."""

import gzip
import itertools
import shutil
import tracemalloc
from collections import Counter

import numpy as np
import pytest
import tiny_corpora
from hypothesis import given
from hypothesis import strategies as st

from npda.corpus import europarl
from npda.corpus.cleaning import CleaningSettings, clean
from npda.corpus.mini.grammar import sentences
from npda.corpus.pairs import Pair
from npda.corpus.sampling import chosen, sample_pairs
from npda.io.errors import InputError


@pytest.fixture
def root(tmp_path):
    tiny_corpora.write_europarl(tmp_path, sentences("parliament", "train")[:20])
    return tmp_path


def test_english_is_the_source(root):
    pairs = list(europarl.stream(root, "de"))
    wanted = [(pair.src_text, pair.tgt_text) for pair in sentences("parliament", "train")[:20]]
    assert [(pair.src_text, pair.tgt_text) for pair in pairs] == wanted
    assert {pair.tgt_lang for pair in pairs} == {"de"}


def test_gzipped(root):
    plain = list(europarl.stream(root, "de"))
    for file in list(root.iterdir()):
        with gzip.open(f"{file}.gz", "wb") as packed:
            packed.write(file.read_bytes())
        file.unlink()
    assert list(europarl.stream(root, "de")) == plain


@pytest.mark.parametrize(
    ("language", "missing", "says"),
    [
        ("fr", None, r"no file .*europarl-v7\.fr-en\.en, nor .*\.gz\. .*unpack fr-en\.tgz in ROOT"),
        ("de", "europarl-v7.de-en.de", r"no file .*europarl-v7\.de-en\.de, nor"),
        ("de", ".", r"no folder .*Europarl is expected as ROOT/europarl-v7\.de-en\.en"),
        ("../de", None, "not the code of a language"),
    ],
)
def test_what_is_missing_is_named_at_once(root, language, missing, says):
    if missing:
        path = root / missing
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(InputError, match=says):
        europarl.stream(root, language)


def test_files_of_different_length(root):
    with open(root / "europarl-v7.de-en.de", "a") as file:
        file.write("Noch ein Satz.\n")
    with pytest.raises(InputError, match=r"de-en\.en has 20 lines but .*de-en\.de has 21"):
        list(europarl.stream(root, "de"))


def test_cleaning():
    fit = [Pair("a b", "c"), Pair(" one\ttwo ", "eins zwei\r"), Pair("w " * 5, "v " * 5), Pair("x", "y " * 3)]
    unfit = [Pair("<CHAPTER ID=1>", "<CHAPTER ID=1>"), Pair("x", "<P>"), Pair("w " * 6, "v " * 6), Pair("x", "y " * 4)]
    skipped = Counter()
    kept = list(clean([*unfit[:2], *fit, *unfit[2:]], CleaningSettings(max_words=5, max_ratio=3), skipped))
    texts = [(pair.src_text, pair.tgt_text) for pair in kept]
    assert texts == [("a b", "c"), ("one two", "eins zwei"), ("w w w w w", "v v v v v"), ("x", "y y y")]
    assert skipped == {"with markup": 2, "with too many words": 1, "of uneven lengths": 1}


@pytest.mark.parametrize("wrong", [{"max_words": 0}, {"max_ratio": 0.5}, {"max_ratio": float("nan")}])
def test_cleaning_settings_are_checked(wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        CleaningSettings(**wrong)


@given(st.integers(0, 300), st.integers(1, 300), st.integers(1, 300), st.integers(0, 2**64))
def test_samples_have_their_size_and_lie_inside_each_other(total, smaller, larger, seed):
    smaller, larger = sorted((smaller, larger))
    small, large = chosen(total, smaller, seed), chosen(total, larger, seed)
    assert (small.sum(), large.sum()) == (min(smaller, total), min(larger, total))
    assert not (small & ~large).any()


def test_every_item_is_as_likely():
    """Of 4,000 seeds each of 10 items is in a third: 1,200 times, give or take five standard deviations."""
    times = sum(chosen(10, 3, seed).astype(int) for seed in range(4_000))
    assert np.abs(times - 1_200).max() < 5 * np.sqrt(4_000 * 0.3 * 0.7)


def test_the_same_sample_forever():
    """NumPy's well-known first draws of seed 0 are .637 .270 .041 .017 .813 .913 .607 .729; samples must stay."""
    assert np.flatnonzero(chosen(8, 3, 0)).tolist() == [1, 2, 3]
    assert np.flatnonzero(chosen(8, 5, 0)).tolist() == [0, 1, 2, 3, 6]


def test_sample_of_a_stream(tmp_path):
    pairs = [Pair(f"sentence {n}", f"Sätzchen\u2028{n}", f"i{n}", "de") for n in range(50)]
    taken = list(sample_pairs(iter(pairs), 7, 3, tmp_path))
    assert taken == [pair for pair, marked in zip(pairs, chosen(50, 7, 3), strict=True) if marked]
    assert list(sample_pairs(iter(pairs), 50, 3, tmp_path)) == pairs
    assert list(sample_pairs(iter(pairs), 7, 4, tmp_path)) != taken
    assert list(tmp_path.iterdir()) == []


def test_sampling_does_not_hold_the_corpus(tmp_path):
    long = "word " * 200
    pairs = (Pair(f"{n} {long}", long) for n in range(5_000))
    tracemalloc.start()
    count = sum(1 for _ in sample_pairs(pairs, 4_000, 0, tmp_path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 4_000
    assert peak < 1_000_000  # of 10 MB


@pytest.mark.parametrize(("count", "seed"), [(0, 0), (-1, 0), (1, -1)])
def test_wrong_samples(count, seed):
    with pytest.raises(InputError, match="at least 1 and a seed of at least 0"):
        chosen(10, count, seed)


def test_streaming_starts_before_the_end(root):
    assert len(list(itertools.islice(clean(europarl.stream(root, "de")), 2))) == 2
