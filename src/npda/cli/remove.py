"""npda remove: take a source out of a datastore."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def remove(
    store: Annotated[Path, typer.Argument(help="Datastore directory.")],
    source: Annotated[str, typer.Option(help="Name of the source, as `npda inspect` shows it.")],
    json: Annotated[bool, typer.Option("--json", help="Print what is left as JSON.")] = False,
) -> None:
    """Remove a source from a datastore without building the rest again.

    Examples:

        npda remove store --source parliament.tsv
    """
    from npda.cli.inspect import print_store
    from npda.datastore.store import Datastore

    print_store(Datastore.open(store).remove(source), json)
