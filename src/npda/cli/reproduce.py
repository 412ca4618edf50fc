"""npda reproduce: all systems and tables of a recipe, whatever of them is not there yet."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from npda.cli.options import AsJson, Device, Quiet, Ray, Verbose, WorkerCpus, shows_progress
from npda.io.cores import cores
from npda.io.errors import InputError
from npda.io.terminal import open_console

if TYPE_CHECKING:
    from rich.console import Console

    from npda.report.table import Table
    from npda.reproduce.recipe.recipe import Recipe
    from npda.stages.plan import Plan
    from npda.stages.run import Report


def reproduce(
    recipe: Annotated[Path, typer.Argument(help="Recipe (YAML): corpora, model, systems, tables.")],
    runs: Annotated[
        Path | None, typer.Option(help="Folder for stages and report; finished stages are reused [default: runs/NAME].")
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(help="Only these stages and those they need, by name or pattern; repeat it for several."),
    ] = None,
    from_: Annotated[
        str | None, typer.Option("--from", help="Do these stages again, and all that depend on them.")
    ] = None,
    keep_stale: Annotated[
        bool,
        typer.Option("--keep-stale", help="Keep results made by other code instead of repeating their stages."),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and its cost, and stop.")] = False,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, help="Stages to run at once [default: one per core for the mini model, otherwise 1]."),
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="KEY=VALUE to change in the recipe; repeat it for several.")
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(help="NAME=DIR, the folder of a corpus or of a kind of corpora; repeat it for several."),
    ] = None,
    ray: Ray = None,
    worker_cpus: WorkerCpus = None,
    as_json: AsJson = False,
    device: Device = "auto",
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Train, tune and test every system of a recipe, and make its tables.

    Every stage is kept under a key of its inputs: a second run does nothing, an interrupted one resumes, and a changed
    recipe repeats only the stages that the change concerns. Changed code repeats the stages it decides (comments and
    docstrings do not count), unless --keep-stale is given. A stage that fails names its log, and the others continue
    (exit code 1). The report is written to RUNS/report as Markdown, HTML, CSV and JSON.

    With --ray, stages that do not need each other are spread over the machines of a cluster, which share the folder
    of --runs and the corpora.

    Examples:

        npda reproduce recipes/mini.yaml

        npda reproduce recipes/mini.yaml --dry-run

        npda reproduce recipes/mini.yaml --only 'translate NPDA-kNN-ST *' --jobs 1

        npda reproduce recipes/mini.yaml --set seeds.training=2 --runs runs/mini-2

        npda reproduce recipes/mustc-to-europarl.yaml --data mustc=/data/MUSTC_v1.0 --data europarl-st=/data/v1.1 \\
            --data europarl=/data/europarl-v7
    """
    from npda.reproduce.recipe.recipe import load_recipe
    from npda.reproduce.tables.tables import TABLES
    from npda.stages.plan import plan
    from npda.systems.catalogue import SYSTEMS

    loaded = load_recipe(recipe, tuple(SYSTEMS), TABLES, set_ or (), data or ())
    runs = runs if runs is not None else Path("runs") / loaded.name
    if runs.exists() and not runs.is_dir():
        raise InputError(f"{runs} is a file; give a directory with --runs.")

    from npda.reproduce.planning import plan_recipe
    from npda.reproduce.recipe.inputs import check_inputs

    if ray is None and worker_cpus is not None:
        raise InputError("--worker-cpus is for workers of a cluster: give --ray ADDRESS too.")
    jobs = jobs or (cores() if loaded.model.preset == "mini" and ray is None else 1)
    threads = max(1, cores() // jobs) if ray is None else worker_cpus or 1
    planned = plan_recipe(loaded, threads=threads)
    chosen = plan(planned.stages, runs, only or (), from_, keep_stale)
    if dry_run:
        _print_plan(loaded, chosen, as_json)
        return
    check_inputs(loaded, chosen)

    from npda.reproduce.report import write_report
    from npda.reproduce.tables.tables import make_tables
    from npda.stages.run import run
    from npda.stages.run_display import run_display

    loaded.write(runs / "report" / f"{loaded.name}.yaml")
    watcher = run_display(not shows_progress(quiet, verbose, as_json), apart=True)
    given = planned.stages, runs, only or (), from_, keep_stale
    if ray is not None:
        from npda.cluster.stages import stages_on

        with stages_on(ray, threads) as (start, room):
            done = run(*given, room, apart=True, watcher=watcher, start=start)
    else:
        # Apart even if one at a time: what a training leaves in memory goes with its process.
        done = run(*given, jobs, apart=True, watcher=watcher)
    # Also those that were not chosen this time.
    steps = plan(planned.stages, runs, keep_stale=keep_stale).steps
    everything = {step.name: step.directory for step in steps if step.state == "done"}
    tables = make_tables(loaded, planned, everything)
    files = write_report(runs / "report", loaded, tables)
    if as_json:
        made = {"tables": [table.record() for table in tables], "report": files.record()}
        print(json.dumps({**_record(loaded, chosen), "stages": done.record(), **made}, ensure_ascii=False))
    else:
        _print_result(done, tables, files.page)
    raise typer.Exit(done.exit_code)


def _record(recipe: Recipe, plan: Plan) -> dict[str, Any]:
    """What is planned, for scripts."""
    from npda.systems.catalogue import SYSTEMS

    names = dict.fromkeys(name for d in recipe.directions for name in d.systems or recipe.systems)
    systems = [
        {
            "name": name,
            "data": sorted(SYSTEMS[name].data(large=any(d.large_text for d in recipe.directions))),
            "baseline": SYSTEMS[name].baseline,
            "directions": [d.name for d in recipe.directions if name in (d.systems or recipe.systems)],
        }
        for name in names
    ]
    return {"recipe": recipe.name, "systems": systems, **plan.record()}


def _print_plan(recipe: Recipe, plan: Plan, as_json: bool) -> None:
    if as_json:
        print(json.dumps(_record(recipe, plan), ensure_ascii=False))
        return

    from npda.stages.run_display import plan_table

    open_console(highlight=False).print(plan_table(plan))


def _print_result(done: Report, tables: Sequence[Table], page: Path) -> None:

    console = open_console(highlight=False, width=None if sys.stdout.isatty() else 160)
    for table in tables:
        _print_table(console, table)
    if all(outcome.state == "found" for outcome in done.outcomes):
        console.print("Nothing to do: every stage was done before.")
    for outcome in done.failures:
        if outcome.state == "failed":
            console.print(outcome.sentence(), soft_wrap=True, style="red")
    skipped = sum(outcome.state == "skipped" for outcome in done.failures)
    if skipped:
        console.print(f"{skipped} more could not be done without these.")
    console.print(f"report: {page}", soft_wrap=True)


def _print_table(console: Console, table: Table) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as Printed
    from rich.text import Text

    from npda.reproduce.report import NAMES

    printed = Printed(title=Text(table.title), box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    # The ticks are in the report: a terminal is narrow.
    shown = [place for place, cell in enumerate(table.rows[0]) if not isinstance(cell.value, bool)]
    for column in (table.columns[place] for place in shown):
        printed.add_column(Text(column), justify="left" if column in NAMES else "right", no_wrap=column == "system")
    for row in table.rows:
        cells = (row[place] for place in shown)
        printed.add_row(*(Text(f"{cell.text} {cell.arrow}".strip(), "bold" if cell.best else "") for cell in cells))
    console.print(printed)
    for note in table.notes:
        console.print(note, soft_wrap=True)
    console.print()
