"""A small world to break: a model that can read, speech, text in every format, stores. And scratch copies of it."""

from __future__ import annotations

import gzip
import importlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from pkgutil import walk_packages

import said
import soundfile
import tiny_store
import tiny_training

import npda
from npda.corpus.manifest import Utterance, write_manifest
from npda.corpus.pairs import write_pairs
from npda.datastore.compress import CompressOptions, compress
from npda.datastore.source import BuildOptions
from npda.datastore.store import Datastore
from npda.decoding.knn.adaptive import AdaptiveCombiner, AdaptiveOptions, save_adaptive
from npda.io.sealed import write_sealed
from tests.faults.trial import forked

_NUMBERS = count()
TMX = """<?xml version="1.0" encoding="UTF-8"?>
<tmx version="1.4"><header srclang="en"/><body>
{units}
</body></tmx>
"""
UNIT = '<tu><tuv xml:lang="en"><seg>{}</seg></tuv><tuv xml:lang="de"><seg>{}</seg></tuv></tu>'
RECIPE = """\
name: tiny
corpora:
  general: {kind: manifests, train: train.tsv, dev: dev.tsv}
  domain: {kind: manifests, train: train.tsv, dev: dev.tsv, test: dev.tsv}
model:
  training: {max_epochs: null, max_updates: 3}
  alignment: {max_epochs: null, max_updates: 3}
systems: [E2E-ST-Base, NPDA-kNN-ST]
directions:
  - {name: there, general: general, domain: domain, languages: [de]}
tables: [adaptation]
search: {beam: 2, max_length: 12}
"""


@dataclass(frozen=True)
class World:
    """model, other: model directories; store, other_store: with an index, made by the same model; small: compressed"""

    root: Path

    @property
    def home(self) -> Path:
        """What lies here is never changed by a command that is refused."""
        return self.root / "home"

    def __getattr__(self, name: str) -> Path:
        return self.home / name

    def file(self, name: str) -> Path:
        return self.home / name

    @contextmanager
    def scratch(self, *copies: str) -> Iterator[Path]:
        """A folder of its own, with copies of some of the world's files and folders."""
        folder = self.root / f"scratch-{next(_NUMBERS)}"
        folder.mkdir()
        try:
            for name in copies:
                original = self.home / name
                (shutil.copytree if original.is_dir() else shutil.copy2)(original, folder / name)
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def make(root: Path) -> World:
    """Everything, by a process of its own: one that has computed has threads, and cannot be forked any more."""
    os.environ["NPDA_CACHE"] = str(root / "cache")
    world = World(root)
    _import_all()
    ended = forked(lambda: _fill(world))
    assert ended.code == 0, ended.words
    return world


def _import_all() -> None:
    """What any verb will import, so that forked processes need not."""
    for module in walk_packages(npda.__path__, "npda."):
        if module.name.split(".")[1] not in ("cluster", "serving", "__main__"):
            importlib.import_module(module.name)


def _fill(world: World) -> int:
    home = world.home
    home.mkdir(parents=True)
    model = tiny_store.backbone()
    model.target.language = "de"
    model.save_pretrained(home / "model")
    tiny_store.backbone(seed=3).save_pretrained(home / "other")
    pairs = tiny_store.pairs(40)
    options = BuildOptions(progress=False, chunk=16, index="IVF2,Flat")
    for name, source in (("store", pairs), ("other_store", tiny_store.pairs(40, seed=5))):
        store = Datastore.build(model, source, home / name, "domain", options)
        tuned = {"k": 4, "lambda": 0.7, "temperature": 10.0, "way": "text", "beam": 2, "length_penalty": 1.0}
        write_sealed(
            store.path / "knn.json", tuned | {"format": 1, "bleu": 20.0, "base_bleu": 10.0, "store": store.digest}
        )
        save_adaptive(store.path, AdaptiveCombiner(AdaptiveOptions(k=4)), store.digest)
    compress(Datastore.open(home / "store"), home / "small", CompressOptions(dim=8, progress=False))
    write_pairs(home / "pairs.tsv", pairs)
    write_pairs(home / "more.tsv", tiny_store.pairs(12, seed=1))
    write_pairs(home / "few.tsv", tiny_store.pairs(3, seed=2))
    (home / "pairs.tsv.gz").write_bytes(gzip.compress((home / "pairs.tsv").read_bytes(), mtime=0))
    units = [UNIT.format(pair.src_text, pair.tgt_text) for pair in pairs]
    (home / "memory.tmx").write_text(TMX.format(units="\n".join(units)))
    (home / "terms.tsv").write_text("source\ttarget\nfloor\tWort\nwindow\tFenster\n")
    (home / "tiny.yaml").write_text(RECIPE)
    (home / "hypotheses.txt").write_text("".join(f"{pair.tgt_text}\n" for pair in pairs[:5]))
    (home / "references.txt").write_text("".join(f"{pair.tgt_text}\n" for pair in pairs[5:10]))
    _audio(home)
    tiny_training.manifests(home)
    speech = [
        Utterance(f"s{n}", str(home / f"{n}.wav"), 80, "Der Boden ist kalt.", "The floor is cold.") for n in (1, 2)
    ]
    write_manifest(home / "speech.tsv", speech)
    return 0


def _audio(home: Path) -> None:
    samples = said.speech(16_000)
    for number in (1, 2, 3):
        soundfile.write(home / f"{number}.wav", samples[: 10_000 + 2_000 * number], 16_000)
    for name, options in {
        "a.wav": {}, "a.flac": {}, "a.mp3": {"format": "MP3"}, "a.ogg": {"format": "OGG", "subtype": "VORBIS"},
        "a.aiff": {}, "a.w64": {}, "float.wav": {"subtype": "FLOAT"}, "a.au": {}, "a.caf": {},
    }.items():  # fmt: skip
        soundfile.write(home / name, samples, 16_000, **options)
