"""A server, a browser with a microphone, and visits to the page. Without a browser, all of it is skipped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
import soundfile
from browser import PROGRAM
from serving_fakes import listening

from npda import audio
from npda.serving.app import create_app
from npda.serving.examples import read_examples
from npda.serving.sample import Sample, make_sample
from npda.serving.settings import Settings

PATIENCE = 400_000  # milliseconds; machines are busy
FLOOR = "parliament-test-00043"  # Our party has the floor on this new paper.
_FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
    "--autoplay-policy=no-user-gesture-required",
    "--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream",
)  # fmt: skip

# What the browser holds against the page is kept where a test can ask for it.
_WATCH = """
  window.violations = [];
  document.addEventListener("securitypolicyviolation", event =>
    window.violations.push(`${event.violatedDirective} ${event.blockedURI}`));
"""

_HOLD = """contents => {
  const held = new DataTransfer();
  for (const [name, bytes] of contents) held.items.add(new File([new Uint8Array(bytes)], name));
  return held;
}"""


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    """What `npda serve` makes for itself."""
    return make_sample(tmp_path_factory.mktemp("sample"), progress=False)


@pytest.fixture(scope="session")
def clips(sample: Sample) -> dict[str, Path]:
    return {example.name: sample.examples / example.file for example in read_examples(sample.examples)}


@pytest.fixture(scope="module")
def served(sample: Sample, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server of the sample."""
    data = tmp_path_factory.mktemp("data")
    settings = Settings({"mini": sample.model}, data, stores=sample.stores, examples=sample.examples)
    with listening(create_app(settings)) as url:
        yield url.replace("127.0.0.1", "localhost")


@pytest.fixture(scope="module")
def browser(clips: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Chromium, whose microphone hears one clip over and over, with pauses.

    It ends with the module: while playwright runs, nobody else in this thread can use asyncio.
    """
    if PROGRAM is None:
        pytest.skip("chromium is not installed: the page is not tested in a browser")
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    said = audio.load(str(clips[FLOOR]))
    heard = tmp_path_factory.mktemp("microphone") / "heard.wav"
    silence = np.zeros(round(1.2 * audio.SAMPLE_RATE), np.float32)
    soundfile.write(heard, np.concatenate([silence, said, silence]), audio.SAMPLE_RATE, subtype="PCM_16")
    flags = [*_FLAGS, f"--use-file-for-fake-audio-capture={heard}"]
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=PROGRAM, args=flags, timeout=PATIENCE)
        yield opened
        opened.close()


@pytest.fixture
def drop() -> Callable[..., None]:
    """Drops files onto a place of the page: ``drop(page, "#drop", path)``."""

    def drop_files(page: Any, place: str, *paths: Path) -> None:
        contents = [(path.name, list(path.read_bytes())) for path in paths]
        held = page.evaluate_handle(_HOLD, contents)
        page.dispatch_event(place, "dragover", {"dataTransfer": held})
        page.dispatch_event(place, "drop", {"dataTransfer": held})

    return drop_files


@pytest.fixture
def visit(browser: Any, served: str) -> Iterator[Callable[..., Any]]:
    """Opens the page, in a context of its own: ``visit(color_scheme="dark", locale="de-DE")``.

    At the end of the test nothing was asked of another host, and the page broke no rule of its policy.
    """
    contexts, pages, foreign, faults = [], [], [], []

    def ask(request: Any) -> None:
        address = urlsplit(request.url)
        if address.scheme not in ("blob", "data") and address.hostname != "localhost":
            foreign.append(request.url)

    def told(message: Any) -> None:
        if "Content Security Policy" in message.text or "Permissions-Policy" in message.text:
            faults.append(message.text)

    def open_page(url: str = served, ready: str = ".example", **options: Any) -> Any:
        context = browser.new_context(**{"locale": "en-US", "viewport": {"width": 1280, "height": 900}, **options})
        contexts.append(context)
        context.set_default_timeout(PATIENCE)
        context.add_init_script(_WATCH)
        page = context.new_page()
        pages.append(page)
        page.on("request", ask)
        page.on("console", told)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto(url)
        page.wait_for_selector(ready)
        return page

    yield open_page
    violations = [violation for page in pages for violation in page.evaluate("window.violations")]
    for context in contexts:
        context.close()
    assert (foreign, violations, faults) == ([], [], [])
