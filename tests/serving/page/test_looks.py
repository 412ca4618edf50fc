"""How the page looks and is used: on phones, in the dark, in German, by keyboard, with a screen reader."""

import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from serving_fakes import listening

from npda.serving.app import create_app
from npda.serving.settings import Key, Settings

ROOT = Path(__file__).parents[3]
AXE = ROOT / ".ci" / "tools" / "node_modules" / "axe-core" / "axe.min.js"
PICTURE = ROOT / "docs" / "page.png"
FLOOR = "parliament-test-00043"
SECRET = "a-secret-with (letters)"

LONG = "customer-service-of-the-Donaudampfschifffahrtsgesellschaft-2026"
_CARD = {
    "licence": "CC BY 4.0", "origin": "https://example.org/minutes", "size_bytes": 4_300_000, "corrections": 38,
    "tuned": {"k": 8, "lambda": 0.98, "temperature": 10.0, "guarded": True},
    "gain": {"base_bleu": 11.85, "bleu": 83.68}, "harm": {"base_bleu": 94.6, "bleu": 93.0},
}  # fmt: skip
_SOURCES = [{"name": LONG, "sentences": 800}, {"name": "faq.tmx", "sentences": 1}]
_CORRECTION = {"id": "c", "text": "Der Staat muss diesen zweiten Antrag annehmen."}
_JOB = {"id": "a", "target": LONG, "state": "running", "progress": 0.42, "step": "building faq", "eta_seconds": 45}
HELP = {  # what a server that is much used answers
    "stores": {
        "data": [
            {"name": "parliament", "model": "mini", "keys": 42_633, "editable": False, "sources": [], "card": {}},
            {"name": LONG, "model": "mini", "keys": 9, "editable": True, "sources": _SOURCES, "card": _CARD},
        ]
    },
    "corrections?*": {"data": [_CORRECTION]},
    "jobs": {"data": [_JOB, {"id": "b", "target": "koran", "state": "queued", "place": 1}]},
    "terms?*": {"data": [{"name": LONG, "pairs": 2}, {"name": "board", "pairs": 1}]},
    "terms/*": {
        "pairs": [
            {"source": "cabinet", "target": "Kabinett", "renderings": [{"text": "Schrank"}], "learnt": True},
            {"source": "motion", "target": "Vorstoß", "renderings": [], "learnt": False},
        ],
        "learnt": 1,
        "size": 2,
    },
}

# What reaches over the edge of the screen, or is cut off by it.
_OUTSIDE = """() => [document.scrollingElement.scrollWidth - innerWidth, ...[...document.body.querySelectorAll("*")]
  .filter(e => e.getClientRects().length && !e.closest(".hidden, .skip, svg"))
  .filter(e => e.getBoundingClientRect().right > innerWidth + 0.5 || e.getBoundingClientRect().left < -0.5)
  .map(e => e.outerHTML.slice(0, 200))]"""


def _fulfil(answer: object, route: Any) -> None:
    route.fulfill(json=answer)


def show(page: Any, state: str) -> None:
    """Lead the page to one of its states."""
    if state == "empty":
        return
    if state == "error":
        page.context.set_offline(True)
        page.click("#again" if page.locator("#again").count() else f"[data-clip={FLOOR}]")
        page.wait_for_selector("#trouble p")
        page.context.set_offline(False)
        return
    if state == "helping":
        for path, answer in HELP.items():
            page.route(f"**/v1/{path}", partial(_fulfil, answer))
        page.reload()
        page.wait_for_selector(".job")
        for summary in page.locator("summary").all():
            summary.click()
        page.set_input_files("#add-file", {"name": "a" * 60 + ".tmx", "mimeType": "text/xml", "buffer": b"<tmx/>"})
        page.wait_for_selector(".adding")
        page.wait_for_selector(".corrections li")
        page.wait_for_selector("#terms .about li")
        return
    page.click(f"[data-clip={FLOOR}]")
    page.wait_for_selector(".result")
    if state == "why":
        page.locator(".adapted button.word", has_text="Wort").click()
        page.wait_for_selector(".why")
    if state == "correcting":
        page.click(".adapted + .row button")
        page.wait_for_selector(".editor textarea")


@pytest.mark.parametrize("locale", ["en-US", "de-DE"])
def test_a_phone_needs_no_scrolling_sideways(visit, locale):
    page = visit(locale=locale, viewport={"width": 360, "height": 740})
    for state in ("empty", "helping", "why", "correcting", "error"):
        show(page, state)
        assert page.evaluate(_OUTSIDE) == [0], state


def violations(page: Any) -> list[str]:
    """What axe-core holds against the page as it stands."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run()")["violations"]
    return [f"{each['id']}: {node['html'][:200]}" for each in found for node in each["nodes"]]


@pytest.mark.skipif(not AXE.is_file(), reason="axe-core is not installed: accessibility is not checked")
@pytest.mark.parametrize(
    ("scheme", "states"), [("light", ("empty", "helping", "why", "correcting", "error")), ("dark", ("helping", "why"))]
)
def test_nobody_is_shut_out(visit, scheme, states):
    page = visit(color_scheme=scheme, reduced_motion="reduce")
    for state in states:
        show(page, state)
        assert violations(page) == [], state


def test_it_is_dark_in_the_dark(visit):
    shades = {}
    for scheme in ("light", "dark"):
        page = visit(color_scheme=scheme)
        color = page.evaluate("getComputedStyle(document.body).backgroundColor")
        shades[scheme] = sum(map(int, color.removeprefix("rgb(").removesuffix(")").split(",")))
    assert shades["light"] > 700 > 100 > shades["dark"]


def test_it_speaks_german(visit):
    page = visit(locale="de-DE")
    assert page.get_attribute("html", "lang") == "de"
    page.click(f"[data-clip={FLOOR}]")
    page.get_by_text("8 Wörter sind anders.").wait_for()
    page.locator(".adapted button.word", has_text="Wort").click()
    assert page.inner_text(".why h4") == "Warum „Wort“?"
    page.select_option("#page-language", "en")
    assert page.get_attribute("html", "lang") == "en"
    page.get_by_text("8 words changed.").wait_for()
    page.reload()
    page.get_by_text("Or try one of these").wait_for()  # the choice is kept


def test_all_of_it_works_by_keyboard(visit):
    page = visit()
    focus = "document.activeElement"

    def go(selector: str, key: str = "Tab") -> None:
        """Press a key until something has the focus; everything on the way shows that it has it."""
        for _ in range(60):
            page.keyboard.press(key)
            assert page.evaluate(f"getComputedStyle({focus}).outlineStyle") != "none"
            if page.evaluate(f"{focus}.matches({selector!r})"):
                return
        pytest.fail(f"{selector} is never reached")

    go(".skip")
    go(f"[data-clip={FLOOR}]")
    page.keyboard.press("Enter")
    page.wait_for_selector(".result")
    go("button.word")
    while "Wort" not in page.evaluate(f"{focus}.textContent"):
        go("button.word", "ArrowRight")
    page.keyboard.press("Enter")
    assert page.evaluate(f"{focus}.textContent") == "Why “Wort”?"
    page.keyboard.press("Escape")
    assert "Wort" in page.evaluate(f"{focus}.textContent")
    go(".adapted + .row button")
    page.keyboard.press("Enter")
    assert page.evaluate(f"{focus}.tagName") == "TEXTAREA"
    page.keyboard.press("Escape")
    assert page.evaluate(f"{focus}.textContent") == "Correct"


def test_a_server_with_keys_asks_for_one(visit, sample, tmp_path):
    keys = (Key("me", SECRET),)
    settings = Settings({"mini": sample.model}, tmp_path, stores=sample.stores, examples=sample.examples, keys=keys)
    with listening(create_app(settings)) as url:
        page = visit(url.replace("127.0.0.1", "localhost"), ready="#key-form:not([hidden])")
        if AXE.is_file():
            assert violations(page) == []
        assert page.locator("#trouble p").count() == 0
        page.fill("#key", "a-wrong-secret")
        page.keyboard.press("Enter")
        page.get_by_text("The server does not accept this key.").wait_for()
        page.fill("#key", SECRET)
        page.keyboard.press("Enter")
        page.wait_for_selector("#key-form", state="hidden")
        page.wait_for_selector(".example")


def test_the_picture_in_the_readme_shows_this_page(visit, tmp_path):
    """NPDA_PICTURE=1 takes it anew."""
    page = visit(viewport={"width": 1280, "height": 1160}, reduced_motion="reduce")
    show(page, "why")
    page.evaluate("document.activeElement.blur(), scrollTo(0, 0)")
    page.mouse.move(0, 0)
    taken = tmp_path / "page.png"
    page.screenshot(path=taken)
    if os.environ.get("NPDA_PICTURE"):
        Image.open(taken).quantize(128).save(PICTURE, optimize=True)
    assert Image.open(PICTURE).size == Image.open(taken).size
    assert PICTURE.stat().st_size < 200_000
    assert "docs/page.png" in (ROOT / "README.md").read_text(encoding="utf-8")
