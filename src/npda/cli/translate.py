"""npda translate: audio files or manifests in, text out."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Literal

import typer

from npda.cli.options import (
    Adaptive,
    Audio,
    Beam,
    Device,
    K,
    Lambda,
    Language,
    MaxLength,
    Model,
    Partial,
    PartReplicas,
    Parts,
    Precision,
    Quiet,
    Ray,
    SourceLanguage,
    Stores,
    Temperature,
    TunedLengthPenalty,
    Unguarded,
    Verbose,
    loading,
    shows_progress,
)
from npda.io.errors import InputError


def translate(
    audio: Audio,
    model: Model,
    format: Annotated[
        Literal["txt", "json", "srt", "vtt", "tsv"],
        typer.Option("--format", "-f", help="Plain text, JSON, subtitles (srt, vtt) or a table with times (tsv)."),
    ] = "txt",
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File to write instead of printing.")] = None,
    output_dir: Annotated[Path | None, typer.Option(help="Folder to write one file per input to.")] = None,
    store: Stores = None,
    unguarded: Unguarded = False,
    terms: Annotated[
        list[Path] | None, typer.Option(help="Folder made by `npda terms`, or its list; repeat it for several.")
    ] = None,
    attentive: Annotated[
        bool,
        typer.Option(
            "--attentive",
            help="With --terms: write down what is said in every utterance (Whisper), not only where a term may "
            "have been said. Finds more terms, and takes about a fifth more time.",
        ),
    ] = False,
    k: K = None,
    lambda_: Lambda = None,
    temperature: Temperature = None,
    adaptive: Adaptive = False,
    beam: Beam = 5,
    length_penalty: TunedLengthPenalty = None,
    n_best: Annotated[int, typer.Option(min=1, help="Alternatives per input, shown with -f json.")] = 1,
    max_length: MaxLength = 200,
    language: Language = None,
    source_language: SourceLanguage = None,
    segment: Annotated[
        Literal["auto", "always", "never"],
        typer.Option(help="Cut recordings at their pauses: those too long for the model, all, or none."),
    ] = "auto",
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with an interrupted translation to the same output.")
    ] = False,
    ray: Ray = None,
    parts: Parts = None,
    part_replicas: PartReplicas = 1,
    partial: Partial = False,
    int8: Annotated[bool, typer.Option("--int8", help="Compute with 8-bit integers: faster, less exact.")] = False,
    device: Device = "auto",
    precision: Precision = "auto",
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Translate speech to text.

    Any audio format will do, and so will the sound of a video. A folder is translated file by file, with the folders in
    it. Recordings may have any length: long ones are cut at their pauses. All formats but txt show when each piece
    begins and ends; txt has one line per piece. A file that cannot be read is reported and skipped (its txt line stays
    empty), and the exit code is then 2.

    With --output or --output-dir, what is translated is kept from time to time: after an interruption the same command
    with --resume goes on from there.

    Stores may stay on: each steers with the settings it was tuned to, and only where what is said is nearer to it than
    to the general text of the model's counter-store. --unguarded searches them always, as the paper does.

    With --ray the machines of a cluster hold the stores, a part each, and the translations are the same:
    docs/scaling-out.md.

    Examples:

        npda translate runs/demo/data/speech.wav --model runs/demo/model

        npda translate runs/demo/data/test.tsv --model runs/demo/model -o hypotheses.txt

        npda translate runs/demo/data/speech.wav --model runs/demo/model \\
            --store runs/demo/stores/parliament-text

        npda translate runs/demo/data/speech.wav --model runs/demo/model --store runs/demo/stores

        npda translate runs/demo/data/debate.flac --model runs/demo/model -f srt -o debate.srt

        npda translate runs/demo/data/debate.flac --model runs/demo/model -f srt -o debate.srt --resume

        npda translate runs/demo/data/speech.wav runs/demo/data/debate.flac \\
            --model runs/demo/model -f vtt --output-dir subtitles
    """
    if resume and not (output or output_dir):
        raise InputError("--resume goes on with a file or folder of outputs: give --output or --output-dir.")
    if output and output_dir:
        raise InputError("Give either --output or --output-dir, not both.")
    if n_best > beam:
        raise InputError(f"--n-best {n_best} needs a beam at least as large; add --beam {n_best}.")
    if adaptive and not store:
        raise InputError("--adaptive needs a --store, where `npda tune --adaptive` has left its network.")
    if attentive and not terms:
        raise InputError("--attentive listens for terms: give a list with --terms.")
    check_choices(k, lambda_, temperature, adaptive)
    if ray is None and (parts is not None or part_replicas > 1 or partial):
        raise InputError("--parts, --part-replicas and --partial are for stores on a cluster: give --ray ADDRESS too.")
    if ray is not None and not store:
        raise InputError("--ray spreads stores over a cluster: give a --store.")
    from npda.recordings import Translating, audio_inputs, say, work_digest

    recordings = list(audio_inputs(audio))

    from npda.io.files import check_writable

    if output or output_dir:
        check_writable(output or Path(str(output_dir)) / f"x.{format}")

    from npda.datastore.store import open_stores
    from npda.decoding.knn.steering import Chosen, tuned_search
    from npda.io.files import atomic_write
    from npda.io.journal import Journal
    from npda.io.progress import SHORT, bar
    from npda.translator import Translator
    from npda.writers import write, write_all

    progress = shows_progress(quiet, verbose)
    with loading(model, progress):
        translator = Translator.from_pretrained(model, source_language, int8=int8, device=device, precision=precision)
    stores = open_stores(store or (), translator.backbone)
    with ExitStack() as held:
        on_disk = stores
        if ray is not None:
            from npda.cluster.search import SearchOnCluster, spread

            stores = held.enter_context(spread(stores, ray, SearchOnCluster(parts, part_replicas, partial)))
        given = {} if length_penalty is None else {"length_penalty": length_penalty}
        options = tuned_search(stores, beam=beam, max_length=max_length, n_best=n_best, **given)
        chosen = Chosen(k, lambda_, temperature, adaptive, length_penalty=length_penalty)
        fusions = [translator.steered_by(stores, language, chosen, not unguarded)] if stores else []
        opened = translator.terms(terms or (), language, attentive)
        translator.backbone.prompt(language)  # an unknown language is found out before anything is written
        journal = None
        if output or output_dir:
            kept = output or Path(str(output_dir)) / "translation"
            of = work_digest(
                recordings, translator, [store.digest for store in on_disk], options, chosen, language, segment, terms,
                attentive, unguarded, precision, int8, format == "txt",
            )  # fmt: skip
            journal = Journal(kept.with_name(f".{kept.name}.unfinished"), of, resume)
            if journal.count and not quiet:
                say(f"{journal.count} parts are translated already; continuing from there.")
        total = sum(recording.seconds or 0 for recording in recordings)
        with bar(progress, SHORT) as display:
            task = display.add_task("translating", total=round(total), note="seconds of audio")
            work = Translating(
                translator,
                options,
                language,
                fusions,
                segment,
                lambda seconds: display.advance(task, seconds),
                terms=opened,
                one_line=format == "txt",
                quiet=quiet,
                stores=on_disk,
                journal=journal,
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
        if journal is not None:
            journal.remove()
    if work.faults:
        raise typer.Exit(2)


def check_choices(k: int | None, lambda_: float | None, temperature: float | None, adaptive: bool) -> None:
    """Before anything is opened."""
    if temperature is not None and temperature <= 0:
        raise InputError(f"--temperature must be above 0, not {temperature:g}.")
    if adaptive and (k, lambda_, temperature) != (None, None, None):
        raise InputError("--adaptive chooses k, λ and T itself: leave them out.")
