"""npda: text-only domain adaptation for end-to-end speech translation.

Everything below is imported when it is asked for. docs/extending.md shows how to write your own of each seam.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from npda.cascade import Cascade
    from npda.corpus.pairs import Pair
    from npda.datastore.retrieval.caching import CachingRetriever
    from npda.datastore.retrieval.joined import JoinedRetriever
    from npda.datastore.retrieval.local import LocalRetriever
    from npda.datastore.retrieval.protocol import Entry, ExplainableRetriever, Neighbours, Retriever
    from npda.datastore.source import BuildOptions, Source
    from npda.datastore.store import Datastore
    from npda.decoding.beam import SearchOptions
    from npda.decoding.fusion import EarlyFusion, Fusion
    from npda.decoding.knn.adaptive import AdaptiveCombiner
    from npda.decoding.knn.combiners import Combiner, KnnOptions, Retrieved, knn_weights
    from npda.decoding.knn.fast import FastFusion, FastRetriever
    from npda.decoding.knn.following import FollowingFusion
    from npda.decoding.knn.fusion import KnnFusion
    from npda.decoding.knn.guarded import GuardedFusion
    from npda.decoding.knn.skipping import SkippingFusion
    from npda.decoding.knn.tuned import tuned_combiner
    from npda.decoding.shallow import ShallowFusion
    from npda.io.errors import InputError
    from npda.models import load_backbone
    from npda.models.backbone import Backbone, LearnsToRead, Memory, Packed, Stream, Suppressed, Tokens
    from npda.models.torch_backbone import TorchBackbone
    from npda.translation import Translation
    from npda.translator import Translator

__version__ = "0.2.0"
__all__ = [
    "AdaptiveCombiner",
    "Backbone",
    "BuildOptions",
    "CachingRetriever",
    "Cascade",
    "Combiner",
    "Datastore",
    "EarlyFusion",
    "Entry",
    "ExplainableRetriever",
    "FastFusion",
    "FastRetriever",
    "FollowingFusion",
    "Fusion",
    "GuardedFusion",
    "InputError",
    "JoinedRetriever",
    "KnnFusion",
    "KnnOptions",
    "LearnsToRead",
    "LocalRetriever",
    "Memory",
    "Neighbours",
    "Packed",
    "Pair",
    "Retrieved",
    "Retriever",
    "SearchOptions",
    "ShallowFusion",
    "SkippingFusion",
    "Source",
    "Stream",
    "Suppressed",
    "Tokens",
    "TorchBackbone",
    "Translation",
    "Translator",
    "knn_weights",
    "load_backbone",
    "tuned_combiner",
]

_HOMES = {
    "npda.cascade": ("Cascade",),
    "npda.corpus.pairs": ("Pair",),
    "npda.datastore.retrieval.caching": ("CachingRetriever",),
    "npda.datastore.retrieval.joined": ("JoinedRetriever",),
    "npda.datastore.retrieval.local": ("LocalRetriever",),
    "npda.datastore.retrieval.protocol": ("Entry", "ExplainableRetriever", "Neighbours", "Retriever"),
    "npda.datastore.source": ("BuildOptions", "Source"),
    "npda.datastore.store": ("Datastore",),
    "npda.decoding.beam": ("SearchOptions",),
    "npda.decoding.fusion": ("EarlyFusion", "Fusion"),
    "npda.decoding.knn.adaptive": ("AdaptiveCombiner",),
    "npda.decoding.knn.combiners": ("Combiner", "KnnOptions", "Retrieved", "knn_weights"),
    "npda.decoding.knn.fast": ("FastFusion", "FastRetriever"),
    "npda.decoding.knn.following": ("FollowingFusion",),
    "npda.decoding.knn.fusion": ("KnnFusion",),
    "npda.decoding.knn.guarded": ("GuardedFusion",),
    "npda.decoding.knn.skipping": ("SkippingFusion",),
    "npda.decoding.knn.tuned": ("tuned_combiner",),
    "npda.decoding.shallow": ("ShallowFusion",),
    "npda.io.errors": ("InputError",),
    "npda.models": ("load_backbone",),
    "npda.models.backbone": ("Backbone", "LearnsToRead", "Memory", "Packed", "Stream", "Suppressed", "Tokens"),
    "npda.models.torch_backbone": ("TorchBackbone",),
    "npda.translation": ("Translation",),
    "npda.translator": ("Translator",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    """Import torch and everything else only when it is needed: ``npda --help`` answers at once."""
    if name not in _HOME_OF:
        raise AttributeError(f"module 'npda' has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
