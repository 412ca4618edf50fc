"""Stores that stay on, as a user meets them: build --counter, tune, inspect, translate, explain."""

import json
import logging

import pytest
import said
import soundfile
import tiny_store
import typer
from typer.testing import CliRunner

from npda.cli.build import build
from npda.cli.explain import explain
from npda.cli.inspect import inspect
from npda.cli.translate import translate
from npda.cli.tune import tune
from npda.corpus.pairs import write_pairs
from npda.io.errors import InputError

app = typer.Typer()
for verb in (build, explain, inspect, translate, tune):
    app.command()(verb)


def npda(*arguments: object) -> str:
    """What a verb prints on standard output; its errors are raised."""
    answer = CliRunner(env={"COLUMNS": "200"}).invoke(app, [*map(str, arguments)], catch_exceptions=False)
    assert answer.exit_code == 0, answer.output
    return answer.stdout


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A model, pairs of two domains and of general text, and a recording."""
    folder = tmp_path_factory.mktemp("world")
    tiny_store.backbone().save_pretrained(folder / "model")
    for seed, name in enumerate(("one", "two", "general", "dev", "general-dev")):
        write_pairs(folder / f"{name}.tsv", tiny_store.pairs(60 if seed < 3 else 8, seed=seed))
    soundfile.write(folder / "speech.wav", said.speech(16_000), 16_000)
    for name in ("one", "two"):
        npda("build", "--model", folder / "model", "--text", folder / f"{name}.tsv", "--out", folder / "stores" / name)
    return folder


def test_without_a_counter_store_people_are_warned(world, caplog):
    given = "translate", world / "speech.wav", "--model", world / "model", "--store", world / "stores" / "one"
    with caplog.at_level(logging.WARNING):
        npda(*given, "--unguarded")
        assert "counter-store" not in caplog.text
        npda(*given)
    assert "has no counter-store" in caplog.text


def test_with_a_counter_store_they_may_stay_on(world, caplog):
    model, stores = world / "model", world / "stores"
    counter = "build", "--model", model, "--text", world / "general.tsv", "--counter", "--json"
    assert json.loads(npda(*counter))["path"] == str(model / "counter" / "store")
    assert len((model / "counter" / "held-out.tsv").read_text().splitlines()) > 1
    with pytest.raises(InputError, match="already holds a counter-store"):
        npda(*counter)

    guard = {}
    for name in ("one", "two"):
        tuned = npda(
            "tune", "--model", model, "--store", stores / name, "--text", world / "dev.tsv",
            "--general", world / "general-dev.tsv", "--beam", "2", "--max-length", "8", "--decodes", "1", "--json",
        )  # fmt: skip
        guard[name] = json.loads(tuned)["guard"]
    assert guard["one"]["way"] == "text"
    assert json.loads(npda("inspect", stores / "one", "--json"))["guard"]["slope"] == guard["one"]["slope"]
    card = npda("inspect", stores / "one")
    assert "gain on dev" in card
    assert "own side" in card

    with caplog.at_level(logging.WARNING):
        found = json.loads(
            npda(
                "explain", world / "speech.wav", "--model", model, "--store", stores, "--lambda", "0.5",
                "--beam", "2", "--max-length", "8", "--json",
            )
        )  # fmt: skip
    assert "counter-store" not in caplog.text
    assert found["stores"] == ["one", "two"]
    assert all(len(token["opened"]) == 2 for token in found["tokens"])


def test_what_counter_and_out_ask_for(world):
    text = "--model", world / "model", "--text", world / "one.tsv"
    with pytest.raises(InputError, match="--counter takes general text"):
        npda("build", *text, "--counter", "--append")
    with pytest.raises(InputError, match="--out DIR"):
        npda("build", *text)
