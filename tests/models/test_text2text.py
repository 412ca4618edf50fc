"""The translator of text: one decoder with the speech translators, trained on pairs, all parameters moving."""

import json
from dataclasses import replace

import numpy as np
import pytest
import tiny
import torch
from tiny_text2text import model

from npda.cascade import TextTranslator
from npda.corpus.pairs import Pair, write_pairs
from npda.decoding.beam import SearchOptions, search
from npda.io.errors import InputError
from npda.models import load_backbone, load_speech2text, load_text2text
from npda.models.language_model import LanguageModel
from npda.models.text2text import PRESETS, Text2Text, Text2TextSize
from npda.training.data.text import TextData
from npda.training.loop.settings import TrainingSettings
from npda.training.tasks.text_model import TextModel, train_text

SETTINGS = TrainingSettings(
    batch_frames=100, batches_per_update=1, learning_rate=3e-3, warmup=10, schedule="constant", spec_augment=None,
    max_updates=80, evaluate_every=20, patience=None, average=1, label_smoothing=0.0,
)  # fmt: skip
PAIRS = [
    Pair("The floor is yours.", "Das Wort hat die Fraktion."),
    Pair("We opened the window and closed the door.", "Der Boden ist schön, aber kalt."),
    Pair("Where is the kitchen?", "Wo ist die Küche?"),
]


def test_sizes_of_the_paper():
    text = Text2Text(Text2TextSize(**PRESETS["cascade"]), tiny.vocabulary(), tiny.vocabulary())
    attention, ffn = 4 * (512 * 512 + 512), (512 * 1024 + 1024) + (1024 * 512 + 512)
    encoder, decoder = attention + ffn + 2 * 1024, 2 * attention + ffn + 3 * 1024
    expected = 2 * len(tiny.vocabulary()) * 512 + 6 * (encoder + decoder) + 2 * 1024
    assert sum(parameter.numel() for parameter in text.parameters()) == expected


@pytest.mark.parametrize("languages", [(), ("de", "fr")])
def test_steps_give_the_states_of_the_whole(languages):
    text = model(languages)
    sources = [torch.tensor(text.source.encode(pair.src_text)) for pair in PAIRS]
    lengths = torch.tensor([len(source) for source in sources])
    tokens = torch.nn.utils.rnn.pad_sequence(sources, batch_first=True, padding_value=text.source.pad)
    prompt = text.prompt("fr" if languages else None)
    target = torch.tensor([[*prompt, 9, 10, 11, 12]] * 3)
    with torch.inference_mode():
        memory = text.read(tokens, lengths)
        whole = text.states(memory, target)
        stream = text.start(memory, 1)
        last = [stream.step(target[:, : len(prompt)])]
        last += [stream.step(target[:, t : t + 1]) for t in range(len(prompt), target.shape[1])]
        np.testing.assert_allclose(torch.stack(last, 1).numpy(), whole[:, len(prompt) - 1 :].numpy(), atol=1e-5)
        # A sentence does not depend on the others of its batch.
        alone = text.states(text.read(sources[2][None], lengths[2:]), target[2:])
        np.testing.assert_allclose(whole[2:].numpy(), alone.numpy(), atol=1e-5)
        logits = text.logits(whole)
    np.testing.assert_allclose(
        logits.numpy(), whole.numpy() @ text.decoder.embed_tokens.weight.detach().numpy().T, atol=1e-5
    )


def test_it_cannot_hear():
    text = model()
    with pytest.raises(InputError, match="translates text and cannot hear"):
        text.hear(*tiny.speech([60]))
    with pytest.raises(InputError, match="translates text and cannot hear"):
        text.features(np.zeros(1600, np.float32))


def test_directory(tmp_path):
    text = model(("de", "fr"))
    text.save_pretrained(tmp_path / "text")
    opened = load_backbone(tmp_path / "text")
    assert isinstance(opened, Text2Text)
    assert opened.size == text.size
    assert opened.target.digest() == text.target.digest() != opened.source.digest() == text.source.digest()
    weights = text.state_dict()
    assert weights.keys() == opened.state_dict().keys()
    assert all(torch.equal(weights[name], value) for name, value in opened.state_dict().items())
    tiny.backbone().save_pretrained(tmp_path / "speech")
    with pytest.raises(InputError, match="translates text; give the directory of a speech translator"):
        load_speech2text(tmp_path / "text")
    with pytest.raises(InputError, match="translates speech; give the directory of a text translator"):
        load_text2text(tmp_path / "speech")
    config = json.loads((tmp_path / "text/config.json").read_text())
    (tmp_path / "text/config.json").write_text(json.dumps({**config, "ffn": 47}))
    with pytest.raises(InputError, match="of another size"):
        load_text2text(tmp_path / "text")


@pytest.fixture
def files(tmp_path):
    """Training and dev data alike: they are to be learnt by heart."""
    write_pairs(tmp_path / "pairs.tsv", PAIRS)
    return [tmp_path / "pairs.tsv"]


def test_training_with_the_vocabularies_of_a_translator(tmp_path, files):
    """Cascade-ST: everything moves, the loss falls until the pairs are known by heart, and a search finds them."""
    tiny.backbone().save_pretrained(tmp_path / "speech")
    wanted = TextModel("mini", vocabulary=tmp_path / "speech")
    summary = train_text(files, files, tmp_path / "text", wanted, SETTINGS, progress=False)
    trained = load_text2text(tmp_path / "text")
    assert trained.source.digest() == trained.target.digest() == tiny.vocabulary().digest()

    torch.manual_seed(SETTINGS.seed)
    before = Text2Text.create("mini", tiny.vocabulary(), tiny.vocabulary()).state_dict()
    unmoved = [name for name, value in trained.state_dict().items() if torch.equal(value, before[name])]
    assert unmoved == []
    log = [json.loads(line) for line in (tmp_path / "text/train/log.jsonl").read_text().splitlines()]
    measured = [entry["nll"] for entry in log if entry["kind"] == "dev"]
    assert measured[-1] < 0.1 < 1 < measured[0]

    nll, count = 0.0, 0
    for pair in PAIRS:
        source = torch.tensor([trained.source.encode(pair.src_text)])
        row = torch.tensor([[*trained.prompt(), *trained.target.encode(pair.tgt_text), trained.target.eos]])
        with torch.inference_mode():
            states = trained.states(trained.read(source, torch.tensor([source.shape[1]])), row[:, :-1])
            log_probs = trained.logits(states)[0].log_softmax(-1).numpy()
        nll -= sum(log_probs[t, token] for t, token in enumerate(row[0, 1:].tolist()))
        count += row.shape[1] - 1
    assert summary.dev["nll"] == pytest.approx(nll / count, rel=1e-4)

    found = TextTranslator(trained).translate_texts([pair.src_text for pair in PAIRS])
    assert [texts[0][0] for texts in found] == [pair.tgt_text for pair in PAIRS]


def test_training_with_a_vocabulary_of_its_own(tmp_path, files):
    """Cascade-ST*: one vocabulary for both sides, from the pairs alone, tags for several languages."""
    settings = replace(SETTINGS, max_updates=2, evaluate_every=2)
    wanted = TextModel("mini", vocabulary_size=60)
    train_text(files, files, tmp_path / "own", wanted, settings, progress=False)
    trained = load_text2text(tmp_path / "own")
    assert trained.source.digest() == trained.target.digest() != tiny.vocabulary().digest()
    assert trained.target.languages == ()
    assert trained.source.decode(trained.source.encode("the kitchen")) == "the kitchen"
    with pytest.raises(InputError, match="was started differently"):
        train_text(files, files, tmp_path / "own", replace(wanted, vocabulary_size=61), settings, progress=False)

    tagged = [replace(pair, tgt_lang=language) for pair in PAIRS for language in ("fr", "de")]
    write_pairs(tmp_path / "both.tsv", tagged)
    both = [tmp_path / "both.tsv"]
    train_text(both, both, tmp_path / "multilingual", wanted, settings, progress=False)
    assert load_text2text(tmp_path / "multilingual").target.languages == ("de", "fr")

    with pytest.raises(InputError, match="has no vocabulary of transcripts"):
        train_text(files, files, tmp_path / "none", TextModel("mini", vocabulary=tmp_path), settings)
    with pytest.raises(InputError, match="There is no preset 'large'"):
        TextModel("large")


def test_pairs_without_room_are_counted():
    text = model()
    text.max_target = 20
    long = Pair("The floor.", "Wo ist die Küche? " * 5)
    data = TextData([*PAIRS[2:], long], text)
    assert (len(data), data.dropped) == (1, 1)
    batch = data.batch([0])
    row = text.target.encode(PAIRS[2].tgt_text)
    assert batch.tokens.tolist() == [[*text.prompt(), *row]]
    assert batch.labels.tolist() == [[*row, text.target.eos]]
    assert batch.source.tolist() == [text.source.encode(PAIRS[2].src_text)]
    with pytest.raises(InputError, match="None of the 1 sentences can be used"):
        TextData([long], text)


def test_search_needs_no_speech():
    text = model()
    memory = text.read(torch.tensor([[9, 10, 11]]), torch.tensor([3]))
    ((best,),) = search(text, memory, text.prompt(), SearchOptions(max_length=5))
    assert len(best.tokens) <= 5


def test_command_line(tmp_path, files):
    from typer.testing import CliRunner

    from npda.cli import app

    tiny.backbone().save_pretrained(tmp_path / "speech")
    given = ["train-text", str(files[0]), "--dev", str(files[0]), "--max-updates", "1", "--json"]
    vocabulary = ["--vocabulary", str(tmp_path / "speech")]
    runs = {
        "lm": ["--task", "lm", *vocabulary],
        "mt": ["--task", "mt", *vocabulary],
        "own": ["--task", "mt", "--vocabulary-size", "60"],
    }
    for out, options in runs.items():
        result = CliRunner().invoke(app, [*given, *options, "--out", str(tmp_path / out)], catch_exceptions=False)
        assert json.loads(result.stdout)["updates"] == 1
    assert LanguageModel.from_pretrained(tmp_path / "lm").target.digest() == tiny.vocabulary().digest()
    assert load_text2text(tmp_path / "mt").target.digest() == tiny.vocabulary().digest()
    assert load_text2text(tmp_path / "own").target.digest() != tiny.vocabulary().digest()
    for wrong, sentence in (
        (["--task", "lm"], "needs --vocabulary"),
        (["--task", "mt", *vocabulary, "--vocabulary-size", "60"], "use it with --task mt and without --vocabulary"),
    ):
        with pytest.raises(InputError, match=sentence):
            CliRunner().invoke(app, [*given, *wrong, "--out", str(tmp_path / "x")], catch_exceptions=False)
