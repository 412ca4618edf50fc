"""The site of `make docs`: whole, of itself alone, and searchable where there is no network."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from browser import PROGRAM

ROOT = Path(__file__).parents[1]
PATIENCE = 120_000  # milliseconds


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """Built as strictly as mkdocs.yml asks for: links and anchors that lead nowhere are errors."""
    folder = tmp_path_factory.mktemp("site")
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
def test_every_page_needs_nothing_from_other_hosts(site):
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert not re.findall(r'(?:src|srcset)="(?:https?:)?//[^"]*', text), page.name
        assert not re.findall(r'<link[^>]+href="(?:https?:)?//[^"]*', text), page.name


@pytest.mark.slow
def test_the_reference_names_every_verb_and_every_export(site):
    import npda
    from npda.cli import GROUPS

    commands = (site / "reference" / "commands.html").read_text(encoding="utf-8")
    for verb in (verb for verbs in GROUPS.values() for verb in verbs):
        assert f"npda {verb.__name__.strip('_').replace('_', '-')}" in commands
    python = (site / "reference" / "python.html").read_text(encoding="utf-8")
    for name in npda.__all__:
        assert f'id="{npda._HOME_OF[name]}.{name}"' in python


@pytest.mark.slow
@pytest.mark.skipif(PROGRAM is None, reason="no Chromium on this machine")
def test_the_search_finds_a_word_from_a_disk(site):
    """And a phone shows a page without scrolling to the side."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=PROGRAM, args=["--no-sandbox", "--disable-gpu"])
        page = chromium.new_page(viewport={"width": 1300, "height": 900})
        page.set_default_timeout(PATIENCE)
        page.goto((site / "index.html").as_uri())
        page.click("input.md-search__input")
        page.keyboard.type("counter-store")
        page.wait_for_function("document.querySelector('.md-search-result__meta').innerText.includes('matching')")
        assert page.locator(".md-search-result__item", has_text="Glossary").count() > 0
        page.set_viewport_size({"width": 360, "height": 740})
        for name in ("index", "how-it-works", "adapting", "reference/commands"):
            page.goto((site / f"{name}.html").as_uri())
            assert page.evaluate("document.documentElement.scrollWidth") <= 360, name
        chromium.close()
