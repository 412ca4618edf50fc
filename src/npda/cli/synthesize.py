"""npda synthesize: a text read aloud, as a manifest of speech."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from npda.io.errors import InputError


def synthesize(
    text: Annotated[Path, typer.Argument(help="Pairs: a TSV with src_text and tgt_text (.gz too).")],
    voice: Annotated[str, typer.Option(help="Who reads: espeak:en-us, pico:de-DE, piper:MODEL.onnx.")],
    out: Annotated[Path, typer.Option(help="Directory for the manifest, and for its clips in audio/.")],
    name: Annotated[str | None, typer.Option(help="Of the manifest, without .tsv [default: the text's].")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Have a voice read the source side of a text: FLAC clips and a manifest, as other verbs take them.

    For who has no recording to tune or to test on. espeak comes with npda (espeak:en-us+f3 is another speaker,
    espeak:en-us@300 a fast one); pico2wave and piper are taken if they are installed. Interrupted, it goes on where it
    was: a clip that is there is not made again.

    Examples:

        npda synthesize dev.tsv --voice espeak:en-us --out spoken

        npda synthesize dev.tsv.gz --voice pico:de-DE --out spoken --json

        npda synthesize test.tsv --voice piper:voices/de_DE-thorsten-medium.onnx --out spoken --name thorsten
    """
    if not text.is_file():
        raise InputError(f"There is no file {text}.")
    from npda.corpus.pairs import stream_pairs
    from npda.corpus.recording import synthesize as run
    from npda.corpus.voices import voice as find

    name = name or text.name.removesuffix(".gz").removesuffix(".tsv")
    if Path(name).name != name:
        raise InputError(f"--name {name} is the name of a file in {out}, not a path.")
    if (out / f"{name}.tsv").resolve() == text.resolve():
        raise InputError(f"The manifest would replace {text}: choose another --out or --name.")
    recording = run(stream_pairs(text), find(voice), out, name, progress=not as_json)
    if as_json:
        print(json.dumps({**asdict(recording), "voice": voice}, default=str))
        return
    print(f"{recording.manifest}: {recording.sentences:,} sentences, {recording.seconds / 60:.1f} minutes of {voice}")
    if recording.silent:
        print(f"{recording.silent} sentences left out: there is nothing to hear in them")
