"""npda remove: take a source out of a datastore."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from npda.cli.options import AsJson


def remove(
    store: Annotated[Path, typer.Argument(help="Datastore directory.")],
    source: Annotated[str, typer.Option(help="Name of the source, as `npda inspect` shows it.")],
    json: AsJson = False,
) -> None:
    """Remove a source from a datastore without building the rest again.

    Examples:

        npda build --model runs/demo/model --text runs/demo/data/domain.tsv --out both

        npda build --model runs/demo/model --text runs/demo/data/domain-dev.tsv --append --out both

        npda remove both --source domain.tsv
    """
    from npda.cli.inspect import print_store
    from npda.datastore.store import Datastore

    print_store(Datastore.open(store).remove(source), json)
