"""The last step of a text path, against NumPy, and through the models that have one."""

import numpy as np
import pytest
import torch

from npda.models import load_backbone
from npda.models.backbone import LearnsToRead
from npda.models.inputs import read_batch, token_rows
from npda.models.state_map import StateMap, StateMapFit

SHIPPED = "src/npda/pretrained/mini-en-de"


def test_ridge_regression_as_numpy_solves_it():
    draw = np.random.default_rng(0)
    read = draw.normal(size=(200, 6)) @ draw.normal(size=(6, 6)) + 3
    heard = read @ draw.normal(size=(6, 6)) + draw.normal(size=(200, 6))
    fit = StateMapFit(6)
    for part in np.array_split(np.arange(200), 7):
        fit.add(torch.tensor(read[part]), torch.tensor(heard[part]))
    found = fit.solve(0.05)
    x, y = read - read.mean(axis=0), heard - heard.mean(axis=0)
    penalty = 0.05 * x.var(axis=0).mean() * len(x)
    weight = np.linalg.solve(x.T @ x + penalty * np.eye(6), x.T @ y)
    np.testing.assert_allclose(found.weight.numpy(), weight, atol=1e-5)
    np.testing.assert_allclose(found(torch.tensor(read).float()).numpy(), x @ weight + heard.mean(axis=0), atol=1e-3)


@pytest.fixture
def backbone(tmp_path):
    """The shipped model with a map in its text path, saved and opened again."""
    model = load_backbone(SHIPPED)
    assert isinstance(model, LearnsToRead)
    model.text_encoder.state_map = found = StateMap(model.dim)
    found.weight.copy_(torch.eye(model.dim) * 0.5)
    found.bias.fill_(0.25)
    model.save_pretrained(tmp_path / "model")
    return load_backbone(tmp_path / "model")


@torch.inference_mode()
def test_states_that_are_read_are_mapped_step_by_step_and_at_once(backbone):
    plain = load_backbone(SHIPPED)
    assert plain.source is not None
    source = [plain.source.encode("The motion was carried.")]
    tokens = token_rows(plain, [[*plain.prompt(), *plain.target.encode("Der Antrag wurde angenommen.")]], 1)
    before, memory = plain.states(read_batch(plain, source), tokens), read_batch(backbone, source)
    mapped = backbone.states(memory, tokens)
    torch.testing.assert_close(mapped, before * 0.5 + 0.25)
    stream = backbone.start(memory, 1)
    steps = [stream.step(tokens[:, place : place + 1]) for place in range(tokens.shape[1])]
    torch.testing.assert_close(torch.stack(steps, dim=1), mapped, atol=1e-4, rtol=1e-4)


@torch.inference_mode()
def test_states_that_are_heard_are_not(backbone):
    plain = load_backbone(SHIPPED)
    features, lengths = torch.randn(1, 120, 80), torch.tensor([120])
    tokens = torch.tensor([plain.prompt()])
    heard = [model.states(model.hear(features, lengths), tokens) for model in (plain, backbone)]
    torch.testing.assert_close(*heard)
    assert plain.decoder_digest() == backbone.decoder_digest()
    assert plain.model_digest() != backbone.model_digest()
