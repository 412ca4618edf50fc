"""From a recording to its translation, and to the sentences behind a word."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from npda import audio

FLOOR = "parliament-test-00043"  # Our party has the floor on this new paper.
CABINET = "parliament-test-00004"  # The cabinet threw out this paper.
WET = "general-test-00079"  # The floor is wet because my daughter cleans the school.
ADAPTED = "Unsere Fraktion hat das Wort zu diesem neuen Dokument."

# Press a button that plays something, and wait until it is over.
_LISTEN = """button => new Promise(resolve => {
  const states = [];
  new MutationObserver(() => {
    if (states.push(button.getAttribute("aria-pressed")) === 2) resolve(states);
  }).observe(button, { attributeFilter: ["aria-pressed"] });
  button.click();
})"""


def upload(page: Any, path: Path) -> None:
    page.set_input_files("#file", path)
    page.wait_for_selector(".result")


def adapted(page: Any) -> str:
    """The words as they are read, without what screen readers are told of them."""
    read = "words => words.map(word => word.firstChild.data ?? '').join(' ').trim()"
    return page.locator(".adapted button.word").evaluate_all(read)


def test_a_floor_becomes_a_word_with_parliament(visit, clips):
    page = visit()
    upload(page, clips[FLOOR])
    base = page.inner_text(".text.base")
    assert "Boden" in base
    assert adapted(page) == ADAPTED
    assert "parliament" in page.inner_text(".head .badge, h4 .badge")
    assert page.locator("del").all_inner_texts() == [word for word in base.split() if word != "hat"]
    word = page.locator(".adapted button.word", has_text="Wort")
    assert {"by-store", "new"} <= set(word.get_attribute("class").split())
    assert "parliament decided" in word.text_content()
    assert "new" not in page.locator(".adapted button.word", has_text="hat").get_attribute("class").split()


def test_everyday_talk_stays_as_it_is(visit, clips, drop):
    page = visit()
    drop(page, "#drop", clips[WET])
    page.wait_for_selector(".result")
    assert adapted(page) == page.inner_text(".text.base")
    assert adapted(page) == "Der Boden ist nass, weil meine Tochter die Schule putzt."
    assert "Both translations are the same." in page.inner_text(".result")


def test_a_word_shows_its_neighbours(visit):
    page = visit()
    page.click(f"[data-clip={FLOOR}]")
    page.wait_for_selector(".result")
    word = page.locator(".adapted button.word", has_text="Wort")
    word.click()
    why = page.locator(".why")
    assert why.locator("h4").inner_text() == "Why “Wort”?"
    assert "The store decided." in why.inner_text()
    nearest = why.locator(".evidence > li.same").first
    assert nearest.locator("mark").inner_text() == "Wort"
    assert "has the floor" in nearest.inner_text()
    assert "parliament" in nearest.locator(".store-name").inner_text()
    distances = [float(found) for found in re.findall(r"distance ([\d.]+)", why.inner_text())]
    assert len(distances) > 1
    assert distances == sorted(distances)
    page.keyboard.press("Escape")
    assert why.count() == 0
    assert word.evaluate("word => word === document.activeElement")


def test_long_recordings_are_heard_and_read_piece_by_piece(visit, clips, tmp_path):
    page = visit()
    silence = np.zeros(2 * audio.SAMPLE_RATE, np.float32)
    pieces = [audio.load(str(clips[FLOOR])), silence, audio.load(str(clips[WET]))]
    soundfile.write(tmp_path / "talk.flac", np.concatenate(pieces), audio.SAMPLE_RATE)
    upload(page, tmp_path / "talk.flac")
    assert page.locator(".segment").count() == 2
    assert adapted(page).startswith(ADAPTED)
    listen = page.locator(".segment button.round").first
    assert listen.evaluate(_LISTEN) == ["true", "false"]  # which ends with the piece


def test_downloads_hold_what_is_shown(visit, clips, tmp_path):
    page = visit()
    upload(page, clips[FLOOR])

    def downloaded(format: str) -> tuple[str, str]:
        with page.expect_download() as waiting:
            page.click(f"[data-format={format}]")
        waiting.value.save_as(tmp_path / format)
        return waiting.value.suggested_filename, (tmp_path / format).read_text(encoding="utf-8")

    name, subtitles = downloaded("srt")
    number, times, *lines = subtitles.strip().splitlines()
    assert (name, number, " ".join(lines)) == (f"{FLOOR}.srt", "1", ADAPTED)
    assert re.fullmatch(r"00:00:0\d,\d{3} --> 00:00:01,\d{3}", times)
    name, subtitles = downloaded("vtt")
    assert name == f"{FLOOR}.vtt"
    assert subtitles.startswith(f"WEBVTT\n\n{times.replace(',', '.')}\n")
    name, answer = downloaded("json")
    assert name == f"{FLOOR}.json"
    assert json.loads(answer)["text"] == ADAPTED


def test_what_goes_wrong_is_a_sentence(visit, clips, drop, tmp_path):
    page = visit()
    (tmp_path / "notes.wav").write_text("These are my notes.")
    page.set_input_files("#file", tmp_path / "notes.wav")
    said = page.locator("#trouble p")
    said.wait_for()
    assert said.inner_text().startswith("notes.wav cannot be read as audio")
    assert page.locator(".empty").count() == 1
    drop(page, "#drop", clips[WET], clips[CABINET])
    page.get_by_text("Drop one file at a time.").wait_for()
    page.click("#trouble button")
    assert said.count() == 0
    page.context.set_offline(True)
    page.set_input_files("#file", clips[CABINET])
    said.wait_for()
    assert said.inner_text() == "The server does not answer. Check that it runs and that you are connected."
    page.context.set_offline(False)
    upload(page, clips[CABINET])
    assert said.count() == 0
    soundfile.write(tmp_path / "silence.wav", np.zeros(audio.SAMPLE_RATE), audio.SAMPLE_RATE)
    page.set_input_files("#file", tmp_path / "silence.wav")
    page.get_by_text("The model hears no speech in this recording").first.wait_for()


def test_a_translation_can_be_cancelled(visit):
    page = visit()
    page.route("**/v1/audio/translations", lambda route: None)  # never answered
    page.click(f"[data-clip={FLOOR}]")
    page.click(".busy button")
    page.wait_for_selector(".empty")
