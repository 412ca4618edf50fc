"""Learning from a dev set how many neighbours to believe (Zheng et al. 2021), and where to ask for none (He et al.)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from npda.datastore.retrieval.protocol import Retriever
from npda.decoding.beam import SearchOptions
from npda.decoding.fusion import Fusion
from npda.decoding.knn.adaptive import AdaptiveCombiner, AdaptiveOptions
from npda.decoding.knn.combiners import KnnOptions
from npda.decoding.knn.fusion import KnnFusion
from npda.decoding.knn.skipping import LearnedGate, SkippingFusion, signs
from npda.evaluation.devset import DevSet
from npda.evaluation.scores import bleu
from npda.evaluation.tuning.fitting import Fit, FitOptions, fit
from npda.evaluation.tuning.likelihood import DevNeighbours, forced
from npda.io.errors import InputError
from npda.io.progress import bar
from npda.models.devices import follow

SHARES = 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9  # of the searches, that a gate may skip
_LEAST = 1e-12  # a probability whose logarithm is still a number
_GAINS = (-1.0, 6.0)  # nats: what lies beyond would outweigh all the rest


@dataclass(frozen=True)
class Observations:
    """What there is to learn from: every position of a dev set, its reference forced on the decoder.

    sentences: [positions] to which one each belongs; states: [positions, dim]; certainty: [positions, SIGNS];
    p_model: [positions] of the reference token; distances, values: [positions, k]; right: [positions, k] whether a
    value is the reference
    """

    sentences: Tensor
    states: Tensor
    certainty: Tensor
    p_model: Tensor
    distances: Tensor
    values: Tensor
    right: Tensor

    def part(self, chosen: Tensor) -> Observations:
        """Some of the positions. chosen: [positions] bool"""
        return Observations(*(getattr(self, field.name)[chosen] for field in fields(self)))

    @property
    def scale(self) -> float:
        """The median squared distance to the 8th neighbour."""
        return DevNeighbours(self.p_model, self.distances.double(), self.right).scale

    def mixture(self, combiner: Callable[[Tensor, Tensor], tuple[Tensor, float | Tensor]], positions: Tensor) -> Tensor:
        """p of the reference tokens (eq. 5) with a combiner. positions: [n] → [n]"""
        distances, p_model = self.distances[positions], self.p_model[positions]
        weights, lambda_ = combiner(distances, self.values[positions])
        p_knn = (weights * self.right[positions]).sum(dim=1)
        lambda_ = lambda_[:, 0] if isinstance(lambda_, Tensor) else lambda_
        return torch.where(distances[:, 0].isinf(), p_model, lambda_ * p_knn + (1 - lambda_) * p_model)


def observe(
    devset: DevSet, retriever: Retriever, k: int, advance: Callable[[int], None] = lambda done: None
) -> Observations:
    """Ask the store once for the k neighbours of every state of a dev set."""
    rows: list[tuple[Tensor, ...]] = []
    for batch in forced(devset):
        found = retriever.search(batch.states.numpy(), k)
        values = torch.from_numpy(found.values).long()
        lengths = torch.tensor([len(devset.examples[place].target) for place in batch.places])
        rows.append((
            torch.tensor(batch.places).repeat_interleave(lengths),
            batch.states,
            signs(batch.states, batch.log_probs),
            batch.log_probs.gather(1, batch.references[:, None])[:, 0].exp(),
            torch.from_numpy(found.distances),
            values,
            values == batch.references[:, None],
        ))  # fmt: skip
        advance(len(batch.places))
    # Tensors made in inference mode cannot take part in training: copies can.
    observed = Observations(*(torch.cat(column).clone() for column in zip(*rows, strict=True)))
    if observed.distances[:, 0].isinf().all():
        raise InputError("The datastore holds no keys: there is nothing to learn.")
    return observed


def learn_combiner(
    observed: Observations, temperature: float, options: FitOptions = FitOptions()
) -> tuple[AdaptiveCombiner, Fit]:
    """Train a combiner to make the references likely: cross-entropy of the whole mixture.

    observed: with as many neighbours as it may believe; temperature: T, which is not learned
    """
    torch.manual_seed(options.seed)
    k, scale = observed.distances.shape[1], observed.scale or 1.0
    combiner = AdaptiveCombiner(AdaptiveOptions(k, temperature, scale))

    def loss(positions: Tensor) -> Tensor:
        return -observed.mixture(combiner, positions).clamp(min=_LEAST).log()

    return combiner, fit(combiner, loss, observed.sentences, options)


@dataclass(frozen=True)
class AdaptiveTuning:
    """A combiner and its scores. bleu: on dev, where it was trained; loss, first_loss: nats a token on the dev
    sentences it was not trained on, at the end and before training
    """

    combiner: AdaptiveCombiner
    bleu: float
    loss: float
    first_loss: float
    epochs: int

    def record(self) -> dict:
        """For scripts, as JSON."""
        options = self.combiner.options
        parameters = {"k": options.k, "temperature": options.temperature, "scale": options.scale}
        losses = {"loss": round(self.loss, 6), "first_loss": round(self.first_loss, 6), "epochs": self.epochs}
        return {**parameters, "bleu": round(self.bleu, 2), **losses}


def tune_adaptive(
    devset: DevSet,
    retriever: Retriever,
    tuned: KnnOptions,
    search: SearchOptions = SearchOptions(),
    progress: bool = False,
) -> AdaptiveTuning:
    """Train a combiner that starts from tuned parameters: their T, and as many neighbours or the next power of two."""
    k = 1 << (tuned.k - 1).bit_length()
    with bar(progress) as display:
        task = display.add_task("adaptive: looking up neighbours", total=2 * len(devset), note="")

        def advance(done: int) -> None:
            display.advance(task, done)

        observed = observe(devset, retriever, k, advance)
        display.update(task, description="adaptive: training the network")
        combiner, found = learn_combiner(observed, tuned.temperature)
        display.update(task, description="adaptive: translating dev")
        translations = devset.translations(search, [KnnFusion(retriever, combiner)], advance)
    value = bleu(translations, devset.references).value
    return AdaptiveTuning(combiner, value, found.losses[found.best], found.losses[0], len(found.losses) - 1)


def learn_gate(
    observed: Observations, combiner: KnnOptions | AdaptiveCombiner, skip: float, options: FitOptions = FitOptions()
) -> tuple[LearnedGate, Fit]:
    """Train a gate that lets the search be skipped at a given share of the positions, where it is missed the least.

    It learns what the neighbours bring, log p(reference) of the mixture less that of the model alone. (He et al. learn
    λ; a λ near 1 nearly everywhere, as a foreign domain asks for, says nothing of which searches matter.)

    combiner: whose mixture it is
    """
    if not 0 <= skip <= 1:
        raise ValueError(f"the share to skip must lie between 0 and 1, not {skip}")
    torch.manual_seed(options.seed)
    gate = LearnedGate(observed.states.shape[1])
    mixture = observed.mixture(combiner.weigh, torch.arange(len(observed.p_model))).clone()
    gains = (mixture.clamp(min=_LEAST).log() - observed.p_model.clamp(min=_LEAST).log()).clamp(*_GAINS)

    def loss(positions: Tensor) -> Tensor:
        return (gate(observed.states[positions], observed.certainty[positions]) - gains[positions]).square()

    found = fit(gate, loss, observed.sentences, options)
    set_share(gate, observed, skip)
    return gate, found


@torch.no_grad()
def set_share(gate: LearnedGate, observed: Observations, skip: float) -> None:
    """Let a gate skip another share of the positions."""
    follow(gate, observed.states)
    gate.threshold.copy_(torch.quantile(gate(observed.states, observed.certainty), skip))


@dataclass(frozen=True)
class GateTuning:
    """A gate and its scores on dev. share: of the positions it skips, 0 if none may be; bleu, full_bleu: with it
    and with every search
    """

    gate: LearnedGate
    share: float
    bleu: float
    full_bleu: float


def tune_gate(
    devset: DevSet,
    retriever: Retriever,
    tuned: KnnOptions,
    search: SearchOptions = SearchOptions(),
    loss: float = 0.1,
) -> GateTuning:
    """Train a gate and let it skip as many searches as cost no more than so much BLEU on dev.

    How many that are depends on the domain: the further from what the model knows, the fewer.
    """
    observed = observe(devset, retriever, tuned.k)
    gate, _ = learn_gate(observed, tuned, 0.0)
    fusion = KnnFusion(retriever, tuned)

    def decode(fusion: Fusion) -> float:
        return bleu(devset.translations(search, [fusion]), devset.references).value

    def skipping(share: float) -> float:
        set_share(gate, observed, share)
        return decode(SkippingFusion(fusion, gate))

    full = decode(fusion)
    share, value = largest_share(skipping, full - loss) or (0.0, full)
    if share:
        set_share(gate, observed, share)
    else:
        gate.threshold.fill_(-torch.inf)
    return GateTuning(gate, share, value, full)


def largest_share(decode: Callable[[float], float], enough: float) -> tuple[float, float] | None:
    """The largest of ``SHARES`` with at least so much BLEU, and its BLEU; None if the smallest has less.

    decode: share → BLEU, taken to fall with it, so that a few are decoded
    """
    few, many, found = 0, len(SHARES), None
    while few < many:
        middle = (few + many) // 2
        value = decode(SHARES[middle])
        if value >= enough:
            few, found = middle + 1, (SHARES[middle], value)
        else:
            many = middle
    return found


def sure_enough(observed: Observations, skip: float) -> float:
    """The probability of the model's favourite above which a given share of the positions lies: for ``SureGate``."""
    return float(torch.quantile(observed.certainty[:, 0].exp(), 1 - skip))
