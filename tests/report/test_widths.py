"""No page is wider than the screen it is read on: measured in a browser, where there is one."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import PROGRAM, Browser
from made_up_pages import demo_pages, explanation, explanation_page, tables

from npda.reproduce.recipe.recipe import Recipe
from npda.reproduce.report import page as recipe_page

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="chromium is not installed")

LONG = "Donaudampfschifffahrtsgesellschaft " * 3 + "/a/very/long/path" * 12

# Right edges of everything that stands outside a container of its own scroll bar.
OUTSIDE = """[...document.querySelectorAll("body *")]
  .filter(e => !e.closest(".scroll table, pre code, svg") && e.getClientRects().length)
  .filter(e => e.getBoundingClientRect().right > document.documentElement.clientWidth + 0.5).map(e => e.outerHTML)"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    recipe = Recipe.model_construct(name=LONG, corpora={})
    contents = {
        "demo": demo_pages(folder)[0],
        "demo-long": demo_pages(folder, LONG[:200].replace("/", " "))[0],
        "explanation": explanation_page(explanation(), explanation(LONG, stores=2)),
        "recipe": recipe_page(recipe, tables()),
    }
    paths = {name: folder / f"{name}.page.html" for name in contents}
    for name, content in contents.items():
        paths[name].write_text(content, encoding="utf-8")
    return paths


@pytest.mark.parametrize("width", [360, 390, 800, 1400])
@pytest.mark.parametrize("name", ["demo", "demo-long", "explanation", "recipe"])
def test_no_page_is_wider_than_the_screen(browser: Browser, pages: dict[str, Path], name: str, width: int):
    browser.open(pages[name], width)
    assert browser.value("document.documentElement.clientWidth") == width
    assert browser.value("document.documentElement.scrollWidth") == width
    assert browser.value(OUTSIDE) == []


def test_a_table_wider_than_its_card_scrolls(browser: Browser, pages: dict[str, Path]):
    browser.open(pages["recipe"], 390)
    boxes = browser.value("[...document.querySelectorAll('.scroll')].map(e => [e.scrollWidth, e.clientWidth])")
    assert all(outer < 390 for _, outer in boxes)
    assert boxes[-1][0] > boxes[-1][1]


@pytest.mark.parametrize("dark", [False, True])
def test_the_page_follows_the_colour_scheme(browser: Browser, pages: dict[str, Path], dark: bool):
    browser.open(pages["demo"], 800, dark)
    grounds = {False: "rgb(251, 250, 248)", True: "rgb(22, 23, 25)"}  # --paper
    assert browser.value("getComputedStyle(document.body).backgroundColor") == grounds[dark]


def test_choosing_a_word_opens_its_panel(browser: Browser, pages: dict[str, Path]):
    """The policy names the digest of the script: a browser that runs it has accepted it."""
    browser.open(pages["explanation"], 800)
    shown = """[...document.querySelectorAll(".card")]
      .map(card => [...card.querySelectorAll(".panel")].findIndex(panel => panel.offsetHeight))"""
    assert browser.value(shown) == [0, 0]
    browser.value("document.querySelectorAll('.word')[1].click()")
    assert browser.value(shown) == [1, 0]
