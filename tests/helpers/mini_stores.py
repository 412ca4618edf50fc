"""The model of the package with what a server finds beside it: a counter-store, and a store of parliament's text."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from npda.corpus.mini.grammar import sentences
from npda.corpus.pairs import Pair
from npda.corpus.synthesis import Espeak
from npda.datastore.counter import FOLDER, build_counter
from npda.datastore.source import BuildOptions, Source
from npda.datastore.store import Datastore
from npda.demo.model import SHIPPED
from npda.translator import Translator

QUIET = BuildOptions(progress=False)
FLOOR = "You have the floor."


def model(folder: Path) -> Path:
    """A folder that holds the model by links, so that a counter-store may lie in it, and that store."""
    folder.mkdir(parents=True)
    for path in SHIPPED.iterdir():
        (folder / path.name).symlink_to(path)
    translator = Translator.from_pretrained(folder)
    general = sentences("general", "train", "de", 0)[:400]
    held_out = sentences("general", "dev", "de", 0)[:40]
    build_counter(translator.backbone, general, folder / FOLDER, held_out, QUIET)
    return folder


def parliament(count: int = 300, split: str = "train") -> list[Pair]:
    return sentences("parliament", split, "de", 0)[:count]


def store(translator: Translator, path: Path, pairs: list[Pair], tuned: bool = True) -> Datastore:
    """tuned: by hand, to what suits this model"""
    made = Datastore.build_from(translator, Source(f"{path.name}.tsv", pairs, "text"), path, QUIET)
    if tuned:
        record = {"k": 8, "lambda": 0.7, "temperature": 10.0, "way": "text", "beam": 5, "length_penalty": 1.0}
        record |= {"end_weight": 0.0, "bleu": 60.0, "base_bleu": 10.0, "store": made.digest}
        (path / "knn.json").write_text(json.dumps(record))
    return made


def said(text: str, voice: str = "en-us") -> np.ndarray:
    """[n] float32 at 16 kHz, spoken as the model is used to."""
    return Espeak().speak(text, voice, 300, 50)
