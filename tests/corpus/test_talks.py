"""One manifest cut by its speakers, its transcripts as what is to be written."""

from dataclasses import replace
from pathlib import Path

import pytest
import tiny_training

from npda.corpus.manifest import read_manifest, write_manifest
from npda.corpus.pairs import read_pairs
from npda.io.errors import InputError
from npda.reproduce.recipe.recipe import Recipe
from npda.reproduce.work import corpora
from npda.stages.plan import StageLog


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    made = tiny_training.utterances(tmp_path / "audio", 6, src_lang="en", tgt_lang="de")
    spoken = [replace(u, speaker=name) for u, name in zip(made, "aabbcd", strict=True)]
    write_manifest(tmp_path / "all.tsv", spoken)
    return tmp_path / "all.tsv"


def corpus(manifest: Path, **changes):
    given = {"kind": "talks", "manifest": manifest.name, "dev": ["b"], "test": ["c"], **changes}
    content = {
        "name": "x", "corpora": {"fair": given}, "systems": ["S"],
        "directions": [{"name": "d", "general": "fair", "domain": "fair", "languages": ["en"]}],
    }  # fmt: skip
    context = {"directory": manifest.parent, "system": ["S"], "table": []}
    return Recipe.model_validate(content, context=context).corpora["fair"]


def written(manifest: Path, out: Path, **changes) -> dict[str, list]:
    out.mkdir()
    corpora.write_speech(out, corpus(manifest, **changes), "en", 0, StageLog(out / "log.txt"))
    return {split: read_manifest(corpora.speech(out, split)) for split in corpora.SPLITS}


def test_speakers_stay_in_their_split(manifest, tmp_path):
    splits = written(manifest, tmp_path / "out")
    assert {split: [u.speaker for u in found] for split, found in splits.items()} == {
        "train": ["a", "a", "d"],
        "dev": ["b", "b"],
        "test": ["c"],
    }
    assert {u.tgt_lang for u in splits["train"]} == {"de"}


def test_transcripts_are_the_targets(manifest, tmp_path):
    splits = written(manifest, tmp_path / "out", transcribe=True)
    for found in splits.values():
        assert all(u.tgt_text == u.src_text and u.tgt_lang == "en" for u in found)
    pairs = read_pairs(corpora.text(tmp_path / "out", "train"))
    assert [pair.tgt_text for pair in pairs] == [u.src_text for u in splits["train"]]


@pytest.mark.parametrize(
    ("changes", "told"),
    [({"dev": ["nobody"]}, "no speaker there is called 'nobody'"), ({"test": ["b"]}, "in dev and in test")],
)
def test_wrong_speakers_are_told(manifest, tmp_path, changes, told):
    with pytest.raises(InputError, match=told):
        written(manifest, tmp_path / "out", **changes)
