"""npda inspect: what is inside a datastore, and whether it is whole."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from npda.cli.options import AsJson, Quiet, Verbose, shows_progress
from npda.io.terminal import open_console

if TYPE_CHECKING:
    from npda.datastore.store import Datastore


def inspect(
    store: Annotated[Path, typer.Argument(help="Datastore directory.")],
    verify: Annotated[bool, typer.Option("--verify", help="Read every byte: checksums, counts, keys, values.")] = False,
    json: AsJson = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Show what a datastore holds, what it gains and what it costs.

    Its card, README.md, says the same. With --verify, every file is read: a broken one is named, and the exit code
    is 2.

    Examples:

        npda inspect runs/demo/stores/parliament-text

        npda inspect runs/demo/stores/parliament-text --verify

        npda inspect runs/demo/stores/parliament-text --json
    """
    from npda.datastore.store import Datastore

    opened = Datastore.open(store)
    if verify:
        from npda.datastore.verify import verify as verify_store

        verify_store(store, shows_progress(quiet, verbose, json))
        _verify_tuning(opened)
    print_store(opened, json, verified=verify)


def _verify_tuning(store: Datastore) -> None:
    """What the store was tuned to; its gate is looked at whenever a store is shown."""
    from npda.decoding.knn.adaptive import SETTINGS, WEIGHTS, load_adaptive

    if any((store.path / name).exists() for name in (SETTINGS, WEIGHTS)):
        load_adaptive(store.path)


def print_store(store: Datastore, as_json: bool = False, verified: bool = False) -> None:
    """Print a store's description on standard output: what is in it, what it gains, what it costs elsewhere."""
    from npda.decoding.knn.tuned import load_tuned_record
    from npda.decoding.knn.tuned_guard import load_guard

    if as_json:
        import json

        content = store.info.model_dump(mode="json", exclude={"shards"})
        content |= {"path": str(store.path), "digest": store.digest, "kinds": list(store.info.kinds)}
        content |= {"shards": len(store.info.shards), "bytes": store.sizes(), "verified": verified}
        content |= {"tuned": tuned.model_dump(by_alias=True) if (tuned := load_tuned_record(store)) else None}
        content |= {"guard": guard.model_dump() if (guard := load_guard(store)) else None}
        print(json.dumps(content, ensure_ascii=False))
        return

    from rich.table import Table

    from npda.datastore.facts import described, measured

    table = Table(title=str(store.path), show_header=False, title_justify="left")
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in [*described(store.info), *measured(load_tuned_record(store), load_guard(store))]:
        table.add_row(name, value)
    if verified:
        table.add_row("verified", "every checksum, count, key and value is as it should be")
    columns = ("source", "kind", "sentences", "keys", "left out", "languages", "licence")
    sources = Table(*columns, title="sources", title_justify="left")
    for source in store.info.sources:
        numbers = (f"{number:,}" for number in (source.sentences, source.keys, source.skipped))
        kind = f"{source.kind} ({source.voice})" if source.voice else source.kind
        told = (", ".join(source.languages), source.licence or "not told")
        sources.add_row(source.name, kind, *numbers, *told)
    console = open_console()
    console.print(table)
    console.print(sources)
