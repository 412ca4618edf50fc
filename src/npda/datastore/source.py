"""What a store is built from, and how."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from npda.corpus.manifest import Utterance
from npda.corpus.pairs import Pair
from npda.datastore.format import Kind
from npda.io import limits
from npda.io.card import check_licence
from npda.io.errors import InputError

if TYPE_CHECKING:
    from npda.corpus.voices import Voice
    from npda.datastore.workers import Workers

Sentence = Pair | Utterance

CHUNK = 8_192  # sentences a shard: some hundred megabytes of keys
SPOKEN_CHUNK = 1_024  # of a text read aloud: some hundred megabytes of audio


@dataclass(frozen=True)
class BuildOptions:
    """How a store is built.

    index: "auto", "exact", "paper" or a Faiss factory string; nprobe, rerank: other than that index's usual ones;
    language: target language of sentences that do not name one; chunk: sentences a shard; workers: who make the shards
    and the parts of the index, by default this process; what they make has the same bytes
    """

    index: str = "auto"
    nprobe: int | None = None
    rerank: int | None = None
    language: str | None = None
    chunk: int = CHUNK
    progress: bool = True
    workers: Workers | None = None

    def __post_init__(self) -> None:
        if self.chunk < 1:
            raise ValueError("a shard needs at least one sentence")
        for name, number, within in (("nprobe", self.nprobe, limits.NPROBE), ("rerank", self.rerank, limits.RERANK)):
            if number is not None:
                within.check(name, number)


@dataclass(frozen=True)
class Source:
    """Sentences under one name: pairs, read as text, or utterances, heard, or pairs that a voice reads aloud.

    total: how many, for the progress bar, where ``len(sentences)`` cannot tell; voice: with the kind "spoken";
    audio: folder in which its recordings stay, or are found already; by default each shard's are deleted with it;
    licence: under which the sentences may be used, for the store's card
    """

    name: str
    sentences: Iterable[Sentence]
    kind: Kind = "text"
    total: int | None = None
    voice: Voice | None = None
    audio: Path | None = None
    licence: str = ""

    def __post_init__(self) -> None:
        if (self.kind == "spoken") != (self.voice is not None):
            raise ValueError("a source is spoken if it has a voice")
        check_name(self.name)
        check_licence(self.licence)


def check_name(name: str) -> None:
    """Refuse a name of a source that cannot be read or typed."""
    if not name.strip() or any(ord(character) < 32 for character in name):
        raise InputError(f"A source cannot be called {name!r}: give it a name that can be read.")
