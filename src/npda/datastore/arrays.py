"""A store of keys that were computed elsewhere: checked, cut into shards, and published as a built store is."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import numpy as np

from npda.corpus.pairs import Pair
from npda.datastore.build import check_is_free, publish, workspace_of
from npda.datastore.format import Kind, ModelFingerprint, ShardInfo, SourceInfo, StoreInfo
from npda.datastore.index.spec import check_factory
from npda.datastore.shards import LONGEST_SENTENCE, Chunk, write_shard
from npda.datastore.source import BuildOptions, check_name
from npda.datastore.verify import verify
from npda.datastore.workspace import open_workspace
from npda.io.errors import InputError
from npda.io.progress import track

SHARD_KEYS = 131_072  # keys a shard; a sentence is never cut in two, so that a shard may hold more


class EntryArrays:
    """Entries that were computed elsewhere, in the order of their sentences.

    Any array may be a memory map: only one shard at a time is read.

    keys: [n, dim] float16 or float32; values: [n] integers, tokens of the model's target vocabulary;
    sentence_ids: [n] integers that never fall, places in ``sentences`` if these are given;
    positions: [n] integers that rise within a sentence, of the value among its target tokens, by default 0, 1, 2, …;
    sentences: (source, target) texts. Without sentence_ids every entry is a sentence of its own, without text.
    """

    def __init__(
        self,
        keys: Any,
        values: Any,
        sentence_ids: Any = None,
        positions: Any = None,
        sentences: Sequence[Pair | tuple[str, str]] | None = None,
    ) -> None:
        self._keys = np.asanyarray(keys)
        if self._keys.ndim != 2 or 0 in self._keys.shape:
            raise InputError(f"keys must be [n, dim] with at least one key, not {list(self._keys.shape)}.")
        if self._keys.dtype not in (np.float16, np.float32):
            raise InputError(f"keys must be float16 or float32, not {self._keys.dtype}.")
        self.count, self.dim = self._keys.shape
        self._values = self._integers("values", values)
        if sentence_ids is None and (positions is not None or sentences is not None):
            raise InputError("positions and sentences need sentence_ids, which tell the sentence of every key.")
        self._ids = None if sentence_ids is None else self._integers("sentence_ids", sentence_ids)
        self._positions = None if positions is None else self._integers("positions", positions)
        self._sentences = sentences

    @property
    def has_sentences(self) -> bool:
        return self._ids is not None

    def languages(self, language: str | None) -> tuple[str, ...]:
        """Of the targets, if every one is known. language: of sentences that do not name one"""
        sentences = self._sentences if self._sentences is not None else [("", "")]
        named = {(s.tgt_lang if isinstance(s, Pair) else "") or language for s in sentences}
        return () if None in named else tuple(sorted(map(str, named)))

    def shards(self) -> list[tuple[int, int]]:
        """The rows of every shard: first, end."""
        cuts = [0]
        while cuts[-1] < self.count:
            cuts.append(self._end_of_sentence(min(cuts[-1] + SHARD_KEYS, self.count)))
        return list(pairwise(cuts))

    def chunk(self, first: int, end: int, vocabulary_size: int) -> Chunk:
        """The entries of some rows, read and checked."""
        rows = slice(first, end)
        values = np.array(self._values[rows])
        self._refuse(
            (values < 0) | (values >= vocabulary_size),
            first,
            f"values[{{row}}] is not a token of the vocabulary, which has 0 … {vocabulary_size - 1}.",
        )
        if self._ids is None:
            numbers, positions = np.arange(end - first), np.zeros(end - first, dtype=np.int32)
            texts = [("", "")] * (end - first)
        else:
            numbers, positions, texts = self._sentence_entries(self._ids, first, end)
        return Chunk(self._halved(first, end), values, numbers, positions, texts)

    def _integers(self, name: str, given: Any) -> np.ndarray:
        array = np.asanyarray(given)
        if array.shape != (self.count,):
            raise InputError(f"{name} must be [{self.count}], one for every key, not {list(array.shape)}.")
        if not np.issubdtype(array.dtype, np.integer):
            raise InputError(f"{name} must be integers, not {array.dtype}.")
        return array

    def _end_of_sentence(self, end: int) -> int:
        """The first row from ``end`` on that begins a sentence."""
        if self._ids is None or end == self.count:
            return end
        following = self._ids[end : end + LONGEST_SENTENCE]
        others = np.flatnonzero(following != self._ids[end - 1])
        return end + (int(others[0]) if len(others) else len(following))

    def _sentence_entries(
        self, all_ids: np.ndarray, first: int, end: int
    ) -> tuple[np.ndarray, np.ndarray, list[tuple[str, str]]]:
        """Sentences counted from 0 in their shard, positions, texts."""
        # With the entry before, so that ids are compared across the border of two shards too.
        ids = np.array(all_ids[max(first - 1, 0) : end]).astype(np.int64)
        self._refuse(ids[1:] < ids[:-1], max(first, 1), "sentence_ids must not fall, as they do at row {row}: sort.")
        ids = ids[-(end - first) :]
        limit = np.iinfo(np.int64).max if self._sentences is None else len(self._sentences)
        outside = "sentence_ids[{row}] is negative, or there is no such sentence."
        self._refuse((ids < 0) | (ids >= limit), first, outside)
        distinct, starts, numbers = np.unique(ids, return_index=True, return_inverse=True)
        if self._positions is None:
            positions = np.arange(len(ids)) - starts[numbers]
        else:
            positions = np.array(self._positions[first:end]).astype(np.int64)
        outside = f"positions[{{row}}] is not within 0 … {LONGEST_SENTENCE - 1}."
        self._refuse((positions < 0) | (positions >= LONGEST_SENTENCE), first, outside)
        stuck = (np.diff(positions) <= 0) & (np.diff(ids) == 0)
        self._refuse(stuck, first + 1, "positions must rise within a sentence, as they do not at row {row}.")
        return numbers, positions, [self._texts(int(id_)) for id_ in distinct]

    def _texts(self, id_: int) -> tuple[str, str]:
        if self._sentences is None:
            return "", ""
        sentence = self._sentences[id_]
        texts = (sentence.src_text, sentence.tgt_text) if isinstance(sentence, Pair) else tuple(sentence)
        if len(texts) != 2 or not all(isinstance(text, str) for text in texts):
            raise InputError(f"sentences[{id_}] is not a pair of texts, source and target.")
        try:
            "".join(texts).encode()
        except UnicodeEncodeError:
            raise InputError(f"sentences[{id_}] holds a lone surrogate, so it is not valid text.") from None
        return texts[0], texts[1]

    def _halved(self, first: int, end: int) -> np.ndarray:
        keys = np.array(self._keys[first:end])
        self._refuse((~np.isfinite(keys)).any(axis=1), first, "keys[{row}] holds NaN or infinity.")
        with np.errstate(over="ignore"):
            halved = keys.astype(np.float16, copy=False)
        self._refuse(
            (~np.isfinite(halved)).any(axis=1), first, "keys[{row}] does not fit into float16, which ends at 65,504."
        )
        return halved

    @staticmethod
    def _refuse(bad: Any, first: int, message: str) -> None:
        """Raise if anything is bad. first: row of bad[0]; message: with {row}"""
        if bad.any():
            raise InputError(message.format(row=first + int(bad.argmax())))


def build_from_arrays(
    arrays: EntryArrays,
    model: ModelFingerprint,
    path: Path,
    source: str = "arrays",
    kind: Kind = "text",
    options: BuildOptions = BuildOptions(),
) -> StoreInfo:
    """Write the store ``path`` and read every byte of it again before it gets its name.

    model: whose decoder states the keys are; source, kind: name and kind of the store's only source
    """
    check_name(source)
    if kind not in get_args(Kind):
        raise InputError(f"The kind of a source is one of {', '.join(get_args(Kind))}, not {kind!r}.")
    if arrays.dim != model.dim:
        raise InputError(f"keys have {arrays.dim} dimensions, the model's decoder states have {model.dim}.")
    check_is_free(path)
    check_factory(options.index, model.dim)
    with open_workspace(workspace_of(path)) as work:
        work.restart()
        shards: list[ShardInfo] = []
        for first, end in track(arrays.shards(), f"writing {source}", enabled=options.progress):
            name = f"{len(shards):05}"
            chunk = arrays.chunk(first, end, model.vocabulary_size)
            files = write_shard(work.store, name, chunk)
            texts = len(chunk.texts)
            shards.append(
                ShardInfo(name=name, source=source, first=first, keys=end - first, sentences=texts, files=files)
            )
        sums = [file.sha256 for shard in shards for file in shard.files.values()]
        added = SourceInfo(
            name=source,
            kind=kind,
            sentences=sum(shard.sentences for shard in shards) if arrays.has_sentences else 0,
            keys=arrays.count,
            skipped=0,
            digest=hashlib.sha256("".join(sums).encode()).hexdigest(),
            languages=arrays.languages(options.language),
        )
        return publish(work, path, model, added, shards, options, lambda store: verify(store, options.progress))
