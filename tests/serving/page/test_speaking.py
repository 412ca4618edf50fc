"""The microphone: recordings, and live captions."""

import io

import numpy as np
import soundfile

WORD = "Wort"  # what parliament makes of the floor that the microphone hears of
# Keep the file that is sent.
_KEEP = """() => {
  const ask = window.fetch;
  window.fetch = (url, options) => {
    window.sent = options?.body?.get?.("file") ?? window.sent;
    return ask(url, options);
  };
}"""
# Wait until somebody speaks.
_LOUD = """() => new Promise(resolve => {
  const meter = document.getElementById("meter");
  const look = () => { if (meter.style.getPropertyValue("--level") > 0.5) resolve(); };
  new MutationObserver(look).observe(meter, { attributes: true });
})"""
_REFUSED = """() => {
  navigator.mediaDevices.getUserMedia = async () => { throw new DOMException("no", "NotAllowedError"); };
}"""


def test_what_is_recorded_is_translated(visit):
    page = visit()
    page.evaluate(_KEEP)
    page.click("#record")
    page.evaluate(_LOUD)
    assert page.inner_text("#record").strip() == "Stop"
    assert page.is_disabled("#live")
    page.click("#record")
    page.wait_for_selector(".result")
    assert page.inner_text("#record").strip() == "Record"
    sent = bytes(page.evaluate("async () => [...new Uint8Array(await window.sent.arrayBuffer())]"))
    samples, rate = soundfile.read(io.BytesIO(sent), dtype="float32")
    assert rate == 16_000
    assert np.abs(samples).max() > 0.05


def test_captions_come_while_somebody_speaks(visit):
    page = visit()
    page.click("#live")
    heard = page.locator(".captions .caption", has_text=WORD)
    heard.first.wait_for()  # the microphone goes on, and one time it has been heard as a whole
    assert "parliament" in heard.first.inner_text()
    page.click("#live")
    page.get_by_text("The live captions have ended.").wait_for()
    with page.expect_download() as waiting:
        page.get_by_label("Download srt").click()
    assert WORD in waiting.value.path().read_text(encoding="utf-8")
    page.get_by_role("button", name="Correct: ").first.click()
    page.get_by_label("How it should read").fill("Das Wort hat die Fraktion.")
    page.get_by_role("button", name="Save").click()
    page.locator(".captions .caption", has_text="Das Wort hat die Fraktion.").wait_for()
    assert page.request.delete(f"{page.url}v1/corrections?store=corrections").json() == {"removed": 1}
    page.get_by_text("Translate the recording as a whole").click()
    page.wait_for_selector(".result")


def test_a_microphone_that_is_refused_is_a_sentence(visit):
    page = visit()
    page.evaluate(_REFUSED)
    for button in ("#record", "#live"):
        page.click(button)
        page.get_by_text("The browser may not use the microphone.").wait_for()
        assert page.is_enabled("#record")
        page.click("#trouble button")
