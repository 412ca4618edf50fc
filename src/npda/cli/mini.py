"""npda mini: write the embedded corpus."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from npda.cli.options import AsJson, Quiet, Verbose, codes, shows_progress
from npda.io.terminal import open_console


def mini(
    language: Annotated[str, typer.Option(callback=codes, help="Target language: German (de) or French (fr).")] = "de",
    seed: Annotated[int, typer.Option(help="Another seed draws other sentences and voices.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Folder to write to [default: the user's cache].")] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Write the embedded corpus: sentences of two domains, their speech, manifests.

    English speech with German or French translations in two domains, everyday talk (general) and parliament, made by
    a grammar and a speech synthesiser that come with npda. A second call finds everything in place.

    Examples:

        npda mini

        npda mini --language French --seed 7 --out corpora/mini-fr
    """
    from npda.corpus import mini as corpus
    from npda.corpus.mini.grammar import SPLITS

    made = corpus.prepare(language=language, seed=seed, directory=out, progress=shows_progress(quiet, verbose, as_json))
    files = {f"{domain} {split}": (SPLITS[domain, split], made.manifest(domain, split)) for domain, split in SPLITS}
    if as_json:
        manifests = {name: str(path) for name, (_, path) in files.items()}
        print(json.dumps({"directory": str(made.directory), "manifests": manifests}))
        return
    from rich.table import Table

    table = Table("split", "sentences", "manifest", title=f"mini, English → {language}, seed {seed}")
    for name, (count, path) in files.items():
        table.add_row(name, f"{count:,}", str(path))
    open_console().print(table)
