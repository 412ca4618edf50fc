"""The command line: one verb per module, one place that turns faults into sentences and exit codes."""

from __future__ import annotations

import os
import sys

# Two OpenMP threads that spin on a busy core cost a factor of eight; must be set before torch is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import typer

from npda.cli.adapt import adapt
from npda.cli.align import align
from npda.cli.build import build
from npda.cli.compress import compress
from npda.cli.demo import demo
from npda.cli.doctor import doctor
from npda.cli.evaluate import evaluate
from npda.cli.explain import explain
from npda.cli.filter import filter_
from npda.cli.inspect import inspect
from npda.cli.mini import mini
from npda.cli.prepare import prepare
from npda.cli.remove import remove
from npda.cli.reproduce import reproduce
from npda.cli.serve import serve
from npda.cli.synthesize import synthesize
from npda.cli.terms import terms
from npda.cli.train import train
from npda.cli.train_text import train_text
from npda.cli.translate import translate
from npda.cli.tune import tune
from npda.cli.verbs import Verb, Verbs, run

app = typer.Typer(
    name="npda",
    cls=Verbs,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
# In the order of use; each group is a panel of `npda --help`.
GROUPS = {
    "Start here": (demo, adapt, doctor),
    "Train a model": (train, train_text, align),
    "Build and tune a datastore": (build, tune, inspect, remove, compress),
    "Translate and judge": (translate, serve, terms, explain, evaluate),
    "Prepare data": (filter_, synthesize, mini),
    "Repeat the paper's experiments": (reproduce,),
}
for panel, verbs in GROUPS.items():
    for verb in verbs:
        app.command(verb.__name__.strip("_").replace("_", "-"), rich_help_panel=panel, cls=Verb)(verb)
app.add_typer(prepare, name="prepare", rich_help_panel="Prepare data")


def _print_version(wanted: bool) -> None:
    if wanted:
        from npda import __version__

        print(f"npda {__version__}")
        raise typer.Exit()


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, help="Print the version and stop.", is_eager=True
    ),
) -> None:
    """Adapt an end-to-end speech translator to a new domain with nothing but bilingual text.

    Start with `npda demo`. Every verb has examples in its --help, which run on what the demo leaves in runs/demo.
    """


def main() -> None:
    """Entry point of ``npda``: 0 done, 2 something given was wrong (a sentence says what), 130, 143 interrupted."""
    sys.exit(run(app))
