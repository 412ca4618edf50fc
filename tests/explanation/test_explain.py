"""Explanations against NumPy in double precision and against SentencePiece."""

import io
import itertools
import json
import math
import shutil
from dataclasses import replace

import numpy as np
import pytest
import soundfile
import tiny
import tiny_store
import torch
import typer
from hypothesis import given
from hypothesis import strategies as st
from made_up_pages import HOSTILE, explanation_page
from rich.console import Console
from typer.testing import CliRunner

from npda.cli.explain import explain as explain_verb
from npda.corpus.manifest import Utterance, write_manifest
from npda.corpus.pairs import Pair
from npda.corpus.terms import Rendering, Term
from npda.datastore.retrieval.joined import JoinedRetriever
from npda.datastore.retrieval.local import LocalRetriever
from npda.datastore.retrieval.protocol import Entry, Neighbours
from npda.datastore.source import BuildOptions
from npda.datastore.store import Datastore
from npda.decoding.beam import SearchOptions, search
from npda.decoding.knn.combiners import KnnOptions
from npda.decoding.knn.fusion import KnnFusion
from npda.explanation.explain import explain, merge
from npda.explanation.records import Explanation, Neighbour, Token
from npda.explanation.table import render
from npda.explanation.words import Pieces, kept_words
from npda.io.errors import InputError
from npda.terms.termbase import Terms

PAIRS = tiny_store.pairs(60)
OPTIONS = SearchOptions(beam=3, max_length=14)


@pytest.fixture(scope="module")
def model():
    return tiny_store.backbone()


@pytest.fixture(scope="module")
def memories(model):
    with torch.inference_mode():
        return [model.hear(*tiny.speech([length], seed=length)) for length in (50, 90)]


@pytest.fixture(scope="module")
def store(model, tmp_path_factory):
    return Datastore.build(model, PAIRS, tmp_path_factory.mktemp("stores") / "domain", source="domain.tsv")


@pytest.fixture(scope="module")
def glossary(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("stores") / "terms"
    return Datastore.build(model, [Pair("floor", "Boden"), Pair("the floor", "Küche")], path, source="terms.csv")


@pytest.fixture(scope="module")
def explanation(model, memories, store):
    return explain(model, memories[0], KnnFusion(store, KnnOptions(8, 0.6, 20)), OPTIONS, audio="folder/a.wav")


def entries(model) -> list[tuple[Pair, int, int]]:
    """Pair, position and token of every key, in the order in which a store holds them."""
    eos = model.target.eos
    return [(p, i, t) for p in PAIRS for i, t in enumerate([*model.target.encode(p.tgt_text), eos])]


@pytest.mark.parametrize(
    ("k", "lambda_", "temperature"), [(1, 0.5, 5.0), (4, 0.4, 100.0), (8, 0.1, 20.0), (16, 1.0, 100.0)]
)
def test_every_number_equals_brute_force(model, memories, store, k, lambda_, temperature):
    keys = np.concatenate([block for _, block in store.entries.blocks(1000)])
    table = entries(model)
    for memory in memories:
        e = explain(model, memory, KnnFusion(store, KnnOptions(k, lambda_, temperature)), OPTIONS)
        prefix = model.prompt()
        for token in e.tokens:
            with torch.inference_mode():
                state = model.states(memory, torch.tensor([prefix]))[0, -1]
                logits = model.logits(state).double().numpy()
            p_model = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
            distances, rows = tiny_store.brute_force(keys, state[None].numpy(), k)
            weights = np.exp(-(distances[0] - distances[0, 0]) / temperature)
            weights /= weights.sum()
            of_store = np.zeros(len(p_model))
            for weight, row in zip(weights, rows[0], strict=True):
                of_store[table[row][2]] += weight
            p_knn = of_store[token.token]
            wanted = (p_model.argmax() == token.token, of_store.argmax() == token.token)
            more = "model" if (1 - lambda_) * p_model[token.token] >= lambda_ * p_knn else "store"
            decider = {(True, True): "both", (True, False): "model", (False, True): "store", (False, False): more}

            assert token.decided_by == decider[wanted]
            assert token.p_model == pytest.approx(p_model[token.token], abs=1e-5)
            assert token.p_knn == pytest.approx(p_knn, abs=1e-4)
            assert token.p == pytest.approx(lambda_ * p_knn + (1 - lambda_) * p_model[token.token], abs=1e-4)
            assert token.lambda_ == pytest.approx(lambda_)
            assert (token.base_token, token.base_p) == (p_model.argmax(), pytest.approx(p_model.max(), abs=1e-5))
            np.testing.assert_allclose([n.distance for n in token.neighbours], distances[0], rtol=1e-3, atol=1e-3)
            np.testing.assert_allclose([n.weight for n in token.neighbours], weights, atol=1e-3)
            for neighbour, row in zip(token.neighbours, rows[0], strict=True):
                pair, position, value = table[row]
                told = (neighbour.source_text, neighbour.target_text, neighbour.position, neighbour.token)
                assert told == (pair.src_text, pair.tgt_text, position, value)
                assert (neighbour.store, neighbour.source) == ("domain", "domain.tsv")
            prefix = [*prefix, token.token]


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("max_length", [5, 60])  # cut off without an end symbol, and ended
def test_the_tokens_make_up_the_hypothesis(model, memories, store, beam, max_length):
    options, knn = SearchOptions(beam, max_length=max_length, stop_loops=False), KnnOptions(4, 0.8, 10)
    for memory in memories:
        e = explain(model, memory, KnnFusion(store, knn), options)
        ((hypothesis,),) = search(model, memory, model.prompt(), options, [KnnFusion(store, knn)])
        ((base,),) = search(model, memory, model.prompt(), options)
        assert (e.text, e.base_text) == (model.target.decode(hypothesis.tokens), model.target.decode(base.tokens))
        assert e.log_prob == hypothesis.log_prob
        assert sum(math.log(token.p) for token in e.tokens) == pytest.approx(hypothesis.log_prob, abs=1e-4)
        ended = len(hypothesis.tokens) < max_length
        assert [t.token for t in e.tokens] == [*hypothesis.tokens, *([model.target.eos] if ended else [])]
        assert e.words[-1].end == ended


def test_with_lambda_zero_the_model_decides_everything(model, memories, store):
    e = explain(model, memories[0], KnnFusion(store, KnnOptions(4, 0.0, 10)), OPTIONS)
    assert e.text == e.base_text
    assert all(word.kept for word in e.base_words)
    assert not any(word.new for word in e.words)
    for token in e.tokens:
        assert token.decided_by == "model"
        assert token.p == pytest.approx(token.p_model, rel=1e-5)
        assert len(token.neighbours) == 4  # shown all the same


class Echo:
    """A store that always says what the model says."""

    def __init__(self, model):
        self.model = model

    def search(self, queries: np.ndarray, k: int) -> Neighbours:
        values = self.model.logits(torch.from_numpy(queries)).argmax(dim=1, keepdim=True).numpy()
        return Neighbours(np.zeros(values.shape, np.float32), values.astype(np.int32), values.astype(np.int64))

    def neighbour_info(self, id_: int) -> Entry:
        return Entry("so it is", self.model.target.decode([id_]), 0, id_, "echo")


def test_who_agrees_decides_together(model, memories):
    e = explain(
        model, memories[0], KnnFusion(Echo(model), KnnOptions(1, 0.5, 10)), SearchOptions(beam=1, max_length=14)
    )
    assert e.text == e.base_text
    assert {token.decided_by for token in e.tokens} == {word.decided_by for word in e.words} == {"both"}
    assert not any(token.changed or token.p_knn < 1 for token in e.tokens)


def test_words_cover_the_tokens_and_their_evidence_adds_up(explanation, model):
    e = explanation
    spoken = [word for word in e.words if not word.end]
    assert " ".join(word.text for word in spoken) == e.text
    assert " ".join(word.text for word in e.base_words) == e.base_text
    assert [i for word in e.words for i in range(word.first, word.last + 1)] == list(range(len(e.tokens)))
    assert any(word.last > word.first for word in e.words)
    for word in e.words:
        part = e.tokens[word.first : word.last + 1]
        assert word.p == pytest.approx(math.prod(token.p for token in part))
        assert sum(found.weight for found in word.evidence) == pytest.approx(1, abs=1e-5)
        assert [f.weight for f in word.evidence] == sorted((f.weight for f in word.evidence), reverse=True)
        agreeing = sum(f.weight for f in word.evidence if f.agrees) * len(part)
        assert agreeing <= sum(token.p_knn for token in part) + 1e-5


def test_several_stores_are_told_apart(model, memories, store, glossary):
    together = JoinedRetriever([store, glossary])
    e = explain(model, memories[0], KnnFusion(together, KnnOptions(64, 0.5, 50)), OPTIONS)
    found = {(n.store, n.source) for token in e.tokens for n in token.neighbours}
    assert found == {("domain", "domain.tsv"), ("terms", "terms.csv")}
    assert e.signature == f"k:64|λ:0.5|T:50|beam:3|store:{store.digest[:8]}|store:{glossary.digest[:8]}"


def test_a_small_store_gives_what_it_has(model, memories, glossary):
    e = explain(model, memories[0], KnnFusion(LocalRetriever(glossary), KnnOptions(64, 0.5, 50)), OPTIONS)
    assert {len(token.neighbours) for token in e.tokens} == {len(glossary)}
    assert all(math.isfinite(n.distance) for token in e.tokens for n in token.neighbours)


def test_terms_are_put_in_and_told(model, memories, store, explanation):
    first = explanation.words[0].text
    terms = Terms([Term(("floor",), "Parkett", renderings=(Rendering(first, 1.0),))])
    fusion = KnnFusion(store, KnnOptions(8, 0.6, 20))
    e = explain(model, memories[0], fusion, OPTIONS, audio="folder/a.wav", terms=terms)
    assert e.placed is not None
    done = e.placed.replacements[0]
    assert (done.source, done.target, done.rendering, done.start) == ("floor", "Parkett", first, 0)
    assert e.placed.text == e.text.replace(first, "Parkett")
    assert replace(e, placed=None) == explanation
    assert Explanation.from_json(e.to_json()) == e
    out = io.StringIO()
    Console(file=out, width=100).print(render(e, 100))
    assert f"“Parkett” for “{first}”" in out.getvalue()


def test_without_stored_sentences_tokens_stand_for_themselves(model, memories, store, tmp_path):
    shard = store.entries.shards[0]
    options = BuildOptions(progress=False)
    bare = Datastore.from_arrays(shard.keys, shard.values, model, tmp_path / "bare", options=options)
    explanation = explain(model, memories[0], KnnFusion(bare, KnnOptions(8, 0.9, 20)), OPTIONS)
    neighbours = [n for token in explanation.tokens for n in token.neighbours]
    assert neighbours
    for n in neighbours:
        assert n.source_text == ""
        assert n.target_text == model.target.decode([n.token])
        assert (n.start, n.end) == (0, len(n.target_text))
    Console(file=io.StringIO(), width=100).print(render(explanation))


def neighbour(token: int, weight: float, position: int, text: str = "ab cd", start: int = 0, end: int = 2) -> Neighbour:
    return Neighbour(1.0 + position, weight, token, "x", "s", text, position, start, end, "a.tsv", "store")


def produced(token: int, *neighbours: Neighbour) -> Token:
    return Token(token, "x", 0.5, 0.5, 0.5, 0.5, token, "x", 0.5, "both", neighbours)


def test_neighbours_that_follow_each_other_are_one_piece_of_evidence():
    first = produced(7, neighbour(7, 0.75, 0, start=0, end=1), neighbour(9, 0.25, 2, start=3, end=4))
    second = produced(8, neighbour(8, 0.5, 1, start=1, end=2), neighbour(7, 0.5, 0, start=0, end=1))
    one, two, three = merge([first, second])
    assert (one.start, one.end, one.weight, one.distance, one.agrees) == (0, 2, 0.625, 1.0, True)
    assert (two.start, two.end, two.weight, two.agrees) == (0, 1, 0.25, False)  # the right token a place too late
    assert (three.start, three.end, three.weight, three.agrees) == (3, 4, 0.125, False)


def test_the_words_that_stayed():
    base, adapted = ["Sie", "hat", "den", "Boden", "."], ["Sie", "haben", "das", "Wort", "."]
    assert kept_words(base, adapted) == ([True, False, False, False, True], [True, False, False, False, True])
    assert kept_words([], ["a"]) == ([], [False])


def test_pieces_are_those_of_the_vocabulary(tmp_path):
    """Found out by decoding alone, and yet the same as in the file."""
    vocabulary = tiny.vocabulary()
    vocabulary.save(tmp_path)
    pieces = Pieces(vocabulary)
    for piece, id_ in json.loads((tmp_path / "vocab.json").read_text()).items():
        assert pieces.piece(id_) == (piece if piece not in ("<s>", "<pad>", "<unk>") else f"<{id_}>")


@given(st.lists(st.sampled_from([*" ".join(tiny.SENTENCES).split(), "日本", "ﬁx", "½", " ", "a\u00a0b"])))
def test_every_token_is_found_in_its_sentence(words):
    vocabulary = tiny.vocabulary()
    pieces, sentence = Pieces(vocabulary), " ".join(words)
    spans = pieces.spans(sentence)
    assert [token for token, _, _ in spans] == [*vocabulary.encode(sentence), vocabulary.eos]
    assert spans[-1][1:] == (len(sentence), len(sentence))
    for _, start, end in spans:
        assert 0 <= start <= end <= len(sentence)
    assert all(a[1] <= b[1] for a, b in itertools.pairwise(spans))
    if vocabulary.decode(vocabulary.encode(sentence)) == sentence:
        for token, start, end in spans[:-1]:
            assert sentence[start:end] == pieces.piece(token).removeprefix("▁")


def test_what_the_vocabulary_does_not_know_does_not_shift_the_rest():
    sentence = "日本 die  Küche ﬁndet"
    words = {sentence[start:end] for _, start, end in Pieces(tiny.vocabulary()).spans(sentence)}
    assert words & {"die", "d"}
    assert {"t"} <= words
    assert not any(" " in word for word in words)


def test_json_and_back(explanation):
    line = explanation.to_json()
    assert "\n" not in line
    assert Explanation.from_json(line) == explanation
    assert json.loads(line)["tokens"][0]["neighbours"][0]["store"] == "domain"
    assert json.loads(replace(explanation, audio="a\udcff.wav").to_json())["audio"] == "a?.wav"
    for wrong in ("{}", "[", line.replace('"p_knn"', '"q"')):
        with pytest.raises(InputError, match="npda explain --json"):
            Explanation.from_json(wrong)


def hostile(e: Explanation) -> Explanation:
    """Every text that can come from outside is an attack."""
    evidence = [
        replace(found, source_text=HOSTILE, target_text=HOSTILE, source=HOSTILE, store=f"{i}{HOSTILE}", start=1, end=9)
        for i, found in enumerate(e.words[0].evidence)
    ]
    tokens = tuple(replace(token, piece=HOSTILE, base_piece=HOSTILE, base_token=-1) for token in e.tokens)
    words = tuple(replace(word, text=HOSTILE, evidence=tuple(evidence)) for word in e.words)
    base = tuple(replace(word, text=HOSTILE) for word in e.base_words)
    texts = dict.fromkeys(("audio", "text", "base_text", "signature", "transcript", "reference"), HOSTILE)
    return replace(e, words=words, base_words=base, tokens=tokens, **texts)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_table_fits_and_marks_the_place(explanation, width):
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(render(explanation, width))
    lines = console.export_text().splitlines()
    assert max(map(len, lines)) <= width
    rows = lines[-len(explanation.words) - 1 : -1]
    for word, row in zip(explanation.words, rows, strict=True):
        assert row.startswith("∎" if word.end else word.text)
        best = word.evidence[0]
        assert f"[{best.target_text[best.start : best.end]}]" in row or "[∎]" in row or "[▁]" in row
    console.print(render(hostile(explanation), width))
    assert "\x1b[31m" not in console.export_text(styles=False)


app = typer.Typer()
app.command()(explain_verb)


def npda(*arguments: object):
    runner = CliRunner(env={"COLUMNS": "120"})
    return runner.invoke(app, [*map(str, arguments), "--max-length", "12"])


@pytest.fixture(scope="module")
def given_(model, store, glossary, tmp_path_factory):
    """A model, two recordings, a manifest of both, and a file that is none."""
    folder = tmp_path_factory.mktemp("given")
    model.save_pretrained(folder / "model")
    noise = np.random.default_rng(0).normal(scale=0.1, size=(2, 16_000))
    rows = []
    for number, samples in enumerate(noise):
        soundfile.write(folder / f"{number}.wav", samples, 16_000)
        rows.append(Utterance(str(number), str(folder / f"{number}.wav"), 98, f"Satz {number}", f"sentence {number}"))
    write_manifest(folder / "test.tsv", rows)
    (folder / "broken.wav").write_bytes(b"RIFF but not really")
    return folder


def test_cli_prints_json_and_writes_a_page(given_, store, glossary, tmp_path):
    common = (
        "--model",
        given_ / "model",
        "--store",
        store.path,
        "--store",
        glossary.path,
        "--html",
        tmp_path / "a.html",
    )
    answer = npda(given_ / "test.tsv", *common, "--json", "--k", 3, "--lambda", 0.25, "--temperature", 7, "--beam", 2)
    assert answer.exit_code == 0, answer.output
    found = [Explanation.from_json(line) for line in answer.stdout.splitlines()]
    assert [(e.transcript, e.reference) for e in found] == [("sentence 0", "Satz 0"), ("sentence 1", "Satz 1")]
    assert all(e.signature.startswith("k:3|λ:0.25|T:7|beam:2|store:") for e in found)
    assert (tmp_path / "a.html").read_text(encoding="utf-8") == explanation_page(*found)


def test_cli_explains_standard_input(given_, store):
    common = ("--model", str(given_ / "model"), "--store", str(store.path), "--json", "--max-length", "12")
    runner = CliRunner(env={"COLUMNS": "120"})
    answer = runner.invoke(app, ["-", *common], input=(given_ / "0.wav").read_bytes())
    assert answer.exit_code == 0, answer.output
    piped = Explanation.from_json(answer.stdout)
    assert piped.audio == "stdin"
    named = Explanation.from_json(runner.invoke(app, [str(given_ / "0.wav"), *common]).stdout)
    assert piped.text == named.text


def test_cli_skips_what_it_cannot_read(given_, store, tmp_path):
    common = ("--model", given_ / "model", "--store", store.path)
    answer = npda(
        given_ / "broken.wav", given_ / "0.wav", tmp_path / "none.wav", *common, "--html", tmp_path / "a.html"
    )
    assert answer.exit_code == 2
    for name in ("broken.wav", "none.wav"):
        assert f"{name}" in answer.stderr
    assert answer.stderr.count("npda: skipped:") == 2
    assert "best neighbour" in answer.stdout
    assert (tmp_path / "a.html").is_file()
    assert npda(given_ / "broken.wav", *common, "--html", tmp_path / "b.html").exit_code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["a.html"]


def test_cli_takes_what_was_tuned(given_, glossary, tmp_path):
    store = tmp_path / "tuned"
    shutil.copytree(glossary.path, store)
    best = {"k": 5, "lambda": 0.3, "temperature": 40, "way": "text", "beam": 5, "length_penalty": 0.6}
    (store / "knn.json").write_text(json.dumps({**best, "bleu": 2, "base_bleu": 1, "store": glossary.digest}))
    answer = npda(given_ / "0.wav", "--model", given_ / "model", "--store", store, "--json", "--lambda", 0.4)
    assert json.loads(answer.stdout)["signature"].startswith("k:5|λ:0.4|T:40|")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("a.wav", "--store", "{store}", "--temperature", "0"), "emperature must be above 0"),
        (("a.wav", "--store", "{store}", "--html", "{folder}"), "is a folder"),
        (("a.wav", "--store", "nowhere"), "nowhere is not a datastore"),
        (("none.tsv", "--store", "{store}"), "none.tsv cannot be read"),
    ],
)
def test_cli_refuses_wrong_options(given_, store, arguments, sentence):
    filled = [a.format(store=store.path, folder=given_) for a in arguments]
    answer = npda(*filled, "--model", given_ / "model")
    assert isinstance(answer.exception, InputError)
    assert sentence in str(answer.exception)
