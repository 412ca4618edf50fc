"""What the model makes of sentences, read or read aloud; kept in a file, so that no sentence is translated twice."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path

from npda.corpus.manifest import Utterance
from npda.corpus.pairs import Pair
from npda.corpus.recording import clips
from npda.corpus.voices import Voice
from npda.decoding.beam import SearchOptions
from npda.evaluation.devset import DevSet, Way
from npda.io.files import read_lines, write_lines
from npda.io.progress import bar
from npda.models.backbone import Backbone

_TOGETHER = 64  # sentences that are translated before what was found is kept
_NO_TARGET = "."

Translate = Callable[[Sequence[str]], list[str]]


class Outputs:
    """Translations by sentence, in a file that grows while the work goes on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        lines = read_lines(path) if path.is_file() else []
        self._known: dict[str, str] = {}
        for row in csv.reader(lines, delimiter="\t"):
            if len(row) == 2:
                self._known[row[0]] = row[1]

    def of(self, sentences: Iterable[str], translate: Translate, label: str, progress: bool) -> list[tuple[str, str]]:
        """The sentences with their translations; those that the model has no room for are left out."""
        wanted = list(dict.fromkeys(sentences))
        lacking = iter([sentence for sentence in wanted if sentence not in self._known])
        with bar(progress) as display:
            task = display.add_task(label, total=len(wanted), completed=sum(s in self._known for s in wanted), note="")
            while chunk := list(islice(lacking, _TOGETHER)):
                self._known.update(zip(chunk, translate(chunk), strict=True))
                self._save()
                display.advance(task, len(chunk))
        return [(sentence, output) for sentence in wanted if (output := self._known[sentence])]

    def _save(self) -> None:
        text = io.StringIO()
        csv.writer(text, delimiter="\t", lineterminator="\n").writerows(self._known.items())
        write_lines(self._path, text.getvalue().splitlines())


def reading(backbone: Backbone, options: SearchOptions, language: str | None) -> Translate:
    """Sentences go in by the text path."""
    return lambda sentences: _translated(backbone, _numbered(sentences), "text", options, language)


def speaking(backbone: Backbone, voice: Voice, folder: Path, options: SearchOptions, language: str | None) -> Translate:
    """A voice reads sentences aloud, and the model hears them. folder: for the audio"""

    def translate(sentences: Sequence[str]) -> list[str]:
        spoken = [clip for clip in clips(_numbered(sentences), voice, folder) if clip is not None]
        found = _translated(backbone, spoken, "speech", options, language)
        return found + [""] * (len(sentences) - len(found))

    return translate


def _numbered(sentences: Sequence[str]) -> list[Pair]:
    """As pairs whose ids are their places; their translations are not known and not needed."""
    return [Pair(sentence, _NO_TARGET, str(place)) for place, sentence in enumerate(sentences)]


def _translated(
    backbone: Backbone, sentences: Sequence[Pair | Utterance], way: Way, options: SearchOptions, language: str | None
) -> list[str]:
    """By place; "" for those that the model has no room for."""
    texts = [""] * (1 + max((int(sentence.id) for sentence in sentences), default=-1))
    if sentences:
        dev = DevSet(backbone, sentences, way, language)
        for example, text in zip(dev.examples, dev.translations(options), strict=True):
            texts[int(example.sentence.id)] = text
    return texts
