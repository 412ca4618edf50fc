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
from npda.cli.evaluate import evaluate
from npda.cli.explain import explain
from npda.cli.filter import filter_
from npda.cli.inspect import inspect
from npda.cli.mini import mini
from npda.cli.prepare import prepare
from npda.cli.remove import remove
from npda.cli.reproduce import reproduce
from npda.cli.synthesize import synthesize
from npda.cli.train import train
from npda.cli.train_text import train_text
from npda.cli.translate import translate
from npda.cli.tune import tune
from npda.io.errors import InputError

app = typer.Typer(
    name="npda",
    help="Adapt an end-to-end speech translator to a new domain with nothing but bilingual text.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(demo)
app.command()(adapt)
app.command()(train)
app.command()(train_text)
app.command()(align)
app.command()(build)
app.command()(tune)
app.command()(translate)
app.command()(explain)
app.command()(evaluate)
app.command()(inspect)
app.command()(remove)
app.command()(compress)
app.command("filter")(filter_)
app.command()(synthesize)
app.command()(mini)
app.command()(reproduce)
app.add_typer(prepare, name="prepare")


@app.callback()
def _version(
    version: bool = typer.Option(False, "--version", help="Print the version and stop.", is_eager=True),
) -> None:
    if version:
        from npda import __version__

        print(f"npda {__version__}")
        raise typer.Exit()


def main() -> None:
    """Entry point of ``npda``: 0 done, 2 something given was wrong (one sentence says what), 130 interrupted."""
    try:
        app()
    except InputError as error:
        print(f"npda: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("npda: interrupted; what was finished is kept.", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # `npda … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
