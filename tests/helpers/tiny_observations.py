"""Made-up positions of a dev set with neighbours that are right where they are near."""

import torch

from npda.evaluation.tuning.adaptive import Observations


def made_up(positions: int = 1200, k: int = 4, seed: int = 0) -> Observations:
    """Near neighbours are right and the model is not; far ones are wrong and the model is right."""
    random = torch.Generator().manual_seed(seed)
    near = torch.rand(positions, generator=random) < 0.5
    distances = torch.where(near[:, None], 1.0, 40.0) + torch.rand(positions, k, generator=random).cumsum(dim=1)
    right = near[:, None].expand(-1, k).clone()
    return Observations(
        sentences=torch.arange(positions) // 10,
        states=torch.where(near[:, None], 1.0, -1.0) * torch.tensor([1, 1, 1, -1, -1, -1])
        + 0.1 * torch.randn(positions, 6, generator=random),
        certainty=torch.zeros(positions, 4),
        p_model=torch.where(near, 0.01, 0.9),
        distances=distances,
        values=torch.where(right, 7, 8),
        right=right,
    )
