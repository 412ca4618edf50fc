"""The kNN variants that the paper names as drop-ins. Each uses a store and the parameters tuned for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from npda.corpus.manifest import Utterance
from npda.datastore.compress import CompressOptions, compress
from npda.datastore.pruning import PruneOptions
from npda.datastore.store import Datastore
from npda.decoding.beam import SearchOptions
from npda.decoding.fusion import Fusion
from npda.decoding.knn.combiners import KnnOptions
from npda.decoding.knn.fast import FastFusion, FastRetriever
from npda.decoding.knn.following import FollowingFusion
from npda.decoding.knn.fusion import KnnFusion
from npda.evaluation.devset import DevSet
from npda.evaluation.tuning.adaptive import tune_adaptive
from npda.evaluation.tuning.following import tune_following
from npda.models.backbone import Backbone

KEPT = 0.5  # share of the keys that pruning is to leave
SMALLER = "store"  # in the variant's folder: the store it searches instead of the one it was given

Figures = Callable[[], dict[str, float]]  # what a variant has saved; call it after decoding


def variant_fusion(
    variant: str,
    backbone: Backbone,
    store: Datastore,
    tuned: KnnOptions,
    dev: Sequence[Utterance],
    search: SearchOptions,
    language: str | None,
    folder: Path,
) -> tuple[Fusion, Figures]:
    """The fusion of a variant. dev: what it may learn from; folder: where a smaller store is written, or found again"""
    match variant:
        case "adaptive":
            tuning = tune_adaptive(DevSet(backbone, dev, "speech", language), store, tuned, search)
            return KnnFusion(store, tuning.combiner), dict
        case "pca" | "pruned":
            options = CompressOptions(dim=max(1, store.dim // 2), progress=False)
            if variant == "pruned":
                options = CompressOptions(prune=PruneOptions(keep=KEPT), progress=False)
            path = folder / SMALLER
            smaller = Datastore.open(path) if path.is_dir() else compress(store, path, options)
            share = smaller.sizes()["total"] / store.sizes()["total"]
            return KnnFusion(smaller, tuned), lambda: {"share of the bytes": share}
        case "skipping":
            chosen = tune_following(DevSet(backbone, dev, "speech", language), store, tuned, search)
            following = FollowingFusion(store, tuned, chosen.best.options)
            return following, lambda: {"share of searches skipped": following.share_followed}
        case "fast":
            retriever = FastRetriever(store)
            return FastFusion(retriever, tuned), lambda: {"share of keys searched": retriever.share_searched}
        case _:
            return KnnFusion(store, tuned), dict
