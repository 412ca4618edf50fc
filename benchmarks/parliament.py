"""The shipped model, a store of parliament's text and other sentences, for benchmarks that need a translator."""

from __future__ import annotations

from pathlib import Path

from npda.corpus import mini
from npda.corpus.manifest import Utterance, read_manifest
from npda.corpus.mini.grammar import sentences
from npda.corpus.pairs import Pair
from npda.datastore.source import BuildOptions
from npda.datastore.store import Datastore
from npda.demo.model import SHIPPED
from npda.evaluation.devset import Way
from npda.models.backbone import Backbone
from npda.translator import Translator


def shipped() -> Backbone:
    return Translator.from_pretrained(SHIPPED).backbone


def text_store(backbone: Backbone, path: Path, seed: int = 0) -> Datastore:
    """Of all pairs of parliament's training text. seed: of the corpus"""
    options = BuildOptions(progress=False)
    return Datastore.build(backbone, sentences("parliament", "train", seed=seed), path, "parliament", options)


def held_out(way: Way, split: str, count: int, seed: int = 0) -> list[Utterance] | list[Pair]:
    """Sentences of parliament, to be heard or read. seed: of the corpus"""
    if way == "text":
        return sentences("parliament", split, seed=seed)[:count]
    corpus = mini.prepare(seed=seed, progress=False, only=[("parliament", split)])
    return read_manifest(corpus.manifest("parliament", split))[:count]
