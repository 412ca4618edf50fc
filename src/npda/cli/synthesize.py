"""npda synthesize: a text read aloud, as a manifest of speech."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from npda.cli.options import AsJson, Quiet, Verbose, shows_progress
from npda.io.errors import InputError
from npda.io.files import check_file


def synthesize(
    text: Annotated[Path, typer.Argument(help="Sentence pairs: a TSV with src_text and tgt_text (.gz too).")],
    voice: Annotated[str, typer.Option(help="Voice that reads: espeak:en-us, pico:de-DE, piper:MODEL.onnx.")],
    out: Annotated[Path, typer.Option(help="Directory for the manifest, with the clips in audio/.")],
    name: Annotated[
        str | None, typer.Option(help="Name of the manifest, without .tsv [default: the text's name].")
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Let a voice read the source side of a text: FLAC clips and a manifest, as other verbs take them.

    Use this if you have no recordings to tune or test on. espeak comes with npda (espeak:en-us+f3 is another speaker,
    espeak:en-us@300 a fast one); pico2wave and piper are used if they are installed. An interrupted run resumes: clips
    that exist are not made again.

    Examples:

        npda synthesize runs/demo/data/domain-dev.tsv --voice espeak:en-us --out spoken

        npda synthesize runs/demo/data/domain-dev.tsv --voice espeak:en-us+f3@300 --out spoken \\
            --name fast --json

        npda synthesize german.tsv.gz --voice pico:de-DE --out spoken

        npda synthesize german.tsv --voice piper:voices/de_DE-thorsten-medium.onnx --out spoken \\
            --name thorsten
    """
    check_file(text)
    from npda.corpus.pairs import stream_pairs
    from npda.corpus.recording import synthesize as run
    from npda.corpus.voices import voice as find

    name = name or text.name.removesuffix(".gz").removesuffix(".tsv")
    if Path(name).name != name:
        raise InputError(f"--name {name} is the name of a file in {out}, not a path.")
    if (out / f"{name}.tsv").resolve() == text.resolve():
        raise InputError(f"The manifest would replace {text}: choose another --out or --name.")
    recording = run(stream_pairs(text), find(voice), out, name, progress=shows_progress(quiet, verbose, as_json))
    if as_json:
        print(json.dumps({**asdict(recording), "voice": voice}, default=str))
        return
    print(f"{recording.manifest}: {recording.sentences:,} sentences, {recording.seconds / 60:.1f} minutes of {voice}")
    if recording.silent:
        print(f"{recording.silent} sentences left out: there is nothing to hear in them")
