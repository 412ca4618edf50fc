"""The language model and shallow fusion: NumPy's formulas, full recomputation, and the weight chosen on dev."""

import json
from dataclasses import replace

import numpy as np
import pytest
import tiny
import tiny_store
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from npda.corpus.pairs import Pair, write_pairs
from npda.decoding.beam import SearchOptions, search
from npda.decoding.retry import search_with_retry
from npda.decoding.shallow import ShallowFusion, match
from npda.evaluation.tuning import shallow
from npda.evaluation.tuning.shallow import search_weight, tune_shallow
from npda.io.errors import InputError
from npda.models.language_model import PRESETS, LanguageModel, LanguageStream
from npda.models.text_encoder import TextEncoderSize
from npda.text import Vocabulary
from npda.training.loop.settings import TrainingSettings
from npda.training.tasks.language_model import train_language_model

SETTINGS = TrainingSettings(
    batch_frames=60, batches_per_update=1, learning_rate=3e-3, warmup=2, schedule="constant", spec_augment=None,
    max_updates=12, evaluate_every=4, patience=None, average=1, label_smoothing=0.0,
)  # fmt: skip


def model(layers: int = 2, languages: tuple[str, ...] = ()) -> LanguageModel:
    torch.manual_seed(3)
    return LanguageModel.create("mini", tiny.vocabulary(languages), dim=16, heads=2, ffn=24, layers=layers)


def tokens(rows: int, length: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(4, len(tiny.vocabulary()), (rows, length), generator=torch.Generator().manual_seed(seed))


def test_size_of_the_paper():
    language_model = LanguageModel(TextEncoderSize(8_000, **PRESETS["paper"]), tiny.vocabulary())
    layer = 4 * (256 * 256 + 256) + (256 * 1024 + 1024) + (1024 * 256 + 256) + 2 * 2 * 256
    expected = 8_000 * 256 + 6 * layer + 2 * 256
    count = sum(parameter.numel() for parameter in language_model.parameters())
    assert count == expected == 6_787_072  # the paper's 6.8M


def numpy_log_probs(language_model: LanguageModel, prefix: np.ndarray) -> np.ndarray:
    """p(next | prefix) from the weights alone, in double precision. prefix: [length] → [vocabulary]"""
    w = {name: tensor.double().numpy() for name, tensor in language_model.state_dict().items()}
    dim, heads = language_model.size.dim, language_model.size.heads

    def norm(x, name):
        centred = x - x.mean(-1, keepdims=True)
        return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * w[f"{name}.weight"] + w[f"{name}.bias"]

    def linear(x, name):
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    place = np.arange(len(prefix))[:, None] / 10_000 ** (np.arange(0, dim, 2) / dim)
    x = w["transformer.embedding.weight"][prefix] * np.sqrt(dim)
    x = x + np.stack([np.sin(place), np.cos(place)], axis=-1).reshape(len(prefix), dim)
    for number in range(language_model.size.layers):
        layer = f"transformer.layers.layers.{number}"
        qkv = norm(x, f"{layer}.norm1") @ w[f"{layer}.self_attn.in_proj_weight"].T
        query, key, value = np.split(qkv + w[f"{layer}.self_attn.in_proj_bias"], 3, axis=-1)
        attended = np.zeros_like(x)
        for head in np.split(np.arange(dim), heads):
            for t in range(len(prefix)):
                scores = key[: t + 1, head] @ query[t, head] / np.sqrt(len(head))
                share = np.exp(scores - scores.max())
                attended[t, head] = share / share.sum() @ value[: t + 1, head]
        x = x + linear(attended, f"{layer}.self_attn.out_proj")
        hidden = np.maximum(linear(norm(x, f"{layer}.norm2"), f"{layer}.linear1"), 0)
        x = x + linear(hidden, f"{layer}.linear2")
    logits = norm(x, "transformer.layers.norm")[-1] @ w["transformer.embedding.weight"].T
    return logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())


def test_formula():
    """log p_model + β·log p_LM, with p_LM computed by NumPy; and the same states in one go and step by step."""
    language_model, prefixes = model(), tokens(3, 6)
    base = torch.randn(3, len(tiny.vocabulary())).log_softmax(-1)
    with torch.inference_mode():
        fused = ShallowFusion(language_model, 0.3).apply(torch.zeros(3, 4), base, prefixes, torch.zeros(3))
        states = language_model.states(prefixes)
        stream = language_model.start(3)
        steps = torch.stack([stream.step(prefixes[:, t : t + 1]) for t in range(6)], dim=1)
    for row in range(3):
        expected = base[row].numpy() + 0.3 * numpy_log_probs(language_model, prefixes[row].numpy())
        np.testing.assert_allclose(fused[row].numpy(), expected, atol=2e-5)
    np.testing.assert_allclose(steps.numpy(), states.numpy(), atol=1e-5)


class Recomputing:
    """Shallow fusion without a cache."""

    def __init__(self, language_model: LanguageModel, weight: float) -> None:
        self.language_model, self.weight = language_model, weight

    def apply(self, states, log_probs, prefixes, sentences):
        own = self.language_model.logits(self.language_model.states(prefixes)[:, -1])
        return log_probs + self.weight * own.log_softmax(-1)


STEPS = st.lists(st.tuples(st.sampled_from(["go on", "some anew", "other text"]), st.integers(0, 99)), max_size=8)


@settings(max_examples=25, deadline=None)
@given(STEPS)
def test_rows_are_followed_wherever_the_beam_puts_them(steps):
    """Rows multiply, vanish and change places; some prefixes come from nowhere: always as if recomputed."""
    language_model = model()
    fusion, reference = ShallowFusion(language_model, 0.4), Recomputing(language_model, 0.4)
    prefixes = tokens(4, 1)
    for kind, seed in [("go on", 0), *steps]:
        generator = torch.Generator().manual_seed(seed)
        if kind == "other text":
            prefixes = tokens(1 + seed % 5, 1 + seed % 4, seed)
        rows = torch.randint(0, len(prefixes), (1 + seed % 6,), generator=generator)
        prefixes = torch.cat([prefixes[rows], tokens(len(rows), 1, seed + 1)], dim=1)
        if kind == "some anew":
            prefixes[:: 1 + seed % 3, 0] = 4 + seed % 50
        base = torch.randn(len(prefixes), len(tiny.vocabulary()), generator=generator)
        with torch.inference_mode():
            ours = fusion.apply(prefixes, base, prefixes, prefixes[:, 0])
            theirs = reference.apply(prefixes, base, prefixes, prefixes[:, 0])
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), atol=2e-5)


def test_rows_of_equal_hash_are_told_apart(monkeypatch):
    monkeypatch.setattr("npda.decoding.shallow._hashes", lambda prefixes: torch.zeros_like(prefixes[:, 0]))
    known, asked = torch.tensor([[5, 6], [7, 8]]), torch.tensor([[7, 8], [5, 6], [9, 9]])
    rows, found = match(asked, known)
    assert torch.equal(known[rows[found]], asked[found])
    assert not found[2]


@pytest.mark.parametrize("languages", [(), ("de", "fr")])
def test_search_with_it(languages, monkeypatch):
    """As with recomputation; without weight the base bit for bit; and each step reads one token a row."""
    backbone, language_model = tiny.backbone(languages=languages), model(languages=languages)
    prompt = backbone.prompt("fr" if languages else None)
    assert language_model.prompt("fr" if languages else None) == prompt
    with torch.inference_mode():
        memory = backbone.hear(*tiny.speech([90, 60, 75]))
    options = SearchOptions(beam=4, max_length=12, n_best=4)
    read = []
    step = LanguageStream.step
    monkeypatch.setattr(LanguageStream, "step", lambda self, fed: read.append(fed.shape[1]) or step(self, fed))
    ours = search(backbone, memory, prompt, options, [ShallowFusion(language_model, 0.5)])
    assert read[0] == len(prompt)
    assert set(read[1:]) == {1}
    theirs = search(backbone, memory, prompt, options, [Recomputing(language_model, 0.5)])
    for one, other in zip(ours, theirs, strict=True):
        assert [h.tokens for h in one] == [h.tokens for h in other]
        np.testing.assert_allclose([h.score for h in one], [h.score for h in other], atol=1e-4)
    alone = search(backbone, memory, prompt, options)
    assert search(backbone, memory, prompt, options, [ShallowFusion(language_model, 0.0)]) == alone != ours


def test_directory(tmp_path):
    language_model = model()
    language_model.save_pretrained(tmp_path)
    opened = LanguageModel.from_pretrained(tmp_path, tiny.vocabulary())
    assert torch.equal(opened.states(tokens(2, 5)), language_model.states(tokens(2, 5)))
    assert json.loads((tmp_path / "config.json").read_text())["vocabulary_digest"] == tiny.vocabulary().digest()
    with pytest.raises(InputError, match="another vocabulary than the translator"):
        LanguageModel.from_pretrained(tmp_path, tiny.vocabulary(("de", "fr")))
    Vocabulary.train(tiny.SENTENCES, size=50).save(tmp_path)
    with pytest.raises(InputError, match="not the one the language model was trained with"):
        LanguageModel.from_pretrained(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"x")
    tiny.vocabulary().save(tmp_path)
    with pytest.raises(InputError, match=r"model\.safetensors cannot be read"):
        LanguageModel.from_pretrained(tmp_path)
    tiny.backbone().save_pretrained(tmp_path / "other")
    with pytest.raises(InputError, match="is not a language model"):
        LanguageModel.from_pretrained(tmp_path / "other")


def test_training(tmp_path):
    """From pairs and plain text, all parameters; the loss falls; in two goes to the same weights as in one."""
    tiny.vocabulary().save(tmp_path / "translator")
    write_pairs(tmp_path / "train.tsv", [Pair("x", text) for text in tiny.SENTENCES * 3])
    (tmp_path / "more.txt").write_text("\n".join(["Wo ist die Küche?", "", "Der Boden."]))
    texts, dev = [tmp_path / "train.tsv", tmp_path / "more.txt"], [tmp_path / "more.txt"]

    def run(out: str, updates: int):
        changed = replace(SETTINGS, max_updates=updates)
        return train_language_model(texts, dev, tmp_path / "translator", tmp_path / out, changed, "mini", False)

    summary = run("whole", 12)
    run("halves", 5)
    run("halves", 12)
    stored = [(tmp_path / out / "model.safetensors").read_bytes() for out in ("whole", "halves")]
    assert stored[0] == stored[1]

    torch.manual_seed(SETTINGS.seed)
    before = LanguageModel.create("mini", tiny.vocabulary()).state_dict()
    trained = LanguageModel.from_pretrained(tmp_path / "whole")
    assert [name for name, value in trained.state_dict().items() if torch.equal(value, before[name])] == []
    log = [json.loads(line) for line in (tmp_path / "whole/train/log.jsonl").read_text().splitlines()]
    measured = [entry["nll"] for entry in log if entry["kind"] == "dev"]
    assert measured[-1] < measured[0] - 0.1

    nll, count = 0.0, 0
    for text in ("Wo ist die Küche?", "Der Boden."):
        row = [*trained.prompt(), *trained.target.encode(text), trained.target.eos]
        for t in range(1, len(row)):
            nll -= numpy_log_probs(trained, np.array(row[:t]))[row[t]]
            count += 1
    assert summary.dev["nll"] == pytest.approx(nll / count, rel=1e-4)


@pytest.mark.parametrize(
    ("curve", "best", "tried"),
    [
        (lambda w: -abs(w - 0.2), 0.2, {0.1, 0.2, 0.3}),
        (lambda w: -abs(w - 0.5), 0.5, {0.1, 0.2, 0.3, 0.4, 0.5, 0.6}),
        (lambda w: -w, 0.00625, {0.1, 0.2, 0.3, 0.05, 0.025, 0.0125, 0.00625}),
        (lambda w: 7.0, 0.1, {0.1, 0.2, 0.3, 0.05, 0.025, 0.0125, 0.00625}),
    ],
)
def test_weights_beyond_the_edge(curve, best, tried):
    decoded = dict(search_weight(lambda weight: curve(weight), (0.1, 0.2, 0.3)))
    assert set(decoded) == tried
    assert max(decoded.values()) == pytest.approx(decoded[best])


def test_tuning_translates_with_every_weight(monkeypatch):
    """Scores are those of translating; the model alone wins a tie."""
    backbone, language_model = tiny_store.backbone(), model()
    sentences = tiny_store.pairs(5)
    options = SearchOptions(beam=3, max_length=8)
    scores = iter([10.0, 9.0, 12.0, 11.0])
    texts = []

    def judged(hypotheses, references):
        texts.append(list(hypotheses))
        assert references == [sentence.tgt_text for sentence in sentences]
        return type("Score", (), {"value": next(scores)})

    with monkeypatch.context() as patch:
        patch.setattr(shallow, "bleu", judged)
        tuning = tune_shallow(backbone, language_model, sentences, "text", options, (0.1, 0.2, 0.3), progress=False)
    assert (tuning.weight, tuning.bleu, tuning.base_bleu) == (0.2, 12.0, 10.0)
    assert tuning.decoded == ((0.1, 9.0), (0.2, 12.0), (0.3, 11.0))
    for number, weight in enumerate((0.0, 0.1, 0.2, 0.3)):
        for sentence, text in zip(sentences, texts[number], strict=True):
            ids = backbone.source.encode(sentence.src_text)  # pyright: ignore[reportOptionalMemberAccess]
            with torch.inference_mode():
                memory = backbone.read(torch.tensor([ids]), torch.tensor([len(ids)]))
            fusion = Recomputing(language_model, weight)
            ((best, *_),) = search_with_retry(backbone, memory, backbone.prompt(), options, [fusion])
            assert backbone.target.decode(best.tokens) == text
    monkeypatch.setattr(shallow, "bleu", lambda *_: type("Score", (), {"value": 5.0}))
    assert tune_shallow(backbone, language_model, sentences, "text", options, (0.1, 0.2), progress=False).weight == 0
    with pytest.raises(InputError, match="another vocabulary"):
        tune_shallow(tiny.backbone(languages=("de", "fr")), language_model, sentences, "text", options)
