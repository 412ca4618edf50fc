"""npda tune: how many neighbours, how much to trust them, and how sharply."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from npda.cli.options import (
    AsJson,
    Decodes,
    Device,
    Language,
    MaxLength,
    Model,
    Precision,
    Quiet,
    SourceLanguage,
    Verbose,
    loading,
    shows_progress,
)
from npda.io.errors import InputError
from npda.io.terminal import open_console

if TYPE_CHECKING:
    from rich.table import Table

    from npda.evaluation.tuning.folds import LearnedTuning
    from npda.evaluation.tuning.objective import Outcome
    from npda.evaluation.tuning.search import Tuning


def tune(
    model: Model,
    store: Annotated[Path, typer.Option(help="Datastore to tune; it keeps the result.")],
    speech: Annotated[Path | None, typer.Option(help="Manifest of in-domain dev speech.")] = None,
    text: Annotated[
        Path | None, typer.Option(help="Held-out in-domain pairs (.tsv); use this if you have no dev speech.")
    ] = None,
    general: Annotated[
        Path | None,
        typer.Option(
            help="General sentences (a manifest or pairs) that the store must not spoil [default: those held out of "
            "the model's counter-store]."
        ),
    ] = None,
    unguarded: Annotated[
        bool, typer.Option("--unguarded", help="Tune as in the paper, without a gate that leaves general speech alone.")
    ] = False,
    beam: Annotated[int, typer.Option(min=1, help="Beam size that translation will use.")] = 5,
    length_penalty: Annotated[
        float | None, typer.Option(help="α in score / length^α [default: the best of 0.6, 1.0 and 1.4].")
    ] = None,
    max_length: MaxLength = 200,
    decodes: Decodes = 10,
    language: Language = None,
    source_language: SourceLanguage = None,
    adaptive: Annotated[
        bool,
        typer.Option(
            "--adaptive",
            help="Also train a network that chooses k and λ for every token; kept if it wins on held-out folds.",
        ),
    ] = False,
    plot: Annotated[Path | None, typer.Option(help="Picture of the λ × T map to write (.png).")] = None,
    as_json: AsJson = False,
    device: Device = "auto",
    precision: Precision = "auto",
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Choose k, λ and T of a datastore on held-out sentences of its domain.

    Compares all settings of the paper's grid by the likelihood of the reference translations, decodes with the most
    promising ones, and keeps the best in the datastore, where translation finds it, with the length penalty that suits
    it. The best has the highest mean of BLEU and chrF, smoothed over the λ beside it, among settings that cut no more
    sentences short, and send no more into loops, than the model alone does (2 % of the sentences are allowed for).

    If the model has a counter-store, the gate of the store is fitted as well, so that the store may stay on, and what
    it costs general sentences is measured and kept with it. Give --general speech if you tune on speech.

    Examples:

        npda tune --model runs/demo/model --store runs/demo/stores/parliament-text \\
            --text runs/demo/data/domain-dev.tsv

        npda tune --model runs/demo/model --store runs/demo/stores/parliament-text \\
            --speech runs/demo/data/dev.tsv --plot map.png

        npda tune --model runs/demo/model --store runs/demo/stores/parliament-text \\
            --speech runs/demo/data/dev.tsv --adaptive
    """
    if (speech is None) == (text is None):
        raise InputError("Give either --speech, a manifest, or --text, pairs: the sentences to tune on.")
    if plot is not None and plot.suffix != ".png":
        raise InputError(f"The picture is a PNG: call it {plot.with_suffix('.png')}.")

    from npda.corpus.manifest import read_manifest
    from npda.corpus.pairs import read_pairs
    from npda.datastore.store import Datastore
    from npda.decoding.beam import SearchOptions
    from npda.evaluation.tuning.climb import Space
    from npda.evaluation.tuning.guard import guarding_for
    from npda.evaluation.tuning.save import gated
    from npda.evaluation.tuning.search import LENGTH_PENALTIES
    from npda.evaluation.tuning.search import tune as run
    from npda.models import load_backbone
    from npda.models.hub import model_directory

    sentences = read_manifest(speech) if speech is not None else read_pairs(text or "")
    Datastore.open(store)  # looked at first: a model takes its time to load
    progress = shows_progress(quiet, verbose, as_json)
    with loading(model, progress):
        backbone = load_backbone(model, source_language, device, precision)
    opened = Datastore.open(store, backbone)
    for wanted in {sentence.tgt_lang or language for sentence in sentences}:
        opened.check(backbone, wanted)
    space = Space(length_penalties=LENGTH_PENALTIES if length_penalty is None else ())
    options = SearchOptions(beam, LENGTH_PENALTIES[0] if length_penalty is None else length_penalty, max_length)
    way = "speech" if speech is not None else "text"
    directory = model_directory(model)
    guarding = None if unguarded else guarding_for(backbone, directory, opened, general, way, options, language)
    tuning = run(backbone, opened, sentences, way, options, decodes, space, language, progress, guarding=guarding)
    kept = gated(tuning, guarding, progress)
    kept.save(opened)
    fitted = kept.gate
    learned = None
    if adaptive:
        from npda.decoding.knn.adaptive import remove_adaptive, save_adaptive
        from npda.evaluation.devset import DevSet
        from npda.evaluation.tuning.folds import tune_learned

        devset, fuse = DevSet(backbone, sentences, way, language), guarding.fuse if guarding else None
        learned = tune_learned(devset, opened, tuning, fuse, progress=progress)
        if learned.wins:
            save_adaptive(store, learned.combiner, opened.digest)
        else:
            remove_adaptive(store)
    if plot is not None:
        from npda.report.tuning_plot import plot_tuning

        plot_tuning(tuning, plot)
    if as_json:
        record = tuning.record() | ({"adaptive": learned.record()} if learned else {})
        record |= {"guard": fitted.model_dump(exclude={"format"})} if fitted else {}
        print(json.dumps(record, ensure_ascii=False))
    else:
        _print(tuning, store, learned)
        if fitted:
            print("\n".join(fitted.lines()))


def _print(tuning: Tuning, store: Path, learned: LearnedTuning | None) -> None:

    console = open_console()
    console.print(_map(tuning))
    console.print(_decoded(tuning))
    best = tuning.best
    lines = [f"{tuning.sentences} dev sentences ({tuning.way}), {tuning.seconds:.0f} s, beam {tuning.search.beam}"]
    if tuning.skipped:
        lines.append(f"{tuning.skipped} sentences left out: they are empty, or too long for the model")
    if tuning.factor != 1:
        lines.append(
            f"temperatures {tuning.factor:g} times the paper's, as the 8th neighbour lies at {tuning.scale:.3g}"
        )
    if best.lambda_ == 0:
        lines.append("The datastore does not help on these sentences: λ is 0, the model alone.")
    end = "" if tuning.end_weight == 1 else f", weight of end votes {tuning.end_weight:g}"
    lines.append(
        f"best: k {best.k}, λ {best.lambda_:g}, T {best.temperature:g}, "
        f"length penalty {tuning.length_penalty:g}{end} (kept in {store})"
    )
    base, ours = tuning.base, tuning.outcome
    lines.append(
        f"dev BLEU: {base.bleu:.2f} → {ours.bleu:.2f} ({ours.bleu - base.bleu:+.2f}), "
        f"chrF: {base.chrf:.2f} → {ours.chrf:.2f} ({ours.chrf - base.chrf:+.2f})"
    )
    if beyond := ours.beyond(base):
        lines.append(f"Warning: more than the model alone has, beyond the bounds: {_named(beyond)}.")
    if learned is not None:
        found, constants = (f"{o.bleu:.2f} BLEU, {o.chrf:.2f} chrF" for o in (learned.held_out, learned.constants))
        verdict = "kept (translate --adaptive)" if learned.wins else "not kept, as it is not better"
        lines.append(f"adaptive: {found} on held-out folds of dev, the constants {constants}: {verdict}")
        if beyond := learned.held_out.beyond(base):
            lines.append(f"adaptive goes beyond the bounds: {_named(beyond)}")
    for line in lines:
        console.print(line, highlight=False, soft_wrap=True)


def _map(tuning: Tuning) -> Table:
    """Rows λ, columns T, the log-likelihood in a colour from red to green."""
    from rich.table import Table
    from rich.text import Text

    k = tuning.best.k
    plane = tuning.plane(k)
    temperatures = sorted({temperature for _, temperature in plane})
    low, high = sorted(plane.values())[len(plane) // 10], max(plane.values())
    decoded = {(d.options.lambda_, d.options.temperature) for d in tuning.decoded if d.options.k == k}
    table = Table("λ \\ T", title=f"log-likelihood a token, k = {k} (• decoded)", padding=(0, 0))
    for temperature in temperatures:
        table.add_column(f"{temperature:g}", justify="right")
    for lambda_ in sorted({lambda_ for lambda_, _ in plane}, reverse=True):
        cells = []
        for temperature in temperatures:
            value = plane[lambda_, temperature]
            mark = "•" if (lambda_, temperature) in decoded else " "
            cells.append(Text(f" {value:.3f}{mark}", style=f"black on {_colour((value - low) / ((high - low) or 1))}"))
        table.add_row(f"{lambda_:g}", *cells)
    return table


def _colour(share: float) -> str:
    """0 red, ½ yellow, 1 green."""
    share = min(max(share, 0.0), 1.0)
    red, green = min(1.0, 2 - 2 * share), min(1.0, 2 * share)
    return f"rgb({90 + round(150 * red)},{90 + round(130 * green)},90)"


def _decoded(tuning: Tuning) -> Table:
    from rich.table import Table

    columns = ("k", "λ", "T", "α", "end", "BLEU", "chrF", "length", "cut short", "empty", "loops", "invented")
    table = Table(*columns, title="decoded (! beyond the bounds)", padding=(0, 0))
    table.add_row("–", "0", "–", f"{tuning.search.length_penalty:g}", "–", *_figures(tuning.base, tuning.base))
    for point in tuning.decoded:
        setting, options = point.setting, point.options
        style = "bold green" if setting == tuning.setting else None
        how = (options.lambda_, options.temperature, setting.length_penalty, setting.end_weight)
        figures = _figures(point.outcome, tuning.base)
        table.add_row(str(options.k), *(f"{value:g}" for value in how), *figures, style=style)
    return table


def _figures(outcome: Outcome, base: Outcome) -> list[str]:
    """Scores and faults, those beyond the bounds marked."""
    faults, beyond = outcome.faults, outcome.beyond(base)
    shown = {"length_ratio": f"{faults.length_ratio:.2f}"}
    for name in ("cut_short", "empty", "looping", "invented"):
        count = getattr(faults, name)
        shown[name] = "–" if count is None else str(count)
    marked = [f"{text}!" if name in beyond else text for name, text in shown.items()]
    return [f"{outcome.bleu:.2f}", f"{outcome.chrf:.2f}", *marked]


def _named(beyond: Iterable[str]) -> str:
    return ", ".join(name.replace("_", " ") for name in beyond)
