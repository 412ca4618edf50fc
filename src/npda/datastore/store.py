"""A datastore as the rest of the project sees it: opened, checked against a model, searched.

Opening one imports nothing of building one: the methods that build or edit import what they need when they are called.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from npda.corpus.pairs import Pair
from npda.datastore.checking import Checking
from npda.datastore.fingerprint import check_belongs, model_fingerprint
from npda.datastore.format import INDEX_FILE, INFO, Kind, ModelFingerprint, StoreInfo, read_info
from npda.datastore.index.exact import ExactSearcher
from npda.datastore.index.search import IndexSearcher, Searcher
from npda.datastore.pins import Pin, open_pinned, replace_info
from npda.datastore.projection import Projection
from npda.datastore.retrieval.protocol import Entry, Neighbours
from npda.datastore.retrieval.state_search import StateSearch
from npda.datastore.shards import Entries, open_entries
from npda.datastore.source import BuildOptions, Source
from npda.io.locks import locked
from npda.models.backbone import Backbone


class Datastore:
    """Keys and values on disk. An object stays what it was when opened; edits give a new one.

    path: of the store; info: what datastore.json says
    """

    def __init__(self, path: Path, info: StoreInfo, pin: Pin | None = None) -> None:
        """pin: keeps this version on the disk"""
        self.path = path
        self.info = info
        self._pin = pin

    @classmethod
    def open(cls, path: str | os.PathLike[str], backbone: Backbone | None = None) -> Datastore:
        """Open a store; with a backbone, refuse one that was built with another model or vocabulary."""
        path = Path(path)
        store = cls(path, *open_pinned(path))
        if backbone is not None:
            store.check(backbone)
        store.entries  # noqa: B018 (a missing or truncated file is found here, not in the middle of a translation)
        if store.index_directory is not None:
            for name, file in store.info.index.files.items():
                file.check_size(store.index_directory / name)
        store.projection  # noqa: B018 (the same holds for it; it is small enough to be read)
        store.checking  # noqa: B018 (wrong bytes too, or soon: see there)
        return store

    @classmethod
    def build(
        cls,
        model: Any,
        pairs: Iterable[Pair | tuple[str, str]],
        path: str | os.PathLike[str],
        source: str = "pairs",
        options: BuildOptions = BuildOptions(),
    ) -> Datastore:
        """Build a store from text. model: a Translator or a Backbone; pairs: (source, target)"""
        sentences = (pair if isinstance(pair, Pair) else Pair(*pair) for pair in pairs)
        total = len(pairs) if hasattr(pairs, "__len__") else None  # pyright: ignore[reportArgumentType]
        return cls.build_from(model, Source(source, sentences, "text", total), path, options)

    @classmethod
    def build_from(
        cls, model: Any, source: Source, path: str | os.PathLike[str], options: BuildOptions = BuildOptions()
    ) -> Datastore:
        """Build a store from any source, speech included. model: a Translator or a Backbone"""
        from npda.datastore.build import build_store

        build_store(_backbone(model), source, Path(path), options)
        return cls.open(path)

    @classmethod
    def from_arrays(
        cls,
        keys: Any,
        values: Any,
        model: Any,
        path: str | os.PathLike[str],
        *,
        sentence_ids: Any = None,
        positions: Any = None,
        sentences: Sequence[Pair | tuple[str, str]] | None = None,
        source: str = "arrays",
        kind: Kind = "text",
        options: BuildOptions = BuildOptions(),
    ) -> Datastore:
        """A store of decoder states that were computed elsewhere; it appears whole and verified, or not at all.

        Arrays may be memory maps: only one shard at a time is read. Shards are cut by keys, not by ``options.chunk``.

        keys: [n, dim] float16 or float32; values: [n] integers, the token that each state predicts;
        model: whose states they are: a Translator, a Backbone, or the ``fingerprint`` of another store;
        sentence_ids: [n] integers that never fall, places in ``sentences`` if these are given; positions: [n] integers
        that rise within a sentence, of the value among its target tokens, by default 0, 1, 2, …; sentences: (source,
        target) texts, shown with neighbours; source, kind: what the store says of where its keys came from
        """
        from npda.datastore.arrays import EntryArrays, build_from_arrays

        arrays = EntryArrays(keys, values, sentence_ids, positions, sentences)
        known = model if isinstance(model, ModelFingerprint) else model_fingerprint(_backbone(model))
        build_from_arrays(arrays, known, Path(path), source, kind, options)
        return cls.open(path)

    def append(self, model: Any, source: Source, options: BuildOptions = BuildOptions()) -> Datastore:
        """Add a source; the rest is not built again. Of the options, those of the index are the store's own."""
        from npda.datastore.edit import append_source

        self._let_go()
        append_source(_backbone(model), source, self.path, options)
        return Datastore.open(self.path)

    def remove(self, source: str) -> Datastore:
        """Remove a source by its name; the ids of the others' keys stay."""
        from npda.datastore.edit import remove_source

        self._let_go()
        remove_source(self.path, source)
        return Datastore.open(self.path)

    def check(self, backbone: Backbone, language: str | None = None) -> None:
        """Refuse a model that did not make these keys, or a target language none of them is of."""
        check_belongs(str(self.path), self.info, backbone, language)

    def with_distance_scale(self, scale: float) -> Datastore:
        """Remember the median squared distance to the 8th neighbour, in datastore.json too."""
        self._let_go()  # no file that it names goes
        with locked(self.path):  # an edit going on would overwrite it, or be overwritten
            current = read_info(self.path)
            replace_info(self.path, StoreInfo.model_validate({**current.model_dump(), "distance_scale": scale}))
        return Datastore.open(self.path)

    def _let_go(self) -> None:
        """Of an edited store this is the old version: what it has opened stays, the rest may go."""
        if self._pin is not None:
            self._pin.release()

    def __len__(self) -> int:
        return self.info.count

    @property
    def fingerprint(self) -> ModelFingerprint:
        """What the store knows of its model: enough to make another store for the same one."""
        info = self.info
        return ModelFingerprint(
            backbone=info.backbone,
            vocabulary=info.vocabulary,
            vocabulary_size=info.vocabulary_size,
            dim=info.state_dim,
        )

    @property
    def dim(self) -> int:
        return self.info.dim

    @cached_property
    def digest(self) -> str:
        """Identifies keys, values, texts and index: the ``store:3f2a…`` of a signature."""
        return self.info.digest()

    @cached_property
    def entries(self) -> Entries:
        return open_entries([(self.path, shard) for shard in self.info.shards], self.info.dim, keep_mapped=True)

    @cached_property
    def projection(self) -> Projection | None:
        """What makes keys of the model's states, where they are not the same."""
        return None if self.info.projection is None else Projection.load(self.path, self.info.projection, self.dim)

    @cached_property
    def checking(self) -> Checking:
        """The check of the files' checksums, begun when it is first asked for."""
        return Checking(self.path, self.info)

    @property
    def index_directory(self) -> Path | None:
        return None if self.info.index.directory is None else self.path / self.info.index.directory

    def neighbour_info(self, id_: int) -> Entry:
        """What the key of an id stands for."""
        shard, row = self.entries.locate(id_)
        source_text, target_text = shard.texts(int(shard.sentences[row]))
        return Entry(source_text, target_text, int(shard.positions[row]), int(shard.values[row]), shard.info.source)

    def searcher(self, nprobe: int | None = None, rerank: int | None = None, threads: int | None = None) -> Searcher:
        """Finds keys near other keys: its queries are projected already. See ``LocalRetriever``."""
        index = self.info.index
        if self.index_directory is None:
            return ExactSearcher(self.entries)
        return IndexSearcher(
            self.entries,
            self.index_directory / INDEX_FILE,
            index.nprobe if nprobe is None else nprobe,
            index.rerank if rerank is None else rerank,
            threads,
        )

    def search(self, queries: np.ndarray, k: int) -> Neighbours:
        """The nearest keys with the store's own settings. queries: [n, state dim] float32"""
        self.checking.raise_fault()
        return self._states.search(queries, k)

    def ready(self) -> None:
        """Open everything that ``search`` needs, so that what then happens to the files does not matter to it."""
        self._states  # noqa: B018 (kept once it is asked for)

    @cached_property
    def _states(self) -> StateSearch:
        self.checking  # noqa: B018 (what Faiss opens has been looked at)
        return StateSearch(
            self.entries, self.projection, self.searcher(), self.info.state_dim, self.info.vocabulary_size
        )

    def sizes(self) -> dict[str, int]:
        """Bytes on disk, see ``StoreInfo.sizes``."""
        return self.info.sizes()


def open_stores(paths: Iterable[str | os.PathLike[str]], backbone: Backbone | None = None) -> list[Datastore]:
    """Stores by their paths; a folder that is no store stands for all the stores in it, in the order of their names."""
    found: list[Path] = []
    for path in map(Path, paths):
        inside = [] if (path / INFO).is_file() or not path.is_dir() else sorted(path.glob(f"*/{INFO}"))
        found += [file.parent for file in inside] or [path]
    return [Datastore.open(path, backbone) for path in dict.fromkeys(found)]


def _backbone(model: Any) -> Backbone:
    return getattr(model, "backbone", model)
