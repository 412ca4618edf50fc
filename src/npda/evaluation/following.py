"""Learning from a dev set how near a followed key has to be."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from npda.datastore.retrieval import JoinedRetriever, LocalRetriever
from npda.datastore.store import Datastore
from npda.decoding.beam import SearchOptions
from npda.decoding.following import FollowingFusion, FollowOptions
from npda.decoding.knn import Combiner
from npda.evaluation.devset import DevSet
from npda.evaluation.scores import bleu

SHARES = 0.2, 0.3, 0.4, 0.5, 0.6, 0.65, 0.7, 0.75, 0.8  # of the searches, that following may save


@dataclass(frozen=True)
class Followed:
    """A dev set translated with one threshold. share: of the searches that were left out"""

    options: FollowOptions
    share: float
    bleu: float


@dataclass(frozen=True)
class FollowTuning:
    """What was chosen, and everything that was decoded: first with every search, then with ever fewer."""

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
    loss: float = 0.1,
    depth: int = 4,
) -> FollowTuning:
    """Follow as often as costs no more than so much BLEU on dev.

    depth: see ``FollowOptions``
    """
    noting = _Noting(retriever, combiner, FollowOptions(-np.inf, depth))
    decoded = [_decoded(devset, noting, search)]
    nearest = np.concatenate(noting.nearest)
    for share in SHARES:
        threshold = float(np.quantile(nearest, share, method="lower"))
        if np.isfinite(threshold):  # else there are fewer candidates than that
            fusion = FollowingFusion(retriever, combiner, FollowOptions(threshold, depth))
            decoded.append(_decoded(devset, fusion, search))
    return FollowTuning(cheapest(decoded, loss), tuple(decoded))


def cheapest(decoded: list[Followed], loss: float) -> Followed:
    """The one with the fewest searches among those that have lost no more than so much BLEU.

    Lost to the best of all: other neighbours make some translations better and some worse, and were it lost to those
    with every search, luck on dev would be spent on searches that are missed elsewhere.
    """
    enough = max(followed.bleu for followed in decoded) - loss
    return max((followed for followed in decoded if followed.bleu >= enough), key=lambda followed: followed.share)


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


def _decoded(devset: DevSet, fusion: FollowingFusion, search: SearchOptions) -> Followed:
    translations = devset.translations(search, [fusion])
    return Followed(fusion.options, fusion.share_followed, bleu(translations, devset.references).value)
