"""npda inspect: what is inside a datastore, and whether it is whole."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from npda.cli.options import AsJson, Quiet, Verbose, shows_progress
from npda.io.terminal import printable

if TYPE_CHECKING:
    from rich.text import Text

    from npda.datastore.store import Datastore
    from npda.decoding.knn.tuned import Tuned
    from npda.decoding.knn.tuned_guard import FittedGuard


def inspect(
    store: Annotated[Path, typer.Argument(help="Datastore directory.")],
    verify: Annotated[bool, typer.Option("--verify", help="Read every byte: checksums, counts, keys, values.")] = False,
    json: AsJson = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Show what a datastore holds: entries, sources, index, recall, bytes.

    With --verify, every file is read; a broken one is named, and the exit code is 2.

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

    from rich.console import Console
    from rich.table import Table

    table = Table(title=_plain(str(store.path)), show_header=False, title_justify="left")
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in [*_rows(store), *_card(load_tuned_record(store), load_guard(store))]:
        table.add_row(name, _plain(value))
    if verified:
        table.add_row("verified", "every checksum, count, key and value is as it should be")
    sources = Table("source", "kind", "sentences", "keys", "left out", title="sources", title_justify="left")
    for source in store.info.sources:
        numbers = (f"{number:,}" for number in (source.sentences, source.keys, source.skipped))
        kind = f"{source.kind} ({source.voice})" if source.voice else source.kind
        sources.add_row(_plain(source.name), _plain(kind), *numbers)
    console = Console()
    console.print(table)
    console.print(sources)


def _plain(text: str) -> Text:
    """As a terminal shall show it: somebody else may have named what a store was made of."""
    from rich.text import Text

    return Text(printable(text))


def _rows(store: Datastore) -> list[tuple[str, str]]:
    info, sizes = store.info, store.sizes()
    index, recall = info.index, info.index.recall
    searched = "all keys compared" if index.directory is None else f"nprobe {index.nprobe}, rerank {index.rerank}"
    measured = "1 by definition" if index.directory is None else "not measured"
    if recall is not None:
        measured = f"{recall.value:.3f} ({recall.queries} queries as of a new sentence, {recall.keys:,} keys)"
    scale = "not measured yet" if info.distance_scale is None else f"{info.distance_scale:.4g}"
    per_key = sizes["keys"] / max(info.count, 1)
    compressed = [f"{info.pruned:,} keys left out, others nearby say the same"] if info.pruned else []
    if (projection := info.projection) is not None:
        share = f"{100 * projection.variance:.1f} % of the variance"
        compressed.append(f"{info.dim} of {projection.dim} dimensions with {share}")
    return [
        ("entries", f"{info.count:,} keys of {info.dim} × {info.dtype}"),
        *([("compressed", "; ".join(compressed))] if compressed else []),
        ("made of", ", ".join(info.kinds) or "nothing"),
        ("keys", f"{_bytes(sizes['keys'])}, {per_key:.1f} B/key ({info.key})"),
        ("index", f"{index.factory}: {searched} (asked for: {index.asked})"),
        ("index size", f"{_bytes(sizes['index'])}, {index.bytes_per_key:.1f} B/key"),
        ("recall@8", measured),
        ("distance scale", scale),
        ("on disk", f"{_bytes(sizes['total'])} in {len(info.shards)} shards"),
        ("model", f"{info.backbone.name} {info.backbone.digest[:12]}"),
        ("vocabulary", f"{info.vocabulary_size:,} tokens, {info.vocabulary[:12]}"),
        ("digest", store.digest[:12]),
    ]


def _card(tuned: Tuned | None, guard: FittedGuard | None) -> list[tuple[str, str]]:
    """What the store was tuned to, what it gained in its domain, and what it cost general sentences."""
    if tuned is None:
        return [("tuned", "not yet: run `npda tune`")]
    options = tuned.options
    settings = f"k {options.k}, λ {options.lambda_:g}, T {options.temperature:g}, α {tuned.length_penalty:g}"
    gain = f"BLEU {tuned.base_bleu:.1f} → {tuned.bleu:.1f}"
    if tuned.chrf is not None and tuned.base_chrf is not None:
        gain += f", chrF {tuned.base_chrf:.1f} → {tuned.chrf:.1f}"
    rows = [("tuned", f"{settings} ({tuned.way})"), ("gain on dev", gain)]
    if guard is None:
        return [*rows, ("gate", "none: left on, the store steers whatever is said")]
    return [*rows, *zip(("gate", "price"), (line.split(": ", 1)[1] for line in guard.lines()), strict=False)]


def _bytes(count: int) -> str:
    """1536 → 1.5 KB"""
    size, unit = float(count), "B"
    for larger in ("KB", "MB", "GB", "TB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{size:.1f} {unit}" if unit != "B" else f"{count} B"
