"""The fast way through a search or a text against the plain one, which decodes every prefix anew."""

import numpy as np
import pytest
import tiny
import tiny_seamless
import tiny_speech_encoder_decoder
import tiny_store
import tiny_whisper
import torch

from npda.datastore.retrieval.protocol import Neighbours
from npda.decoding.beam import SearchOptions, search
from npda.decoding.knn.combiners import KnnOptions
from npda.decoding.knn.fusion import KnnFusion
from npda.models.backbone import Memory
from npda.models.layers import packing
from npda.models.speech2text import Speech2Text
from npda.models.text2text import Text2Text

WAVES = [tiny_whisper.waveform(seconds, seed) for seed, seconds in enumerate([1.1, 0.4, 2, 0.7, 1.5, 0.9, 1.9, 1.2])]


class PlainStream:
    """No caches: whole prefixes, a memory for each of them, and transformers' own layers, as gradients need them."""

    def __init__(self, backbone, memory: Memory, beam: int) -> None:
        self.backbone, self.beam = backbone, beam
        self.memory = Memory(memory.states.repeat_interleave(beam, 0), memory.mask.repeat_interleave(beam, 0))
        self.prefixes = torch.zeros(len(self.memory.states), 0, dtype=torch.long)

    def step(self, tokens):
        self.prefixes = torch.cat([self.prefixes, tokens], dim=1)
        with torch.enable_grad():
            return self.backbone.states(self.memory, self.prefixes)[:, -1].detach()

    def reorder(self, rows):
        self.prefixes = self.prefixes[rows]

    def keep(self, sentences):
        rows = (sentences[:, None] * self.beam + torch.arange(self.beam)).flatten()
        self.prefixes = self.prefixes[rows]
        self.memory = Memory(self.memory.states[rows], self.memory.mask[rows])


class Plain:
    """A backbone whose searches are plain."""

    def __init__(self, backbone) -> None:
        self.backbone = backbone

    def __getattr__(self, name):
        return getattr(self.backbone, name)

    def start(self, memory, beam):
        return PlainStream(self.backbone, memory, beam)

    def logits(self, states):
        model = self.backbone.model
        head = model.lm_head if isinstance(self.backbone, Speech2Text) else model.get_output_embeddings()
        return torch.nn.functional.linear(states, head.weight)


class Nearest:
    """Random keys, all of them compared."""

    def __init__(self, dim: int, vocabulary: int) -> None:
        random = np.random.default_rng(0)
        self.keys = random.normal(size=(200, dim)).astype(np.float32)
        self.values = random.integers(0, vocabulary, 200)

    def search(self, queries, k):
        distances = ((queries[:, None] - self.keys[None]) ** 2).sum(-1)
        ids = np.argsort(distances, axis=1)[:, :k]
        return Neighbours(np.take_along_axis(distances, ids, axis=1), self.values[ids], ids)


def speech2text(count: int):
    model = tiny.backbone(4)
    features, lengths = tiny.speech([120, 40, 75, 9, 64, 101, 33, 58][:count])
    return model, model.hear(features, lengths)


def whisper(count: int):
    model = tiny_whisper.backbone(silence=0.3)
    return model, model.hear(*tiny_whisper.heard(model, WAVES[:count]))


@pytest.fixture
def all_packed(monkeypatch):
    monkeypatch.setattr(packing, "_SMALL", 0)  # or the layers of a tiny model would be left as they are


@pytest.mark.parametrize("neighbours", [False, True], ids=["alone", "with neighbours"])
@pytest.mark.parametrize("count", [1, 8])
@pytest.mark.parametrize("beam", [1, 5])
@pytest.mark.parametrize("make", [speech2text, whisper])
@torch.no_grad()
def test_n_best_is_that_of_the_plain_way(all_packed, make, beam, count, neighbours):
    model, memory = make(count)
    options = SearchOptions(beam, max_length=25, n_best=beam)
    knn = KnnOptions(k=4, lambda_=0.5, temperature=20.0)
    fusions = [KnnFusion(Nearest(model.dim, len(model.target)), knn)] if neighbours else []
    fast = search(model, memory, model.prompt(), options, fusions)
    plain = search(Plain(model), memory, model.prompt(), options, fusions)  # pyright: ignore[reportArgumentType]
    for ours, expected in zip(fast, plain, strict=True):
        assert [h.tokens for h in ours] == [h.tokens for h in expected]
        assert [h.score for h in ours] == pytest.approx([h.score for h in expected], abs=1e-4)


@pytest.mark.parametrize("make", [speech2text, whisper])
@torch.no_grad()
def test_neighbours_without_weight_change_not_a_bit(all_packed, make):
    model, memory = make(8)
    options = SearchOptions(5, max_length=25, n_best=5)
    silent = KnnFusion(Nearest(model.dim, len(model.target)), KnnOptions(k=4, lambda_=0.0))
    alone = search(model, memory, model.prompt(), options)
    assert search(model, memory, model.prompt(), options, [silent]) == alone


@torch.no_grad()
def test_beams_that_begin_differently_are_followed_from_the_first_token():
    model, memory = speech2text(2)
    tokens = torch.randint(3, len(model.target), (6, 7))
    alike = tokens[[0, 0, 0, 3, 3, 3], :3]
    for begins in (tokens[:, :3], alike):
        stream, plain = model.start(memory, beam=3), PlainStream(model, memory, beam=3)
        for piece in (begins, *tokens[:, 3:].split(1, dim=1)):
            torch.testing.assert_close(stream.step(piece), plain.step(piece), atol=1e-5, rtol=1e-4)
            rows = torch.tensor([2, 0, 0, 3, 5, 4])
            stream.reorder(rows)
            plain.reorder(rows)


@torch.no_grad()
def test_a_model_that_was_trained_on_decodes_with_its_new_weights(all_packed):
    model, memory = speech2text(2)
    options = SearchOptions(3, max_length=12)
    before = search(model, memory, model.prompt(), options)
    for parameter in model.model.model.decoder.parameters():
        parameter.mul_(-1.5)
    after = search(model, memory, model.prompt(), options)
    assert after != before
    plain = search(Plain(model), memory, model.prompt(), options)  # pyright: ignore[reportArgumentType]
    assert [h[0].tokens for h in after] == [h[0].tokens for h in plain]


def with_text_encoder(model):
    torch.manual_seed(8)
    for parameter in model.add_text_encoder(layers=2).parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model


def adapted():
    model = tiny_store.backbone(languages=("de", "fr"))
    model.add_adapters(["de", "fr"], 8)
    assert model.adapters is not None
    for parameter in model.adapters.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model


def text2text():
    return Text2Text.create("mini", tiny.vocabulary(), tiny.vocabulary(), dim=32, ffn=48)


FAMILIES = {
    "speech2text": lambda: with_text_encoder(tiny.backbone()),
    "adapters": adapted,
    "whisper": lambda: with_text_encoder(tiny_whisper.backbone()),
    "speech encoder-decoder": lambda: with_text_encoder(tiny_speech_encoder_decoder.backbone()),
    "seamless": tiny_seamless.backbone,
    "text2text": text2text,
}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_text_is_read_and_followed_as_with_gradients(all_packed, family):
    model = FAMILIES[family]().eval()
    tokens, lengths = torch.randint(4, 40, (3, 9)), torch.tensor([9, 4, 7])
    language = {"adapters": "fr", "seamless": "deu", "speech encoder-decoder": "de"}.get(family)
    target = torch.cat([torch.tensor([model.prompt(language)] * 3), torch.randint(4, 40, (3, 12))], dim=1)
    memory = model.read(tokens, lengths)
    states = model.states(memory, target)
    assert states.requires_grad
    with torch.no_grad():
        read = model.read(tokens, lengths)
        followed = model.states(read, target)
    assert torch.equal(read.mask, memory.mask)
    torch.testing.assert_close(read.states[read.mask], memory.states[memory.mask].detach(), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(followed, states.detach(), atol=1e-4, rtol=1e-4)
