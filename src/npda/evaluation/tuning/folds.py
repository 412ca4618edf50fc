"""Whether a learned combiner is worth keeping: on sentences it was not trained on, beside the tuned constants."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from npda.datastore.retrieval.protocol import Retriever
from npda.decoding.knn.adaptive import AdaptiveCombiner
from npda.evaluation.devset import DevSet
from npda.evaluation.tuning.adaptive import learn_combiner, observe
from npda.evaluation.tuning.objective import Outcome
from npda.evaluation.tuning.search import Fuse, Tuning, plain, store_text
from npda.io.errors import InputError
from npda.io.progress import bar

FOLDS = 3


@dataclass(frozen=True)
class LearnedTuning:
    """A combiner that was trained on a dev set, and what combiners trained on the rest of it are worth on each fold.

    held_out, constants: on the same sentences, with the combiners and with k, λ and T as tuned; value, constants_value:
    what they are compared by; loss: nats a token where the combiner of the whole dev set stopped
    """

    combiner: AdaptiveCombiner
    held_out: Outcome
    constants: Outcome
    value: float
    constants_value: float
    loss: float
    folds: int

    @property
    def wins(self) -> bool:
        return self.value > self.constants_value

    def record(self) -> dict:
        """For scripts, as JSON."""
        options = self.combiner.options
        return {
            "kept": self.wins,
            "k": options.k,
            "temperature": options.temperature,
            "scale": options.scale,
            "loss": round(self.loss, 6),
            "folds": self.folds,
            "held_out": self.held_out.record(),
            "constants": self.constants.record(),
        }


def tune_learned(
    devset: DevSet,
    retriever: Retriever,
    tuning: Tuning,
    fuse: Fuse | None = None,
    folds: int = FOLDS,
    progress: bool = False,
) -> LearnedTuning:
    """Train a combiner that starts from tuned parameters: their T, and as many neighbours or the next power of two.

    Every fold is translated with a combiner trained on the others, which costs one translation of the dev set.

    devset: that was tuned on; fuse: as for ``tune``
    """
    if len(devset) < 2 * folds:
        raise InputError(
            f"{len(devset)} dev sentences are too few to judge a trained network by: give {2 * folds} or more."
        )
    fuse = fuse or plain(devset.backbone)
    k = 1 << (tuning.best.k - 1).bit_length()
    with bar(progress) as display:
        task = display.add_task("adaptive: looking up neighbours", total=2 * len(devset), note="")

        def advance(done: int) -> None:
            display.advance(task, done)

        observed = observe(devset, retriever, k, advance)
        texts = [""] * len(devset)
        for number, fold in enumerate(split(len(devset), folds), 1):
            display.update(task, description=f"adaptive: fold {number} of {folds}")
            others = observed.part(~torch.isin(observed.sentences, torch.from_numpy(fold)))
            combiner, _ = learn_combiner(others, tuning.best.temperature)
            fusion = fuse(retriever, combiner, tuning.setting)
            part = devset.part(fold.tolist())
            for place, text in zip(fold, part.translations(tuning.tuned_search, [fusion], advance), strict=True):
                texts[place] = text
        display.update(task, description="adaptive: training the network")
        combiner, found = learn_combiner(observed, tuning.best.temperature)
    held_out = Outcome.of(texts, devset.references, store_text(retriever))
    values = held_out.value(tuning.base), tuning.outcome.value(tuning.base)
    return LearnedTuning(combiner, held_out, tuning.outcome, *values, found.losses[found.best], folds)


def split(count: int, folds: int, seed: int = 0) -> list[np.ndarray]:
    """The places of as many sentences in so many folds, each drawn from everywhere: rising, and of about one size."""
    order = np.random.default_rng(seed).permutation(count)
    return [np.sort(order[fold::folds]) for fold in range(folds)]
