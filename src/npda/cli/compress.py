"""npda compress: a smaller datastore from a datastore."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from npda.cli.options import AsJson, Quiet, Verbose, shows_progress
from npda.io.errors import InputError


def compress(
    store: Annotated[Path, typer.Argument(help="Datastore directory; it is not changed.")],
    out: Annotated[Path, typer.Option(help="Datastore to make.")],
    dim: Annotated[int | None, typer.Option(help="Dimensions of the new keys: their principal components.")] = None,
    prune: Annotated[
        float | None, typer.Option(help="Share of the keys to keep; keys that a near neighbour can replace go first.")
    ] = None,
    radius: Annotated[
        float | None, typer.Option(help="With --prune: squared distance beyond which no key replaces another.")
    ] = None,
    index: Annotated[str | None, typer.Option(help="As for `npda build` [default: as the datastore's].")] = None,
    json: AsJson = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Make a datastore smaller: fewer dimensions, fewer keys, or both.

    Keys still know their sentences, and sources can be added and removed. Tune the new datastore again: its distances
    have changed.

    Examples:

        npda compress runs/demo/stores/parliament-text --dim 64 --out small

        npda compress runs/demo/stores/parliament-text --dim 64 --prune 0.5 --out smaller
    """
    if dim is None and prune is None:
        raise InputError("Say how to compress: --dim 64 for fewer dimensions, --prune 0.5 for fewer keys, or both.")
    if radius is not None and prune is None:
        raise InputError("--radius goes with --prune.")

    from npda.cli.inspect import print_store
    from npda.datastore.compress import CompressOptions
    from npda.datastore.compress import compress as run
    from npda.datastore.pruning import PruneOptions
    from npda.datastore.store import Datastore

    try:
        pruning = None if prune is None else PruneOptions(prune, float("inf") if radius is None else radius)
    except ValueError as error:
        raise InputError(f"{str(error).capitalize()}.") from None
    options = CompressOptions(dim, pruning, index, progress=shows_progress(quiet, verbose, json))
    print_store(run(Datastore.open(store), out, options), json)
