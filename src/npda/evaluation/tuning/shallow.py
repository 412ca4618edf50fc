"""Choosing the weight of a language model on held-out sentences, by translating them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from npda.corpus.manifest import Utterance
from npda.corpus.pairs import Pair
from npda.decoding.beam import SearchOptions
from npda.decoding.shallow import ShallowFusion
from npda.evaluation.devset import DevSet, Way
from npda.evaluation.scores import bleu
from npda.io.progress import bar
from npda.models.backbone import Backbone
from npda.models.language_model import LanguageModel

WEIGHTS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5)
_SMALLEST, _LARGEST = 0.005, 2.0  # no search beyond these


@dataclass(frozen=True)
class ShallowTuning:
    """What was chosen, and why.

    weight: β, 0 if no weight was better than the model alone; bleu, base_bleu: on dev, with it and without;
    decoded: (weight, BLEU) in the order of the search; skipped: sentences the model has no room for
    """

    weight: float
    bleu: float
    base_bleu: float
    decoded: tuple[tuple[float, float], ...]
    way: Way
    search: SearchOptions
    sentences: int
    skipped: int
    seconds: float

    def record(self) -> dict:
        """For scripts, as JSON."""
        return asdict(self)


def tune_shallow(
    backbone: Backbone,
    language_model: LanguageModel,
    sentences: Sequence[Utterance] | Sequence[Pair],
    way: Way = "speech",
    options: SearchOptions = SearchOptions(),
    weights: Sequence[float] = WEIGHTS,
    language: str | None = None,
    progress: bool = True,
) -> ShallowTuning:
    """Translate the sentences with every weight, and beyond the ends of the list while the best one lies there."""
    started = time.perf_counter()
    language_model.check(backbone.target)
    devset = DevSet(backbone, sentences, way, language)
    with bar(progress) as display:
        task = display.add_task("language model", total=(len(weights) + 1) * len(devset), note="")

        def decode(weight: float) -> float:
            display.update(task, note=f"weight {weight:g}")
            fusion = ShallowFusion(language_model, weight)
            texts = devset.translations(options, [fusion], lambda done: display.advance(task, done))
            return bleu(texts, devset.references).value

        base = decode(0.0)
        decoded = search_weight(decode, weights)
    # Of equally good weights the smallest, and of these the model alone.
    weight, best = max(((0.0, base), *decoded), key=lambda pair: (pair[1], -pair[0]))
    return ShallowTuning(
        weight=weight,
        bleu=best,
        base_bleu=base,
        decoded=tuple(decoded),
        way=way,
        search=options,
        sentences=len(devset),
        skipped=devset.skipped,
        seconds=time.perf_counter() - started,
    )


def search_weight(decode: Callable[[float], float], weights: Sequence[float]) -> list[tuple[float, float]]:
    """(weight, BLEU) of all weights and of those beyond an end that was best, until it no longer is."""
    scores = {weight: decode(weight) for weight in sorted(weights)}
    step = max(scores) - sorted(scores)[-2] if len(scores) > 1 else max(scores)
    while True:
        best = max(scores, key=lambda weight: (scores[weight], -weight))
        if best == max(scores) and best + step <= _LARGEST:
            further = round(best + step, 6)
        elif best == min(scores) and best / 2 >= _SMALLEST:
            further = best / 2
        else:
            return list(scores.items())
        scores[further] = decode(further)
