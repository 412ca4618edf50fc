"""The counter-store of a model: general text, which tells a domain's stores where they have nothing to say.

COUNTER/
  store/         a datastore of general text, made the same way as the domain's
  held-out.tsv   general sentences that are not in it, to measure by
  model.json     digest of the model that read the text, its text path included

It lies in the model's directory, beside the text path. For a model of somebody else, whose directory stays
as it is, it lies in the cache, under the digest of the model's decoder.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from npda.corpus.leakage import LeakageFilter
from npda.corpus.manifest import read_manifest
from npda.corpus.pairs import Pair, read_pairs, stream_pairs, write_pairs
from npda.datastore.fingerprint import decoder_fingerprint
from npda.datastore.source import BuildOptions, Source
from npda.datastore.store import Datastore
from npda.io.errors import InputError
from npda.io.files import cache_dir, stream_lines
from npda.io.records import read_record, write_record
from npda.models.backbone import Backbone, LearnsToRead

FOLDER, STORE, HELD_OUT, MODEL = "counter", "store", "held-out.tsv", "model.json"
HELD_OUT_SENTENCES = 200
MOST_PAIRS = 100_000  # of general text; more tell no more of what is general


@dataclass(frozen=True)
class CounterStore:
    """A counter-store, opened. path: its folder"""

    path: Path
    store: Datastore

    @property
    def held_out(self) -> list[Pair]:
        """General sentences that are not in it."""
        return read_pairs(self.path / HELD_OUT)


def cached_home(backbone: Backbone) -> Path:
    """Where the counter-store of a model lies whose directory is not ours to write to."""
    return cache_dir() / FOLDER / decoder_fingerprint(backbone).digest[:16]


def home_for(backbone: Backbone, directory: Path) -> Path:
    """Where to build the counter-store of a model: beside the text path that was trained for it, else in the cache."""
    return directory / FOLDER if isinstance(backbone, LearnsToRead) and backbone.reads else cached_home(backbone)


def find_counter(backbone: Backbone, directory: Path | None, language: str | None = None) -> CounterStore | None:
    """The counter-store of a model, or None. directory: of the model; language: of the translations"""
    for home in (*([directory / FOLDER] if directory else []), cached_home(backbone)):
        if (home / STORE).is_dir():
            store = Datastore.open(home / STORE)
            store.check(backbone, language)
            return CounterStore(home, store)
    return None


def build_counter(
    backbone: Backbone,
    pairs: Sequence[Pair],
    home: Path,
    held_out: Sequence[Pair] = (),
    options: BuildOptions = BuildOptions(),
    licence: str = "",
) -> CounterStore:
    """Build a counter-store of general text, or go on with an interrupted build of the same.

    pairs: best of text that the text path was not aligned on; held_out: general sentences to measure by, by default
    some of the pairs, which are then left out; licence: of the text, for the store's card
    """
    if (home / STORE).exists():
        raise InputError(f"{home} already holds a counter-store: remove the folder to build another one.")
    draw = random.Random(0)
    chosen = list(pairs) if len(pairs) <= MOST_PAIRS else draw.sample(list(pairs), MOST_PAIRS)
    if not held_out:
        count = min(HELD_OUT_SENTENCES, len(chosen) // 10)
        held_out = [chosen[place] for place in draw.sample(range(len(chosen)), count)]
    leakage = LeakageFilter(held_out)
    kept = [pair for pair in chosen if leakage.find(pair) is None]
    if not kept:
        raise InputError("There is too little general text for a counter-store: give at least some hundred pairs.")
    write_pairs(home / HELD_OUT, held_out)
    write_record(home / MODEL, _read_by(backbone))
    source = Source("general", kept, "text", licence=licence)
    return CounterStore(home, Datastore.build_from(backbone, source, home / STORE, options))


def is_current(counter: CounterStore, backbone: Backbone) -> bool:
    """Whether the text path that read the counter-store is the model's present one."""
    return read_record(counter.path / MODEL) == _read_by(backbone)


def _read_by(backbone: Backbone) -> dict[str, str]:
    return {"model": backbone.model_digest()}


def general_text(texts: Sequence[Path], triplets: Sequence[Path]) -> list[Pair]:
    """What a counter-store is made of: the pairs among texts a model learnt to read with, else its triplets.

    texts: tables with translations, others are passed over; triplets: manifests. The text path knows its triplets
    better than any other text, so that they come second.
    """
    tables = [text for text in texts if {"src_text", "tgt_text"} <= set(next(stream_lines(text), "").split("\t"))]
    pairs = [pair for table in tables for pair in stream_pairs(table)]
    return pairs or [Pair(u.src_text, u.tgt_text, u.id, u.tgt_lang) for path in triplets for u in read_manifest(path)]
