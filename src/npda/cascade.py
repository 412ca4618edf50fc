"""Two models in a row, the paper's Cascade-ST: a recogniser writes down the speech, another model translates that."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from os import PathLike
from pathlib import Path

import torch

from npda.decoding.beam import Hypothesis, SearchOptions
from npda.decoding.fusion import Fusion
from npda.decoding.retry import search_with_retry
from npda.io.errors import InputError
from npda.models import load_text2text
from npda.models.batches import cut
from npda.models.devices import Precision, choose_device, choose_dtype
from npda.models.inputs import read_batch
from npda.models.text2text import MAX_SOURCE, Text2Text
from npda.translation import Translation
from npda.translator import Audio, Translator

_WINDOW = 512  # transcripts sorted by length before they are cut into batches
_BATCH_TOKENS = 2_048  # padded source tokens in a batch
_BATCH_TEXTS = 64  # in a batch; times the beam, times the vocabulary, they fill memory


@dataclass(frozen=True)
class CascadeTranslation(Translation):
    """transcript: what the recogniser wrote down"""

    transcript: str = ""


def one_line(text: str) -> str:
    """Without white space at the ends, one space between words: what the translator was trained to read."""
    return " ".join(text.split())


class TextTranslator:
    """Text in, text out: a translator of text and the search over it."""

    def __init__(self, model: Text2Text) -> None:
        self.model = model

    @classmethod
    def from_pretrained(
        cls, directory: str | PathLike[str], device: str | torch.device = "auto", precision: Precision = "auto"
    ) -> TextTranslator:
        """device, precision: see ``Translator.from_pretrained``"""
        model, where = load_text2text(Path(directory)), choose_device(device)
        model.place(where, choose_dtype(where, precision))
        return cls(model)

    def translate_texts(
        self,
        texts: Sequence[str],
        options: SearchOptions = SearchOptions(),
        language: str | None = None,
        fusions: Sequence[Fusion] = (),
    ) -> list[list[tuple[str, float]]]:
        """(text, score) of the n best for each source, best first.

        An empty source has an empty translation; one beyond MAX_SOURCE tokens, as a recogniser that cannot stop may
        write, is cut off there.
        """
        results: list[list[tuple[str, float]]] = [[("", 0.0)] for _ in texts]
        sources = [self.model.source.encode(text)[:MAX_SOURCE] for text in texts]
        prompt = self.model.prompt(language)
        for batch in _batches(sources):
            found = self._decode([sources[index] for index in batch], prompt, options, fusions)
            for index, hypotheses in zip(batch, found, strict=True):
                results[index] = [(self.model.target.decode(h.tokens), h.score) for h in hypotheses]
        return results

    @torch.inference_mode()
    def _decode(
        self, sources: list[list[int]], prompt: list[int], options: SearchOptions, fusions: Sequence[Fusion]
    ) -> list[list[Hypothesis]]:
        return search_with_retry(self.model, read_batch(self.model, sources), prompt, options, fusions)


def _batches(sources: Sequence[Sequence[int]]) -> list[list[int]]:
    """Indices of the sources that have tokens, longest first."""
    lengths = [len(source) for source in sources]
    order = sorted((i for i, length in enumerate(lengths) if length), key=lengths.__getitem__, reverse=True)
    return cut(order, lengths, _BATCH_TOKENS, _BATCH_TEXTS)


class Cascade:
    """A recogniser and a translator of text, with the face of a `Translator`.

    recognition: how the recogniser searches; the options of ``translate_all`` are the translator's
    normalize: from what the recogniser writes to what the translator was trained to read
    """

    def __init__(
        self,
        recogniser: Translator,
        translator: TextTranslator,
        recognition: SearchOptions = SearchOptions(),
        normalize: Callable[[str], str] = one_line,
    ) -> None:
        self.recogniser = recogniser
        self.translator = translator
        self.recognition = recognition
        self.normalize = normalize

    @classmethod
    def from_pretrained(
        cls,
        recogniser: str | PathLike[str],
        translator: str | PathLike[str],
        device: str | torch.device = "auto",
        precision: Precision = "auto",
    ) -> Cascade:
        """recogniser: a model directory of ``npda train --task asr``; translator: one of ``npda train-text``

        device, precision: see ``Translator.from_pretrained``
        """
        return cls(
            Translator.from_pretrained(recogniser, device=device, precision=precision),
            TextTranslator.from_pretrained(translator, device, precision),
        )

    def translate(
        self, source: Audio, options: SearchOptions = SearchOptions(), language: str | None = None
    ) -> CascadeTranslation:
        """Translate one file or one array of samples."""
        (translation,) = self.translate_all([source], options, language)
        assert translation is not None  # without on_error, errors are raised
        return translation

    def translate_all(
        self,
        sources: Iterable[Audio],
        options: SearchOptions = SearchOptions(),
        language: str | None = None,
        fusions: Sequence[Fusion] = (),
        on_error: Callable[[InputError], None] | None = None,
    ) -> Iterator[CascadeTranslation | None]:
        """Translate any number of inputs in bounded memory, in their order.

        language: target language; fusions: of the translation, not of the recognition
        on_error: called for an input that cannot be read, which then gives None; without it the error is raised
        """
        heard = self.recogniser.translate_all(sources, self.recognition, on_error=on_error)
        while window := list(islice(heard, _WINDOW)):
            transcripts = [self.normalize(item.text) if item is not None else "" for item in window]
            found = self.translator.translate_texts(transcripts, options, language, fusions)
            for item, transcript, texts in zip(window, transcripts, found, strict=True):
                if item is None:
                    yield None
                    continue
                text, score = texts[0]
                yield CascadeTranslation(text, score, item.duration, item.source, tuple(texts), transcript=transcript)
