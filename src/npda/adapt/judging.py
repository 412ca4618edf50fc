"""Translating the sentences that an adaptation is judged by: by the model alone, and with its store."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npda.adapt.verdict import Judged, Side, judge, keep_translations
from npda.corpus.manifest import Utterance
from npda.corpus.pairs import Pair
from npda.datastore.store import Datastore
from npda.decoding.beam import SearchOptions
from npda.decoding.knn.adaptive import AdaptiveCombiner
from npda.decoding.knn.fusion import KnnFusion
from npda.decoding.knn.guarded import GuardedFusion
from npda.evaluation.devset import DevSet, Way
from npda.evaluation.faults import StoreText
from npda.io.progress import bar, stage
from npda.stages.code import Code
from npda.stages.stage_cache import StageCache

if TYPE_CHECKING:
    from npda.models.backbone import Backbone

CODE = Code(("npda.evaluation.devset", "npda.decoding.knn", "npda.models"))


@dataclass(frozen=True)
class Sentences:
    """Held-out sentences, and which way they go into the model. digest: of their file and their voice"""

    given: Sequence[Utterance] | Sequence[Pair]
    way: Way
    digest: str


@dataclass(frozen=True)
class Judging:
    """Stages of an adaptation. search: of the model alone; samples: of the bootstrap; folder: for the translations"""

    backbone: Backbone
    language: str | None
    search: SearchOptions
    samples: int
    cache: StageCache
    folder: Path
    progress: bool

    def judge(
        self,
        side: Side,
        sentences: Sentences,
        store: Datastore,
        steering: KnnFusion | GuardedFusion,
        search: SearchOptions,
    ) -> Judged:
        """The model with the store beside the model alone. search: that goes with the store"""
        devset = DevSet(self.backbone, sentences.given, sentences.way, self.language)
        prefix = "" if side == "domain" else f"{side}-"
        identity: dict[str, Any] = {"model": self.backbone.model_digest(), "search": asdict(self.search)}
        identity |= {"sentences": [sentences.digest, sentences.way, self.language]}

        def translated(name: str, how: SearchOptions, *fusions: KnnFusion | GuardedFusion) -> list[str]:
            with bar(self.progress) as display:
                task = display.add_task(f"translating {side} sentences: {name}", total=len(devset), note="")
                return devset.translations(how, fusions, lambda done: display.advance(task, done))

        def recall(name: str, work: Any) -> list[str]:
            return self.cache.recall(f"{prefix}{name}", identity, CODE, list[str], work)

        base = adapted = recall("base", lambda: translated("model alone", self.search))
        if not steering.is_inactive:
            identity |= {"store": store.digest, "search": asdict(search), "knn": signature(steering)}
            adapted = recall("adapted", lambda: translated("with the store", search, steering))
        texts = {"references": devset.references, "alone": base, "adapted": adapted}
        keep_translations(self.folder, side, texts)
        with stage(f"judging {side} sentences", self.progress):
            text = StoreText.of(store)
            return judge(side, sentences.way, base, adapted, devset.references, text, self.samples)


def signature(steering: KnnFusion | GuardedFusion) -> list[str]:
    """What tells one way of steering from another, weights of a network and the counter-store included."""
    combiners, found = [], [str(steering)]
    if isinstance(steering, GuardedFusion):
        combiners = [store.combiner for store in steering.stores]
        found.append(str(getattr(steering.counter, "digest", "")))
    else:
        combiners = [steering.combiner]
    for combiner in combiners:
        if isinstance(combiner, AdaptiveCombiner):
            weights = hashlib.sha256()
            for tensor in combiner.state_dict().values():
                weights.update(tensor.numpy().tobytes())
            found.append(weights.hexdigest()[:16])
    return found
