"""Which rows are searched for, which are not, and how a gate learns the difference."""

import pytest
import torch
from tiny_observations import made_up

from npda.decoding.knn.combiners import KnnOptions
from npda.decoding.knn.skipping import LearnedGate, SkippingFusion, SureGate, signs
from npda.evaluation.tuning.adaptive import largest_share, learn_gate, sure_enough


class Noting:
    """A fusion that notes which prefixes it was asked for, and answers the same for all."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def apply(self, states, log_probs, prefixes, sentences):
        self.asked += prefixes[:, 0].tolist()
        return torch.full_like(log_probs, -1.0)


def peaked(*favourites: float) -> torch.Tensor:
    """Distributions over 3 tokens with a given largest probability. → [rows, 3] logarithms"""
    return torch.tensor([[p, (1 - p) * 0.75, (1 - p) * 0.25] for p in favourites]).log()


def test_only_uncertain_rows_are_asked_for():
    log_probs, prefixes = peaked(0.95, 0.5, 0.9, 0.6), torch.arange(4)[:, None]
    inner = Noting()
    fusion = SkippingFusion(inner, SureGate(0.8))
    mixed = fusion.apply(torch.zeros(4, 2), log_probs, prefixes, torch.arange(4))
    assert inner.asked == [1, 3]
    assert torch.equal(mixed[[0, 2]], log_probs[[0, 2]])
    assert (mixed[[1, 3]] == -1).all()
    fusion.apply(torch.zeros(1, 2), peaked(0.99), prefixes[:1], torch.arange(1))
    assert (fusion.asked, fusion.skipped, fusion.share_skipped) == (5, 3, 0.6)


@pytest.mark.parametrize(("threshold", "asked"), [(1.1, [0, 1]), (0.0, [])])
def test_all_or_nothing(threshold, asked):
    inner, log_probs = Noting(), peaked(0.95, 0.5)
    fusion, rows = SkippingFusion(inner, SureGate(threshold)), torch.arange(2)
    mixed = fusion.apply(torch.zeros(2, 2), log_probs, rows[:, None], rows)
    assert inner.asked == asked
    assert torch.equal(mixed, torch.full_like(log_probs, -1.0) if asked else log_probs)


def test_signs_of_certainty_by_hand():
    half = torch.tensor([[0.5, 0.25, 0.25]]).log()
    found = signs(torch.tensor([[3.0, 4.0, 0.0, 0.0]]), half)[0]
    log2 = torch.log(torch.tensor(2.0))
    torch.testing.assert_close(found, torch.stack([-log2, log2 / 4, 1.5 * log2, torch.tensor(2.5)]))
    certain = torch.tensor([[0.0, -torch.inf]])
    assert signs(torch.zeros(1, 2), certain)[0, 2] == 0  # no 0 · ∞


def test_a_gate_learns_where_neighbours_bring_something():
    observed = made_up()  # in one half of the positions the neighbours are right and the model is not
    gate, found = learn_gate(observed, KnnOptions(4, 0.9, 10.0), skip=0.5)
    wanted = gate(observed.states, observed.certainty) >= gate.threshold
    assert (wanted == observed.right[:, 0]).float().mean() > 0.95
    assert found.losses[found.best] < 0.2 * found.losses[0]


@pytest.mark.parametrize(("enough", "expected"), [(0.0, 0.9), (82.0, 0.1), (62.0, 0.3), (58.0, 0.3), (95.0, None)])
def test_as_many_are_skipped_as_dev_allows(enough, expected):
    decoded = []

    def decode(share: float) -> float:
        decoded.append(share)
        return 92 - round(100 * share)  # 0.1 → 82

    found = largest_share(decode, enough)
    assert (found and found[0]) == expected
    assert len(decoded) <= 4


@pytest.mark.parametrize("share", [0.0, 0.25, 0.9])
def test_the_asked_share_is_skipped(share):
    observed = made_up()
    gate, _ = learn_gate(observed, KnnOptions(4, 0.9, 10.0), share)
    wanted = gate(observed.states, observed.certainty) >= gate.threshold
    assert 1 - wanted.float().mean() == pytest.approx(share, abs=0.01)
    certainty = torch.rand(1000, 4, generator=torch.Generator().manual_seed(1)).log()
    threshold = sure_enough(type(observed)(**{**vars(observed), "certainty": certainty}), share)
    assert (certainty[:, 0].exp() >= threshold).float().mean() == pytest.approx(share, abs=0.01)


def test_the_threshold_is_kept_with_the_weights():
    gate = LearnedGate(4)
    gate.threshold.fill_(0.25)
    other = LearnedGate(4)
    other.load_state_dict(gate.state_dict())
    assert other.threshold == 0.25
