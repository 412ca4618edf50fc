"""Recogniser, then translator: the composition of the two, whatever the recogniser writes."""

import numpy as np
import pytest
import soundfile
import tiny
import torch
from tiny_text2text import model

from npda import audio
from npda.cascade import Cascade, TextTranslator
from npda.decoding.beam import SearchOptions
from npda.io.errors import InputError
from npda.models.text2text import MAX_SOURCE
from npda.translation import Translation
from npda.translator import Translator

OPTIONS = SearchOptions(beam=3, max_length=10, n_best=2, stop_loops=False)  # random weights love loops


@pytest.fixture(scope="module")
def sounds(tmp_path_factory):
    """Four files of noise, shorter and longer ones mixed."""
    directory = tmp_path_factory.mktemp("sounds")
    random = np.random.default_rng(0)
    paths = []
    for number, frames in enumerate((90, 140, 60, 120)):
        paths.append(directory / f"{number}.wav")
        soundfile.write(paths[-1], random.normal(0, 0.1, 160 * frames).astype(np.float32), audio.SAMPLE_RATE)
    return paths


def test_is_the_translation_of_the_transcript(sounds, tmp_path):
    recogniser = Translator(tiny.backbone(5))
    tiny.backbone(5).save_pretrained(tmp_path / "asr")
    model().save_pretrained(tmp_path / "text")
    cascade = Cascade.from_pretrained(tmp_path / "asr", tmp_path / "text")
    cascade.recognition, cascade.recogniser.ear = SearchOptions(beam=2, max_length=12), None  # sounds are noise
    text = model()
    found = list(cascade.translate_all(sounds, OPTIONS))
    assert len({t.transcript for t in found if t is not None}) > 1
    for path, translation in zip(sounds, found, strict=True):
        heard = recogniser.translate(path, SearchOptions(beam=2, max_length=12))
        assert translation is not None
        assert translation.transcript == " ".join(heard.text.split())
        ((alone, *_),) = [TextTranslator(text).translate_texts([translation.transcript], OPTIONS)[0]]
        assert translation.text == str(translation) == alone[0]
        assert translation.score == pytest.approx(alone[1], abs=1e-4)
        assert (translation.duration, translation.source) == (heard.duration, str(path))
        assert len(translation.alternatives) == 2
    again = cascade.translate(sounds[1], OPTIONS)
    assert found[1] is not None
    assert again.text == found[1].text


def test_an_unreadable_input_keeps_its_place(sounds, tmp_path):
    cascade = Cascade(Translator(tiny.backbone()), TextTranslator(model()))
    faults: list[InputError] = []
    inputs = [sounds[0], tmp_path / "missing.wav", sounds[1]]
    found = list(cascade.translate_all(inputs, OPTIONS, on_error=faults.append))
    assert [translation is None for translation in found] == [False, True, False]
    assert len(faults) == 1
    with pytest.raises(InputError, match=r"missing\.wav"):
        list(cascade.translate_all(inputs, OPTIONS))


class Scripted(Translator):
    """A recogniser that writes what it is told."""

    def __init__(self, texts: list[str]) -> None:
        self.texts = texts

    def translate_all(self, sources, options=OPTIONS, language=None, fusions=(), on_error=None):
        yield from (Translation(text, -1.0, 2.0, str(source)) for source, text in zip(sources, self.texts, strict=True))


def test_whatever_the_recogniser_writes():
    """Nothing, white space, far too much, or capitals that the translator never saw."""
    endless = "the floor is " * 500
    transcripts = ["", "  \n ", "The floor  is yours. ", endless, "THE FLOOR"]
    translator = TextTranslator(model())
    lower = Cascade(Scripted(transcripts), translator, normalize=lambda text: " ".join(text.lower().split()))
    plain = Cascade(Scripted(transcripts), translator)
    found = list(plain.translate_all("abcde", OPTIONS))
    assert [t.transcript for t in found if t] == ["", "", "The floor is yours.", endless.strip(), "THE FLOOR"]
    assert [(t.text, t.score) for t in found[:2] if t] == [("", 0.0)] * 2
    assert [t.source for t in found if t] == list("abcde")
    assert len(translator.model.source.encode(endless)) > MAX_SOURCE
    cut = translator.model.source.encode(endless)[:MAX_SOURCE]
    with torch.inference_mode():
        assert translator.model.read(torch.tensor([cut]), torch.tensor([MAX_SOURCE])).states.isfinite().all()
    assert found[3] is not None
    assert found[3].text == translator.translate_texts([endless], OPTIONS)[0][0][0]
    lowered = list(lower.translate_all("abcde", OPTIONS))
    assert lowered[4] is not None
    assert lowered[4].text == translator.translate_texts(["the floor"], OPTIONS)[0][0][0]


def test_batches_change_nothing():
    """Many texts at once, in any order, are the texts one by one."""
    translator = TextTranslator(model())
    random = np.random.default_rng(1)
    words = ["the", "floor", "is", "yours", "we", "opened", "window", "door"]
    texts = [" ".join(random.choice(words, random.integers(0, 12))) for _ in range(150)]
    together = translator.translate_texts(texts, OPTIONS)
    assert len({found[0][0] for found in together}) > 5
    for index in range(0, 150, 17):
        (alone,) = translator.translate_texts([texts[index]], OPTIONS)
        assert [text for text, _ in together[index]] == [text for text, _ in alone]
        np.testing.assert_allclose([s for _, s in together[index]], [s for _, s in alone], atol=1e-4)
