"""What an adaptation came to."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from npda.adapt.verdict import Judged
from npda.evaluation.devset import Way
from npda.evaluation.significance import Comparison
from npda.evaluation.tuning.search import Tuning
from npda.models.hub import pinned_name


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
    learned: what came of training a network that chooses k and λ token by token, if that was asked for; sides: the
    domain, and general sentences if there are any; seconds: by stage; found: stages an earlier call had done
    """

    model: Path
    aligned: Literal["no", "now", "before"]
    store: Path
    keys: int
    kind: str
    dropped: Dropped
    leaks: Path
    tuning: Tuning
    learned: dict[str, Any] | None
    unguarded: bool
    sides: tuple[Judged, ...]
    on: Literal["dev", "test"]
    voice: str
    language: str | None
    seconds: dict[str, float]
    found: tuple[str, ...]

    @property
    def adaptive(self) -> bool:
        """Whether k and λ are chosen token by token."""
        return bool(self.learned and self.learned["kept"])

    @property
    def domain(self) -> Judged:
        return self.sides[0]

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        return self.domain.comparisons

    @property
    def way(self) -> Way:
        return self.domain.way

    @property
    def sentences(self) -> int:
        return self.domain.sentences

    @property
    def warnings(self) -> list[str]:
        return [warning for side in self.sides for warning in side.warnings]

    @property
    def next_commands(self) -> tuple[str, str]:
        """What to type now: translate, and ask why."""
        language = ["--language", self.language] if self.language else []
        how = [*(["--adaptive"] if self.adaptive else []), *(["--unguarded"] if self.unguarded else [])]
        common = ["speech.wav", "--model", pinned_name(self.model), "--store", str(self.store), *language, *how]
        return (
            shlex.join(["npda", "translate", *common]),
            shlex.join(["npda", "explain", *common, "--html", "why.html"]),
        )

    def record(self) -> dict:
        """For scripts, as JSON."""
        return {
            "model": pinned_name(self.model),
            "aligned": self.aligned,
            "store": str(self.store),
            "keys": self.keys,
            "kind": self.kind,
            "voice": self.voice,
            "pairs": self.dropped.kept,
            "leaks": self.dropped.leaks,
            "leaks_file": str(self.leaks),
            "best": self.tuning.setting.record(),
            "adaptive": self.adaptive,
            "learned": self.learned,
            "unguarded": self.unguarded,
            "tuned_on": self.tuning.way,
            "judged_on": self.on,
            "way": self.way,
            "sentences": self.sentences,
            "comparisons": self.domain.record()["comparisons"],
            "sides": [side.record() for side in self.sides],
            "warnings": self.warnings,
            "seconds": self.seconds,
            "found": list(self.found),
            "next": list(self.next_commands),
        }
