"""Every page as a browser reads it: whole, alone, and deaf to what texts from outside would have it do."""

import base64
import hashlib
import html
import re
import tomllib
from pathlib import Path

import numpy as np
import pytest
from jinja2 import UndefinedError
from made_up_pages import HOSTILE, SHOWN, demo_pages, explanation, explanation_page, tables
from page_reader import Page, check_stands_alone

from npda.report import page as page_module
from npda.report.explanation import SHOWN as SENTENCES_SHOWN
from npda.report.explanation import write_page
from npda.report.page import pieces, policy, render, static
from npda.reproduce.recipe.recipe import Recipe
from npda.reproduce.report import page as recipe_page

# Hostile names have no glyphs and leave the picture no room.
pytestmark = pytest.mark.filterwarnings("ignore:Glyph", "ignore:constrained_layout")

TEXTS = {"usual": "die Küche im Haus", "hostile": HOSTILE}
PAGES = ("demo", "why", "explanation", "recipe")


def made(name: str, text: str, folder: Path) -> str:
    match name:
        case "demo":
            return demo_pages(folder, text)[0]
        case "why":
            return demo_pages(folder, text)[1]
        case "explanation":
            return explanation_page(explanation(text, stores=2), explanation(text, sentences=0))
        case _:
            # The name of a recipe is checked where it is read; the page trusts nobody.
            return recipe_page(Recipe.model_construct(name=text, corpora={}), tables(text))


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("name", PAGES)
def test_a_page_stands_alone(name: str, text: str, tmp_path: Path):
    source = made(name, TEXTS[text], tmp_path)
    assert source.startswith("<!DOCTYPE html>")
    page = Page(source)
    check_stands_alone(page)
    assert not set(source) & {"\x1b", "\x00"}
    assert not re.findall(r"https?://(?!www\.w3\.org/)", re.sub(r"&lt;img src=http://example.org", "", source))
    # One script at most, and the browser is told to run no other.
    script = page.text("script")
    assert len(page.find("script")) == (name in ("why", "explanation"))
    assert policy(script) in page.all("content")
    assert ("script-src" in policy(script)) == bool(script)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_shows_texts_as_they_are(name: str, tmp_path: Path):
    page = Page(made(name, HOSTILE, tmp_path))
    assert " ".join(SHOWN.split()) in page.visible
    if name in ("why", "explanation"):
        assert page.texts["mark"][0] == SHOWN[1:9]
        assert SHOWN in page.texts["del"]
        assert any(text.strip() == SHOWN for text in page.texts["code"])
    if name == "recipe":
        assert page.text("title") == f"Results of the recipe {SHOWN}"
        assert f"p = 0.0123 against {SHOWN}" in page.all("title")
        assert page.texts["text"].count(SHOWN) >= 2  # names of systems inside pictures
        assert page.all("aria-label").count(SHOWN) >= 3


@pytest.mark.parametrize("name", PAGES)
def test_pages_share_one_head_and_one_style(name: str, tmp_path: Path):
    page = Page(made(name, "Text", tmp_path))
    # matplotlib puts a style of its own into every picture
    assert page.texts["style"][0] == static("page.css")
    assert page.text("h1") == page.texts["title"][0]
    assert {"width=device-width, initial-scale=1", "no-referrer"} <= set(page.all("content"))
    assert [len(page.find(tag)) for tag in ("head", "header", "main", "h1")] == [1, 1, 1, 1]


@pytest.mark.parametrize("name", PAGES)
def test_every_table_scrolls_inside_its_card(name: str, tmp_path: Path):
    page = Page(made(name, "Text", tmp_path))
    found = page.find("table")
    assert found
    for table in found:
        around = table.path[-1]
        assert "scroll" in around.classes
        assert any("card" in element.classes for element in table.path)
        # A keyboard can reach what scrolls, and a screen reader says what it is.
        assert (around.attributes["tabindex"], around.attributes["role"]) == ("0", "region")
        assert around.attributes["aria-label"]
    assert re.search(r"\.scroll \{ overflow-x: auto;", static("page.css"))


def test_every_word_leads_to_its_panel():
    found = explanation()
    page = Page(explanation_page(found, found))
    assert [link.removeprefix("#") for link in page.all("href")] == [
        panel.attributes["id"] for panel in page.find("article")
    ]
    assert len(page.all("href")) == 2 * len(found.words)


def test_the_explanation_says_what_is_behind_a_word():
    found = explanation("die Küche im Haus", sentences=SENTENCES_SHOWN + 3)
    page = Page(explanation_page(found))
    assert page.texts["mark"] == ["ie Küche"] * (SENTENCES_SHOWN + 1)
    rest = sum(e.weight for e in found.words[0].evidence[SENTENCES_SHOWN:])
    assert f"and 3 more, together {100 * rest:.0f} %" in page.visible
    assert "the store decided 1 of 2 words" in page.visible
    assert "The store has no neighbours here." in page.visible
    assert page.visible.count("in store 0 · die Küche im Haus") == 2
    many = Page(explanation_page(explanation("Haus", stores=2)))
    assert many.visible.count("in store") == 1  # the end has one sentence behind it
    assert {"store 0 · Haus", "store 1 · Haus"} <= set(many.texts["p"])


def test_a_path_tells_nothing_about_the_disk():
    assert Page(explanation_page(explanation("folder/a.wav"))).texts["h2"] == ["a.wav"]


def test_an_explanation_is_written_as_soon_as_it_is_there(tmp_path: Path):
    path = tmp_path / "page.html"

    def slow():
        yield explanation("eins")
        stream.flush()
        assert "eins" in path.read_text(encoding="utf-8")
        yield explanation("zwei")

    with open(path, "w", encoding="utf-8") as stream:
        assert write_page(slow(), stream) == 2
    assert "zwei" in Page(path.read_text(encoding="utf-8")).visible


def test_a_fault_on_the_way_is_not_hidden():
    def broken():
        yield explanation()
        raise LookupError("no more")

    with pytest.raises(LookupError, match="no more"):
        list(pieces("explanation.html", title="", explanations=broken(), shown=3))


def test_the_demo_report_says_what_was_found(tmp_path: Path):
    page = Page(demo_pages(tmp_path)[0])
    for words in ("2,500 translated sentences", "NPDA-kNN-ST 73.2 +63.8 < 0.001 5.1", "kNN-MT 75.5 +66.0 0.012 4.9",
                  "k 8, λ 0.5, T 10", "74.5 BLEU, +1.2", "from 94.2 to 93.8 BLEU", "falls to 5.1",
                      "7 sentences left out", "npda tuning3.2 s",
                  "store *12.5 s", "cosine of 0.913", "Beam 5 gives 73.2, greedy search 70.8"):  # fmt: skip
        assert words in page.visible
    assert len(page.find("svg")) == 3
    assert page.all("href")[0] == "why.html"


def test_a_value_that_is_missing_is_a_fault():
    with pytest.raises(UndefinedError, match="title"):
        render("recipe.html", remarks=(), tables=(), names=(), pictures={})


def test_the_policy_names_the_script():
    script = static("explanation.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy(script).endswith(f"; script-src 'sha256-{digest}'")
    page = Page(explanation_page(explanation()))
    assert page.text("script") == script
    assert html.unescape(page.all("content")[0]) == policy(script)


def test_templates_and_style_are_part_of_the_package():
    root = Path(__file__).parents[2]
    patterns = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["npda"]
    packed = {path for pattern in patterns for path in (root / "src" / "npda").glob(pattern)}
    folder = Path(page_module.__file__).parent
    files = {path for path in folder.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")}
    assert len(files) >= 6
    assert files <= packed


def luminance(colour: str) -> float:
    """Relative luminance after WCAG 2."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return float(np.dot([0.2126, 0.7152, 0.0722], linear))


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_every_text_has_contrast(scheme: int):
    blocks = re.findall(r":root \{(.*?)\}", static("page.css"), re.DOTALL)
    assert len(blocks) == 2
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", blocks[scheme]))
    pairs = [
        (text, ground) for text in ("ink", "soft", "model", "store", "both", "gone") for ground in ("card", "paper")
    ]
    pairs += [("ink", ground) for ground in ("model-tint", "store-tint", "both-tint", "track")]
    for text, ground in pairs:
        dark, light = sorted(luminance(colours[name]) for name in (text, ground))
        assert (light + 0.05) / (dark + 0.05) >= 4.5, (text, ground)
