"""What corrections are worth: a domain sentence by sentence, each corrected as soon as it has been translated.

    python -m benchmarks.corrections --plot docs/corrections.png
    python -m benchmarks.corrections --only whisper-base --sentences 150 --window 50 --beam 1

For each hundred of the stream, BLEU of the model alone and with the store of all corrections made before each sentence:
first for parliament of the embedded corpus and the shipped model, then for dialogue of ``pico-de-en`` and whisper-base,
where NPDA_MODELS and NPDA_DATA say where these are. The store is the server's: keys over nothing, with k, λ and T by
the rule for stores that were never tuned, behind the usual gate. What it does to sentences of another domain, and to
sentences that are said again once they were corrected, is measured with all corrections at the end.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from benchmarks.harness import Line, Result, Skipped, arguments, report
from npda import audio
from npda.corpus import mini
from npda.corpus.manifest import Utterance, read_manifest
from npda.decoding.beam import SearchOptions
from npda.evaluation.scores import bleu
from npda.report.plots import PALETTE, save_png
from npda.serving.database import Database
from npda.serving.engine.asks import Way
from npda.serving.sample import make_sample
from npda.serving.settings import Settings
from npda.serving.stores.correcting import Wish, corrected
from npda.serving.stores.corrections import Corrections
from npda.serving.stores.library import StoreLibrary
from npda.translator import Translator

STORE = "corrections"


@dataclass(frozen=True)
class Stream:
    """name: of model and domain; domain: sentences in their order; others: of another domain"""

    name: str
    model: Path
    way: Way
    domain: Sequence[Utterance]
    others: Sequence[Utterance]


@dataclass(frozen=True)
class Point:
    """BLEU of a window that began after so many corrections: of the model alone, and with them."""

    corrections: int
    alone: float
    helped: float


class Desk:
    """Somebody who translates with a model and corrects what comes out, as on the server."""

    def __init__(self, stream: Stream, data: Path, options: Any) -> None:
        settings = Settings({stream.way.model: stream.model}, data)
        self.way = stream.way
        self.database = Database(data)
        self.kept = Corrections(self.database)
        self.library = StoreLibrary(settings, self.database, self.kept)
        self.translator = Translator.from_pretrained(stream.model, stream.way.source_language)
        self.search = SearchOptions(beam=options.beam)

    def alone(self, waves: Sequence[np.ndarray]) -> list[str]:
        return [str(found) for found in self.translator.translate_all(waves, self.search, self.way.language)]

    def helped(self, waves: Sequence[np.ndarray]) -> list[str]:
        """With all corrections so far."""
        if not self.kept.stores():
            return self.alone(waves)
        with self.library.held(self.translator, self.way.model, (STORE,)) as held:
            fusion = held.fusion(self.translator, self.way)
            found = self.translator.translate_all(
                waves, self.search, self.way.language, fusions=[fusion] if fusion else []
            )
            return [str(each) for each in found]

    def correct(self, wave: np.ndarray, text: str, heard: str) -> None:
        found = corrected(self.translator.backbone, Wish(wave, text, heard), self.way.language)
        self.kept.add(STORE, self.way.model, self.library.belongs(self.translator, self.way.model), "me", found)


def measure_one(stream: Stream, options: Any, points: list[Point]) -> Iterator[Result]:
    with TemporaryDirectory() as folder:
        desk = Desk(stream, Path(folder), options)
        started = time.perf_counter()
        waves = [audio.load(utterance.audio) for utterance in stream.domain]
        references = [utterance.tgt_text for utterance in stream.domain]
        alone, helped, seconds = desk.alone(waves), [], 0.0
        for place, (wave, utterance) in enumerate(zip(waves, stream.domain, strict=True), start=1):
            helped += desk.helped([wave])
            since = time.process_time()
            desk.correct(wave, utterance.tgt_text, utterance.src_text or "-")
            seconds += time.process_time() - since
            if place % options.window == 0:
                window = slice(place - options.window, place)
                base, ours = (bleu(texts[window], references[window]).value for texts in (alone, helped))
                points.append(Point(place - options.window, base, ours))
                name = f"{stream.name}: BLEU gained, corrections {place - options.window}–{place}"
                yield Line(name, ours - base, note=f"alone {base:.1f}, corrected {ours:.1f}")
        base, ours = bleu(alone, references).value, bleu(helped, references).value
        yield Line(f"{stream.name}: BLEU gained, all", ours - base, note=f"alone {base:.1f}, corrected {ours:.1f}")
        again = desk.helped(waves)
        right = np.mean([" ".join(a.split()) == " ".join(b.split()) for a, b in zip(again, references, strict=True)])
        vocabulary = desk.translator.backbone.target
        unwritten = sum(vocabulary.decode(vocabulary.encode(text)) != text for text in references)
        note = f"{len(references)} sentences; {unwritten} have letters that the model cannot write"
        yield Line(f"{stream.name}: come out right when said again, share", float(right), note=note)
        others = [audio.load(utterance.audio) for utterance in stream.others]
        wanted = [utterance.tgt_text for utterance in stream.others]
        plain, steered = desk.alone(others), desk.helped(others)
        before, after = bleu(plain, wanted).value, bleu(steered, wanted).value
        changed = sum(a != b for a, b in zip(plain, steered, strict=True))
        note = f"{before:.1f} → {after:.1f}, {changed} of {len(others)} changed"
        yield Line(f"{stream.name}: BLEU lost by another domain", before - after, note=note)
        yield Line(
            f"{stream.name}: processor ms a correction", 1000 * seconds / len(waves),
            note=f"{len(waves)} corrections, {time.perf_counter() - started:.0f} s for all",
        )  # fmt: skip
        desk.database.close()


def streams(options: Any, folder: Path) -> Iterator[Stream | Skipped]:
    if options.only in (None, "mini"):
        corpus = mini.prepare(progress=False, only=[("parliament", "test"), ("general", "test")])
        domain, others = (read_manifest(corpus.manifest(name, "test")) for name in ("parliament", "general"))
        model = make_sample(folder, progress=False).model  # with a counter-store
        way = Way("mini", "en", "de", (STORE,))
        yield Stream("mini", model, way, domain[: options.sentences], others[: options.others])
    if options.only in (None, "whisper-base"):
        model = Path(os.environ.get("NPDA_MODELS", "models")) / "whisper-base"
        data = Path(os.environ.get("NPDA_DATA", "data")) / "pico-de-en"
        for path, variable in ((model, "NPDA_MODELS"), (data, "NPDA_DATA")):
            if not path.is_dir():
                yield Skipped("corrections, whisper-base", f"there is no {path}: set {variable}")
                return
        domain, others = (read_manifest(data / name / "test.tsv") for name in ("dialogue", "tatoeba"))
        way = Way("whisper-base", "de", "en", (STORE,))
        yield Stream("whisper-base", model, way, domain[: options.sentences], others[: options.others])


def measure(options: Any) -> Iterator[Result]:
    found: dict[str, list[Point]] = {}
    with TemporaryDirectory() as folder:
        for stream in streams(options, Path(folder)):
            if isinstance(stream, Skipped):
                yield stream
                continue
            yield from measure_one(stream, options, found.setdefault(stream.name, []))
            if options.plot is not None:
                draw(found, options.plot)


def draw(found: dict[str, list[Point]], path: Path) -> None:
    def lines(axes: Any) -> None:
        for (name, points), style in zip(found.items(), ("-", "--"), strict=False):
            counts = [point.corrections for point in points]
            for colour, kind in (("store", "helped"), ("model", "alone")):
                values = [getattr(point, kind) for point in points]
                label = f"{name}, {'corrected' if kind == 'helped' else 'alone'}"
                axes.plot(counts, values, style, color=PALETTE[colour], marker="o", markersize=4, label=label)
        axes.set_xlabel("corrections")
        axes.set_ylabel("BLEU of what comes next")
        axes.set_ylim(bottom=0)
        axes.legend(frameon=False)

    save_png(lines, path)


def main() -> bool:
    parser = arguments(__doc__, repeats=1)
    parser.add_argument("--sentences", type=int, default=400, help="of the domain")
    parser.add_argument("--window", type=int, default=100, help="sentences that are scored together")
    parser.add_argument("--others", type=int, default=100, help="sentences of another domain")
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--only", choices=("mini", "whisper-base"))
    parser.add_argument("--plot", type=Path, help="file for the plot")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    return report("corrections", lambda: measure(options), options.json)


if __name__ == "__main__":
    sys.exit(not main())
