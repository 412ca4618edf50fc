"""What an adaptation gains in its domain, and what it costs: there, and where people speak of something else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from npda.evaluation.devset import Way
from npda.evaluation.faults import Faults, StoreText
from npda.evaluation.significance import Comparison, compare
from npda.evaluation.tuning.objective import Outcome
from npda.io.files import write_lines

Side = Literal["domain", "general"]

# In the order they are shown: the names of faults, and what is said of so many outputs.
FAULTS = {
    "cut_short": "are cut short (under 60 % of the reference's words)",
    "empty": "are empty",
    "looping": "are caught in a loop",
    "copies": "are sentences of the store that the reference is not",
    "invented": "are taken from the store, with nothing of the reference in them",
}
_RATIO_SEEN = 0.01  # differences of the length ratio that two decimals do not show are none


@dataclass(frozen=True)
class Judged:
    """Sentences of the domain, or general ones, translated by the model alone and as adapted.

    way: how they went into the model; comparisons: BLEU and chrF, by paired bootstrap resampling
    """

    side: Side
    way: Way
    alone: Outcome
    adapted: Outcome
    comparisons: tuple[Comparison, ...]

    @property
    def sentences(self) -> int:
        return self.alone.faults.n

    @property
    def warnings(self) -> list[str]:
        """A sentence for everything that is worse than with the model alone."""
        ours, theirs = self.adapted.faults, self.alone.faults
        found = [
            f"{c.metric} falls from {c.baseline_value:.2f} to {c.value:.2f} (p = {c.p_value:.4f}"
            f"{'' if c.significant else ', which may be chance'})"
            for c in self.comparisons
            if c.delta < 0
        ]
        if _off(ours) > _off(theirs) + _RATIO_SEEN:
            found.append(
                f"outputs have {ours.length_ratio:.2f} words for each of the references, {theirs.length_ratio:.2f} "
                "by the model alone"
            )
        for name, said in FAULTS.items():
            count, before = getattr(ours, name), getattr(theirs, name)
            if count is not None and count > before:
                found.append(f"{count} of {self.sentences} outputs {said}, {before} of the model alone")
        return [f"Warning: {self.side} sentences: {sentence}." for sentence in found]

    def record(self) -> dict:
        """For scripts, as JSON."""
        return {
            "side": self.side,
            "way": self.way,
            "sentences": self.sentences,
            "alone": self.alone.record(),
            "adapted": self.adapted.record(),
            "comparisons": [
                {**asdict(c), "delta": c.delta, "significant": c.significant, "verdict": str(c)}
                for c in self.comparisons
            ],
            "warnings": self.warnings,
        }


def judge(
    side: Side,
    way: Way,
    alone: Sequence[str],
    adapted: Sequence[str],
    references: Sequence[str],
    store: StoreText,
    samples: int = 1000,
) -> Judged:
    """Score both systems, count what goes wrong with them, and test whether they differ."""
    before, after = Outcome.of(alone, references, store), Outcome.of(adapted, references, store)
    return Judged(side, way, before, after, tuple(compare(adapted, alone, references, samples=samples)))


def keep_translations(folder: Path, side: Side, texts: Mapping[str, Sequence[str]]) -> None:
    """Text files with a sentence per line: FOLDER/SIDE.SYSTEM.txt. texts: by system"""
    for system, lines in texts.items():
        write_lines(folder / f"{side}.{system}.txt", [" ".join(line.split()) for line in lines])


def _off(faults: Faults) -> float:
    """How far the outputs are from the references' length."""
    return abs(1 - faults.length_ratio)
