"""What tuning chooses by: BLEU and chrF together, and what may not get worse for their sake."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from npda.decoding.knn.combiners import KnnOptions
from npda.evaluation.faults import Faults, StoreText, counted, find_faults, unrelated
from npda.evaluation.scores import bleu, chrf

# Share of the sentences that may go wrong beyond those of the model alone. An empty translation is never worth it.
ROOM = {"cut_short": 0.02, "looping": 0.02, "invented": 0.02, "empty": 0.0}
RATIO_ROOM = 0.05  # how much further than the model alone the length ratio may be from 1
# Points for every percent of the sentences beyond these bounds: no usual gain is worth much of it.
_PRICES = {"length_ratio": 2.0, "cut_short": 2.0, "looping": 2.0, "invented": 2.0, "empty": 2.0}


@dataclass(frozen=True)
class Setting:
    """All that tuning chooses.

    length_penalty: of the search; end_weight: how much the neighbours' votes for the end of the sentence count
    """

    knn: KnnOptions
    length_penalty: float = 0.6
    end_weight: float = 1.0

    def __str__(self) -> str:
        end = "" if self.end_weight == 1 else f"|end:{self.end_weight:g}"
        return f"{self.knn}|α:{self.length_penalty:g}{end}"

    def record(self) -> dict[str, float]:
        """As they are called in JSON."""
        return {**parameters(self.knn), "length_penalty": self.length_penalty, "end_weight": self.end_weight}


@dataclass(frozen=True)
class Outcome:
    """What the translations of a dev set are worth.

    invented: places of the sentences that are inventions; unrelated: of those that have nothing of their references
    """

    bleu: float
    chrf: float
    faults: Faults
    invented: frozenset[int] = frozenset()
    unrelated: frozenset[int] = frozenset()

    @classmethod
    def of(cls, translations: Sequence[str], references: Sequence[str], store: StoreText | None = None) -> Outcome:
        found = find_faults(translations, references, store)
        return cls(
            bleu(translations, references).value,
            chrf(translations, references).value,
            counted(found, translations, references),
            frozenset(found.get("invented", ())),
            frozenset(unrelated(translations, references)),
        )

    @property
    def mean(self) -> float:
        """Of BLEU and chrF."""
        return (self.bleu + self.chrf) / 2

    def beyond(self, base: Outcome) -> dict[str, float]:
        """By how many sentences each bound is exceeded, where one is; base: the model alone.

        One sentence is no excess in a small dev set, unless it is empty. A length ratio counts as if the missing words
        were whole sentences. An invention is one too many where the model alone had said something of the reference:
        elsewhere it has only exchanged one nothing for another.
        """
        ours, theirs = self.faults, base.faults
        found = {"length_ratio": (abs(1 - ours.length_ratio) - abs(1 - theirs.length_ratio) - RATIO_ROOM) * ours.n}
        for name, share in ROOM.items():
            more = (getattr(ours, name) or 0) - (getattr(theirs, name) or 0)
            if name == "invented":
                more = len(self.invented - base.unrelated)
            found[name] = more - (max(1.0, share * ours.n) if share else 0.0)
        return {name: excess for name, excess in found.items() if excess > 0}

    def value(self, base: Outcome) -> float:
        """The mean of BLEU and chrF, less the price of what lies beyond the bounds."""
        price = sum(_PRICES[name] * excess for name, excess in self.beyond(base).items())
        return self.mean - 100 * price / self.faults.n

    def record(self) -> dict:
        """For scripts, as JSON."""
        return {"bleu": round(self.bleu, 2), "chrf": round(self.chrf, 2), "faults": self.faults.record()}


@dataclass(frozen=True)
class Decoded:
    """A setting with which the dev set was translated."""

    setting: Setting
    outcome: Outcome

    @property
    def options(self) -> KnnOptions:
        return self.setting.knn

    @property
    def bleu(self) -> float:
        return self.outcome.bleu


def parameters(options: KnnOptions) -> dict[str, float]:
    """As they are called in JSON."""
    return {"k": options.k, "lambda": options.lambda_, "temperature": options.temperature}


def smoothed(value: float, beside: Sequence[float]) -> float:
    """A value with those of the neighbouring points, each of which counts half: one dev set is a small sample."""
    return (2 * value + sum(beside)) / (2 + len(beside))
