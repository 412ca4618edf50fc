"""Learning from a dev set how near a followed key has to be."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from npda.datastore.retrieval.joined import JoinedRetriever
from npda.datastore.retrieval.local import LocalRetriever
from npda.datastore.store import Datastore
from npda.decoding.beam import SearchOptions
from npda.decoding.knn.combiners import Combiner
from npda.decoding.knn.following import FollowingFusion, FollowOptions
from npda.evaluation.devset import DevSet
from npda.evaluation.scores import bleu

SHARE = 0.55  # of the searches, that following is to save
STEP = 0.1  # so much less is tried where that is too much
CHANGED = 0.05  # share of the dev translations that may come out differently


@dataclass(frozen=True)
class Followed:
    """A dev set translated with one threshold.

    share: of the searches that were left out; changed: of the translations that are others than with every search;
    bleu: which a few changed ones move up or down by chance
    """

    options: FollowOptions
    share: float
    changed: float
    bleu: float


@dataclass(frozen=True)
class FollowTuning:
    """What was chosen, and everything that was decoded: first with every search, then with the fewest."""

    best: Followed
    decoded: tuple[Followed, ...]

    @property
    def full_bleu(self) -> float:
        return self.decoded[0].bleu


def tune_following(
    devset: DevSet,
    retriever: Datastore | LocalRetriever | JoinedRetriever,
    combiner: Combiner,
    search: SearchOptions = SearchOptions(),
    share: float = SHARE,
    changed: float = CHANGED,
    depth: int = 8,
) -> FollowTuning:
    """Save a share of the searches, or as many as leave the dev translations what they are but for a share ``changed``.

    BLEU would be the wrong judge: the few that change are better as often as worse, and of some hundred sentences it
    would count the luck. depth: see ``FollowOptions``
    """
    if not 0 <= share < 1:
        raise ValueError(f"the share of searches to save must lie between 0 and 1, not {share}")
    noting = _Noting(retriever, combiner, FollowOptions(-np.inf, depth))
    full = devset.translations(search, [noting])

    def judged(fusion: FollowingFusion, translations: list[str]) -> Followed:
        others = sum(text != before for text, before in zip(translations, full, strict=True)) / len(full)
        return Followed(fusion.options, fusion.share_followed, others, bleu(translations, devset.references).value)

    decoded = [judged(noting, full)]
    nearest = np.concatenate(noting.nearest)
    while share > 0 and not (len(decoded) > 1 and decoded[-1].changed <= changed):
        threshold = float(np.quantile(nearest, share, method="lower"))
        if np.isfinite(threshold):  # else there are fewer candidates than that
            fusion = FollowingFusion(retriever, combiner, FollowOptions(threshold, depth))
            decoded.append(judged(fusion, devset.translations(search, [fusion])))
        share -= STEP
    return FollowTuning(decoded[-1] if decoded[-1].changed <= changed else decoded[0], tuple(decoded))


class _Noting(FollowingFusion):
    """Follows never, and notes how near the candidates were."""

    def __init__(
        self, retriever: Datastore | LocalRetriever | JoinedRetriever, combiner: Combiner, options: FollowOptions
    ) -> None:
        super().__init__(retriever, combiner, options)
        self.nearest: list[np.ndarray] = []

    def near_enough(self, distances: np.ndarray) -> np.ndarray:
        self.nearest.append(distances.copy())
        return super().near_enough(distances)
