"""Building a datastore: sentences stream through the model chunk by chunk, and each chunk becomes a shard.

Nothing grows with the store: a chunk, a sample of keys for training, a part of the index are all that is in memory.
Work goes on in ``.NAME.building`` beside the store, is found there again after an interruption, and a finished store
appears by one rename. Chunks are fixed by the order of the sentences alone, so that a build gives the same bytes
however often it was interrupted, and wherever the shards are made: see ``npda.datastore.workers``.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from npda.corpus.manifest import Utterance
from npda.corpus.pairs import Pair
from npda.datastore.card import write_card
from npda.datastore.encode import Encoder
from npda.datastore.fingerprint import model_fingerprint, vocabulary_digest
from npda.datastore.format import SHARDS, ModelFingerprint, ShardInfo, SourceInfo, StoreInfo, write_info
from npda.datastore.index.build import build_index
from npda.datastore.index.spec import check_factory, choose
from npda.datastore.projection import Projection
from npda.datastore.shards import open_entries, remove_unfinished, write_shard
from npda.datastore.source import BuildOptions, Sentence, Source
from npda.datastore.workers import Alone, Workers
from npda.datastore.workspace import Workspace, clear_published, open_workspace
from npda.io.errors import InputError
from npda.io.files import atomic_write
from npda.io.progress import bar
from npda.models.backbone import Backbone

if TYPE_CHECKING:
    from npda.corpus.voices import Voice


def build_store(backbone: Backbone, source: Source, path: Path, options: BuildOptions = BuildOptions()) -> StoreInfo:
    """Build the store ``path``, or go on where an interrupted build of the same input stopped."""
    check_is_free(path)
    check_factory(options.index, backbone.dim)
    with open_workspace(workspace_of(path)) as work:
        work.continue_or_restart(plan(backbone, source, options))
        added, shards = encode_source(backbone, source, work, options)
        return publish(work, path, model_fingerprint(backbone), added, shards, options)


def check_is_free(path: Path) -> None:
    """Refuse to write a store over something else."""
    if os.path.lexists(path):
        if path.name:  # . has none
            clear_published(workspace_of(path))
        raise InputError(f"{path} already exists: append to it, remove it, or choose another name.")


def workspace_of(path: Path) -> Path:
    """The folder beside a new store in which it is built."""
    return path.with_name(f".{path.name}.building")


def publish(
    work: Workspace,
    path: Path,
    model: ModelFingerprint,
    source: SourceInfo,
    shards: Sequence[ShardInfo],
    options: BuildOptions,
    check: Callable[[Path], None] = lambda store: None,
) -> StoreInfo:
    """Index the shards of a workspace, describe them in ``datastore.json``, and rename the result to ``path``.

    check: looks at the finished store before it gets its name
    """
    entries = open_entries([(work.store, shard) for shard in shards], model.dim)
    spec = choose(options.index, entries.count, model.dim, options.nprobe, options.rerank)
    target = work.store / "index-00000"
    info = StoreInfo(
        **model.model_dump(),
        count=entries.count,
        next_id=entries.limit,
        next_shard=len(shards),
        sources=(source,),
        shards=tuple(shards),
        index=build_index(entries, spec, options.index, target, work.index_parts, options.progress, options.workers),
    )
    write_info(work.store, info)
    write_card(work.store)
    check(work.store)
    os.rename(work.store, path)
    return info


def plan(backbone: Backbone, source: Source, options: BuildOptions) -> dict[str, object]:
    """Everything but the sentences that finished shards depend on; each shard remembers its own sentences."""
    return {
        "model": backbone.model_digest(),
        "vocabularies": [vocabulary_digest(backbone), len(backbone.source) if backbone.source else 0],
        "source": [source.name, source.kind, *([source.voice.name] if source.voice else [])],
        "settings": [options.language, options.chunk, options.index, options.nprobe, options.rerank],
    }


def encode_source(
    backbone: Backbone,
    source: Source,
    work: Workspace,
    options: BuildOptions,
    first_id: int = 0,
    first_shard: int = 0,
    projection: Projection | None = None,
) -> tuple[SourceInfo, list[ShardInfo]]:
    """Write the shards of a source into the workspace, except those that are there already."""
    workers: Workers = options.workers or Alone(backbone)
    workers.check(work.root)
    total = source.total
    if total is None and isinstance(source.sentences, Sequence):
        total = len(source.sentences)
    shards: list[ShardInfo] = []
    sentences = skipped = 0
    languages: set[str | None] = set()
    digest = hashlib.sha256()
    chunks = enumerate(_chunks(source.sentences, options.chunk), start=first_shard)
    tasks = (ShardTask(work.root, number, chunk, _digest(chunk)) for number, chunk in chunks)
    making = ShardMaking(source.name, source.voice, source.audio, options.language, projection)
    with bar(options.progress) as progress:
        line = progress.add_task(f"building {source.name}", total=total, note="")
        for task, (made, left_out) in workers.map(making, tasks):
            first = shards[-1].first + shards[-1].keys if shards else first_id
            shard = made.model_copy(update={"first": first})
            digest.update(task.digest.encode())
            languages.update(sentence.tgt_lang or options.language for sentence in task.sentences)
            if shard.keys:
                shards.append(shard)
            sentences += shard.sentences
            skipped += left_out
            progress.update(line, advance=len(task.sentences), note=f"{first + shard.keys - first_id:,} keys")
    remove_unfinished(work.store)
    if not shards:
        raise InputError(f"{source.name} has no sentence that the model could take ({skipped} are too long or empty).")
    info = SourceInfo(
        name=source.name,
        kind=source.kind,
        sentences=sentences,
        keys=sum(shard.keys for shard in shards),
        skipped=skipped,
        digest=digest.hexdigest(),
        languages=() if None in languages else tuple(sorted(map(str, languages))),
        voice=source.voice.name if source.voice else "",
        licence=source.licence,
    )
    return info, shards


@dataclass(frozen=True)
class ShardTask:
    """A chunk of sentences. root: of the workspace; number: of its shard; digest: of the sentences"""

    root: Path
    number: int
    sentences: Sequence[Sentence]
    digest: str


@dataclass(frozen=True)
class ShardMaking:
    """How chunks of a source become shards; both may travel to another machine that sees the same folders."""

    source: str
    voice: Voice | None
    audio: Path | None
    language: str | None
    projection: Projection | None

    def __call__(self, backbone: Backbone, task: ShardTask) -> tuple[ShardInfo, int]:
        """The shard of a chunk, whose keys are counted from 0, and how many sentences were left out."""
        return _finished_shard(task) or self._make(Encoder(backbone, self.language, self.projection), task)

    def _make(self, encoder: Encoder, task: ShardTask) -> tuple[ShardInfo, int]:
        work = Workspace(task.root)
        with self._heard(task) as heard:
            chunk, skipped = encoder.encode(heard)
            skipped += len(task.sentences) - len(heard)
        name = f"{task.number:05}"
        count = len(chunk.values)
        files = write_shard(work.store, name, chunk) if count else {}
        shard = ShardInfo(name=name, source=self.source, first=0, keys=count, sentences=len(chunk.texts), files=files)
        with atomic_write(work.finished_shards / f"{name}.json") as temporary:
            record = {"input": task.digest, "skipped": skipped, "shard": shard.model_dump()}
            temporary.write_text(json.dumps(record), encoding="utf-8")
        return shard, skipped

    @contextmanager
    def _heard(self, task: ShardTask) -> Iterator[Sequence[Sentence]]:
        """The sentences as the model takes them: where there is a voice, its recordings, without the silent ones."""
        if self.voice is None:
            yield task.sentences
            return
        from npda.corpus.recording import clips

        pairs = [sentence for sentence in task.sentences if isinstance(sentence, Pair)]
        folder = self.audio or task.root / f"audio-{task.number:05}"
        yield [clip for clip in clips(pairs, self.voice, folder) if clip is not None]
        if self.audio is None:
            shutil.rmtree(folder)


def _finished_shard(task: ShardTask) -> tuple[ShardInfo, int] | None:
    """The shard of an interrupted run, if it was made of the same sentences."""
    work = Workspace(task.root)
    path = work.finished_shards / f"{task.number:05}.json"
    if not path.is_file():
        return None
    record = json.loads(path.read_text(encoding="utf-8"))
    shard = ShardInfo.model_validate(record["shard"])
    folder = work.store / SHARDS / shard.name
    # A shard may also have left already, if it was being moved into its store.
    whole = all((folder / name).is_file() for name in shard.files)
    if whole and record["input"] == task.digest:
        return shard, record["skipped"]
    shutil.rmtree(folder, ignore_errors=True)
    return None


def _chunks(sentences: Iterable[Sentence], size: int) -> Iterator[list[Sentence]]:
    iterator = iter(sentences)
    while chunk := list(islice(iterator, size)):
        yield chunk


def _digest(sentences: Sequence[Sentence]) -> str:
    """Of the texts, and for speech of the names and lengths of the recordings, wherever they lie."""
    digest = hashlib.sha256()
    for sentence in sentences:
        row = [sentence.id, sentence.src_text, sentence.tgt_text, sentence.tgt_lang]
        if isinstance(sentence, Utterance):
            row += [Path(sentence.audio).name, str(sentence.n_frames)]
        try:
            digest.update(json.dumps(row, ensure_ascii=False).encode())
        except UnicodeEncodeError:
            raise InputError(
                f"The sentence {sentence.src_text!r} holds a lone surrogate, so it is not valid text."
            ) from None
    return digest.hexdigest()
