"""npda demo: what the project is about, on the corpus that comes with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from npda.errors import InputError

if TYPE_CHECKING:
    from npda.experiments.demo import DemoReport


def demo(
    out: Annotated[Path, typer.Option(help="Where the trained model goes, and is found again.")] = Path("runs/demo"),
    seed: Annotated[int, typer.Option(help="Another seed draws another corpus.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Train a speech translator on everyday talk and see it fail on parliament.

    Makes the embedded corpus, trains the mini model from scratch (a few minutes on two cores; interrupted, it goes
    on where it was) and translates the test speech of both domains.

    Examples:

        npda demo

        npda demo --out runs/other --seed 1 --json
    """
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file; give a directory with --out.")
    from npda.experiments.demo import run_demo

    report = run_demo(out, seed, progress=not as_json)
    if as_json:
        print(json.dumps(report.record(), ensure_ascii=False))
    else:
        _print(report)


def _print(report: DemoReport) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    table = Table("E2E-ST-Base", "BLEU", title="Trained on everyday talk, English speech → German text")
    for domain, score in report.scores.items():
        table.add_row(f"{domain} test", f"{score.value:.1f}")
    console.print(table)
    for domain, examples in report.examples.items():
        console.print(f"\n[bold]{domain}[/bold]")
        for example in examples:
            console.print(f"  said       {example.transcript}", highlight=False)
            console.print(f"  translated {example.translation}", highlight=False)
            verdict = "[green]right[/green]" if example.translation == example.reference else example.reference
            console.print(f"  reference  {verdict}\n", highlight=False)
    spent = ", ".join(f"{stage} {seconds:.0f} s" for stage, seconds in report.seconds.items())
    console.print(f"BLEU|{next(iter(report.scores.values())).signature}", highlight=False, soft_wrap=True)
    console.print(f"{spent}; the model is in {report.model}", highlight=False, soft_wrap=True)
