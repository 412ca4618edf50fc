"""Options that several verbs share: each is spelt, explained and checked once."""

from __future__ import annotations

import logging
import os
import warnings
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from npda.corpus.languages import language_code
from npda.io.card import check_licence
from npda.io.errors import InputError

if TYPE_CHECKING:
    from npda.datastore.workers import WorkersFor
    from npda.models.devices import Precision as Precisions


def codes(given: str | list[str] | None) -> str | list[str] | None:
    """Languages by name or code → their codes."""
    if isinstance(given, list):
        return [language_code(language) for language in given]
    return language_code(given) if given else given


def _hush(ctx: typer.Context, quiet: bool) -> bool:
    """Errors alone are logged for as long as the verb runs."""
    if quiet:
        before = logging.root.manager.disable
        logging.disable(logging.WARNING)
        ctx.call_on_close(lambda: logging.disable(before))
        ignored = warnings.catch_warnings()
        ignored.__enter__()
        warnings.simplefilter("ignore")
        ctx.call_on_close(lambda: ignored.__exit__(None, None, None))
    return quiet


def _speak_up(ctx: typer.Context, verbose: bool) -> bool:
    """All log messages go to standard error for as long as the verb runs."""
    if verbose:
        os.environ.setdefault("TRANSFORMERS_VERBOSITY", "info")  # read when transformers is imported
        root, handler = logging.getLogger(), logging.StreamHandler()
        handler.setFormatter(logging.Formatter("npda: %(name)s: %(message)s"))
        level = root.level
        root.addHandler(handler)
        root.setLevel(logging.INFO)
        logging.captureWarnings(True)

        def undo() -> None:
            logging.captureWarnings(False)
            root.setLevel(level)
            root.removeHandler(handler)

        ctx.call_on_close(undo)
    return verbose


def _use(ctx: typer.Context, device: str) -> str:
    """Models go to this device for as long as the verb runs, in the processes that it starts too."""
    if device != "auto":
        from npda.models.devices import VARIABLE, choose_device

        choose_device(device)  # one that is not there is refused before any work
        before = os.environ.get(VARIABLE)
        os.environ[VARIABLE] = device

        def undo() -> None:
            os.environ.pop(VARIABLE)
            os.environ.update({} if before is None else {VARIABLE: before})

        ctx.call_on_close(undo)
    return device


Device = Annotated[
    str,
    typer.Option(
        callback=_use, help="Where models compute: cpu, cuda, cuda:1, mps; auto is the accelerator if there is one."
    ),
]
Precision = Annotated[
    Literal["auto", "float32", "bfloat16", "float16"],
    typer.Option(help="Of the model's weights; auto is float32 on a processor, bfloat16 or float16 on a GPU."),
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", callback=_hush, help="Print results and errors only: no progress, no warnings.")
]
Verbose = Annotated[
    bool,
    typer.Option(
        "--verbose", "-v", callback=_speak_up, help="Print all log messages too, and progress even with --json."
    ),
]
Ray = Annotated[
    str | None,
    typer.Option("--ray", metavar="ADDRESS", help="Ray cluster to work on: HOST:PORT, or auto for this machine's."),
]
WorkerCpus = Annotated[
    int | None, typer.Option(min=1, max=1024, help="With --ray: processors of a worker [default: all of its machine].")
]
WorkerGpus = Annotated[
    float | None,
    typer.Option(help="With --ray: GPUs of a worker; 0.5 lets two share one [default: 1, if any]."),
]
Parts = Annotated[
    int | None,
    typer.Option(min=1, max=10_000, help="With --ray: parts of every store [default: one for each machine]."),
]
PartReplicas = Annotated[int, typer.Option(min=1, max=64, help="With --ray: machines that hold the same part.")]
Partial = Annotated[
    bool, typer.Option("--partial", help="With --ray: leave out a part that does not answer, and say so.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object, and no progress.")]

_MOST_GPUS = 64
_HUB = "Model directory, or the name of a model on the Hugging Face hub"
Audio = Annotated[
    list[str], typer.Argument(help="Audio or video files, folders, manifests (.tsv), or - for standard input.")
]
Model = Annotated[str, typer.Option(help=f"{_HUB}.")]
UnchangedModel = Annotated[str, typer.Option(help=f"{_HUB}; it is not changed.")]
Language = Annotated[
    str | None,
    typer.Option(callback=codes, help="Target language, for models with several: German, or its code de."),
]
SourceLanguage = Annotated[
    str | None,
    typer.Option(callback=codes, help="Spoken language, for models with several: English, or its code en."),
]

Stores = Annotated[
    list[Path] | None,
    typer.Option("--store", help="Datastore that steers, or a folder of them; repeat it for several."),
]
Unguarded = Annotated[
    bool,
    typer.Option("--unguarded", help="Let stores steer whatever is said, as in the paper, not only their own domain."),
]
K = Annotated[
    int | None, typer.Option(min=1, max=1024, help="Number of neighbours [default: as tuned for the store, or 16].")
]
Lambda = Annotated[
    float | None,
    typer.Option("--lambda", min=0, max=1, help="Weight of the neighbours [default: as tuned for the store, or 0.7]."),
]
Temperature = Annotated[
    float | None, typer.Option(help="Temperature T of the distances [default: as tuned for the store, or 10].")
]
Adaptive = Annotated[
    bool, typer.Option("--adaptive", help="Let the network trained by `npda tune --adaptive` choose k and λ.")
]
Beam = Annotated[int, typer.Option(min=1, max=256, help="Beam size; 1 is greedy search.")]
LengthPenalty = Annotated[float, typer.Option(help="α in score / length^α.")]
TunedLengthPenalty = Annotated[
    float | None,
    typer.Option(
        "--length-penalty",
        help="α in score / length^α, for all that is said [default: as stores were tuned, else 0.6].",
    ),
]
MaxLength = Annotated[int, typer.Option(min=1, help="Longest translation, in tokens.")]
Decodes = Annotated[int, typer.Option(min=1, help="Number of settings that tuning tries out by decoding.")]
Licence = Annotated[
    str,
    typer.Option(
        "--licence",
        "--license",
        callback=check_licence,
        help="Licence of the data, for the card, such as cc-by-4.0.",
    ),
]
PairsFile = Annotated[Path | None, typer.Option(help="Sentence pairs: a TSV with src_text and tgt_text (.gz too).")]

Seed = Annotated[int | None, typer.Option(help="Seed of weights, data order and dropout.")]
MaxEpochs = Annotated[int | None, typer.Option(help="Stop after this many passes over the data.")]
MaxUpdates = Annotated[int | None, typer.Option(help="Stop after this many updates.")]
LearningRate = Annotated[float | None, typer.Option(help="Peak learning rate.")]
Warmup = Annotated[int | None, typer.Option(help="Updates until the learning rate peaks.")]


def shows_progress(quiet: bool, verbose: bool, as_json: bool = False) -> bool:
    """Scripts that ask for JSON want no progress unless they say so; a quiet verb never shows any."""
    return not quiet and (verbose or not as_json)


def loading(model: str | Path, progress: bool) -> AbstractContextManager[None]:
    """Say that a model is being loaded, if that takes a while."""
    from npda.io.progress import SHORT, stage

    return stage(f"loading {model}", progress, SHORT)


def workers_for(
    ray: str | None, cpus: int | None, gpus: float | None, device: str = "auto", precision: Precisions = "auto"
) -> WorkersFor | None:
    """Whoever builds on the cluster that was given, if one was."""
    if ray is None:
        if cpus is not None or gpus is not None:
            raise InputError("--worker-cpus and --worker-gpus are for workers of a cluster: give --ray ADDRESS too.")
        return None
    if gpus is not None and not 0 < gpus <= _MOST_GPUS:
        raise InputError(f"--worker-gpus must lie above 0 and not above {_MOST_GPUS}, not {gpus:g}.")
    from functools import partial

    from npda.cluster.crew import ClusterOptions, crew

    return partial(crew, ClusterOptions(ray, cpus, gpus, device, precision))
