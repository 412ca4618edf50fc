"""npda translate: audio files or manifests in, text out."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from npda.io.errors import InputError

if TYPE_CHECKING:
    from npda.datastore.store import Datastore
    from npda.decoding.knn.fusion import Combiner
    from npda.recordings import AudioInput


def translate(
    audio: Annotated[list[str], typer.Argument(help="Audio files (wav, flac, ogg, mp3) or manifests (.tsv).")],
    model: Annotated[Path, typer.Option(help="Model directory.")],
    format: Annotated[Literal["txt", "json", "srt", "vtt", "tsv"], typer.Option("--format", "-f")] = "txt",
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File to write instead of printing.")] = None,
    output_dir: Annotated[Path | None, typer.Option(help="Folder for one file per input.")] = None,
    store: Annotated[list[Path] | None, typer.Option(help="Datastore to search; several times for several.")] = None,
    k: Annotated[int | None, typer.Option(min=1, help="Neighbours (default: as tuned for the store, or 16).")] = None,
    lambda_: Annotated[
        float | None, typer.Option("--lambda", min=0, max=1, help="Weight of the neighbours (tuned, or 0.7).")
    ] = None,
    temperature: Annotated[float | None, typer.Option(help="T of the distances (tuned, or 10).")] = None,
    adaptive: Annotated[
        bool, typer.Option("--adaptive", help="Let the network trained by `npda tune --adaptive` choose k and λ.")
    ] = False,
    beam: Annotated[int, typer.Option(min=1, help="Beam size; 1 is greedy search.")] = 5,
    length_penalty: Annotated[float, typer.Option(help="α in score / length^α.")] = 0.6,
    n_best: Annotated[int, typer.Option(min=1, help="Alternatives per input, shown with -f json.")] = 1,
    max_length: Annotated[int, typer.Option(min=1, help="Longest translation in tokens.")] = 200,
    language: Annotated[str | None, typer.Option(help="Target language, for models with several.")] = None,
    source_language: Annotated[str | None, typer.Option(help="Spoken language, for models with several.")] = None,
    segment: Annotated[
        Literal["auto", "always", "never"],
        typer.Option(help="Cut recordings at their pauses: those longer than the model takes, all, or none."),
    ] = "auto",
    int8: Annotated[bool, typer.Option("--int8", help="Compute in eight bits: faster, less exact.")] = False,
) -> None:
    """Translate speech to text.

    A recording of any length is taken: a long one is cut at its pauses, with times in all formats but txt, which
    has a line for every piece. A file that cannot be read is reported and skipped (with txt, its line is empty); the
    exit code is then 2.

    Examples:

        npda translate talk.wav interview.mp3 --model runs/demo/base

        npda translate test.tsv --model runs/demo/base -o hypotheses.txt

        npda translate debate.flac --model runs/demo/aligned --store parliament --store glossary

        npda translate lecture.mp3 --model runs/demo/base -f srt -o lecture.srt

        npda translate a.flac b.flac --model runs/demo/base -f srt --output-dir subtitles
    """
    if output and output_dir:
        raise InputError("Give either --output or --output-dir, not both.")
    if n_best > beam:
        raise InputError(f"--n-best {n_best} needs a beam at least as large; add --beam {n_best}.")
    if adaptive and not store:
        raise InputError("--adaptive needs a --store, where `npda tune --adaptive` has left its network.")
    check_choices(k, lambda_, temperature, adaptive)
    from npda.recordings import Translating

    recordings = list(_recordings(audio))

    from npda.datastore.store import Datastore
    from npda.decoding.beam import SearchOptions
    from npda.io.files import atomic_write
    from npda.io.progress import bar
    from npda.translator import Translator
    from npda.writers import write, write_all

    translator = Translator.from_pretrained(model, source_language, int8=int8)
    options = SearchOptions(beam, length_penalty, max_length, n_best)
    fusions = []
    if store:
        stores = [Datastore.open(path, translator.backbone) for path in store]
        combiner = chosen_combiner(stores[0], k, lambda_, temperature, adaptive)
        fusions = [translator.neighbours(stores, combiner, language)]
    translator.backbone.prompt(language)  # an unknown language is found out before anything is written
    total = sum(recording.seconds or 0 for recording in recordings)
    with bar() as progress:
        task = progress.add_task("translating", total=round(total), note="seconds of audio")
        work = Translating(
            translator,
            options,
            language,
            fusions,
            segment,
            lambda seconds: progress.advance(task, seconds),
            one_line=format == "txt",
        )
        # What was skipped keeps its place, so that lines and rows of a manifest correspond.
        results = work.results(recordings)
        if output_dir:
            write_all((result for result in results if result.segments), format, output_dir)
        elif output:
            with atomic_write(output) as temporary, open(temporary, "w", encoding="utf-8") as stream:
                write(results, format, stream)
        else:
            write(results, format, sys.stdout)
    if work.faults:
        raise typer.Exit(2)


def check_choices(k: int | None, lambda_: float | None, temperature: float | None, adaptive: bool) -> None:
    """Before anything is opened."""
    if temperature is not None and temperature <= 0:
        raise InputError(f"--temperature must be above 0, not {temperature:g}.")
    if adaptive and (k, lambda_, temperature) != (None, None, None):
        raise InputError("--adaptive chooses k, λ and T itself: leave them out.")


def chosen_combiner(
    store: Datastore, k: int | None, lambda_: float | None, temperature: float | None, adaptive: bool
) -> Combiner:
    """The network trained for a store; else what was given, else what the store was tuned to, else the defaults."""
    from dataclasses import replace

    from npda.decoding.knn.fusion import KnnOptions
    from npda.evaluation.tuning.tuned import load_learned, load_tuned

    if adaptive:
        return load_learned(store)
    given = {"k": k, "lambda_": lambda_, "temperature": temperature}
    options = load_tuned(store) or KnnOptions()
    return replace(options, **{name: value for name, value in given.items() if value is not None})


def _recordings(names: list[str]) -> Iterator[AudioInput]:
    """Audio files as they are, manifests row by row."""
    from npda.recordings import AudioInput

    for name in names:
        if name.endswith((".tsv", ".tsv.gz")):
            from npda.corpus.manifest import read_manifest

            yield from (AudioInput.of(utterance.audio, row=True) for utterance in read_manifest(name))
        else:
            yield AudioInput.of(name)
