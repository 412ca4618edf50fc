"""The Speech2Text backbone against transformers' own classes."""

import json
from typing import Any

import numpy as np
import pytest
import tiny
import torch
from transformers import Speech2TextConfig as Theirs
from transformers import Speech2TextForConditionalGeneration, Speech2TextProcessor

from npda.audio import Normalizer
from npda.io.errors import InputError
from npda.models import load_backbone
from npda.models.layers.masks import causal_mask
from npda.models.speech2text import Speech2Text
from npda.models.speech2text_network import Speech2TextConfig, Speech2TextNetwork
from npda.models.text_encoder import TextEncoder, TextEncoderSize


class Pieces:
    """A vocabulary that only has a size."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size


@pytest.mark.parametrize(
    ("preset", "pieces", "millions"), [("paper-bilingual", 8_000, 31.1), ("paper-multilingual", 10_000, 76.3)]
)
def test_paper_sizes(preset, pieces, millions):
    with torch.device("meta"):
        model = Speech2Text.create(preset, Pieces(pieces), Normalizer(None, None))  # pyright: ignore[reportArgumentType]
    assert round(sum(p.numel() for p in model.parameters()) / 1e6, 1) == millions


def test_states_and_logits_equal_transformers_forward():
    model = tiny.backbone()
    features, lengths = tiny.speech([90, 90, 90])
    tokens = torch.randint(3, len(model.target), (3, 7))
    with torch.inference_mode():
        theirs = tiny.theirs(model)(input_features=features, decoder_input_ids=tokens).logits
        ours = model.logits(model.states(model.hear(features, lengths), tokens))
    torch.testing.assert_close(ours, theirs)


def test_stream_gives_the_states_of_the_teacher_forced_pass():
    model = tiny.backbone()
    features, lengths = tiny.speech([90, 61])
    tokens = torch.randint(3, len(model.target), (2, 40))  # long enough for the cache to grow
    with torch.inference_mode():
        memory = model.hear(features, lengths)
        whole = model.states(memory, tokens)
        stream = model.start(memory, beam=1)
        steps = [stream.step(tokens[:, :3])] + [stream.step(tokens[:, t : t + 1]) for t in range(3, 40)]
    torch.testing.assert_close(torch.stack(steps, dim=1), whole[:, 2:], atol=1e-5, rtol=1e-4)


def test_stream_follows_reordered_beams_and_kept_sentences():
    """Three sentences, two beams; after four tokens beams are swapped and the middle sentence leaves."""
    model = tiny.backbone()
    features, lengths = tiny.speech([50, 70, 90])
    history = torch.randint(3, len(model.target), (6, 4))
    rows = torch.tensor([1, 0, 2, 2, 5, 5])
    last = torch.randint(3, len(model.target), (4, 1))
    with torch.inference_mode():
        memory = model.hear(features, lengths)
        stream = model.start(memory, beam=2)
        for t in range(4):
            stream.step(history[:, t : t + 1])
        stream.reorder(rows)
        stream.keep(torch.tensor([0, 2]))
        states = stream.step(last)

        kept = history[rows][[0, 1, 4, 5]]
        sentences = torch.tensor([0, 0, 2, 2])
        repeated = type(memory)(memory.states[sentences], memory.mask[sentences])
        expected = model.states(repeated, torch.cat([kept, last], dim=1))[:, -1]
    torch.testing.assert_close(states, expected, atol=1e-5, rtol=1e-4)


def test_a_sentence_does_not_depend_on_the_padding_of_its_batch():
    model = tiny.backbone()
    features, lengths = tiny.speech([57, 130])
    with torch.inference_mode():
        together = model.hear(features, lengths)
        alone = model.hear(features[:1, :57], lengths[:1])
    size = alone.states.shape[1]
    assert together.mask[0].sum() == size
    torch.testing.assert_close(together.states[0, :size], alone.states[0], atol=1e-5, rtol=1e-4)


def test_transformers_opens_our_directory(tmp_path):
    model = tiny.backbone()
    model.save_pretrained(tmp_path)
    theirs = Speech2TextForConditionalGeneration.from_pretrained(tmp_path)
    for name, parameter in model.model.state_dict().items():
        assert torch.equal(parameter, theirs.state_dict()[name]), name
    processor = Speech2TextProcessor.from_pretrained(tmp_path)
    text = "Der Boden ist schön."
    assert processor.tokenizer(text).input_ids == [*model.target.encode(text), model.target.eos]
    waveform = np.random.default_rng(0).normal(size=16_000).astype(np.float32) * 0.1
    features = processor.feature_extractor(waveform, sampling_rate=16_000, return_tensors="np").input_features[0]
    np.testing.assert_allclose(model.features(waveform), features, atol=2e-3)


def test_we_open_a_directory_saved_by_transformers(tmp_path):
    model = tiny.backbone()
    model.save_pretrained(tmp_path / "ours")
    Speech2TextForConditionalGeneration.from_pretrained(tmp_path / "ours").save_pretrained(tmp_path / "theirs")
    Speech2TextProcessor.from_pretrained(tmp_path / "ours").save_pretrained(tmp_path / "theirs")
    opened = load_backbone(tmp_path / "theirs")
    features, lengths = tiny.speech([64])
    with torch.inference_mode():
        torch.testing.assert_close(opened.hear(features, lengths).states, model.hear(features, lengths).states)
    assert opened.target.encode("Wo ist die Küche?") == model.target.encode("Wo ist die Küche?")


def test_language_tag_follows_the_start_symbol():
    model = tiny.backbone(languages=("de", "fr"))
    start, tag = model.prompt("fr")
    assert start == model.model.config.decoder_start_token_id
    assert tag == model.target.language_id("fr")
    for wrong in ("xx", None):
        with pytest.raises(InputError, match="de, fr"):
            model.prompt(wrong)


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({}, "no config.json"),
        ({"config.json": "{"}, "not JSON"),
        ({"config.json": json.dumps({"model_type": "bert"})}, "'bert'"),
        ({"config.json": json.dumps({"model_type": "speech_to_text"})}, "model.safetensors"),
    ],
)
def test_wrong_model_directories_get_one_sentence(tmp_path, files, says):
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=says) as error:
        load_backbone(tmp_path)
    assert str(tmp_path) in str(error.value)
    assert "\n" not in str(error.value)


def test_text_encoder_of_the_paper_has_17_1_million_parameters():
    """48.1M in all with the 31.1M base; 24.0M with the multilingual model's six layers."""
    with torch.device("meta"):
        text = TextEncoder(TextEncoderSize(vocabulary=5_000, dim=256, layers=12, heads=4, ffn=2048))
        base = Speech2Text.create("paper-bilingual", Pieces(8_000), Normalizer(None, None))  # pyright: ignore[reportArgumentType]
    tuned, frozen = (sum(p.numel() for p in module.parameters()) for module in (text, base))
    assert round(tuned / 1e6, 1) == 17.1
    assert round((tuned + frozen) / 1e6, 1) == 48.1


def test_text_encoder_is_saved_with_the_model_and_ignores_padding(tmp_path):
    model = tiny.backbone()
    with pytest.raises(InputError, match="npda align"):
        model.read(torch.ones(1, 3, dtype=torch.long), torch.tensor([3]))
    size = TextEncoderSize(vocabulary=len(tiny.vocabulary()), dim=model.dim, layers=2, heads=4, ffn=64)
    model.text_encoder = TextEncoder(size).eval()
    model.save_pretrained(tmp_path)
    opened = load_backbone(tmp_path)
    tokens = torch.tensor([[5, 6, 7, 8], [9, 4, 1, 1]])
    with torch.inference_mode():
        memory = opened.read(tokens, torch.tensor([4, 2]))
        alone = model.read(tokens[1:, :2], torch.tensor([2]))
    assert memory.mask.tolist() == [[True] * 4, [True, True, False, False]]
    torch.testing.assert_close(memory.states[1:, :2], alone.states, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("tied", [True, False])
def test_a_seed_gives_the_weights_that_it_gives_transformers(tied):
    size: dict[str, Any] = dict(
        d_model=16, encoder_layers=2, decoder_layers=1, encoder_ffn_dim=32, decoder_ffn_dim=32, vocab_size=9
    )
    torch.manual_seed(3)
    theirs = Speech2TextForConditionalGeneration(Theirs(**size, tie_word_embeddings=tied))
    after = torch.rand(1)
    torch.manual_seed(3)
    ours = Speech2TextNetwork(Speech2TextConfig(**size, tie_word_embeddings=tied))
    assert torch.equal(torch.rand(1), after)
    weights = theirs.state_dict()
    assert list(ours.state_dict()) == list(weights)
    assert all(torch.equal(weight, weights[name]) for name, weight in ours.state_dict().items())


def test_training_moves_the_weights_as_it_does_in_transformers():
    """Dropout inside the layers, layer drop and gradients of all parameters, from the same random numbers."""
    drop: dict[str, Any] = dict(dropout=0.0, attention_dropout=0.1, activation_dropout=0.1)
    model = tiny.backbone(encoder_layerdrop=0.5, decoder_layerdrop=0.5, **drop).train()
    theirs = tiny.theirs(model)
    features, lengths = tiny.speech([64, 64])
    tokens = torch.randint(3, len(model.target), (2, 7))
    torch.manual_seed(0)
    ours = model.logits(model.states(model.hear(features, lengths), tokens))
    torch.manual_seed(0)
    reference = theirs(input_features=features, decoder_input_ids=tokens).logits
    torch.testing.assert_close(ours, reference)
    ours.square().sum().backward()
    reference.square().sum().backward()
    gradients = {name: parameter.grad for name, parameter in theirs.named_parameters()}
    moved = [(name, p.grad) for name, p in model.model.named_parameters() if p.grad is not None]
    assert 0 < len(moved) < len(gradients)  # what is dropped is not moved
    for name, gradient in moved:
        torch.testing.assert_close(gradient, gradients[name], atol=1e-3, rtol=1e-4)


def test_layers_drop_what_those_of_transformers_drop():
    model = tiny.backbone(dropout=0.2).train()
    theirs = tiny.theirs(model)
    x, memory, causal = torch.randn(2, 5, model.dim), torch.randn(2, 6, model.dim), causal_mask(torch.randn(2, 5))
    for side, more in (("encoder", (None,)), ("decoder", (causal, memory, None))):
        found = []
        for network in (model.model, theirs):
            torch.manual_seed(0)
            found.append(getattr(network.model, side).layers[0](x, *more))
        torch.testing.assert_close(*found)


def test_a_directory_keeps_what_only_transformers_reads(tmp_path):
    tiny.backbone().save_pretrained(tmp_path / "given")
    for name, more in {"config.json": {"num_beams": 7}, "generation_config.json": {"max_length": 123}}.items():
        path = tmp_path / "given" / name
        path.write_text(json.dumps({**json.loads(path.read_text()), **more}))
    load_backbone(tmp_path / "given").save_pretrained(tmp_path / "saved")
    assert json.loads((tmp_path / "saved" / "config.json").read_text())["num_beams"] == 7
    opened = Speech2TextForConditionalGeneration.from_pretrained(tmp_path / "saved")
    assert opened.generation_config.max_length == 123


def test_weights_in_several_files_are_opened(tmp_path):
    model = tiny.backbone()
    model.save_pretrained(tmp_path)
    theirs = tiny.theirs(model)
    (tmp_path / "model.safetensors").unlink()
    theirs.save_pretrained(tmp_path, max_shard_size="50KB")
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 1
    opened = Speech2Text.from_pretrained(tmp_path).model.state_dict()
    assert all(torch.equal(weight, opened[name]) for name, weight in model.model.state_dict().items())


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"d_model": 64}, "are of another size"),
        ({"encoder_layers": 3}, "model.encoder.layers.2"),
        ({"activation_function": "mish"}, "mish"),
        ({"encoder_attention_heads": 5}, "5 attention heads"),
        ({"conv_kernel_sizes": [5]}, "conv_kernel_sizes"),
        ({"d_model": "wide"}, "cannot be loaded"),
    ],
)
def test_a_configuration_that_does_not_fit_gets_one_sentence(tmp_path, changes, says):
    tiny.backbone().save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, **changes}))
    with pytest.raises(InputError, match=says):
        load_backbone(tmp_path)
