"""Packed layers against torch's own."""

from copy import deepcopy

import numpy as np
import pytest
import said
import tiny
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn.functional import linear

from npda.decoding.beam import SearchOptions
from npda.decoding.candidates import best
from npda.io.errors import InputError
from npda.models.layers.packing import Packing, _capable, _levels, plain
from npda.translator import Translator

X = torch.randn(2, 5, 256, generator=torch.Generator().manual_seed(0))


def layers() -> list[nn.Linear]:
    torch.manual_seed(1)
    return [nn.Linear(256, 300), nn.Linear(256, 200, bias=False), nn.Linear(256, 400)]


@pytest.mark.parametrize("pack", [plain, Packing()], ids=["plain", "packed"])
@torch.inference_mode()
def test_several_layers_become_one(pack):
    expected = torch.cat([layer(X) for layer in layers()], dim=-1)
    torch.testing.assert_close(pack(*layers())(X), expected, atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_weights_published_in_sixteen_bits_lose_nothing():
    halves = layers()
    for layer in halves:
        layer.weight.copy_(layer.weight.half())
    expected = torch.cat([layer.double()(X.double()) for layer in deepcopy(halves)], dim=-1)
    torch.testing.assert_close(Packing()(*halves)(X).double(), expected, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_packed_again_when_a_parameter_changed_and_only_then():
    packing, (layer, _, other) = Packing(), layers()
    first = packing(layer)
    assert packing(layer) is first
    layer.bias.add_(1.0)  # as optimisers do
    torch.testing.assert_close(packing(layer)(X), layer(X), atol=1e-5, rtol=1e-4)
    layer.load_state_dict({"weight": torch.ones(300, 256), "bias": torch.zeros(300)})
    torch.testing.assert_close(packing(layer)(X), layer(X), atol=1e-5, rtol=1e-4)
    layer.weight = nn.Parameter(other.weight[:300].clone())
    torch.testing.assert_close(packing(layer)(X), layer(X), atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_a_copied_model_packs_its_own_weights():
    layer, packing = layers()[0], Packing()
    packing(layer)
    other_layer, other_packing = deepcopy((layer, packing))
    other_layer.weight.mul_(2.0)
    torch.testing.assert_close(other_packing(other_layer)(X), other_layer(X), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(packing(layer)(X), layer(X), atol=1e-5, rtol=1e-4)


@torch.inference_mode()
def test_eight_bits_come_close_and_can_be_switched_off_again():
    packing, layer = Packing(int8=True), layers()[0]
    exact = layer(X)
    for rough in (packing(layer)(X), packing(layer, few_rows=True)(X)):
        assert 0 < float((rough - exact).norm() / exact.norm()) < 0.02
    packing.int8 = False
    torch.testing.assert_close(packing(layer)(X), exact, atol=1e-5, rtol=1e-4)


@torch.inference_mode()
def test_eight_bits_are_those_of_whole_numbers():
    layer = layers()[0]
    weight, x = layer.weight.double().numpy(), X.double().numpy()
    scales = np.abs(weight).max(axis=1, keepdims=True) / 127
    steps = np.abs(x).max(axis=-1, keepdims=True) / _levels()
    expected = (np.rint(x / steps) @ np.rint(weight / scales).T) * steps * scales.T + layer.bias.double().numpy()
    found = Packing(int8=True)(layer, few_rows=True)(X).double().numpy()
    # An input between two levels may be rounded the other way.
    assert np.abs(found - expected).max() < 0.01 * np.abs(expected).max()


@torch.inference_mode()
@pytest.mark.parametrize(
    "able",
    [False, pytest.param(True, marks=pytest.mark.skipif(not _capable("avx512_bf16"), reason="no bfloat16"))],
)
def test_many_rows_take_bfloat16_where_the_processor_multiplies_it(able: bool, monkeypatch):
    monkeypatch.setattr("npda.models.layers.packing._capable", lambda instructions: able)
    layer, packing = layers()[0], Packing(int8=True)
    error = float((packing(layer)(X) - layer(X)).norm() / layer(X).norm())
    assert (error < 0.005) == able


@torch.inference_mode()
def test_in_eight_bits_a_row_is_the_same_in_any_company():
    project = Packing(int8=True)(layers()[0], few_rows=True)
    loud = torch.cat([X[:1], 1000 * X[1:]])
    torch.testing.assert_close(project(loud)[0, :1], project(X[:1, :1])[0], atol=1e-6, rtol=1e-6)
    silent = project(torch.zeros(1, 256))
    torch.testing.assert_close(silent, layers()[0].bias[None], atol=1e-5, rtol=1e-5)


@torch.inference_mode()
def test_single_steps_keep_sixteen_bits_where_the_numbers_were_published_in_them():
    layer = layers()[0]
    rounded = deepcopy(layer)
    rounded.weight.copy_(rounded.weight.half())
    packing = Packing(int8=True)
    torch.testing.assert_close(packing(rounded, few_rows=True)(X), rounded(X), atol=1e-5, rtol=1e-4)
    assert not torch.allclose(packing(layer, few_rows=True)(X), layer(X), atol=1e-5, rtol=1e-4)


def test_a_translator_computes_in_eight_bits_if_its_family_can(tmp_path, monkeypatch):
    tiny.backbone().save_pretrained(tmp_path)
    translator = Translator.from_pretrained(tmp_path, int8=True)
    wave = said.speech(16_000)
    exact = Translator.from_pretrained(tmp_path).translate(wave, SearchOptions(max_length=5))
    assert translator.translate(wave, SearchOptions(max_length=5)).score != exact.score
    monkeypatch.setattr("npda.translator.load_backbone", lambda *_: object())
    with pytest.raises(InputError, match="leave out int8"):
        Translator.from_pretrained(tmp_path, int8=True)


@torch.inference_mode()
def test_a_weight_that_is_no_layers():
    weight, bias = layers()[0].parameters()
    torch.testing.assert_close(Packing().product(weight)(X), linear(X, weight), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(Packing().product(weight, bias)(X), linear(X, weight, bias), atol=1e-5, rtol=1e-4)


@torch.inference_mode()
def test_parameters_whose_changes_torch_does_not_count_are_packed_every_time():
    packing, layer = Packing(), layers()[0]
    packing(layer)
    layer.weight.mul_(2.0)
    torch.testing.assert_close(packing(layer)(X), layer(X), atol=1e-5, rtol=1e-4)


@given(st.integers(1, 3), st.integers(10, 1500), st.integers(1, 10), st.integers(0, 2**31))
def test_the_best_are_those_of_topk(rows, vocabulary, count, seed):
    scores = torch.randn(rows, vocabulary, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    scores[:, ::7] = -1e9
    expected = scores.topk(count, dim=1)
    values, tokens = best(scores, count)
    assert torch.equal(values, expected.values)
    assert torch.equal(scores.gather(1, tokens), values)
