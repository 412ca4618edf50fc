"""The shipped model and a store of parliament's text, for benchmarks that need a model that can translate."""

from __future__ import annotations

from pathlib import Path

from npda.corpus.mini.grammar import sentences
from npda.datastore.build import BuildOptions
from npda.datastore.store import Datastore
from npda.experiments.demo_model import SHIPPED
from npda.models.backbone import Backbone
from npda.translator import Translator


def shipped() -> Backbone:
    return Translator.from_pretrained(SHIPPED).backbone


def text_store(backbone: Backbone, path: Path, seed: int = 0) -> Datastore:
    """Of all pairs of parliament's training text. seed: of the corpus"""
    options = BuildOptions(progress=False)
    return Datastore.build(backbone, sentences("parliament", "train", seed=seed), path, "parliament", options)
