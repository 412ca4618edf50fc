"""The cards of stores: what they say, when they are renewed, and that nothing from elsewhere leaves its cell."""

import shlex
from pathlib import Path

import pytest
import tiny_store
import yaml
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from npda.datastore import verify as verifying
from npda.datastore.card import renew_card, write_card
from npda.datastore.compress import CompressOptions, compress
from npda.datastore.source import BuildOptions, Source
from npda.datastore.store import Datastore
from npda.decoding.knn.tuned_guard import FittedGuard, save_guard
from npda.io import card
from npda.io.errors import InputError

QUIET = BuildOptions(progress=False)
NASTY = "<img src=x> | [l](http://e.vil) **b** `c` ``d`` # --- \\ $x$ https://e.vil www.e.vil a@e.vil {{ x }}"
HTML = MarkdownIt("commonmark").enable("table")


def read(store: Path) -> tuple[dict, str]:
    """Front matter and body."""
    front, body = (store / "README.md").read_text(encoding="utf-8").removeprefix("---\n").split("\n---\n", 1)
    return yaml.safe_load(front), body


@pytest.fixture(scope="module")
def model():
    return tiny_store.backbone()


@pytest.fixture
def store(model, tmp_path) -> Datastore:
    source = Source("debates", tiny_store.pairs(20), licence="CC-BY-4.0")
    return Datastore.build_from(model, source, tmp_path / "store", BuildOptions(progress=False, language="de"))


def test_a_card_tells_sources_licence_size_and_use(store):
    front, body = read(store.path)
    assert front["license"] == "cc-by-4.0"
    assert front["language"] == ["de"]
    assert f"| `debates` | text | 20 | {len(store)} | 0 | de | CC-BY-4.0 |" in body
    assert f"{len(store)} keys of {store.dim} × float16" in body
    assert "| tuned | not yet: run `npda tune` |" in body
    assert shlex.split(body.partition("```bash\n")[2].splitlines()[0])[:2] == ["npda", "translate"]
    assert str(store.path.parent) not in body


def test_a_card_follows_every_change(model, store, tmp_path):
    more = store.append(model, Source("minutes", tiny_store.pairs(9, seed=1), licence="Crown copyright"), QUIET)
    front, body = read(store.path)
    assert (front["license"], front["license_name"]) == ("other", "CC-BY-4.0; Crown copyright")
    assert "`minutes`" in body
    smaller = compress(more, tmp_path / "small", CompressOptions(dim=4, progress=False))
    assert f"4 of {store.dim} dimensions" in read(smaller.path)[1]
    assert read(smaller.path)[0] == front
    left = more.remove("minutes")
    front, body = read(store.path)
    assert front["license"] == "cc-by-4.0"
    assert "minutes" not in body
    gate = FittedGuard(
        slope=1, bias=0, way="text", domain=0.9, general=0.8, counter="0" * 64, store=left.digest, price=None
    )
    save_guard(left, gate)
    assert "`npda tune`" in read(store.path)[1]  # a gate alone is no tuning
    left.remove("debates")
    assert "made of nothing" in read(store.path)[1]


def test_digest_and_check_know_nothing_of_the_card(model, store):
    (store.path / "README.md").write_text("what somebody else has to say", encoding="utf-8")
    verifying.verify(store.path, progress=False)
    renew_card(store.path)
    assert (store.path / "README.md").read_text(encoding="utf-8") == "what somebody else has to say"
    (store.path / "README.md").unlink()
    assert Datastore.open(store.path, model).digest == store.digest
    write_card(store.path)
    assert "`debates`" in read(store.path)[1]


def test_a_licence_is_no_part_of_the_digest(model, store, tmp_path):
    told = BuildOptions(progress=False, language="de")
    plain = Datastore.build(model, tiny_store.pairs(20), tmp_path / "plain", "debates", told)
    assert plain.digest == store.digest
    assert "license" not in read(plain.path)[0]
    with pytest.raises(InputError, match="one line"):
        Source("debates", [], licence="two\nlines")


def test_an_edit_stands_though_its_card_cannot_be_written(store, caplog, monkeypatch):
    def refuse(*_: object) -> None:
        raise InputError("the disk is full.")

    monkeypatch.setattr(card, "write_card", refuse)
    assert len(store.remove("debates")) == 0
    assert "not up to date: the disk is full" in caplog.text


@pytest.mark.parametrize("name", [NASTY, "`", " `` ", "a\u202eb", "x" * 500])
def test_names_from_elsewhere_stay_in_their_cell(model, tmp_path, name):
    store = Datastore.build_from(model, Source(name, tiny_store.pairs(3), licence=NASTY[:90]), tmp_path / "s", QUIET)
    front, body = read(store.path)
    shown = HTML.render(body)
    assert front["license_name"] == " ".join(NASTY[:90].split())
    for tag in ("<img", "<a ", "<strong", "<em"):
        assert tag not in shown
    assert "\u202e" not in body
    row = next(row for row in shown.split("<tr>") if "<td>text</td>" in row)
    assert row.count("<td") == 7  # a row of the table of sources


@given(st.text(max_size=40))
def test_text_is_shown_as_it_is(value):
    line = card.text(value)
    assert HTML.parseInline(f"a {line} b")[0].content == f"a {line} b"
    tokens = HTML.parseInline(f"a {line} b")[0].children or []
    assert {token.type for token in tokens} <= {"text", "text_special"}


@given(st.text(max_size=40))
def test_a_code_span_holds_the_whole_name(value):
    tokens = HTML.parseInline(f"a {card.code(value)} b")[0].children or []
    assert [token.type for token in tokens] == ["text", "code_inline", "text"]


@given(names=st.lists(st.text(max_size=30), max_size=3))
def test_front_matter_is_read_back_as_it_was(tmp_path_factory, names):
    path = tmp_path_factory.mktemp("card") / "README.md"
    card.write_card(path, {"tags": names, "license": "other", "license_name": "; ".join(names)}, "# A card")
    assert read(path.parent)[0]["tags"] == names
    assert card.is_ours(path)
    assert "\n" not in card.told_licence(path)
