"""npda build, inspect and remove as a user meets them."""

import json

import pytest
import tiny_store
import typer
from typer.testing import CliRunner

from npda.cli.build import build
from npda.cli.inspect import inspect
from npda.cli.remove import remove
from npda.corpus.pairs import write_pairs
from npda.io.errors import InputError

app = typer.Typer()
for verb in (build, inspect, remove):
    app.command()(verb)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    directory = tmp_path_factory.mktemp("model")
    tiny_store.backbone().save_pretrained(directory)
    return directory


def npda(*arguments: object) -> str:
    """What a verb prints on standard output; its errors are raised."""
    answer = CliRunner(env={"COLUMNS": "200"}).invoke(app, [*map(str, arguments)], catch_exceptions=False)
    assert answer.exit_code == 0, answer.output
    return answer.stdout


TMX = """<tmx version="1.4"><header srclang="en"/><body>
<tu><tuv xml:lang="en"><seg>the window</seg></tuv><tuv xml:lang="de"><seg>die Küche</seg></tuv></tu></body></tmx>"""


def test_every_kind_of_text_in_one_store(model, tmp_path):
    store = tmp_path / "store"
    write_pairs(tmp_path / "domain.tsv", tiny_store.pairs(30))
    (tmp_path / "a.en").write_text("the floor\n\nthe door\n")
    (tmp_path / "a.de").write_text("das Wort\n\ndie Küche\n")
    (tmp_path / "memory.tmx").write_text(TMX)

    first = json.loads(npda("build", "--model", model, "--text", tmp_path / "domain.tsv", "--out", store, "--json"))
    assert (first["kinds"], first["sources"][0]["sentences"]) == (["text"], 30)
    append = ("build", "--model", model, "--out", store, "--append", "--json")
    npda(*append, "--source", tmp_path / "a.en", "--target", tmp_path / "a.de", "--name", "moses")
    last = json.loads(npda(*append, "--tmx", tmp_path / "memory.tmx", "--source-language", "en", "--language", "de"))
    found = [(source["name"], source["kind"], source["sentences"]) for source in last["sources"]]
    assert found == [
        ("domain.tsv", "text", 30),
        ("moses", "text", 2),
        ("memory.tmx", "text", 1),
    ]
    assert last["count"] == sum(source["keys"] for source in last["sources"])

    table = npda("inspect", store, "--verify")
    for words in ("exact", "moses", "B/key", "verified", f"{last['count']:,} keys"):
        assert words in table
    assert json.loads(npda("inspect", store, "--json"))["digest"] == last["digest"]
    left = json.loads(npda("remove", store, "--source", "domain.tsv", "--json"))
    assert left["count"] == last["count"] - first["count"]


def test_a_broken_file_is_named(model, tmp_path):
    store = tmp_path / "store"
    write_pairs(tmp_path / "domain.tsv", tiny_store.pairs(3))
    npda("build", "--model", model, "--text", tmp_path / "domain.tsv", "--out", store)
    values = store / "shards/00000/values.npy"
    content = bytearray(values.read_bytes())
    content[-1] ^= 1
    values.write_bytes(content)
    for options in ((), ("--verify",)):
        with pytest.raises(InputError, match=str(values)):
            npda("inspect", store, *options)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ((), "Give one of --text"),
        (("--text", "a.tsv", "--tmx", "b.tmx"), "Give one of --text"),
        (("--glossary", "terms.csv"), "learn them with `npda terms terms.csv --general TEXT --model .*no-model"),
        (("--source", "a.en"), "--source and --target go together"),
        (("--text", "none.tsv"), "There is no file none.tsv"),
        (("--text", "a.tsv", "--append", "--index", "exact"), "keeps its index"),
        (("--text", "{here}", "--append"), "is not a datastore"),
        (("--tmx", "{here}"), "say which languages"),
    ],
)
def test_wrong_options_are_refused_before_the_model_is_opened(tmp_path, options, sentence):
    (tmp_path / "here").write_text("a\tb\n")
    given = [option.format(here=tmp_path / "here") for option in options]
    with pytest.raises(InputError, match=sentence):
        npda("build", "--model", tmp_path / "no-model", "--out", tmp_path / "store", *given)
    assert [path.name for path in tmp_path.iterdir()] == ["here"]
