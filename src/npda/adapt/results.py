"""What an adaptation came to."""

from __future__ import annotations

import shlex
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from npda.evaluation.devset import Way
from npda.evaluation.significance import Comparison
from npda.evaluation.tuning.objective import parameters
from npda.evaluation.tuning.search import Tuning


@dataclass(frozen=True)
class Dropped:
    """Pairs of the text that went into the store, and those that would have given away held-out sentences.

    digest: changes with which pairs were dropped
    """

    kept: int
    leaks: int
    digest: str


@dataclass(frozen=True)
class Adaptation:
    """A model, a store, and what they gain together.

    aligned: whether the text path was trained "now", "before", or there was "no" need to; on: the sentences judged by;
    way: how they went into the model; adaptive: whether k and λ are chosen token by token, not as tuned;
    seconds: by stage; found: stages an earlier call had done
    """

    model: Path
    aligned: Literal["no", "now", "before"]
    store: Path
    keys: int
    kind: str
    dropped: Dropped
    leaks: Path
    tuning: Tuning
    adaptive: bool
    comparisons: tuple[Comparison, ...]
    on: Literal["dev", "test"]
    way: Way
    sentences: int
    voice: str
    language: str | None
    seconds: dict[str, float]
    found: tuple[str, ...]

    @property
    def next_commands(self) -> tuple[str, str]:
        """What to type now: translate, and ask why."""
        language = ["--language", self.language] if self.language else []
        adaptive = ["--adaptive"] if self.adaptive else []
        common = ["speech.wav", "--model", str(self.model), "--store", str(self.store), *language, *adaptive]
        return (
            shlex.join(["npda", "translate", *common]),
            shlex.join(["npda", "explain", *common, "--html", "why.html"]),
        )

    def record(self) -> dict:
        """For scripts, as JSON."""
        return {
            "model": str(self.model),
            "aligned": self.aligned,
            "store": str(self.store),
            "keys": self.keys,
            "kind": self.kind,
            "voice": self.voice,
            "pairs": self.dropped.kept,
            "leaks": self.dropped.leaks,
            "leaks_file": str(self.leaks),
            "best": parameters(self.tuning.best),
            "adaptive": self.adaptive,
            "tuned_on": self.tuning.way,
            "judged_on": self.on,
            "way": self.way,
            "sentences": self.sentences,
            "comparisons": [
                {**asdict(c), "delta": c.delta, "significant": c.significant, "verdict": str(c)}
                for c in self.comparisons
            ],
            "seconds": self.seconds,
            "found": list(self.found),
            "next": list(self.next_commands),
        }
