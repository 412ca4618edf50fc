"""Attention in blocks against torch's own."""

import pytest
import torch
from torch import nn
from torch.nn.functional import gelu, scaled_dot_product_attention

from npda.models.layers.attention import attend_all, attend_rounded
from npda.models.layers.stream import SelfLayer


@pytest.mark.parametrize("length", [20, 610])
@pytest.mark.parametrize("padded", [False, True])
@torch.inference_mode()
def test_long_attention_is_that_of_torch(length: int, padded: bool):
    torch.manual_seed(0)
    query, key, value = (torch.randn(2, length, 3, 16).transpose(1, 2) for _ in range(3))
    mask = None
    if padded:
        mask = torch.zeros(2, 1, 1, length)
        mask[1, ..., -length // 3 :] = torch.finfo(mask.dtype).min
    expected = scaled_dot_product_attention(query, key, value, attn_mask=mask)
    torch.testing.assert_close(attend_all(query, key, value, mask), expected, atol=1e-5, rtol=1e-4)


@torch.inference_mode()
def test_rounded_attention_comes_close():
    torch.manual_seed(0)
    query, key, value = (torch.randn(1, 450, 2, 16).transpose(1, 2) for _ in range(3))
    mask = torch.zeros(1, 1, 1, 450)
    mask[..., -50:] = torch.finfo(mask.dtype).min
    exact = scaled_dot_product_attention(query, key, value, attn_mask=mask)
    assert float((attend_all(query, key, value, mask, rounded=True) - exact).norm() / exact.norm()) < 0.02


@pytest.mark.parametrize("mask", [None, (torch.arange(60) < 50)[None, None, None]], ids=["whole", "padded"])
@torch.inference_mode()
def test_attention_to_what_was_rounded_comes_close(mask: torch.Tensor | None):
    torch.manual_seed(0)
    query, key, value = (torch.randn(2, 3, n, 16) for n in (5, 60, 60))
    exact = scaled_dot_product_attention(query, key, value, attn_mask=mask)
    added = None if mask is None else torch.zeros(1, 1, 1, 60).masked_fill(~mask, torch.finfo(torch.float32).min)
    for given in (mask, added):
        found = attend_rounded(query, key.bfloat16(), value.bfloat16(), given)
        assert float((found - exact).norm() / exact.norm()) < 0.02


def test_gradients_pass():
    query = torch.randn(1, 2, 450, 8, requires_grad=True)
    attend_all(query, query, query).sum().backward()
    assert query.grad is not None


@torch.inference_mode()
def test_long_inputs_pass_the_feed_forward_network_in_parts():
    torch.manual_seed(0)
    norm, wide, narrow = nn.LayerNorm(16), nn.Linear(16, 32), nn.Linear(32, 16)
    layer = SelfLayer(2, norm, nn.Linear(16, 48), narrow, norm, wide, narrow, gelu)
    x = torch.randn(2, 1100, 16)
    torch.testing.assert_close(layer.feed_forward(x), x + narrow(gelu(wide(norm(x)))), atol=1e-6, rtol=1e-5)
