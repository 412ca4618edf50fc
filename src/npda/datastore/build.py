"""Building a datastore: sentences stream through the model chunk by chunk, and each chunk becomes a shard.

Nothing grows with the store: a chunk, a sample of keys for training, a part of the index are all that is in memory.
Work goes on in ``.NAME.building`` beside the store, is found there again after an interruption, and a finished store
appears by one rename. Chunks are fixed by the order of the sentences alone, so that a build gives the same bytes
however often it was interrupted.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from npda.corpus.manifest import Utterance
from npda.corpus.pairs import Pair
from npda.datastore.encode import Encoder
from npda.datastore.fingerprint import model_fingerprint, vocabulary_digest
from npda.datastore.format import SHARDS, ModelFingerprint, ShardInfo, SourceInfo, StoreInfo, write_info
from npda.datastore.index.build import build_index
from npda.datastore.index.spec import check_factory, choose
from npda.datastore.projection import Projection
from npda.datastore.shards import open_entries, write_shard
from npda.datastore.source import BuildOptions, Sentence, Source
from npda.datastore.workspace import Workspace, empty_folder, open_workspace
from npda.io.errors import InputError
from npda.io.files import atomic_write
from npda.io.progress import bar
from npda.models.backbone import Backbone


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
        index=build_index(entries, spec, options.index, target, work.index_parts, options.progress),
    )
    write_info(work.store, info)
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
    encoder = Encoder(backbone, options.language, projection)
    total = source.total
    if total is None and isinstance(source.sentences, Sequence):
        total = len(source.sentences)
    shards: list[ShardInfo] = []
    sentences = skipped = 0
    languages: set[str | None] = set()
    digest = hashlib.sha256()
    with bar(options.progress) as progress:
        task = progress.add_task(f"building {source.name}", total=total, note="")
        for number, chunk in enumerate(_chunks(source.sentences, options.chunk), start=first_shard):
            first = shards[-1].first + shards[-1].keys if shards else first_id
            chunk_digest = _digest(chunk)
            digest.update(chunk_digest.encode())
            languages.update(sentence.tgt_lang or options.language for sentence in chunk)
            shard, left_out = _finished_shard(work, number, first, chunk_digest) or _encode(
                encoder, source, chunk, work, number, first, chunk_digest
            )
            if shard.keys:
                shards.append(shard)
            sentences += shard.sentences
            skipped += left_out
            progress.update(task, advance=len(chunk), note=f"{first + shard.keys - first_id:,} keys")
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
    )
    return info, shards


def _encode(
    encoder: Encoder,
    source: Source,
    sentences: Sequence[Sentence],
    work: Workspace,
    number: int,
    first: int,
    digest: str,
) -> tuple[ShardInfo, int]:
    empty_folder(work.index_parts)  # an index begun before this shard was there does not know it
    with _heard(source, sentences, work) as heard:
        chunk, skipped = encoder.encode(heard)
        skipped += len(sentences) - len(heard)
    name = f"{number:05}"
    count = len(chunk.values)
    files = write_shard(work.store, name, chunk) if count else {}
    shard = ShardInfo(name=name, source=source.name, first=first, keys=count, sentences=len(chunk.texts), files=files)
    with atomic_write(work.finished_shards / f"{name}.json") as temporary:
        record = {"input": digest, "skipped": skipped, "shard": shard.model_dump()}
        temporary.write_text(json.dumps(record), encoding="utf-8")
    return shard, skipped


@contextmanager
def _heard(source: Source, sentences: Sequence[Sentence], work: Workspace) -> Iterator[Sequence[Sentence]]:
    """The sentences as the model takes them: where there is a voice, its recordings, without the silent ones."""
    if source.voice is None:
        yield sentences
        return
    from npda.corpus.recording import clips

    pairs = [sentence for sentence in sentences if isinstance(sentence, Pair)]
    folder = source.audio or work.root / "audio"
    yield [clip for clip in clips(pairs, source.voice, folder) if clip is not None]
    if source.audio is None:
        shutil.rmtree(folder)


def _finished_shard(work: Workspace, number: int, first: int, digest: str) -> tuple[ShardInfo, int] | None:
    """The shard of an interrupted run, if it was made of the same sentences."""
    path = work.finished_shards / f"{number:05}.json"
    if not path.is_file():
        return None
    record = json.loads(path.read_text(encoding="utf-8"))
    shard = ShardInfo.model_validate(record["shard"])
    folder = work.store / SHARDS / shard.name
    # A shard may also have left already, if it was being moved into its store.
    whole = all((folder / name).is_file() for name in shard.files)
    if whole and record["input"] == digest and shard.first == first:
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
            raise InputError(f"The sentence {sentence.src_text!r} holds a lone surrogate: it is no text.") from None
    return digest.hexdigest()
