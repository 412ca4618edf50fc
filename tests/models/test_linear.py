"""Linear layers multiplied by oneDNN, against torch's own."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from npda.models.layers import linear as module
from npda.models.layers.linear import Linear


def gradients(layer: nn.Linear, x: Tensor, wanted: Tensor) -> list[Tensor]:
    """What the layer gives and the gradients of its parameters and of x."""
    layer.zero_grad()
    x = x.clone().requires_grad_()
    found = layer(x)
    found.backward(wanted)
    assert x.grad is not None
    return [found.detach(), x.grad, *(p.grad.clone() for p in layer.parameters() if p.grad is not None)]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(3, 5), (7,), (1, 1)])
def test_outputs_and_gradients_are_those_of_torch(bias, shape, monkeypatch):
    torch.manual_seed(0)
    ours, theirs = Linear(300, 256, bias=bias), nn.Linear(300, 256, bias=bias)
    theirs.load_state_dict(ours.state_dict())
    x, wanted = torch.randn(*shape, 300), torch.randn(256, *shape).movedim(0, -1)  # gradients come in any layout
    calls = []
    product = module._product
    monkeypatch.setattr(module, "_product", lambda *args: calls.append(1) or product(*args))
    for one, other in zip(gradients(ours, x, wanted), gradients(theirs, x, wanted), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
    assert len(calls) == 3 or not hasattr(torch.ops.mkldnn, "_linear_pointwise")


def test_frozen_weights_get_no_gradient():
    layer, x = Linear(300, 256), torch.randn(4, 300, requires_grad=True)
    layer.requires_grad_(False)
    layer(x).sum().backward()
    assert layer.weight.grad is None
    assert layer.bias.grad is None
    assert x.grad is not None
    torch.testing.assert_close(x.grad, layer.weight.sum(dim=0).expand(4, -1), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("case", ["small", "no gradient", "autocast", "double", "empty"])
def test_elsewhere_it_is_torch_that_multiplies(case, monkeypatch):
    monkeypatch.setattr(module, "_product", lambda *args: pytest.fail("oneDNN was asked"))
    layer = Linear(8, 8) if case == "small" else Linear(300, 256)
    layer = layer.double() if case == "double" else layer
    x = torch.randn(0 if case == "empty" else 2, layer.in_features, dtype=layer.weight.dtype)
    with (
        torch.autocast("cpu", torch.bfloat16, enabled=case == "autocast"),
        torch.set_grad_enabled(case != "no gradient"),
    ):
        torch.testing.assert_close(layer(x), torch.nn.functional.linear(x, layer.weight, layer.bias))
