"""npda build: a domain's text, or speech, becomes a datastore."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from npda.cli.options import (
    AsJson,
    Device,
    Licence,
    Model,
    PairsFile,
    Precision,
    Quiet,
    Ray,
    Verbose,
    WorkerCpus,
    WorkerGpus,
    codes,
    loading,
    shows_progress,
    workers_for,
)
from npda.io.errors import InputError
from npda.io.files import check_file

if TYPE_CHECKING:
    from npda.corpus.pairs import Pair
    from npda.datastore.source import Sentence, Source


def build(
    model: Model,
    out: Annotated[
        Path | None, typer.Option(help="Datastore to make, or to add to with --append; --counter has its own place.")
    ] = None,
    text: PairsFile = None,
    source: Annotated[Path | None, typer.Option(help="Moses pairs: file with the source sentences.")] = None,
    target: Annotated[Path | None, typer.Option(help="Moses pairs: file with the target sentences.")] = None,
    tmx: Annotated[Path | None, typer.Option(help="Translation memory; needs --source-language, --language.")] = None,
    speech: Annotated[Path | None, typer.Option(help="Manifest of in-domain speech, for the kNN-MT baseline.")] = None,
    glossary: Annotated[Path | None, typer.Option(hidden=True)] = None,
    speak: Annotated[
        str | None, typer.Option(help="Voice that reads the text aloud, so that keys come from speech: espeak:en-us.")
    ] = None,
    keep_audio: Annotated[
        Path | None, typer.Option(help="Folder to keep the audio of --speak in, with a manifest.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the source inside the store [default: the file's name].")
    ] = None,
    index: Annotated[str, typer.Option(help="auto, exact, paper (IVF8192,PQ64) or a Faiss factory string.")] = "auto",
    nprobe: Annotated[int | None, typer.Option(min=1, help="Inverted lists that a search visits.")] = None,
    rerank: Annotated[
        int | None, typer.Option(min=0, help="Candidates re-ranked exactly, per neighbour; 0 for none.")
    ] = None,
    append: Annotated[bool, typer.Option("--append", help="Add to the datastore, which keeps its index.")] = False,
    licence: Licence = "",
    counter: Annotated[
        bool, typer.Option("--counter", help="Build the model's counter-store, of general text, once for all domains.")
    ] = False,
    language: Annotated[
        str | None, typer.Option(callback=codes, help="Target language, for TMX and models with several: German or de.")
    ] = None,
    source_language: Annotated[
        str | None,
        typer.Option(callback=codes, help="Source language, for TMX and models with several: English or en."),
    ] = None,
    json: AsJson = False,
    ray: Ray = None,
    worker_cpus: WorkerCpus = None,
    worker_gpus: WorkerGpus = None,
    device: Device = "auto",
    precision: Precision = "auto",
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Build a datastore: decoder states of a domain as keys, the tokens that follow as values.

    Memory stays bounded however large the input is. An interrupted build resumes when you start it again, and gives
    the same bytes.

    With --speak the model needs no text encoder: a voice reads the source sentences aloud, and the model encodes the
    audio. Voices are espeak:en-us (always available; espeak:en-us@300 speaks 300 words per minute), and pico:de-DE and
    piper:MODEL.onnx if they are installed.

    With --counter the text is general: the model's counter-store, which `npda translate` finds by itself. With it a
    domain's store may stay on, as it steers only where what is said is nearer to it than to general text. Give at least
    as much text as the largest domain has. `npda align` and the first `npda adapt` build one on their way.

    With --ray the machines of a cluster build together, and the store has the same bytes; model, files and --out lie in
    directories that all of them share. docs/scaling-out.md has the rest.

    Examples:

        npda build --model runs/demo/model --text runs/demo/data/domain.tsv --out store

        npda build --model runs/demo/model --source runs/demo/data/domain.en \\
            --target runs/demo/data/domain.de --index exact --out moses

        npda build --model runs/demo/model --tmx runs/demo/data/memory.tmx --source-language en \\
            --language de --append --out store

        npda build --model runs/demo/model --text runs/demo/data/domain-dev.tsv \\
            --speak espeak:en-us@300 --out spoken-store

        npda build --model runs/demo/model --text runs/demo/data/general.tsv --counter --out counter
    """
    if counter:
        if append or speak or speech or glossary or (out and not out.is_dir() and out.exists()):
            raise InputError(
                "--counter takes general text: --text, --source with --target, or --tmx, and nothing else."
            )
    elif out is None:
        raise InputError("Say where the datastore goes: --out DIR.")
    if append and (index != "auto" or nprobe is not None or rerank is not None):
        raise InputError("With --append the datastore keeps its index: leave out --index, --nprobe and --rerank.")
    if (keep_audio and not speak) or (speak and speech):
        raise InputError("--speak reads text aloud: it does not go with --speech, and --keep-audio needs it.")
    if glossary:
        raise InputError(
            "A store of bare terms does not change translations: learn them with "
            f"`npda terms {glossary} --general TEXT --model {model} --out terms`, and use them with "
            "`npda translate --terms terms`."
        )
    hire = workers_for(ray, worker_cpus, worker_gpus, device, precision)
    inputs = (text, source, target, tmx, speech, name, source_language, language)
    given = replace(_source(*inputs), licence=licence)

    from npda.cli.inspect import print_store
    from npda.datastore.source import CHUNK, SPOKEN_CHUNK, BuildOptions
    from npda.datastore.store import Datastore
    from npda.models import load_backbone

    progress = shows_progress(quiet, verbose, json)
    chunk = SPOKEN_CHUNK if speak else CHUNK
    options = BuildOptions(index=index, nprobe=nprobe, rerank=rerank, language=language, chunk=chunk, progress=progress)
    # The store is looked at first: a model takes its time to load.
    before = Datastore.open(out) if append and out else None
    with loading(model, progress):
        backbone = load_backbone(model, source_language, device, precision)
    if speak:
        if out is not None and not append:  # looked at before hours of reading
            from npda.datastore.build import check_is_free
            from npda.datastore.index.spec import check_factory

            check_is_free(out)
            check_factory(index, backbone.dim)
        given = _spoken(given, speak, keep_audio, _source(*inputs), progress)
    from npda.models.hub import model_directory

    home = model_directory(model)
    with hire(home, source_language, backbone) if hire else nullcontext() as workers:
        options = replace(options, workers=workers)
        if counter:
            from npda.datastore.counter import build_counter, home_for

            place, general = out or home_for(backbone, home), list(_pairs(given.sentences))
            store = build_counter(backbone, general, place, options=options, licence=licence).store
        else:
            assert out is not None
            build_new = partial(Datastore.build_from, backbone, given, out)
            store = before.append(backbone, given, options) if before else build_new(options)
    print_store(store, json)


def _spoken(source: Source, name: str, keep: Path | None, again: Source, progress: bool) -> Source:
    """The same, read aloud by a voice. keep: where what it says stays; again: the source for a second reading"""
    from npda.corpus.recording import AUDIO, synthesize
    from npda.corpus.voices import voice

    speaker = voice(name)
    if keep is not None:
        synthesize(_pairs(again.sentences), speaker, keep, Path(again.name).stem, progress=progress)
    return replace(source, kind="spoken", voice=speaker, audio=keep / AUDIO if keep else None)


def _pairs(sentences: Iterable[Sentence]) -> Iterator[Pair]:
    from npda.corpus.pairs import Pair

    return (sentence for sentence in sentences if isinstance(sentence, Pair))


def _source(
    text: Path | None,
    source: Path | None,
    target: Path | None,
    tmx: Path | None,
    speech: Path | None,
    name: str | None,
    source_language: str | None,
    language: str | None,
) -> Source:
    """The one input that was given; the others would need a store each, or --append."""
    if (source is None) != (target is None):
        raise InputError("--source and --target go together: one file for each language, line by line.")
    inputs = [path for path in (text, source, tmx, speech) if path is not None]
    if len(inputs) != 1:
        raise InputError("Give one of --text, --source with --target, --tmx or --speech.")
    for path in (*inputs, *([target] if target else [])):
        check_file(path)

    from npda.corpus.pairs import stream_moses, stream_pairs
    from npda.datastore.source import Source

    sentences: Iterable[Sentence]
    kind = "speech" if speech else "text"
    if text:
        sentences = stream_pairs(text)
    elif source and target:
        sentences = stream_moses(source, target)
    elif tmx:
        from npda.corpus.tmx import read_tmx

        if source_language is None or language is None:
            raise InputError(f"{tmx}: say which languages to take, for example --source-language en --language de.")
        sentences = read_tmx(tmx, source_language, language)
    else:
        from npda.corpus.manifest import read_manifest

        assert speech is not None
        sentences = read_manifest(speech, check_audio=True)
    return Source(name or inputs[0].name, sentences, kind)
